//! The standard's choice (RFC 9260 section 6.4): what timed out goes to another active path, fast
//! retransmissions stay on the path of the original.

use super::{LossSignal, PathView, RetransmissionRoute, alternate};
use crate::path::PathId;

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

/// `last` while it is usable, otherwise an alternate.
pub(super) fn same_unless_dead(last: PathId, paths: &mut dyn Iterator<Item = PathView>) -> PathId {
    let mut last_usable = false;
    let other = alternate(
        last,
        &mut paths.inspect(|p| last_usable |= p.id == last && p.usable()),
    );
    if last_usable { last } else { other }
}

#[cfg(test)]
mod tests {
    use super::super::tests::path;
    use super::*;

    #[test]
    fn timeouts_change_the_path_and_fast_retransmissions_do_not() {
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
