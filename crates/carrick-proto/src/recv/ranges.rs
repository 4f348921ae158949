//! A set of indexes as ranges, for what comes almost in order.

use alloc::collections::VecDeque;

/// Inclusive ranges, ascending, with gaps between.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct RangeSet(VecDeque<(u64, u64)>);

impl RangeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of ranges.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.0.back().map(|r| r.1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    pub(super) fn contains(&self, index: u64) -> bool {
        let range = self.0.get(self.0.partition_point(|r| r.1 < index));
        range.is_some_and(|r| r.0 <= index)
    }

    /// Adds an index that is not in it.
    pub(super) fn insert(&mut self, index: u64) {
        // Mostly the next one after the highest.
        let position = match self.0.back() {
            Some(last) if last.1 < index => self.0.len(),
            _ => self.0.partition_point(|r| r.1 < index),
        };
        let joins_before = position > 0 && self.0[position - 1].1 + 1 == index;
        let joins_after = self.0.get(position).is_some_and(|r| r.0 == index + 1);
        match (joins_before, joins_after) {
            (true, true) => {
                self.0[position - 1].1 = self.0[position].1;
                self.0.remove(position);
            }
            (true, false) => self.0[position - 1].1 = index,
            (false, true) => self.0[position].0 = index,
            (false, false) => self.0.insert(position, (index, index)),
        }
    }

    /// Takes indexes out, all of which are in one range.
    pub(super) fn remove(&mut self, first: u64, last: u64) {
        let position = self.0.partition_point(|r| r.1 < first);
        let Some(&(from, to)) = self.0.get(position) else {
            return;
        };
        self.0.remove(position);
        if last < to {
            self.0.insert(position, (last + 1, to));
        }
        if from < first {
            self.0.insert(position, (from, first - 1));
        }
    }

    /// Drops what is not above this index; returns the last index that is in the set without a gap
    /// behind it, or the index itself.
    pub(super) fn take_up_to(&mut self, index: u64) -> u64 {
        let mut to = index;
        while let Some(range) = self.0.pop_front_if(|r| r.0 <= to + 1) {
            to = to.max(range.1);
        }
        to
    }

    /// Drops what is not above this index.
    pub(super) fn forget_up_to(&mut self, index: u64) {
        while self.0.pop_front_if(|r| r.1 <= index).is_some() {}
        if let Some(first) = self.0.front_mut() {
            first.0 = first.0.max(index + 1);
        }
    }
}
