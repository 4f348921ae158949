//! The middlebox as a program on the kernel's packet filter, in network namespaces that each test makes
//! and removes. They need root, `ip`, `nft` and `sipp`:
//! `cargo test -p carrick-cli --test middlebox -- --ignored --test-threads 1`.

#![cfg(target_os = "linux")]

mod calls;
mod ends;
#[path = "../../../carrick-nftables/tests/support/hosts.rs"]
mod hosts;
mod kill;
mod network;
