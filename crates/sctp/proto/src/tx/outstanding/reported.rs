//! Ranges above the Cumulative TSN Ack Point that the last SACK reported, and the difference to the next
//! report. Non-renegable chunks are no part of a difference: the peer need not report them again.

use alloc::vec::Vec;

use super::Outstanding;
use super::ranges::{Ranges, subtract};

/// Difference between two reports: inclusive ranges of indexes.
#[derive(Debug, Default)]
pub(in crate::tx) struct ReportChanges {
    /// Chunks that are not reported any more.
    pub(in crate::tx) reneged: Vec<(u64, u64)>,
    /// Chunks that are reported for the first time.
    pub(in crate::tx) acknowledged: Vec<(u64, u64)>,
}

/// Number of indexes in ranges.
pub(in crate::tx) fn count(ranges: &[(u64, u64)]) -> u64 {
    ranges.iter().map(|(first, last)| last - first + 1).sum()
}

impl Outstanding {
    /// Ranges of the last report.
    pub(in crate::tx) fn reported(&self) -> &Ranges {
        &self.reported
    }

    /// Replaces the last report; returns the difference.
    pub(in crate::tx) fn replace_report(&mut self, reported: Ranges) -> ReportChanges {
        let changes = self.compare(&reported);
        self.reported = reported;
        changes
    }

    /// Returns whether a report reneges on chunks and acknowledges none.
    pub(in crate::tx) fn only_reneges(&self, reported: &Ranges) -> bool {
        let changes = self.compare(reported);
        !changes.reneged.is_empty() && changes.acknowledged.is_empty()
    }

    fn compare(&self, reported: &Ranges) -> ReportChanges {
        let mut changes = ReportChanges::default();
        let non_renegable = &self.non_renegable;
        subtract(&self.reported, reported, |first, last| {
            non_renegable.each_outside(first, last, |first, last| {
                changes.reneged.push((first, last));
            });
        });
        subtract(reported, &self.reported, |first, last| {
            non_renegable.each_outside(first, last, |first, last| {
                changes.acknowledged.push((first, last));
            });
        });
        changes
    }

    /// Removes the reported range right above an index, if there is one; returns its renegable chunks.
    pub(in crate::tx) fn take_reported_above(&mut self, index: u64) -> Vec<(u64, u64)> {
        let mut reneged = Vec::new();
        let lowest = self.reported.front().copied();
        if let Some((first, last)) = lowest.filter(|range| range.0 == index + 1) {
            self.reported.pop_front();
            self.non_renegable
                .each_outside(first, last, |first, last| reneged.push((first, last)));
        }
        reneged
    }

    /// Forgets reports up to an index, which is acknowledged cumulatively.
    pub(in crate::tx) fn forget_reported_up_to(&mut self, index: u64) {
        while self.reported.front().is_some_and(|r| r.1 <= index) {
            self.reported.pop_front();
        }
        if let Some(first) = self.reported.front_mut() {
            first.0 = first.0.max(index + 1);
        }
        self.non_renegable.forget_up_to(index);
    }

    /// Returns whether the chunk right above an index is acknowledged as non-renegable.
    pub(in crate::tx) fn is_non_renegable_above(&self, index: u64) -> bool {
        self.non_renegable.first() == Some(index + 1)
    }

    /// Returns whether the peer has acknowledged any chunk.
    pub(in crate::tx) fn was_acknowledged(&self) -> bool {
        self.first > 1 || !self.reported.is_empty() || !self.non_renegable.is_empty()
    }
}
