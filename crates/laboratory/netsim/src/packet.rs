//! IP packets: header fields and payload bytes.
//!
//! Links account for the header that a packet has on a wire ([`Packet::wire_len`]). The header is
//! encoded only for captures, ICMP quotations and tunnels ([`ip`](crate::ip)).

use core::net::IpAddr;

use bytes::Bytes;

/// Length of an IPv4 header without options.
pub const IPV4_HEADER: usize = 20;
/// Length of an IPv6 header without extensions.
pub const IPV6_HEADER: usize = 40;
/// Length of a UDP header.
pub const UDP_HEADER: usize = 8;

/// The UDP port of SCTP encapsulated in UDP (RFC 6951).
pub const SCTP_ENCAPSULATION_PORT: u16 = 9899;

/// Protocol of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// IP protocol 132; the payload is an SCTP packet.
    Sctp,
    /// SCTP in UDP (RFC 6951); the payload is an SCTP packet, without the UDP header.
    UdpEncapsulated {
        /// UDP port of the sender.
        source_port: u16,
        /// UDP port of the receiver.
        destination_port: u16,
    },
    /// Other UDP; the payload is without the UDP header.
    Udp {
        /// UDP port of the sender.
        source_port: u16,
        /// UDP port of the receiver.
        destination_port: u16,
    },
    /// IP protocol 6; the payload is a TCP segment with its header.
    Tcp,
    /// A tunnel (RFC 2003): IP protocol 4 or 41, after the version of the packet in the payload.
    IpInIp,
    /// ICMP or `ICMPv6`, after the version of the addresses; the payload is the whole message.
    Icmp,
    /// Another IP protocol by its number; the payload follows the IP header.
    Other(u8),
}

/// ECN field of the IP header.(RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not ECN-capable: 00.
    #[default]
    NotEct,
    /// ECN-capable, codepoint 01.
    Ect1,
    /// ECN-capable, codepoint 10.
    Ect0,
    /// Congestion experienced: 11.
    Ce,
}

impl Ecn {
    /// Returns the two bits of the header field.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }

    /// Returns the codepoint in the two low bits of the traffic class.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns whether a queue may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// An IP packet. All packets carry "don't fragment": no packet is fragmented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address, of the same IP version as the source.
    pub destination: IpAddr,
    /// Protocol of the payload.
    pub protocol: Protocol,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// DSCP of the IP header, 0 to 63.
    pub dscp: u8,
    /// Time to live or hop limit; each router decrements it.
    pub ttl: u8,
    /// Bytes after the IP header, and after the UDP header if there is one.
    pub payload: Bytes,
    /// Flow tag for statistics; not part of the packet on a wire.
    pub flow: u32,
}

impl Packet {
    /// Time to live of new packets (RFC 1700).
    pub const DEFAULT_TTL: u8 = 64;

    /// Returns a packet without ECN and DSCP, with the default time to live, of flow 0.
    pub fn new(
        source: IpAddr,
        destination: IpAddr,
        protocol: Protocol,
        payload: impl Into<Bytes>,
    ) -> Self {
        Self {
            source,
            destination,
            protocol,
            ecn: Ecn::NotEct,
            dscp: 0,
            ttl: Self::DEFAULT_TTL,
            payload: payload.into(),
            flow: 0,
        }
    }

    /// Sets the flow tag.
    #[must_use]
    pub fn with_flow(mut self, flow: u32) -> Self {
        self.flow = flow;
        self
    }

    /// Sets the ECN codepoint.
    #[must_use]
    pub fn with_ecn(mut self, ecn: Ecn) -> Self {
        self.ecn = ecn;
        self
    }

    /// Sets the DSCP, 0 to 63.
    #[must_use]
    pub fn with_dscp(mut self, dscp: u8) -> Self {
        self.dscp = dscp;
        self
    }

    /// Returns the length of the headers before the payload: IP, and UDP if there is one.
    pub fn header_len(&self) -> usize {
        let ip = match self.destination {
            IpAddr::V4(_) => IPV4_HEADER,
            IpAddr::V6(_) => IPV6_HEADER,
        };
        match self.protocol {
            Protocol::UdpEncapsulated { .. } | Protocol::Udp { .. } => ip + UDP_HEADER,
            _ => ip,
        }
    }

    /// Returns the length of the IP packet in bytes, on which link rates, byte queues and the MTU
    /// are based.
    pub fn wire_len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    /// Returns whether the packet can be encoded: addresses of one IP version, and a length that
    /// fits into 16 bits.
    pub fn is_well_formed(&self) -> bool {
        self.source.is_ipv4() == self.destination.is_ipv4()
            && u16::try_from(self.wire_len()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
    const ENCAPSULATED: Protocol = Protocol::UdpEncapsulated {
        source_port: SCTP_ENCAPSULATION_PORT,
        destination_port: SCTP_ENCAPSULATION_PORT,
    };

    #[test]
    fn wire_length_counts_the_headers() {
        let len =
            |address, protocol| Packet::new(address, address, protocol, vec![0; 100]).wire_len();
        assert_eq!(len(V4, Protocol::Sctp), 120);
        assert_eq!(len(V6, Protocol::Sctp), 140);
        assert_eq!(len(V4, ENCAPSULATED), 128);
        assert_eq!(len(V6, ENCAPSULATED), 148);
    }

    #[test]
    fn mixed_versions_and_excess_lengths_are_malformed() {
        assert!(!Packet::new(V4, V6, Protocol::Tcp, vec![]).is_well_formed());
        assert!(Packet::new(V4, V4, Protocol::Tcp, vec![0; 65_515]).is_well_formed());
        assert!(!Packet::new(V4, V4, Protocol::Tcp, vec![0; 65_516]).is_well_formed());
    }

    #[test]
    fn ecn_bits_round_trip() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits);
        }
        assert!(Ecn::Ect0.is_capable() && !Ecn::NotEct.is_capable());
    }
}
