//! Pinholes and address translation in the Linux kernel, for SIMCO middleboxes: a
//! [`carrick_simco::backend::Backend`] on `nf_tables`, over netlink and without the program `nft`.
//!
//! What a middlebox grants for one flow is an element of a hash set, so that adding, finding and
//! removing it cost the same with one rule and with a hundred thousand. Wildcards and prohibits are
//! rules of their own. Nothing is let pass because a connection is established: when a rule ends, its
//! next packet is dropped. `docs/decisions/nftables.md` has the reasons.
//!
//! Linux 5.7 or later; `CAP_NET_ADMIN` in the network namespace.

#![cfg(target_os = "linux")]

mod abi;
mod attribute;
mod backend;
mod config;
mod entry;
mod error;
mod expression;
mod held;
mod layout;
mod lock;
mod make;
mod meter;
mod patterns;
mod socket;
mod table;

pub use backend::NftablesBackend;
pub use config::{NftablesConfig, Policy};
pub use error::NftablesError;
