//! Set of indexes as ranges, for indexes that are almost in order. An insertion costs a search, and one
//! more for each range that it joins, whatever order the peer chooses.

use alloc::collections::BTreeMap;

use crate::capacity::FreeIfEmpty;
use crate::work_counter::WorkCounter;

/// Limit of the indexes of an import, which no association reaches.
const MAX_IMPORTED: u64 = 1 << 62;

/// Set of indexes.
#[derive(Debug, Default)]
pub(crate) struct RangeSet {
    /// Last index of each inclusive range by its first; between two ranges is a gap.
    ranges: BTreeMap<u64, u64>,
    /// Ranges examined.
    work: WorkCounter,
}

portable_struct! { RangeSet { ranges, work } check Self::is_consistent }

impl RangeSet {
    /// Returns whether the ranges of an import are ascending, with gaps between them.
    fn is_consistent(&self) -> bool {
        let mut free = 0;
        self.ranges.iter().all(|(&first, &last)| {
            let fits = first >= free && first <= last && last < MAX_IMPORTED;
            free = last.saturating_add(2);
            fits
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Frees the memory for ranges if there are none.
    pub(crate) fn free_if_empty(&mut self) {
        self.ranges.free_if_empty();
    }

    pub(crate) fn last(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(_, last)| *last)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(first, last)| (*first, *last))
    }

    pub(crate) fn contains(&self, index: u64) -> bool {
        let before = self.ranges.range(..=index).next_back();
        before.is_some_and(|(_, last)| *last >= index)
    }

    /// Inserts an index that is not in the set.
    pub(crate) fn insert(&mut self, index: u64) {
        let after = self.ranges.remove(&(index + 1));
        let to = after.unwrap_or(index);
        let before = self.ranges.range_mut(..index).next_back();
        match before.filter(|(_, last)| **last + 1 == index) {
            Some((_, last)) => *last = to,
            None => {
                self.ranges.insert(index, to);
            }
        }
    }

    /// Removes indexes that are all in one range.
    pub(crate) fn remove(&mut self, first: u64, last: u64) {
        let Some((&from, &to)) = self.ranges.range(..=first).next_back() else {
            return;
        };
        if to < first {
            return;
        }
        self.ranges.remove(&from);
        if last < to {
            self.ranges.insert(last + 1, to);
        }
        if from < first {
            self.ranges.insert(from, first - 1);
        }
    }

    /// Removes the indexes up to `index`, and those that follow without a gap; returns the last of them,
    /// or `index` itself.
    pub(crate) fn take_up_to(&mut self, index: u64) -> u64 {
        let mut to = index;
        while let Some(range) = self.ranges.first_entry().filter(|r| *r.key() <= to + 1) {
            to = to.max(range.remove());
        }
        to
    }

    /// Removes the indexes up to `index`.
    pub(crate) fn forget_up_to(&mut self, index: u64) {
        while let Some(range) = self.ranges.first_entry().filter(|r| *r.key() <= index) {
            let last = range.remove();
            if last > index {
                self.ranges.insert(index + 1, last);
            }
        }
    }

    /// Lowest index.
    pub(crate) fn first(&self) -> Option<u64> {
        self.ranges.first_key_value().map(|(first, _)| *first)
    }

    /// Calls `each` for every range, first and last index, of these indexes that is not contained.
    pub(crate) fn each_outside(&self, first: u64, last: u64, mut each: impl FnMut(u64, u64)) {
        let mut index = first;
        let before = self.ranges.range(..=first).next_back();
        for (&from, &to) in before
            .into_iter()
            .chain(self.ranges.range(first + 1..=last.max(first + 1)))
        {
            self.work.note();
            if from > last {
                break;
            }
            if from > index {
                each(index, from - 1);
            }
            index = index.max(to + 1);
        }
        if index <= last {
            each(index, last);
        }
    }

    /// Adds these indexes; calls `each` for every range of them that was not contained.
    pub(crate) fn insert_range(&mut self, first: u64, last: u64, mut each: impl FnMut(u64, u64)) {
        let before = self.ranges.range(..=first).next_back();
        if before.is_some_and(|(_, to)| *to >= last) {
            self.work.note();
            return;
        }
        self.each_outside(first, last, &mut each);
        let (mut from, mut to) = (first, last);
        while let Some((&other, &end)) = self.ranges.range(..=last + 1).next_back()
            && end + 1 >= first
        {
            self.work.note();
            self.ranges.remove(&other);
            (from, to) = (from.min(other), to.max(end));
        }
        self.ranges.insert(from, to);
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

    fn every_second(count: u64) -> RangeSet {
        let mut set = RangeSet::default();
        for index in 1..=count {
            set.insert_range(2 * index, 2 * index, |_, _| {});
        }
        set.work.take();
        set
    }

    #[test]
    fn a_repeated_block_costs_one_search() {
        for count in [10, 30_000] {
            let mut set = every_second(count);
            for index in [2, 10, 20] {
                set.insert_range(index, index, |_, _| {
                    panic!("a known range is reported again")
                });
            }
            assert_eq!(set.work.take(), 3, "{count}");
        }
    }

    #[test]
    fn a_new_block_costs_what_it_joins() {
        for count in [10, 30_000] {
            let mut set = every_second(count);
            let mut news = Vec::new();
            set.insert_range(11, 11, |first, last| news.push((first, last)));
            assert_eq!(news, [(11, 11)]);
            assert!(set.work.take() <= 4, "{count}");
            set.each_outside(9, 15, |first, last| news.push((first, last)));
            assert_eq!(news[1..], [(9, 9), (13, 13), (15, 15)]);
            assert!(set.work.take() <= 5, "{count}");
        }
    }

    proptest! {
        #[test]
        fn ranges_agree_with_a_set(steps in proptest::collection::vec((1_u64..60, 0_u64..8, 0_u8..3), 0..60)) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            let mut cumulative = 0;
            for (at, length, what) in steps {
                let (first, last) = (cumulative + at, cumulative + at + length);
                let expected: BTreeSet<u64> = (first..=last).filter(|i| !model.contains(i)).collect();
                let mut found = BTreeSet::new();
                match what {
                    0 => {
                        cumulative += length;
                        set.forget_up_to(cumulative);
                        model.retain(|index| *index > cumulative);
                    }
                    1 => {
                        set.insert_range(first, last, |from, to| found.extend(from..=to));
                        prop_assert_eq!(found, expected);
                        model.extend(first..=last);
                    }
                    _ => {
                        set.each_outside(first, last, |from, to| found.extend(from..=to));
                        prop_assert_eq!(found, expected);
                    }
                }
                prop_assert_eq!(set.first(), model.first().copied());
                prop_assert_eq!(set.is_empty(), model.is_empty());
                let ends: Vec<(u64, u64)> = set.iter().collect();
                prop_assert!(ends.windows(2).all(|w| w[0].1 + 1 < w[1].0));
                let all: BTreeSet<u64> = ends.into_iter().flat_map(|(a, b)| a..=b).collect();
                prop_assert_eq!(&all, &model);
            }
        }
    }
}
