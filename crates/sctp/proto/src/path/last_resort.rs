//! Selection of the path for data when every active path is potentially failed (RFC 9260 section 8.2,
//! RFC 7829 sections 3.2 rule 4 and 4.1).

use super::{Path, PathId, Paths};

impl Path {
    /// Returns whether the path has the states of RFC 7829.
    pub(crate) fn fails_over_quickly(&self) -> bool {
        self.thresholds.potentially_failed_max_retrans.is_some()
    }
}

impl Paths {
    /// Some path is fit for data.
    pub(crate) fn any_usable(&self) -> bool {
        self.iter().any(Path::is_usable)
    }

    /// Returns whether any path has the states of RFC 7829.
    pub(crate) fn fails_over_quickly(&self) -> bool {
        self.iter().any(Path::fails_over_quickly)
    }

    /// Returns the path to send to when no path is usable and the last attempt was on `last`: the
    /// potentially failed path with the fewest errors. If no path is potentially failed, the association
    /// is dormant; RFC 9260 then tries the paths in turn, RFC 7829 the path with the fewest errors first.
    /// `None` while any path is usable, or if no path is confirmed.
    pub(crate) fn last_resort(&self, last: PathId) -> Option<PathId> {
        if self.any_usable() {
            return None;
        }
        self.fewest_errors(last, |p| p.confirmed && p.active)
            .or_else(|| {
                let quick = self.fails_over_quickly();
                quick.then(|| self.fewest_errors(last, |p| p.confirmed))?
            })
            .or_else(|| Some(self.next_in_turn(last)).filter(|id| self[*id].confirmed))
    }

    /// The path with the fewest errors; among equals the next behind `last`, which comes last. Errors are
    /// counted up to a limit that differs between the paths: at its limit, a path compares as the worst,
    /// so that those with low limits are not chosen each time.
    fn fewest_errors(&self, last: PathId, is_fit: impl Fn(&Path) -> bool) -> Option<PathId> {
        // Numbers, some of which may be of no path any more, go round.
        let behind = |id: PathId| id.0.wrapping_sub(last.0).wrapping_sub(1);
        self.iter()
            .filter(|p| is_fit(p))
            .min_by_key(|p| {
                let most = p.error_count >= p.thresholds.most_errors();
                let errors = if most { u32::MAX } else { p.error_count };
                (errors, behind(p.id))
            })
            .map(|p| p.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AssociationConfig;
    use crate::route::Route;

    /// Confirmed paths with these errors: with Path.Max.Retrans 5, and potentially failed at once.
    fn paths(quick: bool, errors: &[u32]) -> Paths {
        let config = AssociationConfig::rfc9260()
            .with(|c| c.paths.potentially_failed_max_retrans = quick.then_some(0));
        let mut paths = Paths::new();
        for (i, &count) in errors.iter().enumerate() {
            let host = |last| core::net::IpAddr::from([10, 0, i as u8, last]);
            let id = paths
                .add(Route::plain(host(1), host(2)), true, &config)
                .unwrap();
            let path = &mut paths[id];
            path.error_count = count;
            path.active = count <= 5;
            path.potentially_failed = quick && path.active && count > 0;
        }
        paths
    }

    /// RFC 7829, section 3.2
    #[test]
    fn no_last_resort_while_a_path_is_usable() {
        assert_eq!(paths(true, &[1, 0]).last_resort(PathId(0)), None);
        assert_eq!(paths(false, &[5, 6]).last_resort(PathId(0)), None);
    }

    /// RFC 7829, section 4.1; world 27343.
    #[test]
    fn paths_at_their_error_limits_take_turns() {
        let mut paths = paths(true, &[10, 60, 60]);
        let first = &mut paths[PathId(0)].thresholds;
        first.path_max_retrans = 0;
        assert_eq!(first.most_errors(), 10);
        for (last, next) in [(0, 1), (1, 2), (2, 0)] {
            assert_eq!(paths.last_resort(PathId(last)), Some(PathId(next)));
        }
        paths[PathId(2)].error_count = 59;
        assert_eq!(paths.last_resort(PathId(2)), Some(PathId(2)));
    }

    /// RFC 7829, section 3.2
    #[test]
    fn fewest_errors_select_the_potentially_failed_path() {
        assert_eq!(
            paths(true, &[3, 2, 6, 2]).last_resort(PathId(0)),
            Some(PathId(1))
        );
        assert_eq!(
            paths(true, &[3, 2, 6, 2]).last_resort(PathId(1)),
            Some(PathId(3)),
            "another one among equals"
        );
        assert_eq!(paths(true, &[6, 4]).last_resort(PathId(1)), Some(PathId(1)));
    }

    /// RFC 7829, section 4.1
    #[test]
    fn fewest_errors_select_the_inactive_path() {
        assert_eq!(
            paths(true, &[9, 7, 8]).last_resort(PathId(1)),
            Some(PathId(1))
        );
        assert_eq!(
            paths(true, &[9, 9, 9]).last_resort(PathId(1)),
            Some(PathId(2))
        );
        let mut some = paths(true, &[9, 7]);
        some[PathId(1)].confirmed = false;
        assert_eq!(
            some.last_resort(PathId(0)),
            Some(PathId(0)),
            "never unverified"
        );
        some[PathId(0)].confirmed = false;
        assert_eq!(some.last_resort(PathId(0)), None);
    }

    /// RFC 9260, section 8.2
    #[test]
    fn without_quick_failover_inactive_paths_rotate() {
        let paths = paths(false, &[6, 6, 6]);
        assert_eq!(paths.last_resort(PathId(0)), Some(PathId(1)));
        assert_eq!(paths.last_resort(PathId(2)), Some(PathId(0)));
    }
}
