//! Avoidance of the silly window syndrome, at the sender and at the receiver of data.

/// Windows that are too small to be used, or to be advertised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwsAvoidance {
    /// No window is too small.
    Off,
    /// Rules of RFC 9260. The sender does not use a window that limits a packet and is less than half of
    /// the largest one of the peer (section 6.1 A). The receiver advertises 1 while less than two packets,
    /// or half of a small buffer, are free (section 6.2).
    Packets,
    /// A limit in bytes, as in the SCTP of the INET framework, with which paper `overhead` was simulated
    /// (`swsLimit`, 3,000). The sender regards the peer as full while the tracked window is below it. The
    /// receiver advertises 1 as soon as less is free, until it is free again; then it sends a SACK.
    Below(usize),
}

portable_enum! { SwsAvoidance { 0: Off, 1: Packets, 2: Below(value) } }
