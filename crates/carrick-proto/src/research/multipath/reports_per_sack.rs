//! Delayed acknowledgements for several paths (Iyengar et al. 2006, DAC), the sender's side.
//!
//! There the receiver, which delays SACKs in spite of gaps, tells with two bits of the SACK how many
//! packets came since the last one, and the sender counts as many missing reports. No standard has
//! these bits, and the sender needs none: it knows which of the chunks that a SACK newly acknowledges
//! were the first of their packet, on which path, and in which order those packets left.

/// How many missing reports a SACK makes for a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportsPerSack {
    /// One, as RFC 9260 section 7.2.4 counts: right for a peer that sends a SACK for each packet
    /// above a gap.
    One,
    /// One for each packet of the path that it newly acknowledges, for chunks sent before that
    /// packet: the same with such a peer, and as fast with one that delays SACKs.
    Packets,
}
