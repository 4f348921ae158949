//! When a SACK is sent: every second packet, within SACK.Delay, at once on gaps, duplicates, the
//! I bit and the first DATA (RFC 9260 sections 5.1, 6.2, 6.7).

use core::time::Duration;

use crate::time::Time;

#[derive(Debug)]
pub(super) struct AckState {
    delay: Duration,
    frequency: u32,
    /// Packets with DATA since the last SACK.
    packets: u32,
    deadline: Option<Time>,
    due: bool,
    received_before: bool,
    // What the packet being processed held.
    chunks: bool,
    new: bool,
    duplicate: bool,
    immediate: bool,
}

impl AckState {
    pub(super) fn new(delay: Duration, frequency: u32) -> Self {
        Self {
            delay,
            frequency,
            packets: 0,
            deadline: None,
            due: false,
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

    pub(super) fn on_packet_end(&mut self, now: Time) {
        if !self.chunks {
            return;
        }
        self.packets += 1;
        let first = self.new && !self.received_before;
        self.received_before |= self.new;
        if first || self.immediate || self.duplicate || self.packets >= self.frequency {
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
    }
}
