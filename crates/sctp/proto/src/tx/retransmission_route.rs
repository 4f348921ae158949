//! Path of a retransmission: the rules of RFC 9260 (section 6.4), of other implementations and of papers.

use core::cmp::Reverse;
use core::time::Duration;

use super::loss::LossSignal;
use crate::path::{PathId, PathView, alternate, alternate_by, same_while_usable};
use crate::research::RetransmissionRoute;

impl RetransmissionRoute {
    /// Returns the path for a chunk that was last sent to `last`.
    pub(super) fn route(
        self,
        signal: LossSignal,
        last: PathId,
        mut paths: impl Iterator<Item = PathView>,
    ) -> PathId {
        match self {
            Self::TimeoutsOnAlternate => match signal {
                LossSignal::Timeout => alternate(last, paths),
                LossSignal::MissingReports => same_while_usable(last, paths),
            },
            Self::AllOnAlternate => alternate(last, paths),
            Self::SamePath => same_while_usable(last, paths),
            Self::Asap => {
                // After a timeout, the original path has room only because its data no longer counts as in
                // flight.
                let timeout = signal == LossSignal::Timeout;
                alternate_by(last, paths, |p| {
                    let last_resort = (p.id == last) == timeout;
                    (!p.has_room, last_resort, p.srtt.unwrap_or(Duration::MAX))
                })
            }
            Self::LargestCwnd => alternate_by(last, paths, |p| (Reverse(p.cwnd), p.id != last)),
            Self::LargestSsthresh => alternate_by(last, paths, |p| {
                (Reverse(p.ssthresh), Reverse(p.cwnd), p.id != last)
            }),
            Self::LowestLoss => alternate_by(last, paths, |p| (p.loss_ppm, p.id != last)),
            Self::InTurn => paths
                .find(|p| p.in_turn && p.confirmed)
                .map_or(last, |p| p.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;
    use LossSignal::{MissingReports, Timeout};

    fn route(
        rule: RetransmissionRoute,
        signal: LossSignal,
        last: u8,
        paths: &[PathView],
    ) -> PathId {
        rule.route(signal, PathId(last), paths.iter().copied())
    }

    /// RFC 9260, section 6.4
    #[test]
    fn timeouts_but_not_missing_reports_change_the_path() {
        let paths = [path(0, true, 100), path(1, true, 50)];
        let to = |signal| route(RetransmissionRoute::TimeoutsOnAlternate, signal, 0, &paths);
        assert_eq!(to(Timeout), PathId(1));
        assert_eq!(to(MissingReports), PathId(0));
    }

    /// RFC 9260, section 6.4
    #[test]
    fn a_fast_retransmission_leaves_an_inactive_path() {
        let paths = [path(0, false, 100), path(1, true, 50)];
        let rule = RetransmissionRoute::TimeoutsOnAlternate;
        assert_eq!(route(rule, MissingReports, 0, &paths), PathId(1));
    }

    #[test]
    fn asap_prefers_the_original_path_with_room() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, true, 80)];
        let to = |signal, paths: &_| route(RetransmissionRoute::Asap, signal, 0, paths);
        assert_eq!(to(MissingReports, &paths), PathId(0));
        assert_eq!(to(Timeout, &paths), PathId(1));
        paths[0].has_room = false;
        assert_eq!(to(MissingReports, &paths), PathId(1));
        paths[1].has_room = false;
        assert_eq!(to(MissingReports, &paths), PathId(2));
        paths[2].active = false;
        assert_eq!(to(MissingReports, &paths), PathId(0));
    }

    #[test]
    fn the_active_path_with_the_largest_cwnd_is_used() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, false, 80)];
        let to = |paths: &_| route(RetransmissionRoute::LargestCwnd, Timeout, 1, paths);
        assert_eq!(to(&paths), PathId(1));
        paths[0].cwnd += 1;
        paths[2].cwnd += 1000;
        assert_eq!(to(&paths), PathId(0), "path 2 is inactive");
    }

    #[test]
    fn the_largest_ssthresh_is_preferred_then_cwnd() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, true, 80)];
        let to = |paths: &_| route(RetransmissionRoute::LargestSsthresh, Timeout, 1, paths);
        assert_eq!(to(&paths), PathId(1));
        paths[2].cwnd += 1;
        assert_eq!(to(&paths), PathId(2));
        for path in &mut paths {
            path.ssthresh = 10_000;
        }
        paths[0].ssthresh = 20_000;
        assert_eq!(to(&paths), PathId(0));
    }

    #[test]
    fn the_path_with_the_lowest_loss_rate_is_used() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, true, 80)];
        let to = |paths: &_| route(RetransmissionRoute::LowestLoss, Timeout, 2, paths);
        assert_eq!(to(&paths), PathId(2));
        (paths[0].loss_ppm, paths[1].loss_ppm, paths[2].loss_ppm) = (20, 10, 10_000);
        assert_eq!(to(&paths), PathId(1));
    }

    #[test]
    fn all_retransmissions_use_the_same_path() {
        let mut paths = [path(0, true, 100), path(1, true, 50), path(2, true, 20)];
        let to = |last, paths: &_| route(RetransmissionRoute::InTurn, Timeout, last, paths);
        paths[1].in_turn = true;
        assert_eq!([0, 1, 2].map(|last| to(last, &paths)), [PathId(1); 3]);
        paths[1].confirmed = false;
        assert_eq!(to(2, &paths), PathId(2), "no confirmed path has the turn");
    }
}
