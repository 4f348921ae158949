//! RTX-SSTHRESH (Iyengar et al. 2006): a retransmission goes to the path with the largest slow-start
//! threshold, which reflects the losses of a longer period than the window does.

use core::cmp::Reverse;

use super::{LossSignal, PathView, RetransmissionRoute};
use crate::path::{PathId, alternate_by};

/// Sends retransmissions on the path with the largest ssthresh; among equals, with the largest cwnd.
#[derive(Clone, Copy, Debug)]
pub struct RetransmitOnLargestSsthresh;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    #[test]
    fn the_largest_ssthresh_is_preferred_then_cwnd() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, true, 80)];
        let route = |paths: &[PathView]| {
            let paths = &mut paths.iter().copied();
            RetransmitOnLargestSsthresh.route(LossSignal::Timeout, PathId(1), paths)
        };
        assert_eq!(route(&paths), PathId(1));
        paths[2].cwnd += 1;
        assert_eq!(route(&paths), PathId(2));
        for path in &mut paths {
            path.ssthresh = 10_000;
        }
        paths[0].ssthresh = 20_000;
        assert_eq!(route(&paths), PathId(0));
    }
}
