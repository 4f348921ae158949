//! Concurrent multipath transfer: independent policies for new data on several paths at once (Iyengar,
//! Amer, Stewart: "Concurrent Multipath Transfer Using SCTP Multihoming Over Independent End-to-End
//! Paths", IEEE/ACM Transactions on Networking, 2006).
//!
//! All policies except [`GapSacks`] concern the sender only; the peer needs no extension of RFC 9260.

mod buffer_splitting;
mod data_route;
mod gap_sacks;
mod scope;
mod window_growth;

pub use buffer_splitting::{BufferSplitting, SplitBasis};
pub(crate) use buffer_splitting::{Shares, Usage};
pub use data_route::DataRoute;
pub use gap_sacks::GapSacks;
pub use scope::{ReportScope, ReportsPerSack};
pub use window_growth::WindowGrowth;

/// Multipath policies of one association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Multipath {
    /// Path selection for new data: the primary path, or all paths.
    pub data_route: DataRoute,
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

portable_struct! {
    Multipath {
        data_route, report_scope, reports_per_sack, window_growth, buffer_splitting, split_basis,
        gap_sacks,
    }
}

impl Default for Multipath {
    fn default() -> Self {
        Self {
            data_route: DataRoute::PrimaryOnly,
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
            data_route: DataRoute::RoundRobin,
            report_scope: ReportScope::Path,
            reports_per_sack: ReportsPerSack::Packets,
            buffer_splitting: BufferSplitting::Both,
            ..Self::default()
        }
    }
}
