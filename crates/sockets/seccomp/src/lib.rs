//! Supervision of a program whose SCTP sockets are Carrick's, by seccomp user notification: for programs that
//! load no preload library, because they are statically linked or make system calls without libc.
//!
//! A filter (`filter`) stops a thread of the program where it creates an SCTP socket, and with each
//! call on a descriptor of a reserved range. The supervisor gets a notification, performs the call with the functions
//! of `carrick_client` on a duplicate of the descriptor, copies buffers from and to the program's
//! memory, and replies the result. New descriptors are added to the program at numbers of the range. They are real
//! ones: `poll`, `epoll`, `close`, `fork` and `exec` are the kernel's, and nothing has to be recorded for them.
//!
//! Calls that wait are parked (`waiting`), so that each notification is replied to or parked at once. The kernel lets only
//! a fatal signal end a call whose notification was received, so that none takes or sends a message twice; the
//! supervisor ends a parked call itself when a signal is pending.
//!
//! Children inherit the filter and its supervisor, and so do programs that they execute.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod calls;
mod filter;
mod kernel;
mod memory;
mod range;
mod supervisor;
mod waiting;

pub use kernel::Unsupported;
pub use supervisor::{Supervised, spawn};
