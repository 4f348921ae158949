//! Reachability of the peer as a whole (RFC 9260 section 8.1); that of each path is in [`crate::path`].

use crate::time::Time;

/// Signs of life of the peer.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// Consecutive retransmissions without an acknowledgement.
    errors: u32,
    last_heartbeat_ack: Option<Time>,
    /// Arrival of the first ICMP Protocol Unreachable since the peer's last packet.
    unreachable_since: Option<Time>,
}

portable_struct! { Liveness { errors, last_heartbeat_ack, unreachable_since } }

impl Liveness {
    pub(super) fn errors(&self) -> u32 {
        self.errors
    }

    pub(super) fn clear_errors(&mut self) {
        self.errors = 0;
    }

    /// Counts an error. Returns whether there are more than `Association.Max.Retrans`.
    pub(super) fn count_error(&mut self, max_retrans: u32) -> bool {
        self.errors += 1;
        self.errors > max_retrans
    }

    pub(super) fn on_packet(&mut self) {
        self.unreachable_since = None;
    }

    pub(super) fn on_heartbeat_ack(&mut self, now: Time) {
        self.last_heartbeat_ack = Some(now);
    }

    /// Returns whether a heartbeat was acknowledged after this time.
    pub(super) fn acknowledged_heartbeat_since(&self, time: Time) -> bool {
        self.last_heartbeat_ack.is_some_and(|at| at > time)
    }

    /// Records an ICMP Protocol Unreachable. Returns the arrival of the first one since the peer's last
    /// packet.
    pub(super) fn on_protocol_unreachable(&mut self, now: Time) -> Time {
        *self.unreachable_since.get_or_insert(now)
    }
}
