//! Concurrent multipath transfer: what several paths at once for new data need (Iyengar, Amer,
//! Stewart: "Concurrent Multipath Transfer Using SCTP Multihoming Over Independent End-to-End Paths",
//! IEEE/ACM Transactions on Networking, 2006), each a choice of its own.
//!
//! All of it but [`GapSacks`] is the sender's affair: the peer needs nothing besides RFC 9260.

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

/// Which path new data takes. A message that names its path goes there, whatever this says, as long
/// as that path is usable.
pub trait DataRoute: Sync {
    /// The name for reports and configuration.
    fn name(&self) -> &'static str;
    /// Whether several paths carry new data at the same time. [`Self::next`] is asked only
    /// then.
    fn concurrent(&self) -> bool;
    /// The path for the next packet, when the last one went to `last`. Each of `candidates`, in the
    /// order of their numbers, is usable and has room; `None` makes the data wait.
    fn next(&self, last: PathId, candidates: &mut dyn Iterator<Item = PathView>) -> Option<PathId>;
}

/// The choices of one association about several paths at once.
#[derive(Clone, Copy)]
pub struct Multipath {
    /// Which path new data takes: the primary, or all of them.
    pub data_route: &'static dyn DataRoute,
    /// What counts as a missing report, where losses are found by those.
    pub report_scope: ReportScope,
    /// How many missing reports a SACK makes, where they are counted for each path.
    pub reports_per_sack: ReportsPerSack,
    /// Which acknowledgements let the window of a path grow.
    pub window_growth: WindowGrowth,
    /// Whether the paths share the buffers of both sides, or have a part of them each.
    pub buffer_splitting: BufferSplitting,
    /// Which bytes of a path count in its part.
    pub split_basis: SplitBasis,
    /// Whether this side sends a SACK at once for each packet above a gap.
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
    /// Concurrent multipath transfer: all usable paths in turn, missing reports and Fast Recovery
    /// for each path, and no path may take more than its part of the buffers. SACKs are sent as
    /// RFC 9260 says: a peer that does not use several paths gains nothing by less of them.
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
