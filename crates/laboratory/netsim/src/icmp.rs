//! ICMP errors: "too big" (RFC 1191, RFC 4443), "destination unreachable" and "time exceeded".
//!
//! Routers and hosts of a network send "too big" where a link has an MTU, "destination unreachable"
//! where a neighbour does not answer or an interface rejects packets, and routers send "time
//! exceeded" when the time to live reaches zero. Node programs can send any of these errors, to act
//! as a middlebox or as a host without SCTP.

use core::net::IpAddr;

use bytes::Bytes;

use crate::ip::{checksum, pseudo_header};
use crate::packet::{IPV4_HEADER, IPV6_HEADER, Packet, Protocol};
use crate::schedule::Unreachable;

const V4_UNREACHABLE: u8 = 3;
const V4_PROTOCOL_UNREACHABLE: u8 = 2;
const V4_FRAGMENTATION_NEEDED: u8 = 4;
const V4_TIME_EXCEEDED: u8 = 11;
const V6_UNREACHABLE: u8 = 1;
const V6_TOO_BIG: u8 = 2;
const V6_TIME_EXCEEDED: u8 = 3;
const V6_PARAMETER_PROBLEM: u8 = 4;
/// Code of a Parameter Problem: unrecognized Next Header.
const V6_UNKNOWN_NEXT_HEADER: u8 = 1;
const V6_NEXT_HEADER: u8 = 58;
/// Length of type, code, checksum and the four bytes that depend on the type.
const HEADER: usize = 8;
/// Largest ICMP error in IPv4: every host accepts it (RFC 1812, section 4.3.2.3).
const V4_MAX: usize = 576;
/// Largest ICMP error in IPv6: every link carries it (RFC 4443, section 2.4).
const V6_MAX: usize = 1280;

/// Type of an ICMP error, with its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// The packet did not fit onto a link.
    TooBig {
        /// Largest IP packet that fits, in bytes.
        mtu: u32,
    },
    /// The destination is unreachable.
    Unreachable {
        /// Code of type 3 (IPv4) or type 1 (IPv6); code 4 of type 3 is [`Self::TooBig`].
        code: u8,
    },
    /// The destination does not know the protocol: a Parameter Problem of `ICMPv6` (RFC 4443, section
    /// 3.4). In IPv4 this is [`Self::Unreachable`] with code 2.
    UnknownNextHeader,
    /// The time to live reached zero in transit.
    TimeExceeded,
}

impl IcmpError {
    /// Returns the error for a reason, for a packet of IPv4 or IPv6.
    pub const fn unreachable(reason: Unreachable, v4: bool) -> Self {
        let code = match (reason, v4) {
            (Unreachable::Net, _) => 0,
            (Unreachable::Host, true) => 1,
            (Unreachable::Protocol, true) => 2,
            (Unreachable::Protocol, false) => return Self::UnknownNextHeader,
            (Unreachable::Host, false) | (Unreachable::Port, true) => 3,
            (Unreachable::Port, false) => 4,
        };
        Self::Unreachable { code }
    }
}

/// A received ICMP error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpReport {
    /// Type of the error.
    pub error: IcmpError,
    /// Quoted start of the packet that caused the error.
    pub about: Packet,
}

/// Builds the ICMP error message to the sender of `about`, from the address `from`, with the same
/// flow tag.
///
/// Returns `None` if no error may be sent: `about` is itself an ICMP message, or `from` is of
/// another IP version.
pub fn report(about: &Packet, error: IcmpError, from: IpAddr) -> Option<Packet> {
    if about.protocol == Protocol::Icmp || from.is_ipv4() != about.source.is_ipv4() {
        return None;
    }
    let v4 = from.is_ipv4();
    let (kind, code, value) = match error {
        IcmpError::TooBig { mtu } if v4 => {
            // The field has 16 bits; the upper half of the word stays 0.
            (V4_UNREACHABLE, V4_FRAGMENTATION_NEEDED, mtu.min(0xFFFF))
        }
        IcmpError::TooBig { mtu } => (V6_TOO_BIG, 0, mtu),
        IcmpError::Unreachable { code } if v4 => (V4_UNREACHABLE, code, 0),
        IcmpError::Unreachable { code } => (V6_UNREACHABLE, code, 0),
        IcmpError::UnknownNextHeader if v4 => (V4_UNREACHABLE, V4_PROTOCOL_UNREACHABLE, 0),
        // The field is the offset of the Next Header of the IPv6 header.
        IcmpError::UnknownNextHeader => (V6_PARAMETER_PROBLEM, V6_UNKNOWN_NEXT_HEADER, 6),
        IcmpError::TimeExceeded if v4 => (V4_TIME_EXCEEDED, 0, 0),
        IcmpError::TimeExceeded => (V6_TIME_EXCEEDED, 0, 0),
    };
    let room = if v4 {
        V4_MAX - IPV4_HEADER - HEADER
    } else {
        V6_MAX - IPV6_HEADER - HEADER
    };
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&value.to_be_bytes());
    about.write_ip(&mut message);
    message.truncate(HEADER + room);
    let sum = if v4 {
        checksum(&[&message])
    } else {
        let pseudo = pseudo_header(from, about.source, V6_NEXT_HEADER, message.len());
        checksum(&[&pseudo, &message])
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(Packet::new(from, about.source, Protocol::Icmp, message).with_flow(about.flow))
}

/// Parses an ICMP error. Returns `None` if the packet is not one, or its checksum or quotation is
/// wrong.
pub fn parse(packet: &Packet) -> Option<IcmpReport> {
    if packet.protocol != Protocol::Icmp {
        return None;
    }
    let message: &Bytes = &packet.payload;
    let header: [u8; HEADER] = *message.first_chunk()?;
    let v4 = packet.source.is_ipv4();
    let sum = if v4 {
        checksum(&[message])
    } else {
        let pseudo = pseudo_header(
            packet.source,
            packet.destination,
            V6_NEXT_HEADER,
            message.len(),
        );
        checksum(&[&pseudo, message])
    };
    if sum != 0 {
        return None;
    }
    let [kind, code, _, _, value @ ..] = header;
    let value = u32::from_be_bytes(value);
    let error = match (v4, kind, code) {
        (true, V4_UNREACHABLE, V4_FRAGMENTATION_NEEDED) => IcmpError::TooBig {
            mtu: value & 0xFFFF,
        },
        (false, V6_TOO_BIG, _) => IcmpError::TooBig { mtu: value },
        (true, V4_UNREACHABLE, code) | (false, V6_UNREACHABLE, code) => {
            IcmpError::Unreachable { code }
        }
        (false, V6_PARAMETER_PROBLEM, V6_UNKNOWN_NEXT_HEADER) => IcmpError::UnknownNextHeader,
        (true, V4_TIME_EXCEEDED, 0) | (false, V6_TIME_EXCEEDED, 0) => IcmpError::TimeExceeded,
        _ => return None,
    };
    let about = Packet::from_quoted_bytes(&message.slice(HEADER..)).ok()?;
    Some(IcmpReport {
        error,
        about: about.with_flow(packet.flow),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn errors_round_trip_with_the_longest_quotation() {
        let cases = [
            ("10.0.0.1", "10.0.0.2", "192.0.2.1", V4_MAX),
            ("2001:db8::1", "2001:db8::2", "2001:db8::3", V6_MAX),
        ];
        let errors = [
            IcmpError::TooBig { mtu: 1400 },
            IcmpError::Unreachable { code: 1 },
            IcmpError::TimeExceeded,
        ];
        for (source, destination, from, max) in cases {
            for error in errors {
                let payload: Vec<u8> = (0..2000).map(|i: u32| i as u8).collect();
                let about = Packet::new(ip(source), ip(destination), Protocol::Sctp, payload);
                let message = report(&about, error, ip(from)).expect("a report");
                assert_eq!(message.wire_len(), max);
                assert_eq!(message.destination, about.source);
                let read = parse(&message).expect("an error");
                assert_eq!(read.error, error);
                assert_eq!(read.about.destination, about.destination);
                assert!(about.payload.starts_with(&read.about.payload));
                assert_eq!(
                    report(&message, error, ip(from)),
                    None,
                    "an error about an error"
                );
            }
        }
    }

    #[test]
    fn corrupted_messages_are_rejected() {
        let about = Packet::new(ip("10.0.0.1"), ip("10.0.0.2"), Protocol::Sctp, vec![1; 50]);
        let message = report(&about, IcmpError::TooBig { mtu: 600 }, ip("10.0.0.9"));
        let message = message.expect("a report");
        for byte in 0..message.payload.len() {
            let mut damaged = message.clone();
            let mut payload = message.payload.to_vec();
            payload[byte] ^= 1;
            damaged.payload = payload.into();
            assert_eq!(parse(&damaged), None, "byte {byte}");
        }
    }
}
