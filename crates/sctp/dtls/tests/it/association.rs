//! Associations over DTLS (RFC 8261) without misbehaving peers.

use std::time::Duration;

use crate::common::{
    CLIENT, DatagramAction, PORT, SERVER, World, address, association, certificate, expecting,
    fingerprint, message,
};
use bytes::Bytes;
use carrick_dtls::{Certificate, DtlsConfig, OVERHEAD, Trust, Versions};
use carrick_proto::sessions::{SessionConnectError, SessionEvent, SessionState};
use carrick_proto::{CloseReason, ConnectError, Event, PathMtuState, Route};
use carrick_wire::{Chunk, Packet, ParameterType};

const VERSIONS: [Versions; 3] = [Versions::Both, Versions::Dtls12, Versions::Dtls13];

/// RFC 8261, section 3
#[test]
fn each_version_carries_messages_in_both_directions() {
    for versions in VERSIONS {
        let mut world = World::with(versions);
        let ids = world.establish();
        world.transfer(CLIENT, ids, 100);
        world.transfer(SERVER, ids, 100);
        assert_eq!(
            world.nodes[CLIENT].layer.stats().held_back,
            1,
            "one INIT, before the session"
        );
        for node in [CLIENT, SERVER] {
            let id = world.nodes[node].layer.sessions().next().unwrap();
            let proved = world.nodes[node].layer.identity(id);
            assert_eq!(proved, Some(&fingerprint(1 - node).0[..]), "{versions:?}");
            assert_eq!(world.nodes[node].layer.remote(id), Some(address(1 - node)));
        }
        world.nodes[CLIENT].core.shutdown(world.now, ids.0).unwrap();
        world.run(Duration::from_secs(5));
        for (node, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
            assert_eq!(world.nodes[node].closed(id), Some(&CloseReason::Shutdown));
        }
    }
}

/// RFC 9653
#[test]
fn the_checksum_is_omitted_if_both_agree() {
    let offering = |node| {
        let mut offers = association();
        offers.extensions.zero_checksum = node;
        offers
    };
    for (client, server) in [(true, true), (true, false), (false, true)] {
        let mut world = World::with_associations([offering(client), offering(server)]);
        let ids = world.establish();
        world.transfer(CLIENT, ids, 20);
        world.transfer(SERVER, ids, 20);
        for (node, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
            let stats = world.nodes[node].core.association(id).unwrap().stats();
            assert_eq!(stats.extensions.zero_checksum, client && server);
        }
    }
}

#[test]
fn both_versions_accept_a_single_version_peer() {
    for versions in [Versions::Dtls12, Versions::Dtls13] {
        for limited in [CLIENT, SERVER] {
            let mut world = World::of(|node| DtlsConfig {
                versions: if node == limited {
                    versions
                } else {
                    Versions::Both
                },
                ..DtlsConfig::new(certificate(node), expecting(1 - node))
            });
            let ids = world.establish();
            world.transfer(CLIENT, ids, 10);
        }
    }
}

/// RFC 8261, section 6.1
#[test]
fn sctp_is_sent_only_in_records_of_a_session() {
    for versions in VERSIONS {
        let mut world = World::with(versions);
        let ids = world.establish();
        world.transfer(CLIENT, ids, 50);
        let text = b"of the association";
        let header = [PORT.to_be_bytes(), PORT.to_be_bytes()].concat();
        let mut headers = 0;
        for seen in &world.log {
            let found = seen.bytes.windows(text.len()).any(|w| w == text);
            assert!(!found, "user data in the clear");
            // Neither handshake records nor protected records begin with the ports of SCTP.
            let first = seen.bytes[0];
            assert!((20..64).contains(&first), "no record of DTLS: {first}");
            headers += usize::from(seen.bytes.windows(4).any(|w| w == header));
        }
        // Four random bytes are those of a header once in some ten thousand runs; in the clear, each packet has one.
        assert!(headers <= 1, "{headers} common headers");
    }
}

/// The types of the parameters of the INIT or INIT ACK in a packet.
fn parameters(packet: &[u8]) -> Vec<ParameterType> {
    let packet = Packet::parse(packet).unwrap();
    let chunk = packet.chunks().next().unwrap().unwrap();
    let (Chunk::Init(init) | Chunk::InitAck(init)) = Chunk::parse(chunk).unwrap() else {
        panic!("neither INIT nor INIT ACK");
    };
    init.parameters().map(|p| p.unwrap().kind).collect()
}

/// RFC 8261, section 6.1
#[test]
fn addresses_are_neither_listed_nor_accepted() {
    let mut world = World::new();
    world.connect();
    // Packets pass directly between the endpoints, so that their content is visible.
    let mut init = Vec::new();
    // Without a session the layer has dropped the first packet.
    world.nodes[CLIENT]
        .core
        .handle_timeout(world.now + Duration::from_secs(2));
    let sent = world.nodes[CLIENT]
        .core
        .poll_transmit(world.now, &mut init)
        .unwrap();
    let forbidden = [
        ParameterType::IPV4_ADDRESS,
        ParameterType::IPV6_ADDRESS,
        ParameterType::SUPPORTED_ADDRESS_TYPES,
    ];
    assert!(parameters(&init).iter().all(|p| !forbidden.contains(p)));
    let route = Route {
        local: None,
        ..sent.route
    };
    let server = &mut world.nodes[SERVER].core;
    server.handle_datagram(world.now, &route, Bytes::from(init));
    let mut init_ack = Vec::new();
    server.poll_transmit(world.now, &mut init_ack).unwrap();
    let listed = parameters(&init_ack);
    assert!(listed.iter().all(|p| !forbidden.contains(p)), "{listed:?}");
    let config = server.default_config();
    assert_eq!(
        config.paths.max_paths, 1,
        "whatever addresses the peer lists"
    );
    assert_eq!(
        config.paths.path_max_retrans,
        config.paths.association_max_retrans
    );
    assert!(config.mtu.path_mtu_discovery.is_some());
    assert!(!config.extensions.dynamic_addresses);
}

#[test]
fn an_association_has_one_path() {
    let mut world = World::new();
    let ids = world.establish();
    for (node, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
        assert!(world.nodes[node].core.local_addresses().is_empty());
        let paths: Vec<_> = world.nodes[node]
            .core
            .association(id)
            .unwrap()
            .paths()
            .collect();
        assert_eq!(paths.len(), 1);
        assert_ne!(paths[0].remote, address(1 - node).ip());
        assert_eq!(
            world.nodes[node].layer.remote_behind(paths[0].remote),
            Some(address(1 - node))
        );
    }
}

#[test]
fn the_handshake_survives_loss_and_duplication() {
    for versions in VERSIONS {
        for from in [CLIENT, SERVER] {
            for n in 0..8 {
                for fate in [
                    DatagramAction::Drop,
                    DatagramAction::Twice,
                    DatagramAction::Late(Duration::from_millis(1500)),
                ] {
                    let mut world = World::with(versions);
                    let mut count = 0;
                    world.rule = Box::new(move |seen| {
                        if seen.from != from {
                            return DatagramAction::Pass;
                        }
                        count += 1;
                        if count == n + 1 {
                            fate
                        } else {
                            DatagramAction::Pass
                        }
                    });
                    let ids = world.establish();
                    world.transfer(CLIENT, ids, 3);
                }
            }
        }
    }
}

#[test]
fn a_transfer_survives_loss_and_reordering() {
    for versions in VERSIONS {
        let mut world = World::with(versions);
        let mut state = 7_u32;
        world.rule = Box::new(move |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match state >> 24 {
                0..=12 => DatagramAction::Drop,
                13..=25 => DatagramAction::Twice,
                26..=38 => DatagramAction::Late(Duration::from_millis(25)),
                _ => DatagramAction::Pass,
            }
        });
        let ids = world.establish();
        world.transfer(CLIENT, ids, 400);
        world.transfer(SERVER, ids, 400);
        let stats = world.nodes[SERVER].layer.stats();
        assert!(stats.discarded > 0, "duplicated records: {stats:?}");
        let duplicates = world.nodes[SERVER].core.association(ids.1).unwrap().stats();
        assert!(duplicates.counters.data_chunks_received > 0);
    }
}

/// RFC 8261, section 4
#[test]
fn the_path_mtu_includes_the_overhead_of_dtls() {
    for versions in VERSIONS {
        let mut world = World::with(versions);
        world.mtu = 1400;
        let ids = world.establish();
        world.transfer(CLIENT, ids, 50);
        world.run(Duration::from_secs(60));
        let association = world.nodes[CLIENT].core.association(ids.0).unwrap();
        let path = association.paths().next().unwrap();
        assert_eq!(path.mtu_discovery, Some(PathMtuState::SearchComplete));
        // DTLS 1.3 has 15 bytes less overhead than is reserved, and the search finds them.
        assert!((1380..=1400 + 16).contains(&path.mtu), "{}", path.mtu);
        world.transfer(CLIENT, ids, 200);
        let largest = world
            .log
            .iter()
            .filter(|s| !s.transmit.probe)
            .map(|s| s.bytes.len() + 28)
            .max();
        let largest = largest.unwrap();
        assert!((1400 - 24..=1400).contains(&largest), "{largest}");
        assert_eq!(OVERHEAD, 37);
    }
}

/// RFC 8261, section 6.1
#[test]
fn several_associations_share_a_session() {
    let mut world = World::new();
    let ids = world.establish();
    // The same ports would be the same association.
    assert_eq!(
        world.try_connect(expecting(SERVER), association()),
        Err(SessionConnectError::Association(
            ConnectError::AlreadyConnected
        ))
    );
    assert_eq!(
        world.try_connect(expecting(2), association()),
        Err(SessionConnectError::OtherPeer)
    );
    world.transfer(CLIENT, ids, 3);
    assert_eq!(world.nodes[CLIENT].layer.sessions().count(), 1);
}

#[test]
fn a_session_without_associations_is_closed() {
    let mut world = World::new();
    let ids = world.establish();
    world.nodes[CLIENT].core.shutdown(world.now, ids.0).unwrap();
    world.run(Duration::from_secs(29));
    assert_eq!(world.nodes[CLIENT].layer.sessions().count(), 1);
    world.run(Duration::from_secs(5));
    for node in [CLIENT, SERVER] {
        assert_eq!(world.nodes[node].layer.sessions().count(), 0);
        let last = world.nodes[node].sessions.last();
        assert!(matches!(last, Some(SessionEvent::Closed(_))), "{last:?}");
    }
    assert_eq!(
        world.nodes[CLIENT]
            .layer
            .poll_timeout(&world.nodes[CLIENT].core),
        None
    );
}

#[test]
fn close_notify_ends_the_associations_of_the_peer() {
    for versions in VERSIONS {
        let mut world = World::with(versions);
        let ids = world.establish();
        let now = world.now;
        let node = &mut world.nodes[SERVER];
        node.layer.close(now, &mut node.core);
        world.run(Duration::from_secs(1));
        for (node, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
            let reason = world.nodes[node].closed(id);
            assert_eq!(reason, Some(&CloseReason::LowerLayerLost), "{versions:?}");
            assert_eq!(world.nodes[node].layer.sessions().count(), 0);
        }
    }
}

/// RFC 9147, section 8
#[test]
fn keys_are_updated_during_a_transfer() {
    let mut world = World::of(|node| DtlsConfig {
        versions: Versions::Dtls13,
        key_limit: 50,
        ..DtlsConfig::new(certificate(node), expecting(1 - node))
    });
    let ids = world.establish();
    world.transfer(CLIENT, ids, 300);
    world.transfer(SERVER, ids, 300);
    // The lowest bits of the epoch are in the first byte of a record (RFC 9147 section 4).
    let mut epochs: Vec<u8> = world
        .log
        .iter()
        .map(|s| s.bytes[0])
        .filter(|b| b >> 5 == 1)
        .collect();
    epochs.dedup();
    assert!(epochs.len() > 8, "keys were updated: {epochs:?}");
}

/// RFC 6347, section 4.2.8
#[test]
fn a_peer_without_state_reconnects_from_its_port() {
    for versions in VERSIONS {
        let mut world = World::with(versions);
        let ids = world.establish();
        world.transfer(CLIENT, ids, 5);
        let fresh = World::with(versions).nodes.remove(CLIENT);
        let mut fresh = fresh;
        // Another seed, because the same one would give the same random numbers.
        let mut config = carrick_proto::EndpointConfig::new(PORT, vec![], [99; 32]);
        config.association = association();
        fresh.layer.prepare(&mut config.association);
        fresh.core = carrick_proto::Endpoint::new(config).unwrap();
        world.nodes[CLIENT] = fresh;
        let again = world.connect();
        world.run(Duration::from_secs(20));
        let server = &world.nodes[SERVER];
        let replaced = |e: &_| matches!(e, SessionEvent::Replaced(_));
        assert!(
            server.sessions.iter().any(replaced),
            "{versions:?} {:?}",
            server.sessions
        );
        assert!(
            server.events.contains(&(ids.1, Event::Restarted)),
            "{:?}",
            server.events
        );
        assert_eq!(server.layer.sessions().count(), 1);
        world.transfer(CLIENT, (again, ids.1), 20);
    }
}

#[test]
fn another_peer_at_the_port_gets_no_association() {
    let other = Certificate::generate().unwrap();
    let trusted = [fingerprint(CLIENT), other.fingerprint()];
    let mut world = World::of(|node| {
        let trust = if node == SERVER {
            Trust::Fingerprints(trusted.to_vec())
        } else {
            expecting(SERVER)
        };
        DtlsConfig::new(certificate(node), trust)
    });
    let ids = world.establish();
    let stranger = World::of(|_| DtlsConfig::new(other.clone(), expecting(SERVER)));
    world.nodes[CLIENT] = stranger.nodes.into_iter().next().unwrap();
    let again = world.connect();
    world.run(Duration::from_secs(20));
    let reason = world.nodes[SERVER].closed(ids.1).cloned();
    assert_eq!(reason, Some(CloseReason::LowerLayerLost));
    let theirs = world.nodes[SERVER].established().unwrap();
    assert_ne!(theirs, ids.1);
    world.transfer(CLIENT, (again, theirs), 5);
}

#[test]
fn a_large_message_and_a_full_buffer_are_delivered() {
    let mut world = World::new();
    let ids = world.establish();
    let large = message(1, 500_000);
    world.send(CLIENT, ids.0, large.clone());
    let mut arrived = Vec::new();
    assert!(world.run_until(Duration::from_secs(60), |w| {
        arrived.extend(w.received(SERVER, ids.1));
        !arrived.is_empty()
    }));
    assert_eq!(arrived.concat(), large);
    let gso = |s: &&crate::common::SentDatagram| s.transmit.segment_size.is_some();
    assert!(
        world.log.iter().any(|s| gso(&s)),
        "equal datagrams leave together"
    );
}

#[test]
fn a_session_reports_its_state() {
    let mut world = World::new();
    world.rule = Box::new(|_| DatagramAction::Drop);
    world.connect();
    let id = world.nodes[CLIENT].layer.sessions().next().unwrap();
    assert_eq!(
        world.nodes[CLIENT].layer.state(id),
        Some(SessionState::Handshake)
    );
    assert_eq!(world.nodes[CLIENT].layer.identity(id), None);
}
