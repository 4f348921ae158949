//! Several hosts behind one address translator that share an address and an SCTP port (RFC 6951,
//! section 3.2): each has its own association.

use crate::common;

use std::net::IpAddr;

use carrick_proto::{
    AssociationId, CloseReason, ConnectError, Endpoint, EndpointConfig, Event, IcmpInput, IcmpKind,
    PeerAddress, VerificationTag,
};
use carrick_wire::{CauseCode, ChunkType};
use common::*;

/// External address of the hosts.
fn outside() -> IpAddr {
    ip("203.0.113.1")
}

/// The server.
const SERVER: usize = 2;

fn config(host: usize, seed: u8) -> EndpointConfig {
    let port = if host == SERVER { 7 } else { 5000 };
    EndpointConfig::new(port, vec![addresses(host)[0]], [seed; 32])
}

/// Two hosts behind a translator with the same SCTP port, and a server.
fn behind_one_translator() -> World {
    let mut w = World::with(3, |i, c| *c = config(i, i as u8 + 1));
    for host in 0..2 {
        w.translated
            .insert(addresses(host)[0], (outside(), 40_000 + host as u16));
    }
    w
}

/// A host connects to the server; its association there is the newest.
fn connect(w: &mut World, host: usize) -> (AssociationId, AssociationId) {
    let server = [PeerAddress::encapsulated(
        addresses(SERVER)[0],
        w.udp_ports[SERVER],
    )];
    let config = w.config.clone();
    let before: Vec<_> = w.ends[SERVER].associations().collect();
    let a = w.ends[host].associate(w.now, &server, 7, config).unwrap();
    w.run(secs(1));
    let new: Vec<_> = w.ends[SERVER]
        .associations()
        .filter(|b| !before.contains(b))
        .collect();
    assert_eq!(new.len(), 1, "a separate association");
    (a, new[0])
}

/// A message each way.
fn exchange(w: &mut World, host: usize, (a, b): (AssociationId, AssociationId), size: usize) {
    w.send(host, a, 0, pattern(size));
    w.send(SERVER, b, 0, pattern(size + 1));
    assert!(w.run_until(secs(60), |w| {
        w.stats(SERVER, b).receivable_messages + w.stats(host, a).receivable_messages == 2
    }));
    assert_eq!(w.receive_lengths(SERVER, b), [size]);
    assert_eq!(w.receive_lengths(host, a), [size + 1]);
}

fn way(w: &World, b: AssociationId) -> Option<u16> {
    w.path(SERVER, b, 0).encapsulation
}

/// RFC 6951, section 3.2
#[test]
fn each_host_behind_a_nat_has_its_association() {
    let mut w = behind_one_translator();
    let both = [connect(&mut w, 0), connect(&mut w, 1)];
    for (host, pair) in both.into_iter().enumerate() {
        assert_eq!(way(&w, pair.1), Some(40_000 + host as u16));
    }
    // Both at once, with losses, and new ports in the middle of it; they even change places.
    let mut number = 0;
    w.rule(move |_| {
        number += 1;
        if number % 17 == 0 {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    for round in 0..10 {
        for (host, (a, b)) in both.into_iter().enumerate() {
            w.send(host, a, 0, pattern(20_000 + host));
            w.send(SERVER, b, 0, pattern(30_000 + host));
        }
        w.run(ms(15));
        for host in 0..2 {
            let new = 40_000 + (round + host as u16) % 2;
            w.translated.insert(addresses(host)[0], (outside(), new));
        }
        w.run(secs(120));
        for (host, (a, b)) in both.into_iter().enumerate() {
            assert_eq!(
                w.receive_lengths(SERVER, b),
                [20_000 + host],
                "round {round}"
            );
            assert_eq!(w.receive_lengths(host, a), [30_000 + host], "round {round}");
        }
    }
    assert!(way(&w, both[0].1) != way(&w, both[1].1));
    assert_eq!(
        w.ends[SERVER].stats().wrong_tag,
        0,
        "no packet was passed to the wrong association"
    );
    // Each ends by itself.
    w.clear_rules();
    w.ends[0].shutdown(w.now, both[0].0).unwrap();
    w.run(secs(5));
    assert_eq!(w.ends[0].associations().count(), 0);
    exchange(&mut w, 1, both[1], 5000);
    assert_eq!(
        w.ends[SERVER].associations().collect::<Vec<_>>(),
        [both[1].1]
    );
}

/// RFC 9260, section 5.2
/// RFC 6951, section 3.2
#[test]
fn a_restart_leaves_other_hosts_behind_the_nat_alone() {
    for new_port in [false, true] {
        let mut w = behind_one_translator();
        let first = connect(&mut w, 0);
        let second = connect(&mut w, 1);
        w.events(SERVER);
        w.ends[0] = Endpoint::new(config(0, 77)).unwrap();
        if new_port {
            w.translated.insert(addresses(0)[0], (outside(), 44_444));
        }
        let server = [PeerAddress::encapsulated(
            addresses(SERVER)[0],
            w.udp_ports[SERVER],
        )];
        let config = w.config.clone();
        let again = w.ends[0].associate(w.now, &server, 7, config).unwrap();
        w.run(secs(1));
        let events = w.events(SERVER);
        // From the same UDP port it is a restart; from another one its host is unknown.
        let restarted = events.contains(&Event::Restarted);
        assert_eq!(restarted, !new_port, "{events:?}");
        let mut all = w.ends[SERVER].associations();
        let b = if new_port {
            all.find(|b| *b != first.1 && *b != second.1)
        } else {
            Some(first.1)
        };
        drop(all);
        exchange(&mut w, 0, (again, b.unwrap()), 10_000);
        exchange(&mut w, 1, second, 10_000);
        assert!(
            !w.events(1)
                .iter()
                .any(|e| matches!(e, Event::Closed(_) | Event::Restarted))
        );
        // The former association ends without answers.
        if new_port {
            w.send(SERVER, first.1, 0, pattern(1));
        }
        w.run(secs(600));
        let left = w.ends[SERVER].associations().count();
        assert_eq!(left, 2, "one association of each host");
        exchange(&mut w, 1, second, 10_000);
    }
}

/// RFC 9260, section 8.5
/// RFC 6951, section 3.2
#[test]
fn out_of_the_blue_answers_spare_other_hosts() {
    let mut w = behind_one_translator();
    let first = connect(&mut w, 0);
    let second = connect(&mut w, 1);
    w.ends[SERVER].abort(w.now, first.1, b"gone").unwrap();
    // The ABORT is lost, and the host continues.
    w.rule(|seen| {
        if seen.from == SERVER && seen.has(ChunkType::ABORT) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    w.run(secs(1));
    w.clear_rules();
    w.send(0, first.0, 0, pattern(5000));
    w.run(secs(300));
    assert_eq!(
        w.ends[0].associations().count(),
        0,
        "the host detects the end of its association"
    );
    exchange(&mut w, 1, second, 5000);
    assert!(!w.events(1).iter().any(|e| matches!(e, Event::Closed(_))));
}

/// RFC 6951, section 5.1
#[test]
fn udp_ports_distinguish_servers_behind_one_address() {
    // Endpoint 2 is the client now: the servers have one SCTP port and two forwarded UDP ports.
    let mut w = behind_one_translator();
    let to = |host: u16| [PeerAddress::encapsulated(outside(), 40_000 + host)];
    let mut pairs = Vec::new();
    for host in 0..2 {
        let config = w.config.clone();
        let b = w.ends[SERVER]
            .associate(w.now, &to(host), 5000, config)
            .unwrap();
        w.run(secs(1));
        let a = w.association(usize::from(host));
        pairs.push((a, b));
    }
    for (host, &pair) in pairs.iter().enumerate() {
        exchange(&mut w, host, pair, 20_000);
        let config = w.config.clone();
        let again = w.ends[SERVER].associate(w.now, &to(host as u16), 5000, config);
        assert_eq!(again, Err(ConnectError::AlreadyConnected));
    }
    // Set up from both sides at once it is still one association.
    w.ends[SERVER].abort(w.now, pairs[0].1, b"").unwrap();
    w.run(secs(1));
    let config = w.config.clone();
    w.ends[SERVER]
        .associate(w.now, &to(0), 5000, config.clone())
        .unwrap();
    let client = [PeerAddress::encapsulated(
        addresses(SERVER)[0],
        w.udp_ports[SERVER],
    )];
    w.ends[0].associate(w.now, &client, 7, config).unwrap();
    w.run(secs(5));
    assert_eq!(w.ends[SERVER].associations().count(), 2);
    assert_eq!(w.ends[0].associations().count(), 1);
}

/// RFC 9260, section 5.2
#[test]
fn crossing_set_ups_on_two_paths_both_succeed() {
    // The peer is reached at one port, and its own packets come from another one.
    let mut w = World::with(2, |i, c| *c = config(i, i as u8 + 1));
    let config = w.config.clone();
    let to = |end: usize| [PeerAddress::encapsulated(addresses(end)[0], 3333)];
    w.ends[0]
        .associate(w.now, &to(1), 5000, config.clone())
        .unwrap();
    w.ends[1].associate(w.now, &to(0), 5000, config).unwrap();
    w.run(secs(5));
    // Neither side can know that the other's INIT is not from a second host there.
    for end in 0..2 {
        let ids: Vec<_> = w.ends[end].associations().collect();
        assert_eq!(ids.len(), 2);
        for id in ids {
            assert_eq!(state_name(&w.stats(end, id)), "Established");
            w.send(end, id, 0, pattern(100 + end));
            w.run(secs(1));
        }
    }
    for end in 0..2 {
        let ids: Vec<_> = w.ends[end].associations().collect();
        for id in ids {
            assert_eq!(w.receive_lengths(end, id), [101 - end]);
        }
    }
}

/// A puppet behind the translator.
fn puppet(udp_port: u16) -> Puppet {
    Puppet {
        encapsulation: Some(udp_port),
        ..Puppet::new()
    }
}

/// The association that is new.
fn join(w: &mut World, puppet: Puppet) -> (Puppet, AssociationId) {
    let before: Vec<_> = w.ends[0].associations().collect();
    let (puppet, _) = puppet.connect(w);
    let new = w.ends[0].associations().find(|id| !before.contains(id));
    (puppet, new.expect("a separate association"))
}

/// RFC 9260, section 8.5
#[test]
fn hosts_with_equal_tags_are_distinguished() {
    let mut w = World::with(1, |_, _| {});
    let hosts: Vec<_> = (0..20).map(|i| join(&mut w, puppet(1000 + i))).collect();
    let mut hosts = hosts;
    assert!(hosts.iter().all(|(p, _)| p.tag == hosts[0].0.tag));
    for (host, id) in &mut hosts {
        host.data(&mut w, 0, 0, b"hello");
        assert_eq!(w.receive_lengths(0, *id), [5]);
        w.send(0, *id, 0, pattern(10));
        let sent = host.receive(&mut w);
        assert!(
            sent.iter()
                .all(|s| s.route.encapsulation == host.encapsulation)
        );
        assert!(sent.iter().any(|s| s.has(ChunkType::DATA)));
    }
    // An ABORT with the T bit has the tag that all of them chose: it ends the one it came from.
    w.events(0);
    let (host, id) = hosts.remove(7);
    host.send_with_tag(&mut w, host.tag, |p| p.abort(true, |_| {}));
    let events = w.events(0);
    let aborted = matches!(
        events.last(),
        Some(Event::Closed(CloseReason::AbortedByPeer(_)))
    );
    assert!(aborted, "{events:?}");
    assert!(w.ends[0].association(id).is_none());
    // And "port unreachable" the one that it is about.
    let (host, id) = hosts.remove(12);
    let mut quoted = vec![0; 12];
    quoted[..2].copy_from_slice(&port(0).to_be_bytes());
    quoted[2..4].copy_from_slice(&host.port.to_be_bytes());
    quoted[4..8].copy_from_slice(&host.tag.0.to_be_bytes());
    let input = IcmpInput {
        kind: IcmpKind::PortUnreachable,
        remote: host.link.from,
        encapsulation: host.encapsulation,
        quoted: &quoted,
    };
    w.ends[0].handle_icmp(w.now, &input);
    let closed = Event::Closed(CloseReason::ProtocolUnreachable);
    assert_eq!(w.events(0).last(), Some(&closed));
    assert!(w.ends[0].association(id).is_none());
    assert_eq!(w.ends[0].associations().count(), 18);
}

/// RFC 9260, section 5.1.2
#[test]
fn private_addresses_do_not_merge_two_hosts() {
    // Behind two translators, each lists its internal address, against RFC 6951, section 5.7.
    let mut w = World::with(1, |_, _| {});
    let inside = ip("192.168.1.2");
    for outside in ["10.0.0.98", "10.0.0.99"] {
        let mut host = puppet(9899);
        host.link.from = ip(outside);
        let answers = host.init(&mut w, |p| p.ip_address(inside));
        assert!(
            answers[0].has(ChunkType::INIT_ACK),
            "{:?}",
            answers[0].kinds()
        );
        host.record_init(&answers[0]);
        let cookie = Puppet::cookie(&answers[0]);
        let answers = host.send(&mut w, |p| p.cookie_echo(&cookie));
        assert!(answers[0].has(ChunkType::COOKIE_ACK));
        host.data(&mut w, 0, 0, b"hello");
    }
    let ids: Vec<_> = w.ends[0].associations().collect();
    assert_eq!(ids.len(), 2);
    for id in ids {
        assert_eq!(w.receive_lengths(0, id), [5]);
    }
    // On plain IP, too, an address that is not confirmed identifies no association (RFC 5062
    // section 2.3).
    let mut host = Puppet::new();
    host.link.from = ip("10.0.0.97");
    host.connect_with(&mut w, |p| p.ip_address(inside));
    let mut other = Puppet::new();
    other.link.from = ip("10.0.0.96");
    let answers = other.init(&mut w, |p| p.ip_address(inside));
    assert!(answers[0].has(ChunkType::INIT_ACK));
}

/// RFC 6951, section 5.4
#[test]
fn plain_ip_and_udp_hosts_share_an_address() {
    // The translator is itself a host.
    let mut w = World::with(1, |_, _| {});
    let (mut router, one) = join(&mut w, Puppet::new());
    let (mut inside, two) = join(&mut w, puppet(1234));
    for (host, id) in [(&mut router, one), (&mut inside, two)] {
        host.data(&mut w, 0, 0, b"hello");
        assert_eq!(w.receive_lengths(0, id), [5]);
    }
    // A valid packet changes the encapsulation of one host, not that of the other.
    inside.encapsulation = Some(4321);
    inside.send(&mut w, |p| p.heartbeat(b"x"));
    assert_eq!(w.path(0, one, 0).encapsulation, None);
    assert_eq!(w.path(0, two, 0).encapsulation, Some(4321));
}

/// RFC 9260, section 5.1
#[test]
fn hosts_sharing_address_and_port_are_limited() {
    let mut w = World::with(1, |_, _| {});
    w.discard_log = true;
    let mut last = None;
    for port in 1..=1024 {
        last = Some(join(&mut w, puppet(port)));
    }
    let refused = puppet(2000);
    let answers = refused.init(&mut w, |_| {});
    let tag = answers[0].init().tag;
    let cookie = Puppet::cookie(&answers[0]);
    let answers = refused.send_with_tag(&mut w, tag, |p| p.cookie_echo(&cookie));
    assert_eq!(answers[0].causes()[0].0, CauseCode::OUT_OF_RESOURCE);
    assert_eq!(w.ends[0].associations().count(), 1024);
    let (mut host, id) = last.unwrap();
    host.data(&mut w, 0, 0, b"hello");
    assert_eq!(w.receive_lengths(0, id), [5]);
    let gone = host.send(&mut w, |p| p.abort(false, |_| {}));
    assert!(gone.is_empty());
    let (_, new) = join(&mut w, refused);
    assert_ne!(new, id, "there is room again");
    let stray = puppet(77);
    assert!(
        stray
            .send_with_tag(&mut w, VerificationTag(9), |p| p.heartbeat(b"x"))
            .is_empty()
    );
}
