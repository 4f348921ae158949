//! Two multi-homed endpoints and a network, driven by the input: operations of the users, the passing of
//! time, packets that are lost, duplicated, delayed or changed, and forged ones. The input also selects the
//! extensions and policies of each side.
//!
//! For any input: no panic, no endless loop, bounded memory, and every sent packet can be parsed. As long
//! as no packet was changed or forged, users receive each message once, complete, in the order of its
//! stream; and when the network works again, every message that was not abandoned arrives, and every
//! association is established or closed.
#![no_main]

mod input;
mod memory;
mod messages;
mod network;
mod operations;
mod protection;
mod settings;
mod settle;
mod tamper;

use input::Input;
use libfuzzer_sys::fuzz_target;
use network::Network;

/// Maximum memory of the world in bytes: several times the buffers of both endpoints.
const MEMORY: usize = 24 << 20;

fuzz_target!(|bytes: &[u8]| {
    let before = memory::in_use();
    let mut input = Input::new(bytes);
    let mut network = Network::new(&mut input);
    while !input.is_empty() {
        network.step(&mut input);
        let used = memory::in_use().saturating_sub(before);
        assert!(used < MEMORY, "{used} bytes in use");
    }
    network.settle();
});
