//! Any bytes at all, read as SIMCO messages of both sides and as a byte stream: no panic, and what
//! can be read is written and read the same again.
#![no_main]

#[path = "../../crates/carrick-simco/tests/support/messages.rs"]
mod messages;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| messages::read(bytes));
