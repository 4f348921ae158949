//! Which TSNs have arrived: the cumulative TSN, and ranges above it (RFC 9260 sections 3.3.4, 6.7).
//!
//! Inside, a TSN is an index: its distance from the initial TSN, which never wraps.

use alloc::vec::Vec;

use carrick_wire::{GapAckBlock, Tsn};

use super::ranges::RangeSet;

/// Duplicates reported in one SACK at most.
const MAX_DUPLICATES: usize = 64;

/// Gap Ack Blocks count from the cumulative TSN with 16 bits.
const REACH: u32 = 0xffff;

/// Once the numbers changed, a FORWARD-TSN that goes further is from before (RFC 6525 section 5.2.4).
const MAX_FORWARD: u32 = 1 << 30;

/// What a TSN is to the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    New(u64),
    Duplicate,
    /// Too far above the cumulative TSN to be reported in a SACK.
    OutOfReach,
}

#[derive(Debug)]
pub(super) struct TsnMap {
    /// The numbers have changed.
    renumbered: bool,
    cumulative: Tsn,
    /// Index of `cumulative`; the initial TSN has index 1.
    cumulative_index: u64,
    /// Indexes above the one behind the cumulative one.
    ranges: RangeSet,
    duplicates: Vec<Tsn>,
}

impl TsnMap {
    pub(super) fn new(initial: Tsn) -> Self {
        Self {
            renumbered: false,
            cumulative: initial.previous(),
            cumulative_index: 0,
            ranges: RangeSet::default(),
            duplicates: Vec::new(),
        }
    }

    pub(super) fn cumulative(&self) -> Tsn {
        self.cumulative
    }

    pub(super) fn cumulative_index(&self) -> u64 {
        self.cumulative_index
    }

    /// The highest index that has arrived.
    pub(super) fn highest(&self) -> u64 {
        self.ranges.last().unwrap_or(self.cumulative_index)
    }

    pub(super) fn classify(&self, tsn: Tsn) -> Arrival {
        if !tsn.is_after(self.cumulative) {
            return Arrival::Duplicate;
        }
        let ahead = tsn.since(self.cumulative);
        if ahead > REACH {
            return Arrival::OutOfReach;
        }
        let index = self.cumulative_index + u64::from(ahead);
        if self.ranges.contains(index) {
            Arrival::Duplicate
        } else {
            Arrival::New(index)
        }
    }

    /// Notes the arrival of an index that [`Self::classify`] called new.
    pub(super) fn insert(&mut self, index: u64) {
        if index == self.cumulative_index + 1 {
            self.skip_to(index);
        } else {
            self.ranges.insert(index);
        }
    }

    /// The index of a TSN that is within reach, also one below the cumulative TSN.
    pub(super) fn index_of(&self, tsn: Tsn) -> Option<u64> {
        if tsn.is_at_or_after(self.cumulative) {
            let ahead = tsn.since(self.cumulative);
            return (ahead <= REACH).then(|| self.cumulative_index + u64::from(ahead));
        }
        let behind = self.cumulative.since(tsn);
        (behind <= REACH).then(|| self.cumulative_index.saturating_sub(u64::from(behind)))
    }

    /// All up to this index counts as arrived.
    pub(super) fn skip_to(&mut self, index: u64) {
        let to = self.ranges.take_up_to(index);
        if to > self.cumulative_index {
            self.raise(to);
        }
    }

    fn raise(&mut self, to: u64) {
        self.cumulative = self.cumulative.plus((to - self.cumulative_index) as u32);
        self.cumulative_index = to;
    }

    /// The next new chunk has this TSN, and everything before it counts as arrived.
    pub(super) fn renumber(&mut self, next: Tsn) {
        self.renumbered = true;
        self.cumulative_index = self.highest();
        self.cumulative = next.previous();
        self.ranges.clear();
        self.duplicates.clear();
    }

    /// Everything up to this TSN counts as arrived (RFC 3758 section 3.6); returns its index, or
    /// `None` if it is not above the cumulative TSN, or so far that it is from before a renumbering.
    pub(super) fn forward(&mut self, tsn: Tsn) -> Option<u64> {
        let ahead = tsn.since(self.cumulative);
        if !tsn.is_after(self.cumulative) || self.renumbered && ahead >= MAX_FORWARD {
            return None;
        }
        let index = self.cumulative_index + u64::from(ahead);
        self.skip_to(index);
        Some(index)
    }

    /// Takes back the arrival of indexes above the cumulative one (reneging, section 6.2).
    pub(super) fn forget(&mut self, first: u64, last: u64) {
        debug_assert!(first > self.cumulative_index);
        self.ranges.remove(first, last);
    }

    pub(super) fn note_duplicate(&mut self, tsn: Tsn) {
        if self.duplicates.len() < MAX_DUPLICATES {
            self.duplicates.push(tsn);
        }
    }

    pub(super) fn duplicates(&self) -> &[Tsn] {
        &self.duplicates
    }

    pub(super) fn clear_duplicates(&mut self) {
        self.duplicates.clear();
    }

    pub(super) fn has_gaps(&self) -> bool {
        !self.ranges.is_empty()
    }

    pub(super) fn gap_count(&self) -> usize {
        self.ranges.len()
    }

    pub(super) fn gap_ack_blocks(&self) -> impl Iterator<Item = GapAckBlock> + '_ {
        self.ranges.iter().map(|range| self.block(range))
    }

    /// What has arrived above the cumulative TSN.
    pub(super) fn ranges(&self) -> &RangeSet {
        &self.ranges
    }

    /// A range of indexes above the cumulative one.
    pub(super) fn block(&self, (first, last): (u64, u64)) -> GapAckBlock {
        GapAckBlock {
            start: (first - self.cumulative_index) as u16,
            end: (last - self.cumulative_index) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn arrive(map: &mut TsnMap, tsn: u32) -> bool {
        match map.classify(Tsn::new(tsn)) {
            Arrival::New(index) => {
                map.insert(index);
                true
            }
            _ => false,
        }
    }

    #[test]
    fn the_example_of_section_3_3_4() {
        let mut map = TsnMap::new(Tsn::new(10));
        for tsn in [10, 11, 12, 14, 15, 17] {
            assert!(arrive(&mut map, tsn));
        }
        assert_eq!(map.cumulative(), Tsn::new(12));
        let blocks: Vec<_> = map.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
        assert_eq!(blocks, [(2, 3), (5, 5)]);
    }

    #[test]
    fn the_numbers_wrap() {
        let mut map = TsnMap::new(Tsn::new(u32::MAX - 1));
        for tsn in [u32::MAX - 1, 0, 1] {
            assert!(arrive(&mut map, tsn));
        }
        assert_eq!(map.cumulative(), Tsn::new(u32::MAX - 1));
        assert!(arrive(&mut map, u32::MAX));
        assert_eq!(map.cumulative(), Tsn::new(1));
        assert!(!arrive(&mut map, u32::MAX));
    }

    #[test]
    fn what_a_sack_cannot_report_is_out_of_reach() {
        let map = TsnMap::new(Tsn::new(1));
        assert_eq!(map.classify(Tsn::new(0x10000)), Arrival::OutOfReach);
        assert_eq!(map.classify(Tsn::new(0xffff)), Arrival::New(0xffff));
    }

    #[test]
    fn the_example_of_rfc_3758_section_3_6() {
        let mut map = TsnMap::new(Tsn::new(102));
        for tsn in [102, 104, 105, 107] {
            assert!(arrive(&mut map, tsn));
        }
        assert_eq!(map.forward(Tsn::new(103)), Some(2));
        assert_eq!(map.cumulative(), Tsn::new(105));
        let blocks: Vec<_> = map.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
        assert_eq!(blocks, [(2, 2)]);
        assert_eq!(map.forward(Tsn::new(105)), None, "not above");
        assert_eq!(map.forward(Tsn::new(9)), None, "below");
        assert_eq!(map.forward(Tsn::new(107)), Some(6), "the end of a range");
        assert_eq!((map.cumulative(), map.gap_count()), (Tsn::new(107), 0));
    }

    #[test]
    fn a_jump_of_half_the_numbers_is_one_step() {
        let mut map = TsnMap::new(Tsn::new(1));
        assert!(arrive(&mut map, 3));
        let far = Tsn::new(0x7fff_ffff);
        assert_eq!(map.forward(far), Some(0x7fff_ffff));
        assert_eq!((map.cumulative(), map.has_gaps()), (far, false));
        assert!(arrive(&mut map, 0x8000_0000));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(initial: u32, offsets in proptest::collection::vec(0_u32..200, 0..400), forgotten in proptest::collection::vec(0_u64..200, 0..5)) {
            let mut map = TsnMap::new(Tsn::new(initial));
            let mut set = BTreeSet::new();
            for (step, offset) in offsets.iter().enumerate() {
                prop_assert_eq!(arrive(&mut map, initial.wrapping_add(*offset)), set.insert(u64::from(*offset) + 1));
                if step % 50 == 49 {
                    for index in &forgotten {
                        if *index > map.cumulative_index() && set.remove(index) {
                            map.forget(*index, *index);
                        }
                    }
                }
                let cumulative = (1..=set.len() as u64 + 1).find(|i| !set.contains(i)).unwrap_or(1) - 1;
                prop_assert_eq!(map.cumulative_index(), cumulative);
                prop_assert_eq!(map.cumulative(), Tsn::new(initial.wrapping_add(cumulative as u32).wrapping_sub(1)));
                let in_blocks: BTreeSet<u64> = map.gap_ack_blocks().flat_map(|b| u64::from(b.start)..=u64::from(b.end)).map(|o| o + cumulative).collect();
                let above: BTreeSet<u64> = set.iter().copied().filter(|i| *i > cumulative).collect();
                prop_assert_eq!(in_blocks, above);
                prop_assert_eq!(map.highest(), set.last().copied().unwrap_or(0).max(cumulative));
            }
        }
    }
}
