//! Round robin (RFC 8260 section 3.2): a message of each stream in turn, or a chunk of each with
//! interleaving.

use super::{Discipline, Rank, Turn};

#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    /// Counts turns: who had one goes behind all others.
    turns: u128,
}

impl RoundRobin {
    fn send_back(&mut self, turn: &mut Turn) {
        self.turns += 1;
        turn.clock = self.turns;
    }
}

impl Discipline for RoundRobin {
    fn rank(&self, turn: &Turn) -> Rank {
        Rank(turn.clock, 0)
    }

    fn enter(&mut self, turn: &mut Turn) {
        self.send_back(turn);
    }

    fn served(&mut self, turn: &mut Turn, _bytes: usize) {
        self.send_back(turn);
    }
}
