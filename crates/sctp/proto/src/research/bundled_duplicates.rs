//! Acknowledgement of duplicates (RFC 9260, section 6.2).

/// Acknowledgement of a packet with both duplicate and new DATA (RFC 9260, section 6.2, leaves the
/// choice). A packet with only duplicates is always acknowledged at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BundledDuplicates {
    /// At once: the sender learns earlier that a retransmission was not needed.
    ReportAtOnce,
    /// Like any packet with new DATA.
    ReportLater,
}

portable_enum! { BundledDuplicates { 0: ReportAtOnce, 1: ReportLater } }
