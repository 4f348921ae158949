//! Rules of papers and of old implementations, each a named value of [`Policies`].
//!
//! The defaults are the rules of RFC 9260. A rule is a variant of an enum in this module, which is below the parts of the
//! core: all of them read its rules. The code of a rule is here as well, unless it needs the state of a part; then it is in
//! the file of that part with the name of the rule, such as `tx/retransmission_route.rs`. The exception is congestion
//! control, which a user of the crate can implement (see [`cc`](crate::cc)).

mod address_verification;
mod after_timeout;
mod bundled_duplicates;
mod loss_detection;
mod marked_data;
mod multipath;
mod protocol_unreachable;
mod retransmission_route;
mod sack_route;
mod sctplib_window_rules;
mod sws_avoidance;
mod unlisted_i_forward_tsn;
mod window_announcement;

use alloc::sync::Arc;

use crate::cc::{Algorithm, Cubic, Rfc9260};

pub use address_verification::AddressVerification;
pub use after_timeout::AfterTimeout;
pub use bundled_duplicates::BundledDuplicates;
pub use loss_detection::LossDetection;
pub use marked_data::MarkedData;
pub use multipath::{
    BufferSplitting, DataRoute, GapSacks, Multipath, ReportScope, ReportsPerSack, SplitBasis,
    WindowGrowth,
};
pub(crate) use multipath::{Shares, Usage};
pub use protocol_unreachable::ProtocolUnreachable;
pub use retransmission_route::RetransmissionRoute;
pub use sack_route::SackRoute;
pub use sctplib_window_rules::{GapAckCount, ReducedPath};
pub use sws_avoidance::SwsAvoidance;
pub use unlisted_i_forward_tsn::UnlistedIForwardTsn;
pub use window_announcement::WindowAnnouncement;

/// Policies of one association.
#[derive(Clone, Debug)]
pub struct Policies {
    /// Selects the path of each SACK.
    pub sack_route: SackRoute,
    /// Selects the path of each retransmission.
    pub retransmission_route: RetransmissionRoute,
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
    pub congestion: Arc<dyn Algorithm>,
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

portable_struct! {
    Policies {
        sack_route, retransmission_route, missing_reports, count_data_header, window_announcement,
        protocol_unreachable, after_timeout, marked_data, unlisted_i_forward_tsn,
        address_verification, bundled_duplicates, congestion, reduced_path, gap_ack_count,
        loss_detection, repeated_fast_retransmit, tail_loss_probe, proportional_rate_reduction,
        undo_spurious, multipath,
    }
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            sack_route: SackRoute::Source,
            retransmission_route: RetransmissionRoute::TimeoutsOnAlternate,
            missing_reports: 3,
            count_data_header: true,
            window_announcement: WindowAnnouncement::Fitting,
            protocol_unreachable: ProtocolUnreachable::Abort,
            after_timeout: AfterTimeout::OnePacket,
            marked_data: MarkedData::HoldsPath,
            unlisted_i_forward_tsn: UnlistedIForwardTsn::Abort,
            address_verification: AddressVerification::Heartbeat,
            bundled_duplicates: BundledDuplicates::ReportAtOnce,
            congestion: Arc::new(Rfc9260),
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
            congestion: Arc::new(Cubic),
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
