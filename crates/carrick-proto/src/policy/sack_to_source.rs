//! The standard's choice: a SACK goes to where the DATA came from (RFC 9260 section 6.4), unless
//! that way is known to be dead and another is not.

use super::retransmit_timeouts_on_alternate::same_unless_dead;
use super::{PathView, SackRoute, SackSituation};
use crate::path::PathId;

/// SACKs go to the source address of the last DATA; from a dead path to a live one.
#[derive(Clone, Copy, Debug)]
pub struct SackToSource;

impl SackRoute for SackToSource {
    fn name(&self) -> &'static str {
        "source"
    }

    fn route(
        &self,
        situation: &SackSituation,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        same_unless_dead(situation.source, paths)
    }
}
