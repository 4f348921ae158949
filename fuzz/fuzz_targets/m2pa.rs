//! Arbitrary octets as M2PA messages to a link: no panic, a decoded message is the same after encoding and decoding it
//! again, and every output can be encoded.
#![no_main]

#[path = "../../crates/signaling/sigtran/tests/support/link.rs"]
mod link;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| link::run(octets));
