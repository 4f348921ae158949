//! Limit of the data in flight to a path between an expiration of T3-rtx and the next acknowledgement
//! (RFC 9260 section 7.2.3).

/// Limit of the data sent to a path after an expiration of T3-rtx, until data sent there is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterTimeout {
    /// One packet, however small: the rule of RFC 9260.
    OnePacket,
    /// As many chunks as it takes to fill the window of one PMDCS, in one packet or more; the last
    /// may exceed it. Implementations that count only bytes behave like this (paper `failover`: six
    /// messages of 250 bytes).
    OneWindow,
}

portable_enum! { AfterTimeout { 0: OnePacket, 1: OneWindow } }
