//! RTX-CWND (Iyengar et al. 2006): a retransmission goes to the path with the largest congestion
//! window.

use core::cmp::Reverse;

use super::{LossSignal, PathView, RetransmissionRoute};
use crate::path::{PathId, alternate_by};

/// Sends retransmissions on the path with the largest cwnd; among equals, on the path of the original.
#[derive(Clone, Copy, Debug)]
pub struct RetransmitOnLargestCwnd;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    #[test]
    fn the_active_path_with_the_largest_cwnd_is_used() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, false, 80)];
        let route = |paths: &[PathView]| {
            let paths = &mut paths.iter().copied();
            RetransmitOnLargestCwnd.route(LossSignal::MissingReports, PathId(1), paths)
        };
        assert_eq!(route(&paths), PathId(1));
        paths[0].cwnd += 1;
        paths[2].cwnd += 1000;
        assert_eq!(route(&paths), PathId(0), "the other one is dead");
    }
}
