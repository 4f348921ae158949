//! Ancillary data of `sendmsg` and `recvmsg` (RFC 6458, section 5.3): control messages in Linux's layout
//! of 64-bit systems.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::errno::Errno;
use crate::linux::{
    AuthInfo, IPPROTO_SCTP, InitMsg, Layout, PrInfo, SCTP_AUTHINFO, SCTP_DSTADDRV4, SCTP_DSTADDRV6,
    SCTP_INIT, SCTP_PRINFO, SCTP_SACK_IMMEDIATELY, SCTP_SNDINFO, SCTP_SNDRCV, SCTP_UNORDERED,
    SndInfo, SndRcvInfo,
};

/// Size of `struct cmsghdr` in bytes.
pub const CMSG_HEADER: usize = 16;
/// Limit of destination addresses of a message.
const MAX_DESTINATIONS: usize = 32;

/// Returns a size rounded up to the alignment of control messages (`CMSG_ALIGN`).
pub const fn cmsg_align(len: usize) -> usize {
    len.next_multiple_of(8)
}

/// A control message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlMessage {
    /// `cmsg_level`
    pub level: i32,
    /// `cmsg_type`
    pub kind: i32,
    /// `cmsg_data`
    pub data: Vec<u8>,
}

impl ControlMessage {
    /// Returns a control message of SCTP.
    pub fn sctp(kind: i32, data: Vec<u8>) -> Self {
        Self {
            level: IPPROTO_SCTP,
            kind,
            data,
        }
    }
}

/// Writes control messages as `msg_control` holds them, as far as `capacity` bytes suffice. The last
/// message may be cut, as in Linux. Returns the bytes and whether anything is missing (`MSG_CTRUNC`).
pub fn write_control(messages: &[ControlMessage], capacity: usize) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    for message in messages {
        let left = capacity.saturating_sub(bytes.len());
        if left < CMSG_HEADER {
            return (bytes, true);
        }
        let len = (CMSG_HEADER + message.data.len()).min(left);
        bytes.extend(len.to_ne_bytes());
        bytes.extend(message.level.to_ne_bytes());
        bytes.extend(message.kind.to_ne_bytes());
        bytes.extend(&message.data[..len - CMSG_HEADER]);
        if len < CMSG_HEADER + message.data.len() {
            return (bytes, true);
        }
        let padded = cmsg_align(bytes.len()).min(capacity);
        bytes.resize(padded, 0);
    }
    (bytes, false)
}

/// Reads control messages as `msg_control` holds them.
///
/// # Errors
/// `EINVAL` for a length below that of the header or beyond the end.
pub fn read_control(mut bytes: &[u8]) -> Result<Vec<ControlMessage>, Errno> {
    let mut messages = Vec::new();
    while bytes.len() >= CMSG_HEADER {
        let (header, _) = bytes.split_at(CMSG_HEADER);
        let word = |at: usize| i32::from_ne_bytes([0, 1, 2, 3].map(|n| header[at + n]));
        let len = usize::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|n| header[n]));
        if len < CMSG_HEADER || len > bytes.len() {
            return Err(Errno::EINVAL);
        }
        messages.push(ControlMessage {
            level: word(8),
            kind: word(12),
            data: bytes[CMSG_HEADER..len].to_vec(),
        });
        bytes = &bytes[cmsg_align(len).min(bytes.len())..];
    }
    Ok(messages)
}

/// Stream of a message, from its ancillary data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageStream {
    /// The default one (`SCTP_DEFAULT_SNDINFO`).
    Default,
    /// The one of `SCTP_SNDINFO` or `SCTP_SNDRCV`.
    Given(u16),
}

/// Returns the stream of a message whose ancillary data [`Sockets::sendmsg`](crate::Sockets::sendmsg) accepts if the stream exists,
/// and which has no effect but on the message; `None` for other ancillary data.
pub fn plain_stream(control: &[u8]) -> Option<MessageStream> {
    let harmless = (SCTP_UNORDERED | SCTP_SACK_IMMEDIATELY) as u16;
    let given = SendAttributes::read(control).ok()?;
    let has_more = given.init.is_some() || given.pr.is_some() || given.key.is_some();
    if has_more || !given.destinations.is_empty() {
        return None;
    }
    let Some(info) = given.info else {
        return Some(MessageStream::Default);
    };
    (info.flags & !harmless == 0).then_some(MessageStream::Given(info.sid))
}

/// Attributes of a message from its ancillary data.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SendAttributes {
    pub(crate) init: Option<InitMsg>,
    /// Stream, flags, PPID, context and identifier, of `SCTP_SNDINFO` or `SCTP_SNDRCV`.
    pub(crate) info: Option<SndInfo>,
    /// Lifetime in milliseconds of `SCTP_SNDRCV`.
    pub(crate) time_to_live: Option<u32>,
    pub(crate) pr: Option<PrInfo>,
    /// Key of `SCTP_AUTHINFO`.
    pub(crate) key: Option<u16>,
    /// Further addresses of a peer (`SCTP_DSTADDRV4`, `SCTP_DSTADDRV6`).
    pub(crate) destinations: Vec<IpAddr>,
}

impl SendAttributes {
    /// Reads the control messages of `sendmsg`. Messages of other levels are ignored, as in Linux.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Errno> {
        let mut attributes = Self::default();
        for message in read_control(bytes)? {
            if message.level == IPPROTO_SCTP {
                attributes.add(&message)?;
            }
        }
        Ok(attributes)
    }

    fn add(&mut self, message: &ControlMessage) -> Result<(), Errno> {
        match message.kind {
            SCTP_INIT => self.init = Some(data(message)?),
            SCTP_SNDRCV => {
                let old: SndRcvInfo = data(message)?;
                check_flags(old.flags)?;
                self.time_to_live = Some(old.time_to_live);
                self.info = Some(SndInfo {
                    sid: old.stream,
                    flags: old.flags,
                    ppid: old.ppid,
                    context: old.context,
                    assoc_id: old.assoc_id,
                });
            }
            SCTP_SNDINFO => {
                let info: SndInfo = data(message)?;
                check_flags(info.flags)?;
                self.info = Some(info);
            }
            SCTP_PRINFO => {
                let mut info: PrInfo = data(message)?;
                if i32::from(info.policy) & !crate::linux::SCTP_PR_SCTP_MASK != 0 {
                    return Err(Errno::EINVAL);
                }
                if info.policy == 0 {
                    info.value = 0;
                }
                self.pr = Some(info);
            }
            SCTP_DSTADDRV4 => {
                let octets = first::<4>(&message.data)?;
                self.add_destination(Ipv4Addr::from(octets).into())?;
            }
            SCTP_DSTADDRV6 => {
                let octets = first::<16>(&message.data)?;
                self.add_destination(Ipv6Addr::from(octets).into())?;
            }
            SCTP_AUTHINFO => {
                let info: AuthInfo = data(message)?;
                self.key = Some(info.key_number);
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    fn add_destination(&mut self, address: IpAddr) -> Result<(), Errno> {
        if self.destinations.len() == MAX_DESTINATIONS {
            return Err(Errno::EINVAL);
        }
        self.destinations.push(address);
        Ok(())
    }
}

/// Reads a struct. `cmsg_len` may be `CMSG_SPACE` instead of `CMSG_LEN`, as some programs pass it.
fn data<T: Layout>(message: &ControlMessage) -> Result<T, Errno> {
    let len = message.data.len();
    if len != T::SIZE && len != cmsg_align(T::SIZE) {
        return Err(Errno::EINVAL);
    }
    T::read(&message.data)
}

fn first<const N: usize>(data: &[u8]) -> Result<[u8; N], Errno> {
    let is_len = data.len() == N || data.len() == cmsg_align(N);
    let bytes = data.get(..N).filter(|_| is_len).ok_or(Errno::EINVAL)?;
    bytes.try_into().map_err(|_| Errno::EINVAL)
}

/// Checks the flags of a message as Linux does.
fn check_flags(flags: u16) -> Result<(), Errno> {
    use crate::linux::{
        SCTP_ABORT, SCTP_ADDR_OVER, SCTP_EOF, SCTP_PR_SCTP_ALL, SCTP_PR_SCTP_MASK, SCTP_SENDALL,
    };
    let known = SCTP_UNORDERED
        | SCTP_ADDR_OVER
        | SCTP_SACK_IMMEDIATELY
        | SCTP_SENDALL
        | SCTP_PR_SCTP_MASK
        | SCTP_PR_SCTP_ALL
        | SCTP_ABORT
        | SCTP_EOF;
    let unknown = i32::from(flags) & !known != 0;
    (!unknown).then_some(()).ok_or(Errno::EINVAL)
}
