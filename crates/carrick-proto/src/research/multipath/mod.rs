//! Concurrent multipath transfer: independent policies for new data on several paths at once (Iyengar,
//! Amer, Stewart: "Concurrent Multipath Transfer Using SCTP Multihoming Over Independent End-to-End
//! Paths", IEEE/ACM Transactions on Networking, 2006).
//!
//! All policies except [`GapSacks`] concern the sender only; the peer needs no extension of RFC 9260.

mod buffer_splitting;
mod fastest_first;
mod primary_first;
mod primary_only;
mod reports_per_sack;
mod round_robin;
mod scope;
mod window_growth;

use core::fmt;

use super::PathView;
use crate::path::PathId;
pub use crate::rx::GapSacks;

pub use buffer_splitting::{BufferSplitting, SplitBasis};
pub(crate) use buffer_splitting::{Shares, Usage};
pub use fastest_first::FastestFirst;
pub use primary_first::PrimaryFirst;
pub use primary_only::PrimaryOnly;
pub use reports_per_sack::ReportsPerSack;
pub use round_robin::RoundRobin;
pub use scope::ReportScope;
pub use window_growth::WindowGrowth;

/// Path selection for new data. It does not apply to a message for which the user chose a path, as long as
/// that path is usable.
pub trait DataRoute: Sync {
    /// Returns the name for reports and configuration.
    fn name(&self) -> &'static str;
    /// Returns whether several paths carry new data at the same time. Only then is [`Self::next`] called.
    fn concurrent(&self) -> bool;
    /// Returns the path for the next packet after a packet to `last`; `None` delays the data. The
    /// `candidates` are the usable paths with room in their windows, ordered by [`PathId`].
    fn next(&self, last: PathId, candidates: &mut dyn Iterator<Item = PathView>) -> Option<PathId>;
}

/// Multipath policies of one association.
#[derive(Clone, Copy)]
pub struct Multipath {
    /// Path selection for new data: the primary path, or all paths.
    pub data_route: &'static dyn DataRoute,
    /// SACKs that count as missing reports; only with [`super::LossDetection::MissingReports`].
    pub report_scope: ReportScope,
    /// Number of missing reports per SACK; only with [`ReportScope::Path`].
    pub reports_per_sack: ReportsPerSack,
    /// Acknowledgements that let the window of a path grow.
    pub window_growth: WindowGrowth,
    /// Buffers that are split among the paths instead of shared.
    pub buffer_splitting: BufferSplitting,
    /// Bytes of a path that count towards its part of a split buffer.
    pub split_basis: SplitBasis,
    /// Immediate or delayed SACKs for packets above a gap; concerns the receiver.
    pub gap_sacks: GapSacks,
}

impl Default for Multipath {
    fn default() -> Self {
        Self {
            data_route: &PrimaryOnly,
            report_scope: ReportScope::Association,
            reports_per_sack: ReportsPerSack::One,
            window_growth: WindowGrowth::AnyAcknowledgement,
            buffer_splitting: BufferSplitting::None,
            split_basis: SplitBasis::Outstanding,
            gap_sacks: GapSacks::AtOnce,
        }
    }
}

impl Multipath {
    /// Returns the policies for concurrent multipath transfer: new data on all usable paths in turn,
    /// missing reports and Fast Recovery per path, and buffers split among the paths. SACKs are sent as
    /// in RFC 9260: fewer SACKs are of no use to a peer that sends on a single path.
    pub fn concurrent() -> Self {
        Self {
            data_route: &RoundRobin,
            report_scope: ReportScope::Path,
            reports_per_sack: ReportsPerSack::Packets,
            buffer_splitting: BufferSplitting::Both,
            ..Self::default()
        }
    }
}

impl fmt::Debug for Multipath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multipath")
            .field("data_route", &self.data_route.name())
            .field("report_scope", &self.report_scope)
            .field("reports_per_sack", &self.reports_per_sack)
            .field("window_growth", &self.window_growth)
            .field("buffer_splitting", &self.buffer_splitting)
            .field("split_basis", &self.split_basis)
            .field("gap_sacks", &self.gap_sacks)
            .finish()
    }
}
