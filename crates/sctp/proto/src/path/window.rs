//! Limits of the data in flight on a path: cwnd and what changes it, and the limits beside it, after T3-rtx, by
//! Max.Burst and by proportional rate reduction (RFC 9260, sections 6.1 and 7.2).

use core::time::Duration;

use super::Path;
use super::recovery::Reduction;
use crate::cc::{Acknowledged, CongestionEvent, Controller, Member};
use crate::config::AssociationConfig;
use crate::research::AfterTimeout;
use crate::time::Time;

/// Limits of the data in flight beside cwnd.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendLimits {
    /// Limit after a timeout, until data sent here is acknowledged (section 7.2.3).
    after_timeout: Option<AfterTimeout>,
    /// Bytes of flight up to which the current burst may go (Max.Burst, section 6.1 D).
    burst: usize,
    /// When data of this path was last acknowledged.
    last_ack: Option<Time>,
    /// When data was last sent, for the decay of an idle window (section 7.2.1).
    last_data: Option<Time>,
    /// The window, and nothing else, limited transmission at the last attempt to send.
    window_limited: bool,
    /// Data was retransmitted because the peer's UDP port changed, and neither was any acknowledged nor has T3-rtx
    /// expired since.
    resent_to_new_port: bool,
}

portable_struct! {
    SendLimits { after_timeout, burst, last_ack, last_data, window_limited, resent_to_new_port }
}

impl Default for SendLimits {
    fn default() -> Self {
        Self {
            after_timeout: None,
            burst: usize::MAX,
            last_ack: None,
            last_data: None,
            window_limited: false,
            resent_to_new_port: false,
        }
    }
}

impl SendLimits {
    /// Ends the limit after a timeout (section 7.2.3): data sent here was acknowledged.
    pub(super) fn end_after_timeout(&mut self) {
        self.after_timeout = None;
    }

    /// Returns whether no data was sent or acknowledged for this time.
    pub(super) fn were_unused_for(&self, time: Duration, now: Time) -> bool {
        let last = self.last_data.max(self.last_ack);
        last.is_none_or(|at| now.since(at) >= time)
    }
}

impl Path {
    /// Lets an idle window decay, once per RTO without data (section 7.2.1).
    pub(crate) fn decay_idle_window(&mut self, now: Time) {
        let Some(last) = self.limits.last_data else {
            return;
        };
        if self.flight.size() > 0 {
            return;
        }
        let rto = self.rto.value().as_nanos().max(1);
        let rtos = now.since(last).as_nanos() / rto;
        if rtos > 0 {
            self.congestion
                .on_idle(u32::try_from(rtos).unwrap_or(u32::MAX).min(64));
            self.limits.last_data = Some(now);
        }
    }

    /// Limits the first burst of new data on an idle path to Max.Burst packets (section 6.1 D). Data
    /// released by a SACK is not limited here, and pacing limits bursts itself.
    pub(crate) fn limit_idle_burst(&mut self, now: Time, max_burst: u32) {
        // The driver needs a moment between a SACK and what it releases; a pause is longer than a
        // round trip.
        let round_trip = self.rto.srtt().unwrap_or_default();
        let idle =
            self.flight.size() == 0 && self.limits.last_ack.is_none_or(|at| at + round_trip < now);
        if idle && !self.is_paced() {
            self.limits.burst = self.limits.burst.min(max_burst as usize * self.pmdcs());
        }
    }

    /// Returns whether the window admits a packet with data: some room is left, which the packet may
    /// exceed by less than one PMDCS (section 6.1 B).
    pub(crate) fn window_is_open(&self) -> bool {
        if self.limits.after_timeout == Some(AfterTimeout::OnePacket) && self.flight.size() > 0 {
            return false;
        }
        let limit = self.window().saturating_add(self.flight.uncounted());
        self.flight.size() < limit.min(self.limits.burst)
    }

    /// Returns whether the window admits one more chunk in a packet that already has one. Any packet may
    /// exceed the window, except under [`AfterTimeout::OneWindow`].
    pub(crate) fn window_takes_more(&self) -> bool {
        self.limits.after_timeout != Some(AfterTimeout::OneWindow)
            || self.flight.size() < self.window()
    }

    /// Limit of the bytes in flight: cwnd, or the window of a reduction to cwnd in progress. A reduction
    /// advances with SACKs, which may not arrive when nothing is in flight; it then allows one packet, as
    /// after a timeout.
    fn window(&self) -> usize {
        let Some(reduction) = self.data.recovery.reduction() else {
            return self.congestion.window();
        };
        match self.flight.size() {
            0 => reduction.window().max(self.pmdcs()),
            _ => reduction.window(),
        }
    }

    /// Records that not the window holds data back: there is too little, if `by_user`, or something else does, as
    /// the peer's window, which is no limit by the user's data (draft-ietf-ccwg-bbr-06, section 4.1.2.4).
    pub(crate) fn note_other_limit(&mut self, by_user: bool) {
        self.limits.window_limited = false;
        if by_user && self.is_rate_based() && self.flight.size() < self.window() {
            self.limit_rate_by_user();
        }
    }

    /// Records that data waits for this path, if the window is what holds it back.
    pub(crate) fn note_window_limit(&mut self) {
        self.limits.window_limited |= self.flight.size() >= self.window();
    }

    /// Returns whether the window, and nothing else, limited transmission at the last attempt to send.
    pub(crate) fn is_window_limited(&self) -> bool {
        self.limits.window_limited
    }

    /// Congestion control of the path.
    pub(crate) fn congestion(&self) -> &dyn Controller {
        &*self.congestion
    }

    /// Passes the state of all paths that carry data to the congestion control, this path at `own`.
    pub(crate) fn set_members(&mut self, members: &[Member], own: usize) {
        self.congestion.on_members(members, own);
    }

    /// Starts T3-rtx for a packet with DATA unless it runs (section 6.3.2, R1). The path is not idle (section
    /// 7.2.1).
    pub(crate) fn on_data_departure(&mut self, now: Time) {
        self.arm_t3(now);
        self.limits.last_data = Some(now);
    }

    /// Records a chunk that leaves, for the first time or again: `payload` bytes of user data, which the
    /// congestion control counts as `weight` bytes. It is in flight, and counts towards the reduction of the
    /// window in progress (RFC 6937, section 3).
    pub(crate) fn on_chunk_sent(&mut self, index: u64, payload: usize, weight: usize) {
        self.flight.on_sent(index, payload, weight);
        if let Some(reduction) = self.data.recovery.reduction_mut() {
            reduction.on_sent(weight);
        }
    }

    /// Records that data of the path was acknowledged, which limits the next burst of an idle path.
    pub(crate) fn on_data_acknowledged(&mut self, now: Time) {
        self.limits.last_ack = Some(now);
        self.limits.resent_to_new_port = false;
    }

    /// Returns whether the data in flight is retransmitted now that the peer's UDP port has changed: its
    /// acknowledgement is overdue by the smoothed round-trip time, if that is known. Once until data is acknowledged or T3-rtx
    /// expires, so that a peer that changes its port with each packet draws no more data than two timeouts would.
    pub(crate) fn take_resend_to_new_port(&mut self, now: Time) -> bool {
        let due = self.rto.srtt().unwrap_or_default();
        let is_overdue = self.limits.last_data.is_some_and(|at| now.since(at) >= due);
        let waits = self.t3.is_some() && self.flight.size() > 0;
        is_overdue && waits && !core::mem::replace(&mut self.limits.resent_to_new_port, true)
    }

    /// Permits another retransmission after a change of the peer's UDP port.
    pub(super) fn permit_resend_to_new_port(&mut self) {
        self.limits.resent_to_new_port = false;
    }

    /// Grows the window (sections 7.2.1 and 7.2.2).
    pub(crate) fn grow_window(&mut self, acknowledged: &Acknowledged) {
        self.congestion.on_ack(acknowledged);
    }

    /// Limits the burst that a SACK releases to Max.Burst packets for each SACK that it stands for (section
    /// 6.1, D). Pacing limits bursts itself.
    pub(crate) fn limit_burst(&mut self, max_burst: u32, sacks: usize) {
        self.limits.burst = if self.is_paced() {
            usize::MAX
        } else {
            self.flight.size() + max_burst as usize * sacks * self.pmdcs()
        };
    }

    /// Reduces what the window limits by all bytes that Gap Ack Blocks acknowledge
    /// ([`GapAckCount::EverySack`]).
    ///
    /// [`GapAckCount::EverySack`]: crate::research::GapAckCount::EverySack
    pub(crate) fn discount_gap_acks(&mut self) {
        self.flight.discount(self.data.recovery.gap_acked());
    }

    /// Reduces the window for a packet marked "congestion experienced" (RFC 4960, appendix A).
    pub(crate) fn reduce_for_mark(&mut self) {
        self.congestion.on_congestion(CongestionEvent::Ecn);
    }

    /// Enters Fast Recovery up to `exit` (section 7.2.4, step 2): reduces the window, at once or with
    /// `proportional` as data is delivered (RFC 6937). `transmissions` is their number so far.
    pub(crate) fn enter_fast_recovery(
        &mut self,
        exit: u64,
        transmissions: u64,
        proportional: bool,
    ) {
        self.congestion.on_congestion(CongestionEvent::Loss);
        let before = self.data.newly_acked.flight_before;
        let reduction = proportional.then(|| Reduction::new(before, self.flight.size()));
        self.data
            .recovery
            .enter_fast_recovery(exit, transmissions, reduction);
    }

    /// Updates what may be in flight while the window is reduced (RFC 6937, section 3).
    pub(crate) fn update_reduction(&mut self) {
        let (ssthresh, pmdcs) = (self.congestion.window(), self.pmdcs());
        let (newly, flight) = (self.data.newly_acked.bytes, self.flight.size());
        if let Some(reduction) = self.data.recovery.reduction_mut() {
            reduction.on_sack(newly, flight, ssthresh, pmdcs);
        }
    }

    /// Reduces the window after T3-rtx expired (section 6.3.3, E1, and section 7.2.3), and limits the data in
    /// flight and the next burst.
    pub(crate) fn reduce_after_t3(&mut self, config: &AssociationConfig) {
        self.congestion.on_congestion(CongestionEvent::Timeout);
        self.ect.on_timeout();
        self.limits.after_timeout = Some(config.research.policies.after_timeout);
        self.limits.burst = config.transmission.max_burst as usize * self.pmdcs();
    }

    /// Lets the window decay as on an idle path (section 7.2.1): T3-rtx expired while a closed window was
    /// probed.
    pub(crate) fn decay_window(&mut self) {
        self.congestion.on_idle(1);
    }

    /// Undoes the last reduction of the window, which was needless.
    pub(crate) fn undo_reduction(&mut self) {
        self.congestion.on_undo();
        self.data.recovery.leave();
        self.limits.after_timeout = None;
    }
}
