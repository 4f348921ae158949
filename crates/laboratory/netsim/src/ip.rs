//! Encoding and decoding of IP packets, for captures, tunnels and quotations in ICMP messages.
//!
//! IPv4 (RFC 791) without options and with "don't fragment", IPv6 (RFC 8200) without extension
//! headers, UDP (RFC 768) with its checksum over both. Everything else is payload.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use thiserror::Error;

use crate::packet::{
    Ecn, IPV4_HEADER, IPV6_HEADER, Packet, Protocol, SCTP_ENCAPSULATION_PORT, UDP_HEADER,
};

const ICMP: u8 = 1;
const IP_IN_IP: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_IN_IP: u8 = 41;
const ICMP_V6: u8 = 58;
const SCTP: u8 = 132;

/// Reason why bytes are not a valid IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IpError {
    /// Shorter than its headers or its length field require.
    #[error("the IP packet is truncated")]
    Truncated,
    /// Neither IPv4 nor IPv6.
    #[error("IP version {0} is unknown")]
    Version(u8),
    /// A header length below the minimum, or a UDP length beyond the packet.
    #[error("a length field of the IP packet is wrong")]
    Length,
    /// A fragment of an IPv4 packet; fragments are not reassembled.
    #[error("the IP packet is a fragment")]
    Fragment,
    /// A wrong checksum in the IPv4 or the UDP header.
    #[error("a checksum of the IP packet is wrong")]
    Checksum,
}

/// Computes the complemented Internet checksum (RFC 1071) of consecutive parts. All parts but the
/// last must have an even length.
pub(crate) fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u64;
    for part in parts {
        let (words, rest) = part.as_chunks::<2>();
        sum += words
            .iter()
            .map(|word| u64::from(u16::from_be_bytes(*word)))
            .sum::<u64>();
        if let [last] = rest {
            sum += u64::from(u16::from_be_bytes([*last, 0]));
        }
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// Builds the pseudo-header that UDP and `ICMPv6` checksums cover, for a payload of `len` bytes.
pub(crate) fn pseudo_header(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    len: usize,
) -> Vec<u8> {
    let mut header = Vec::with_capacity(40);
    put_address(&mut header, source);
    put_address(&mut header, destination);
    header.extend_from_slice(&(len as u32).to_be_bytes());
    header.extend_from_slice(&[0, 0, 0, protocol]);
    header
}

/// Computes the checksum of a TCP segment or another message whose checksum covers a pseudo-header
/// (RFC 9293, section 3.1, RFC 8200, section 8.1), with this protocol number. It is 0 for a message
/// that contains its checksum.
pub fn transport_checksum(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    message: &[u8],
) -> u16 {
    let pseudo = pseudo_header(source, destination, protocol, message.len());
    checksum(&[&pseudo, message])
}

fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

fn protocol_number(packet: &Packet) -> u8 {
    match packet.protocol {
        Protocol::Sctp => SCTP,
        Protocol::UdpEncapsulated { .. } | Protocol::Udp { .. } => UDP,
        Protocol::Tcp => TCP,
        Protocol::IpInIp => match packet.payload.first() {
            Some(first) if first >> 4 == 6 => IPV6_IN_IP,
            _ => IP_IN_IP,
        },
        Protocol::Icmp if packet.destination.is_ipv4() => ICMP,
        Protocol::Icmp => ICMP_V6,
        Protocol::Other(number) => number,
    }
}

impl Packet {
    /// Appends the packet as [`Self::wire_len`] bytes with correct IP and UDP checksums. The packet
    /// must be well formed ([`Self::is_well_formed`]), or its lengths do not fit their fields.
    pub fn write_ip(&self, out: &mut Vec<u8>) {
        out.reserve(self.wire_len());
        let number = protocol_number(self);
        if let (IpAddr::V4(source), IpAddr::V4(destination)) = (self.source, self.destination) {
            let mut header = [0; IPV4_HEADER];
            header[0] = 0x45;
            header[1] = self.traffic_class();
            header[2..4].copy_from_slice(&(self.wire_len() as u16).to_be_bytes());
            // An unfragmentable packet needs no identification (RFC 6864): 0, DF.
            header[6] = 0x40;
            header[8] = self.ttl;
            header[9] = number;
            header[12..16].copy_from_slice(&source.octets());
            header[16..20].copy_from_slice(&destination.octets());
            let sum = checksum(&[&header]);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            out.extend_from_slice(&header);
        } else {
            let len = (self.wire_len() - IPV6_HEADER) as u16;
            let class = self.traffic_class();
            out.extend_from_slice(&[0x60 | class >> 4, class << 4, 0, 0]);
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(&[number, self.ttl]);
            put_address(out, self.source);
            put_address(out, self.destination);
        }
        self.write_udp(out);
        out.extend_from_slice(&self.payload);
    }

    /// Octet of DSCP and ECN field (RFC 2474, section 3; RFC 3168, section 5).
    fn traffic_class(&self) -> u8 {
        self.dscp << 2 | self.ecn.bits()
    }

    fn write_udp(&self, out: &mut Vec<u8>) {
        let (Protocol::UdpEncapsulated {
            source_port,
            destination_port,
        }
        | Protocol::Udp {
            source_port,
            destination_port,
        }) = self.protocol
        else {
            return;
        };
        let len = UDP_HEADER + self.payload.len();
        let mut header = [0; UDP_HEADER];
        header[0..2].copy_from_slice(&source_port.to_be_bytes());
        header[2..4].copy_from_slice(&destination_port.to_be_bytes());
        header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        let pseudo = pseudo_header(self.source, self.destination, UDP, len);
        // A checksum of 0 would mean that there is none.
        let sum = match checksum(&[&pseudo, &header, &self.payload]) {
            0 => 0xFFFF,
            sum => sum,
        };
        header[6..8].copy_from_slice(&sum.to_be_bytes());
        out.extend_from_slice(&header);
    }

    /// Encodes the packet as bytes; see [`Self::write_ip`].
    pub fn to_ip_bytes(&self) -> Bytes {
        let mut out = Vec::new();
        self.write_ip(&mut out);
        out.into()
    }

    /// Parses a packet without copying the payload. Bytes after the total length of the header are
    /// ignored. UDP from or to port 9899 is taken as encapsulated SCTP (RFC 6951). The flow tag is
    /// 0.
    ///
    /// # Errors
    /// If the bytes are not one complete IP packet with correct checksums.
    pub fn from_ip_bytes(bytes: &Bytes) -> Result<Self, IpError> {
        let header = Header::read(bytes)?;
        if bytes.len() < header.total_len {
            return Err(IpError::Truncated);
        }
        let (protocol, len) = header.protocol(bytes)?;
        let body = bytes.slice(header.len..header.total_len);
        let payload = if len == 0 {
            body
        } else {
            let udp_len = usize::from(u16::from_be_bytes([body[4], body[5]]));
            if udp_len < UDP_HEADER || udp_len > body.len() {
                return Err(IpError::Length);
            }
            let datagram = body.slice(..udp_len);
            let pseudo = pseudo_header(header.source, header.destination, UDP, udp_len);
            let has_checksum = datagram[6..8] != [0, 0];
            if has_checksum && checksum(&[&pseudo, &datagram]) != 0 {
                return Err(IpError::Checksum);
            }
            datagram.slice(UDP_HEADER..)
        };
        Ok(header.packet(protocol, payload))
    }

    /// Parses the start of a packet as quoted in an ICMP message: the payload may be incomplete,
    /// and UDP checksums are not verified.
    ///
    /// # Errors
    /// If the headers are incomplete or invalid.
    pub fn from_quoted_bytes(bytes: &Bytes) -> Result<Self, IpError> {
        let header = Header::read(bytes)?;
        let (protocol, len) = header.protocol(bytes)?;
        let end = header.total_len.min(bytes.len());
        let payload = bytes.slice((header.len + len).min(end)..end);
        Ok(header.packet(protocol, payload))
    }

    /// Encapsulates the packet in a tunnel packet from `source` to `destination` (RFC 2003), with
    /// the same flow tag. The outer header has a new time to live, and copies the DSCP and the ECN
    /// field (RFC 6040, normal mode).
    #[must_use]
    pub fn encapsulate(&self, source: IpAddr, destination: IpAddr) -> Self {
        Self::new(source, destination, Protocol::IpInIp, self.to_ip_bytes())
            .with_flow(self.flow)
            .with_ecn(self.ecn)
            .with_dscp(self.dscp)
    }

    /// Decapsulates a tunnel packet. The inner packet gets the flow tag, and "congestion
    /// experienced" if it is ECN-capable (RFC 6040).
    ///
    /// # Errors
    /// If this is not a tunnel packet, or its payload is not one complete IP packet.
    pub fn decapsulate(&self) -> Result<Self, IpError> {
        let mut inner = Self::from_ip_bytes(&self.payload)?.with_flow(self.flow);
        if self.ecn == Ecn::Ce && inner.ecn.is_capable() {
            inner.ecn = Ecn::Ce;
        }
        Ok(inner)
    }
}

/// Fields of an IP header.
struct Header {
    source: IpAddr,
    destination: IpAddr,
    ecn: Ecn,
    dscp: u8,
    ttl: u8,
    number: u8,
    len: usize,
    total_len: usize,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, IpError> {
        match bytes.first().ok_or(IpError::Truncated)? >> 4 {
            4 => Self::read_v4(bytes),
            6 => Self::read_v6(bytes),
            version => Err(IpError::Version(version)),
        }
    }

    fn read_v4(bytes: &[u8]) -> Result<Self, IpError> {
        let fixed: &[u8; IPV4_HEADER] = bytes.first_chunk().ok_or(IpError::Truncated)?;
        let len = usize::from(fixed[0] & 0xF) * 4;
        let total_len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if len < IPV4_HEADER || total_len < len {
            return Err(IpError::Length);
        }
        let header = bytes.get(..len).ok_or(IpError::Truncated)?;
        if checksum(&[header]) != 0 {
            return Err(IpError::Checksum);
        }
        // More fragments, or an offset.
        if u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3FFF != 0 {
            return Err(IpError::Fragment);
        }
        let address = |at: usize| {
            IpAddr::V4(Ipv4Addr::new(
                fixed[at],
                fixed[at + 1],
                fixed[at + 2],
                fixed[at + 3],
            ))
        };
        Ok(Self {
            source: address(12),
            destination: address(16),
            ecn: Ecn::from_bits(fixed[1]),
            dscp: fixed[1] >> 2,
            ttl: fixed[8],
            number: fixed[9],
            len,
            total_len,
        })
    }

    fn read_v6(bytes: &[u8]) -> Result<Self, IpError> {
        let fixed: &[u8; IPV6_HEADER] = bytes.first_chunk().ok_or(IpError::Truncated)?;
        let address = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&fixed[at..at + 16]);
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        Ok(Self {
            source: address(8),
            destination: address(24),
            ecn: Ecn::from_bits(fixed[1] >> 4),
            dscp: (fixed[0] & 0xF) << 2 | fixed[1] >> 6,
            ttl: fixed[7],
            number: fixed[6],
            len: IPV6_HEADER,
            total_len: IPV6_HEADER + usize::from(u16::from_be_bytes([fixed[4], fixed[5]])),
        })
    }

    /// Returns the protocol, and the length of a UDP header that follows.
    fn protocol(&self, bytes: &[u8]) -> Result<(Protocol, usize), IpError> {
        let protocol = match self.number {
            SCTP => Protocol::Sctp,
            TCP => Protocol::Tcp,
            IP_IN_IP | IPV6_IN_IP => Protocol::IpInIp,
            ICMP if self.source.is_ipv4() => Protocol::Icmp,
            ICMP_V6 if self.source.is_ipv6() => Protocol::Icmp,
            UDP => {
                let body = bytes.get(self.len..self.total_len.min(bytes.len()));
                let body = body.ok_or(IpError::Truncated)?;
                let header: &[u8; UDP_HEADER] = body.first_chunk().ok_or(IpError::Truncated)?;
                let source_port = u16::from_be_bytes([header[0], header[1]]);
                let destination_port = u16::from_be_bytes([header[2], header[3]]);
                let protocol = if [source_port, destination_port].contains(&SCTP_ENCAPSULATION_PORT)
                {
                    Protocol::UdpEncapsulated {
                        source_port,
                        destination_port,
                    }
                } else {
                    Protocol::Udp {
                        source_port,
                        destination_port,
                    }
                };
                return Ok((protocol, UDP_HEADER));
            }
            number => Protocol::Other(number),
        };
        Ok((protocol, 0))
    }

    fn packet(&self, protocol: Protocol, payload: Bytes) -> Packet {
        Packet {
            ecn: self.ecn,
            dscp: self.dscp,
            ttl: self.ttl,
            ..Packet::new(self.source, self.destination, protocol, payload)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn samples() -> Vec<Packet> {
        let ports = |source_port| Protocol::Udp {
            source_port,
            destination_port: 7,
        };
        let encapsulated = Protocol::UdpEncapsulated {
            source_port: 40_000,
            destination_port: 9899,
        };
        let protocols = [
            Protocol::Sctp,
            encapsulated,
            ports(5),
            Protocol::Tcp,
            Protocol::Icmp,
            Protocol::Other(99),
        ];
        let addresses = [("10.0.0.1", "192.0.2.200"), ("2001:db8::1", "2001:db8::ff")];
        let mut packets = Vec::new();
        for (source, destination) in addresses {
            for protocol in protocols {
                for len in [0, 1, 13, 1000] {
                    let payload: Vec<u8> = (0..len).map(|i: usize| (i * 7) as u8).collect();
                    let packet = Packet::new(ip(source), ip(destination), protocol, payload);
                    packets.push(packet.with_ecn(Ecn::Ect0).with_dscp(46));
                }
            }
        }
        packets
    }

    #[test]
    fn bytes_round_trip() {
        for packet in samples() {
            let bytes = packet.to_ip_bytes();
            assert_eq!(bytes.len(), packet.wire_len());
            assert_eq!(Packet::from_ip_bytes(&bytes), Ok(packet.clone()));
            assert_eq!(Packet::from_quoted_bytes(&bytes), Ok(packet));
        }
    }

    #[test]
    fn ipv4_header_matches_a_known_encoding() {
        let packet = Packet::new(ip("10.0.0.1"), ip("10.0.0.2"), Protocol::Sctp, vec![0; 12]);
        let bytes = packet.to_ip_bytes();
        // 4500+0020+0000+4000+4084+0000+0a00+0001+0a00+0002 = d9a7; its complement is 2658.
        let header = [
            0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 132, 0x26, 0x58, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        assert_eq!(bytes[..20], header);
    }

    /// RFC 768
    #[test]
    fn zero_udp_checksum_is_sent_as_all_ones() {
        let protocol = Protocol::Udp {
            source_port: 1,
            destination_port: 2,
        };
        let mut packet = Packet::new(ip("10.0.0.1"), ip("10.0.0.2"), protocol, vec![0; 2]);
        // A payload equal to the checksum makes the sum all ones, and its complement zero.
        packet.payload = packet.to_ip_bytes().slice(26..28);
        let bytes = packet.to_ip_bytes();
        assert_eq!(bytes[26..28], [0xFF; 2]);
        assert_eq!(Packet::from_ip_bytes(&bytes), Ok(packet));
    }

    #[test]
    fn tunnels_carry_whole_packets_and_congestion_marks() {
        for inner in samples() {
            let mut outer = inner.encapsulate(ip("192.0.2.1"), ip("192.0.2.2"));
            assert_eq!(outer.wire_len(), inner.wire_len() + 20);
            assert_eq!(outer.decapsulate(), Ok(inner.clone()));
            outer.ecn = Ecn::Ce;
            assert_eq!(outer.decapsulate(), Ok(inner.with_ecn(Ecn::Ce)));
        }
    }

    #[test]
    fn truncation_and_bit_errors_are_detected() {
        for packet in samples() {
            let bytes = packet.to_ip_bytes();
            for len in 0..bytes.len() {
                let cut = bytes.slice(..len);
                assert!(Packet::from_ip_bytes(&cut).is_err(), "{len} of {packet:?}");
            }
            for bit in 0..bytes.len().min(60) * 8 {
                let mut flipped = bytes.to_vec();
                flipped[bit / 8] ^= 0x80 >> (bit % 8);
                let flipped = Bytes::from(flipped);
                let read = Packet::from_ip_bytes(&flipped);
                // Bit 2 turns version 4 into 6, which has no header checksum.
                if packet.source.is_ipv4() && bit < IPV4_HEADER * 8 && bit != 2 {
                    assert!(read.is_err(), "bit {bit} of {packet:?}");
                }
                let quoted = Packet::from_quoted_bytes(&flipped);
                assert!(quoted.is_ok() || read.is_err(), "bit {bit} of {packet:?}");
            }
        }
    }

    #[test]
    fn fragments_and_unknown_versions_are_rejected() {
        let packet = Packet::new(ip("10.0.0.1"), ip("10.0.0.2"), Protocol::Sctp, vec![0; 12]);
        let mut bytes = packet.to_ip_bytes().to_vec();
        bytes[6] = 0x20;
        bytes[10..12].fill(0);
        let sum = checksum(&[&bytes[..20]]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(Packet::from_ip_bytes(&bytes.into()), Err(IpError::Fragment));
        let unknown = Bytes::from_static(&[0x50; 40]);
        assert_eq!(Packet::from_ip_bytes(&unknown), Err(IpError::Version(5)));
    }
}
