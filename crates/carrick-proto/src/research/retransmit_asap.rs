//! RTX-ASAP (Iyengar et al. 2006): a retransmission is sent at once on any path with room in its window. If
//! several paths have room, the path of the original is preferred, then the fastest path (in the paper, a
//! random one).

use core::time::Duration;

use super::{LossSignal, PathView, RetransmissionRoute};
use crate::path::{PathId, alternate_by};

/// Sends retransmissions on a path with room in its window.
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
        // After a timeout, the original path has room only because its data no longer counts as in flight.
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
    fn retransmissions_prefer_the_original_path_with_room() {
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
