//! Timer T(beat) (RFC 4666, section 4.3.4.6).

use std::time::Duration;

use carrick_proto::Time;

use crate::message::Heartbeat;

/// Sends BEATs and detects an unresponsive peer. SCTP has its own heartbeats, so that it is off by default.
#[derive(Debug)]
pub(super) struct HeartbeatTimer {
    interval: Option<Duration>,
    next: Option<Time>,
    last_received: Time,
    sequence: u64,
}

/// Action that is due.
pub(super) enum HeartbeatAction {
    /// Sends a BEAT.
    Send(Heartbeat),
    /// Nothing was received within 2 × T(beat).
    PeerUnresponsive,
}

impl HeartbeatTimer {
    pub(super) const fn new(interval: Option<Duration>) -> Self {
        Self {
            interval,
            next: None,
            last_received: Time::ZERO,
            sequence: 0,
        }
    }

    pub(super) fn start(&mut self, now: Time) {
        self.last_received = now;
        self.next = self.interval.map(|interval| now + interval);
    }

    pub(super) const fn stop(&mut self) {
        self.next = None;
    }

    /// Records that any message was received.
    pub(super) const fn received(&mut self, now: Time) {
        self.last_received = now;
    }

    pub(super) const fn timeout(&self) -> Option<Time> {
        self.next
    }

    pub(super) fn handle_timeout(&mut self, now: Time) -> Option<HeartbeatAction> {
        let interval = self.interval?;
        self.next.filter(|next| *next <= now)?;
        if now.since(self.last_received) >= interval * 2 {
            self.next = None;
            return Some(HeartbeatAction::PeerUnresponsive);
        }
        self.next = Some(now + interval);
        self.sequence += 1;
        let heartbeat = Heartbeat::new(&self.sequence.to_be_bytes()).ok()?;
        Some(HeartbeatAction::Send(heartbeat))
    }
}
