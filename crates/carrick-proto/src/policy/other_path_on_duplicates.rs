//! The rule that lost the association in paper `mobile-ip`: duplicates are taken as a sign that the
//! way back is broken, and the SACK goes to another address, whatever is known of it.

use super::{PathView, SackRoute, SackSituation};
use crate::path::PathId;

/// On duplicates, SACKs go to the next other confirmed path, even an inactive one.
#[derive(Clone, Copy, Debug)]
pub struct OtherPathOnDuplicates;

impl SackRoute for OtherPathOnDuplicates {
    fn name(&self) -> &'static str {
        "other-on-duplicates"
    }

    fn route(
        &self,
        situation: &SackSituation,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        if !situation.duplicates {
            return situation.source;
        }
        paths
            .filter(|p| p.confirmed && p.id != situation.source)
            .map(|p| p.id)
            .min()
            .unwrap_or(situation.source)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::path;
    use super::*;

    #[test]
    fn duplicates_move_the_sack_to_the_other_path_even_if_that_is_dead() {
        let paths = [path(0, false, 100), path(1, true, 50)];
        let route = |duplicates| {
            let situation = SackSituation {
                source: PathId(1),
                gaps: false,
                duplicates,
            };
            OtherPathOnDuplicates.route(&situation, &mut paths.into_iter())
        };
        assert_eq!(route(false), PathId(1));
        assert_eq!(route(true), PathId(0));
    }
}
