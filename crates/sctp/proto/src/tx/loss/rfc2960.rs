//! Fast retransmit as RFC 2960, section 7.2.4, had it: a counter for each missing chunk, which every SACK
//! that reports the chunk missing increments, and which is reset by each retransmission.
//!
//! Each SACK examines all gaps below the highest reported TSN, which the rule of RFC 9260 avoids.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::path::Paths;
use crate::tx::LossSignal;
use crate::tx::outstanding::{ChunkState, Outstanding};

/// Missing-report counters of an association.
#[derive(Debug)]
pub(in crate::tx) struct MissingReportCounters {
    /// Missing reports that are needed.
    threshold: u8,
    /// Reports of each missing chunk since its last transmission; chunks without reports have no entry.
    counts: BTreeMap<u64, u8>,
}

portable_struct! { MissingReportCounters { threshold, counts } }

impl MissingReportCounters {
    pub(crate) fn new(missing_reports: u8) -> Self {
        Self {
            threshold: missing_reports,
            counts: BTreeMap::new(),
        }
    }

    /// Counts a SACK that reports all chunks below this index as missing which are not acknowledged.
    /// Marks the chunks with enough reports; returns them.
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
            if let Some(&(from, to)) = outstanding.reported().get(ranges)
                && from <= index
            {
                index = index.max(to + 1);
                ranges += 1;
                continue;
            }
            if self.count(index, outstanding)
                && (outstanding.mark(index, LossSignal::MissingReports, paths)
                    || outstanding.take_loss_of_abandoned(index))
            {
                lost.push(index);
            }
            index += 1;
        }
        lost
    }

    /// Counts a report of a missing chunk; returns whether it is the last that is needed.
    fn count(&mut self, index: u64, outstanding: &Outstanding) -> bool {
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
    use crate::tx::message::SendOptions;
    use crate::tx::outstanding::Tracking;

    const TRACKING: Tracking = Tracking {
        ordered: false,
        repeated: true,
        marked_by_path: false,
    };

    #[test]
    fn unsent_abandoned_chunks_are_not_counted() {
        let mut outstanding = Outstanding::new(Tsn::new(1), false, TRACKING);
        let options = SendOptions::default();
        outstanding.push_abandoned_ending(&options, Mid::new(0), Fsn::new(1));
        let mut counters = MissingReportCounters::new(3);
        let mut paths = Paths::new();
        for _ in 0..5 {
            let below = outstanding.next_index();
            assert!(
                counters
                    .on_sack(below, &mut outstanding, &mut paths)
                    .is_empty()
            );
            assert!(counters.counts.is_empty());
        }
    }
}
