//! Congestion window rules of sctplib, the implementation of paper `satellite`, at a fast retransmission.
//! The first one is in its first public revision (b98e542 of 2003-05-16, `fc_fast_retransmission`); the
//! second one is what its change log of 2002-07-26 removed.

/// Path whose congestion window a fast retransmission reduces (RFC 9260, section 7.2.4, step 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReducedPath {
    /// The path to which the lost chunk was sent.
    OfLoss,
    /// The path on which the SACK with the last missing report arrived. If SACKs with gap reports take
    /// another path than data, losses do not reduce the window of the data's path.
    OfSack,
}

portable_enum! { ReducedPath { 0: OfLoss, 1: OfSack } }

/// Effect of Gap Ack Blocks on the outstanding bytes that the congestion window limits (RFC 9260, section
/// 6.1, B).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapAckCount {
    /// A chunk is no longer outstanding after the first SACK that reports it.
    Once,
    /// Each SACK reduces the outstanding bytes of a path by all its bytes that are acknowledged by Gap Ack
    /// Blocks, to 0 at the least. The counter is right again only when nothing is outstanding: a window that
    /// was reduced by the loss limits hardly anything until then.
    EverySack,
}

portable_enum! { GapAckCount { 0: Once, 1: EverySack } }
