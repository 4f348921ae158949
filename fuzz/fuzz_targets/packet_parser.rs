//! Arbitrary bytes, parsed as a packet down to the innermost parameter: no panic, every slice within
//! the packet, and the same chunks after encoding and parsing them again.
#![no_main]

#[path = "../../crates/sctp/wire/tests/support/walk.rs"]
mod walk;

use libfuzzer_sys::fuzz_target;
use walk::{Met, walk};

fuzz_target!(|bytes: &[u8]| {
    walk(bytes, &mut Met::default());
});
