//! Retransmission routes of Iyengar et al. (2006) that compare the paths by one measure: RTX-CWND,
//! RTX-SSTHRESH and RTX-LOSSRATE.

use core::cmp::Reverse;

use super::{LossSignal, PathView, RetransmissionRoute};
use crate::path::{PathId, alternate_by};

/// Sends retransmissions on the path with the largest cwnd; among equals, on the path of the original.
#[derive(Clone, Copy, Debug)]
pub struct RetransmitOnLargestCwnd;

/// Sends retransmissions on the path with the largest ssthresh, which reflects the losses of a longer period
/// than cwnd does; among equals, with the largest cwnd.
#[derive(Clone, Copy, Debug)]
pub struct RetransmitOnLargestSsthresh;

/// Sends retransmissions on the path with the lowest loss rate among the data recently sent on it.
#[derive(Clone, Copy, Debug)]
pub struct RetransmitOnLowestLoss;

impl RetransmissionRoute for RetransmitOnLargestCwnd {
    fn name(&self) -> &'static str {
        "rtx-cwnd"
    }

    fn route(
        &self,
        _: LossSignal,
        last: PathId,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        alternate_by(last, paths, |p| (Reverse(p.cwnd), p.id != last))
    }
}

impl RetransmissionRoute for RetransmitOnLargestSsthresh {
    fn name(&self) -> &'static str {
        "rtx-ssthresh"
    }

    fn route(
        &self,
        _: LossSignal,
        last: PathId,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        alternate_by(last, paths, |p| {
            (Reverse(p.ssthresh), Reverse(p.cwnd), p.id != last)
        })
    }
}

impl RetransmissionRoute for RetransmitOnLowestLoss {
    fn name(&self) -> &'static str {
        "rtx-lossrate"
    }

    fn route(
        &self,
        _: LossSignal,
        last: PathId,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        alternate_by(last, paths, |p| (p.loss_ppm, p.id != last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    fn route(rule: &dyn RetransmissionRoute, last: u8, paths: &[PathView]) -> PathId {
        rule.route(
            LossSignal::Timeout,
            PathId(last),
            &mut paths.iter().copied(),
        )
    }

    #[test]
    fn the_active_path_with_the_largest_cwnd_is_used() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, false, 80)];
        assert_eq!(route(&RetransmitOnLargestCwnd, 1, &paths), PathId(1));
        paths[0].cwnd += 1;
        paths[2].cwnd += 1000;
        let chosen = route(&RetransmitOnLargestCwnd, 1, &paths);
        assert_eq!(chosen, PathId(0), "the other one is dead");
    }

    #[test]
    fn the_largest_ssthresh_is_preferred_then_cwnd() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, true, 80)];
        let chosen = |paths: &[PathView]| route(&RetransmitOnLargestSsthresh, 1, paths);
        assert_eq!(chosen(&paths), PathId(1));
        paths[2].cwnd += 1;
        assert_eq!(chosen(&paths), PathId(2));
        for path in &mut paths {
            path.ssthresh = 10_000;
        }
        paths[0].ssthresh = 20_000;
        assert_eq!(chosen(&paths), PathId(0));
    }

    #[test]
    fn the_path_with_the_lowest_loss_rate_is_used() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, true, 80)];
        assert_eq!(route(&RetransmitOnLowestLoss, 2, &paths), PathId(2));
        (paths[0].loss_ppm, paths[1].loss_ppm, paths[2].loss_ppm) = (20, 10, 10_000);
        assert_eq!(route(&RetransmitOnLowestLoss, 2, &paths), PathId(1));
    }
}
