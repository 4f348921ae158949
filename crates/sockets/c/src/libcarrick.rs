//! Functions of `libcarrick.so`: the socket functions of libc with the prefix `carrick_`, and those of RFC 6458,
//! section 9, with the prefix `carrick_sctp_`. The header is `include/carrick.h`.
#![allow(clippy::missing_safety_doc, unreachable_pub)]

use std::ffi::{c_int, c_uint, c_ulong, c_void};

use carrick_sockets::linux::{SCTP_GET_LOCAL_ADDRS, SCTP_GET_PEER_ADDRS, SndRcvInfo};
use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

use crate::functions::{self, SocketCalls};

/// The functions of `carrick_client`.
struct Carrick;

impl SocketCalls for Carrick {
    unsafe fn getsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> c_int {
        // SAFETY: as the caller guarantees.
        unsafe { carrick_client::getsockopt(fd, level, name, value, len) }
    }

    unsafe fn setsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        len: socklen_t,
    ) -> c_int {
        // SAFETY: as the caller guarantees.
        unsafe { carrick_client::setsockopt(fd, level, name, value, len) }
    }

    unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: as the caller guarantees.
        unsafe { carrick_client::sendmsg(fd, message, flags) }
    }

    unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        // SAFETY: as the caller guarantees.
        unsafe { carrick_client::recvmsg(fd, message, flags) }
    }
}

/// Defines functions of libc with the prefix `carrick_`.
macro_rules! prefixed {
    ($($name:ident($($arg:ident: $kind:ty),* $(,)?) -> $result:ty;)*) => {
        /// The functions of libc.
        mod calls {
            use super::*;

            $(
                #[unsafe(export_name = concat!("carrick_", stringify!($name)))]
                pub unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
                    // SAFETY: the arguments are the program's.
                    unsafe { carrick_client::$name($($arg),*) }
                }
            )*
        }
    };
}

prefixed! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int;
    accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    close(fd: c_int) -> c_int;
    ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int;
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t;
    readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t;
    recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    recvfrom(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, address_len: *mut socklen_t) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t;
    writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t;
    send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, address_len: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
}

crate::exports::export_functions!(Carrick, "carrick_sctp_");

#[unsafe(export_name = "carrick_sctp_connectx")]
pub unsafe extern "C" fn connectx(
    fd: c_int,
    addresses: *mut sockaddr,
    count: c_int,
    association: *mut i32,
) -> c_int {
    // SAFETY: the arguments are the program's.
    unsafe { functions::connectx::<Carrick>(fd, addresses, count, association) }
}
