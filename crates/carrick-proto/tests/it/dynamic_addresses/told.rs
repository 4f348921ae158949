//! What INIT and INIT ACK say of addresses, and what they have no room for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use carrick_proto::{AssociationConfig, PathId};
use carrick_wire::{ChunkType, ParameterType};

use crate::common::*;
use crate::dynamic_addresses::support::*;

/// The second address of puppets that have two.
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 98));

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

/// A puppet has a second address. The user of endpoint 0 knows some of them; the INIT ACK tells both,
/// and which one the puppet prefers.
fn advised_by_init_ack(
    known: impl Fn([IpAddr; 2]) -> Vec<IpAddr>,
    preferred: IpAddr,
) -> (World, Puppet, carrick_proto::AssociationId) {
    let mut w = world_of(&open(), 1);
    let mut puppet = Puppet::new();
    let both = [puppet.link.from, SECOND];
    let id = w.begin_connect_from(0, &known(both), puppet.port);
    let sent = puppet.hear(&mut w);
    puppet.learn(&sent[0]);
    puppet.answer_init(&mut w, |p| {
        p.state_cookie(b"cookie");
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
        for address in both {
            p.ip_address(address);
        }
        p.set_primary_address(ONE, preferred);
    });
    puppet.say(&mut w, |p| p.cookie_ack());
    (w, puppet, id)
}

#[test]
fn a_preference_in_init_ack_is_advice_to_the_side_that_connects_5061_5_4() {
    let second = SECOND;
    let (mut w, puppet, id) = advised_by_init_ack(|both| both.to_vec(), second);
    assert_eq!(w.stats(0, id).primary, Some(PathId(1)));
    w.send(0, id, 0, pattern(10));
    assert_eq!(puppet.hear(&mut w)[0].to(), second);
}

#[test]
fn a_wildcard_preference_in_init_ack_means_where_it_came_from_5061_4_2_4() {
    for wildcard in ["0.0.0.0", "::"] {
        // The user knows another address than the one that answers.
        let (mut w, puppet, id) = advised_by_init_ack(|[_, second]| vec![second], ip(wildcard));
        w.run(ms(10));
        let mut beats = w.sent(0, ChunkType::HEARTBEAT).into_iter();
        let beat = beats.find(|s| s.to() == puppet.link.from);
        let beat = beat.expect("a HEARTBEAT").clone();
        puppet.hear(&mut w);
        puppet.answer_heartbeat(&mut w, &beat);
        w.send(0, id, 0, pattern(10));
        assert_eq!(puppet.hear(&mut w)[0].to(), puppet.link.from, "{wildcard}");
    }
}

/// The INIT ACK goes to the address that the user knows, whatever the INIT came from.
#[test]
fn a_wildcard_preference_in_init_means_where_it_came_from_5061_4_2_4() {
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
        puppet.learn(&answers[0]);
        let cookie = Puppet::cookie(&answers[0]);
        puppet.link.from = first;
        puppet.say(&mut w, |p| p.cookie_echo(&cookie));
        assert_eq!(state_name(&w.stats(0, id)), "Established");
        w.run(ms(10));
        let beats = w.sent(0, ChunkType::HEARTBEAT).into_iter();
        for beat in beats.cloned().collect::<Vec<_>>() {
            puppet.link.from = beat.to();
            puppet.answer_heartbeat(&mut w, &beat);
        }
        puppet.hear(&mut w);
        w.send(0, id, 0, pattern(10));
        let to = puppet.hear(&mut w)[0].to();
        assert_eq!(to == SECOND, taken, "{preferred:?}: {to}");
    }
}

#[test]
fn an_address_that_init_ack_had_no_room_for_is_told_though_another_went_meanwhile_5061_5_1() {
    let mut w = World::with(2, |e, c| {
        c.association = dynamic();
        c.association.max_paths = 200;
        c.local_addresses = many(e as u16, if e == 1 { 120 } else { 1 });
    });
    w.config = dynamic();
    w.config.max_paths = 200;
    let ours = many(1, 120);
    w.begin_connect(&ours[..1]);
    assert!(w.run_until(secs(2), |w| !w.sent(1, ChunkType::INIT_ACK).is_empty()));
    // As many as the length of the INIT allows, the one that goes among them.
    assert!((5..100).contains(&listed_in(&w, 1)));
    w.ends[1].local_address_removed(w.now, ours[4]);
    assert!(w.run_until(secs(2), |w| w.states() == [Some("Established"); 2]));
    let [a, b] = [0, 1].map(|e| w.only(e));
    w.run(secs(60));
    let known = remotes(&w, 0, a);
    let unknown: Vec<_> = ours.iter().filter(|a| !known.contains(a)).collect();
    assert_eq!(
        unknown,
        [&ours[4]],
        "it was told and went, which is told as well"
    );
    exchange(&mut w, a, b);
}

#[test]
fn an_address_that_goes_during_the_set_up_is_deleted_at_the_peer_5061_5_1() {
    for end in [0, 1] {
        let (mut w, ours) = (
            World::with(2, |_, c| c.association = dynamic()),
            addresses(end),
        );
        w.config = dynamic();
        w.begin_connect(&addresses(1)[..1]);
        let told = [ChunkType::INIT, ChunkType::INIT_ACK][end];
        assert!(w.run_until(secs(2), |w| !w.sent(end, told).is_empty()));
        w.ends[end].local_address_removed(w.now, ours[1]);
        assert!(w.run_until(secs(2), |w| w.states() == [Some("Established"); 2]));
        w.run(secs(5));
        let [a, b] = [0, 1].map(|e| w.only(e));
        let known = remotes(&w, 1 - end, [b, a][end]);
        assert_eq!(known, [ours[0]], "told by {end}");
        exchange(&mut w, a, b);
    }
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
