//! Chunks acknowledged as non-renegable (draft-natarajan-tsvwg-sctp-nrsack).
//!
//! Ranges are found by index, so that the cost of an NR-SACK is in proportion to what it reports for the
//! first time; a block that was reported before takes one search.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Outstanding, Ranges};
use crate::path::Paths;
use crate::work_counter::WorkCounter;

/// Indexes of non-renegable chunks above the Cumulative TSN Ack Point.
#[derive(Debug, Default)]
pub(super) struct NonRenegable {
    /// Last index of each range by its first; ranges are not adjacent.
    ranges: BTreeMap<u64, u64>,
    /// Ranges examined.
    work: WorkCounter,
}

impl NonRenegable {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Lowest index.
    pub(super) fn first(&self) -> Option<u64> {
        self.ranges.first_key_value().map(|(first, _)| *first)
    }

    /// Removes all indexes up to this one, which are acknowledged cumulatively.
    pub(super) fn forget_up_to(&mut self, index: u64) {
        while let Some(entry) = self.ranges.first_entry().filter(|e| *e.key() <= index) {
            let last = entry.remove();
            if last > index {
                self.ranges.insert(index + 1, last);
            }
        }
    }

    /// Calls `each` for every range, first and last index, of these indexes that is not contained.
    pub(super) fn each_outside(&self, first: u64, last: u64, mut each: impl FnMut(u64, u64)) {
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
    pub(super) fn add(&mut self, first: u64, last: u64, mut each: impl FnMut(u64, u64)) {
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

impl Outstanding {
    /// Records chunks, all of them acknowledged, as non-renegable, and frees their bytes. Calls `each` with
    /// the message of each chunk and its bytes, if the chunk was renegable before.
    pub(in crate::tx) fn record_non_renegable(
        &mut self,
        reported: &Ranges,
        paths: &mut Paths,
        mut each: impl FnMut(u64, usize),
    ) {
        let mut added = Vec::new();
        for &(first, last) in reported {
            self.non_renegable
                .add(first, last, |from, to| added.push((from, to)));
        }
        for index in added.into_iter().flat_map(|(first, last)| first..=last) {
            if let Some((message, bytes)) = self.release(index, paths) {
                each(message, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn every_second(count: u64) -> NonRenegable {
        let mut set = NonRenegable::default();
        for index in 1..=count {
            set.add(2 * index, 2 * index, |_, _| {});
        }
        set.work.take();
        set
    }

    #[test]
    fn a_repeated_block_costs_one_search() {
        for count in [10, 30_000] {
            let mut set = every_second(count);
            for index in [2, 10, 20] {
                set.add(index, index, |_, _| panic!("no news"));
            }
            assert_eq!(set.work.take(), 3, "{count}");
        }
    }

    #[test]
    fn a_new_block_costs_what_it_joins() {
        for count in [10, 30_000] {
            let mut set = every_second(count);
            let mut news = Vec::new();
            set.add(11, 11, |first, last| news.push((first, last)));
            assert_eq!(news, [(11, 11)]);
            assert!(set.work.take() <= 4, "{count}");
            set.each_outside(9, 15, |first, last| news.push((first, last)));
            assert_eq!(news[1..], [(9, 9), (13, 13), (15, 15)]);
            assert!(set.work.take() <= 5, "{count}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec((1_u64..60, 0_u64..8, 0_u8..3), 0..60)) {
            let mut set = NonRenegable::default();
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
                        set.add(first, last, |from, to| found.extend(from..=to));
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
                let ends: Vec<(u64, u64)> = set.ranges.iter().map(|(a, b)| (*a, *b)).collect();
                prop_assert!(ends.windows(2).all(|w| w[0].1 + 1 < w[1].0));
                let all: BTreeSet<u64> = ends.into_iter().flat_map(|(a, b)| a..=b).collect();
                prop_assert_eq!(&all, &model);
            }
        }
    }
}
