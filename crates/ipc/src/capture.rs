//! Copies of packets for a capture.

use std::net::SocketAddr;

use crate::frame::{ADDRESS_LEN, address, address_bytes};
use crate::{Malformed, word};

/// First field of a copy.
pub const CAPTURE_MAGIC: u32 = 0x4353_4301;
/// Size of the fields in front of the packet in bytes.
const FIELDS: usize = DESTINATION + ADDRESS_LEN;
const SOURCE: usize = 24;
const DESTINATION: usize = SOURCE + ADDRESS_LEN;
const SENT: u32 = 1;
const UDP: u32 = 2;
/// Place of DSCP and ECN field in the flags.
const TRAFFIC_CLASS: u32 = 2;
/// Limit of a copy in bytes: that of a packet, and the fields.
pub const MAX_CAPTURED: usize = 65_535 + FIELDS;

/// Copy of a packet that the daemon has received or sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapturedPacket<'a> {
    /// The daemon has sent the packet.
    pub is_sent: bool,
    /// The packet is encapsulated in UDP (RFC 6951), between the ports of the addresses.
    pub is_udp: bool,
    /// DSCP and ECN field of the IP header; of received packets the ECN field alone.
    pub traffic_class: u8,
    /// Time in nanoseconds since 1970.
    pub time: u64,
    /// Number of packets not passed before this one, since the pair had no room.
    pub missed: u64,
    /// Source with its UDP port, or 0 on plain IP; `None` if the system selects it.
    pub source: Option<SocketAddr>,
    /// Destination, as the source.
    pub destination: Option<SocketAddr>,
    /// SCTP packet.
    pub packet: &'a [u8],
}

impl<'a> CapturedPacket<'a> {
    /// Returns the bytes.
    pub fn encode(&self) -> Vec<u8> {
        let flag = |bit, present| if present { bit } else { 0 };
        let class = u32::from(self.traffic_class) << TRAFFIC_CLASS;
        let flags = flag(SENT, self.is_sent) | flag(UDP, self.is_udp) | class;
        let mut bytes = Vec::with_capacity(FIELDS + self.packet.len());
        bytes.extend(CAPTURE_MAGIC.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(self.time.to_ne_bytes());
        bytes.extend(self.missed.to_ne_bytes());
        bytes.extend(address_bytes(self.source));
        bytes.extend(address_bytes(self.destination));
        bytes.extend(self.packet);
        bytes
    }

    /// Reads a copy.
    ///
    /// # Errors
    /// [`Malformed`]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (fields, packet) = bytes.split_at_checked(FIELDS).ok_or(Malformed)?;
        let flags = word(fields, 4)?;
        if word(fields, 0)? != CAPTURE_MAGIC || flags >= 256 << TRAFFIC_CLASS {
            return Err(Malformed);
        }
        let long = |at: usize| {
            let part = fields[at..].first_chunk();
            part.map(|part| u64::from_ne_bytes(*part)).ok_or(Malformed)
        };
        Ok(Self {
            is_sent: flags & SENT != 0,
            is_udp: flags & UDP != 0,
            traffic_class: (flags >> TRAFFIC_CLASS) as u8,
            time: long(8)?,
            missed: long(16)?,
            source: address(&fields[SOURCE..DESTINATION])?,
            destination: address(&fields[DESTINATION..])?,
            packet,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COPY: CapturedPacket<'_> = CapturedPacket {
        is_sent: true,
        is_udp: true,
        traffic_class: 0xba,
        time: 1 << 60,
        missed: 7,
        source: None,
        destination: None,
        packet: b"sctp",
    };

    #[test]
    fn a_copy_round_trips() {
        let v4: SocketAddr = "192.0.2.1:9899".parse().unwrap();
        let v6: SocketAddr = "[2001:db8::1]:0".parse().unwrap();
        for (source, destination) in [(None, Some(v4)), (Some(v6), Some(v6))] {
            let copy = CapturedPacket {
                source,
                destination,
                ..COPY
            };
            assert_eq!(CapturedPacket::decode(&copy.encode()), Ok(copy));
        }
    }

    #[test]
    fn copies_with_invalid_fields_are_refused() {
        let good = COPY.encode();
        assert_eq!(CapturedPacket::decode(&good[..FIELDS - 1]), Err(Malformed));
        for (at, value) in [(0, 9), (5, 4), (24, 99)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(CapturedPacket::decode(&bytes), Err(Malformed), "{at}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_round_trip(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), good: bool) {
            if good && bytes.len() >= FIELDS {
                bytes[..8].copy_from_slice(&COPY.encode()[..8]);
                bytes[SOURCE..FIELDS].fill(0);
            }
            if let Ok(copy) = CapturedPacket::decode(&bytes) {
                prop_assert_eq!(copy.encode(), bytes);
            }
        }
    }
}
