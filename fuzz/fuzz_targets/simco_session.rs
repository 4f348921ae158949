//! SIMCO middlebox and agents, driven by the input: no panic, no limit exceeded, every message can be
//! parsed, and in the end no rule and no element of the packet filter is left.
#![no_main]

#[path = "../../crates/firewall/simco/tests/support/session.rs"]
mod session;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    session::run(bytes);
});
