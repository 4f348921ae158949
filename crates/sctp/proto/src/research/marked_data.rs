//! Order of retransmissions and new data when data marked for retransmission exceeds the window of its
//! path (RFC 9260 sections 6.1 C and 6.3.3 E3, which leave new data to other paths unspecified).

/// How data marked for retransmission and new data wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkedData {
    /// After a timeout one packet of it leaves at once; the rest waits for its path's window, and
    /// holds new data back on that path only.
    HoldsPath,
    /// All marked data waits for its path's window, also the first packet after a timeout, and new data to
    /// any path waits behind it. Implementations with a single retransmission queue behave like this
    /// (paper `failover`: Linux 2.6). Fast retransmissions leave at once, as always.
    HoldsAll,
}

portable_enum! { MarkedData { 0: HoldsPath, 1: HoldsAll } }
