//! The state of an endpoint, in a frame with the right version, length and checksum, is imported. What is accepted
//! runs: timers expire, packets are sent, messages are read, and a packet for it arrives.
//!
//! For any input: no panic, no endless loop, bounded memory; and what was imported can be exported and imported
//! again.
#![no_main]

use std::time::Duration;

use carrick_proto::{Ecn, Endpoint, EndpointConfig, ImportConfig, Route, SendOptions, Time};
use carrick_wire::crc32c;
use libfuzzer_sys::fuzz_target;

/// Length of magic and version, which any export begins with.
const BEGIN: usize = 10;

/// Time of the import.
const NOW: Time = Time::from_millis(3_600_000);

/// Limit of transmits at one moment.
const MAX_TRANSMITS: usize = 10_000;

fn framed(state: &[u8]) -> Vec<u8> {
    let any = Endpoint::new(EndpointConfig::new(5000, Vec::new(), [0; 32]))
        .expect("a valid configuration");
    let export = any.export(NOW).expect("an export");
    let mut bytes = export.as_bytes()[..BEGIN].to_vec();
    bytes.extend((state.len() as u64).to_be_bytes());
    bytes.extend(state);
    let sum = crc32c(&bytes);
    bytes.extend(sum.to_be_bytes());
    bytes
}

fn import(now: Time, bytes: &[u8]) -> Option<Endpoint> {
    Endpoint::import(ImportConfig::default(), now, bytes).ok()
}

fn drain(endpoint: &mut Endpoint, now: Time) -> Option<(Route, Vec<u8>)> {
    let mut last = None;
    let mut transmits = 0;
    let mut buf = Vec::new();
    while let Some(transmit) = endpoint.poll_transmit(now, &mut buf) {
        assert_eq!(transmit.len, buf.len());
        last = Some((transmit.route, std::mem::take(&mut buf)));
        transmits += 1;
        if transmits > MAX_TRANSMITS {
            break;
        }
    }
    while endpoint.poll_event().is_some() {}
    let ids: Vec<_> = endpoint.associations().take(8).collect();
    for id in ids {
        while endpoint.receive(id).is_some() {}
        let _ = endpoint.association(id).map(|a| (a.stats(), a.paths().count()));
    }
    last
}

fuzz_target!(|state: &[u8]| {
    let Some(mut endpoint) = import(NOW, &framed(state)) else {
        return;
    };
    let again = endpoint
        .export(NOW)
        .expect("all controllers are of the crate");
    assert!(
        import(NOW, again.as_bytes()).is_some(),
        "an imported endpoint can be exported"
    );
    let mut now = NOW;
    for step in 0..12 {
        if let Some((route, packet)) = drain(&mut endpoint, now) {
            // Its own packet returns: ports and tags are wrong, addresses may be right.
            let back = Route {
                ecn: Ecn::NotCapable,
                ..route
            };
            endpoint.handle_datagram(now, &back, packet.into());
        }
        let chosen = endpoint.associations().nth(step % 2);
        if let Some(id) = chosen {
            let _ = endpoint.send(now, id, SendOptions::default(), vec![1; 3000].into());
        }
        now = endpoint
            .poll_timeout()
            .unwrap_or(now)
            .max(now + Duration::from_millis(1));
        endpoint.handle_timeout(now);
    }
    drain(&mut endpoint, now);
});
