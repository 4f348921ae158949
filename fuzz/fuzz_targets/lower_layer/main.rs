//! Three endpoints with sessions below SCTP, and a network that the input steers: arbitrary bytes to
//! sessions that stand, that are half open, or that there are none of; datagrams that are lost,
//! doubled and changed; peers that reconnect; strangers that never complete a handshake.
//!
//! Whatever happens: no panic, no endless loop, bounded memory, no more sessions than allowed, every
//! association over a session that exists, and in the end nothing is left.
#![no_main]

#[path = "../two_endpoints/input.rs"]
mod input;
#[path = "../two_endpoints/memory.rs"]
mod memory;
#[path = "../../../crates/carrick-proto/tests/support/sessions.rs"]
mod toy;
mod world;

use input::Input;
use libfuzzer_sys::fuzz_target;
use world::World;

/// Bytes that all of it may occupy.
const MEMORY: usize = 16 << 20;

fuzz_target!(|bytes: &[u8]| {
    let before = memory::in_use();
    let mut input = Input::new(bytes);
    let mut world = World::new();
    while !input.is_empty() {
        world.step(&mut input);
        let used = memory::in_use().saturating_sub(before);
        assert!(used < MEMORY, "{used} bytes in use");
    }
    world.settle();
});
