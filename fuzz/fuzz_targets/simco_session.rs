//! A SIMCO middlebox and agents that the input steers: no panic, every limit kept, every message
//! readable, and in the end no rule and no element of the packet filter is left.
#![no_main]

#[path = "../../crates/carrick-simco/tests/support/session.rs"]
mod session;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    session::run(bytes);
});
