//! Paper `satellite`, section 4.4.2: SACKs with gap reports take the fastest way back, so that a
//! loss on a long path is known earlier.

use core::time::Duration;

use super::{PathView, SackRoute, SackSituation};
use crate::path::PathId;

/// SACKs that report gaps go over the usable path with the lowest round-trip time, others to the
/// source of the DATA.
#[derive(Clone, Copy, Debug)]
pub struct LowestRttForGapSacks;

impl SackRoute for LowestRttForGapSacks {
    fn name(&self) -> &'static str {
        "lowest-rtt-for-gaps"
    }

    fn route(
        &self,
        situation: &SackSituation,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        if !situation.gaps {
            return situation.source;
        }
        paths
            .filter(PathView::usable)
            .min_by_key(|p| {
                (
                    p.srtt.unwrap_or(Duration::MAX),
                    p.id != situation.source,
                    p.id,
                )
            })
            .map_or(situation.source, |p| p.id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::path;
    use super::*;

    #[test]
    fn only_gap_reports_take_the_fast_path() {
        let paths = [path(0, true, 500), path(1, true, 50), path(2, false, 1)];
        let route = |gaps| {
            let situation = SackSituation {
                source: PathId(0),
                gaps,
                duplicates: false,
            };
            LowestRttForGapSacks.route(&situation, &mut paths.into_iter())
        };
        assert_eq!(route(true), PathId(1));
        assert_eq!(route(false), PathId(0));
    }
}
