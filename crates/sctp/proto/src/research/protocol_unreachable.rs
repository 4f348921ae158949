//! Response to an ICMP message that reports no SCTP at the peer's address (RFC 9260, section 10,
//! ICMP8).

/// Effect of "Protocol Unreachable" and "Unrecognized Next Header Type" on an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolUnreachable {
    /// It ends at once, as after an ABORT: the rule of RFC 9260.
    Abort,
    /// While it is set up, it ends at once. Later it ends when such messages still come one RTO after
    /// the first, and no packet of the peer in between.
    ///
    /// For peers that are programs on raw sockets: there is no SCTP in their kernel, and current Linux
    /// kernels send this message for each packet that finds the buffer of such a socket full. In UDP
    /// it is a Port Unreachable that counts, which a peer's restart may cause as well.
    AbortAfterSilence,
}

portable_enum! { ProtocolUnreachable { 0: Abort, 1: AbortAfterSilence } }
