//! Messages one way, as fast as they go, and set-ups. `carrick bench` includes this folder, too.

use std::sync::Arc;

use bytes::Bytes;
use carrick_proto::{AssociationConfig, AssociationId, SendOptions};

use super::support::Memory;

/// Sets an association up and aborts it.
pub(crate) fn set_up_and_abort(memory: &mut Memory, config: &Arc<AssociationConfig>) {
    let (a, _) = memory.connect(config);
    memory.ends[0].abort(memory.now, a, b"").expect("open");
    memory.exchange();
    while memory.ends[0].poll_event().is_some() || memory.ends[1].poll_event().is_some() {}
}

/// Passes `count` messages from one end to the other, 50 microseconds a round.
pub(crate) fn transfer(
    memory: &mut Memory,
    a: AssociationId,
    b: AssociationId,
    message: &Bytes,
    count: usize,
) {
    let mut sent = 0;
    let mut received = 0;
    while received < count {
        while sent < count
            && memory.ends[0]
                .send(memory.now, a, SendOptions::default(), message.clone())
                .is_ok()
        {
            sent += 1;
        }
        memory.exchange();
        while let Some(message) = memory.ends[1].receive(b) {
            std::hint::black_box(message);
            received += 1;
        }
        memory.now += std::time::Duration::from_micros(50);
        // Nothing waits for a SACK that is delayed.
        if let Some(at) = memory.ends[1].poll_timeout().filter(|at| *at <= memory.now) {
            memory.ends[1].handle_timeout(at);
        }
        while memory.ends[0].poll_event().is_some() || memory.ends[1].poll_event().is_some() {}
    }
}
