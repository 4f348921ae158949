//! Round robin per packet (RFC 8260 section 3.3): a packet of each stream in turn. A lost packet
//! delays one stream only.

use super::{Discipline, Rank, Turn};

#[derive(Debug, Default)]
pub(super) struct RoundRobinPerPacket {
    /// Counts packets: who had one goes behind all others.
    turns: u128,
}

impl RoundRobinPerPacket {
    fn send_back(&mut self, turn: &mut Turn) {
        self.turns += 1;
        turn.clock = self.turns;
    }
}

impl Discipline for RoundRobinPerPacket {
    fn rank(&self, turn: &Turn) -> Rank {
        Rank(turn.clock, 0)
    }

    fn enter(&mut self, turn: &mut Turn) {
        self.send_back(turn);
    }

    fn packet_over(&mut self, turn: &mut Turn) {
        self.send_back(turn);
    }
}
