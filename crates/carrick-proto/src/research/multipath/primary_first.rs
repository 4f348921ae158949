//! The primary path carries what its window allows, and the others what is left: a network with a fast
//! backup of little capacity, whose queue must stay short for the retransmissions that it is there
//! for. With less data than the primary carries, this is the standard's choice.

use core::time::Duration;

use super::{DataRoute, PathView};
use crate::path::PathId;

/// The primary while it has room, then the path with the lowest round-trip time.
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
    fn the_others_get_what_the_primary_has_no_room_for() {
        let paths = [path(0, true, 100), path(1, true, 10), path(2, true, 1)];
        assert!(paths[0].primary);
        let next = |paths: &[PathView]| PrimaryFirst.next(PathId(1), &mut paths.iter().copied());
        assert_eq!(next(&paths), Some(PathId(0)), "though it is the slowest");
        assert_eq!(next(&paths[1..]), Some(PathId(2)));
        assert_eq!(next(&[]), None);
    }
}
