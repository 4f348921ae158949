//! Split fast retransmit (Iyengar et al. 2006, SFR): several paths reorder TSNs without any loss, and only
//! the acknowledgement of a chunk sent later on the same path indicates the loss of a chunk.

/// SACKs that count as missing reports for a chunk (RFC 9260, section 7.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportScope {
    /// A SACK that newly acknowledges a higher TSN, sent on any path. Fast Recovery concerns the whole
    /// association (RFC 9260).
    Association,
    /// A SACK that newly acknowledges a chunk sent later on the same path. Each path has its own Fast
    /// Recovery, which ends when the data that was outstanding on that path is acknowledged.
    ///
    /// The order is the order of transmission, not of TSNs: the acknowledgement of a chunk that was sent
    /// more than once is no missing report, because it may concern an earlier copy.
    Path,
}

portable_enum! { ReportScope { 0: Association, 1: Path } }

/// Number of missing reports per SACK and path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportsPerSack {
    /// One per SACK (RFC 9260, section 7.2.4), for a peer that sends a SACK for each packet above a gap.
    One,
    /// One per packet of the path that the SACK newly acknowledges, for chunks sent before that packet. The
    /// result equals [`Self::One`] if the peer does not delay SACKs above a gap, and detects losses as
    /// fast if it does.
    Packets,
}

portable_enum! { ReportsPerSack { 0: One, 1: Packets } }
