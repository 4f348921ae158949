//! The socket functions of libc. Each checks whether the descriptor is Carrick's, and passes the call to the next
//! function of that name if not.
//!
//! The pointers are those of the program: as with libc, it guarantees that they and the sizes beside them
//! are valid.
// Some fields of `msghdr` and constants have another width with musl.
#![allow(clippy::unnecessary_cast)]

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr::null;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use carrick_ipc::{Description, Header, MAX_PAYLOAD, Property, Request};
use carrick_sockets::ancillary::{ControlMessage, read_control, write_control};
use carrick_sockets::linux::{
    Layout, MSG_EOR, MSG_NOTIFICATION, NxtInfo, RcvInfo, SCTP_NOTIFICATION, SCTP_NXTINFO,
    SCTP_RCVINFO, SCTP_SNDRCV, SndRcvInfo, write_address,
};
use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use rustix::io::Errno;

use crate::calls::{self, SocketSelection};
use crate::receive::{ReceivedMessage, receive};
use crate::send::{OutgoingMessage, send as send_message};
use crate::{next, table};

/// Sets `errno`.
fn set_errno(error: Errno) {
    // SAFETY: libc returns the location of the thread's `errno`.
    unsafe { *libc::__errno_location() = error.raw_os_error() };
}

fn number(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(|error| {
        set_errno(error);
        -1
    })
}

fn size(result: Result<usize, Errno>) -> ssize_t {
    match result {
        Ok(size) => size as ssize_t,
        Err(error) => {
            set_errno(error);
            -1
        }
    }
}

fn borrow(fd: c_int) -> BorrowedFd<'static> {
    // SAFETY: the number is not negative, since the table has found it; it is only used in system calls.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Returns the bytes of the program at an address.
///
/// # Safety
/// The program guarantees the address and the size.
unsafe fn bytes<'a>(start: *const c_void, len: usize) -> &'a [u8] {
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: as above.
    unsafe { from_raw_parts(start.cast(), len) }
}

/// Returns the bytes of the program at an address, to be written.
///
/// # Safety
/// The program guarantees the address and the size, and that nothing else uses the bytes.
unsafe fn bytes_mut<'a>(start: *mut c_void, len: usize) -> &'a mut [u8] {
    if start.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: as above.
    unsafe { from_raw_parts_mut(start.cast(), len) }
}

/// # Safety
/// As for [`bytes`], for the list and its entries.
unsafe fn parts<'a>(list: *const iovec, count: usize) -> Vec<IoSlice<'a>> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: as above.
    let list = unsafe { from_raw_parts(list, count) };
    let part = |part: &iovec| {
        // SAFETY: as above.
        IoSlice::new(unsafe { bytes(part.iov_base, part.iov_len) })
    };
    list.iter().map(part).collect()
}

/// # Safety
/// As for [`bytes_mut`], for the list and its entries.
unsafe fn parts_mut<'a>(list: *const iovec, count: usize) -> Vec<IoSliceMut<'a>> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: as above.
    let list = unsafe { from_raw_parts(list, count) };
    let part = |part: &iovec| {
        // SAFETY: as above.
        IoSliceMut::new(unsafe { bytes_mut(part.iov_base, part.iov_len) })
    };
    list.iter().map(part).collect()
}

/// Writes a value, truncated to the size of the program's buffer, and its full size.
///
/// # Safety
/// The program guarantees the buffer and its size.
unsafe fn put(value: &[u8], buffer: *mut c_void, len: *mut socklen_t) {
    if len.is_null() {
        return;
    }
    // SAFETY: as above.
    unsafe {
        let space = bytes_mut(buffer, *len as usize);
        let cut = value.len().min(space.len());
        space[..cut].copy_from_slice(&value[..cut]);
        *len = value.len() as socklen_t;
    }
}

/// # Safety
/// As for [`put`].
unsafe fn put_address(address: Option<SocketAddr>, buffer: *mut sockaddr, len: *mut socklen_t) {
    let value = address.map(write_address).unwrap_or_default();
    // SAFETY: as above.
    unsafe { put(&value, buffer.cast(), len) };
}

/// Creates a socket: of the daemon for SCTP, and of the kernel for other protocols.
///
/// # Safety
/// As for `socket` of libc.
pub unsafe fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the arguments are the program's.
    let kernel = || unsafe { next::socket(domain, kind, protocol) };
    if !calls::is_sctp(domain, kind, protocol) {
        return kernel();
    }
    match calls::choice() {
        SocketSelection::Never => return kernel(),
        SocketSelection::Missing => {
            let fd = kernel();
            if fd >= 0 {
                table::forget(fd);
                return fd;
            }
        }
        SocketSelection::Always => {}
    }
    number(calls::socket(domain, kind, protocol))
}

/// Binds a socket to an address.
///
/// # Safety
/// As for `bind` of libc.
pub unsafe fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    if table::find(fd).is_none() {
        // SAFETY: the arguments are the program's.
        return unsafe { next::bind(fd, address, len) };
    }
    // SAFETY: the arguments are the program's.
    let address = unsafe { bytes(address.cast(), len as usize) };
    number(calls::call(borrow(fd), &Request::Bind { address }).map(|_| 0))
}

/// Makes a socket accept associations.
///
/// # Safety
/// As for `listen` of libc.
pub unsafe fn listen(fd: c_int, backlog: c_int) -> c_int {
    if table::find(fd).is_none() {
        // SAFETY: the arguments are the program's.
        return unsafe { next::listen(fd, backlog) };
    }
    number(calls::call(borrow(fd), &Request::Listen { backlog }).map(|_| 0))
}

/// Accepts an association.
///
/// # Safety
/// As for `accept` of libc.
pub unsafe fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the arguments are the program's.
    unsafe { accept4(fd, address, len, 0) }
}

/// Accepts an association, with `SOCK_NONBLOCK` and `SOCK_CLOEXEC`.
///
/// # Safety
/// As for `accept4` of libc.
pub unsafe fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let Some(socket) = table::find(fd) else {
        // SAFETY: the arguments are the program's.
        let accepted = unsafe { next::accept4(fd, address, len, flags) };
        table::forget(accepted);
        return accepted;
    };
    match calls::accept(borrow(fd), socket, flags) {
        Ok((accepted, peer)) => {
            if !address.is_null() {
                // SAFETY: the arguments are the program's.
                unsafe { put_address(peer, address, len) };
            }
            accepted
        }
        Err(error) => number(Err(error)),
    }
}

/// Starts an association.
///
/// # Safety
/// As for `connect` of libc.
pub unsafe fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    if table::find(fd).is_none() {
        // SAFETY: the arguments are the program's.
        return unsafe { next::connect(fd, address, len) };
    }
    // SAFETY: the arguments are the program's.
    let address = unsafe { bytes(address.cast(), len as usize) };
    // A `sockaddr_storage` has one address.
    let one = carrick_sockets::linux::read_address(address);
    let address = one.map_or(address, |(_, used)| &address[..used]);
    let (_, done) = calls::connect(borrow(fd), address);
    number(done.map(|()| 0))
}

/// Returns the local address.
///
/// # Safety
/// As for `getsockname` of libc.
pub unsafe fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if table::find(fd).is_none() {
        // SAFETY: the arguments are the program's.
        return unsafe { next::getsockname(fd, address, len) };
    }
    let answer = calls::call(borrow(fd), &Request::LocalAddress);
    // SAFETY: the arguments are the program's.
    number(
        answer
            .map(|answer| unsafe { put(&answer.value, address.cast(), len) })
            .map(|()| 0),
    )
}

/// Returns the address of the peer.
///
/// # Safety
/// As for `getpeername` of libc.
pub unsafe fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if table::find(fd).is_none() {
        // SAFETY: the arguments are the program's.
        return unsafe { next::getpeername(fd, address, len) };
    }
    let answer = calls::call(borrow(fd), &Request::PeerAddress);
    // SAFETY: the arguments are the program's.
    number(
        answer
            .map(|answer| unsafe { put(&answer.value, address.cast(), len) })
            .map(|()| 0),
    )
}

/// Returns an option.
///
/// # Safety
/// As for `getsockopt` of libc.
pub unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if table::find(fd).is_none() {
        // SAFETY: the arguments are the program's.
        return unsafe { next::getsockopt(fd, level, name, value, len) };
    }
    if len.is_null() {
        return number(Err(Errno::FAULT));
    }
    // SAFETY: the arguments are the program's.
    let buffer = unsafe { bytes(value, *len as usize) };
    match calls::get_option(borrow(fd), level, name, buffer) {
        Ok((found, done)) => {
            // SAFETY: the arguments are the program's.
            unsafe { put(&found, value, len) };
            number(done)
        }
        Err(error) => number(Err(error)),
    }
}

/// Sets an option.
///
/// # Safety
/// As for `setsockopt` of libc.
pub unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if table::find(fd).is_none() {
        // SAFETY: the arguments are the program's.
        return unsafe { next::setsockopt(fd, level, name, value, len) };
    }
    // SAFETY: the arguments are the program's.
    let value = unsafe { bytes(value, len as usize) };
    number(calls::set_option(borrow(fd), level, name, value))
}

/// Ends sending, receiving, or both.
///
/// # Safety
/// As for `shutdown` of libc.
pub unsafe fn shutdown(fd: c_int, how: c_int) -> c_int {
    if table::find(fd).is_none() {
        // SAFETY: the arguments are the program's.
        return unsafe { next::shutdown(fd, how) };
    }
    number(calls::call(borrow(fd), &Request::Shutdown { how }).map(|_| 0))
}

/// Closes a descriptor; with `SO_LINGER` waits for the end of the association if no other descriptor refers to the
/// socket.
///
/// # Safety
/// As for `close` of libc.
pub unsafe fn close(fd: c_int) -> c_int {
    let known = table::known(fd);
    table::forget(fd);
    // SAFETY: the argument is the program's.
    let closed = unsafe { next::close(fd) };
    if let Some((cookie, socket)) = known
        && closed == 0
        && socket.has(Property::Lingers)
    {
        calls::linger(cookie);
    }
    closed
}

/// Closes a range of descriptors.
///
/// # Safety
/// As for `close_range` of libc.
pub unsafe fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // With CLOSE_RANGE_CLOEXEC nothing is closed, and the numbers are identified again.
    table::forget_range(first, last);
    // SAFETY: the arguments are the program's.
    unsafe { next::close_range(first, last, flags) }
}

/// Adds a duplicated descriptor to the table, if the call succeeded.
fn duplicated(from: c_int, to: c_int) -> c_int {
    if to >= 0 && to != from {
        table::copy(from, to);
    }
    to
}

/// Duplicates a descriptor.
///
/// # Safety
/// As for `dup` of libc.
pub unsafe fn dup(fd: c_int) -> c_int {
    // SAFETY: the argument is the program's.
    duplicated(fd, unsafe { next::dup(fd) })
}

/// Duplicates a descriptor to a number.
///
/// # Safety
/// As for `dup2` of libc.
pub unsafe fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: the arguments are the program's.
    duplicated(fd, unsafe { next::dup2(fd, to) })
}

/// Duplicates a descriptor to a number, with `O_CLOEXEC`.
///
/// # Safety
/// As for `dup3` of libc.
pub unsafe fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: the arguments are the program's.
    duplicated(fd, unsafe { next::dup3(fd, to, flags) })
}

/// Performs a command on a descriptor. On Linux's 64-bit platforms a function with a variable argument gets it where
/// one with a fixed argument does.
///
/// # Safety
/// As for `fcntl` of libc.
pub unsafe fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the arguments are the program's.
    let result = unsafe { next::fcntl(fd, command, argument) };
    if command == libc::F_DUPFD || command == libc::F_DUPFD_CLOEXEC {
        duplicated(fd, result)
    } else {
        result
    }
}

/// Performs a command on a device; `FIONREAD` returns the unread bytes of the next message. `TIOCOUTQ` fails with
/// `ENOTTY` as on Linux: `SCTP_STATUS` has the unacknowledged data.
///
/// # Safety
/// As for `ioctl` of libc.
pub unsafe fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // As the kernel, musl has 32 bits for the request.
    let request_bits = request as u32;
    let is_handled = [libc::FIONREAD as u32, libc::TIOCOUTQ as u32].contains(&request_bits);
    let Some(socket) = is_handled.then(|| table::find(fd)).flatten() else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::ioctl(fd, request, argument) };
    };
    if request_bits == libc::TIOCOUTQ as u32 {
        return number(Err(Errno::NOTTY));
    }
    if is_listener(socket) {
        return number(Err(Errno::NOTCONN));
    }
    let unread = crate::receive::unread(borrow(fd));
    // SAFETY: the argument of FIONREAD is the address of an integer of the program's.
    number(
        unread
            .map(|unread| unsafe { *argument.cast::<c_int>() = unread as c_int })
            .map(|()| 0),
    )
}

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
    let mut parts = [IoSliceMut::new(unsafe { bytes_mut(buffer, len) })];
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
    receive(borrow(fd), parts, flags, describes_next)
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
    // SAFETY: the arguments are the program's.
    size(unsafe { receive_into(fd, socket, buffer, len, 0) }.map(|received| received.len))
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
    let mut parts = unsafe { parts_mut(list, entries) };
    size(receive_checked(fd, socket, &mut parts, 0, false).map(|received| received.len))
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
    size(received.map(|received| {
        if !address.is_null() {
            let peer = received.header.and_then(|header| header.address);
            // SAFETY: the arguments are the program's.
            unsafe { put_address(peer, address, address_len) };
        }
        received.len
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
    // SAFETY: as above.
    let mut parts = unsafe { parts_mut(message.msg_iov, message.msg_iovlen as usize) };
    let describes_next = socket.has(Property::NxtInfo);
    let received = receive_checked(fd, socket, &mut parts, flags, describes_next)?;
    let ReceivedAttributes {
        flags,
        control,
        address,
    } = attributes(socket, &received);
    message.msg_flags = flags;
    // SAFETY: as above.
    unsafe {
        put(&address, message.msg_name, &raw mut message.msg_namelen);
        let space = bytes_mut(message.msg_control, message.msg_controllen as usize);
        let (written, is_cut) = write_control(&control, space.len());
        space[..written.len()].copy_from_slice(&written);
        message.msg_controllen = written.len() as _;
        if is_cut {
            message.msg_flags |= libc::MSG_CTRUNC;
        }
    }
    Ok(received.len)
}

/// Removes descriptors that were received on another socket (`SCM_RIGHTS`) from the table.
///
/// # Safety
/// The message is one that the kernel has written.
unsafe fn forget_passed(message: &msghdr) {
    // SAFETY: as above.
    let control = unsafe { bytes(message.msg_control, message.msg_controllen as usize) };
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
    let (Some(socket), false) = (table::find(fd), message.is_null()) else {
        // SAFETY: the arguments are the program's.
        let received = unsafe { next::recvmsg(fd, message, flags) };
        if received >= 0 {
            // SAFETY: the kernel has written the message.
            unsafe { forget_passed(&*message) };
        }
        return received;
    };
    // SAFETY: the arguments are the program's.
    size(unsafe { receive_message(fd, socket, &mut *message, flags) })
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
    let (Some(socket), false) = (table::find(fd), messages.is_null()) else {
        // SAFETY: the arguments are the program's, and the kernel has written the messages that it counts.
        return unsafe {
            let received = next::recvmmsg(fd, messages, count, flags, timeout);
            for message in 0..usize::try_from(received).unwrap_or(0) {
                forget_passed(&(*messages.add(message)).msg_hdr);
            }
            received
        };
    };
    // SAFETY: the arguments are the program's.
    let messages = unsafe { from_raw_parts_mut(messages, count as usize) };
    let mut done = 0;
    for message in messages {
        let mut flags = flags & !libc::MSG_WAITFORONE;
        if done > 0 {
            // As with MSG_WAITFORONE: the first message is waited for.
            flags |= libc::MSG_DONTWAIT;
        }
        // SAFETY: the arguments are the program's.
        match unsafe { receive_message(fd, socket, &mut message.msg_hdr, flags) } {
            Ok(len) => {
                message.msg_len = len as c_uint;
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
) -> ssize_t {
    // SAFETY: as above.
    let (data, address) = unsafe {
        (
            bytes(buffer, len),
            bytes(address.cast(), address_len as usize),
        )
    };
    let message = OutgoingMessage {
        parts: &[IoSlice::new(data)],
        flags,
        address,
        control: &[],
    };
    size(send_message(borrow(fd), socket, &message))
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
    unsafe { send_from(fd, socket, (buffer, len), 0, (null(), 0)) }
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
    let parts = unsafe { parts(list, entries) };
    let message = OutgoingMessage {
        parts: &parts,
        flags: 0,
        address: &[],
        control: &[],
    };
    size(send_message(borrow(fd), socket, &message))
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
    unsafe { send_from(fd, socket, (buffer, len), flags, (null(), 0)) }
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
    unsafe { send_from(fd, socket, (buffer, len), flags, (address, address_len)) }
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
    // SAFETY: as above.
    let (parts, address, control) = unsafe {
        (
            parts(header.msg_iov, header.msg_iovlen as usize),
            bytes(header.msg_name, header.msg_namelen as usize),
            bytes(header.msg_control, header.msg_controllen as usize),
        )
    };
    let message = OutgoingMessage {
        parts: &parts,
        flags,
        address,
        control,
    };
    send_message(borrow(fd), socket, &message)
}

/// Sends a message with ancillary data.
///
/// # Safety
/// As for `sendmsg` of libc.
pub unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    let (Some(socket), false) = (table::find(fd), message.is_null()) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::sendmsg(fd, message, flags) };
    };
    // SAFETY: the arguments are the program's.
    size(unsafe { send_header(fd, socket, &*message, flags) })
}

/// Sends several messages.
///
/// # Safety
/// As for `sendmmsg` of libc.
pub unsafe fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    let (Some(mut socket), false) = (table::find(fd), messages.is_null()) else {
        // SAFETY: the arguments are the program's.
        return unsafe { next::sendmmsg(fd, messages, count, flags) };
    };
    // SAFETY: the arguments are the program's.
    let messages = unsafe { from_raw_parts_mut(messages, count as usize) };
    let mut done = 0;
    for message in messages {
        // SAFETY: the arguments are the program's.
        match unsafe { send_header(fd, socket, &message.msg_hdr, flags) } {
            Ok(len) => {
                message.msg_len = len as c_uint;
                done += 1;
            }
            Err(error) if done == 0 => return number(Err(error)),
            Err(_) => break,
        }
        socket = table::find(fd).unwrap_or(socket);
    }
    done
}

/// Flags of a transfer that has an offset (`preadv2`) as those of `recv` and `send`.
///
/// # Errors
/// As on every socket: `ESPIPE` for an offset other than -1, `EOPNOTSUPP` for flags without a meaning.
pub(crate) fn transfer_flags(offset: i64, flags: c_int) -> Result<c_int, Errno> {
    if offset != -1 {
        return Err(Errno::SPIPE);
    }
    match flags {
        0 => Ok(0),
        libc::RWF_NOWAIT => Ok(libc::MSG_DONTWAIT),
        _ => Err(Errno::OPNOTSUPP),
    }
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
        let mut parts = unsafe { parts_mut(list, entries) };
        receive_checked(fd, socket, &mut parts, flags, false).map(|received| received.len)
    }))
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
        let parts = unsafe { parts(list, entries) };
        let message = OutgoingMessage {
            parts: &parts,
            flags,
            address: &[],
            control: &[],
        };
        send_message(borrow(fd), socket, &message)
    }))
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
    // SAFETY: the program guarantees the offset, unless it is null.
    size(send_file(
        out,
        socket,
        from,
        unsafe { offset.as_mut() },
        count,
    ))
}

/// `sendfile` to a descriptor of Carrick.
fn send_file(
    out: c_int,
    mut socket: Description,
    from: c_int,
    offset: Option<&mut i64>,
    count: usize,
) -> Result<usize, Errno> {
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
    let start = match &offset {
        Some(offset) => u64::try_from(**offset).map_err(|_| Errno::INVAL)?,
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
    match offset {
        Some(offset) => *offset = end as i64,
        None => {
            rustix::fs::seek(file, rustix::fs::SeekFrom::Start(end))?;
        }
    }
    Ok(done)
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
