//! Path of the next packet with new data, by a rule of [`DataRoute`].

use core::time::Duration;

use crate::path::{PathId, PathView};
use crate::research::DataRoute;

impl DataRoute {
    /// Returns the path for the next packet after a packet to `last`; `None` delays the data. The
    /// `candidates` are the usable paths with room in their windows, ordered by [`PathId`].
    pub(crate) fn next(
        self,
        last: PathId,
        mut candidates: impl Iterator<Item = PathView>,
    ) -> Option<PathId> {
        let rtt = |p: &PathView| p.srtt.unwrap_or(Duration::MAX);
        let path = match self {
            Self::PrimaryOnly => candidates.find(|p| p.primary),
            Self::PrimaryFirst => candidates.min_by_key(|p| (!p.primary, rtt(p), p.id)),
            Self::RoundRobin => {
                candidates.min_by_key(|p| p.id.0.wrapping_sub(last.0).wrapping_sub(1))
            }
            Self::FastestFirst => candidates.min_by_key(|p| (rtt(p), p.id)),
        };
        path.map(|p| p.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    fn next(rule: DataRoute, last: u8, paths: &[PathView]) -> Option<PathId> {
        rule.next(PathId(last), paths.iter().copied())
    }

    /// RFC 9260, section 6.4
    #[test]
    fn only_the_primary_carries_data() {
        let rule = DataRoute::PrimaryOnly;
        let paths = [path(0, true, 100), path(1, true, 10)];
        assert_eq!(next(rule, 1, &paths), Some(PathId(0)));
        assert_eq!(next(rule, 1, &paths[1..]), None, "the primary has no room");
        assert!(!rule.concurrent());
    }

    #[test]
    fn alternates_carry_data_if_the_primary_is_full() {
        let rule = DataRoute::PrimaryFirst;
        let paths = [path(0, true, 100), path(1, true, 10), path(2, true, 1)];
        assert!(paths[0].primary);
        assert_eq!(
            next(rule, 1, &paths),
            Some(PathId(0)),
            "although the slowest"
        );
        assert_eq!(next(rule, 1, &paths[1..]), Some(PathId(2)));
        assert_eq!(next(rule, 1, &[]), None);
    }

    #[test]
    fn paths_with_room_are_used_in_rotation() {
        let rule = DataRoute::RoundRobin;
        let paths = [0, 1, 4].map(|id| path(id, true, 10));
        let mut last = 1;
        let mut order = [0; 6];
        for place in &mut order {
            last = next(rule, last, &paths).unwrap().0;
            *place = last;
        }
        assert_eq!(order, [4, 0, 1, 4, 0, 1]);
        let only = next(rule, 4, &paths[2..]);
        assert_eq!(only, Some(PathId(4)), "the only path with room");
        assert_eq!(next(rule, last, &[]), None);
    }

    #[test]
    fn a_slow_path_is_used_if_the_fast_one_is_full() {
        let rule = DataRoute::FastestFirst;
        let mut paths = [path(0, true, 100), path(1, true, 10), path(2, true, 1)];
        paths[2].srtt = None;
        assert_eq!(next(rule, 1, &paths), Some(PathId(1)));
        assert_eq!(next(rule, 1, &[paths[0], paths[2]]), Some(PathId(0)));
        assert_eq!(
            next(rule, 1, &paths[2..]),
            Some(PathId(2)),
            "no RTT measured"
        );
    }
}
