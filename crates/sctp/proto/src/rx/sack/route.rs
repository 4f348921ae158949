//! The destination of a SACK (RFC 9260, section 6.4): rules of the standard and of papers, and their
//! application.

use core::time::Duration;

use super::Receiver;
use crate::config::AssociationConfig;
use crate::path::{PathId, PathView, Paths, alternate, alternate_by};
use crate::research::SackRoute;
use crate::route::Route;

/// State of the receiver when a SACK is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SackSituation {
    /// Path from which the last DATA arrived.
    pub(crate) source: PathId,
    /// The SACK reports gaps.
    pub(crate) gaps: bool,
    /// The SACK reports duplicate TSNs.
    pub(crate) duplicates: bool,
}

impl SackRoute {
    /// Returns the path to send the SACK to.
    pub(crate) fn route(
        self,
        situation: SackSituation,
        paths: impl Iterator<Item = PathView>,
    ) -> PathId {
        let source = situation.source;
        match self {
            Self::Source => {
                let mut inactive = true;
                let is_source = |p: &PathView| p.id == source;
                let paths =
                    paths.inspect(|p| inactive &= !(is_source(p) && p.confirmed && p.active));
                let other = alternate(source, paths);
                if inactive { other } else { source }
            }
            Self::LowestRttForGaps if situation.gaps => {
                let key = |p: &PathView| (p.srtt.unwrap_or(Duration::MAX), p.id != source, p.id);
                alternate_by(source, paths, key)
            }
            Self::OtherOnDuplicates if situation.duplicates => paths
                .filter(|p| p.confirmed && p.id != source)
                .map(|p| p.id)
                .min()
                .unwrap_or(source),
            Self::LowestRttForGaps | Self::OtherOnDuplicates => source,
        }
    }
}

impl Receiver {
    /// Records the source of the chunks that follow, if SACK generation depends on their path.
    #[inline]
    pub(crate) fn note_source(&mut self, route: &Route, paths: &Paths) {
        if let Some(progress) = &mut self.sack.path_progress {
            progress.current = paths.find(route);
        }
    }

    /// Returns the route back to the source of the last packet with DATA.
    pub(crate) fn data_route(&self) -> Option<Route> {
        self.sack.data_route
    }

    /// Sets the route back to the source of a packet with DATA, which the next SACK answers.
    pub(crate) fn set_data_route(&mut self, back: Route) {
        self.sack.data_route = Some(back);
    }

    /// Returns the route of [`Self::data_route`] for a correction.
    pub(crate) fn data_route_mut(&mut self) -> Option<&mut Route> {
        self.sack.data_route.as_mut()
    }

    /// Forgets the route of the last DATA unless it passes: one of its addresses was removed.
    pub(crate) fn keep_data_route_if(&mut self, passes: impl FnOnce(&Route) -> bool) {
        self.sack.data_route = self.sack.data_route.filter(passes);
    }

    /// Returns the path and route of the next SACK.
    ///
    /// 1. Before any DATA: the primary path.
    /// 2. The source of the last DATA, or the primary path if that source is not confirmed.
    /// 3. The path that the association's [`SackRoute`] selects, if it is confirmed.
    /// 4. To the source of the DATA, the SACK leaves from the address to which the DATA was sent (RFC
    ///    9260, section 6.4).
    pub(crate) fn sack_route(&self, paths: &Paths, config: &AssociationConfig) -> (PathId, Route) {
        // Step 1.
        let current = paths.current();
        let Some(route) = self.sack.data_route else {
            return (current, paths[current].route());
        };
        // Step 2.
        let known = paths.find(&route).filter(|p| paths[*p].is_confirmed());
        let source = known.unwrap_or(current);
        // Step 3.
        let situation = SackSituation {
            source,
            gaps: self.has_gaps(),
            duplicates: self.has_duplicates(),
        };
        let rule = config.research.policies.sack_route;
        let chosen = rule.route(situation, paths.views());
        let usable = paths.contains(chosen) && paths[chosen].is_confirmed();
        let chosen = if usable { chosen } else { source };
        // Step 4.
        if Some(chosen) == known {
            return (source, route);
        }
        (chosen, paths[chosen].route())
    }

    /// Returns whether a SACK is pending and its route is that of the data on this path.
    #[inline]
    pub(crate) fn may_bundle_sack(
        &self,
        path: PathId,
        paths: &Paths,
        config: &AssociationConfig,
    ) -> bool {
        if !self.sack_is_pending() {
            return false;
        }
        let (to, route) = self.sack_route(paths, config);
        to == path && route.local == paths[path].local()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    #[test]
    fn only_sacks_with_gaps_take_the_fastest_path() {
        let paths = [path(0, true, 500), path(1, true, 50), path(2, false, 1)];
        let route = |gaps| {
            let situation = SackSituation {
                source: PathId(0),
                gaps,
                duplicates: false,
            };
            SackRoute::LowestRttForGaps.route(situation, paths.into_iter())
        };
        assert_eq!(route(true), PathId(1));
        assert_eq!(route(false), PathId(0));
    }

    #[test]
    fn duplicates_move_the_sack_to_an_inactive_path() {
        let paths = [path(0, false, 100), path(1, true, 50)];
        let route = |duplicates| {
            let situation = SackSituation {
                source: PathId(1),
                gaps: false,
                duplicates,
            };
            SackRoute::OtherOnDuplicates.route(situation, paths.into_iter())
        };
        assert_eq!(route(false), PathId(1));
        assert_eq!(route(true), PathId(0));
    }
}
