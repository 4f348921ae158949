//! Buffers that grow with a transfer, so that the receive window does not limit it.

use crate::common;

use carrick_proto::{AssociationConfig, AssociationId, SendError, SendOptions};
use common::*;

const MESSAGE: usize = 1452;

/// A sender that always has data, with an RTT of 100 ms; the receiver reads at once if `reads`.
/// Returns the bytes that arrived in the tenth second.
fn transfer(
    config: &AssociationConfig,
    reads: bool,
) -> (World, AssociationId, AssociationId, usize) {
    let association = config.clone();
    let mut w = World::with(2, move |_, endpoint| {
        endpoint.local_addresses.truncate(1);
        endpoint.association = association.clone();
    });
    w.latency = ms(50);
    w.discard_log = true;
    w.config = config.clone();
    let (a, b) = w.connect();
    let message = pattern(MESSAGE);
    let start = w.now;
    let mut late = 0;
    while w.now - start < secs(10) {
        loop {
            let sent = w.ends[0].send(w.now, a, SendOptions::default(), message.clone());
            match sent {
                Ok(()) => {}
                Err(SendError::BufferFull) => break,
                Err(error) => panic!("{error}"),
            }
        }
        w.run(ms(5));
        if reads {
            let bytes: usize = w.receive_lengths(1, b).iter().sum();
            if w.now - start > secs(9) {
                late += bytes;
            }
        }
    }
    (w, a, b, late)
}

fn small() -> AssociationConfig {
    AssociationConfig::rfc9260().with(|c| {
        c.buffers.receive_buffer = 64 << 10;
        c.buffers.send_buffer = 64 << 10;
        c.transmission.max_burst = 1000;
    })
}

#[test]
fn buffers_grow_until_the_path_limits() {
    let (_, _, _, fixed) = transfer(&small(), true);
    assert!(fixed < 700_000, "one buffer a round trip: {fixed}");
    let growing = small().with(|c| {
        c.buffers.max_receive_buffer = Some(4 << 20);
        c.buffers.max_send_buffer = Some(8 << 20);
    });
    let (w, a, b, late) = transfer(&growing, true);
    // Nothing is lost, so that cwnd grows until the largest receive buffer is in use.
    assert!(late > 20 << 20, "{late}");
    assert!(w.stats(0, a).send_buffer_bytes <= 8 << 20);
    assert!(w.stats(1, b).a_rwnd <= 4 << 20);
}

#[test]
fn one_fixed_buffer_limits_the_transfer() {
    let receive = small().with(|c| c.buffers.max_receive_buffer = Some(4 << 20));
    let send = small().with(|c| c.buffers.max_send_buffer = Some(8 << 20));
    for config in [receive, send] {
        let (_, _, _, late) = transfer(&config, true);
        assert!(late < 1_400_000, "{late}");
    }
}

#[test]
fn an_unread_receive_buffer_does_not_grow() {
    let growing = small().with(|c| {
        c.buffers.max_receive_buffer = Some(4 << 20);
        c.buffers.max_send_buffer = Some(8 << 20);
    });
    let (w, _, b, _) = transfer(&growing, false);
    let held = w.stats(1, b).receive_buffer_bytes;
    assert!((32 << 10..=66 << 10).contains(&held), "{held}");
}
