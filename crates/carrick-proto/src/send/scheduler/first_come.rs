//! First come, first served (RFC 8260 section 3.1): messages leave in the order in which they were
//! given.

use super::{Discipline, Rank, Turn};

#[derive(Debug)]
pub(super) struct FirstCome;

impl Discipline for FirstCome {
    fn rank(&self, turn: &Turn) -> Rank {
        Rank(0, turn.arrival)
    }
}
