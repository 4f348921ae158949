//! Concurrent transfer that prefers the primary path: alternate paths carry only data beyond its window.
//! Intended for networks whose backup path is fast but of low capacity, so that its queue stays short for
//! retransmissions. As long as the primary path can carry all data, the result is that of RFC 9260.

use core::time::Duration;

use super::{DataRoute, PathView};
use crate::path::PathId;

/// Selects the primary path while it has room, then the path with the lowest round-trip time.
#[derive(Clone, Copy, Debug)]
pub struct PrimaryFirst;

impl DataRoute for PrimaryFirst {
    fn name(&self) -> &'static str {
        "primary-first"
    }

    fn concurrent(&self) -> bool {
        true
    }

    fn next(&self, _: PathId, candidates: &mut dyn Iterator<Item = PathView>) -> Option<PathId> {
        candidates
            .min_by_key(|p| (!p.primary, p.srtt.unwrap_or(Duration::MAX), p.id))
            .map(|p| p.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    #[test]
    fn alternates_carry_data_if_the_primary_is_full() {
        let paths = [path(0, true, 100), path(1, true, 10), path(2, true, 1)];
        assert!(paths[0].primary);
        let next = |paths: &[PathView]| PrimaryFirst.next(PathId(1), &mut paths.iter().copied());
        assert_eq!(next(&paths), Some(PathId(0)), "though it is the slowest");
        assert_eq!(next(&paths[1..]), Some(PathId(2)));
        assert_eq!(next(&[]), None);
    }
}
