//! Fast retransmit as RFC 2960 section 7.2.4 had it: a counter for each missing chunk, which every SACK
//! that reports it missing raises, and which begins again with each retransmission.
//!
//! All holes below the highest reported chunk are looked at with each SACK, which the standard's rule
//! avoids.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::path::Paths;
use crate::policy::LossSignal;
use crate::send::outstanding::{ChunkState, Outstanding};

#[derive(Debug)]
pub(crate) struct EveryReport {
    /// Missing reports that are needed.
    threshold: u8,
    /// Reports of each missing chunk since it was last sent, for chunks that have some.
    counts: BTreeMap<u64, u8>,
}

impl EveryReport {
    pub(crate) fn new(missing_reports: u8) -> Self {
        Self {
            threshold: missing_reports,
            counts: BTreeMap::new(),
        }
    }

    /// A SACK reported everything missing below this index that `outstanding` has not as
    /// acknowledged. Marks all chunks that have got their last report; returns them.
    pub(crate) fn on_sack(
        &mut self,
        below: u64,
        outstanding: &mut Outstanding,
        paths: &mut Paths,
    ) -> Vec<u64> {
        let mut index = outstanding.first_index();
        self.counts = self.counts.split_off(&index);
        let mut lost = Vec::new();
        let mut ranges = 0;
        while index < below {
            if let Some(&(from, to)) = outstanding.acked.get(ranges)
                && from <= index
            {
                index = index.max(to + 1);
                ranges += 1;
                continue;
            }
            if self.is_due(index, outstanding)
                && (outstanding.mark(index, LossSignal::MissingReports, paths)
                    || outstanding.misses_abandoned(index))
            {
                lost.push(index);
            }
            index += 1;
        }
        lost
    }

    /// One more report of a chunk that is missing; was it the last that is needed?
    fn is_due(&mut self, index: u64, outstanding: &Outstanding) -> bool {
        let awaited = |state| {
            matches!(
                state,
                ChunkState::InFlight | ChunkState::Abandoned { awaited: true }
            )
        };
        let chunk = outstanding.chunk(index);
        if !chunk.is_some_and(|c| awaited(c.state)) {
            self.counts.remove(&index);
            return false;
        }
        let count = self.counts.entry(index).or_default();
        *count += 1;
        let due = *count >= self.threshold;
        if due {
            self.counts.remove(&index);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use carrick_wire::{Fsn, Mid, Tsn};

    use super::*;
    use crate::send::message::SendOptions;
    use crate::send::outstanding::Tracking;

    const TRACKING: Tracking = Tracking {
        ordered: false,
        repeated: true,
        marked_by_path: false,
    };

    #[test]
    fn what_was_given_up_and_is_not_awaited_is_not_counted() {
        let mut outstanding = Outstanding::new(Tsn::new(1), false, TRACKING);
        let options = SendOptions::default();
        outstanding.push_abandoned_ending(&options, Mid::new(0), Fsn::new(1));
        let mut every = EveryReport::new(3);
        let mut paths = Paths::new();
        for _ in 0..5 {
            let below = outstanding.next_index();
            assert!(
                every
                    .on_sack(below, &mut outstanding, &mut paths)
                    .is_empty()
            );
            assert!(every.counts.is_empty());
        }
    }
}
