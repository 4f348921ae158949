//! Chunks marked for retransmission, by index; with concurrent multipath transfer also by the path on which
//! they were lost, so that a path without room delays no other.

use alloc::collections::BTreeSet;

use crate::capacity::FreeIfEmpty;
use crate::path::PathId;

/// Indexes of the chunks marked for retransmission.
#[derive(Debug, Default)]
pub(super) struct MarkedChunks {
    all: BTreeSet<u64>,
    by_path: Option<BTreeSet<(PathId, u64)>>,
}

impl MarkedChunks {
    pub(super) fn new(by_path: bool) -> Self {
        Self {
            all: BTreeSet::new(),
            by_path: by_path.then(BTreeSet::new),
        }
    }

    /// Frees the memory for marked chunks if there are none.
    pub(super) fn free_if_empty(&mut self) {
        self.all.free_if_empty();
        if let Some(by_path) = &mut self.by_path {
            by_path.free_if_empty();
        }
    }

    /// Adds a chunk that was last sent on this path.
    pub(super) fn insert(&mut self, index: u64, path: PathId) {
        self.all.insert(index);
        if let Some(by_path) = &mut self.by_path {
            by_path.insert((path, index));
        }
    }

    pub(super) fn remove(&mut self, index: u64, path: PathId) {
        if self.all.remove(&index)
            && let Some(by_path) = &mut self.by_path
        {
            by_path.remove(&(path, index));
        }
    }

    /// Moves a chunk to another path.
    pub(super) fn moved(&mut self, index: u64, from: PathId, to: PathId) {
        if let Some(by_path) = &mut self.by_path
            && by_path.remove(&(from, index))
        {
            by_path.insert((to, index));
        }
    }

    /// Moves all chunks to a path.
    pub(super) fn all_moved(&mut self, to: PathId) {
        if let Some(by_path) = &mut self.by_path {
            *by_path = self.all.iter().map(|index| (to, *index)).collect();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.all.iter().copied()
    }

    /// Lowest chunk from an index on, of one path if paths are recorded.
    pub(super) fn next(&self, of: Option<PathId>, from: u64) -> Option<u64> {
        match (of, &self.by_path) {
            (Some(path), Some(by_path)) => by_path
                .range((path, from)..=(path, u64::MAX))
                .next()
                .map(|m| m.1),
            _ => self.all.range(from..).next().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_found_by_path() {
        let mut marked = MarkedChunks::new(true);
        for (index, path) in [(4, 1), (2, 0), (9, 1), (7, 0)] {
            marked.insert(index, PathId(path));
        }
        assert_eq!(marked.next(None, 0), Some(2));
        assert_eq!(marked.next(Some(PathId(1)), 0), Some(4));
        assert_eq!(marked.next(Some(PathId(1)), 5), Some(9));
        assert_eq!(marked.next(Some(PathId(2)), 0), None);
        marked.moved(7, PathId(0), PathId(2));
        assert_eq!(marked.next(Some(PathId(2)), 0), Some(7));
        marked.remove(2, PathId(0));
        assert_eq!(marked.next(Some(PathId(0)), 0), None);
        marked.all_moved(PathId(5));
        assert_eq!(marked.next(Some(PathId(5)), 5), Some(7));
        assert_eq!(marked.iter().collect::<alloc::vec::Vec<_>>(), [4, 7, 9]);
    }

    #[test]
    fn without_paths_all_chunks_are_one_list() {
        let mut marked = MarkedChunks::new(false);
        marked.insert(3, PathId(1));
        assert_eq!(marked.next(Some(PathId(0)), 0), Some(3));
        marked.remove(3, PathId(7));
        assert!(marked.is_empty());
    }
}
