//! Loss recovery of one path: the state of loss detection (missing reports, RACK, tail loss probe),
//! proportional rate reduction (RFC 6937), and the undoing of reductions for losses that were none (based on
//! RFC 3522 and RFC 4015). `tx` detects losses in `tx/loss` and responds to them in `tx/recovery`.

mod missing_reports;
mod prr;
mod rack;
mod silence_check;
mod tail_loss_probe;
mod undo;

use crate::time::{Time, earliest};
pub(crate) use missing_reports::PathReports;
pub(super) use prr::Reduction;
pub(super) use rack::MIN_RTT_VALIDITY;
pub(crate) use rack::{Delivery, Rack};
use silence_check::SilenceCheck;
pub(crate) use silence_check::SilenceExpiry;
pub(crate) use tail_loss_probe::{ProbeTransmission, TailLossProbe};
use undo::Undo;

/// State of a path between losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RecoveryPhase {
    /// No loss is being repaired.
    Open,
    /// Fast Recovery, up to the acknowledgement of this index.
    Fast(u64),
    /// Repair after T3-rtx expired, up to the acknowledgement of this index.
    Timeout(u64),
}

portable_enum! { RecoveryPhase { 0: Open, 1: Fast(value), 2: Timeout(value) } }

/// Ends of the list of a path's chunks in flight, in the order of their last transmission. The links
/// are in the chunks; 0, which is the index of no chunk, stands for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SendOrder {
    oldest: u64,
    newest: u64,
}

portable_struct! { SendOrder { oldest, newest } }

impl SendOrder {
    /// Index of the chunk whose last transmission is the oldest.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Appends a chunk; returns the one that was the newest.
    pub(crate) fn append(&mut self, index: u64) -> u64 {
        if self.oldest == 0 {
            self.oldest = index;
        }
        core::mem::replace(&mut self.newest, index)
    }

    /// Replaces the oldest chunk, which leaves the order, by the next one.
    pub(crate) fn replace_oldest(&mut self, next: u64) {
        self.oldest = next;
    }

    /// Replaces the newest chunk, which leaves the order, by the one before.
    pub(crate) fn replace_newest(&mut self, before: u64) {
        self.newest = before;
    }
}

/// Loss recovery of one path.
#[derive(PartialEq, Debug)]
pub(crate) struct PathRecovery {
    order: SendOrder,
    rack: Rack,
    reports: PathReports,
    probe: TailLossProbe,
    silence: SilenceCheck,
    undo: Undo,
    reduction: Option<Reduction>,
    phase: RecoveryPhase,
    /// Transmissions made when the window was last reduced.
    reduced_at: u64,
    /// With concurrent multipath transfer: one packet of retransmissions may leave whatever cwnd is.
    forced: bool,
}

portable_struct! {
    PathRecovery {
        order, rack, reports, probe, silence, undo, reduction, phase, reduced_at, forced,
    }
}

impl PathRecovery {
    /// Returns the state of a path without data.
    pub(super) const fn new() -> Self {
        Self {
            order: SendOrder {
                oldest: 0,
                newest: 0,
            },
            rack: Rack::new(),
            reports: PathReports::new(),
            probe: TailLossProbe::new(),
            silence: SilenceCheck::IDLE,
            undo: Undo::new(),
            reduction: None,
            phase: RecoveryPhase::Open,
            reduced_at: 0,
            forced: false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase == RecoveryPhase::Open
    }

    pub(crate) fn is_fast(&self) -> bool {
        matches!(self.phase, RecoveryPhase::Fast(_))
    }

    /// Ends the repair once its last chunk is acknowledged.
    pub(crate) fn on_cumulative(&mut self, index: u64) {
        let (RecoveryPhase::Fast(exit) | RecoveryPhase::Timeout(exit)) = self.phase else {
            return;
        };
        if index >= exit {
            self.leave();
            self.rack.on_recovery_end();
        }
    }

    /// Handles the abandonment of a chunk that was sent more than once: a duplicate of it is no evidence
    /// any more, because the peer may have skipped it.
    pub(crate) fn on_abandoned(&mut self, index: u64) {
        self.undo.on_abandoned(index);
        self.probe.on_abandoned(index);
    }

    /// Resets the state for another route: round-trip times and reductions of the old one do not count.
    pub(crate) fn reset(&mut self) {
        self.leave();
        self.undo.end();
        self.probe.cancel();
        self.rack.reset();
    }

    /// Forgets transmissions that were delivered, when no chunk is outstanding and the path was idle: later chunks
    /// have higher numbers. A reduction can't be undone any more, since the window of an idle path decays (RFC 9260,
    /// section 7.2.1).
    pub(super) fn forget_deliveries(&mut self) {
        self.undo.end();
        self.rack.forget_deliveries();
        self.reports = PathReports::new();
        self.reduced_at = 0;
    }

    /// Ends the repair.
    pub(crate) fn leave(&mut self) {
        self.phase = RecoveryPhase::Open;
        self.reduction = None;
    }

    /// Stops the probe and reordering timers.
    pub(crate) fn stop_timers(&mut self) {
        self.probe.stop_timer();
        self.rack.set_timer(None);
    }

    /// Ends the detection of losses among the chunks in flight, which are about to be marked.
    pub(crate) fn cancel_detection(&mut self) {
        self.probe.cancel();
        self.rack.set_timer(None);
    }

    /// Enters Fast Recovery up to the acknowledgement of `exit` (RFC 9260, section 7.2.4, step 2);
    /// `transmissions` is their number so far.
    pub(super) fn enter_fast_recovery(
        &mut self,
        exit: u64,
        transmissions: u64,
        reduction: Option<Reduction>,
    ) {
        self.phase = RecoveryPhase::Fast(exit);
        self.reduced_at = transmissions;
        self.probe.cancel();
        self.reduction = reduction;
    }

    /// Enters the repair after an expiry of T3-rtx, up to the acknowledgement of `exit`.
    pub(crate) fn enter_timeout_recovery(&mut self, exit: u64, transmissions: u64) {
        self.leave();
        self.phase = RecoveryPhase::Timeout(exit);
        self.reduced_at = transmissions;
        self.cancel_detection();
    }

    /// Number of the last transmission when the window was last reduced.
    pub(crate) fn reduced_at(&self) -> u64 {
        self.reduced_at
    }

    /// Reduction of the window in progress (RFC 6937).
    pub(super) fn reduction(&self) -> Option<&Reduction> {
        self.reduction.as_ref()
    }

    pub(super) fn reduction_mut(&mut self) -> Option<&mut Reduction> {
        self.reduction.as_mut()
    }

    /// Sets whether one packet of retransmissions may leave whatever cwnd is.
    pub(crate) fn set_forced(&mut self, forced: bool) {
        self.forced = forced;
    }

    /// Returns whether one packet of retransmissions may leave whatever cwnd is.
    pub(crate) fn is_forced(&self) -> bool {
        self.forced
    }

    /// Index of the chunk in flight whose last transmission is the oldest; 0 for none.
    pub(crate) fn oldest(&self) -> u64 {
        self.order.oldest
    }

    /// Index of the chunk in flight whose last transmission is the newest; 0 for none.
    pub(crate) fn newest(&self) -> u64 {
        self.order.newest
    }

    /// Order of the chunks in flight, which their owner keeps.
    pub(crate) fn order_mut(&mut self) -> &mut SendOrder {
        &mut self.order
    }

    /// RACK's state.
    pub(crate) fn rack(&self) -> &Rack {
        &self.rack
    }

    pub(crate) fn rack_mut(&mut self) -> &mut Rack {
        &mut self.rack
    }

    /// Missing reports.
    pub(crate) fn reports(&self) -> &PathReports {
        &self.reports
    }

    pub(crate) fn reports_mut(&mut self) -> &mut PathReports {
        &mut self.reports
    }

    /// Bytes acknowledged by Gap Ack Blocks.
    pub(super) fn gap_acked(&self) -> usize {
        self.rack.gap_acked()
    }

    /// Watches from now on for duplicates of retransmissions.
    pub(crate) fn watch_duplicates(&mut self) {
        self.undo.begin();
    }

    /// Records a retransmission, of which the peer may report a duplicate.
    pub(crate) fn on_retransmission(&mut self, index: u64) {
        self.undo.on_retransmission(index);
    }

    /// Records a chunk that the peer reported as a duplicate. Returns whether it is a retransmission of this
    /// path; then the reordering window grows (RFC 8985, section 6.2, step 4). `next` is the index of the
    /// next new chunk.
    pub(crate) fn on_duplicate(&mut self, index: u64, cumulative: u64, next: u64) -> bool {
        let is_retransmission = self.undo.on_duplicate(index);
        if is_retransmission {
            self.rack.on_duplicate(cumulative, next);
        }
        is_retransmission
    }

    /// Returns once whether all retransmissions were needless; to be called after a duplicate.
    pub(crate) fn take_spurious(&mut self) -> bool {
        self.undo.take_spurious()
    }

    /// Next expiry of the reordering timer, the probe timer or the silence check.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let detection = earliest(self.rack.timer(), self.probe.timer());
        earliest(detection, self.silence.timer())
    }

    /// Ends the check of the path: nothing is in flight there any more.
    pub(super) fn end_silence_check(&mut self) {
        self.silence = SilenceCheck::IDLE;
    }

    /// Tail loss probe.
    pub(crate) fn probe(&self) -> &TailLossProbe {
        &self.probe
    }

    pub(crate) fn probe_mut(&mut self) -> &mut TailLossProbe {
        &mut self.probe
    }

    /// Records that a round trip was measured: another probe may be sent (RFC 8985, section 7.2).
    pub(super) fn on_delivery_measured(&mut self) {
        self.probe.on_measured();
    }

    /// Ends the probe once its chunk or a later one is acknowledged (RFC 8985, section 7.4). Returns the chunk
    /// of a probe that was a retransmission and was delivered.
    pub(super) fn end_probe(&mut self, index: u64, now: Time) -> Option<u64> {
        let sent = self.probe.take_sent(index)?;
        let delivered = !self.rack.was_before(now.since(sent.at));
        (sent.index == index && sent.retransmission && delivered).then_some(index)
    }
}
