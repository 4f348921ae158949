//! Arbitrary bytes, parsed as SIMCO messages of both sides and as a byte stream: no panic, and a parsed
//! message is the same after encoding and parsing it again.
#![no_main]

#[path = "../../crates/firewall/simco/tests/support/messages.rs"]
mod messages;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| messages::read(bytes));
