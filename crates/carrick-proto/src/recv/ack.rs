//! When a SACK is sent: every second packet, within SACK.Delay, at once on gaps, duplicates, the
//! I bit and the first DATA (RFC 9260 sections 5.1, 6.2, 6.7).

use core::time::Duration;

use crate::config::AssociationConfig;
use crate::policy::BundledDuplicates;
use crate::time::Time;

#[derive(Debug)]
pub(super) struct AckState {
    delay: Duration,
    frequency: u32,
    bundled_duplicates: BundledDuplicates,
    /// Packets with DATA since the last SACK.
    packets: u32,
    deadline: Option<Time>,
    due: bool,
    /// New data above a gap has arrived since the last SACK.
    news_above_gap: bool,
    received_before: bool,
    // What the packet being processed held.
    chunks: bool,
    new: bool,
    duplicate: bool,
    immediate: bool,
}

impl AckState {
    pub(super) fn new(config: &AssociationConfig) -> Self {
        Self {
            delay: config.sack_delay,
            frequency: config.sack_frequency,
            bundled_duplicates: config.policies.bundled_duplicates,
            packets: 0,
            deadline: None,
            due: false,
            news_above_gap: false,
            received_before: false,
            chunks: false,
            new: false,
            duplicate: false,
            immediate: false,
        }
    }

    pub(super) fn has_received(&self) -> bool {
        self.received_before
    }

    pub(super) fn on_chunk(&mut self, immediate: bool) {
        self.chunks = true;
        self.immediate |= immediate;
    }

    pub(super) fn on_new(&mut self) {
        self.new = true;
    }

    pub(super) fn on_duplicate(&mut self) {
        self.duplicate = true;
    }

    /// Asks for a SACK without delay.
    pub(super) fn now(&mut self) {
        self.due = true;
    }

    /// New data arrived while TSNs below it are missing: a SACK is due, and counts as a missing
    /// report.
    pub(super) fn on_new_above_gap(&mut self) {
        self.due = true;
        self.news_above_gap = true;
    }

    /// The SACK that is due would be a missing report to the peer.
    pub(super) fn is_missing_report(&self) -> bool {
        self.due && self.news_above_gap
    }

    pub(super) fn on_packet_end(&mut self, now: Time) {
        if !self.chunks {
            return;
        }
        self.packets += 1;
        let first = self.new && !self.received_before;
        self.received_before |= self.new;
        let duplicate = self.duplicate
            && (!self.new || self.bundled_duplicates == BundledDuplicates::ReportAtOnce);
        if first || self.immediate || duplicate || self.packets >= self.frequency {
            self.due = true;
        } else if self.deadline.is_none() {
            self.deadline = Some(now + self.delay);
        }
        (self.chunks, self.new, self.duplicate, self.immediate) = (false, false, false, false);
    }

    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    pub(super) fn is_pending(&self) -> bool {
        self.due || self.packets > 0
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        if self.due { None } else { self.deadline }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.deadline.is_some_and(|at| at <= now) {
            self.due = true;
        }
    }

    pub(super) fn sent(&mut self) {
        self.packets = 0;
        self.deadline = None;
        self.due = false;
        self.news_above_gap = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_a_mixed_packet(choice: BundledDuplicates, new: bool) -> bool {
        let mut config = AssociationConfig::default();
        config.policies.bundled_duplicates = choice;
        let mut ack = AckState::new(&config);
        ack.on_chunk(false);
        ack.on_new();
        ack.on_packet_end(Time::ZERO);
        assert!(ack.is_due(), "the first DATA");
        ack.sent();
        ack.on_chunk(false);
        ack.on_duplicate();
        if new {
            ack.on_chunk(false);
            ack.on_new();
        }
        ack.on_packet_end(Time::ZERO);
        ack.is_due()
    }

    #[test]
    fn duplicates_beside_new_data_are_reported_at_once_or_later_6_2() {
        assert!(after_a_mixed_packet(BundledDuplicates::ReportAtOnce, true));
        assert!(!after_a_mixed_packet(BundledDuplicates::ReportLater, true));
    }

    #[test]
    fn duplicates_alone_are_always_reported_at_once_6_2() {
        assert!(after_a_mixed_packet(BundledDuplicates::ReportLater, false));
    }
}
