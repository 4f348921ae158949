//! Functions of RFC 6458, section 9, made of calls of the sockets API.
//!
//! The pointers are those of the program: it guarantees that they and the sizes beside them are valid.
// Some fields of `msghdr` have another width with musl.
#![allow(clippy::unnecessary_cast)]

use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use carrick_sockets::ancillary::{ControlMessage, read_control, write_control};
use carrick_sockets::linux::{
    AF_INET, AF_INET6, AuthInfo, GetAddrs, IPPROTO_SCTP, Layout, NxtInfo, PrInfo, RcvInfo,
    SCTP_AUTHINFO, SCTP_BINDX_ADD_ADDR, SCTP_BINDX_REM_ADDR, SCTP_DSTADDRV4, SCTP_DSTADDRV6,
    SCTP_NXTINFO, SCTP_PRINFO, SCTP_RCVINFO, SCTP_SNDINFO, SCTP_SNDRCV, SCTP_SOCKOPT_BINDX_ADD,
    SCTP_SOCKOPT_BINDX_REM, SCTP_SOCKOPT_CONNECTX3, SCTP_SOCKOPT_PEELOFF,
    SCTP_SOCKOPT_PEELOFF_FLAGS, SOCKADDR_IN, SOCKADDR_IN6, SndInfo, SndRcvInfo,
};
use libc::{iovec, msghdr, sockaddr, socklen_t, ssize_t};

/// Calls of the sockets API: those of libc, or Carrick's own.
pub(crate) trait SocketCalls {
    /// # Safety
    /// As for `getsockopt` of libc.
    unsafe fn getsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> c_int;

    /// # Safety
    /// As for `setsockopt` of libc.
    unsafe fn setsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        len: socklen_t,
    ) -> c_int;

    /// # Safety
    /// As for `sendmsg` of libc.
    unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;

    /// # Safety
    /// As for `recvmsg` of libc.
    unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
}

/// Initial size and increment of the address buffer, in bytes.
const ADDRESSES: usize = 4096;
/// Maximum size of the address buffer, in bytes.
const MAX_ADDRESSES: usize = 1 << 16;
/// Space for the ancillary data of a received message in bytes.
const CONTROL: usize = 512;

/// `struct sctp_sendv_spa`: flags, then the three structs.
const SPA_SNDINFO: usize = 4;
const SPA_PRINFO: usize = SPA_SNDINFO + SndInfo::SIZE;
const SPA_AUTHINFO: usize = SPA_PRINFO + PrInfo::SIZE;
const SPA: usize = (SPA_AUTHINFO + AuthInfo::SIZE).next_multiple_of(4);
const _: () = assert!(SPA == 32);
const SCTP_SEND_SNDINFO_VALID: u32 = 1;
const SCTP_SEND_PRINFO_VALID: u32 = 2;
const SCTP_SEND_AUTHINFO_VALID: u32 = 4;

const SCTP_SENDV_NOINFO: c_uint = 0;
const SCTP_SENDV_SNDINFO: c_uint = 1;
const SCTP_SENDV_PRINFO: c_uint = 2;
const SCTP_SENDV_AUTHINFO: c_uint = 3;
const SCTP_SENDV_SPA: c_uint = 4;

const SCTP_RECVV_NOINFO: c_uint = 0;
const SCTP_RECVV_RCVINFO: c_uint = 1;
const SCTP_RECVV_NXTINFO: c_uint = 2;
const SCTP_RECVV_RN: c_uint = 3;

fn errno() -> c_int {
    // SAFETY: libc returns the location of the thread's `errno`.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno` to `EINVAL` and returns -1.
fn invalid() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = libc::EINVAL };
    -1
}

/// Returns the bytes of the program at an address.
///
/// # Safety
/// The program guarantees the address and the size.
unsafe fn bytes<'a>(start: *const c_void, len: usize) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: as above.
    unsafe { from_raw_parts(start.cast(), len) }
}

/// Returns the size of a socket address; 0 for another family than IPv4 and IPv6.
pub(crate) fn getaddrlen(family: libc::sa_family_t) -> c_int {
    match family.into() {
        AF_INET => SOCKADDR_IN as c_int,
        AF_INET6 => SOCKADDR_IN6 as c_int,
        _ => 0,
    }
}

/// Returns the socket addresses of a packed list; `None` if one has another family than IPv4 and IPv6.
///
/// # Safety
/// The program guarantees the list and the number.
unsafe fn each_address<'a>(list: *const sockaddr, count: c_int) -> Option<Vec<&'a [u8]>> {
    let mut at = list.cast::<u8>();
    let mut addresses = Vec::new();
    for _ in 0..count {
        // SAFETY: the list has another address, which begins with its family.
        unsafe {
            let len = getaddrlen(at.cast::<libc::sa_family_t>().read_unaligned()) as usize;
            if len == 0 {
                return None;
            }
            addresses.push(from_raw_parts(at, len));
            at = at.add(len);
        }
    }
    Some(addresses)
}

/// Returns the bytes of a packed list of socket addresses, as [`each_address`].
///
/// # Safety
/// As for [`each_address`].
unsafe fn packed<'a>(list: *const sockaddr, count: c_int) -> Option<&'a [u8]> {
    // SAFETY: as above; the addresses have no gaps.
    unsafe {
        let len = each_address(list, count)?.iter().map(|one| one.len()).sum();
        Some(bytes(list.cast(), len))
    }
}

/// Adds local addresses, or removes them (RFC 6458, section 9.1).
///
/// # Safety
/// The program guarantees the list and the number.
pub(crate) unsafe fn bindx<C: SocketCalls>(
    fd: c_int,
    list: *const sockaddr,
    count: c_int,
    flags: c_int,
) -> c_int {
    let name = match flags {
        SCTP_BINDX_ADD_ADDR => SCTP_SOCKOPT_BINDX_ADD,
        SCTP_BINDX_REM_ADDR => SCTP_SOCKOPT_BINDX_REM,
        _ => return invalid(),
    };
    // SAFETY: the arguments are the program's.
    unsafe {
        let Some(all) = packed(list, count) else {
            return invalid();
        };
        let len = all.len() as socklen_t;
        C::setsockopt(fd, IPPROTO_SCTP, name, all.as_ptr().cast(), len)
    }
}

/// Starts an association with a peer of several addresses (RFC 6458, section 9.9). A set-up that has not ended, of a
/// non-blocking socket, has an identifier, too.
///
/// # Safety
/// The program guarantees the list, the number and the identifier.
pub(crate) unsafe fn connectx<C: SocketCalls>(
    fd: c_int,
    list: *const sockaddr,
    count: c_int,
    association: *mut i32,
) -> c_int {
    /// `struct sctp_getaddrs_old`
    #[repr(C)]
    struct Arguments {
        association: i32,
        len: c_int,
        addresses: *const u8,
    }
    // SAFETY: the arguments are the program's; the value and its size belong together.
    unsafe {
        let Some(all) = packed(list, count) else {
            return invalid();
        };
        let mut arguments = Arguments {
            association: 0,
            len: all.len() as c_int,
            addresses: all.as_ptr(),
        };
        let mut len = size_of::<Arguments>() as socklen_t;
        let done = C::getsockopt(
            fd,
            IPPROTO_SCTP,
            SCTP_SOCKOPT_CONNECTX3,
            (&raw mut arguments).cast(),
            &raw mut len,
        );
        if !association.is_null() && (done == 0 || errno() == libc::EINPROGRESS) {
            *association = arguments.association;
        }
        done
    }
}

/// Starts an association with an option of older versions of `sctp_connectx`. Returns 0 after
/// `SCTP_SOCKOPT_CONNECTX_OLD`, the identifier after `SCTP_SOCKOPT_CONNECTX`, and -1 after an error.
///
/// # Safety
/// The program guarantees the list and the number.
pub(crate) unsafe fn connectx_by_setting<C: SocketCalls>(
    fd: c_int,
    list: *const sockaddr,
    count: c_int,
    name: c_int,
) -> c_int {
    // SAFETY: the arguments are the program's.
    unsafe {
        let Some(all) = packed(list, count) else {
            return invalid();
        };
        let len = all.len() as socklen_t;
        C::setsockopt(fd, IPPROTO_SCTP, name, all.as_ptr().cast(), len)
    }
}

/// Branches an association off to a new descriptor (RFC 6458, section 9.2).
pub(crate) fn peeloff<C: SocketCalls>(fd: c_int, association: i32) -> c_int {
    let mut arguments = [association, 0];
    // SAFETY: the value is `sctp_peeloff_arg_t`: identifier, descriptor.
    unsafe { peel_off::<C>(fd, SCTP_SOCKOPT_PEELOFF, &mut arguments) }
}

/// Branches an association off with `SOCK_CLOEXEC` or `SOCK_NONBLOCK`.
pub(crate) fn peeloff_flags<C: SocketCalls>(fd: c_int, association: i32, flags: c_uint) -> c_int {
    let mut arguments = [association, 0, flags as i32];
    // SAFETY: the value is `sctp_peeloff_flags_arg_t`: identifier, descriptor, flags.
    unsafe { peel_off::<C>(fd, SCTP_SOCKOPT_PEELOFF_FLAGS, &mut arguments) }
}

/// # Safety
/// The option has this value.
unsafe fn peel_off<C: SocketCalls>(fd: c_int, name: c_int, arguments: &mut [i32]) -> c_int {
    let mut len = size_of_val(arguments) as socklen_t;
    let value = arguments.as_mut_ptr().cast();
    // SAFETY: the value and its size belong together.
    match unsafe { C::getsockopt(fd, IPPROTO_SCTP, name, value, &raw mut len) } {
        0 => arguments[1],
        failed => failed,
    }
}

/// Reads an option of an association, whose identifier the option's value begins with.
///
/// # Safety
/// The program guarantees the value and its size.
pub(crate) unsafe fn opt_info<C: SocketCalls>(
    fd: c_int,
    association: i32,
    option: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the arguments are the program's.
    unsafe {
        if !value.is_null() {
            value.cast::<i32>().write_unaligned(association);
        }
        C::getsockopt(fd, IPPROTO_SCTP, option, value, len)
    }
}

/// Returns the number of addresses that an option (`SCTP_GET_PEER_ADDRS`, `SCTP_GET_LOCAL_ADDRS`) has, and the
/// addresses in memory that [`free_addresses`] releases (RFC 6458, sections 9.3 and 9.5).
///
/// # Safety
/// The program guarantees the pointer.
pub(crate) unsafe fn get_addresses<C: SocketCalls>(
    fd: c_int,
    association: i32,
    option: c_int,
    list: *mut *mut sockaddr,
) -> c_int {
    let mut size = ADDRESSES;
    loop {
        // SAFETY: the memory has this size, and is released or passed to the program.
        unsafe {
            let value = libc::calloc(1, size).cast::<u8>();
            if value.is_null() {
                return -1;
            }
            // `struct sctp_getaddrs`: identifier, number of addresses; then the addresses.
            value.cast::<i32>().write_unaligned(association);
            let mut len = size as socklen_t;
            if C::getsockopt(fd, IPPROTO_SCTP, option, value.cast(), &raw mut len) == 0 {
                *list = value.add(GetAddrs::SIZE).cast();
                return value.add(4).cast::<c_int>().read_unaligned();
            }
            libc::free(value.cast());
        }
        if errno() != libc::ENOMEM || size >= MAX_ADDRESSES {
            return -1;
        }
        size += ADDRESSES;
    }
}

/// Releases addresses (RFC 6458, sections 9.4 and 9.6).
///
/// # Safety
/// The addresses are null, or of [`get_addresses`] and not released.
pub(crate) unsafe fn free_addresses(list: *mut sockaddr) -> c_int {
    if !list.is_null() {
        // SAFETY: the addresses begin behind the other fields of the memory.
        unsafe { libc::free(list.cast::<u8>().sub(GetAddrs::SIZE).cast()) };
    }
    0
}

/// Returns a message without name and ancillary data.
fn message(parts: *mut iovec, count: usize) -> msghdr {
    // SAFETY: null pointers and zeros are valid in each field, also in the padding that musl declares.
    let mut message: msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = parts;
    message.msg_iovlen = count as _;
    message
}

/// Sends a message with ancillary data.
///
/// # Safety
/// The program guarantees the buffers.
unsafe fn send_with<C: SocketCalls>(
    fd: c_int,
    (parts, count): (*const iovec, usize),
    name: &[u8],
    control: &[ControlMessage],
    flags: c_int,
) -> c_int {
    let (mut control, _) = write_control(control, usize::MAX);
    let mut message = message(parts.cast_mut(), count);
    if !name.is_empty() {
        message.msg_name = name.as_ptr().cast_mut().cast();
        message.msg_namelen = name.len() as socklen_t;
    }
    if !control.is_empty() {
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = control.len() as _;
    }
    // SAFETY: as above; `sendmsg` only reads the message.
    unsafe { C::sendmsg(fd, &raw const message, flags) as c_int }
}

/// Sends a message (RFC 6458, section 9.7).
///
/// # Safety
/// The program guarantees the message and the address.
pub(crate) unsafe fn sendmsg<C: SocketCalls>(
    fd: c_int,
    (data, len): (*const c_void, usize),
    (to, to_len): (*const sockaddr, socklen_t),
    info: &SndRcvInfo,
) -> c_int {
    let part = iovec {
        iov_base: data.cast_mut(),
        iov_len: len,
    };
    let control = [ControlMessage::sctp(SCTP_SNDRCV, info.encode())];
    // SAFETY: the arguments are the program's.
    unsafe {
        let to = bytes(to.cast(), to_len as usize);
        send_with::<C>(fd, (&raw const part, 1), to, &control, 0)
    }
}

/// Sends a message (RFC 6458, section 9.10).
///
/// # Safety
/// The program guarantees the message, and that `info` is null or `struct sctp_sndrcvinfo`.
pub(crate) unsafe fn send<C: SocketCalls>(
    fd: c_int,
    (data, len): (*const c_void, usize),
    info: *const c_void,
    flags: c_int,
) -> c_int {
    let part = iovec {
        iov_base: data.cast_mut(),
        iov_len: len,
    };
    // SAFETY: the arguments are the program's.
    unsafe {
        let info = bytes(info, SndRcvInfo::SIZE);
        let control = ControlMessage::sctp(SCTP_SNDRCV, info.to_vec());
        let control = if info.is_empty() { &[][..] } else { &[control] };
        send_with::<C>(fd, (&raw const part, 1), &[], control, flags)
    }
}

/// Returns the control messages of the attributes of `sctp_sendv`; `None` for an unknown type, or fewer bytes than it
/// has.
fn attributes(info: &[u8], kind: c_uint) -> Option<Vec<ControlMessage>> {
    let field = |name, at: usize, size| {
        let value = info.get(at..at + size)?;
        Some(ControlMessage::sctp(name, value.to_vec()))
    };
    Some(match kind {
        SCTP_SENDV_NOINFO => Vec::new(),
        SCTP_SENDV_SNDINFO => vec![field(SCTP_SNDINFO, 0, SndInfo::SIZE)?],
        SCTP_SENDV_PRINFO => vec![field(SCTP_PRINFO, 0, PrInfo::SIZE)?],
        SCTP_SENDV_AUTHINFO => vec![field(SCTP_AUTHINFO, 0, AuthInfo::SIZE)?],
        SCTP_SENDV_SPA => {
            let valid = u32::from_ne_bytes(*info.get(..SPA)?.first_chunk()?);
            [
                (
                    SCTP_SEND_SNDINFO_VALID,
                    field(SCTP_SNDINFO, SPA_SNDINFO, SndInfo::SIZE),
                ),
                (
                    SCTP_SEND_PRINFO_VALID,
                    field(SCTP_PRINFO, SPA_PRINFO, PrInfo::SIZE),
                ),
                (
                    SCTP_SEND_AUTHINFO_VALID,
                    field(SCTP_AUTHINFO, SPA_AUTHINFO, AuthInfo::SIZE),
                ),
            ]
            .into_iter()
            .filter(|(flag, _)| valid & flag != 0)
            .filter_map(|(_, field)| field)
            .collect()
        }
        _ => return None,
    })
}

/// Returns the control message of a further address of a peer.
fn destination(address: &[u8]) -> ControlMessage {
    if address.len() == SOCKADDR_IN {
        ControlMessage::sctp(SCTP_DSTADDRV4, address[4..8].to_vec())
    } else {
        ControlMessage::sctp(SCTP_DSTADDRV6, address[8..24].to_vec())
    }
}

/// Sends a message (RFC 6458, section 9.12).
///
/// # Safety
/// The program guarantees the buffers, the addresses and the attributes.
pub(crate) unsafe fn sendv<C: SocketCalls>(
    fd: c_int,
    (parts, count): (*const iovec, c_int),
    (list, addresses): (*const sockaddr, c_int),
    (info, len, kind): (*const c_void, socklen_t, c_uint),
    flags: c_int,
) -> c_int {
    // SAFETY: the arguments are the program's.
    unsafe {
        let attributes = attributes(bytes(info, len as usize), kind);
        let (Some(addresses), Some(attributes), Ok(count)) = (
            each_address(list, addresses),
            attributes,
            usize::try_from(count),
        ) else {
            return invalid();
        };
        let first = addresses.first().copied().unwrap_or_default();
        let mut control: Vec<ControlMessage> = addresses
            .iter()
            .skip(1)
            .map(|address| destination(address))
            .collect();
        control.extend(attributes);
        send_with::<C>(fd, (parts, count), first, &control, flags)
    }
}

/// Message that was received, with its ancillary data.
struct ReceivedMessage {
    len: c_int,
    control: Vec<ControlMessage>,
}

impl ReceivedMessage {
    /// Returns the value of a control message of SCTP, if it has this size.
    fn attribute(&self, kind: c_int, size: usize) -> Option<&[u8]> {
        let found = self
            .control
            .iter()
            .find(|one| (one.level, one.kind) == (IPPROTO_SCTP, kind))?;
        found.data.get(..size)
    }
}

/// Receives a message. `flags` are those of the call, and then those of the message.
///
/// # Safety
/// The program guarantees the buffers and that each pointer is null or valid.
unsafe fn receive<C: SocketCalls>(
    fd: c_int,
    (parts, count): (*const iovec, usize),
    (from, from_len): (*mut sockaddr, *mut socklen_t),
    flags: *mut c_int,
) -> Result<ReceivedMessage, c_int> {
    // Control messages begin at multiples of 8 bytes.
    let mut space = [0_u64; CONTROL / 8];
    let mut message = message(parts.cast_mut(), count);
    message.msg_control = space.as_mut_ptr().cast();
    message.msg_controllen = CONTROL as _;
    // SAFETY: as above; the ancillary data has the length that the call returns.
    unsafe {
        if !from.is_null() && !from_len.is_null() {
            message.msg_name = from.cast();
            message.msg_namelen = *from_len;
        }
        let with = if flags.is_null() { 0 } else { *flags };
        let len = C::recvmsg(fd, &raw mut message, with) as c_int;
        if len < 0 {
            return Err(len);
        }
        if !from_len.is_null() {
            *from_len = message.msg_namelen;
        }
        if !flags.is_null() {
            *flags = message.msg_flags;
        }
        let used = CONTROL.min(message.msg_controllen as usize);
        let control = bytes(space.as_ptr().cast(), used);
        Ok(ReceivedMessage {
            len,
            control: read_control(control).unwrap_or_default(),
        })
    }
}

/// Receives a message with its attributes (RFC 6458, section 9.8).
///
/// # Safety
/// The program guarantees the buffer, and that each other pointer is null or valid.
pub(crate) unsafe fn recvmsg<C: SocketCalls>(
    fd: c_int,
    (buffer, len): (*mut c_void, usize),
    from: (*mut sockaddr, *mut socklen_t),
    info: *mut c_void,
    flags: *mut c_int,
) -> c_int {
    let part = iovec {
        iov_base: buffer,
        iov_len: len,
    };
    // SAFETY: the arguments are the program's.
    unsafe {
        let received = match receive::<C>(fd, (&raw const part, 1), from, flags) {
            Ok(received) => received,
            Err(failed) => return failed,
        };
        if let (false, Some(value)) = (
            info.is_null(),
            received.attribute(SCTP_SNDRCV, SndRcvInfo::SIZE),
        ) {
            from_raw_parts_mut(info.cast::<u8>(), value.len()).copy_from_slice(value);
        }
        received.len
    }
}

/// Receives a message with its attributes and those of the next message (RFC 6458, section 9.13). Attributes for which
/// `len` is too small are not returned.
///
/// # Safety
/// The program guarantees the buffers, and that each other pointer is null or valid.
pub(crate) unsafe fn recvv<C: SocketCalls>(
    fd: c_int,
    (parts, count): (*const iovec, c_int),
    from: (*mut sockaddr, *mut socklen_t),
    (info, len, kind): (*mut c_void, *mut socklen_t, *mut c_uint),
    flags: *mut c_int,
) -> c_int {
    let Ok(count) = usize::try_from(count) else {
        return invalid();
    };
    // SAFETY: the arguments are the program's.
    unsafe {
        let received = match receive::<C>(fd, (parts, count), from, flags) {
            Ok(received) => received,
            Err(failed) => return failed,
        };
        let space = if info.is_null() || len.is_null() {
            0
        } else {
            *len as usize
        };
        let this = received.attribute(SCTP_RCVINFO, RcvInfo::SIZE);
        let next = received.attribute(SCTP_NXTINFO, NxtInfo::SIZE);
        let (found, value) = match (this, next) {
            (Some(this), Some(next)) if space >= RcvInfo::SIZE + NxtInfo::SIZE => {
                (SCTP_RECVV_RN, [this, next].concat())
            }
            (Some(this), _) if space >= RcvInfo::SIZE => (SCTP_RECVV_RCVINFO, this.to_vec()),
            (None, Some(next)) if space >= NxtInfo::SIZE => (SCTP_RECVV_NXTINFO, next.to_vec()),
            _ => (SCTP_RECVV_NOINFO, Vec::new()),
        };
        if !kind.is_null() {
            *kind = found;
        }
        if !value.is_empty() {
            from_raw_parts_mut(info.cast::<u8>(), value.len()).copy_from_slice(&value);
            *len = value.len() as socklen_t;
        }
        received.len
    }
}

#[cfg(test)]
mod tests;
