//! Associations with the DTLS chunk in virtual time.

#![allow(missing_docs)]

#[allow(
    dead_code,
    unused_imports,
    reason = "the tests of the core use more of it"
)]
#[path = "../../../proto/tests/it/common/mod.rs"]
mod common;

mod attacks;
mod handshakes;
mod restarts;
mod support;
