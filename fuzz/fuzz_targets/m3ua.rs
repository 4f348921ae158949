//! Arbitrary octets as M3UA messages to an ASP and an SGP: no panic, a decoded message is the same after encoding
//! and decoding it again, and every answer can be encoded.
#![no_main]

#[path = "../../crates/signaling/sigtran/tests/support/machines.rs"]
mod machines;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| machines::run(octets));
