//! Three endpoints with sessions below SCTP, and a network, driven by the input: arbitrary bytes to
//! established, half-open and missing sessions; lost, duplicated and changed datagrams; peers that
//! reconnect; hosts that never complete a handshake.
//!
//! For any input: no panic, no endless loop, bounded memory, no more sessions than allowed, every
//! association over an existing session, and in the end no unused session is left.
#![no_main]

#[path = "../two_endpoints/input.rs"]
mod input;
#[path = "../two_endpoints/memory.rs"]
mod memory;
#[path = "../../../crates/sctp/proto/tests/support/sessions.rs"]
mod toy;
mod world;

use input::Input;
use libfuzzer_sys::fuzz_target;
use world::World;

/// Maximum memory of the world in bytes.
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
