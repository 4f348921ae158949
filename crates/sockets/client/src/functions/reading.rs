//! Received messages, with their ancillary data.

use std::ffi::{c_int, c_uint, c_void};
use std::io::IoSliceMut;

use carrick_ipc::{Description, Header, Property};
use carrick_sockets::ancillary::{ControlMessage, read_control, write_control};
use carrick_sockets::linux::{
    Layout, MSG_EOR, MSG_NOTIFICATION, NxtInfo, RcvInfo, SCTP_NOTIFICATION, SCTP_NXTINFO,
    SCTP_RCVINFO, SCTP_SNDRCV, SndRcvInfo, write_address,
};
use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use rustix::io::Errno;

use super::{
    borrow, check_size, data, data_mut, name_len, number, parts_mut, put, put_address, several,
    size, transfer_flags,
};
use crate::receive::{ReceivedMessage, receive};
use crate::{memory, next, table};

/// Reads into one buffer of the program.
///
/// # Safety
/// The program guarantees the buffer and its size.
unsafe fn receive_into(
    fd: c_int,
    socket: Description,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
) -> Result<ReceivedMessage, Errno> {
    // SAFETY: as above.
    let mut parts = [IoSliceMut::new(unsafe { data_mut(buffer, len) }?)];
    receive_checked(fd, socket, &mut parts, flags, false)
}

pub(crate) fn receive_checked(
    fd: c_int,
    socket: Description,
    parts: &mut [IoSliceMut<'_>],
    flags: c_int,
    describes_next: bool,
) -> Result<ReceivedMessage, Errno> {
    if is_listener(socket) {
        return Err(Errno::NOTCONN);
    }
    receive(borrow(fd), socket, parts, flags, describes_next)
}

/// Receives a message into the buffers of a list. Without room in them, neither waits nor receives, as a read of the
/// kernel; `recv` does.
///
/// # Safety
/// The program guarantees the list and its buffers.
unsafe fn receive_parts(
    fd: c_int,
    socket: Description,
    (list, entries): (*const iovec, usize),
    flags: c_int,
) -> Result<usize, Errno> {
    // SAFETY: as above.
    let mut parts = unsafe { parts_mut(list, entries, Errno::INVAL) }?;
    if parts.iter().all(|part| part.is_empty()) {
        return Ok(0);
    }
    receive_checked(fd, socket, &mut parts, flags, false).map(|received| received.len)
}

/// Returns whether associations are read from a socket instead of messages.
pub(crate) fn is_listener(socket: Description) -> bool {
    socket.has(Property::Listening) && !socket.has(Property::OneToMany)
}

/// Receives a message into a buffer.
///
/// # Safety
/// As for `read` of libc.
pub unsafe fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
    let Some(socket) = table::find(fd) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::read(fd, buffer, len) };
    };
    if len == 0 {
        // As a read of the kernel.
        return 0;
    }
    // SAFETY: the arguments are the program's.
    let received =
        check_size(len).and_then(|()| unsafe { receive_into(fd, socket, buffer, len, 0) });
    size(received.map(|received| received.len))
}

/// Receives a message into several buffers.
///
/// # Safety
/// As for `readv` of libc.
pub unsafe fn readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    let (Some(socket), Ok(entries)) = (table::find(fd), usize::try_from(count)) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::readv(fd, list, count) };
    };
    // SAFETY: the arguments are the program's.
    size(unsafe { receive_parts(fd, socket, (list, entries), 0) })
}

/// Receives a message into several buffers. `RWF_NOWAIT` is the only flag.
///
/// # Safety
/// As for `preadv2` of libc.
pub unsafe fn preadv2(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> ssize_t {
    let (Some(socket), Ok(entries)) = (table::find(fd), usize::try_from(count)) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::offset_call(libc::SYS_preadv2, fd, list, count, offset, flags) };
    };
    size(transfer_flags(offset, flags).and_then(|flags| {
        // SAFETY: the arguments are the program's.
        unsafe { receive_parts(fd, socket, (list, entries), flags) }
    }))
}

/// Receives a message with flags.
///
/// # Safety
/// As for `recv` of libc.
pub unsafe fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    let Some(socket) = table::find(fd) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::recv(fd, buffer, len, flags) };
    };
    // SAFETY: the arguments are the program's.
    size(unsafe { receive_into(fd, socket, buffer, len, flags) }.map(|received| received.len))
}

/// Receives a message with the address of its sender.
///
/// # Safety
/// As for `recvfrom` of libc.
pub unsafe fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    let Some(socket) = table::find(fd) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::recvfrom(fd, buffer, len, flags, address, address_len) };
    };
    // SAFETY: the arguments are the program's.
    let received = unsafe { receive_into(fd, socket, buffer, len, flags) };
    size(received.and_then(|received| {
        let peer = received.header.and_then(|header| header.address);
        // SAFETY: the arguments are the program's.
        unsafe { put_address(peer, address, address_len) }?;
        Ok(received.len)
    }))
}

/// Returns `SCTP_NXTINFO` (RFC 6458, section 5.3.6): the size is that of the part that has arrived.
fn nxtinfo((header, len): &(Header, usize)) -> NxtInfo {
    let info = header.info;
    if header.is_notification {
        return NxtInfo {
            flags: SCTP_NOTIFICATION as u16,
            length: *len as u32,
            assoc_id: info.association,
            ..NxtInfo::default()
        };
    }
    NxtInfo {
        sid: info.stream,
        flags: info.flags,
        ppid: info.ppid,
        length: *len as u32,
        assoc_id: info.association,
    }
}

/// Returns the attributes of a message as ancillary data.
fn ancillary(socket: Description, header: &Header) -> Vec<ControlMessage> {
    let info = header.info;
    let mut control = Vec::new();
    if socket.has(Property::RcvInfo) {
        let info = RcvInfo {
            sid: info.stream,
            ssn: info.ssn,
            flags: info.flags,
            ppid: info.ppid,
            tsn: info.tsn,
            cum_tsn: info.cum_tsn,
            context: info.context,
            assoc_id: info.association,
        };
        control.push(ControlMessage::sctp(SCTP_RCVINFO, info.encode()));
    }
    if socket.has(Property::SndRcv) {
        let info = SndRcvInfo {
            stream: info.stream,
            ssn: info.ssn,
            flags: info.flags,
            ppid: info.ppid,
            context: info.context,
            time_to_live: 0,
            tsn: info.tsn,
            cum_tsn: info.cum_tsn,
            assoc_id: info.association,
        };
        control.push(ControlMessage::sctp(SCTP_SNDRCV, info.encode()));
    }
    control
}

/// Attributes of a message that `recvmsg` returns.
pub(crate) struct ReceivedAttributes {
    pub(crate) flags: c_int,
    pub(crate) control: Vec<ControlMessage>,
    pub(crate) address: Vec<u8>,
}

pub(crate) fn attributes(socket: Description, received: &ReceivedMessage) -> ReceivedAttributes {
    let mut attributes = ReceivedAttributes {
        flags: if received.is_end { MSG_EOR } else { 0 },
        control: Vec::new(),
        address: Vec::new(),
    };
    if let Some(header) = &received.header {
        if header.is_notification {
            attributes.flags |= MSG_NOTIFICATION;
        } else {
            let next = received.next.as_ref().map(nxtinfo);
            let next = next.map(|info| ControlMessage::sctp(SCTP_NXTINFO, info.encode()));
            attributes.control.extend(next);
            attributes.control.extend(ancillary(socket, header));
        }
        attributes.address = header.address.map(write_address).unwrap_or_default();
    }
    attributes
}

/// `recvmsg` on a descriptor of Carrick.
///
/// # Safety
/// The program guarantees the message and its buffers.
unsafe fn receive_message(
    fd: c_int,
    socket: Description,
    message: &mut msghdr,
    flags: c_int,
) -> Result<usize, Errno> {
    let count = message.msg_iovlen as usize;
    // Behind the message, an error would cost it.
    name_len(message)?;
    // SAFETY: as above.
    let mut parts = unsafe { parts_mut(message.msg_iov, count, Errno::MSGSIZE) }?;
    let describes_next = socket.has(Property::NxtInfo);
    let received = receive_checked(fd, socket, &mut parts, flags, describes_next)?;
    let ReceivedAttributes {
        flags,
        control,
        address,
    } = attributes(socket, &received);
    message.msg_flags = flags;
    if !message.msg_name.is_null() {
        // SAFETY: as above.
        unsafe { put(&address, message.msg_name, &raw mut message.msg_namelen) }?;
    }
    let space = if message.msg_control.is_null() {
        0
    } else {
        message.msg_controllen as usize
    };
    let (written, is_cut) = write_control(&control, space);
    memory::check_writable(message.msg_control, written.len())?;
    // SAFETY: as above.
    unsafe { data_mut(message.msg_control, written.len()) }?.copy_from_slice(&written);
    message.msg_controllen = written.len() as _;
    if is_cut {
        message.msg_flags |= libc::MSG_CTRUNC;
    }
    Ok(received.len)
}

/// Removes descriptors that were received on another socket (`SCM_RIGHTS`) from the table.
///
/// # Safety
/// The message is one that the kernel has written.
unsafe fn forget_passed(message: &msghdr) {
    // SAFETY: as above.
    let control = unsafe { data(message.msg_control, message.msg_controllen as usize) };
    let control = control.unwrap_or_default();
    for passed in read_control(control).unwrap_or_default() {
        if (passed.level, passed.kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            for number in passed.data.chunks_exact(4).filter_map(<[u8]>::first_chunk) {
                table::forget(c_int::from_ne_bytes(*number));
            }
        }
    }
}

/// Receives a message with its ancillary data.
///
/// # Safety
/// As for `recvmsg` of libc.
pub unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let Some(socket) = table::find(fd) else {
        // SAFETY: the arguments are the program's.
        let received = unsafe { next::recvmsg(fd, message, flags) };
        if received >= 0 {
            // SAFETY: the kernel has written the message.
            unsafe { forget_passed(&message.read_unaligned()) };
        }
        return received;
    };
    let written = memory::check_writable(message.cast(), size_of::<msghdr>());
    // SAFETY: the arguments are the program's, and the message can be written. The program may have it at any address.
    size(written.and_then(|()| unsafe {
        let mut header = message.read_unaligned();
        let len = receive_message(fd, socket, &mut header, flags)?;
        message.write_unaligned(header);
        Ok(len)
    }))
}

/// Receives several messages; waits for the first one.
///
/// # Safety
/// As for `recvmmsg` of libc.
pub unsafe fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    let Some(socket) = table::find(fd) else {
        // SAFETY: the arguments are the program's, and the kernel has written the messages that it counts.
        return unsafe {
            let received = next::recvmmsg(fd, messages, count, flags, timeout);
            for message in 0..usize::try_from(received).unwrap_or(0) {
                forget_passed(&messages.add(message).read_unaligned().msg_hdr);
            }
            received
        };
    };
    // SAFETY: the arguments are the program's.
    let copies = match unsafe { several(messages, count) } {
        Ok(copies) => copies,
        Err(error) => return number(Err(error)),
    };
    let mut done = 0;
    for mut message in copies {
        let mut flags = flags & !libc::MSG_WAITFORONE;
        if done > 0 {
            // As with MSG_WAITFORONE: the first message is waited for.
            flags |= libc::MSG_DONTWAIT;
        }
        // SAFETY: the arguments are the program's.
        match unsafe { receive_message(fd, socket, &mut message.msg_hdr, flags) } {
            Ok(len) => {
                message.msg_len = len as c_uint;
                // SAFETY: the messages can be written, and no more of them were copied than there are.
                unsafe { messages.add(done as usize).write_unaligned(message) };
                done += 1;
                if len == 0 {
                    break;
                }
            }
            Err(error) if done == 0 => return number(Err(error)),
            Err(_) => break,
        }
    }
    done
}
