//! ICMP errors about packets: "too big" (RFC 1191, RFC 4443), "unreachable" and "time exceeded".
//!
//! Routers and hosts of a network write "too big" by themselves where a link has an MTU, and routers
//! "time exceeded" where the time to live runs out. Programs can write any of them, to play a
//! middlebox or a host without SCTP.

use core::net::IpAddr;

use bytes::Bytes;

use crate::ip::{checksum, pseudo_header};
use crate::packet::{IPV4_HEADER, IPV6_HEADER, Packet, Protocol};

const V4_UNREACHABLE: u8 = 3;
const V4_FRAGMENTATION_NEEDED: u8 = 4;
const V4_TIME_EXCEEDED: u8 = 11;
const V6_UNREACHABLE: u8 = 1;
const V6_TOO_BIG: u8 = 2;
const V6_TIME_EXCEEDED: u8 = 3;
const V6_NEXT_HEADER: u8 = 58;
/// Type, code, checksum and four bytes that depend on the type.
const HEADER: usize = 8;
/// Errors stay below what every IPv4 host takes (RFC 1812 section 4.3.2.3) …
const V4_MAX: usize = 576;
/// … and every IPv6 link carries (RFC 4443 section 2.4).
const V6_MAX: usize = 1280;

/// What an ICMP error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// The packet did not fit onto a link.
    TooBig {
        /// The largest IP packet that fits, in bytes.
        mtu: u32,
    },
    /// The destination is unreachable.
    Unreachable {
        /// The code of IPv4's type 3 or IPv6's type 1; of type 3 any but 4.
        code: u8,
    },
    /// The time to live ran out on the way.
    TimeExceeded,
}

/// An ICMP error as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpReport {
    /// What it says.
    pub error: IcmpError,
    /// The start of the packet it is about.
    pub about: Packet,
}

/// The packet that tells the sender of `about` of an error, from the address `from`, with its flow.
///
/// `None` if none may be sent: about ICMP messages, or if `from` is of another IP version.
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

/// Reads an ICMP error; `None` if the packet is none, or its checksum or quotation is wrong.
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
    fn errors_round_trip_with_as_much_as_fits() {
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
    fn damaged_messages_are_not_believed() {
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
