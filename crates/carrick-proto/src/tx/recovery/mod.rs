//! Recovery from losses: the response of congestion control, proportional rate reduction (RFC 6937),
//! and the undoing of reductions for losses that were none (after RFC 3522 and RFC 4015). Losses are
//! detected in `loss`.

mod prr;
mod response;
mod undo;

use super::loss::{PathReports, Rack, TailLossProbe};
use prr::Reduction;
use undo::Undo;

/// State of a path between losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum RecoveryPhase {
    /// No loss is being repaired.
    #[default]
    Open,
    /// Fast Recovery, up to the acknowledgement of this index.
    Fast(u64),
    /// Repair after T3-rtx expired, up to the acknowledgement of this index.
    Timeout(u64),
}

/// Ends of the list of a path's chunks in flight, in the order of their last transmission. The links
/// are in the chunks; 0, which is the index of no chunk, stands for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SendOrder {
    pub(crate) oldest: u64,
    pub(crate) newest: u64,
}

/// Loss recovery of one path.
#[derive(Debug, Default)]
pub(crate) struct PathRecovery {
    pub(crate) order: SendOrder,
    /// Index below which each chunk in flight on the path has left flight before.
    pub(crate) searched: u64,
    pub(crate) rack: Rack,
    pub(crate) reports: PathReports,
    pub(crate) probe: TailLossProbe,
    pub(crate) undo: Undo,
    pub(crate) reduction: Option<Reduction>,
    phase: RecoveryPhase,
    /// Transmissions made when the window was last reduced.
    pub(super) reduced_at: u64,
    /// With concurrent multipath transfer: one packet of retransmissions may leave whatever cwnd is.
    pub(crate) forced: bool,
}

impl PathRecovery {
    pub(crate) fn is_open(&self) -> bool {
        self.phase == RecoveryPhase::Open
    }

    pub(crate) fn is_fast(&self) -> bool {
        matches!(self.phase, RecoveryPhase::Fast(_))
    }

    /// Ends the repair once its last chunk is acknowledged.
    pub(super) fn on_cumulative(&mut self, index: u64) {
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
    pub(super) fn on_abandoned(&mut self, index: u64) {
        self.undo.on_abandoned(index);
        let sent = &mut self.probe.sent;
        *sent = sent.filter(|s| s.index != index);
    }

    /// Resets the state for another route: round-trip times and reductions of the old one do not count.
    pub(crate) fn begin_anew(&mut self) {
        self.leave();
        self.undo.end();
        self.probe.cancel();
        // Bytes acknowledged in gap blocks belong to the chunks.
        self.rack.sacked = core::mem::take(&mut self.rack).sacked;
    }

    /// Ends the repair.
    pub(crate) fn leave(&mut self) {
        self.phase = RecoveryPhase::Open;
        self.reduction = None;
    }

    /// Stops the probe and reordering timers.
    pub(super) fn stop_timers(&mut self) {
        self.probe.timer = None;
        self.rack.timer = None;
    }

    /// Ends the detection of losses among the chunks in flight, which are about to be marked.
    pub(super) fn cancel_detection(&mut self) {
        self.probe.cancel();
        self.rack.timer = None;
    }
}
