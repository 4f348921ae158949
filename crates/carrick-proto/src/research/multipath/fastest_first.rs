//! Concurrent transfer that prefers fast paths: each packet goes to the fastest path with room in its
//! window. If the windows are the limit, the throughput is that of [`super::RoundRobin`]; with less data, or
//! a smaller receive window, slow paths stay idle and no message waits for their data.

use core::time::Duration;

use super::{DataRoute, PathView};
use crate::path::PathId;

/// Selects the path with the lowest round-trip time among the paths with room.
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
    fn a_slow_path_is_used_if_the_fast_one_is_full() {
        let mut paths = [path(0, true, 100), path(1, true, 10), path(2, true, 1)];
        paths[2].srtt = None;
        let next = |paths: &[PathView]| FastestFirst.next(PathId(1), &mut paths.iter().copied());
        assert_eq!(next(&paths), Some(PathId(1)));
        assert_eq!(next(&[paths[0], paths[2]]), Some(PathId(0)));
        assert_eq!(next(&paths[2..]), Some(PathId(2)), "not measured yet");
    }
}
