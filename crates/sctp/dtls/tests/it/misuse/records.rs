//! Datagrams that are no records of the session, and SCTP without DTLS.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use carrick_dtls::{Dtls, DtlsConfig, DtlsError, Versions};
use carrick_proto::sessions::{PacketSession, SessionFactory as _, SessionState};
use carrick_proto::{Ecn, Endpoint, EndpointConfig, Event, Route, StateName, Time, Transmit};
use proptest::prelude::*;

use super::{VERSIONS, failure};
use crate::common::{
    CLIENT, DatagramAction, PORT, SERVER, World, address, association, certificate, expecting,
    message,
};

/// Returns the INIT of an endpoint without DTLS.
fn plain_init() -> (Endpoint, Vec<u8>, Transmit) {
    let config = EndpointConfig::new(PORT, vec![address(CLIENT).ip()], [9; 32]);
    let mut plain = Endpoint::new(config).unwrap();
    let to = [address(SERVER).ip()];
    let udp = Some(address(SERVER).port());
    plain
        .connect(Time::ZERO, &to, PORT, udp, association())
        .unwrap();
    let mut init = Vec::new();
    let transmit = plain.poll_transmit(Time::ZERO, &mut init).unwrap();
    (plain, init, transmit)
}

#[test]
fn a_peer_without_dtls_is_not_answered_and_counted() {
    let mut world = World::new();
    let (_, init, _) = plain_init();
    world.inject(CLIENT, SERVER, &init);
    assert_eq!(world.nodes[SERVER].layer.stats().unknown_senders, 1);
    assert_eq!(world.nodes[SERVER].layer.sessions().count(), 0);
    assert!(world.log.is_empty());
    // The same during a session.
    let ids = world.establish();
    let before = world.nodes[SERVER].layer.stats().discarded;
    world.inject(CLIENT, SERVER, &init);
    assert_eq!(world.nodes[SERVER].layer.stats().discarded, before + 1);
    assert!(
        !world.nodes[SERVER]
            .events
            .contains(&(ids.1, Event::Restarted))
    );
    world.transfer(CLIENT, ids, 3);
}

#[test]
fn an_endpoint_without_dtls_counts_dropped_records() {
    let mut world = World::new();
    world.connect();
    let hello = world.log[0].bytes.clone();
    let (mut plain, _, transmit) = plain_init();
    let route = Route {
        local: Some(transmit.route.local.unwrap()),
        ..transmit.route
    };
    plain.handle_datagram(Time::ZERO, &route, hello);
    let stats = plain.stats();
    assert_eq!(stats.bad_checksum + stats.malformed, 1, "{stats:?}");
}

#[test]
fn replayed_and_foreign_records_are_dropped() {
    for versions in VERSIONS {
        let mut world = World::with(versions);
        let ids = world.establish();
        world.transfer(CLIENT, ids, 20);
        let counters = |w: &World| {
            w.nodes[SERVER]
                .core
                .association(ids.1)
                .unwrap()
                .stats()
                .counters
        };
        let before = counters(&world);
        let stats = world.nodes[SERVER].layer.stats();
        let sent: Vec<_> = world
            .log
            .iter()
            .filter(|s| s.from == CLIENT)
            .cloned()
            .collect();
        for seen in &sent {
            world.inject(CLIENT, SERVER, &seen.bytes);
        }
        // From another address the records belong to no session.
        let last = &sent.last().unwrap().bytes;
        let elsewhere = Route {
            local: Some(address(SERVER).ip()),
            remote: "198.51.100.7".parse().unwrap(),
            encapsulation: Some(9),
            ecn: Ecn::NotCapable,
        };
        let now = world.now;
        let server = &mut world.nodes[SERVER];
        server
            .layer
            .handle_datagram(now, &mut server.core, &elsewhere, last);
        assert_eq!(
            server.layer.stats().unknown_senders,
            stats.unknown_senders + 1
        );
        assert!(server.layer.stats().discarded > stats.discarded);
        assert_eq!(counters(&world), before, "{versions:?}");
        world.transfer(CLIENT, ids, 3);
    }
}

/// Records in plain text from the address of a peer: a fatal alert, a `ServerHello` with the next numbers of
/// messages, a `ClientHello` with another random number, and random bytes.
fn forged(step: u8) -> Vec<Vec<u8>> {
    let record = |kind: u8, body: &[u8]| {
        let mut bytes = vec![
            kind,
            254,
            253,
            0,
            0,
            0,
            0,
            0,
            0,
            1,
            step,
            0,
            body.len() as u8,
        ];
        bytes.extend_from_slice(body);
        bytes
    };
    let message = |kind: u8, number: u8, body: &[u8]| {
        let len = body.len() as u8;
        let mut bytes = vec![kind, 0, 0, len, 0, number, 0, 0, 0, 0, 0, len];
        bytes.extend_from_slice(body);
        record(22, &bytes)
    };
    let mut hello = vec![254, 253];
    hello.extend([step; 32]);
    // No session or cookie, one cipher suite, no compression, supported groups.
    hello.extend([0, 0, 0, 2, 0xc0, 0x2b, 1, 0, 0, 8, 0, 10, 0, 4, 0, 2, 0, 23]);
    let mut all = vec![record(21, &[2, 40]), vec![step; 50]];
    for number in 0..3 {
        all.push(message(2, number, &[step; 70]));
        all.push(message(1, number, &hello));
    }
    all
}

/// The replies to forged hellos are lost: a client that gets one before its own cookie uses the wrong one.
///
/// RFC 6347, section 4.1.2.7
#[test]
fn forged_plain_records_do_not_end_a_handshake() {
    for versions in VERSIONS.into_iter().chain([Versions::Both]) {
        let mut world = World::with(versions);
        let forging = Rc::new(Cell::new(false));
        let drops = Rc::clone(&forging);
        world.rule = Box::new(move |_| {
            if drops.get() {
                DatagramAction::Drop
            } else {
                DatagramAction::Pass
            }
        });
        let id = world.connect();
        for step in 0..200 {
            forging.set(true);
            for bytes in forged(step) {
                world.inject(CLIENT, SERVER, &bytes);
            }
            forging.set(false);
            world.run(Duration::from_millis(1));
        }
        let server = world.nodes[SERVER].established();
        assert_eq!(world.nodes[CLIENT].established(), Some(id), "{versions:?}");
        world.transfer(CLIENT, (id, server.unwrap()), 3);
    }
}

/// RFC 6347, section 4.1.2.7
#[test]
fn a_plain_alert_is_the_reason_of_a_timeout() {
    for versions in VERSIONS {
        let mut world = World::with(versions);
        world.rule = Box::new(|sent| {
            if sent.from == SERVER {
                DatagramAction::Drop
            } else {
                DatagramAction::Pass
            }
        });
        world.connect();
        let alert = [21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 2, 40];
        world.inject(SERVER, CLIENT, &alert);
        world.run(Duration::from_secs(5));
        assert_eq!(failure(&world, CLIENT), None, "{versions:?}");
        world.run(Duration::from_secs(60));
        let reason = failure(&world, CLIENT);
        assert_eq!(reason, Some(&DtlsError::PeerAlert(40)), "{versions:?}");
    }
}

#[test]
fn changed_records_are_dropped() {
    for versions in VERSIONS {
        let mut world = World::with(versions);
        let ids = world.establish();
        world.transfer(CLIENT, ids, 2);
        world.run(Duration::from_secs(1));
        world.log.clear();
        world.rule = Box::new(|s| {
            if s.from == CLIENT {
                DatagramAction::Drop
            } else {
                DatagramAction::Pass
            }
        });
        world.send(CLIENT, ids.0, message(1, 300));
        let record = world
            .log
            .iter()
            .find(|s| s.from == CLIENT)
            .unwrap()
            .bytes
            .clone();
        for bit in 0..record.len() * 8 {
            if versions == Versions::Dtls12 && bit == 17 {
                // This bit changes the version in the header to 1.0, which is accepted as 1.2: the content
                // of the record is authentic.
                continue;
            }
            let mut changed = record.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            world.inject(CLIENT, SERVER, &changed);
            assert!(world.received(SERVER, ids.1).is_empty(), "bit {bit}");
        }
        assert_eq!(world.nodes[SERVER].closed(ids.1), None);
        world.inject(CLIENT, SERVER, &record);
        assert_eq!(
            world.received(SERVER, ids.1),
            [message(1, 300)],
            "unchanged it is good"
        );
    }
}

/// Bytes similar to records: random ones, and parts of headers that pass the first checks.
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let record = (
        prop_oneof![
            Just(20_u8),
            Just(21),
            Just(22),
            Just(23),
            Just(24),
            25..64_u8
        ],
        prop_oneof![Just(253_u8), Just(255), Just(252), any::<u8>()],
        prop_oneof![Just(0_u8), Just(1), Just(2), Just(3)],
        any::<[u8; 6]>(),
        prop::collection::vec(any::<u8>(), 0..200),
        any::<Option<u8>>(),
    );
    let record = record.prop_map(|(kind, minor, epoch, number, body, first)| {
        let mut bytes = vec![kind, 254, minor, 0, epoch];
        bytes.extend(number);
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(&body);
        if let (Some(first), Some(place)) = (first, bytes.get_mut(13)) {
            *place = first % 26;
        }
        bytes
    });
    prop_oneof![record, prop::collection::vec(any::<u8>(), 0..300)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Arbitrary datagrams from any address cause no panic, memory is bounded, and an established session
    /// with its association continues.
    #[test]
    fn arbitrary_datagrams_keep_the_session(
        garbage in prop::collection::vec((datagram(), any::<bool>()), 1..60),
        dtls12 in any::<bool>(),
    ) {
        let versions = if dtls12 { Versions::Dtls12 } else { Versions::Dtls13 };
        let mut world = World::with(versions);
        let ids = world.establish();
        for (bytes, to_server) in &garbage {
            let (from, to) = if *to_server { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
            world.inject(from, to, bytes);
        }
        for (node, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
            let stats = world.nodes[node].core.association(id).map(|a| a.stats());
            prop_assert_eq!(stats.map(|s| s.state), Some(StateName::Established));
            prop_assert!(world.nodes[node].layer.sessions().count() == 1);
        }
        world.transfer(CLIENT, ids, 3);
    }

    /// Real records changed in one place during a handshake: the handshake may fail in time, but has no
    /// other effect.
    #[test]
    fn changed_handshake_records_have_no_other_effect(
        at in 0_usize..6,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        versions in prop_oneof![
            Just(Versions::Both), Just(Versions::Dtls12), Just(Versions::Dtls13)
        ],
    ) {
        let factory = |node: usize| Dtls::new(DtlsConfig {
            versions,
            ..DtlsConfig::new(certificate(node), expecting(1 - node))
        }).unwrap();
        let (mut connects, mut accepts) = (factory(CLIENT), factory(SERVER));
        let mut now = Time::from_millis(1);
        let mut sessions = [
            connects.connect(now, expecting(SERVER)),
            accepts.accept(now),
        ];
        let mut count = 0;
        let mut packets = Vec::new();
        for _ in 0..400 {
            for from in [CLIENT, SERVER] {
                let mut out = Vec::new();
                while sessions[from].poll_datagram(now, &mut out) {
                    let mut bytes = std::mem::take(&mut out);
                    if count == at {
                        for (index, value) in &changes {
                            let place = index.index(bytes.len());
                            bytes[place] ^= value;
                        }
                    }
                    count += 1;
                    sessions[1 - from].handle_datagram(now, &bytes, &mut packets);
                }
            }
            let Some(next) = sessions.iter().filter_map(PacketSession::poll_timeout).min() else {
                break;
            };
            if sessions.iter().all(|s| s.state() == SessionState::Established) {
                break;
            }
            now = now.max(next);
            for session in &mut sessions {
                session.handle_timeout(now);
            }
        }
        for session in &sessions {
            if session.state() == SessionState::Established {
                prop_assert!(session.identity().is_some());
            }
        }
        prop_assert!(packets.is_empty());
    }
}
