//! One path for all retransmissions of an association, used by paper `failover`'s implementation
//! (Linux 2.6): it changes when T3-rtx expires on that path itself, whatever is known of the next one.

use super::{LossSignal, PathView, RetransmissionRoute};
use crate::path::PathId;

/// All retransmissions to the path whose turn it is: at first the one after the primary, then, each
/// time that T3-rtx expires there, the next active one.
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
    fn the_path_in_turn_takes_all_wherever_it_was_lost() {
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
