//! Numbers and memory layouts of Linux's SCTP (`linux/sctp.h`, user API), for 64-bit systems.
//!
//! Integers have the byte order of the host, except those of socket addresses and of error causes,
//! which have network byte order.

mod address;
mod constants;
mod layout;
mod option_input;
mod structs;

pub(crate) use address::unmapped;
pub use address::{
    SOCKADDR_IN, SOCKADDR_IN6, SOCKADDR_STORAGE, Storage, read_address, read_addresses,
    write_address,
};
pub use constants::*;
pub use layout::{Field, Layout};
pub use option_input::OptionInput;
pub use structs::*;

use std::time::Duration;

/// Returns a duration in milliseconds, as options have it.
pub(crate) fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
