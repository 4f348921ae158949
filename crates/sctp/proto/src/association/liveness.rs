//! Reachability of the peer as a whole (RFC 9260 section 8.1); that of each path is in [`path`](crate::path).

use core::time::Duration;

use crate::time::Time;

/// Signs of life of the peer.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// Consecutive retransmissions without an acknowledgement.
    errors: u32,
    counted_at: Option<Time>,
    last_heartbeat_ack: Option<Time>,
    /// Time from which an ICMP Protocol Unreachable or a timeout ends the association: an RTO after the first such
    /// message since the peer's last packet.
    unreachable_from: Option<Time>,
}

portable_struct! { Liveness { errors, counted_at, last_heartbeat_ack, unreachable_from } }

impl Liveness {
    pub(super) fn errors(&self) -> u32 {
        self.errors
    }

    pub(super) fn clear_errors(&mut self) {
        self.errors = 0;
        self.counted_at = None;
    }

    /// Counts the loss of a packet that had been in flight for the time `waited`, unless another loss was counted
    /// in this time. Returns whether there are more losses than `Association.Max.Retrans`.
    pub(super) fn count_loss(&mut self, waited: Duration, now: Time, max_retrans: u32) -> bool {
        if self.counted_at.is_none_or(|at| at + waited <= now) {
            self.errors += 1;
            self.counted_at = Some(now);
        }
        self.errors > max_retrans
    }

    pub(super) fn on_packet(&mut self) {
        self.unreachable_from = None;
    }

    pub(super) fn on_heartbeat_ack(&mut self, now: Time) {
        self.last_heartbeat_ack = Some(now);
    }

    /// Time of the last HEARTBEAT ACK, if it is later than the last loss that was counted.
    pub(super) fn heartbeat_ack_after_loss(&self) -> Option<Time> {
        self.last_heartbeat_ack
            .filter(|at| self.counted_at.is_none_or(|loss| loss < *at))
    }

    /// Records an ICMP Protocol Unreachable; `rto` is the RTO without its back-off. Returns whether an RTO has
    /// passed since the first one after the peer's last packet. The retransmission that the next one quotes
    /// leaves an RTO after the packet that the first one quoted; the times of the messages may differ less.
    pub(super) fn on_protocol_unreachable(&mut self, now: Time, rto: Duration) -> bool {
        let silence = rto.saturating_sub(rto / 8);
        now >= *self.unreachable_from.get_or_insert(now + silence)
    }

    /// Returns whether an RTO has passed since an ICMP Protocol Unreachable, without a packet of the peer. Hosts limit
    /// the rate of their ICMP messages (RFC 4443, section 2.4), so that there may be no second one.
    pub(super) fn is_unreachable(&self, now: Time) -> bool {
        self.unreachable_from.is_some_and(|from| now >= from)
    }
}
