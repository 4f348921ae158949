//! Preload library that carries the SCTP sockets of unmodified programs to the Carrick daemon: it replaces the
//! functions of libc for sockets by those of `carrick_client`, which forward calls on other descriptors.
#![cfg(target_os = "linux")]
#![deny(unsafe_op_in_unsafe_fn)]

mod exec;
// The daemon of the client's tests.
#[cfg(test)]
#[path = "../../client/tests/it/fake_daemon.rs"]
mod fake_daemon;
mod hooks;
#[cfg(test)]
mod tests;
