//! Addresses in INIT and INIT ACK, and those that do not fit.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use carrick_proto::{AssociationConfig, Endpoint, EndpointConfig, PathId};
use carrick_wire::{ChunkType, ParameterType};

use crate::common::*;
use crate::dynamic_addresses::support::*;

/// The second address of puppets that have two.
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 98));

fn many(end: u16, count: u16) -> Vec<IpAddr> {
    let address = |n| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, end, 0, 0, 0, n));
    (1..=count).map(address).collect()
}

/// Addresses that an endpoint listed in its INIT or INIT ACK.
fn listed_in(w: &World, end: usize) -> usize {
    let kind = [ChunkType::INIT, ChunkType::INIT_ACK][end];
    let parameters = w.sent(end, kind)[0].parameter_types();
    let addresses = parameters.iter();
    addresses
        .filter(|k| **k == ParameterType::IPV6_ADDRESS)
        .count()
}

/// RFC 5061, section 5.1
#[test]
fn addresses_omitted_in_init_are_added_by_asconf() {
    // The side that connects, and the side that answers.
    for end in [0, 1] {
        let mut w = World::with(2, |e, c| {
            c.association = dynamic();
            c.association.paths.max_paths = 200;
            c.local_addresses = many(e as u16, if e == end { 120 } else { 1 });
        });
        w.config = dynamic();
        w.config.paths.max_paths = 200;
        let peer = many(1, 1);
        w.lose(1 - end, ChunkType::ASCONF_ACK, 3);
        w.begin_connect(&peer);
        assert!(w.run_until(secs(2), |w| w.states() == [Some("Established"); 2]));
        let [a, b] = [0, 1].map(|e| w.association(e));
        let [id, other] = if end == 0 { [a, b] } else { [b, a] };
        // The addresses of the first ASCONF follow.
        let mut notified = remotes(&w, 1 - end, other);
        notified.truncate(listed_in(&w, end).max(1));
        assert!(notified.len() < 120, "not all fit: {}", notified.len());
        // Until it is acknowledged, nothing leaves from an address unknown to the peer.
        w.run(ms(500));
        let unlisted = |s: &&SentPacket| s.from == end && !notified.contains(&s.source());
        assert_eq!(w.log.iter().filter(unlisted).count(), 0);
        assert_eq!(remotes(&w, 1 - end, other).len(), notified.len() + 14);
        w.clear_rules();
        w.run(secs(60));
        assert_eq!(remotes(&w, 1 - end, other).len(), 120);
        assert_eq!(state_name(&w.stats(end, id)), "Established");
        exchange(&mut w, a, b);
    }
}

/// RFC 9260, section 5.2.2
#[test]
fn addresses_refused_at_a_restart_are_added_by_asconf() {
    let (mut w, a, _) = double();
    let third = ip("10.2.0.2");
    let mut local = addresses(1).to_vec();
    local.push(third);
    let mut config = EndpointConfig::new(port(1), local.clone(), [99; 32]);
    config.association = dynamic();
    w.ends[1] = Endpoint::new(config).unwrap();
    w.begin_connect_from(1, &[addresses(0)[0]], port(0));
    w.run(secs(2));
    let known = remotes(&w, 0, a);
    assert!(local.iter().all(|l| known.contains(l)), "{known:?}");
    let b = w.association(1);
    exchange(&mut w, a, b);
}

/// RFC 9260, section 5.1.2
#[test]
fn without_asconf_unlisted_addresses_send_nothing() {
    let mut w = World::with(2, |e, c| {
        c.association.paths.max_paths = 200;
        c.local_addresses = many(e as u16, if e == 0 { 120 } else { 1 });
    });
    w.begin_connect(&many(1, 1));
    assert!(w.run_until(secs(2), |w| w.states() == [Some("Established"); 2]));
    let [a, b] = [0, 1].map(|e| w.association(e));
    let notified = remotes(&w, 1, b);
    for gone in &notified[..notified.len() - 1] {
        w.block(*gone);
        w.ends[0].local_address_removed(w.now, *gone);
    }
    w.send(0, a, 0, pattern(500));
    w.run(secs(2));
    assert_eq!(w.receive_lengths(1, b), [500]);
    assert!(
        w.log
            .iter()
            .all(|s| s.from == 1 || notified.contains(&s.source()))
    );
}

/// RFC 5061, section 5.4
#[test]
fn a_primary_in_init_applies_when_verified() {
    for offered in [true, false] {
        let config = if offered {
            open()
        } else {
            AssociationConfig::rfc9260()
        };
        let mut w = world_of(&config, 1);
        let puppet = Puppet::new();
        let second = SECOND;
        let (mut puppet, id) = puppet.connect_with(&mut w, |p| {
            p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
            p.ip_address(second);
            p.set_primary_address(ONE, second);
        });
        let init_ack = w.sent(0, ChunkType::INIT_ACK)[0].clone();
        let reported = init_ack
            .parameter_types()
            .contains(&ParameterType::UNRECOGNIZED_PARAMETER);
        assert_eq!(reported, !offered);
        w.run(ms(10));
        puppet.receive(&mut w);
        w.send(0, id, 0, pattern(10));
        assert_eq!(
            puppet.receive(&mut w)[0].to(),
            puppet.link.from,
            "not verified"
        );
        puppet.sack(&mut w, puppet.endpoint_tsn(0), 1 << 20, &[]);
        let mut beat = w.sent(0, ChunkType::HEARTBEAT).into_iter();
        let beat = beat.find(|s| s.to() == second);
        let beat = beat.expect("a HEARTBEAT").clone();
        puppet.link.from = second;
        puppet.answer_heartbeat(&mut w, &beat);
        assert!(w.path(0, id, 1).status.confirmed);
        w.send(0, id, 0, pattern(10));
        let to = puppet.receive(&mut w)[0].to();
        assert_eq!(to == second, offered);
    }
}

/// A puppet has two addresses. The user of endpoint 0 knows some of them; the INIT ACK lists both,
/// and which one the puppet prefers.
fn advised_by_init_ack(
    known: impl Fn([IpAddr; 2]) -> Vec<IpAddr>,
    preferred: IpAddr,
) -> (World, Puppet, carrick_proto::AssociationId) {
    let mut w = world_of(&open(), 1);
    let mut puppet = Puppet::new();
    let both = [puppet.link.from, SECOND];
    let id = w.begin_connect_from(0, &known(both), puppet.port);
    let sent = puppet.receive(&mut w);
    puppet.record_init(&sent[0]);
    puppet.answer_init(&mut w, |p| {
        p.state_cookie(b"cookie");
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
        for address in both {
            p.ip_address(address);
        }
        p.set_primary_address(ONE, preferred);
    });
    puppet.send(&mut w, |p| p.cookie_ack());
    (w, puppet, id)
}

/// RFC 5061, section 5.4
#[test]
fn a_primary_in_init_ack_is_advice_to_the_client() {
    let second = SECOND;
    let (mut w, puppet, id) = advised_by_init_ack(|both| both.to_vec(), second);
    assert_eq!(w.stats(0, id).current, Some(PathId(1)));
    w.send(0, id, 0, pattern(10));
    assert_eq!(puppet.receive(&mut w)[0].to(), second);
}

/// RFC 5061, section 4.2.4
#[test]
fn a_wildcard_primary_in_init_ack_means_its_source() {
    for wildcard in ["0.0.0.0", "::"] {
        // The user knows another address than the one that answers.
        let (mut w, puppet, id) = advised_by_init_ack(|[_, second]| vec![second], ip(wildcard));
        w.run(ms(10));
        let mut beats = w.sent(0, ChunkType::HEARTBEAT).into_iter();
        let beat = beats.find(|s| s.to() == puppet.link.from);
        let beat = beat.expect("a HEARTBEAT").clone();
        puppet.receive(&mut w);
        puppet.answer_heartbeat(&mut w, &beat);
        w.send(0, id, 0, pattern(10));
        assert_eq!(
            puppet.receive(&mut w)[0].to(),
            puppet.link.from,
            "{wildcard}"
        );
    }
}

/// The INIT ACK is sent to the configured address of the peer, whatever the source of the INIT.
///
/// RFC 5061, section 4.2.4
#[test]
fn a_wildcard_primary_in_init_means_its_source() {
    for (preferred, taken) in [
        (None, false),
        (Some("0.0.0.0"), true),
        (Some("::"), true),
        (Some("10.0.0.98"), true),
        (Some("10.0.0.99"), false),
    ] {
        let mut w = world_of(&open(), 1);
        let mut puppet = Puppet::new();
        let first = puppet.link.from;
        let id = puppet.begin_accept(&mut w);
        puppet.link.from = SECOND;
        let answers = puppet.init(&mut w, |p| {
            p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
            for address in [first, SECOND] {
                p.ip_address(address);
            }
            if let Some(preferred) = preferred {
                p.set_primary_address(ONE, ip(preferred));
            }
        });
        assert_eq!(answers[0].to(), first);
        puppet.record_init(&answers[0]);
        let cookie = Puppet::cookie(&answers[0]);
        puppet.link.from = first;
        puppet.send(&mut w, |p| p.cookie_echo(&cookie));
        assert_eq!(state_name(&w.stats(0, id)), "Established");
        w.run(ms(10));
        let beats = w.sent(0, ChunkType::HEARTBEAT).into_iter();
        for beat in beats.cloned().collect::<Vec<_>>() {
            puppet.link.from = beat.to();
            puppet.answer_heartbeat(&mut w, &beat);
        }
        puppet.receive(&mut w);
        w.send(0, id, 0, pattern(10));
        let to = puppet.receive(&mut w)[0].to();
        assert_eq!(to == SECOND, taken, "{preferred:?}: {to}");
    }
}

/// RFC 5061, section 5.1
#[test]
fn an_address_omitted_in_init_ack_is_added() {
    let mut w = World::with(2, |e, c| {
        c.association = dynamic();
        c.association.paths.max_paths = 200;
        c.local_addresses = many(e as u16, if e == 1 { 120 } else { 1 });
    });
    w.config = dynamic();
    w.config.paths.max_paths = 200;
    let ours = many(1, 120);
    w.begin_connect(&ours[..1]);
    assert!(w.run_until(secs(2), |w| !w.sent(1, ChunkType::INIT_ACK).is_empty()));
    // As many as the length of the INIT allows, the one that goes among them.
    assert!((5..100).contains(&listed_in(&w, 1)));
    w.ends[1].local_address_removed(w.now, ours[4]);
    assert!(w.run_until(secs(2), |w| w.states() == [Some("Established"); 2]));
    let [a, b] = [0, 1].map(|e| w.association(e));
    w.run(secs(60));
    let known = remotes(&w, 0, a);
    let unknown: Vec<_> = ours.iter().filter(|a| !known.contains(a)).collect();
    assert_eq!(
        unknown,
        [&ours[4]],
        "the address is added and deleted again"
    );
    exchange(&mut w, a, b);
}

/// RFC 5061, section 5.1
#[test]
fn an_address_lost_during_set_up_is_deleted() {
    for end in [0, 1] {
        let (mut w, ours) = (
            World::with(2, |_, c| c.association = dynamic()),
            addresses(end),
        );
        w.config = dynamic();
        w.begin_connect(&addresses(1)[..1]);
        let notified = [ChunkType::INIT, ChunkType::INIT_ACK][end];
        assert!(w.run_until(secs(2), |w| !w.sent(end, notified).is_empty()));
        w.ends[end].local_address_removed(w.now, ours[1]);
        assert!(w.run_until(secs(2), |w| w.states() == [Some("Established"); 2]));
        w.run(secs(5));
        let [a, b] = [0, 1].map(|e| w.association(e));
        let known = remotes(&w, 1 - end, [b, a][end]);
        assert_eq!(known, [ours[0]], "listed by {end}");
        exchange(&mut w, a, b);
    }
}

/// RFC 5061, section 4.2.6
#[test]
fn the_adaptation_indication_reaches_the_user() {
    let mut w = World::with(2, |end, c| {
        c.association.adaptation_layer = (end == 1).then_some(7);
    });
    w.config.adaptation_layer = Some(0xfedc_ba98);
    let (a, b) = w.connect();
    assert_eq!(w.stats(0, a).peer_adaptation_layer, Some(7));
    assert_eq!(w.stats(1, b).peer_adaptation_layer, Some(0xfedc_ba98));
    let reported = w.sent(0, ChunkType::COOKIE_ECHO)[0].has(ChunkType::ERROR);
    assert!(!reported, "it is known");
    let mut w = World::new();
    let (a, b) = w.connect();
    assert_eq!(w.stats(0, a).peer_adaptation_layer, None);
    assert_eq!(w.stats(1, b).peer_adaptation_layer, None);
}
