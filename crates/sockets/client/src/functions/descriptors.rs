//! Descriptors: closing, duplication and commands.

use std::ffi::{c_int, c_uint, c_ulong, c_void};

use carrick_ipc::Property;
use rustix::io::Errno;

use super::{borrow, is_listener, number};
use crate::{calls, memory, next, table};

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
    number(unread.and_then(|unread| {
        memory::check_writable(argument, size_of::<c_int>())?;
        // SAFETY: the argument of FIONREAD is the address of an integer of the program's, which can be written.
        unsafe { argument.cast::<c_int>().write_unaligned(unread as c_int) };
        Ok(0)
    }))
}
