//! Path selection of RFC 9260, section 6.4: new data goes to the primary path, or to an alternate path if
//! the primary path is inactive.

use super::{DataRoute, PathView};
use crate::path::PathId;

/// Sends new data on one path at a time.
#[derive(Clone, Copy, Debug)]
pub struct PrimaryOnly;

impl DataRoute for PrimaryOnly {
    fn name(&self) -> &'static str {
        "primary"
    }

    fn concurrent(&self) -> bool {
        false
    }

    fn next(
        &self,
        _: PathId,
        mut candidates: &mut dyn Iterator<Item = PathView>,
    ) -> Option<PathId> {
        Iterator::find(&mut candidates, |p| p.primary).map(|p| p.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::view_tests::path;

    /// RFC 9260, section 6.4
    #[test]
    fn only_the_primary_carries_data() {
        let next = |paths: &[PathView]| PrimaryOnly.next(PathId(1), &mut paths.iter().copied());
        let paths = [path(0, true, 100), path(1, true, 10)];
        assert_eq!(next(&paths), Some(PathId(0)));
        assert_eq!(next(&paths[1..]), None, "it waits for room there");
        assert!(!PrimaryOnly.concurrent());
    }
}
