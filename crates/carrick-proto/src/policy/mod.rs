//! Choices in which papers and implementations differ, each a named value per association.
//!
//! The standard's choice is the default. A new idea is a new file here with one `impl`; the core
//! calls it through the trait and has no branch for it.

mod address_verification;
mod after_timeout;
mod marked_data;
mod multipath;
mod protocol_unreachable;
mod retransmit_asap;
mod retransmit_in_turn;
mod retransmit_on_alternate;
mod retransmit_on_largest_cwnd;
mod retransmit_on_largest_ssthresh;
mod retransmit_on_lowest_loss;
mod retransmit_on_same_path;
mod retransmit_timeouts_on_alternate;
mod unlisted_i_forward_tsn;
mod window;

use core::fmt;
use core::time::Duration;

use crate::congestion::{Algorithm, Cubic, Rfc9260};
use crate::path::PathId;
pub use crate::rx::{
    BundledDuplicates, LowestRttForGapSacks, OtherPathOnDuplicates, SackRoute, SackSituation,
    SackToSource,
};

pub use address_verification::AddressVerification;
pub use after_timeout::AfterTimeout;
pub use marked_data::MarkedData;
pub use multipath::{
    BufferSplitting, DataRoute, FastestFirst, GapSacks, Multipath, PrimaryFirst, PrimaryOnly,
    ReportScope, ReportsPerSack, RoundRobin, SplitBasis, WindowGrowth,
};
pub(crate) use multipath::{Shares, Usage};
pub use protocol_unreachable::ProtocolUnreachable;
pub use retransmit_asap::RetransmitAsap;
pub use retransmit_in_turn::RetransmitInTurn;
pub use retransmit_on_alternate::RetransmitOnAlternate;
pub use retransmit_on_largest_cwnd::RetransmitOnLargestCwnd;
pub use retransmit_on_largest_ssthresh::RetransmitOnLargestSsthresh;
pub use retransmit_on_lowest_loss::RetransmitOnLowestLoss;
pub use retransmit_on_same_path::RetransmitOnSamePath;
pub use retransmit_timeouts_on_alternate::RetransmitTimeoutsOnAlternate;
pub use unlisted_i_forward_tsn::UnlistedIForwardTsn;
pub(crate) use window::BufferView;
pub use window::WindowAnnouncement;

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

/// How losses are found before T3-rtx expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// By SACKs that report a chunk missing (RFC 9260 section 7.2.4), as many of them as
    /// [`Policies::missing_reports`] says, and once for each chunk unless
    /// [`Policies::repeated_fast_retransmit`] says otherwise.
    MissingReports,
    /// The same as RFC 2960 had it: every SACK that reports a chunk missing counts, also one that
    /// acknowledges nothing new, the count begins again with each fast retransmission, and each of
    /// them reduces the window of the path where the chunk was last sent. There is no Fast
    /// Recovery, so that SACKs for what was in flight answer one loss several times in a round
    /// trip. For experiments (paper `mobile-ip`).
    EveryReport,
    /// By time: a chunk is lost when one sent later on the same path has been acknowledged, and then
    /// as much time has passed as reordering may take (RACK, RFC 8985). Finds losses of
    /// retransmissions too.
    Rack,
}

/// What a policy sees of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathView {
    /// Which path.
    pub id: PathId,
    /// Its address is verified, so that it may carry data.
    pub confirmed: bool,
    /// Its error counter has not exceeded Path.Max.Retrans.
    pub active: bool,
    /// Active, but potentially failed (RFC 7829).
    pub potentially_failed: bool,
    /// It is the one for new data.
    pub primary: bool,
    /// It is the one for retransmissions where they take turns: the path after the primary, until
    /// T3-rtx expires there, then the next active one, and so on.
    pub in_turn: bool,
    /// Smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// Consecutive errors.
    pub error_count: u32,
    /// Congestion window in bytes.
    pub cwnd: usize,
    /// Outstanding bytes.
    pub flight_size: usize,
    /// Slow-start threshold in bytes.
    pub ssthresh: usize,
    /// Of a million chunks sent here, as many were lost, by what was sent lately.
    pub loss_ppm: u32,
    /// The window lets another packet leave.
    pub has_room: bool,
}

impl PathView {
    /// Confirmed, active and not potentially failed.
    pub fn usable(&self) -> bool {
        self.confirmed && self.active && !self.potentially_failed
    }
}

/// Why a chunk is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossSignal {
    /// T3-rtx expired.
    Timeout,
    /// Enough missing reports, or RACK.
    MissingReports,
}

/// Decides where a retransmission goes.
pub trait RetransmissionRoute: Sync {
    /// The name for reports and configuration.
    fn name(&self) -> &'static str;
    /// The path for a chunk that was last sent to `last`. A path that is not confirmed is not
    /// used, whatever this says.
    fn route(
        &self,
        signal: LossSignal,
        last: PathId,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId;
}

/// The usable path other than `last` with the fewest errors, the primary first among equals, then
/// the one with the lowest round-trip time; `last` if there is none, or if it has fewer errors
/// itself: a path that stopped answering is not inactive yet, and the chunk would wait for it.
pub(crate) fn alternate(last: PathId, paths: &mut dyn Iterator<Item = PathView>) -> PathId {
    let mut errors_of_last = u32::MAX;
    let other = paths
        .inspect(|p| {
            if p.id == last && p.usable() {
                errors_of_last = p.error_count;
            }
        })
        .filter(|p| p.id != last && p.usable())
        .min_by_key(|p| {
            (
                p.error_count,
                !p.primary,
                p.srtt.unwrap_or(Duration::MAX),
                p.id,
            )
        });
    other
        .filter(|p| p.error_count <= errors_of_last)
        .map_or(last, |p| p.id)
}

/// The usable path with the lowest key, the lowest number among equals; `last` if none
/// is usable.
pub(crate) fn alternate_by<K: Ord>(
    last: PathId,
    paths: &mut dyn Iterator<Item = PathView>,
    key: impl Fn(&PathView) -> K,
) -> PathId {
    paths
        .filter(PathView::usable)
        .min_by_key(key)
        .map_or(last, |p| p.id)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn path(id: u8, active: bool, srtt_ms: u64) -> PathView {
        PathView {
            id: PathId(id),
            confirmed: true,
            active,
            potentially_failed: false,
            primary: id == 0,
            in_turn: false,
            srtt: Some(Duration::from_millis(srtt_ms)),
            error_count: 0,
            cwnd: 4404,
            flight_size: 0,
            ssthresh: usize::MAX,
            loss_ppm: 0,
            has_room: true,
        }
    }

    #[test]
    fn the_alternate_is_never_a_dead_path_while_a_live_one_exists() {
        let paths = [
            path(0, true, 100),
            path(1, false, 1),
            path(2, true, 50),
            path(3, true, 20),
        ];
        assert_eq!(alternate(PathId(0), &mut paths.into_iter()), PathId(3));
        assert_eq!(
            alternate(PathId(3), &mut paths.into_iter()),
            PathId(0),
            "the primary first"
        );
        let mut silent = [path(0, true, 100), path(1, true, 1)];
        silent[1].error_count = 2;
        silent[0].error_count = 1;
        assert_eq!(
            alternate(PathId(0), &mut silent.into_iter()),
            PathId(0),
            "not to a path that answers even less"
        );
        let only = [path(0, true, 100), path(1, false, 1)];
        assert_eq!(alternate(PathId(0), &mut only.into_iter()), PathId(0));
    }
}
