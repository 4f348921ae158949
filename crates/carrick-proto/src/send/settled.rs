//! What the peer will not take back, whatever it says later (draft-natarajan-tsvwg-sctp-nrsack).
//!
//! It is found by index, so that an NR-SACK costs what it tells and not what is known: a block that
//! was told before is one look.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Sender;
use super::ranges::Ranges;
use crate::looks::Looks;
use crate::path::Paths;

/// Indexes above the cumulative one that are settled.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// The last index of each range by its first, with gaps between.
    ranges: BTreeMap<u64, u64>,
    /// Ranges that were looked at, for the tests that bound the work.
    looks: Looks,
}

impl Settled {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest index.
    pub(super) fn first(&self) -> Option<u64> {
        self.ranges.first_key_value().map(|(first, _)| *first)
    }

    /// Everything up to this index is acknowledged cumulatively.
    pub(super) fn forget_up_to(&mut self, index: u64) {
        while let Some(entry) = self.ranges.first_entry().filter(|e| *e.key() <= index) {
            let last = entry.remove();
            if last > index {
                self.ranges.insert(index + 1, last);
            }
        }
    }

    /// Calls `each` for every range, first and last index, of these indexes that is not settled.
    pub(super) fn each_outside(&self, first: u64, last: u64, mut each: impl FnMut(u64, u64)) {
        let mut index = first;
        let before = self.ranges.range(..=first).next_back();
        for (&from, &to) in before
            .into_iter()
            .chain(self.ranges.range(first + 1..=last.max(first + 1)))
        {
            self.looks.note();
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

    /// Settles these indexes; calls `each` for every range of them that was not.
    pub(super) fn add(&mut self, first: u64, last: u64, mut each: impl FnMut(u64, u64)) {
        let before = self.ranges.range(..=first).next_back();
        if before.is_some_and(|(_, to)| *to >= last) {
            self.looks.note();
            return;
        }
        self.each_outside(first, last, &mut each);
        let (mut from, mut to) = (first, last);
        while let Some((&other, &end)) = self.ranges.range(..=last + 1).next_back()
            && end + 1 >= first
        {
            self.looks.note();
            self.ranges.remove(&other);
            (from, to) = (from.min(other), to.max(end));
        }
        self.ranges.insert(from, to);
    }
}

impl Sender {
    /// The peer has these for good, all of which are acknowledged: their bytes are freed.
    pub(super) fn settle_for_good(&mut self, kept: &Ranges, paths: &mut Paths) {
        let mut news = Vec::new();
        for &(first, last) in kept {
            let settled = &mut self.outstanding.settled;
            settled.add(first, last, |from, to| news.push((from, to)));
        }
        for index in news.into_iter().flat_map(|(first, last)| first..=last) {
            if let Some((message, bytes)) = self.outstanding.release(index, paths) {
                self.abandonment.on_settled(message, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn every_second(count: u64) -> Settled {
        let mut settled = Settled::default();
        for index in 1..=count {
            settled.add(2 * index, 2 * index, |_, _| {});
        }
        settled.looks.take();
        settled
    }

    #[test]
    fn a_block_that_was_told_before_is_one_look_however_many_there_are() {
        for count in [10, 30_000] {
            let mut settled = every_second(count);
            for told in [2, 10, 20] {
                settled.add(told, told, |_, _| panic!("no news"));
            }
            assert_eq!(settled.looks.take(), 3, "{count}");
        }
    }

    #[test]
    fn news_cost_what_they_join_however_many_others_there_are() {
        for count in [10, 30_000] {
            let mut settled = every_second(count);
            let mut news = Vec::new();
            settled.add(11, 11, |first, last| news.push((first, last)));
            assert_eq!(news, [(11, 11)]);
            assert!(settled.looks.take() <= 4, "{count}");
            settled.each_outside(9, 15, |first, last| news.push((first, last)));
            assert_eq!(news[1..], [(9, 9), (13, 13), (15, 15)]);
            assert!(settled.looks.take() <= 5, "{count}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec((1_u64..60, 0_u64..8, 0_u8..3), 0..60)) {
            let mut settled = Settled::default();
            let mut model = BTreeSet::new();
            let mut cumulative = 0;
            for (at, length, what) in steps {
                let (first, last) = (cumulative + at, cumulative + at + length);
                let expected: BTreeSet<u64> = (first..=last).filter(|i| !model.contains(i)).collect();
                let mut found = BTreeSet::new();
                match what {
                    0 => {
                        cumulative += length;
                        settled.forget_up_to(cumulative);
                        model.retain(|index| *index > cumulative);
                    }
                    1 => {
                        settled.add(first, last, |from, to| found.extend(from..=to));
                        prop_assert_eq!(found, expected);
                        model.extend(first..=last);
                    }
                    _ => {
                        settled.each_outside(first, last, |from, to| found.extend(from..=to));
                        prop_assert_eq!(found, expected);
                    }
                }
                prop_assert_eq!(settled.first(), model.first().copied());
                prop_assert_eq!(settled.is_empty(), model.is_empty());
                // Ranges have gaps between.
                let ends: Vec<(u64, u64)> = settled.ranges.iter().map(|(a, b)| (*a, *b)).collect();
                prop_assert!(ends.windows(2).all(|w| w[0].1 + 1 < w[1].0));
                let all: BTreeSet<u64> = ends.into_iter().flat_map(|(a, b)| a..=b).collect();
                prop_assert_eq!(&all, &model);
            }
        }
    }
}
