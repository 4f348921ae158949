//! Whether a gap can be the doing of paths with different delays
//! ([`crate::policy::GapSacks::DelayedAcrossPaths`]).

use alloc::vec::Vec;

use crate::path::PathId;

/// A path that brought none of so many chunks is not waited for.
const PATIENCE: u64 = 128;

/// A path that brings data.
#[derive(Clone, Copy, Debug)]
struct Source {
    path: Option<PathId>,
    /// The highest TSN it brought, as an index.
    highest: u64,
    /// The number of the chunk that it brought last.
    last: u64,
}

/// The highest TSN that each path brought.
#[derive(Debug, Default)]
pub(super) struct Sources {
    list: Vec<Source>,
    chunks: u64,
    current: Option<PathId>,
}

impl Sources {
    /// The next chunks come from this path.
    pub(super) fn arrive_on(&mut self, path: Option<PathId>) {
        self.current = path;
    }

    /// A chunk with a new TSN arrived; returns whether the lowest one missing is lost, because every
    /// path has brought a higher one.
    pub(super) fn on_new(&mut self, index: u64, missing: u64) -> bool {
        self.chunks += 1;
        let (path, now) = (self.current, self.chunks);
        self.list.retain(|s| now - s.last <= PATIENCE);
        match self.list.iter_mut().find(|s| s.path == path) {
            Some(source) => {
                source.highest = source.highest.max(index);
                source.last = now;
            }
            None => self.list.push(Source {
                path,
                highest: index,
                last: now,
            }),
        }
        self.list.iter().all(|s| s.highest > missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tsn_is_lost_when_every_path_has_gone_on() {
        let mut sources = Sources::default();
        let mut on_new = |path, index, missing| {
            sources.arrive_on(Some(PathId(path)));
            sources.on_new(index, missing)
        };
        assert!(!on_new(0, 1, 2), "nothing is missing");
        assert!(!on_new(1, 2, 3));
        assert!(!on_new(0, 4, 3), "3 may be on its way on path 1");
        assert!(!on_new(0, 6, 3));
        assert!(on_new(1, 5, 3), "path 1 has gone on to 5");
        assert!(on_new(0, 8, 3));
    }

    #[test]
    fn a_path_that_went_silent_is_not_waited_for() {
        let mut sources = Sources::default();
        sources.arrive_on(Some(PathId(1)));
        sources.on_new(1, 2);
        sources.arrive_on(Some(PathId(0)));
        let first = (3..1000).find(|index| sources.on_new(*index, 2));
        assert_eq!(first, Some(3 + PATIENCE));
        assert_eq!(sources.list.len(), 1);
    }
}
