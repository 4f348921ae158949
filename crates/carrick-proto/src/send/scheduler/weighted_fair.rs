//! Weighted fair queueing (RFC 8260 section 3.6): bytes in proportion to the stream's value, its
//! weight.

use super::virtual_clock::VirtualClock;
use super::{Discipline, Rank, Turn};

#[derive(Debug, Default)]
pub(super) struct WeightedFair {
    clock: VirtualClock,
}

impl Discipline for WeightedFair {
    fn rank(&self, turn: &Turn) -> Rank {
        VirtualClock::rank(turn)
    }

    fn enter(&mut self, turn: &mut Turn) {
        self.clock.enter(turn);
    }

    fn served(&mut self, turn: &mut Turn, bytes: usize) {
        self.clock.served(turn, bytes, turn.value);
    }
}
