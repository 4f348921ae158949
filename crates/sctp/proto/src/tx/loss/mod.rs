//! Loss detection before T3-rtx expires: one [`LossDetector`] for an association.
//!
//! The detector is an enum of structs, not a trait object: it is called for each chunk that a SACK
//! acknowledges, most of its methods matter to one variant only, and the compiler inlines them.
//! State of one path is in [`path::PathRecovery`](crate::path::PathRecovery), among it the tail loss probe (RFC 8985, section 7).
//!
//! - `missing_reports`: fast retransmit (RFC 9260, section 7.2.4)
//! - `missing_reports_per_path`: the same for each path, for concurrent multipath transfer
//! - `rfc2960`: fast retransmit as RFC 2960 had it
//! - `rack`: RACK (RFC 8985, section 6)
//!
//! The response to a loss is in `recovery`.

mod detection;
mod missing_reports;
mod missing_reports_per_path;
mod rack;
mod rfc2960;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::outstanding::{AckedChunk, Chunk, Outstanding, Tracking};
use crate::config::AssociationConfig;
use crate::path::{Delivery, Path, PathRecovery, Paths};
use crate::research::{LossDetection, Policies, ReportScope, ReportsPerSack};
use crate::time::Time;
pub(crate) use detection::LossSignal;
use missing_reports::MissingReports;
use rfc2960::MissingReportCounters;

/// Detection of losses by an association's policy.
#[derive(Debug)]
pub(super) enum LossDetector {
    /// RFC 9260, section 7.2.4.
    MissingReports(Box<MissingReports>),
    /// The same rule for each path.
    MissingReportsPerPath {
        /// Missing reports that are needed.
        threshold: usize,
        per_sack: ReportsPerSack,
    },
    /// RFC 2960, section 7.2.4.
    Rfc2960(MissingReportCounters),
    /// RFC 8985.
    Rack {
        /// With tail loss probes.
        probes: bool,
    },
}

portable_enum! {
    LossDetector {
        0: MissingReports(value),
        1: MissingReportsPerPath { threshold, per_sack },
        2: Rfc2960(value),
        3: Rack { probes },
    }
}

/// Content of a SACK, once the chunks that it acknowledges have been processed.
#[derive(Clone, Copy, Debug)]
pub(super) struct SackReport {
    pub(super) now: Time,
    /// Highest TSN Newly Acknowledged, if any.
    pub(super) htna: Option<u64>,
    /// Highest TSN reported.
    pub(super) highest: u64,
    /// Highest TSN for which a missing Gap Ack Block means a missing chunk: a SACK with many blocks
    /// may have had no room for more.
    pub(super) complete_up_to: u64,
    /// The SACK arrived during Fast Recovery and advances the Cumulative TSN Ack Point.
    pub(super) recovery_progress: bool,
}

impl LossDetector {
    pub(super) fn new(policies: &Policies) -> Self {
        let threshold = policies.missing_reports;
        match policies.loss_detection {
            LossDetection::Rack => Self::Rack {
                probes: policies.tail_loss_probe,
            },
            LossDetection::EveryReport => Self::Rfc2960(MissingReportCounters::new(threshold)),
            LossDetection::MissingReports
                if policies.multipath.report_scope == ReportScope::Path =>
            {
                Self::MissingReportsPerPath {
                    threshold: usize::from(threshold),
                    per_sack: policies.multipath.reports_per_sack,
                }
            }
            LossDetection::MissingReports => Self::MissingReports(Box::new(MissingReports::new(
                threshold,
                policies.repeated_fast_retransmit,
            ))),
        }
    }

    /// Records about outstanding chunks that the detector reads; `concurrent` if several paths carry
    /// new data, `ordered` if the order of transmission is kept for another reason.
    pub(super) fn tracking(&self, concurrent: bool, ordered: bool, repeated: bool) -> Tracking {
        let per_path = self.is_per_path();
        Tracking {
            ordered: ordered || per_path || concurrent || matches!(self, Self::Rack { .. }),
            repeated: !per_path || repeated,
            marked_by_path: per_path || concurrent,
        }
    }

    /// Returns whether missing reports are counted for each path.
    pub(super) fn is_per_path(&self) -> bool {
        matches!(self, Self::MissingReportsPerPath { .. })
    }

    /// Returns whether missing reports account for the loss of abandoned chunks (RFC 3758, section 3.5,
    /// F5).
    pub(super) fn finds_abandoned_losses(&self) -> bool {
        matches!(self, Self::MissingReports(_) | Self::Rfc2960(_))
    }

    /// Returns whether the size of the reordering window depends on reported duplicates.
    pub(super) fn learns_from_duplicates(&self) -> bool {
        matches!(self, Self::Rack { .. })
    }

    /// Returns whether the association is in Fast Recovery; a path's own is in [`PathRecovery`].
    pub(super) fn is_in_fast_recovery(&self) -> bool {
        matches!(self, Self::MissingReports(reports) if reports.is_active())
    }

    /// Returns whether Fast Recovery forbids that the window of a path grows (RFC 9260, section
    /// 7.2.1).
    pub(super) fn holds_window(&self, path: &PathRecovery) -> bool {
        match self {
            Self::MissingReports(reports) => reports.is_active(),
            Self::MissingReportsPerPath { .. } | Self::Rack { .. } => path.is_fast(),
            Self::Rfc2960(_) => false,
        }
    }

    /// Records an acknowledged chunk. Returns its round-trip time if that is a measurement.
    pub(super) fn on_acknowledged(
        &self,
        path: &mut PathRecovery,
        index: u64,
        chunk: &AckedChunk,
        now: Time,
    ) -> Option<Duration> {
        let delivery = Delivery {
            index,
            serial: chunk.serial,
            sent: chunk.sent,
            once: chunk.transmissions == 1,
            clear: !chunk.ambiguous && !chunk.delivery_uncertain,
        };
        // The round-trip time is of use to congestion control with any detector.
        let rtt = path.rack_mut().on_delivered(&delivery, now);
        if let Self::MissingReportsPerPath {
            threshold,
            per_sack,
        } = *self
        {
            let first_in_packet = chunk.first_in_packet;
            path.reports_mut()
                .on_delivered(&delivery, first_in_packet, per_sack, threshold);
        }
        rtt
    }

    /// Records a chunk that the peer reneged on.
    pub(super) fn on_reneged(&mut self, index: u64) {
        if let Self::MissingReports(reports) = self {
            reports.on_reneged(index);
        }
    }

    /// Records the Cumulative TSN Ack Point of a SACK.
    pub(super) fn on_cumulative(&mut self, cumulative: u64) {
        if let Self::MissingReports(reports) = self {
            reports.on_cumulative(cumulative);
        }
    }

    /// Ends the report of a SACK about one path; `oldest_acknowledged` if it acknowledged the oldest
    /// chunk in flight there.
    pub(super) fn on_path_report(&self, path: &mut PathRecovery, oldest_acknowledged: bool) {
        if let Self::MissingReportsPerPath {
            threshold,
            per_sack,
        } = *self
        {
            let recovering = path.is_fast();
            path.reports_mut()
                .on_sack_end(recovering, oldest_acknowledged, per_sack, threshold);
        }
    }

    /// Marks the chunks that a SACK shows to be lost; returns them.
    pub(super) fn on_sack(
        &mut self,
        sack: &SackReport,
        outstanding: &mut Outstanding,
        paths: &mut Paths,
    ) -> Vec<u64> {
        match self {
            Self::MissingReports(reports) => {
                let mut lost = Vec::new();
                if let Some(htna) = sack.htna {
                    // RFC 9260, section 7.2.4: in Fast Recovery, progress reports all that is missing.
                    let below = if sack.recovery_progress {
                        sack.highest.max(htna)
                    } else {
                        htna
                    };
                    reports.on_report(below);
                    lost = reports.detect(outstanding, paths);
                }
                lost
            }
            Self::Rfc2960(counters) => counters.on_sack(sack.highest, outstanding, paths),
            Self::MissingReportsPerPath { .. } | Self::Rack { .. } if sack.htna.is_none() => {
                Vec::new()
            }
            Self::MissingReportsPerPath { threshold, .. } => {
                missing_reports_per_path::detect(*threshold, outstanding, paths)
            }
            Self::Rack { .. } => rack::detect(sack.now, sack.complete_up_to, outstanding, paths),
        }
    }

    /// Ends the processing of a SACK.
    pub(super) fn on_sack_end(&mut self) {
        if let Self::MissingReports(reports) = self {
            reports.on_sack_end();
        }
    }

    /// Marks the chunks that are lost because a reordering timer expired; returns them.
    pub(super) fn on_reordering_timer(
        &self,
        now: Time,
        complete_up_to: u64,
        outstanding: &mut Outstanding,
        paths: &mut Paths,
    ) -> Vec<u64> {
        match self {
            Self::Rack { .. } => rack::detect(now, complete_up_to, outstanding, paths),
            _ => Vec::new(),
        }
    }

    /// Returns whether the loss of a chunk is a separate congestion event.
    pub(super) fn is_congestion_event(&self, chunk: &Chunk, path: &PathRecovery) -> bool {
        match self {
            // What was sent before the window was reduced is part of the same event.
            Self::Rack { .. } => !chunk.delivery_uncertain && chunk.serial > path.reduced_at(),
            Self::MissingReportsPerPath { .. } => !path.is_fast(),
            Self::MissingReports(_) | Self::Rfc2960(_) => true,
        }
    }

    /// Enters Fast Recovery up to this index. Returns whether windows may be reduced: not where the
    /// association is in Fast Recovery (RFC 9260, section 7.2.4, step 2).
    pub(super) fn enter_fast_recovery(&mut self, exit: u64) -> bool {
        match self {
            Self::MissingReports(reports) => reports.enter(exit),
            _ => true,
        }
    }

    /// Leaves Fast Recovery: T3-rtx expired.
    pub(super) fn leave_fast_recovery(&mut self) {
        if let Self::MissingReports(reports) = self {
            reports.leave();
        }
    }

    /// Records that a marked chunk leaves again; the next new chunk has the index `next`.
    pub(super) fn on_retransmission(&mut self, index: u64, chunk: &Chunk, next: u64) {
        if let Self::MissingReports(reports) = self
            && !chunk.fast_retransmitted
        {
            reports.on_retransmission(index, chunk.transmissions.saturating_add(1), next);
        }
    }

    /// Frees the memory for reports about chunks, none of which is outstanding.
    pub(super) fn free_unused_memory(&mut self) {
        if let Self::MissingReports(reports) = self {
            reports.free_unused_memory();
        }
    }

    /// Returns whether timers shorter than T3-rtx run for data in flight.
    pub(super) fn sends_probes(&self) -> bool {
        matches!(self, Self::Rack { probes: true })
    }

    /// Restarts the probe timer of a path, with tail loss probes (RFC 8985, section 7.2).
    pub(super) fn arm_probe(&self, path: &mut Path, now: Time, config: &AssociationConfig) {
        if self.sends_probes() {
            path.arm_probe(now, config);
        }
    }

    /// Steps of the work on missing reports since the last call.
    #[cfg(test)]
    pub(super) fn take_work(&self) -> usize {
        match self {
            Self::MissingReports(reports) => reports.work.take(),
            _ => 0,
        }
    }
}
