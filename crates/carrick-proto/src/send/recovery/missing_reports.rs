//! Missing reports, fast retransmit and Fast Recovery (RFC 9260 section 7.2.4).
//!
//! A chunk has been reported missing n times when n SACKs had a Highest TSN Newly Acknowledged
//! (HTNA) above it. So instead of a counter in every chunk, the n highest of these TSNs are kept:
//! below the lowest of them, everything not acknowledged has its n reports.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::looks::Looks;
use crate::path::Paths;
use crate::policy::LossSignal;
use crate::send::outstanding::{ChunkState, Outstanding};

/// Chunks that the peer reneged on whose missing reports are counted, at most: each SACK examines all of
/// them. More wait for T3-rtx.
const MAX_REVOKED: usize = 64;

#[derive(Debug)]
pub(crate) struct MissingReports {
    /// Missing reports that are needed.
    threshold: usize,
    /// A chunk may be fast retransmitted more than once.
    repeated: bool,
    /// The highest HTNAs, descending, at most `threshold` of them.
    highest: Vec<u64>,
    /// Below this index all chunks have been looked at.
    examined: u64,
    /// Chunks that were sent again, after a timeout in the standard's way, with the index that was next at that time:
    /// only reports by SACKs for chunks from there on tell something about the new copy, which is the one with
    /// this number.
    resent: VecDeque<(u64, u64, u32)>,
    /// Chunks that the peer took back, with their missing reports since then; 0 while the SACK that
    /// took them back is processed.
    revoked: BTreeMap<u64, usize>,
    /// Fast Recovery lasts until this index is acknowledged cumulatively.
    exit: Option<u64>,
    /// Chunks of `revoked` examined, for the tests that bound the work.
    pub(in crate::send) looks: Looks,
}

impl MissingReports {
    pub(crate) fn new(missing_reports: u8, repeated: bool) -> Self {
        Self {
            threshold: usize::from(missing_reports),
            repeated,
            highest: Vec::new(),
            examined: 1,
            resent: VecDeque::new(),
            revoked: BTreeMap::new(),
            exit: None,
            looks: Looks::default(),
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.exit.is_some()
    }

    /// The cumulative TSN reached this index; leaves Fast Recovery at its exit point.
    pub(crate) fn on_cumulative(&mut self, index: u64) {
        if self.exit.is_some_and(|exit| index >= exit) {
            self.exit = None;
        }
    }

    /// T3-rtx expired: slow start follows (section 7.2.3), which Fast Recovery would forbid until
    /// all that was outstanding has been sent again, one packet a round trip.
    pub(crate) fn leave(&mut self) {
        self.exit = None;
    }

    /// One SACK reported everything missing below this index.
    pub(crate) fn on_report(&mut self, below: u64) {
        let position = self.highest.partition_point(|h| *h >= below);
        self.highest.insert(position, below);
        self.highest.truncate(self.threshold);
        for (_, reports) in self.revoked.range_mut(..below).filter(|r| *r.1 > 0) {
            *reports += 1;
        }
    }

    /// A chunk is sent again, and may be fast retransmitted then: earlier reports don't count for the
    /// new copy.
    pub(crate) fn on_resent(&mut self, index: u64, copy: u32, next: u64) {
        self.resent.push_back((next, index, copy));
    }

    /// The peer took back an acknowledgement. Earlier SACKs did not report this chunk missing, so
    /// its reports are counted by themselves (section 6.2.1 D iii).
    pub(crate) fn on_revoked(&mut self, index: u64) {
        let room = self.revoked.len() < MAX_REVOKED;
        match self.revoked.get_mut(&index) {
            Some(reports) => *reports = 0,
            None if room => {
                self.revoked.insert(index, 0);
            }
            None => {}
        }
    }

    /// A SACK has been processed: for what it took back, it was the first missing report.
    pub(crate) fn on_sack_end(&mut self) {
        for reports in self.revoked.values_mut() {
            self.looks.note();
            *reports = (*reports).max(1);
        }
    }

    /// Marks all chunks that have got their last missing report; returns them.
    pub(crate) fn detect(&mut self, outstanding: &mut Outstanding, paths: &mut Paths) -> Vec<u64> {
        let mut lost = Vec::new();
        self.detect_revoked(outstanding, paths, &mut lost);
        let Some(&bound) = self.highest.get(self.threshold - 1) else {
            return lost;
        };
        while let Some(&(after, index, copy)) = self.resent.front() {
            if after > bound {
                break;
            }
            self.resent.pop_front();
            // A later copy is not what these reports are about.
            if outstanding
                .chunk(index)
                .is_none_or(|c| c.transmissions != copy)
            {
                continue;
            }
            consider(outstanding, paths, index, self.repeated, &mut lost);
        }
        let mut index = self.examined.max(outstanding.first_index());
        let mut ranges = outstanding.acked.partition_point(|r| r.1 < index);
        while index < bound {
            match outstanding.acked.get(ranges) {
                Some(&(from, to)) if from <= index => {
                    index = to + 1;
                    ranges += 1;
                }
                _ => {
                    // A copy sent after a timeout waits in `resent`.
                    let first_copy = outstanding
                        .chunk(index)
                        .is_some_and(|c| c.transmissions <= 1);
                    if first_copy && !self.revoked.contains_key(&index) {
                        consider(outstanding, paths, index, self.repeated, &mut lost);
                    }
                    index += 1;
                }
            }
        }
        self.examined = self.examined.max(bound);
        lost
    }

    fn detect_revoked(
        &mut self,
        outstanding: &mut Outstanding,
        paths: &mut Paths,
        lost: &mut Vec<u64>,
    ) {
        let (threshold, repeated, looks) = (self.threshold, self.repeated, &self.looks);
        self.revoked.retain(|&index, reports| {
            looks.note();
            let waits = outstanding
                .chunk(index)
                .is_some_and(|c| c.state == ChunkState::InFlight);
            if waits && *reports >= threshold {
                consider(outstanding, paths, index, repeated, lost);
                return false;
            }
            waits
        });
    }

    /// Enters Fast Recovery unless already in it; returns whether it did.
    pub(crate) fn enter(&mut self, highest_outstanding: u64) -> bool {
        if self.exit.is_some() {
            return false;
        }
        self.exit = Some(highest_outstanding);
        true
    }
}

fn consider(
    outstanding: &mut Outstanding,
    paths: &mut Paths,
    index: u64,
    repeated: bool,
    lost: &mut Vec<u64>,
) {
    let eligible = outstanding
        .chunk(index)
        .is_some_and(|c| c.state == ChunkState::InFlight && !c.fast_retransmitted);
    // What was given up is not sent again, but its loss tells the same (RFC 3758 section 3.5 F5).
    if eligible && outstanding.mark(index, LossSignal::MissingReports, paths)
        || outstanding.misses_abandoned(index)
    {
        lost.push(index);
    }
    if repeated {
        outstanding.allow_fast_retransmit_again(index);
    }
}
