//! Functions of `libsctp.so.1`. `link/connectx.S` gives the three versions of `sctp_connectx` their name.
#![allow(clippy::missing_safety_doc, unreachable_pub)]

use std::ffi::{c_int, c_uint, c_void};

use carrick_sockets::linux::{
    SCTP_GET_LOCAL_ADDRS, SCTP_GET_PEER_ADDRS, SCTP_SOCKOPT_CONNECTX, SCTP_SOCKOPT_CONNECTX_OLD,
    SndRcvInfo,
};
use libc::{iovec, msghdr, sockaddr, socklen_t, ssize_t};

use crate::functions::{self, SocketCalls};

/// The functions of libc, or those of the preload library in their place.
struct Libc;

impl SocketCalls for Libc {
    unsafe fn getsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> c_int {
        // SAFETY: as the caller guarantees.
        unsafe { libc::getsockopt(fd, level, name, value, len) }
    }

    unsafe fn setsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        len: socklen_t,
    ) -> c_int {
        // SAFETY: as the caller guarantees.
        unsafe { libc::setsockopt(fd, level, name, value, len) }
    }

    unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: as the caller guarantees.
        unsafe { libc::sendmsg(fd, message, flags) }
    }

    unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        // SAFETY: as the caller guarantees.
        unsafe { libc::recvmsg(fd, message, flags) }
    }
}

crate::exports::export_functions!(Libc, "sctp_");

/// `sctp_connectx@VERS_1`: returns no association identifier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libsctp_connectx_1(
    fd: c_int,
    addresses: *mut sockaddr,
    count: c_int,
) -> c_int {
    let name = SCTP_SOCKOPT_CONNECTX_OLD;
    // SAFETY: the arguments are the program's.
    unsafe { functions::connectx_by_setting::<Libc>(fd, addresses, count, name) }
}

/// `sctp_connectx` of version `VERS_2`: without the identifier of a set-up that has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libsctp_connectx_2(
    fd: c_int,
    addresses: *mut sockaddr,
    count: c_int,
    association: *mut i32,
) -> c_int {
    let name = SCTP_SOCKOPT_CONNECTX;
    // SAFETY: the arguments are the program's.
    unsafe {
        let found = functions::connectx_by_setting::<Libc>(fd, addresses, count, name);
        if !association.is_null() {
            *association = found.max(0);
        }
        found.min(0)
    }
}

/// `sctp_connectx` of version `VERS_3`, the one of new programs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libsctp_connectx_3(
    fd: c_int,
    addresses: *mut sockaddr,
    count: c_int,
    association: *mut i32,
) -> c_int {
    // SAFETY: the arguments are the program's.
    unsafe { functions::connectx::<Libc>(fd, addresses, count, association) }
}
