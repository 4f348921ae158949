//! Rules of papers and of old implementations, each a named value of [`Policies`].
//!
//! The default is RFC 9260's rule, whose code is in the core, next to what it decides; this module
//! re-exports it. A new rule is a new file here with one `impl`; the core calls it through the trait and
//! has no branch for it.

mod address_verification;
mod multipath;
mod retransmit_asap;
mod retransmit_in_turn;
mod retransmit_on_alternate;
mod retransmit_on_largest_cwnd;
mod retransmit_on_largest_ssthresh;
mod retransmit_on_lowest_loss;
mod retransmit_on_same_path;

use core::fmt;

pub use crate::association::{ProtocolUnreachable, UnlistedIForwardTsn};
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
pub use retransmit_asap::RetransmitAsap;
pub use retransmit_in_turn::RetransmitInTurn;
pub use retransmit_on_alternate::RetransmitOnAlternate;
pub use retransmit_on_largest_cwnd::RetransmitOnLargestCwnd;
pub use retransmit_on_largest_ssthresh::RetransmitOnLargestSsthresh;
pub use retransmit_on_lowest_loss::RetransmitOnLowestLoss;
pub use retransmit_on_same_path::RetransmitOnSamePath;

/// The policies of one association.
#[derive(Clone, Copy)]
pub struct Policies {
    /// Where SACKs go.
    pub sack_route: &'static dyn SackRoute,
    /// Where retransmissions go.
    pub retransmission_route: &'static dyn RetransmissionRoute,
    /// Missing reports before fast retransmit: 3, or RFC 2960's 4.
    pub missing_reports: u8,
    /// Whether the DATA chunk's header and padding count in the outstanding bytes of a path
    /// (section 7.2 wants it; paper `overhead` shows what happens without).
    pub count_data_header: bool,
    /// What the advertised receive window says.
    pub window_announcement: WindowAnnouncement,
    /// What an ICMP message does that denies SCTP at the peer.
    pub protocol_unreachable: ProtocolUnreachable,
    /// What may be in flight after a timeout.
    pub after_timeout: AfterTimeout,
    /// How data that is to be sent again and new data wait for each other.
    pub marked_data: MarkedData,
    /// Whether a peer may give messages up with I-FORWARD-TSN that it has not listed.
    pub unlisted_i_forward_tsn: UnlistedIForwardTsn,
    /// Whether data goes to addresses of the peer that were not verified.
    pub address_verification: AddressVerification,
    /// Whether duplicates beside new DATA ask for a SACK at once.
    pub bundled_duplicates: BundledDuplicates,
    /// The congestion control of each path.
    pub congestion: &'static dyn Algorithm,
    /// How losses are found before T3-rtx expires.
    pub loss_detection: LossDetection,
    /// With [`LossDetection::MissingReports`], a chunk is fast retransmitted each time that enough
    /// SACKs for chunks sent after it report it missing. RFC 2960 did not forbid this; RFC 9260
    /// allows it once (section 7.2.4, step 5), and leaves further losses to T3-rtx.
    pub repeated_fast_retransmit: bool,
    /// A packet asks for a SACK before T3-rtx expires (RFC 8985 section 7). Only with
    /// [`LossDetection::Rack`], which makes something of the answer.
    pub tail_loss_probe: bool,
    /// The window comes down to ssthresh in proportion to what is acknowledged, instead of at once
    /// (RFC 6937).
    pub proportional_rate_reduction: bool,
    /// When the peer reports all that was sent again as duplicates, the window is as it was before
    /// (after RFC 4015).
    pub undo_spurious: bool,
    /// Whether several paths carry new data at once, and how.
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
    /// Loss recovery and congestion control as TCP has them today: RACK-TLP (RFC 8985), proportional
    /// rate reduction (RFC 6937), undoing of needless reductions (after RFC 4015), CUBIC (RFC 9438)
    /// with `HyStart++` (RFC 9406). Besides, an ICMP message needs silence to end an association
    /// ([`ProtocolUnreachable::AbortAfterSilence`]), and Linux is understood
    /// ([`UnlistedIForwardTsn::Take`]). The other choices are the standard's.
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
