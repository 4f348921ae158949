//! Sockets: creation, set-up of associations, addresses and options.

use std::ffi::{c_char, c_int, c_void};

use carrick_ipc::Request;
use carrick_sockets::linux::OptionInput;
use libc::{sockaddr, socklen_t};
use rustix::io::Errno;

use super::{address_bytes, borrow, bytes, number, put, put_address, space};
use crate::calls::{self, MAX_VALUE, SocketSelection};
use crate::{client, next, table};

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

/// Changes the root directory. The connection to the daemon is opened before, since the control socket may be out of reach
/// afterwards.
///
/// # Safety
/// As for `chroot` of libc.
pub unsafe fn chroot(path: *const c_char) -> c_int {
    if calls::choice() != SocketSelection::Never {
        client::open_ahead();
    }
    // SAFETY: the argument is the program's.
    unsafe { next::chroot(path) }
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
    let address = unsafe { address_bytes(address, len) };
    let bound = address.and_then(|address| calls::call(borrow(fd), &Request::Bind { address }));
    number(bound.map(|_| 0))
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
            // SAFETY: the arguments are the program's.
            if let Err(error) = unsafe { put_address(peer, address, len) } {
                // As in the kernel, the association is lost.
                // SAFETY: the program does not know the number.
                unsafe { super::close(accepted) };
                return number(Err(error));
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
    let address = unsafe { address_bytes(address, len) };
    let done = address.and_then(|address| calls::connect(borrow(fd), address).1);
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
    let written = answer.and_then(|answer| unsafe { put(&answer.value, address.cast(), len) });
    number(written.map(|()| 0))
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
    let written = answer.and_then(|answer| unsafe { put(&answer.value, address.cast(), len) });
    number(written.map(|()| 0))
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
    let size = match space(len) {
        Ok(size) => size.min(MAX_VALUE),
        Err(error) => return number(Err(error)),
    };
    let given = size.min(OptionInput::of(level, name).end());
    // SAFETY: the arguments are the program's.
    let given = unsafe { bytes(value, given) };
    let found = given.and_then(|given| calls::get_option(borrow(fd), (level, name), given, size));
    number(found.and_then(|(found, done)| {
        // SAFETY: the arguments are the program's.
        if let Err(error) = unsafe { put(&found, value, len) } {
            if let (true, Ok(branched)) = (calls::is_branching(level, name), done) {
                // As in the kernel, the association is lost.
                // SAFETY: the program does not know the number.
                unsafe { super::close(branched) };
            }
            return Err(error);
        }
        done
    }))
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
    if i32::try_from(len).is_err() {
        return number(Err(Errno::INVAL));
    }
    // Longer values are refused, if they are those of the program.
    let size = (len as usize).min(MAX_VALUE + 1);
    // SAFETY: the arguments are the program's.
    let value = unsafe { bytes(value, size) };
    number(value.and_then(|value| calls::set_option(borrow(fd), level, name, value)))
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
