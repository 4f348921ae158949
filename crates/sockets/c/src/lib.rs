//! C libraries of Carrick.
//!
//! `libsctp.so.1` has the functions of RFC 6458, section 9, with the names and versions of lksctp-tools'
//! library of that name, for systems without it. They are made of `getsockopt`, `setsockopt`, `sendmsg`
//! and `recvmsg`, so that they work with the kernel's sockets and below the preload library.
//!
//! `libcarrick.so.0` has the socket functions of libc and those of RFC 6458 with the prefix `carrick_`, for
//! programs that use Carrick without a preload library.
#![cfg(target_os = "linux")]
#![deny(unsafe_op_in_unsafe_fn)]

mod exports;
mod functions;
mod libcarrick;
mod libsctp;
