//! The packet filter with real packets, between three network namespaces that each test creates and
//! removes: inside - firewall - outside.
//!
//! They need root, and `ip` and `nft`: `cargo test -p carrick-nftables --test filter -- --ignored`.

#![cfg(target_os = "linux")]

mod flows;
mod foreign_changes;
#[path = "../support/hosts.rs"]
mod hosts;
mod layout;
mod network;
mod older_kernels;
mod patterns;
mod restart;
mod translation;
