//! All usable paths carry data at once: each packet goes to the fastest path that has room. What the
//! windows allow is carried as with turns; with less data, or less room at the peer, slow paths
//! stay idle, and nothing waits for what they carry.

use core::time::Duration;

use super::{DataRoute, PathView};
use crate::path::PathId;

/// The path with the lowest round-trip time of those with room.
#[derive(Clone, Copy, Debug)]
pub struct FastestFirst;

impl DataRoute for FastestFirst {
    fn name(&self) -> &'static str {
        "fastest-first"
    }

    fn concurrent(&self) -> bool {
        true
    }

    fn next(&self, _: PathId, candidates: &mut dyn Iterator<Item = PathView>) -> Option<PathId> {
        candidates
            .min_by_key(|p| (p.srtt.unwrap_or(Duration::MAX), p.id))
            .map(|p| p.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    #[test]
    fn the_slow_path_gets_what_the_fast_one_has_no_room_for() {
        let mut paths = [path(0, true, 100), path(1, true, 10), path(2, true, 1)];
        paths[2].srtt = None;
        let next = |paths: &[PathView]| FastestFirst.next(PathId(1), &mut paths.iter().copied());
        assert_eq!(next(&paths), Some(PathId(1)));
        assert_eq!(next(&[paths[0], paths[2]]), Some(PathId(0)));
        assert_eq!(next(&paths[2..]), Some(PathId(2)), "not measured yet");
    }
}
