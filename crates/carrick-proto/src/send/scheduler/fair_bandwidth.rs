//! Fair bandwidth (RFC 8260 section 3.5): the same number of bytes for all streams that have some.

use super::virtual_clock::VirtualClock;
use super::{Discipline, Rank, Turn};

#[derive(Debug, Default)]
pub(super) struct FairBandwidth {
    clock: VirtualClock,
}

impl Discipline for FairBandwidth {
    fn rank(&self, turn: &Turn) -> Rank {
        VirtualClock::rank(turn)
    }

    fn enter(&mut self, turn: &mut Turn) {
        self.clock.enter(turn);
    }

    fn served(&mut self, turn: &mut Turn, bytes: usize) {
        self.clock.served(turn, bytes, 1);
    }
}
