//! Unverified claims of peers: addresses of other peers, and reachability at their own address (RFC 8261,
//! section 6.1; RFC 6347, section 4.2.1).

use std::net::IpAddr;
use std::time::Duration;

use crate::common::{
    CLIENT, DatagramAction, Node, PORT, SERVER, World, address, association, certificate, message,
};
use carrick_dtls::{Dtls, DtlsConfig, DtlsLayer, Trust, Versions};
use carrick_proto::sessions::{PacketSession as _, SessionFactory as _, SessionLayerConfig};
use carrick_proto::{AssociationId, Ecn, Endpoint, EndpointConfig, Event, Route};

const OTHER: usize = 2;
const VERSIONS: [Versions; 2] = [Versions::Dtls12, Versions::Dtls13];

fn anyone(node: usize) -> DtlsConfig {
    DtlsConfig::new(certificate(node), Trust::Anyone)
}

/// Node whose INIT and INIT ACK list the addresses that represent the sessions of other nodes.
fn claiming(node: usize) -> Node {
    let mut config = EndpointConfig::new(PORT, vec![address(node).ip()], [node as u8 + 1; 32]);
    config.association = association();
    let dtls = Dtls::new(anyone(node)).unwrap();
    let layer = DtlsLayer::new(dtls, SessionLayerConfig::default(), &mut config);
    let others = (1..100_u8).map(|n| IpAddr::from([240, 0, 0, n]));
    config.local_addresses = others.collect();
    Node {
        core: Endpoint::new(config).unwrap(),
        layer,
        events: Vec::new(),
        sessions: Vec::new(),
    }
}

/// Three nodes, one of which lists addresses of the other nodes.
fn world(claims: usize) -> World {
    let mut world = World::of(anyone);
    let limits = SessionLayerConfig::default();
    world.nodes.push(Node::new(OTHER, anyone(OTHER), limits));
    world.nodes[claims] = claiming(claims);
    world
}

fn connect(world: &mut World, from: usize, to: usize) -> AssociationId {
    let now = world.now;
    let node = &mut world.nodes[from];
    let to = (address(to), PORT);
    let id = node
        .layer
        .connect(now, &mut node.core, to, Trust::Anyone, association())
        .unwrap();
    let done = |w: &mut World| w.nodes[from].established() == Some(id);
    assert!(world.run_until(Duration::from_secs(10), done));
    id
}

fn leads_to(world: &World, node: usize, id: AssociationId, peer: usize) {
    let layer = &world.nodes[node].layer;
    let session = layer.session_of(id).expect("a session");
    assert_eq!(layer.remote(session), Some(address(peer)));
}

/// RFC 8261, section 6.1
#[test]
fn addresses_in_an_init_claim_no_sessions() {
    let mut world = world(CLIENT);
    connect(&mut world, CLIENT, SERVER);
    let claimed = world.nodes[SERVER].established().unwrap();
    let id = connect(&mut world, OTHER, SERVER);
    let own = world.nodes[SERVER].established().unwrap();
    assert_ne!(own, claimed);
    leads_to(&world, SERVER, claimed, CLIENT);
    leads_to(&world, SERVER, own, OTHER);
    let restarted = |(_, e): &(AssociationId, Event)| *e == Event::Restarted;
    assert!(!world.nodes[SERVER].events.iter().any(restarted));
    world.send(OTHER, id, message(1, 300));
    world.run(Duration::from_secs(2));
    assert!(world.received(SERVER, claimed).is_empty());
    assert_eq!(world.received(SERVER, own), [message(1, 300)]);
}

/// RFC 8261, section 6.1
#[test]
fn addresses_in_an_init_ack_claim_no_sessions() {
    let mut world = world(SERVER);
    let first = connect(&mut world, CLIENT, SERVER);
    let second = connect(&mut world, CLIENT, OTHER);
    leads_to(&world, CLIENT, first, SERVER);
    leads_to(&world, CLIENT, second, OTHER);
    world.send(CLIENT, second, message(2, 300));
    world.run(Duration::from_secs(2));
    let other = world.nodes[OTHER].established().unwrap();
    assert_eq!(world.received(OTHER, other), [message(2, 300)]);
}

/// Server that has room for few handshakes, and the first datagram of one.
fn crowded(versions: Versions) -> (World, Vec<u8>) {
    let dtls = |node| DtlsConfig {
        versions,
        ..anyone(node)
    };
    let mut world = World::of(dtls);
    let limits = SessionLayerConfig {
        max_handshakes: 4,
        ..SessionLayerConfig::default()
    };
    world.nodes[SERVER] = Node::new(SERVER, dtls(SERVER), limits);
    let mut attacker = World::of(dtls);
    attacker.rule = Box::new(|_| DatagramAction::Drop);
    attacker.connect();
    let hello = attacker.log[0].bytes.to_vec();
    (world, hello)
}

/// Sends the same hello three times from each of many addresses that never answer.
fn flood(world: &mut World, hello: &[u8]) {
    for n in 0..60_u8 {
        let route = Route {
            local: Some(address(SERVER).ip()),
            remote: IpAddr::from([203, 0, 113, n]),
            encapsulation: Some(9),
            ecn: Ecn::NotCapable,
        };
        for _ in 0..3 {
            let server = &mut world.nodes[SERVER];
            server
                .layer
                .handle_datagram(world.now, &mut server.core, &route, hello);
            world.pump();
        }
    }
}

/// RFC 6347, section 4.2.1
#[test]
fn hellos_without_reply_do_not_block_other_peers() {
    for versions in VERSIONS {
        let (mut world, hello) = crowded(versions);
        flood(&mut world, &hello);
        let stats = world.nodes[SERVER].layer.stats();
        assert_eq!((stats.refused, stats.evicted), (0, 56), "{versions:?}");
        let ids = world.establish();
        world.transfer(CLIENT, ids, 3);
    }
}

/// RFC 6347, section 4.2.1
#[test]
fn a_peer_with_a_valid_cookie_is_not_evicted() {
    for versions in VERSIONS {
        let (mut world, hello) = crowded(versions);
        let id = world.connect();
        // The cookie, and the messages after it.
        let answered = |w: &mut World| w.log.iter().filter(|s| s.from == SERVER).count() >= 2;
        assert!(world.run_until(Duration::from_secs(1), answered));
        flood(&mut world, &hello);
        assert_eq!(world.nodes[SERVER].layer.stats().evicted, 56);
        let done = |w: &mut World| w.nodes[CLIENT].established() == Some(id);
        assert!(
            world.run_until(Duration::from_millis(500), done),
            "{versions:?}"
        );
    }
}

/// Passes a datagram from a port of one attacking address to the server, and returns the replies.
fn exchange(world: &mut World, port: u16, datagram: &[u8]) -> Vec<Vec<u8>> {
    let route = Route {
        local: Some(address(SERVER).ip()),
        remote: IpAddr::from([203, 0, 113, 5]),
        encapsulation: Some(port),
        ecn: Ecn::NotCapable,
    };
    let server = &mut world.nodes[SERVER];
    server
        .layer
        .handle_datagram(world.now, &mut server.core, &route, datagram);
    let before = world.log.len();
    world.pump();
    let replies = &world.log[before..];
    replies.iter().map(|sent| sent.bytes.to_vec()).collect()
}

/// RFC 6347, section 4.2.1
#[test]
fn one_address_with_cookies_does_not_block_others() {
    for versions in VERSIONS {
        let (mut world, _) = crowded(versions);
        let mut factory = Dtls::new(DtlsConfig {
            versions,
            ..anyone(OTHER)
        })
        .unwrap();
        let mut hold = |world: &mut World, port: u16| {
            let mut client = factory.connect(world.now, Trust::Anyone);
            for _ in 0..2 {
                let mut hello = Vec::new();
                assert!(client.poll_datagram(world.now, &mut hello));
                for reply in exchange(world, port, &hello) {
                    client.handle_datagram(world.now, &reply, &mut Vec::new());
                }
            }
        };
        for port in 1..=8 {
            hold(&mut world, port);
        }
        let layer = &world.nodes[SERVER].layer;
        assert_eq!((layer.handshakes(), layer.sessions().count()), (4, 4));
        // The honest peer is in the middle of its handshake while more arrive.
        let id = world.connect();
        let mut port = 9;
        let done = |w: &mut World| {
            port += 1;
            hold(w, port);
            w.nodes[CLIENT].established() == Some(id)
        };
        assert!(
            world.run_until(Duration::from_secs(5), done),
            "{versions:?}"
        );
        assert!(port > 12, "{port}");
    }
}

/// RFC 9147, section 5.1
#[test]
fn a_hello_without_cookie_gets_one_reply() {
    for versions in VERSIONS {
        let (mut world, hello) = crowded(versions);
        let first = exchange(&mut world, 1, &hello);
        assert_eq!(first.len(), 1, "{versions:?}");
        assert!(first[0].len() < hello.len());
        let sent = world.log.len();
        world.run(Duration::from_secs(20));
        assert_eq!(world.log.len(), sent, "no retransmission");
        assert_eq!(exchange(&mut world, 1, &hello), first);
        world.run(Duration::from_secs(60));
        assert_eq!(world.log.len(), sent + 1);
        assert_eq!(world.nodes[SERVER].layer.handshakes(), 0, "it expires");
    }
}

/// RFC 9147, section 5.1
#[test]
fn a_lost_cookie_request_is_repeated() {
    for versions in VERSIONS {
        let (mut world, _) = crowded(versions);
        let mut lost = 0;
        world.rule = Box::new(move |sent| {
            lost += usize::from(sent.from == SERVER);
            if sent.from == SERVER && lost <= 2 {
                DatagramAction::Drop
            } else {
                DatagramAction::Pass
            }
        });
        let ids = world.establish();
        world.transfer(CLIENT, ids, 3);
    }
}

/// RFC 8261, section 6.1
#[test]
fn a_new_session_restarts_rtt_measurement() {
    let quick = association().with(|c| c.timers.rto_min = Duration::from_millis(100));
    let mut world = World::with_associations([quick.clone(), quick]);
    let ids = world.establish();
    world.transfer(CLIENT, ids, 20);
    let rto = |w: &World| {
        let association = w.nodes[CLIENT].core.association(ids.0).unwrap();
        association.paths().next().unwrap().rto
    };
    assert!(rto(&world) < Duration::from_secs(1));
    let now = world.now;
    let core = &mut world.nodes[CLIENT].core;
    core.association_mut(now, ids.0)
        .unwrap()
        .lower_layer_changed();
    assert_eq!(rto(&world), Duration::from_secs(1));
    world.transfer(CLIENT, ids, 20);
}
