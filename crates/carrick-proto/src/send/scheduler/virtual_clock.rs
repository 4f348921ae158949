//! A clock that counts what streams were served, for fair queueing by start times: the stream that
//! would begin earliest goes first, and its own clock then goes on by what it sent, divided by its
//! weight. Who comes back begins at the present time, so that nobody saves up.

use super::{Rank, Turn};

/// Ticks per byte of a stream with weight 1, so that the largest weight still counts every byte.
const TICKS: u128 = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct VirtualClock {
    /// When what was served last began.
    now: u128,
}

impl VirtualClock {
    pub(super) fn rank(turn: &Turn) -> Rank {
        Rank(turn.clock, turn.arrival)
    }

    pub(super) fn enter(&self, turn: &mut Turn) {
        turn.clock = turn.clock.max(self.now);
    }

    pub(super) fn served(&mut self, turn: &mut Turn, bytes: usize, weight: u16) {
        self.now = self.now.max(turn.clock);
        turn.clock += bytes as u128 * TICKS / u128::from(weight.max(1));
    }
}
