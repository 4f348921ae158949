//! Concurrent transfer in rotation: each packet goes to the next usable path with room in its window. If the
//! congestion windows are the limit, each path carries as much data as its window allows; if the user or
//! the receive window is the limit, all paths carry the same amount.

use super::{DataRoute, PathView};
use crate::path::PathId;

/// Selects the next path with room, in the order of [`PathId`].
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin;

impl DataRoute for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn concurrent(&self) -> bool {
        true
    }

    fn next(&self, last: PathId, candidates: &mut dyn Iterator<Item = PathView>) -> Option<PathId> {
        candidates
            .map(|p| p.id)
            .min_by_key(|id| id.0.wrapping_sub(last.0).wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    #[test]
    fn paths_with_room_are_used_in_rotation() {
        let paths = [0, 1, 4].map(|id| path(id, true, 10));
        let mut last = PathId(1);
        let mut order = [0; 6];
        for place in &mut order {
            last = RoundRobin.next(last, &mut paths.into_iter()).unwrap();
            *place = last.0;
        }
        assert_eq!(order, [4, 0, 1, 4, 0, 1]);
        assert_eq!(
            RoundRobin.next(PathId(4), &mut paths[2..].iter().copied()),
            Some(PathId(4)),
            "the same again if no other has room"
        );
        assert_eq!(RoundRobin.next(last, &mut core::iter::empty()), None);
    }
}
