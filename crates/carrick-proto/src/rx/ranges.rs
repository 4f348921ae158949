//! Set of indexes as ranges, for indexes that arrive almost in order. An insertion costs a search,
//! whatever order the peer chooses.

use alloc::collections::BTreeMap;

/// Last index of each inclusive range by its first; between two ranges is a gap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of ranges.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.0.last_key_value().map(|(_, last)| *last)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(first, last)| (*first, *last))
    }

    pub(super) fn contains(&self, index: u64) -> bool {
        let before = self.0.range(..=index).next_back();
        before.is_some_and(|(_, last)| *last >= index)
    }

    /// Inserts an index that is not in the set.
    pub(super) fn insert(&mut self, index: u64) {
        let after = self.0.remove(&(index + 1));
        let to = after.unwrap_or(index);
        let before = self.0.range_mut(..index).next_back();
        match before.filter(|(_, last)| **last + 1 == index) {
            Some((_, last)) => *last = to,
            None => {
                self.0.insert(index, to);
            }
        }
    }

    /// Removes indexes that are all in one range.
    pub(super) fn remove(&mut self, first: u64, last: u64) {
        let Some((&from, &to)) = self.0.range(..=first).next_back() else {
            return;
        };
        if to < first {
            return;
        }
        self.0.remove(&from);
        if last < to {
            self.0.insert(last + 1, to);
        }
        if from < first {
            self.0.insert(from, first - 1);
        }
    }

    /// Removes the indexes up to `index`, and those that follow without a gap; returns the last of them,
    /// or `index` itself.
    pub(super) fn take_up_to(&mut self, index: u64) -> u64 {
        let mut to = index;
        while let Some(range) = self.0.first_entry().filter(|r| *r.key() <= to + 1) {
            to = to.max(range.remove());
        }
        to
    }

    /// Removes the indexes up to `index`.
    pub(super) fn forget_up_to(&mut self, index: u64) {
        while let Some(range) = self.0.first_entry().filter(|r| *r.key() <= index) {
            let last = range.remove();
            if last > index {
                self.0.insert(index + 1, last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec((0_u8..4, 0_u64..40, 0_u64..6), 0..80)) {
            let (mut ranges, mut model) = (RangeSet::default(), BTreeSet::new());
            for (what, index, more) in steps {
                prop_assert_eq!(ranges.contains(index), model.contains(&index));
                match what {
                    0 | 1 if !model.contains(&index) => {
                        ranges.insert(index);
                        model.insert(index);
                    }
                    1 if (index..=index + more).all(|i| model.contains(&i)) => {
                        ranges.remove(index, index + more);
                        model.retain(|i| !(index..=index + more).contains(i));
                    }
                    2 => {
                        let run = (index..99).take_while(|i| *i == index || model.contains(i)).last().unwrap_or(index);
                        prop_assert_eq!(ranges.take_up_to(index), run);
                        model.retain(|i| *i > run);
                    }
                    3 => {
                        ranges.forget_up_to(index);
                        model.retain(|i| *i > index);
                    }
                    _ => {}
                }
                let all: Vec<u64> = ranges.iter().flat_map(|(from, to)| from..=to).collect();
                prop_assert!(all.iter().eq(model.iter()));
                let ends: Vec<(u64, u64)> = ranges.iter().collect();
                prop_assert!(ends.windows(2).all(|w| w[0].1 + 1 < w[1].0));
                prop_assert_eq!((ranges.len(), ranges.last()), (ends.len(), model.last().copied()));
            }
        }
    }
}
