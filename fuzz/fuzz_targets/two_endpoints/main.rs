//! Two multi-homed endpoints and a network, driven by the input: operations of the users, the passing of
//! time, packets that are lost, duplicated, delayed or changed, and forged ones. The input also selects the
//! extensions and policies of each side.
//!
//! Whatever happens: no panic, no endless loop, bounded memory, and every packet that leaves is one
//! that can be read. As long as no packet was changed or forged, users get what was sent: each
//! message once, whole, in the order of its stream; and when the network works again, everything
//! that was not given up arrives and every association is established or gone.
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

/// Bytes that all of it may occupy: both endpoints' buffers several times over.
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
