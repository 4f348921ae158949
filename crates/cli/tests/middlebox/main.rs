//! The middlebox as a program on the kernel's packet filter, in network namespaces that each test creates
//! and removes. In a separate binary, since the tests need root, `ip`, `nft` and `sipp`:
//! `cargo test -p carrick-cli --test middlebox -- --ignored --test-threads 1`.

#![cfg(target_os = "linux")]

mod book;
mod calls;
mod ends;
mod flush;
#[path = "../../../firewall/nftables/tests/support/hosts.rs"]
mod hosts;
mod kernel;
mod kill;
mod load;
mod network;
mod scenarios;
mod second;
mod world;
