//! How losses are found and repaired: missing reports (RFC 9260 section 7.2.4, or RFC 2960's
//! counters) or RACK-TLP (RFC 8985), and what goes with either: proportional rate reduction
//! (RFC 6937) and the undoing of what turned out to be no loss (after RFC 3522, RFC 4015).
//!
//! What belongs to one path is in [`PathRecovery`]; missing reports are counted for the association.

mod detect;
mod every_report;
mod missing_reports;
mod prr;
mod rack;
mod split_reports;
mod tail_loss_probe;
mod undo;

pub(super) use every_report::EveryReport;
pub(super) use missing_reports::MissingReports;
use prr::Reduction;
pub(crate) use rack::{Delivery, Rack};
pub(crate) use split_reports::SplitReports;
use tail_loss_probe::TailLossProbe;
use undo::Undo;

/// Where a path stands between losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    /// Nothing is being repaired.
    #[default]
    Open,
    /// A loss was found; lasts until the chunk with this index is acknowledged cumulatively.
    Fast(u64),
    /// T3-rtx expired; lasts as long.
    Timeout(u64),
}

/// The ends of the list of a path's chunks in flight, in the order in which they were last sent.
/// The links are in the chunks; 0, which no chunk has for an index, stands for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SendOrder {
    pub(crate) oldest: u64,
    pub(crate) newest: u64,
}

/// What loss recovery keeps of one path.
#[derive(Debug, Default)]
pub(crate) struct PathRecovery {
    pub(crate) order: SendOrder,
    /// Below this index, no chunk has been in flight on the path since it was sent first.
    pub(crate) searched: u64,
    pub(crate) rack: Rack,
    pub(crate) split: SplitReports,
    pub(crate) probe: TailLossProbe,
    pub(crate) undo: Undo,
    pub(crate) reduction: Option<Reduction>,
    pub(crate) phase: Phase,
    /// The window was reduced when this many transmissions had been made: with RACK, only the loss
    /// of a later one is another congestion event.
    pub(crate) reduced_at: u64,
    /// One packet of what was lost here may leave whatever the window says, where several paths carry
    /// data.
    pub(crate) forced: bool,
}

impl PathRecovery {
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    pub(crate) fn is_fast(&self) -> bool {
        matches!(self.phase, Phase::Fast(_))
    }

    /// The cumulative TSN reached this index.
    pub(super) fn on_cumulative(&mut self, index: u64) {
        let (Phase::Fast(exit) | Phase::Timeout(exit)) = self.phase else {
            return;
        };
        if index >= exit {
            self.leave();
            self.rack.on_recovery_end();
        }
    }

    /// A chunk that was sent more than once was given up: it is no probe any more, and a duplicate
    /// of it says nothing, because the peer may have been told to skip it.
    pub(super) fn on_abandoned(&mut self, index: u64) {
        self.undo.on_abandoned(index);
        let sent = &mut self.probe.sent;
        *sent = sent.filter(|s| s.index != index);
    }

    /// The path leads elsewhere: nothing is repaired or can be undone, and no round trip is known.
    pub(crate) fn begin_anew(&mut self) {
        self.leave();
        self.undo.end();
        self.probe.cancel();
        // What is acknowledged belongs to the chunks.
        self.rack.sacked = core::mem::take(&mut self.rack).sacked;
    }

    /// Nothing is repaired any more.
    pub(crate) fn leave(&mut self) {
        self.phase = Phase::Open;
        self.reduction = None;
    }
}
