//! The path of a retransmission, behind a trait, and RFC 9260's choice (section 6.4): after a timeout to
//! another active path; fast retransmissions to the path of the original.

use super::loss::LossSignal;
use crate::path::{PathId, PathView, alternate, same_unless_dead};

/// Decides where a retransmission goes.
pub trait RetransmissionRoute: Sync {
    /// The name for reports and configuration.
    fn name(&self) -> &'static str;
    /// The path for a chunk that was last sent to `last`. A path that is not confirmed is not
    /// used, whatever this says.
    fn route(
        &self,
        signal: LossSignal,
        last: PathId,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId;
}

/// Timeouts to an alternate path, fast retransmissions to the same one.
#[derive(Clone, Copy, Debug)]
pub struct RetransmitTimeoutsOnAlternate;

impl RetransmissionRoute for RetransmitTimeoutsOnAlternate {
    fn name(&self) -> &'static str {
        "timeouts-on-alternate"
    }

    fn route(
        &self,
        signal: LossSignal,
        last: PathId,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        match signal {
            LossSignal::Timeout => alternate(last, paths),
            LossSignal::MissingReports => same_unless_dead(last, paths),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    #[test]
    fn timeouts_but_not_missing_reports_change_the_path() {
        let paths = [path(0, true, 100), path(1, true, 50)];
        let route =
            |signal| RetransmitTimeoutsOnAlternate.route(signal, PathId(0), &mut paths.into_iter());
        assert_eq!(route(LossSignal::Timeout), PathId(1));
        assert_eq!(route(LossSignal::MissingReports), PathId(0));
    }

    #[test]
    fn a_fast_retransmission_leaves_a_dead_path() {
        let paths = [path(0, false, 100), path(1, true, 50)];
        let to = RetransmitTimeoutsOnAlternate.route(
            LossSignal::MissingReports,
            PathId(0),
            &mut paths.into_iter(),
        );
        assert_eq!(to, PathId(1));
    }
}
