//! The socket functions of libc. Each checks whether the descriptor is Carrick's, and passes the call to the next
//! function of that name if not.
//!
//! - `sockets`: creation, set-up of associations, addresses and options
//! - `descriptors`: closing, duplication and commands
//! - `reading`: received messages
//! - `writing`: sent messages
//!
//! The pointers are those of the program. Those that this crate uses are checked ([`memory`]); the kernel checks those
//! that are passed on.
// Some fields of `msghdr` and constants have another width with musl.
#![allow(clippy::unnecessary_cast)]

mod descriptors;
mod reading;
mod sockets;
mod writing;

use std::ffi::{c_int, c_uint, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use carrick_sockets::linux::write_address;
use libc::{iovec, mmsghdr, msghdr, sockaddr, socklen_t, ssize_t};
use rustix::io::Errno;

use crate::memory;

pub use descriptors::{close, close_range, dup, dup2, dup3, fcntl, ioctl};
pub(crate) use reading::{ReceivedAttributes, attributes, is_listener, receive_checked};
pub use reading::{preadv2, read, readv, recv, recvfrom, recvmmsg, recvmsg};
pub use sockets::{
    accept, accept4, bind, chroot, connect, getpeername, getsockname, getsockopt, listen,
    setsockopt, shutdown, socket,
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

/// Limit of the parts of a message (`UIO_MAXIOV`).
pub(crate) const MAX_PARTS: usize = 1024;
/// Limit of one transfer in bytes (`MAX_RW_COUNT`): the kernel transfers no more of a longer buffer.
const MAX_TRANSFER: usize = 0x7fff_f000;
/// Limit of an address of the program in bytes: `struct sockaddr_storage`.
const MAX_ADDRESS: socklen_t = 128;

/// Returns the bytes of the program at an address, which this crate reads.
///
/// # Errors
/// `EFAULT` if the process cannot read them.
///
/// # Safety
/// The program guarantees that nothing writes the bytes meanwhile.
unsafe fn bytes<'a>(start: *const c_void, len: usize) -> Result<&'a [u8], Errno> {
    memory::check_readable(start, len)?;
    // SAFETY: as above.
    unsafe { data(start, len) }
}

/// Returns the bytes of the program at an address, which only the kernel reads: it checks them. Of a buffer that is longer
/// than one transfer, the first bytes.
///
/// # Errors
/// `EFAULT` for a null pointer, or a buffer beyond the last address.
///
/// # Safety
/// As for [`bytes`].
unsafe fn data<'a>(start: *const c_void, len: usize) -> Result<&'a [u8], Errno> {
    match transferred(start, len)? {
        0 => Ok(&[]),
        // SAFETY: as above.
        len => Ok(unsafe { from_raw_parts(start.cast(), len) }),
    }
}

/// Returns the number of bytes of a buffer in one transfer. A slice of more than `isize::MAX` bytes, or one that ends
/// behind the last address, is not allowed in Rust, whereas programs pass such sizes for "as much as there is".
fn transferred(start: *const c_void, len: usize) -> Result<usize, Errno> {
    let len = len.min(MAX_TRANSFER);
    let has_end = start.addr().checked_add(len).is_some();
    if len > 0 && (start.is_null() || !has_end) {
        return Err(Errno::FAULT);
    }
    Ok(len)
}

/// Checks the size of the buffer of `read` and `write`, which the kernel does not limit before it checks the addresses.
fn check_size(len: usize) -> Result<(), Errno> {
    isize::try_from(len).map(drop).map_err(|_| Errno::FAULT)
}

/// As [`data`], to be written by the kernel.
///
/// # Safety
/// The program guarantees that nothing else uses the bytes.
unsafe fn data_mut<'a>(start: *mut c_void, len: usize) -> Result<&'a mut [u8], Errno> {
    match transferred(start, len)? {
        0 => Ok(&mut []),
        // SAFETY: as above.
        len => Ok(unsafe { from_raw_parts_mut(start.cast(), len) }),
    }
}

/// Returns an address of the program, without what the program has behind it, such as the rest of a
/// `sockaddr_storage`.
///
/// # Errors
/// `EINVAL` if it is too long, `EFAULT` if the process cannot read it.
///
/// # Safety
/// As for [`bytes`].
unsafe fn address_bytes<'a>(start: *const sockaddr, len: socklen_t) -> Result<&'a [u8], Errno> {
    if len > MAX_ADDRESS {
        return Err(Errno::INVAL);
    }
    // SAFETY: as above.
    let address = unsafe { bytes(start.cast(), len as usize) }?;
    let one = carrick_sockets::linux::read_address(address);
    Ok(one.map_or(address, |(_, used)| &address[..used]))
}

/// Returns a list of parts of the program, without the bytes behind the limit of one transfer; `many` is the error of a
/// list that is too long.
///
/// The entries are copied, since a program may have them at any address, and change them meanwhile.
///
/// # Errors
/// `EFAULT` if the process cannot read the list, or for a part that ends behind all addresses; `EINVAL` for a part with a
/// negative size.
///
/// # Safety
/// As for [`bytes`].
unsafe fn list(list: *const iovec, count: usize, many: Errno) -> Result<Vec<iovec>, Errno> {
    if count > MAX_PARTS {
        return Err(many);
    }
    memory::check_readable(list.cast(), count * size_of::<iovec>())?;
    let mut room = MAX_TRANSFER;
    (0..count)
        .map(|at| {
            // SAFETY: as above, for the entries of the list.
            let mut part = unsafe { list.add(at).read_unaligned() };
            let len = isize::try_from(part.iov_len).map_err(|_| Errno::INVAL)?;
            // Programs have the lower half of the addresses.
            let end = (part.iov_base.addr() as isize).checked_add(len);
            end.ok_or(Errno::FAULT)?;
            part.iov_len = part.iov_len.min(room);
            room -= part.iov_len;
            Ok(part)
        })
        .collect()
}

/// # Safety
/// As for [`data`], for the list and its entries.
unsafe fn parts<'a>(
    start: *const iovec,
    count: usize,
    many: Errno,
) -> Result<Vec<IoSlice<'a>>, Errno> {
    // SAFETY: as above.
    let list = unsafe { list(start, count, many) }?;
    let part = |part: &iovec| {
        // SAFETY: as above.
        unsafe { data(part.iov_base, part.iov_len) }.map(IoSlice::new)
    };
    list.iter().map(part).collect()
}

/// # Safety
/// As for [`data_mut`], for the list and its entries.
unsafe fn parts_mut<'a>(
    start: *const iovec,
    count: usize,
    many: Errno,
) -> Result<Vec<IoSliceMut<'a>>, Errno> {
    // SAFETY: as above.
    let list = unsafe { list(start, count, many) }?;
    let part = |part: &iovec| {
        // SAFETY: as above.
        unsafe { data_mut(part.iov_base, part.iov_len) }.map(IoSliceMut::new)
    };
    list.iter().map(part).collect()
}

/// Returns copies of the messages of `recvmmsg` and `sendmmsg`, as many as the kernel takes at most. The program may have
/// them at any address.
///
/// # Errors
/// `EFAULT` if the process cannot write them.
///
/// # Safety
/// The program guarantees that nothing else uses them.
unsafe fn several(start: *mut mmsghdr, count: c_uint) -> Result<Vec<mmsghdr>, Errno> {
    let count = (count as usize).min(MAX_PARTS);
    memory::check_writable(start.cast(), count * size_of::<mmsghdr>())?;
    // SAFETY: as above.
    Ok((0..count)
        .map(|at| unsafe { start.add(at).read_unaligned() })
        .collect())
}

/// Returns the size of the name of a message; 0 without a name.
///
/// # Errors
/// `EINVAL` for a negative size, before the message is sent or received.
fn name_len(message: &msghdr) -> Result<socklen_t, Errno> {
    if message.msg_name.is_null() {
        return Ok(0);
    }
    i32::try_from(message.msg_namelen)
        .map(|_| message.msg_namelen)
        .map_err(|_| Errno::INVAL)
}

/// Reads the size of a buffer of the program.
///
/// # Errors
/// `EFAULT`, or `EINVAL` for a negative size.
fn space(len: *const socklen_t) -> Result<usize, Errno> {
    memory::check_readable(len.cast(), size_of::<socklen_t>())?;
    // SAFETY: the process can read it.
    let len = unsafe { len.read_unaligned() };
    match i32::try_from(len) {
        Ok(_) => Ok(len as usize),
        Err(_) => Err(Errno::INVAL),
    }
}

/// Writes a value, truncated to the size of the program's buffer, and its full size.
///
/// # Errors
/// As for [`space`]; `EFAULT` if the process cannot write the buffer.
///
/// # Safety
/// The program guarantees that nothing else uses the buffer and its size.
unsafe fn put(value: &[u8], buffer: *mut c_void, len: *mut socklen_t) -> Result<(), Errno> {
    let cut = value.len().min(space(len)?);
    memory::check_writable(buffer, cut)?;
    memory::check_writable(len.cast(), size_of::<socklen_t>())?;
    // SAFETY: as above; the process can write both.
    unsafe {
        data_mut(buffer, cut)?.copy_from_slice(&value[..cut]);
        len.write_unaligned(value.len() as socklen_t);
    }
    Ok(())
}

/// # Safety
/// As for [`put`].
unsafe fn put_address(
    address: Option<SocketAddr>,
    buffer: *mut sockaddr,
    len: *mut socklen_t,
) -> Result<(), Errno> {
    if buffer.is_null() {
        return Ok(());
    }
    let value = address.map(write_address).unwrap_or_default();
    // SAFETY: as above.
    unsafe { put(&value, buffer.cast(), len) }
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
