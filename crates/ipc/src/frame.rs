//! Frames on the socket pair of a descriptor.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::{Malformed, half, word};

/// First field of a frame.
pub const FRAME_MAGIC: u32 = 0x4353_4601;
/// Size of a header in bytes.
pub const HEADER: usize = 72;
/// Limit of the ancillary data of a frame in bytes.
pub const MAX_CONTROL: usize = 256;
/// Limit of the payload of a frame in bytes.
pub const MAX_PAYLOAD: usize = 1 << 16;
/// Limit of a frame in bytes, other than a plug.
pub const MAX_FRAME: usize = HEADER + MAX_CONTROL + MAX_PAYLOAD;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// Offset of the address.
const ADDRESS: usize = 40;
/// Offset of the reserved field.
const RESERVED: usize = ADDRESS + ADDRESS_LEN;
/// Size of a socket address in bytes, that of the larger kind (`sockaddr_in6`).
pub const ADDRESS_LEN: usize = 28;
const END: u16 = 1;
const NOTIFICATION: u16 = 2;
const REST: u16 = 4;

/// Kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum FrameKind {
    /// Message or notification for the program, or a part of one.
    Message = 1,
    /// Association to accept.
    Accepted = 2,
    /// The socket has a pending error.
    Failed = 3,
    /// Message of the program, or a part of one.
    Send = 4,
    /// Bytes that make a descriptor not writable.
    Plug = 5,
}

/// Attributes of a received message: the fields of `SCTP_RCVINFO` (RFC 6458, section 5.3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageInfo {
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number.
    pub ssn: u16,
    /// `SCTP_UNORDERED`
    pub flags: u16,
    /// Payload protocol identifier, as the user has it.
    pub ppid: u32,
    /// TSN of the message.
    pub tsn: u32,
    /// Cumulative TSN.
    pub cum_tsn: u32,
    /// Context of the sender (`sinfo_context`).
    pub context: u32,
    /// Association identifier.
    pub association: i32,
}

/// Header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Type of the frame.
    pub kind: FrameKind,
    /// The frame ends its message.
    pub is_end: bool,
    /// A frame with the rest of the message follows as soon as the pair has room.
    pub has_rest: bool,
    /// The message is a notification.
    pub is_notification: bool,
    /// Sequence number of the frame in its direction.
    pub sequence: u32,
    /// Size of the ancillary data that follows, in bytes.
    pub control: u16,
    /// Attributes of a received message.
    pub info: MessageInfo,
    /// Address of the peer.
    pub address: Option<SocketAddr>,
}

impl Header {
    /// Returns the header of a whole message.
    pub fn new(kind: FrameKind) -> Self {
        Self {
            kind,
            is_end: true,
            has_rest: false,
            is_notification: false,
            sequence: 0,
            control: 0,
            info: MessageInfo::default(),
            address: None,
        }
    }

    /// Returns the header's bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        let flag = |bit, present| if present { bit } else { 0 };
        let flags = flag(END, self.is_end)
            | flag(NOTIFICATION, self.is_notification)
            | flag(REST, self.has_rest);
        put(0, &FRAME_MAGIC.to_ne_bytes());
        put(4, &(self.kind as u16).to_ne_bytes());
        put(6, &flags.to_ne_bytes());
        put(8, &self.sequence.to_ne_bytes());
        put(12, &self.control.to_ne_bytes());
        put(14, &self.info.stream.to_ne_bytes());
        put(16, &self.info.ssn.to_ne_bytes());
        put(18, &self.info.flags.to_ne_bytes());
        put(20, &self.info.ppid.to_ne_bytes());
        put(24, &self.info.tsn.to_ne_bytes());
        put(28, &self.info.cum_tsn.to_ne_bytes());
        put(32, &self.info.context.to_ne_bytes());
        put(36, &self.info.association.to_ne_bytes());
        put(ADDRESS, &address_bytes(self.address));
        bytes
    }

    /// Reads a header from the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed`], also if the ancillary data is larger than [`MAX_CONTROL`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes = bytes.get(..HEADER).ok_or(Malformed)?;
        if word(bytes, 0)? != FRAME_MAGIC || word(bytes, RESERVED)? != 0 {
            return Err(Malformed);
        }
        let kind = match half(bytes, 4)? {
            1 => FrameKind::Message,
            2 => FrameKind::Accepted,
            3 => FrameKind::Failed,
            4 => FrameKind::Send,
            5 => FrameKind::Plug,
            _ => return Err(Malformed),
        };
        let flags = half(bytes, 6)?;
        let control = half(bytes, 12)?;
        if flags & !(END | NOTIFICATION | REST) != 0 || usize::from(control) > MAX_CONTROL {
            return Err(Malformed);
        }
        Ok(Self {
            kind,
            is_end: flags & END != 0,
            has_rest: flags & REST != 0,
            is_notification: flags & NOTIFICATION != 0,
            sequence: word(bytes, 8)?,
            control,
            info: MessageInfo {
                stream: half(bytes, 14)?,
                ssn: half(bytes, 16)?,
                flags: half(bytes, 18)?,
                ppid: word(bytes, 20)?,
                tsn: word(bytes, 24)?,
                cum_tsn: word(bytes, 28)?,
                context: word(bytes, 32)?,
                association: word(bytes, 36)? as i32,
            },
            address: address(&bytes[ADDRESS..RESERVED])?,
        })
    }
}

/// Returns a socket address in Linux's layout, padded with zeros; zeros for none.
pub fn address_bytes(address: Option<SocketAddr>) -> [u8; ADDRESS_LEN] {
    let mut bytes = [0; ADDRESS_LEN];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    match address {
        None => {}
        Some(SocketAddr::V4(v4)) => {
            put(0, &AF_INET.to_ne_bytes());
            put(2, &v4.port().to_be_bytes());
            put(4, &v4.ip().octets());
        }
        Some(SocketAddr::V6(v6)) => {
            put(0, &AF_INET6.to_ne_bytes());
            put(2, &v6.port().to_be_bytes());
            put(4, &v6.flowinfo().to_be_bytes());
            put(8, &v6.ip().octets());
            put(24, &v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// Reads a socket address that is padded with zeros; zeros are none.
pub(crate) fn address(bytes: &[u8]) -> Result<Option<SocketAddr>, Malformed> {
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let part = |at: usize| bytes.get(at..).unwrap_or_default();
    let octets: &[u8; 4] = part(4).first_chunk().ok_or(Malformed)?;
    let (address, used) = match half(bytes, 0)? {
        0 => (None, 0),
        AF_INET => (Some((Ipv4Addr::from(*octets), port).into()), 8),
        AF_INET6 => {
            let flow = u32::from_be_bytes(*octets);
            let ip: &[u8; 16] = part(8).first_chunk().ok_or(Malformed)?;
            let v6 = SocketAddrV6::new(Ipv6Addr::from(*ip), port, flow, word(bytes, 24)?);
            (Some(v6.into()), 28)
        }
        _ => return Err(Malformed),
    };
    let padding = part(used).iter().all(|byte| *byte == 0);
    padding.then_some(address).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header_round_trips() {
        let v6 = "[2001:db8::1%7]:38412".parse().unwrap();
        for address in [None, Some("192.0.2.1:5000".parse().unwrap()), Some(v6)] {
            let header = Header {
                is_notification: true,
                has_rest: true,
                sequence: u32::MAX,
                control: 256,
                info: MessageInfo {
                    stream: 1,
                    ssn: 2,
                    flags: 3,
                    ppid: 4,
                    tsn: 5,
                    cum_tsn: 6,
                    context: 7,
                    association: -1,
                },
                address,
                ..Header::new(FrameKind::Send)
            };
            assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn headers_with_invalid_fields_are_refused() {
        let good = Header::new(FrameKind::Message).encode();
        assert_eq!(Header::decode(&good[..HEADER - 1]), Err(Malformed));
        for (at, value) in [(0, 9), (4, 6), (6, 8), (13, 2), (40, 99), (50, 1), (70, 1)] {
            let mut bytes = good;
            bytes[at] = value;
            assert_eq!(Header::decode(&bytes), Err(Malformed), "{at}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_round_trip(mut bytes in any::<[u8; HEADER]>(), good in any::<[bool; 6]>()) {
            let ranges = [0..4, 4..6, 6..8, 12..14, 40..68, 68..72];
            let valid = Header::new(FrameKind::Message).encode();
            for (range, good) in ranges.into_iter().zip(good) {
                if good {
                    bytes[range.clone()].copy_from_slice(&valid[range]);
                }
            }
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
            }
        }
    }
}
