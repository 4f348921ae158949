//! Any bytes at all, read as a packet to the innermost parameter: no panic, every slice within
//! the packet, and the same chunks when they are written and read again.
#![no_main]

#[path = "../../crates/carrick-wire/tests/support/walk.rs"]
mod walk;

use libfuzzer_sys::fuzz_target;
use walk::{Met, walk};

fuzz_target!(|bytes: &[u8]| {
    walk(bytes, &mut Met::default());
});
