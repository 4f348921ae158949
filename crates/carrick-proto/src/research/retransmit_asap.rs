//! RTX-ASAP (Iyengar et al. 2006): a retransmission goes out at once wherever there is room. Where
//! several paths have some, it stays on its own, then the fastest is taken (there, any at random).

use core::time::Duration;

use super::{LossSignal, PathView, RetransmissionRoute};
use crate::path::{PathId, alternate_by};

/// Retransmissions to a path with room in its window.
#[derive(Clone, Copy, Debug)]
pub struct RetransmitAsap;

impl RetransmissionRoute for RetransmitAsap {
    fn name(&self) -> &'static str {
        "rtx-asap"
    }

    fn route(
        &self,
        signal: LossSignal,
        last: PathId,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        // After a timeout, the path itself has room only because it was emptied.
        let returns = signal == LossSignal::Timeout;
        alternate_by(last, paths, |p| {
            let other = (p.id == last) == returns;
            (!p.has_room, other, p.srtt.unwrap_or(Duration::MAX))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    #[test]
    fn a_loss_is_repaired_where_there_is_room_and_at_home_if_possible() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, true, 80)];
        let route = |paths: &[PathView], signal| {
            RetransmitAsap.route(signal, PathId(0), &mut paths.iter().copied())
        };
        assert_eq!(route(&paths, LossSignal::MissingReports), PathId(0));
        assert_eq!(route(&paths, LossSignal::Timeout), PathId(1));
        paths[0].has_room = false;
        assert_eq!(route(&paths, LossSignal::MissingReports), PathId(1));
        paths[1].has_room = false;
        assert_eq!(route(&paths, LossSignal::MissingReports), PathId(2));
        paths[2].active = false;
        assert_eq!(route(&paths, LossSignal::MissingReports), PathId(0));
    }
}
