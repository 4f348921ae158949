//! Restarts with stored keys, and handovers (draft-ietf-tsvwg-sctp-dtls-chunk, section 5.4).

use std::sync::Arc;

use carrick_dtls_chunk::{DtlsChunk, RestartKeys};
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
            let exported = world.ends[end]
                .export(now)
                .expect("all parts have an export");
            let mut parts = ImportConfig::default();
            parts.protections.push(Arc::clone(offer) as Arc<_>);
            let imported = Endpoint::import(parts, now, exported.as_bytes());
            world.ends[end] = imported.expect("the state that was exported");
        }
    }
    transfer(&mut world, ids, 3);
    world.run(secs(60));
    let epochs = [(CLIENT, ids.0), (SERVER, ids.1)]
        .map(|(end, id)| protection(&mut world.ends[end], id).epoch());
    assert_eq!(epochs[0], epochs[1]);
    transfer(&mut world, ids, 3);
}
