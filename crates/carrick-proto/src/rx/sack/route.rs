//! The destination of a SACK (RFC 9260, section 6.4): rules of the standard and of papers.

use core::time::Duration;

use crate::path::PathId;
use crate::path::{PathView, alternate};

/// State of the receiver when a SACK is sent.
#[derive(Clone, Copy, Debug)]
pub struct SackSituation {
    /// Path from which the last DATA arrived.
    pub source: PathId,
    /// The SACK reports gaps.
    pub gaps: bool,
    /// The SACK reports duplicate TSNs.
    pub duplicates: bool,
}

/// Rule that selects the path of a SACK.
pub trait SackRoute: Sync {
    /// Name in reports and configuration files.
    fn name(&self) -> &'static str;
    /// Returns the path to send the SACK to. If that path is not confirmed, the SACK goes to the
    /// source of the DATA.
    fn route(&self, situation: &SackSituation, paths: &mut dyn Iterator<Item = PathView>)
    -> PathId;
}

/// SACKs go to the source address of the last DATA (RFC 9260, section 6.4), or from an inactive path
/// to an active one.
///
/// A potentially failed path (RFC 7829) is used: DATA has just arrived from it.
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
        let mut inactive = true;
        let is_source = |p: &PathView| p.id == situation.source;
        let paths = &mut paths.inspect(|p| inactive &= !(is_source(p) && p.confirmed && p.active));
        let other = alternate(situation.source, paths);
        if inactive { other } else { situation.source }
    }
}

/// SACKs that report gaps go to the usable path with the lowest round-trip time, so that the sender
/// learns of a loss on a long path earlier; other SACKs go to the source of the DATA (paper
/// `satellite`, section 4.4.2).
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

/// After duplicates, SACKs go to the next other confirmed path, even an inactive one: the rule with
/// which the association in paper `mobile-ip` failed. It takes duplicates as a sign that SACKs are
/// lost on the path to the source.
#[derive(Clone, Copy, Debug)]
pub struct OtherPathOnDuplicates;

impl SackRoute for OtherPathOnDuplicates {
    fn name(&self) -> &'static str {
        "other-on-duplicates"
    }

    fn route(
        &self,
        situation: &SackSituation,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        if !situation.duplicates {
            return situation.source;
        }
        paths
            .filter(|p| p.confirmed && p.id != situation.source)
            .map(|p| p.id)
            .min()
            .unwrap_or(situation.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    #[test]
    fn only_sacks_with_gaps_take_the_fastest_path() {
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

    #[test]
    fn duplicates_move_the_sack_to_an_inactive_path() {
        let paths = [path(0, false, 100), path(1, true, 50)];
        let route = |duplicates| {
            let situation = SackSituation {
                source: PathId(1),
                gaps: false,
                duplicates,
            };
            OtherPathOnDuplicates.route(&situation, &mut paths.into_iter())
        };
        assert_eq!(route(false), PathId(1));
        assert_eq!(route(true), PathId(0));
    }
}
