//! Missing reports, fast retransmit and Fast Recovery (RFC 9260, section 7.2.4).
//!
//! A chunk has been reported missing n times when n SACKs had a Highest TSN Newly Acknowledged
//! (HTNA) above it. So the n highest of these TSNs are kept instead of a counter for each chunk: what
//! is not acknowledged below the lowest of them has its n reports.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::path::Paths;
use crate::tx::LossSignal;
use crate::tx::outstanding::{ChunkState, Outstanding};
use crate::work_counter::WorkCounter;

/// Limit of the chunks reneged on whose missing reports are counted, since each SACK examines all of
/// them. Others are left to T3-rtx.
const MAX_RENEGED: usize = 64;

/// Missing reports of an association.
#[derive(Debug)]
pub(in crate::tx) struct MissingReports {
    /// Missing reports that are needed.
    threshold: usize,
    /// Chunks may be fast retransmitted more than once.
    repeated: bool,
    /// The highest HTNAs, descending, at most `threshold` of them.
    highest: Vec<u64>,
    /// Index below which all chunks have been examined.
    examined: u64,
    /// Retransmitted chunks that may be fast retransmitted: the index that was next at that time, the
    /// chunk, and the number of its transmissions. Only SACKs for chunks from that index on are
    /// reports about this transmission.
    retransmitted: VecDeque<(u64, u64, u32)>,
    /// Chunks that the peer reneged on, with their missing reports since; 0 while the SACK that
    /// reneged is processed.
    reneged: BTreeMap<u64, usize>,
    /// Exit point of Fast Recovery.
    exit: Option<u64>,
    /// Chunks of `reneged` examined.
    pub(in crate::tx) work: WorkCounter,
}

portable_struct! {
    MissingReports {
        threshold, repeated, highest, examined, retransmitted, reneged, exit, work,
    }
}

impl MissingReports {
    pub(crate) fn new(missing_reports: u8, repeated: bool) -> Self {
        Self {
            threshold: usize::from(missing_reports),
            repeated,
            highest: Vec::new(),
            examined: 1,
            retransmitted: VecDeque::new(),
            reneged: BTreeMap::new(),
            exit: None,
            work: WorkCounter::default(),
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.exit.is_some()
    }

    /// Leaves Fast Recovery when the Cumulative TSN Ack Point reaches the exit point.
    pub(crate) fn on_cumulative(&mut self, index: u64) {
        if self.exit.is_some_and(|exit| index >= exit) {
            self.exit = None;
        }
    }

    /// Leaves Fast Recovery because T3-rtx expired: slow start follows (section 7.2.3), and in Fast
    /// Recovery cwnd could not grow until all that was outstanding has been sent again.
    pub(crate) fn leave(&mut self) {
        self.exit = None;
    }

    /// Frees the memory for reports: no chunk is outstanding, and later ones are above all reports.
    pub(in crate::tx) fn free_unused_memory(&mut self) {
        self.highest = Vec::new();
        self.retransmitted = VecDeque::new();
        self.reneged.clear();
    }

    /// Records a SACK that reports everything missing below this index.
    pub(crate) fn on_report(&mut self, below: u64) {
        let position = self.highest.partition_point(|h| *h >= below);
        self.highest.insert(position, below);
        self.highest.truncate(self.threshold);
        for (_, reports) in self.reneged.range_mut(..below).filter(|r| *r.1 > 0) {
            *reports += 1;
        }
    }

    /// Records a retransmission that may be followed by a fast retransmission: earlier reports do not
    /// count for it.
    pub(crate) fn on_retransmission(&mut self, index: u64, copy: u32, next: u64) {
        self.retransmitted.push_back((next, index, copy));
    }

    /// Records a chunk that the peer reneged on. Earlier SACKs did not report it missing, so its reports
    /// are counted separately (section 6.2.1, D iii).
    pub(crate) fn on_reneged(&mut self, index: u64) {
        let room = self.reneged.len() < MAX_RENEGED;
        match self.reneged.get_mut(&index) {
            Some(reports) => *reports = 0,
            None if room => {
                self.reneged.insert(index, 0);
            }
            None => {}
        }
    }

    /// Ends a SACK, which was the first missing report of the chunks that it reneged on.
    pub(crate) fn on_sack_end(&mut self) {
        for reports in self.reneged.values_mut() {
            self.work.note();
            *reports = (*reports).max(1);
        }
    }

    /// Marks all chunks with enough missing reports; returns them.
    pub(crate) fn detect(&mut self, outstanding: &mut Outstanding, paths: &mut Paths) -> Vec<u64> {
        let mut lost = Vec::new();
        self.detect_reneged(outstanding, paths, &mut lost);
        let Some(&bound) = self.highest.get(self.threshold - 1) else {
            return lost;
        };
        while let Some(&(after, index, copy)) = self.retransmitted.front() {
            if after > bound {
                break;
            }
            self.retransmitted.pop_front();
            // The reports are not about a later transmission.
            if outstanding
                .chunk(index)
                .is_none_or(|c| c.transmissions != copy)
            {
                continue;
            }
            mark_if_eligible(outstanding, paths, index, self.repeated, &mut lost);
        }
        let mut index = self.examined.max(outstanding.first_index());
        let mut ranges = outstanding.reported().partition_point(|r| r.1 < index);
        while index < bound {
            match outstanding.reported().get(ranges) {
                Some(&(from, to)) if from <= index => {
                    index = to + 1;
                    ranges += 1;
                }
                _ => {
                    // Further transmissions are in `retransmitted`.
                    let first_transmission = outstanding
                        .chunk(index)
                        .is_some_and(|c| c.transmissions <= 1);
                    if first_transmission && !self.reneged.contains_key(&index) {
                        mark_if_eligible(outstanding, paths, index, self.repeated, &mut lost);
                    }
                    index += 1;
                }
            }
        }
        self.examined = self.examined.max(bound);
        lost
    }

    fn detect_reneged(
        &mut self,
        outstanding: &mut Outstanding,
        paths: &mut Paths,
        lost: &mut Vec<u64>,
    ) {
        let (threshold, repeated, work) = (self.threshold, self.repeated, &self.work);
        self.reneged.retain(|&index, reports| {
            work.note();
            let waits = outstanding
                .chunk(index)
                .is_some_and(|c| c.state == ChunkState::InFlight);
            if waits && *reports >= threshold {
                mark_if_eligible(outstanding, paths, index, repeated, lost);
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

/// Marks a chunk that has enough missing reports, if it may be fast retransmitted.
fn mark_if_eligible(
    outstanding: &mut Outstanding,
    paths: &mut Paths,
    index: u64,
    repeated: bool,
    lost: &mut Vec<u64>,
) {
    let eligible = outstanding
        .chunk(index)
        .is_some_and(|c| c.state == ChunkState::InFlight && !c.fast_retransmitted);
    // An abandoned chunk is not sent again, but its loss counts (RFC 3758, section 3.5, F5).
    if eligible && outstanding.mark(index, LossSignal::MissingReports, paths)
        || outstanding.take_loss_of_abandoned(index)
    {
        lost.push(index);
    }
    if repeated {
        outstanding.allow_fast_retransmit_again(index);
    }
}
