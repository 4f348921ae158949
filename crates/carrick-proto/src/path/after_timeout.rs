//! What may be in flight to a path between an expiration of T3-rtx and the next acknowledgement
//! (RFC 9260 section 7.2.3).

/// What leaves to a path on which T3-rtx expired, before data sent there is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterTimeout {
    /// One packet, however small: the rule of RFC 9260.
    OnePacket,
    /// As many chunks as it takes to fill the window of one PMDCS, in one packet or more; the last
    /// may exceed it. What implementations do that count bytes only (paper `failover`: six messages
    /// of 250 bytes).
    OneWindow,
}
