//! TSNs received: the cumulative TSN and the ranges above it (RFC 9260, sections 3.3.4 and 6.7).
//!
//! A TSN is kept as an index, its distance from the initial TSN, which never wraps.

use crate::range_set::RangeSet;
use carrick_wire::{GapAckBlock, Tsn};

/// Largest distance from the cumulative TSN in a Gap Ack Block (RFC 9260, section 3.3.4).
const MAX_GAP_OFFSET: u32 = 0xffff;

/// Distance from which a FORWARD-TSN is from before a renumbering (RFC 6525, section 5.2.4).
const MAX_FORWARD: u32 = 1 << 30;

/// Status of a received TSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TsnStatus {
    New(u64),
    Duplicate,
    /// Too far above the cumulative TSN to be reported in a SACK.
    BeyondGapAckRange,
}

#[derive(Debug)]
pub(super) struct TsnMap {
    /// TSNs were renumbered (RFC 6525, section 5.2.4).
    renumbered: bool,
    cumulative: Tsn,
    /// Index of `cumulative`; the initial TSN has index 1.
    cumulative_index: u64,
    /// Indexes received above the cumulative one, with a gap before the first.
    ranges: RangeSet,
}

portable_struct! {
    TsnMap { renumbered, cumulative, cumulative_index, ranges }
    check Self::is_consistent
}

impl TsnMap {
    /// Returns whether the TSNs of an import lie above a gap.
    fn is_consistent(&self) -> bool {
        let limit = self.ranges.first().unwrap_or(1 << 62);
        self.cumulative_index.saturating_add(1) < limit
    }

    pub(super) fn new(initial: Tsn) -> Self {
        Self {
            renumbered: false,
            cumulative: initial.previous(),
            cumulative_index: 0,
            ranges: RangeSet::default(),
        }
    }

    pub(super) fn cumulative(&self) -> Tsn {
        self.cumulative
    }

    pub(super) fn cumulative_index(&self) -> u64 {
        self.cumulative_index
    }

    /// Returns the highest index received.
    pub(super) fn highest(&self) -> u64 {
        self.ranges.last().unwrap_or(self.cumulative_index)
    }

    pub(super) fn classify(&self, tsn: Tsn) -> TsnStatus {
        if !tsn.is_after(self.cumulative) {
            return TsnStatus::Duplicate;
        }
        let ahead = tsn.since(self.cumulative);
        if ahead > MAX_GAP_OFFSET {
            return TsnStatus::BeyondGapAckRange;
        }
        let index = self.cumulative_index + u64::from(ahead);
        if self.ranges.contains(index) {
            TsnStatus::Duplicate
        } else {
            TsnStatus::New(index)
        }
    }

    /// Records an index that [`Self::classify`] returned as new.
    pub(super) fn insert(&mut self, index: u64) {
        if index == self.cumulative_index + 1 {
            self.skip_to(index);
        } else {
            self.ranges.insert(index);
        }
    }

    /// Returns the index of a TSN at most 65,535 above or below the cumulative TSN.
    pub(super) fn index_of(&self, tsn: Tsn) -> Option<u64> {
        if tsn.is_at_or_after(self.cumulative) {
            let ahead = tsn.since(self.cumulative);
            return (ahead <= MAX_GAP_OFFSET).then(|| self.cumulative_index + u64::from(ahead));
        }
        let behind = self.cumulative.since(tsn);
        (behind <= MAX_GAP_OFFSET).then(|| self.cumulative_index.saturating_sub(u64::from(behind)))
    }

    /// Records all indexes up to this one as received.
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

    /// Renumbers TSNs: the next new chunk has this TSN, and all indexes so far count as received.
    pub(super) fn renumber(&mut self, next: Tsn) {
        self.renumbered = true;
        self.cumulative_index = self.highest();
        self.cumulative = next.previous();
        self.ranges.clear();
    }

    /// Records all TSNs up to this one as received (RFC 3758, section 3.6); returns its index, or `None`
    /// if it is not above the cumulative TSN, or so far above that it is from before a renumbering.
    pub(super) fn forward(&mut self, tsn: Tsn) -> Option<u64> {
        let ahead = tsn.since(self.cumulative);
        if !tsn.is_after(self.cumulative) || self.renumbered && ahead >= MAX_FORWARD {
            return None;
        }
        let index = self.cumulative_index + u64::from(ahead);
        self.skip_to(index);
        Some(index)
    }

    /// Reneges indexes above the cumulative one (RFC 9260, section 6.2).
    pub(super) fn renege(&mut self, first: u64, last: u64) {
        debug_assert!(first > self.cumulative_index);
        self.ranges.remove(first, last);
    }

    /// Frees the memory for ranges above a gap, if there is none.
    pub(super) fn free_unused_memory(&mut self) {
        self.ranges.free_if_empty();
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

    /// Returns the ranges received above the cumulative index.
    pub(super) fn ranges(&self) -> &RangeSet {
        &self.ranges
    }

    /// Returns the Gap Ack Block of a range of indexes above the cumulative one.
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
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn arrive(map: &mut TsnMap, tsn: u32) -> bool {
        match map.classify(Tsn::new(tsn)) {
            TsnStatus::New(index) => {
                map.insert(index);
                true
            }
            _ => false,
        }
    }

    /// RFC 9260, section 3.3.4.
    #[test]
    fn gap_ack_blocks_are_offsets_of_ranges() {
        let mut map = TsnMap::new(Tsn::new(10));
        for tsn in [10, 11, 12, 14, 15, 17] {
            assert!(arrive(&mut map, tsn));
        }
        assert_eq!(map.cumulative(), Tsn::new(12));
        let blocks: Vec<_> = map.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
        assert_eq!(blocks, [(2, 3), (5, 5)]);
    }

    #[test]
    fn tsns_wrap() {
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
    fn a_tsn_that_no_sack_can_report_is_dropped() {
        let map = TsnMap::new(Tsn::new(1));
        assert_eq!(
            map.classify(Tsn::new(0x10000)),
            TsnStatus::BeyondGapAckRange
        );
        assert_eq!(map.classify(Tsn::new(0xffff)), TsnStatus::New(0xffff));
    }

    /// RFC 3758, section 3.6.
    #[test]
    fn forward_tsn_advances_over_received_tsns() {
        let mut map = TsnMap::new(Tsn::new(102));
        for tsn in [102, 104, 105, 107] {
            assert!(arrive(&mut map, tsn));
        }
        assert_eq!(map.forward(Tsn::new(103)), Some(2));
        assert_eq!(map.cumulative(), Tsn::new(105));
        let blocks: Vec<_> = map.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
        assert_eq!(blocks, [(2, 2)]);
        assert_eq!(
            map.forward(Tsn::new(105)),
            None,
            "not above the cumulative TSN"
        );
        assert_eq!(map.forward(Tsn::new(9)), None, "below the cumulative TSN");
        assert_eq!(map.forward(Tsn::new(107)), Some(6), "the end of a range");
        assert_eq!((map.cumulative(), map.gap_count()), (Tsn::new(107), 0));
    }

    #[test]
    fn forward_tsn_over_half_of_all_tsns_is_one_step() {
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
                            map.renege(*index, *index);
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
