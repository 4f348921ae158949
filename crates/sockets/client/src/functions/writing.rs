//! Sent messages, with their ancillary data, and copies of files.

use std::ffi::{c_int, c_uint, c_void};
use std::io::IoSlice;
use std::ptr::null;

use carrick_ipc::{Description, MAX_PAYLOAD};
use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use rustix::io::Errno;

use super::{
    MAX_ADDRESS, address_bytes, borrow, bytes, check_size, data, name_len, number, parts, several,
    size, transfer_flags,
};
use crate::calls::MAX_VALUE;
use crate::send::{BATCH, OutgoingMessage, send as send_message, send_several};
use crate::{memory, next, table};

/// Sends one buffer of the program.
///
/// # Safety
/// The program guarantees the buffer and the address.
unsafe fn send_from(
    fd: c_int,
    socket: Description,
    (buffer, len): (*const c_void, size_t),
    flags: c_int,
    (address, address_len): (*const sockaddr, socklen_t),
) -> Result<usize, Errno> {
    let address_len = if address.is_null() { 0 } else { address_len };
    // SAFETY: as above.
    let (data, address) = unsafe { (data(buffer, len)?, address_bytes(address, address_len)?) };
    let message = OutgoingMessage {
        parts: &[IoSlice::new(data)],
        flags,
        address,
        control: &[],
    };
    send_message(borrow(fd), socket, &message)
}

/// Sends a message of several parts. Nothing is sent of parts that are all empty, as by a write of the kernel.
///
/// # Safety
/// The program guarantees the list and its parts.
unsafe fn send_parts(
    fd: c_int,
    socket: Description,
    (list, entries): (*const iovec, usize),
    flags: c_int,
) -> Result<usize, Errno> {
    // SAFETY: as above.
    let parts = unsafe { parts(list, entries, Errno::INVAL) }?;
    if parts.iter().all(|part| part.is_empty()) {
        return Ok(0);
    }
    let message = OutgoingMessage {
        parts: &parts,
        flags,
        address: &[],
        control: &[],
    };
    send_message(borrow(fd), socket, &message)
}

/// Sends a message.
///
/// # Safety
/// As for `write` of libc.
pub unsafe fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
    let Some(socket) = table::find(fd) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::write(fd, buffer, len) };
    };
    // SAFETY: the arguments are the program's.
    size(
        check_size(len)
            .and_then(|()| unsafe { send_from(fd, socket, (buffer, len), 0, (null(), 0)) }),
    )
}

/// Sends a message of several parts.
///
/// # Safety
/// As for `writev` of libc.
pub unsafe fn writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    let (Some(socket), Ok(entries)) = (table::find(fd), usize::try_from(count)) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::writev(fd, list, count) };
    };
    // SAFETY: the arguments are the program's.
    size(unsafe { send_parts(fd, socket, (list, entries), 0) })
}

/// Sends a message of several parts. `RWF_NOWAIT` is the only flag.
///
/// # Safety
/// As for `pwritev2` of libc.
pub unsafe fn pwritev2(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> ssize_t {
    let (Some(socket), Ok(entries)) = (table::find(fd), usize::try_from(count)) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::offset_call(libc::SYS_pwritev2, fd, list, count, offset, flags) };
    };
    size(transfer_flags(offset, flags).and_then(|flags| {
        // SAFETY: the arguments are the program's.
        unsafe { send_parts(fd, socket, (list, entries), flags) }
    }))
}

/// Sends a message with flags.
///
/// # Safety
/// As for `send` of libc.
pub unsafe fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    let Some(socket) = table::find(fd) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::send(fd, buffer, len, flags) };
    };
    // SAFETY: the arguments are the program's.
    size(unsafe { send_from(fd, socket, (buffer, len), flags, (null(), 0)) })
}

/// Sends a message to an address.
///
/// # Safety
/// As for `sendto` of libc.
pub unsafe fn sendto(
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> ssize_t {
    let Some(socket) = table::find(fd) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::sendto(fd, buffer, len, flags, address, address_len) };
    };
    // SAFETY: the arguments are the program's.
    size(unsafe { send_from(fd, socket, (buffer, len), flags, (address, address_len)) })
}

/// `sendmsg` on a descriptor of Carrick.
///
/// # Safety
/// The program guarantees the message and its buffers.
unsafe fn send_header(
    fd: c_int,
    socket: Description,
    header: &msghdr,
    flags: c_int,
) -> Result<usize, Errno> {
    let count = header.msg_iovlen as usize;
    // SAFETY: as above.
    let parts = unsafe { parts(header.msg_iov, count, Errno::MSGSIZE) }?;
    // SAFETY: as above.
    let message = unsafe { outgoing_message(header, &parts, flags) }?;
    send_message(borrow(fd), socket, &message)
}

/// Returns the message of a header, with the parts that it has.
///
/// # Safety
/// The program guarantees the address and the ancillary data.
unsafe fn outgoing_message<'a>(
    header: &'a msghdr,
    parts: &'a [IoSlice<'a>],
    flags: c_int,
) -> Result<OutgoingMessage<'a>, Errno> {
    // Unlike `sendto`, the kernel takes the first bytes of a name that is too long.
    let name_len = name_len(header)?.min(MAX_ADDRESS);
    let control_len = header.msg_controllen as usize;
    if control_len > MAX_VALUE {
        return Err(Errno::NOBUFS);
    }
    // SAFETY: as above.
    let (address, control) = unsafe {
        (
            address_bytes(header.msg_name.cast(), name_len)?,
            bytes(header.msg_control, control_len)?,
        )
    };
    Ok(OutgoingMessage {
        parts,
        flags,
        address,
        control,
    })
}

/// Sends a message with ancillary data.
///
/// # Safety
/// As for `sendmsg` of libc.
pub unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    let Some(socket) = table::find(fd) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::sendmsg(fd, message, flags) };
    };
    let read = memory::check_readable(message.cast(), size_of::<msghdr>());
    // SAFETY: the arguments are the program's, and the message can be read. The program may have it at any address.
    size(read.and_then(|()| unsafe { send_header(fd, socket, &message.read_unaligned(), flags) }))
}

/// Sends several messages.
///
/// # Safety
/// As for `sendmmsg` of libc.
pub unsafe fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    let Some(mut socket) = table::find(fd) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::sendmmsg(fd, messages, count, flags) };
    };
    // SAFETY: the arguments are the program's.
    let copies = match unsafe { several(messages, count) } {
        Ok(copies) => copies,
        Err(error) => return number(Err(error)),
    };
    let mut done = 0;
    while done < copies.len() {
        // SAFETY: the arguments are the program's.
        match unsafe { send_headers(fd, socket, &copies[done..], flags) } {
            Ok(lens) => {
                for len in lens {
                    // SAFETY: the messages can be written, and no more of them are sent than there are.
                    unsafe { (&raw mut (*messages.add(done)).msg_len).write_unaligned(len) };
                    done += 1;
                }
            }
            Err(error) if done == 0 => return number(Err(error)),
            Err(_) => break,
        }
        socket = table::find(fd).unwrap_or(socket);
    }
    done as c_int
}

/// Sends the first messages of `sendmmsg` on a descriptor of Carrick, and returns their sizes.
///
/// # Safety
/// The program guarantees the messages and their buffers.
unsafe fn send_headers(
    fd: c_int,
    socket: Description,
    messages: &[mmsghdr],
    flags: c_int,
) -> Result<Vec<c_uint>, Errno> {
    let headers = messages.iter().take(BATCH).map(|message| &message.msg_hdr);
    // SAFETY: as above.
    let parts: Vec<_> = unsafe {
        headers
            .clone()
            .map(|header| parts(header.msg_iov, header.msg_iovlen as usize, Errno::MSGSIZE))
            .map_while(Result::ok)
            .collect()
    };
    // SAFETY: as above.
    let outgoing: Vec<_> = unsafe {
        let outgoing = headers.zip(&parts);
        outgoing
            .map(|(header, parts)| outgoing_message(header, parts, flags))
            .map_while(Result::ok)
            .collect()
    };
    if let (true, Some(first)) = (outgoing.is_empty(), messages.first()) {
        // Returns the error of its pointers.
        // SAFETY: as above.
        let sent = unsafe { send_header(fd, socket, &first.msg_hdr, flags) }?;
        return Ok(vec![sent as c_uint]);
    }
    let sent = send_several(borrow(fd), socket, &outgoing)?;
    let lens = outgoing
        .iter()
        .take(sent)
        .map(|message| message.len() as c_uint);
    Ok(lens.collect())
}

/// Copies a file to a descriptor, in messages of 64 KiB on one of Carrick.
///
/// # Safety
/// As for `sendfile` of libc.
pub unsafe fn sendfile(out: c_int, from: c_int, offset: *mut i64, count: size_t) -> ssize_t {
    let Some(socket) = table::find(out) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::sendfile(out, from, offset, count) };
    };
    if !offset.is_null()
        && let Err(error) = memory::check_writable(offset.cast(), size_of::<i64>())
    {
        return size(Err(error));
    }
    // SAFETY: the offset can be read and written, unless it is null. The program may have it at any address.
    size(unsafe {
        let start = (!offset.is_null()).then(|| offset.read_unaligned());
        send_file(out, socket, from, start, count).map(|(sent, end)| {
            if !offset.is_null() {
                offset.write_unaligned(end);
            }
            sent
        })
    })
}

/// `sendfile` to a descriptor of Carrick, from an offset or the position of the file, which is moved in this case. Returns
/// the number of bytes, and the offset behind them.
fn send_file(
    out: c_int,
    mut socket: Description,
    from: c_int,
    offset: Option<i64>,
    count: usize,
) -> Result<(usize, i64), Errno> {
    if from < 0 {
        return Err(Errno::BADF);
    }
    let file = borrow(from);
    // Only a file with positions can be sent, as on every socket.
    let own =
        rustix::fs::seek(file, rustix::fs::SeekFrom::Current(0)).map_err(|error| match error {
            Errno::SPIPE => Errno::INVAL,
            error => error,
        })?;
    let start = match offset {
        Some(offset) => u64::try_from(offset).map_err(|_| Errno::INVAL)?,
        None => own,
    };
    let mut buffer = vec![0; count.min(MAX_PAYLOAD)];
    let mut done = 0;
    while done < count {
        let space = &mut buffer[..(count - done).min(MAX_PAYLOAD)];
        let sent = match rustix::io::pread(file, space, start + done as u64) {
            Ok(0) => break,
            Ok(len) => {
                let message = OutgoingMessage {
                    parts: &[IoSlice::new(&buffer[..len])],
                    flags: 0,
                    address: &[],
                    control: &[],
                };
                send_message(borrow(out), socket, &message)
            }
            failed => failed,
        };
        match sent {
            Ok(len) => done += len,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
        socket = table::find(out).unwrap_or(socket);
    }
    let end = start + done as u64;
    if offset.is_none() {
        rustix::fs::seek(file, rustix::fs::SeekFrom::Start(end))?;
    }
    Ok((done, end as i64))
}

/// Moves data between descriptors; `EINVAL` on one of Carrick.
///
/// # Safety
/// As for `splice` of libc.
pub unsafe fn splice(
    from: c_int,
    from_offset: *mut i64,
    to: c_int,
    to_offset: *mut i64,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if table::find(from).is_none() && table::find(to).is_none() {
        // SAFETY: the arguments are the program's.
        return unsafe { next::splice(from, from_offset, to, to_offset, len, flags) };
    }
    size(Err(Errno::INVAL))
}
