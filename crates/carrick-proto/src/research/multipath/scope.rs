//! Split fast retransmit (Iyengar et al. 2006, SFR): with several paths, TSNs arrive in another
//! order than they left without any loss, and only what was sent later to the same path tells
//! something about a chunk.

/// What counts as a missing report for a chunk (RFC 9260 section 7.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportScope {
    /// A SACK that newly acknowledges a higher TSN, wherever that was sent; Fast Recovery is the
    /// association's. The standard.
    Association,
    /// A SACK that newly acknowledges a chunk sent later to the same path; each path has its own
    /// Fast Recovery, which ends when what was outstanding on that path is acknowledged.
    ///
    /// The order is that of transmission, not of TSNs: an acknowledgement of a chunk that was sent
    /// more than once, and may be that of an earlier copy, is no report.
    Path,
}
