//! Strict priorities (RFC 8260 section 3.4): the lower the stream's value, the sooner. Equal ones are
//! served first come, first served.

use super::{Discipline, Rank, Turn};

#[derive(Debug)]
pub(super) struct Priority;

impl Discipline for Priority {
    fn rank(&self, turn: &Turn) -> Rank {
        Rank(u128::from(turn.value), turn.arrival)
    }
}
