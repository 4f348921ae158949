//! What INIT and INIT ACK say of addresses, and what they have no room for.

use std::net::{IpAddr, Ipv6Addr};

use carrick_proto::{AssociationConfig, PathId};
use carrick_wire::{ChunkType, ParameterType};

use crate::common::*;
use crate::support::*;

fn many(end: u16, count: u16) -> Vec<IpAddr> {
    let address = |n| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, end, 0, 0, 0, n));
    (1..=count).map(address).collect()
}

/// The addresses that a side has told in INIT or INIT ACK.
fn listed_in(w: &World, end: usize) -> usize {
    let kind = [ChunkType::INIT, ChunkType::INIT_ACK][end];
    let parameters = w.sent(end, kind)[0].parameter_types();
    let addresses = parameters.iter();
    addresses
        .filter(|k| **k == ParameterType::IPV6_ADDRESS)
        .count()
}

#[test]
fn addresses_that_init_has_no_room_for_are_told_by_asconf_5061_5_1() {
    // The side that connects, and the side that answers.
    for end in [0, 1] {
        let mut w = World::with(2, |e, c| {
            c.association = dynamic();
            c.association.max_paths = 200;
            c.local_addresses = many(e as u16, if e == end { 120 } else { 1 });
        });
        w.config = dynamic();
        w.config.max_paths = 200;
        let peer = many(1, 1);
        w.lose(1 - end, ChunkType::ASCONF_ACK, 3);
        w.begin_connect(&peer);
        assert!(w.run_until(secs(2), |w| w.states() == [Some("Established"); 2]));
        let [a, b] = [0, 1].map(|e| w.only(e));
        let [id, other] = if end == 0 { [a, b] } else { [b, a] };
        // Those of the first ASCONF come after them.
        let mut told = remotes(&w, 1 - end, other);
        told.truncate(listed_in(&w, end).max(1));
        assert!(told.len() < 120, "not all fit: {}", told.len());
        // Until it is answered, nothing leaves from one that the peer has not heard of.
        w.run(ms(500));
        let untold = |s: &&Seen| s.from == end && !told.contains(&s.source());
        assert_eq!(w.log.iter().filter(untold).count(), 0);
        assert_eq!(remotes(&w, 1 - end, other).len(), told.len() + 14);
        w.clear_rules();
        w.run(secs(60));
        assert_eq!(remotes(&w, 1 - end, other).len(), 120);
        assert_eq!(state_name(&w.stats(end, id)), "Established");
        exchange(&mut w, a, b);
    }
}

#[test]
fn without_asconf_nothing_leaves_from_an_address_that_was_not_told() {
    let mut w = World::with(2, |e, c| {
        c.association.max_paths = 200;
        c.local_addresses = many(e as u16, if e == 0 { 120 } else { 1 });
    });
    w.begin_connect(&many(1, 1));
    assert!(w.run_until(secs(2), |w| w.states() == [Some("Established"); 2]));
    let [a, b] = [0, 1].map(|e| w.only(e));
    let told = remotes(&w, 1, b);
    for gone in &told[..told.len() - 1] {
        w.kill(*gone);
        w.ends[0].local_address_removed(w.now, *gone);
    }
    w.send(0, a, 0, pattern(500));
    w.run(secs(2));
    assert_eq!(w.receive_lengths(1, b), [500]);
    assert!(
        w.log
            .iter()
            .all(|s| s.from == 1 || told.contains(&s.source()))
    );
}

#[test]
fn a_preference_in_init_is_taken_when_its_address_is_verified_5061_5_4() {
    for offered in [true, false] {
        let config = if offered {
            open()
        } else {
            AssociationConfig::default()
        };
        let mut w = world_of(&config, 1);
        let puppet = Puppet::new();
        let second = ip("10.0.0.98");
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
        puppet.hear(&mut w);
        w.send(0, id, 0, pattern(10));
        assert_eq!(
            puppet.hear(&mut w)[0].to(),
            puppet.link.from,
            "not verified"
        );
        puppet.sack(&mut w, puppet.theirs(0), 1 << 20, &[]);
        let mut beat = w.sent(0, ChunkType::HEARTBEAT).into_iter();
        let beat = beat.find(|s| s.to() == second);
        let beat = beat.expect("a HEARTBEAT").clone();
        puppet.link.from = second;
        puppet.answer_heartbeat(&mut w, &beat);
        assert!(w.path(0, id, 1).status.confirmed);
        w.send(0, id, 0, pattern(10));
        let to = puppet.hear(&mut w)[0].to();
        assert_eq!(to == second, offered);
    }
}

#[test]
fn a_preference_in_init_ack_is_advice_to_the_side_that_connects_5061_5_4() {
    let mut w = world_of(&open(), 1);
    w.config = open();
    let mut puppet = Puppet::new();
    let second = ip("10.0.0.98");
    let id = w.begin_connect_from(0, &[puppet.link.from, second], puppet.port);
    let sent = puppet.hear(&mut w);
    puppet.learn(&sent[0]);
    puppet.answer_init(&mut w, |p| {
        p.state_cookie(b"cookie");
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
        p.ip_address(puppet.link.from);
        p.ip_address(second);
        p.set_primary_address(ONE, second);
    });
    puppet.say(&mut w, |p| p.cookie_ack());
    assert_eq!(w.stats(0, id).primary, Some(PathId(1)));
    w.send(0, id, 0, pattern(10));
    assert_eq!(puppet.hear(&mut w)[0].to(), second);
}

#[test]
fn what_is_above_sctp_is_told_to_the_user_of_the_other_side_5061_4_2_6() {
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
