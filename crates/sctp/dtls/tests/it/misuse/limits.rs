//! Too many sessions, handshakes that take too long, datagrams that are too large.

use std::time::Duration;

use carrick_dtls::{Dtls, DtlsConfig, DtlsError, Trust};
use carrick_proto::sessions::{
    PacketSession as _, SessionEvent, SessionFactory as _, SessionLayerConfig, SessionState,
};
use carrick_proto::{CloseReason, Ecn, Route, Time};

use super::{VERSIONS, failure};
use crate::common::{
    CLIENT, DatagramAction, Node, SERVER, World, address, association, certificate, expecting,
};

#[test]
fn a_handshake_without_a_peer_times_out() {
    let mut world = World::new();
    world.rule = Box::new(|_| DatagramAction::Drop);
    let id = world.connect();
    world.run(Duration::from_secs(60));
    assert_eq!(
        world.nodes[CLIENT].closed(id),
        Some(&CloseReason::LowerLayerLost)
    );
    assert_eq!(failure(&world, CLIENT), Some(&DtlsError::TimedOut));
    assert_eq!(world.nodes[CLIENT].layer.sessions().count(), 0);
}

/// RFC 6347, section 4.2.1
#[test]
fn half_open_sessions_are_limited_and_expire() {
    let mut world = World::new();
    let limits = SessionLayerConfig {
        max_handshakes: 10,
        ..SessionLayerConfig::default()
    };
    let dtls = DtlsConfig::new(certificate(SERVER), expecting(CLIENT));
    world.nodes[SERVER] = Node::new(SERVER, dtls, limits);
    let mut attacker = World::new();
    attacker.rule = Box::new(|_| DatagramAction::Drop);
    attacker.connect();
    let hello = attacker.log[0].bytes.clone();
    for n in 0..1000_u16 {
        let route = Route {
            local: Some(address(SERVER).ip()),
            remote: "203.0.113.5".parse().unwrap(),
            encapsulation: Some(1000 + n),
            ecn: Ecn::NotCapable,
        };
        let server = &mut world.nodes[SERVER];
        server
            .layer
            .handle_datagram(world.now, &mut server.core, &route, &hello);
        world.pump();
    }
    let stats = world.nodes[SERVER].layer.stats();
    assert_eq!(world.nodes[SERVER].layer.handshakes(), 10);
    assert_eq!(world.nodes[SERVER].layer.sessions().count(), 0);
    assert_eq!(stats.evicted, 990);
    // One small reply each: fewer bytes are sent than received.
    let answers: usize = world.log.iter().map(|s| s.bytes.len()).sum();
    assert!(
        answers <= 1000 * hello.len(),
        "{answers} for {}",
        1000 * hello.len()
    );
    // A real peer is still admitted, and in the end no other session is left.
    let ids = world.establish();
    world.transfer(CLIENT, ids, 3);
    world.run(Duration::from_secs(60));
    let layer = &world.nodes[SERVER].layer;
    assert_eq!((layer.handshakes(), layer.sessions().count()), (0, 1));
}

/// Fragments of one `ClientHello`, in the largest datagrams.
#[test]
fn a_hello_without_cookie_is_bounded() {
    let mut server = Dtls::new(DtlsConfig::new(certificate(SERVER), Trust::Anyone)).unwrap();
    let mut session = server.accept(Time::ZERO);
    let len = 60_000_u16;
    let mut fed = 0;
    for n in 0..200_u32 {
        let mut datagram = vec![22, 254, 253, 0, 0, 0, 0, 0, 0, 0, n as u8];
        datagram.extend((len + 12).to_be_bytes());
        datagram.extend([1, 255, 255, 255, 0, 0]);
        datagram.extend(&(n * u32::from(len)).to_be_bytes()[1..]);
        datagram.extend([0]);
        datagram.extend(len.to_be_bytes());
        datagram.resize(datagram.len() + usize::from(len), 7);
        session.handle_datagram(Time::ZERO, &datagram, &mut Vec::new());
        if session.state() != SessionState::Handshake {
            break;
        }
        fed += datagram.len();
    }
    assert!(matches!(session.state(), SessionState::Failed(_)));
    assert!(fed <= 1 << 14, "{fed} bytes");
}

#[test]
fn sessions_are_bounded() {
    let mut world = World::new();
    let limits = SessionLayerConfig {
        max_sessions: 1,
        ..SessionLayerConfig::default()
    };
    let dtls = DtlsConfig::new(certificate(SERVER), expecting(CLIENT));
    world.nodes[SERVER] = Node::new(SERVER, dtls, limits);
    let ids = world.establish();
    let hello = world.log[0].bytes.clone();
    let server = &mut world.nodes[SERVER];
    let route = Route {
        local: Some(address(SERVER).ip()),
        remote: "203.0.113.5".parse().unwrap(),
        encapsulation: Some(1),
        ecn: Ecn::NotCapable,
    };
    server
        .layer
        .handle_datagram(world.now, &mut server.core, &route, &hello);
    assert_eq!(server.layer.stats().refused, 1);
    assert_eq!(server.layer.sessions().count(), 1);
    world.transfer(CLIENT, ids, 3);
}

/// RFC 6347, section 4.2.8
#[test]
fn a_hello_without_cookie_keeps_the_session() {
    let mut world = World::new();
    let ids = world.establish();
    let hello = world.log[0].bytes.clone();
    for _ in 0..3 {
        world.inject(CLIENT, SERVER, &hello);
        world.transfer(CLIENT, ids, 3);
    }
    world.run(Duration::from_secs(60));
    world.transfer(SERVER, ids, 3);
    let replaced = |e: &_| matches!(e, SessionEvent::Replaced(_));
    assert!(!world.nodes[SERVER].sessions.iter().any(replaced));
}

#[test]
fn a_port_is_free_after_an_abandoned_handshake() {
    for versions in VERSIONS {
        let mut world = World::with(versions);
        world.try_connect(expecting(2), association()).unwrap();
        let refused = |w: &mut World| failure(w, CLIENT).is_some();
        assert!(world.run_until(Duration::from_secs(5), refused));
        assert_eq!(
            world.nodes[SERVER].layer.sessions().count(),
            1,
            "half of one"
        );
        let id = world.connect();
        let done = |w: &mut World| w.nodes[CLIENT].established() == Some(id);
        assert!(
            world.run_until(Duration::from_secs(5), done),
            "{versions:?}"
        );
        let peer = world.nodes[SERVER].established().unwrap();
        world.transfer(CLIENT, (id, peer), 5);
        world.run(Duration::from_secs(60));
        world.transfer(CLIENT, (id, peer), 5);
        assert_eq!(world.nodes[SERVER].layer.sessions().count(), 1);
    }
}

#[test]
fn handshake_datagrams_have_the_configured_limit() {
    let mut world = World::of(|node| DtlsConfig {
        handshake_datagram: 400,
        ..DtlsConfig::new(certificate(node), expecting(1 - node))
    });
    world.connect();
    let done = |w: &mut World| w.nodes[CLIENT].layer.stats().established == 1;
    assert!(world.run_until(Duration::from_secs(10), done));
    assert!(world.log.iter().all(|s| s.bytes.len() <= 400));
    for handshake_datagram in [0, 255, 16_385] {
        let config = DtlsConfig {
            handshake_datagram,
            ..DtlsConfig::new(certificate(0), Trust::Anyone)
        };
        let error = Dtls::new(config).expect_err("out of range").to_string();
        assert!(error.contains("handshake_datagram"), "{error}");
    }
}
