//! One path for all retransmissions of an association, as in Linux 2.6, the implementation of paper
//! `failover`. The path changes when T3-rtx expires on it, regardless of the state of the next path.

use super::{LossSignal, PathView, RetransmissionRoute};
use crate::path::PathId;

/// Sends all retransmissions on one path: initially the path after the primary path, then the next active
/// path each time T3-rtx expires on the current one.
#[derive(Clone, Copy, Debug)]
pub struct RetransmitInTurn;

impl RetransmissionRoute for RetransmitInTurn {
    fn name(&self) -> &'static str {
        "in-turn"
    }

    fn route(
        &self,
        _: LossSignal,
        last: PathId,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        paths
            .filter(|p| p.in_turn && p.confirmed)
            .map(|p| p.id)
            .next()
            .unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    #[test]
    fn all_retransmissions_use_the_same_path() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, true, 20)];
        let route = |last: u8, paths: [PathView; 3]| {
            RetransmitInTurn.route(LossSignal::Timeout, PathId(last), &mut paths.into_iter())
        };
        paths[1].in_turn = true;
        assert_eq!([0, 1, 2].map(|last| route(last, paths)), [PathId(1); 3]);
        paths[1].confirmed = false;
        assert_eq!(route(2, paths), PathId(2), "nowhere else to go");
    }
}
