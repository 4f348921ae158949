//! Rules of papers and of old implementations, each a named value of [`Policies`].
//!
//! The defaults are the rules of RFC 9260. Their code is in the core, next to its callers; this module
//! re-exports it. A new rule is a new file here with one `impl`; the core calls it through the trait and
//! has no branch for it.

mod address_verification;
mod multipath;
mod protocol_unreachable;
mod retransmit_asap;
mod retransmit_in_turn;
mod retransmit_on_alternate;
mod retransmit_on_best_path;
mod retransmit_on_same_path;
mod sctplib_window_rules;
mod unlisted_i_forward_tsn;

use core::fmt;

use crate::cc::{Algorithm, Cubic, Rfc9260};
pub use crate::path::{AfterTimeout, PathView};
pub use crate::rx::{
    BundledDuplicates, LowestRttForGapSacks, OtherPathOnDuplicates, SackRoute, SackSituation,
    SackToSource, WindowAnnouncement,
};
pub use crate::tx::{
    LossDetection, LossSignal, MarkedData, RetransmissionRoute, RetransmitTimeoutsOnAlternate,
};

pub use address_verification::AddressVerification;
pub use multipath::{
    BufferSplitting, DataRoute, FastestFirst, GapSacks, Multipath, PrimaryFirst, PrimaryOnly,
    ReportScope, ReportsPerSack, RoundRobin, SplitBasis, WindowGrowth,
};
pub(crate) use multipath::{Shares, Usage};
pub use protocol_unreachable::ProtocolUnreachable;
pub use retransmit_asap::RetransmitAsap;
pub use retransmit_in_turn::RetransmitInTurn;
pub use retransmit_on_alternate::RetransmitOnAlternate;
pub use retransmit_on_best_path::{
    RetransmitOnLargestCwnd, RetransmitOnLargestSsthresh, RetransmitOnLowestLoss,
};
pub use retransmit_on_same_path::RetransmitOnSamePath;
pub use sctplib_window_rules::{GapAckCount, ReducedPath};
pub use unlisted_i_forward_tsn::UnlistedIForwardTsn;

/// Policies of one association.
#[derive(Clone, Copy)]
pub struct Policies {
    /// Selects the path of each SACK.
    pub sack_route: &'static dyn SackRoute,
    /// Selects the path of each retransmission.
    pub retransmission_route: &'static dyn RetransmissionRoute,
    /// Number of missing reports that trigger fast retransmit: 3 (RFC 9260, section 7.2.4), or 4 in RFC 2960.
    pub missing_reports: u8,
    /// Counts the headers and the padding of DATA chunks in the outstanding bytes of a path, as RFC 9260,
    /// section 7.2, requires. Paper `overhead` shows the effect of `false`.
    pub count_data_header: bool,
    /// Computation of the advertised receiver window (`a_rwnd`).
    pub window_announcement: WindowAnnouncement,
    /// Response to an ICMP message which reports that the peer does not support SCTP (RFC 9260, section 10).
    pub protocol_unreachable: ProtocolUnreachable,
    /// Limit of the data sent on a path after T3-rtx expired there, until data of that path is acknowledged.
    pub after_timeout: AfterTimeout,
    /// Order of data marked for retransmission and new data.
    pub marked_data: MarkedData,
    /// Response to an I-FORWARD-TSN chunk that the peer did not list among its supported extensions.
    pub unlisted_i_forward_tsn: UnlistedIForwardTsn,
    /// Verification of the peer's addresses before data is sent to them.
    pub address_verification: AddressVerification,
    /// Immediate or delayed SACK for duplicates in a packet with new DATA.
    pub bundled_duplicates: BundledDuplicates,
    /// Congestion control of each path.
    pub congestion: &'static dyn Algorithm,
    /// Path whose congestion window a fast retransmission reduces.
    pub reduced_path: ReducedPath,
    /// Effect of Gap Ack Blocks on the outstanding bytes that the congestion window limits.
    pub gap_ack_count: GapAckCount,
    /// Loss detection before T3-rtx expires.
    pub loss_detection: LossDetection,
    /// Fast retransmits a chunk each time that enough SACKs for chunks sent after it report it missing;
    /// only with [`LossDetection::MissingReports`]. RFC 2960 did not forbid this; RFC 9260 allows it once
    /// per chunk (section 7.2.4, step 5) and leaves further losses to T3-rtx.
    pub repeated_fast_retransmit: bool,
    /// Sends a packet that elicits a SACK before T3-rtx expires (RFC 8985, section 7); only with
    /// [`LossDetection::Rack`], which evaluates that SACK.
    pub tail_loss_probe: bool,
    /// Reduces the window to ssthresh in proportion to the acknowledged bytes instead of at once (RFC 6937).
    pub proportional_rate_reduction: bool,
    /// Restores the window when the peer reports all retransmitted chunks as duplicates (based on RFC 4015).
    pub undo_spurious: bool,
    /// Concurrent multipath transfer: distribution of new data to several paths.
    pub multipath: Multipath,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            sack_route: &SackToSource,
            retransmission_route: &RetransmitTimeoutsOnAlternate,
            missing_reports: 3,
            count_data_header: true,
            window_announcement: WindowAnnouncement::Fitting,
            protocol_unreachable: ProtocolUnreachable::Abort,
            after_timeout: AfterTimeout::OnePacket,
            marked_data: MarkedData::HoldsPath,
            unlisted_i_forward_tsn: UnlistedIForwardTsn::Abort,
            address_verification: AddressVerification::Heartbeat,
            bundled_duplicates: BundledDuplicates::ReportAtOnce,
            congestion: &Rfc9260,
            reduced_path: ReducedPath::OfLoss,
            gap_ack_count: GapAckCount::Once,
            loss_detection: LossDetection::MissingReports,
            repeated_fast_retransmit: false,
            tail_loss_probe: false,
            proportional_rate_reduction: false,
            undo_spurious: false,
            multipath: Multipath::default(),
        }
    }
}

impl Policies {
    /// Returns policies with the loss recovery and congestion control of current TCP: RACK-TLP (RFC 8985),
    /// proportional rate reduction (RFC 6937), undoing of needless reductions (based on RFC 4015), CUBIC
    /// (RFC 9438) with `HyStart++` (RFC 9406). In addition, an ICMP message ends an association only if the
    /// peer is silent ([`ProtocolUnreachable::AbortAfterSilence`]), and an I-FORWARD-TSN as sent by Linux is
    /// accepted ([`UnlistedIForwardTsn::Take`]). All other policies are the defaults of RFC 9260.
    pub fn modern() -> Self {
        Self {
            congestion: &Cubic,
            loss_detection: LossDetection::Rack,
            tail_loss_probe: true,
            proportional_rate_reduction: true,
            undo_spurious: true,
            protocol_unreachable: ProtocolUnreachable::AbortAfterSilence,
            unlisted_i_forward_tsn: UnlistedIForwardTsn::Take,
            ..Self::default()
        }
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies")
            .field("sack_route", &self.sack_route.name())
            .field("retransmission_route", &self.retransmission_route.name())
            .field("missing_reports", &self.missing_reports)
            .field("count_data_header", &self.count_data_header)
            .field("window_announcement", &self.window_announcement)
            .field("protocol_unreachable", &self.protocol_unreachable)
            .field("after_timeout", &self.after_timeout)
            .field("marked_data", &self.marked_data)
            .field("unlisted_i_forward_tsn", &self.unlisted_i_forward_tsn)
            .field("address_verification", &self.address_verification)
            .field("bundled_duplicates", &self.bundled_duplicates)
            .field("congestion", &self.congestion.name())
            .field("reduced_path", &self.reduced_path)
            .field("gap_ack_count", &self.gap_ack_count)
            .field("loss_detection", &self.loss_detection)
            .field("repeated_fast_retransmit", &self.repeated_fast_retransmit)
            .field("tail_loss_probe", &self.tail_loss_probe)
            .field(
                "proportional_rate_reduction",
                &self.proportional_rate_reduction,
            )
            .field("undo_spurious", &self.undo_spurious)
            .field("multipath", &self.multipath)
            .finish()
    }
}
