//! What the receiver never drops again, for NR-SACK (draft-natarajan-tsvwg-sctp-nrsack): chunks above
//! the cumulative TSN that were handed to the user. All else that waits there may have to make room
//! for what fills a gap, and is reported in gap blocks that say no more than those of a SACK.

use carrick_wire::GapAckBlock;

use super::Receiver;
use super::delivery::Delivery;
use super::ranges::RangeSet;

impl Delivery {
    /// From now on, what is handed over is noted; or nothing is.
    pub(super) fn note_settled(&mut self, note: bool) {
        self.settled = note.then(RangeSet::default);
    }

    /// The chunks of these indexes are handed over.
    pub(super) fn settle(&mut self, first: u64, last: u64) {
        if let Some(settled) = &mut self.settled {
            (first..=last).for_each(|index| settled.insert(index));
        }
    }
}

impl Receiver {
    /// The peer takes NR-SACK.
    pub(crate) fn set_nr_sack(&mut self, on: bool) {
        self.delivery.note_settled(on);
    }

    /// Whether so many blocks and duplicates are enough for an NR-SACK that leaves nothing out. One
    /// that does would say of a chunk that it is missing. `None` is less than 0.
    pub(crate) fn fits_nr_sack(&mut self, entries: Option<usize>) -> bool {
        let cumulative = self.tsns.cumulative_index();
        let (Some(settled), Some(entries)) = (&mut self.delivery.settled, entries) else {
            return false;
        };
        settled.forget_up_to(cumulative);
        if settled.len() > entries {
            // Said at once: there may be tens of thousands.
            return false;
        }
        let others = self.renegable_blocks().take(entries + 1).count();
        others + self.non_renegable_blocks().count() + self.duplicates().count() <= entries
    }

    /// What was handed to the user.
    pub(crate) fn non_renegable_blocks(&self) -> impl Iterator<Item = GapAckBlock> + '_ {
        let settled = self.delivery.settled.iter().flat_map(RangeSet::iter);
        settled.map(|range| self.tsns.block(range))
    }

    /// What else is here.
    pub(crate) fn renegable_blocks(&self) -> impl Iterator<Item = GapAckBlock> + '_ {
        let mut settled = self
            .delivery
            .settled
            .iter()
            .flat_map(RangeSet::iter)
            .peekable();
        let mut arrived = self.tsns.ranges().iter();
        let mut rest = None;
        core::iter::from_fn(move || {
            loop {
                let (first, last) = rest.take().or_else(|| arrived.next())?;
                while settled.next_if(|s| s.1 < first).is_some() {}
                let Some(&(from, to)) = settled.peek().filter(|s| s.0 <= last) else {
                    return Some((first, last));
                };
                rest = (to < last).then_some((to + 1, last));
                if first < from {
                    return Some((first, from - 1));
                }
            }
        })
        .map(|range| self.tsns.block(range))
    }
}
