//! Pinholes and address translation in the Linux kernel for SIMCO middleboxes: a
//! [`carrick_simco::backend::Backend`] on `nf_tables`, over netlink and without the program `nft`.
//!
//! A granted flow is an element of a hash set, so the cost of adding, finding and removing it does not
//! depend on the number of rules. Wildcards and prohibits are rules of their own. Established
//! connections are not accepted as such: when a rule ends, the next packet is dropped.
//! `docs/decisions/nftables.md` has the reasons.
//!
//! Linux 5.7 or later; `CAP_NET_ADMIN` in the network namespace.

#![cfg(target_os = "linux")]

mod abi;
mod attribute;
mod backend;
mod config;
mod created_table;
mod entry;
mod error;
mod expression;
mod flow_elements;
mod layout;
mod lock;
mod meter;
mod patterns;
mod socket;
mod table;

pub use backend::NftablesBackend;
pub use config::{NftablesConfig, Policy};
pub use error::NftablesError;
