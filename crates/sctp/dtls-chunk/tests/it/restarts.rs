//! Restarts with stored keys, and handovers (draft-ietf-tsvwg-sctp-dtls-chunk, section 5.4).

use std::sync::Arc;

use carrick_dtls_chunk::{DtlsChunk, DtlsChunkConfig, KeySource, RestartKeys, Trust};
use carrick_proto::{Endpoint, EndpointConfig, Event, ImportConfig};

use crate::common::{World, addresses, port, secs};
use crate::support::{CLIENT, DTLS, SERVER, fingerprints, protection, transfer, world};

/// Replaces the client by one that has lost its state.
fn lose_client(world: &mut World, offer: &Arc<DtlsChunk>, seed: u8) {
    let mut config = EndpointConfig::new(port(CLIENT), addresses(CLIENT).to_vec(), [seed; 32]);
    config.association = world.config.clone();
    config.association.security.protection = Some(Arc::clone(offer) as Arc<_>);
    world.config = config.association.clone();
    world.ends[CLIENT] = Endpoint::new(config).expect("a valid configuration");
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.4, and draft-porfiri-tsvwg-sctp-dtls-handshake, section 6.3
#[test]
fn a_restart_with_stored_keys_is_protected() {
    let configs = fingerprints();
    let [client, server] = configs
        .clone()
        .map(|c| Arc::new(DtlsChunk::new(c).unwrap()));
    let mut world = world(&[Some(client), Some(server)]);
    let mut ids = world.connect();
    for seed in 50..53 {
        transfer(&mut world, ids, 5);
        let stored = protection(&mut world.ends[CLIENT], ids.0)
            .restart_keys()
            .expect("unused");
        let stored = stored.to_bytes();
        // A crash. The client comes again with the keys of its storage.
        let again = Arc::new(DtlsChunk::new(configs[CLIENT].clone()).unwrap());
        again.restart_with(RestartKeys::from_bytes(&stored).unwrap());
        lose_client(&mut world, &again, seed);
        world.events(SERVER);
        world.log.clear();
        ids.0 = world.begin_connect(&addresses(SERVER));
        world.run(secs(3));
        assert_eq!(world.events(SERVER)[0], Event::Restarted);
        let cookie_echo = world
            .log
            .iter()
            .find(|seen| seen.has(DTLS))
            .expect("a record");
        assert_eq!(cookie_echo.flags(DTLS), 1, "the R bit");
        transfer(&mut world, ids, 5);
        // New keys follow, of the first epoch, and further ones for a restart.
        for (end, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
            let protection = protection(&mut world.ends[end], id);
            assert_eq!(protection.epoch(), Some(3));
            assert!(protection.restart_keys().is_some());
        }
    }
}

#[test]
fn a_restart_without_keys_leaves_the_association() {
    let configs = fingerprints();
    let [client, server] = configs
        .clone()
        .map(|c| Arc::new(DtlsChunk::new(c).unwrap()));
    let mut world = world(&[Some(client), Some(server)]);
    let ids = world.connect();
    transfer(&mut world, ids, 5);
    let again = Arc::new(DtlsChunk::new(configs[CLIENT].clone()).unwrap());
    lose_client(&mut world, &again, 9);
    world.run(secs(1));
    world.events(SERVER);
    let before = world.stats(SERVER, ids.1).counters;
    world.begin_connect(&addresses(SERVER));
    world.run(secs(5));
    let events = world.events(SERVER);
    assert!(!events.contains(&Event::Restarted), "{events:?}");
    let after = world.stats(SERVER, ids.1).counters;
    assert_eq!(before.data_chunks_received, after.data_chunks_received);
}

#[test]
fn damaged_restart_keys_are_refused() {
    let configs = fingerprints();
    let [client, server] = configs.map(|c| Arc::new(DtlsChunk::new(c).unwrap()));
    let mut world = world(&[Some(client), Some(server)]);
    let ids = world.connect();
    let stored = protection(&mut world.ends[CLIENT], ids.0)
        .restart_keys()
        .unwrap()
        .to_bytes();
    for at in 0..stored.len() {
        let mut damaged = stored.clone();
        damaged[at] ^= 1;
        assert!(RestartKeys::from_bytes(&damaged).is_err());
        assert!(RestartKeys::from_bytes(&stored[..at]).is_err());
    }
}

/// Replaces an endpoint by its successor.
fn hand_over(world: &mut World, end: usize, offer: &Arc<DtlsChunk>) {
    let now = world.now;
    let exported = world.ends[end]
        .export(now)
        .expect("all parts have an export");
    let mut parts = ImportConfig::default();
    parts.protections.push(Arc::clone(offer) as Arc<_>);
    let imported = Endpoint::import(parts, now, exported.as_bytes());
    world.ends[end] = imported.expect("the state that was exported");
}

/// Key contexts travel with a handover; a handshake in progress is repeated.
#[test]
fn a_handover_takes_the_keys_along() {
    let configs = fingerprints();
    let offers = configs.map(|c| Arc::new(DtlsChunk::new(c).unwrap()));
    let [client, server] = offers.clone();
    let mut world = world(&[Some(client), Some(server)]);
    let ids = world.connect();
    for round in 0..10 {
        transfer(&mut world, ids, 3);
        let now = world.now;
        if round % 2 == 1 {
            protection(&mut world.ends[SERVER], ids.1).rekey(now);
        }
        for (end, offer) in offers.iter().enumerate() {
            hand_over(&mut world, end, offer);
        }
    }
    transfer(&mut world, ids, 3);
    world.run(secs(60));
    let epochs = [(CLIENT, ids.0), (SERVER, ids.1)]
        .map(|(end, id)| protection(&mut world.ends[end], id).epoch());
    assert_eq!(epochs[0], epochs[1]);
    transfer(&mut world, ids, 3);
}

/// A handover between the last message of the client of TLS and the confirmation by the server.
#[test]
fn a_handover_keeps_unconfirmed_keys() {
    let offers = fingerprints().map(|c| Arc::new(DtlsChunk::new(c).unwrap()));
    let [client, server] = offers.clone();
    let mut world = world(&[Some(client), Some(server)]);
    let ids = world.connect();
    world.run(secs(5));
    let now = world.now;
    assert!(protection(&mut world.ends[CLIENT], ids.0).rekey(now));
    world.send(CLIENT, ids.0, 0, vec![1; 10]);
    let changed = world.run_until(secs(1), |w| {
        protection(&mut w.ends[SERVER], ids.1).epoch() == Some(4)
    });
    assert!(changed);
    assert_eq!(protection(&mut world.ends[CLIENT], ids.0).epoch(), Some(3));
    hand_over(&mut world, CLIENT, &offers[CLIENT]);
    world.run(secs(1));
    assert_eq!(protection(&mut world.ends[CLIENT], ids.0).epoch(), Some(4));
    assert_eq!(world.receive_lengths(SERVER, ids.1), [10]);
    transfer(&mut world, ids, 3);
    world.run(secs(400));
    transfer(&mut world, ids, 3);
}

/// draft-porfiri-tsvwg-sctp-dtls-handshake, section 3.3: a trusted peer may not become another trusted peer.
#[test]
fn another_identity_is_refused_later() {
    let [client, server] = fingerprints();
    let [_, other] = fingerprints();
    let fingerprint = |config: &DtlsChunkConfig| match &config.keys {
        KeySource::Tls { identity, .. } => identity.fingerprint(),
        _ => unreachable!("TLS"),
    };
    let identity = |config: &DtlsChunkConfig, trust: Trust| match &config.keys {
        KeySource::Tls { identity, .. } => DtlsChunkConfig::tls(identity.clone(), trust),
        _ => unreachable!("TLS"),
    };
    let both = Trust::Fingerprints(vec![fingerprint(&server), fingerprint(&other)]);
    let of_client = Trust::fingerprint(fingerprint(&client));
    let mut configs = [
        identity(&client, both),
        identity(&server, of_client.clone()),
        identity(&other, of_client),
    ];
    for config in &mut configs {
        config.rekey_after = secs(60);
    }
    let [client, server, other] = configs.map(|c| Arc::new(DtlsChunk::new(c).unwrap()));
    let mut world = world(&[Some(client), Some(server)]);
    let ids = world.connect();
    transfer(&mut world, ids, 3);
    hand_over(&mut world, SERVER, &other);
    world.events(CLIENT);
    world.run(secs(90));
    transfer(&mut world, ids, 3);
    assert_eq!(protection(&mut world.ends[CLIENT], ids.0).epoch(), Some(3));
    world.run(secs(60));
    let events = world.events(CLIENT);
    let Some(Event::Closed(reason)) = events.last() else {
        panic!("{events:?}");
    };
    let text = reason.to_string();
    assert!(
        text.contains("no new keys were agreed on within 120s"),
        "{text}"
    );
}
