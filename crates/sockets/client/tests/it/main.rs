//! The functions of the crate beside those of libc, with a daemon of the test behind each descriptor.
//!
//! Calls that fail by their arguments fail as those of the kernel: the same call on a pair of local sockets shows how.
#![cfg(target_os = "linux")]
// Some fields of `msghdr` and constants have another width with musl.
#![allow(clippy::unnecessary_cast)]

mod arguments;
mod descriptors;
mod fake_daemon;
mod memory;
mod receiving;
mod sending;
mod sockets;
mod support;
mod threads;
