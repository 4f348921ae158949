//! Arbitrary octets as messages of SUA, M2UA and IUA, selected by the first octet, to an ASP and a gateway of the layer in
//! each state: no panic, bounded outputs, a decoded message is the same after encoding and decoding it again, and every
//! answer can be encoded.
#![no_main]

#[path = "../../crates/signaling/sigtran/tests/support/layers.rs"]
mod layers;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| layers::run(octets));
