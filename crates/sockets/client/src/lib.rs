//! SCTP sockets of a program that the Carrick daemon serves, as the socket functions of libc.
//!
//! A descriptor of Carrick is one end of a socket pair whose other end the daemon has, so that `poll`, `epoll`, `dup`,
//! `fork`, `exec` and `close` work in the kernel alone; this crate translates messages to frames and the other calls to
//! requests (`carrick_ipc`). Calls on other descriptors pass to the next function of that name.
//!
//! The crate's own calls are raw system calls (rustix), which do not return to functions that a preload library
//! replaces. Blocking calls block in the kernel on the descriptor, with `O_NONBLOCK`, `SO_RCVTIMEO`, `SO_SNDTIMEO`,
//! signals and `SA_RESTART` as on any socket.
//!
//! `CARRICK_DAEMON` has the path of the daemon's control socket. `CARRICK_SOCKETS` selects which SCTP
//! sockets are Carrick's: `always` (default), `missing` (those that the kernel does not support) or
//! `never`.
#![cfg(target_os = "linux")]
#![deny(unsafe_op_in_unsafe_fn)]

mod calls;
mod client;
mod ends;
mod functions;
mod lock;
mod memory;
mod next;
pub mod proxy;
mod receive;
mod send;
mod system_calls;
mod table;

pub use functions::*;
pub use system_calls::syscall;
pub use table::remember_other_descriptors;
