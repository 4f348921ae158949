//! The socket functions of libc. Each checks whether the descriptor is Carrick's, and passes the call to the next
//! function of that name if not.
//!
//! - `sockets`: creation, set-up of associations, addresses and options
//! - `descriptors`: closing, duplication and commands
//! - `reading`: received messages
//! - `writing`: sent messages
//!
//! The pointers are those of the program: as with libc, it guarantees that they and the sizes beside them
//! are valid.
// Some fields of `msghdr` and constants have another width with musl.
#![allow(clippy::unnecessary_cast)]

mod descriptors;
mod reading;
mod sockets;
mod writing;

use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use carrick_sockets::linux::write_address;
use libc::{iovec, sockaddr, socklen_t, ssize_t};
use rustix::io::Errno;

pub use descriptors::{close, close_range, dup, dup2, dup3, fcntl, ioctl};
pub(crate) use reading::{ReceivedAttributes, attributes, is_listener, receive_checked};
pub use reading::{preadv2, read, readv, recv, recvfrom, recvmmsg, recvmsg};
pub use sockets::{
    accept, accept4, bind, connect, getpeername, getsockname, getsockopt, listen, setsockopt,
    shutdown, socket,
};
pub use writing::{pwritev2, send, sendfile, sendmmsg, sendmsg, sendto, splice, write, writev};

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
