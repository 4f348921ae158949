//! RTX-LOSSRATE (Iyengar et al. 2006): a retransmission goes to the path with the lowest loss rate among the
//! data recently sent on it.

use super::{LossSignal, PathView, RetransmissionRoute};
use crate::path::{PathId, alternate_by};

/// Sends retransmissions on the path with the lowest loss rate.
#[derive(Clone, Copy, Debug)]
pub struct RetransmitOnLowestLoss;

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

    #[test]
    fn the_path_with_the_lowest_loss_rate_is_used() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, true, 80)];
        let route = |paths: &[PathView]| {
            let paths = &mut paths.iter().copied();
            RetransmitOnLowestLoss.route(LossSignal::Timeout, PathId(2), paths)
        };
        assert_eq!(route(&paths), PathId(2));
        (paths[0].loss_ppm, paths[1].loss_ppm, paths[2].loss_ppm) = (20, 10, 10_000);
        assert_eq!(route(&paths), PathId(1));
    }
}
