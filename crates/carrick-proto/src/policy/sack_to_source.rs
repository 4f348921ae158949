//! The standard's choice: a SACK goes to where the DATA came from (RFC 9260 section 6.4), unless
//! that way is known to be dead and another is not. That it is potentially failed says nothing about
//! the way back of DATA that has just come.

use super::{PathView, SackRoute, SackSituation, alternate};
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
        let mut dead = true;
        let is_source = |p: &PathView| p.id == situation.source;
        let paths = &mut paths.inspect(|p| dead &= !(is_source(p) && p.confirmed && p.active));
        let other = alternate(situation.source, paths);
        if dead { other } else { situation.source }
    }
}
