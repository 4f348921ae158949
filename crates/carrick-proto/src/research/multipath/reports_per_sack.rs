//! Delayed acknowledgements for several paths (Iyengar et al. 2006, DAC), sender side.
//!
//! In that paper the receiver delays SACKs even above a gap and reports the number of packets since the last
//! SACK in two bits of the SACK; the sender counts that number of missing reports. No standard defines these
//! bits. The sender here derives the number from its own records: the packets of the newly acknowledged
//! chunks, their paths, and the order of their departure.

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
