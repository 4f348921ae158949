//! Missing reports of one path (split fast retransmit; see [`research::ReportScope::Path`](crate::research::ReportScope::Path)).
//!
//! Transmissions of an association are numbered. A chunk has been reported missing n times when n SACKs,
//! or n packets, newly acknowledged a later transmission to the same path. The n highest of these
//! numbers are kept: what was sent before the lowest of them is lost.
//!
//! Reports by packets are the sender side of delayed acknowledgements for several paths (Iyengar et al. 2006,
//! DAC). In that paper the receiver delays SACKs even above a gap and reports the number of packets since the
//! last SACK in two bits of the SACK; the sender counts that number of missing reports. No standard defines
//! these bits. The sender here derives the number from its own records: the packets of the newly acknowledged
//! chunks, their paths, and the order of their departure.

use alloc::vec::Vec;

use super::Delivery;
use crate::research::ReportsPerSack;

/// Missing reports of one path.
#[derive(PartialEq, Debug)]
pub(crate) struct PathReports {
    /// Highest transmissions that were a report, descending.
    highest: Vec<u64>,
    /// Highest transmission acknowledged by the SACK being processed; 0 for none.
    newest: u64,
    /// Highest transmission acknowledged so far.
    top: u64,
}

portable_struct! { PathReports { highest, newest, top } }

impl PathReports {
    pub(super) const fn new() -> Self {
        Self {
            highest: Vec::new(),
            newest: 0,
            top: 0,
        }
    }

    /// Records an acknowledged chunk; `first_in_packet` if it was the first of its packet.
    pub(crate) fn on_delivered(
        &mut self,
        chunk: &Delivery,
        first_in_packet: bool,
        per_sack: ReportsPerSack,
        threshold: usize,
    ) {
        if !chunk.once || !chunk.clear {
            return;
        }
        self.newest = self.newest.max(chunk.serial);
        if per_sack == ReportsPerSack::Packets && first_in_packet {
            self.report(chunk.serial, threshold);
        }
    }

    /// Ends a SACK. In Fast Recovery, a SACK that acknowledges the oldest chunk of the path reports all
    /// that is missing (RFC 9260, section 7.2.4).
    pub(crate) fn on_sack_end(
        &mut self,
        recovering: bool,
        oldest_acknowledged: bool,
        per_sack: ReportsPerSack,
        threshold: usize,
    ) {
        let newest = core::mem::take(&mut self.newest);
        if newest == 0 {
            return;
        }
        self.top = self.top.max(newest);
        if recovering && oldest_acknowledged {
            self.report(self.top, threshold);
        } else if per_sack == ReportsPerSack::One {
            self.report(newest, threshold);
        }
    }

    fn report(&mut self, serial: u64, threshold: usize) {
        let position = self.highest.partition_point(|h| *h >= serial);
        if position < threshold {
            self.highest.insert(position, serial);
            self.highest.truncate(threshold);
        }
    }

    /// Transmission before which all others have enough reports; 0 for none.
    pub(crate) fn bound(&self, threshold: usize) -> u64 {
        let last = threshold.checked_sub(1).and_then(|n| self.highest.get(n));
        last.copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    fn delivery(serial: u64) -> Delivery {
        Delivery {
            index: serial,
            serial,
            sent: Time::ZERO,
            once: true,
            clear: true,
        }
    }

    fn sack(reports: &mut PathReports, serials: &[u64], per_sack: ReportsPerSack) -> u64 {
        for serial in serials {
            reports.on_delivered(&delivery(*serial), true, per_sack, 3);
        }
        reports.on_sack_end(false, false, per_sack, 3);
        reports.bound(3)
    }

    /// RFC 9260, section 7.2.4
    #[test]
    fn three_sacks_report_earlier_chunks_missing() {
        let mut reports = PathReports::new();
        assert_eq!(sack(&mut reports, &[7, 8], ReportsPerSack::One), 0);
        assert_eq!(sack(&mut reports, &[9], ReportsPerSack::One), 0);
        assert_eq!(
            sack(&mut reports, &[], ReportsPerSack::One),
            0,
            "nothing newly acknowledged"
        );
        assert_eq!(sack(&mut reports, &[10], ReportsPerSack::One), 8);
        assert_eq!(sack(&mut reports, &[5], ReportsPerSack::One), 8);
    }

    #[test]
    fn a_sack_for_n_packets_counts_as_n_reports() {
        let mut reports = PathReports::new();
        assert_eq!(sack(&mut reports, &[7, 8], ReportsPerSack::Packets), 0);
        assert_eq!(sack(&mut reports, &[9, 11], ReportsPerSack::Packets), 8);
    }

    #[test]
    fn chunks_in_one_packet_count_as_one_report() {
        let mut reports = PathReports::new();
        for serial in 4..20 {
            reports.on_delivered(&delivery(serial), serial == 4, ReportsPerSack::Packets, 1);
        }
        assert_eq!(reports.bound(1), 4);
    }

    #[test]
    fn an_ambiguous_acknowledgement_reports_nothing() {
        let mut reports = PathReports::new();
        for (once, clear) in [(false, true), (true, false)] {
            let chunk = Delivery {
                once,
                clear,
                ..delivery(50)
            };
            reports.on_delivered(&chunk, true, ReportsPerSack::Packets, 1);
        }
        reports.on_sack_end(false, true, ReportsPerSack::One, 1);
        assert_eq!(reports.bound(1), 0);
    }

    /// RFC 9260, section 7.2.4
    #[test]
    fn progress_in_fast_recovery_reports_all_missing() {
        let mut reports = PathReports::new();
        sack(&mut reports, &[30], ReportsPerSack::One);
        reports.on_delivered(&delivery(10), true, ReportsPerSack::One, 3);
        reports.on_sack_end(true, true, ReportsPerSack::One, 2);
        assert_eq!(reports.bound(2), 30);
    }
}
