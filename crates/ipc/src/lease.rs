//! Leased SCTP ports: packets of a process that has its own protocol stack, in the daemon's UDP port.
//!
//! The process gets one end of a `SOCK_SEQPACKET` pair. Each frame on it has packets of one route, or an ICMP
//! message: fields as in [`LeaseFrame`], and the bytes.

use std::net::{IpAddr, SocketAddr};

use crate::frame::{ADDRESS_LEN, address, address_bytes};
use crate::{Malformed, half, word};

/// First field of a frame.
pub const LEASE_MAGIC: u32 = 0x4353_4c01;
/// Size of the fields in front of the packets in bytes.
pub const LEASE_FIELDS: usize = REMOTE + ADDRESS_LEN;
/// Limit of the packets of a frame in bytes: that of an IP packet.
pub const MAX_LEASED: usize = 65_535;

const LOCAL: usize = 12;
const REMOTE: usize = LOCAL + ADDRESS_LEN;
const MAY_FRAGMENT: u16 = 1 << 8;
const PROBE: u16 = 1 << 9;

/// Kind of a [`LeaseFrame`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseFrameKind {
    /// SCTP packets of one length; the last one may be shorter.
    Packets {
        /// DSCP and ECN field of the IP header.
        traffic_class: u8,
        /// Length of the packets in bytes; 0 for a single one.
        segment_size: u32,
        /// The packet may be fragmented by IP.
        may_fragment: bool,
        /// The packet is a probe of the path MTU (RFC 8899).
        is_probe: bool,
    },
    /// "Packet Too Big" or "Fragmentation Needed", or the host's refusal to send a packet.
    TooBig {
        /// MTU in bytes, IP header included.
        mtu: u32,
    },
    /// "Protocol Unreachable"
    ProtocolUnreachable,
    /// "Port Unreachable"
    PortUnreachable,
    /// Any other "Destination Unreachable".
    DestinationUnreachable,
}

/// Frame on the pair of a leased port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseFrame<'a> {
    /// Kind.
    pub kind: LeaseFrameKind,
    /// Local address; `None` if the system selects it, and for ICMP messages.
    pub local: Option<IpAddr>,
    /// Address of the peer with its UDP port, or port 0 on plain IP.
    pub remote: SocketAddr,
    /// Packets, or the beginning of the packet that an ICMP message quotes.
    pub bytes: &'a [u8],
}

impl<'a> LeaseFrame<'a> {
    /// Returns the fields in front of the bytes, for a gathering write.
    pub fn fields(&self) -> [u8; LEASE_FIELDS] {
        let (code, flags, number): (u16, u16, u32) = match self.kind {
            LeaseFrameKind::Packets {
                traffic_class,
                segment_size,
                may_fragment,
                is_probe,
            } => {
                let flag = |bit, present| if present { bit } else { 0 };
                let flags = flag(MAY_FRAGMENT, may_fragment) | flag(PROBE, is_probe);
                (1, flags | u16::from(traffic_class), segment_size)
            }
            LeaseFrameKind::TooBig { mtu } => (2, 0, mtu),
            LeaseFrameKind::ProtocolUnreachable => (3, 0, 0),
            LeaseFrameKind::PortUnreachable => (4, 0, 0),
            LeaseFrameKind::DestinationUnreachable => (5, 0, 0),
        };
        let mut fields = [0; LEASE_FIELDS];
        let mut put = |at: usize, part: &[u8]| fields[at..at + part.len()].copy_from_slice(part);
        put(0, &LEASE_MAGIC.to_ne_bytes());
        put(4, &code.to_ne_bytes());
        put(6, &flags.to_ne_bytes());
        put(8, &number.to_ne_bytes());
        let local = self.local.map(|local| SocketAddr::new(local, 0));
        put(LOCAL, &address_bytes(local));
        put(REMOTE, &address_bytes(Some(self.remote)));
        fields
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// [`Malformed`]
    pub fn decode(frame: &'a [u8]) -> Result<Self, Malformed> {
        let (fields, bytes) = frame.split_at_checked(LEASE_FIELDS).ok_or(Malformed)?;
        if word(fields, 0)? != LEASE_MAGIC || bytes.len() > MAX_LEASED {
            return Err(Malformed);
        }
        let (code, flags, number) = (half(fields, 4)?, half(fields, 6)?, word(fields, 8)?);
        let kind = match (code, flags, number) {
            (1, 0..=0x3ff, segment_size) => LeaseFrameKind::Packets {
                traffic_class: flags as u8,
                segment_size,
                may_fragment: flags & MAY_FRAGMENT != 0,
                is_probe: flags & PROBE != 0,
            },
            (2, 0, mtu) => LeaseFrameKind::TooBig { mtu },
            (3, 0, 0) => LeaseFrameKind::ProtocolUnreachable,
            (4, 0, 0) => LeaseFrameKind::PortUnreachable,
            (5, 0, 0) => LeaseFrameKind::DestinationUnreachable,
            _ => return Err(Malformed),
        };
        let local = match address(&fields[LOCAL..REMOTE])? {
            None => None,
            Some(local) if local == SocketAddr::new(local.ip(), 0) => Some(local.ip()),
            Some(_) => return Err(Malformed),
        };
        let remote = address(&fields[REMOTE..])?.ok_or(Malformed)?;
        Ok(Self {
            kind,
            local,
            remote,
            bytes,
        })
    }
}

/// Value of the reply to [`Request::Lease`](crate::Request::Lease).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseGrant {
    /// SCTP port.
    pub port: u16,
    /// UDP port of the daemon; `None` on plain IP alone.
    pub udp_port: Option<u16>,
    /// The process may send on plain IP.
    pub has_plain_ip: bool,
    /// Local addresses.
    pub addresses: Vec<IpAddr>,
}

impl LeaseGrant {
    /// Returns the bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 + self.addresses.len() * ADDRESS_LEN);
        bytes.extend(self.port.to_ne_bytes());
        bytes.extend(self.udp_port.unwrap_or(0).to_ne_bytes());
        bytes.extend(u32::from(self.has_plain_ip).to_ne_bytes());
        for ip in &self.addresses {
            bytes.extend(address_bytes(Some(SocketAddr::new(*ip, 0))));
        }
        bytes
    }

    /// Reads a grant.
    ///
    /// # Errors
    /// [`Malformed`]
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let has_plain_ip = match word(bytes, 4)? {
            0 => false,
            1 => true,
            _ => return Err(Malformed),
        };
        let (list, rest) = bytes[8..].as_chunks::<ADDRESS_LEN>();
        let read = |part: &[u8; ADDRESS_LEN]| match address(part)? {
            Some(found) if found == SocketAddr::new(found.ip(), 0) => Ok(found.ip()),
            _ => Err(Malformed),
        };
        if !rest.is_empty() {
            return Err(Malformed);
        }
        Ok(Self {
            port: half(bytes, 0)?,
            udp_port: Some(half(bytes, 2)?).filter(|port| *port != 0),
            has_plain_ip,
            addresses: list.iter().map(read).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME: LeaseFrame<'_> = LeaseFrame {
        kind: LeaseFrameKind::PortUnreachable,
        local: None,
        remote: SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 9899),
        bytes: b"sctp",
    };

    fn encoded(frame: &LeaseFrame<'_>) -> Vec<u8> {
        [&frame.fields()[..], frame.bytes].concat()
    }

    #[test]
    fn frames_round_trip() {
        let packets = LeaseFrameKind::Packets {
            traffic_class: 0xba,
            segment_size: 1452,
            may_fragment: true,
            is_probe: true,
        };
        let kinds = [
            packets,
            LeaseFrameKind::TooBig { mtu: 1280 },
            LeaseFrameKind::ProtocolUnreachable,
            LeaseFrameKind::PortUnreachable,
            LeaseFrameKind::DestinationUnreachable,
        ];
        for kind in kinds {
            for local in [None, Some("2001:db8::1".parse().unwrap())] {
                let frame = LeaseFrame {
                    kind,
                    local,
                    ..FRAME
                };
                assert_eq!(LeaseFrame::decode(&encoded(&frame)), Ok(frame));
            }
        }
    }

    #[test]
    fn invalid_fields_are_refused() {
        let good = encoded(&FRAME);
        for (at, value) in [(0, 9), (4, 9), (6, 1), (8, 1), (12, 99), (40, 0)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(LeaseFrame::decode(&bytes), Err(Malformed), "{at}");
        }
        let mut long = good;
        long.resize(LEASE_FIELDS + MAX_LEASED + 1, 0);
        assert_eq!(LeaseFrame::decode(&long), Err(Malformed));
    }

    #[test]
    fn a_grant_round_trips() {
        let grant = LeaseGrant {
            port: 7,
            udp_port: Some(9899),
            has_plain_ip: false,
            addresses: vec![[127, 0, 0, 1].into(), "::1".parse().unwrap()],
        };
        let bytes = grant.encode();
        assert_eq!(LeaseGrant::decode(&bytes), Ok(grant));
        assert_eq!(LeaseGrant::decode(&bytes[..9]), Err(Malformed));
        assert_eq!(LeaseGrant::decode(&bytes[..7]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_round_trip(mut bytes in proptest::collection::vec(0u8..4, 0..100), good: bool) {
            if good && bytes.len() >= LEASE_FIELDS {
                bytes[..4].copy_from_slice(&LEASE_MAGIC.to_ne_bytes());
                bytes[LOCAL..LEASE_FIELDS].copy_from_slice(&FRAME.fields()[LOCAL..]);
            }
            if let Ok(frame) = LeaseFrame::decode(&bytes) {
                prop_assert_eq!(encoded(&frame), &bytes[..]);
            }
            if let Ok(grant) = LeaseGrant::decode(&bytes) {
                prop_assert_eq!(grant.encode(), &bytes[..]);
            }
        }
    }
}
