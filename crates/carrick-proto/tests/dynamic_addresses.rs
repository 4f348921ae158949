//! Addresses that come and go in the course of an association (RFC 5061).

mod common;

use std::net::IpAddr;

use carrick_proto::policy::{LossDetection, Policies};
use carrick_proto::{
    AddressEvent, AssociationConfig, AssociationId, CloseReason, Event, OperationError, PathId,
    Route,
};
use carrick_wire::{
    AsconfSerial, CauseCode, Chunk, ChunkType, CorrelationId, PacketBuilder, Parameter,
    ParameterType, ParameterWriter,
};
use common::*;

fn dynamic() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.extensions.authentication = true;
    config.extensions.dynamic_addresses = true;
    config
}

fn open() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.extensions.dynamic_addresses = true;
    config.dynamic_addresses_without_authentication = true;
    config
}

fn world_of(config: &AssociationConfig, homes: usize) -> World {
    let mut w = World::with(2, |_, c| {
        c.association = config.clone();
        c.local_addresses.truncate(homes);
    });
    w.config = config.clone();
    w
}

/// Each has one address, and one more to come.
fn single() -> (World, AssociationId, AssociationId) {
    let mut w = world_of(&dynamic(), 1);
    let (a, b) = w.connect();
    assert!(w.stats(0, a).extensions.dynamic_addresses);
    (w, a, b)
}

fn double() -> (World, AssociationId, AssociationId) {
    let mut w = world_of(&dynamic(), 2);
    let (a, b) = w.connect();
    (w, a, b)
}

fn remotes(w: &World, end: usize, id: AssociationId) -> Vec<IpAddr> {
    w.ends[end].paths(id).map(|p| p.remote).collect()
}

fn address_events(w: &mut World, end: usize) -> Vec<AddressEvent> {
    let events = w.events(end).into_iter();
    events
        .filter_map(|e| match e {
            Event::Address(event) => Some(event),
            _ => None,
        })
        .collect()
}

/// 100 messages each way arrive, once and in their order.
fn exchange(w: &mut World, a: AssociationId, b: AssociationId) {
    for n in 0..100 {
        w.send(0, a, 0, pattern(1000 + n));
        w.send(1, b, 0, pattern(500 + n));
    }
    w.run(secs(60));
    let lengths = |from: usize| (0..100).map(|n| from + n).collect::<Vec<_>>();
    assert_eq!(w.receive_lengths(1, b), lengths(1000));
    assert_eq!(w.receive_lengths(0, a), lengths(500));
}

// ---- The normal course ----

#[test]
fn a_new_address_is_told_verified_and_used_5_1() {
    let (mut w, a, b) = single();
    w.events(1);
    let new = addresses(0)[1];
    w.ends[0].local_address_added(new);
    w.run(secs(1));
    assert_eq!(remotes(&w, 1, b), addresses(0));
    assert!(w.path(1, b, 1).status.confirmed, "by HEARTBEAT (5.3, F14)");
    let asconfs = w.sent(0, ChunkType::ASCONF);
    assert_eq!(asconfs.len(), 1);
    assert_eq!(asconfs[0].kinds(), [ChunkType::AUTH, ChunkType::ASCONF]);
    let answers = w.sent(1, ChunkType::ASCONF_ACK);
    assert_eq!(answers[0].kinds(), [ChunkType::AUTH, ChunkType::ASCONF_ACK]);
    assert!(address_events(&mut w, 0).contains(&AddressEvent::LocalAdded(new)));
    let added = AddressEvent::PeerAdded {
        path: PathId(1),
        address: new,
    };
    assert!(address_events(&mut w, 1).contains(&added));
    w.ends[1].set_primary(w.now, b, PathId(1)).expect("primary");
    exchange(&mut w, a, b);
}

#[test]
fn serial_numbers_begin_with_the_initial_tsn_5_1() {
    let (mut w, _, _) = single();
    w.ends[0].local_address_added(addresses(0)[1]);
    w.run(secs(1));
    w.ends[0].local_address_removed(w.now, addresses(0)[1]);
    w.run(secs(1));
    let tsn = w.sent(0, ChunkType::INIT)[0].init().initial_tsn;
    let serials: Vec<u32> = asconfs(&w, 0).iter().map(|s| s.value()).collect();
    assert_eq!(serials, [tsn.value(), tsn.next().value()]);
}

fn asconfs(w: &World, end: usize) -> Vec<AsconfSerial> {
    let sent = w.sent(end, ChunkType::ASCONF);
    let chunks = sent.iter().flat_map(|p| p.chunks());
    chunks
        .filter_map(|c| match c {
            Chunk::Asconf(asconf) => Some(asconf.serial),
            _ => None,
        })
        .collect()
}

#[test]
fn a_removed_address_is_deleted_and_its_data_moves_at_once_5_3_f13() {
    data_moves_at_once(&Policies::default());
}

#[test]
fn with_rack_the_data_of_a_removed_address_moves_at_once_5_3_f13_8985() {
    data_moves_at_once(&Policies {
        loss_detection: LossDetection::Rack,
        tail_loss_probe: true,
        proportional_rate_reduction: true,
        undo_spurious: true,
        ..Policies::default()
    });
}

fn data_moves_at_once(policies: &Policies) {
    let mut config = dynamic();
    config.policies = *policies;
    let mut w = world_of(&config, 2);
    let (a, b) = w.connect();
    // The peer sends to the address that goes; nothing of it arrives there any more.
    for n in 0..4 {
        w.send(1, b, 0, pattern(1000 + n));
    }
    w.kill(addresses(0)[0]);
    w.pump();
    let begun = w.now;
    w.ends[0].local_address_removed(w.now, addresses(0)[0]);
    assert!(w.run_until(secs(1), |w| remotes(w, 1, b) == [addresses(0)[1]]));
    w.run(ms(300));
    assert_eq!(w.receive_lengths(0, a), [1000, 1001, 1002, 1003]);
    assert!(w.now - begun < ms(400), "without waiting for T3-rtx");
    let stats = w.stats(1, b);
    assert_eq!(stats.counters.t3_expirations, 0);
    let path = w.path(1, b, 1);
    assert_eq!(path.cwnd.max(4380), path.cwnd, "no congestion");
    let gone = AddressEvent::PeerRemoved {
        path: PathId(0),
        address: addresses(0)[0],
    };
    assert!(address_events(&mut w, 1).contains(&gone));
    assert_eq!(w.ends[1].path_stats(b, PathId(0)), None);
    exchange(&mut w, a, b);
}

#[test]
fn the_only_address_moves_and_the_association_goes_on_5_3_2() {
    for before_break in [true, false] {
        let (mut w, a, b) = single();
        for n in 0..40 {
            w.send(0, a, 0, pattern(5000 + n));
            w.send(1, b, 0, pattern(5000 + n));
        }
        w.run(ms(25));
        let [old, new] = addresses(0);
        if before_break {
            w.ends[0].local_address_added(new);
            w.run(ms(100));
        }
        w.kill(old);
        w.ends[0].local_address_removed(w.now, old);
        if !before_break {
            w.run(ms(300));
            let late = w.log.iter().filter(|p| p.from == 0 && p.source() == old);
            let last = late.map(|p| p.time).max().expect("packets");
            assert!(w.now - last >= ms(300), "nothing leaves from it (F4)");
            w.ends[0].local_address_added(new);
        }
        w.run(ms(500));
        assert_eq!(remotes(&w, 1, b), [new]);
        w.run(secs(20));
        let lengths: Vec<usize> = (0..40).map(|n| 5000 + n).collect();
        assert_eq!(w.receive_lengths(1, b), lengths);
        assert_eq!(w.receive_lengths(0, a), lengths);
        exchange(&mut w, a, b);
        assert_eq!(w.stats(0, a).authentication.forged_packets, 0);
    }
}

#[test]
fn loopback_is_nothing_to_fall_back_on_5_3() {
    let mut w = world_of(&dynamic(), 1);
    w.ends[0].local_address_added(ip("127.0.0.1"));
    let (a, b) = w.connect();
    let [old, new] = addresses(0);
    w.send(0, a, 0, pattern(20_000));
    w.run(ms(25));
    w.kill(old);
    w.ends[0].local_address_removed(w.now, old);
    w.run(ms(300));
    let from_loopback = w.log.iter().any(|p| p.source().is_loopback());
    assert!(!from_loopback, "the peer does not know that address");
    w.ends[0].local_address_added(new);
    w.run(secs(5));
    assert_eq!(remotes(&w, 1, b), [new]);
    assert_eq!(w.receive_lengths(1, b), [20_000]);
}

#[test]
fn an_address_that_comes_back_is_used_again_5_3() {
    let (mut w, a, b) = single();
    w.send(0, a, 0, pattern(20_000));
    w.run(ms(5));
    let own = addresses(0)[0];
    w.kill(own);
    w.ends[0].local_address_removed(w.now, own);
    w.run(ms(200));
    w.revive(own);
    w.ends[0].local_address_added(own);
    w.run(ms(200));
    assert_eq!(w.receive_lengths(1, b), [20_000]);
    assert!(w.sent(0, ChunkType::ASCONF).is_empty(), "the peer knows it");
    exchange(&mut w, a, b);
}

#[test]
fn an_address_that_comes_back_while_it_is_being_deleted_is_added_anew_5_3_f4() {
    let (mut w, a, b) = double();
    w.ends[0].set_primary(w.now, a, PathId(1)).expect("primary");
    w.lose(1, ChunkType::ASCONF_ACK, 3);
    let own = addresses(0)[0];
    w.ends[0].local_address_removed(w.now, own);
    w.run(ms(100));
    assert_eq!(remotes(&w, 1, b), [addresses(0)[1]]);
    let back = w.now;
    w.ends[0].local_address_added(own);
    // The path fails once: another local address is looked for.
    w.kill(addresses(1)[0]);
    w.send(0, a, 0, pattern(500));
    w.ends[0]
        .set_failure_threshold(w.now, a, PathId(0), 0)
        .expect("a threshold");
    for _ in 0..2 {
        w.ends[0]
            .request_heartbeat(w.now, a, PathId(0))
            .expect("a heartbeat");
        w.run(ms(1100));
    }
    w.revive(addresses(1)[0]);
    w.run(secs(60));
    let mut added = w.sent(0, ChunkType::ASCONF);
    let added = added.pop().expect("an ASCONF").time;
    let early = w.log.iter().filter(|p| p.from == 0 && p.source() == own);
    let early = early.filter(|p| p.time >= back && p.time <= added);
    assert_eq!(
        early.map(|p| p.kinds()).collect::<Vec<_>>(),
        Vec::<Vec<_>>::new()
    );
    assert_eq!(w.receive_lengths(1, b), [500]);
    assert_eq!(remotes(&w, 1, b).len(), 2);
    exchange(&mut w, a, b);
}

#[test]
fn an_abort_for_an_address_that_is_being_deleted_is_ignored_5_3_1() {
    let (mut w, a, _) = double();
    w.lose(1, ChunkType::ASCONF_ACK, 1);
    let own = addresses(0)[0];
    w.ends[0].local_address_removed(w.now, own);
    w.run(ms(100));
    let [tag, peer_tag] = [(1, ChunkType::INIT_ACK), (0, ChunkType::INIT)]
        .map(|(end, kind)| w.sent(end, kind)[0].init().tag);
    // From a peer that no longer knows the address, and from one that still does.
    for (tag, reflected) in [(tag, true), (peer_tag, false)] {
        let header = carrick_wire::CommonHeader {
            source_port: port(1),
            destination_port: port(0),
            tag,
        };
        let mut buf = Vec::new();
        let mut packet = PacketBuilder::new(&mut buf, header, 1400);
        packet.abort(reflected, |_| {});
        packet.finish();
        w.inject(0, &Route::plain(own, addresses(1)[0]), buf);
        assert_eq!(state_name(&w.stats(0, a)), "Established");
    }
}

#[test]
fn before_the_answer_a_new_address_is_the_source_of_asconf_only_5_3_f1() {
    let (mut w, a, b) = single();
    w.lose(1, ChunkType::ASCONF_ACK, 2);
    let [old, new] = addresses(0);
    w.send(0, a, 0, pattern(3000));
    w.send(1, b, 0, pattern(3000));
    w.kill(old);
    w.ends[0].local_address_removed(w.now, old);
    w.ends[0].local_address_added(new);
    w.run(secs(20));
    let mut answered = w.sent(1, ChunkType::ASCONF_ACK).into_iter();
    let answered = answered.find(|p| !p.lost).expect("an answer").time;
    let early = w.log.iter().filter(|p| p.from == 0 && p.source() == new);
    for packet in early.filter(|p| p.time < answered) {
        assert_eq!(packet.kinds(), [ChunkType::AUTH, ChunkType::ASCONF]);
    }
    assert_eq!(w.receive_lengths(1, b), [3000]);
    assert_eq!(w.receive_lengths(0, a), [3000]);
}

#[test]
fn nothing_but_the_answer_goes_to_a_new_address_before_it_is_verified_5_3_f1() {
    let (mut w, _, b) = single();
    let new = addresses(0)[1];
    // Heartbeats to the new address get lost.
    w.rule(move |seen| {
        let heartbeat = seen.from == 1 && seen.to() == new && seen.has(ChunkType::HEARTBEAT);
        if heartbeat { Fate::Drop } else { Fate::Pass }
    });
    w.ends[0].local_address_added(new);
    w.kill(addresses(0)[0]);
    w.ends[0].local_address_removed(w.now, addresses(0)[0]);
    w.send(1, b, 0, pattern(100));
    w.run(secs(3));
    let to_new = w.log.iter().filter(|p| p.from == 1 && p.to() == new);
    for packet in to_new {
        assert!(!packet.has(ChunkType::DATA), "{:?}", packet.kinds());
    }
    w.clear_rules();
    w.run(secs(30));
    let a = w.only(0);
    assert_eq!(w.receive_lengths(0, a), [100]);
}

#[test]
fn the_peer_sends_where_it_is_asked_to_5_4() {
    let (mut w, a, b) = double();
    w.ends[0]
        .set_peer_primary(w.now, a, addresses(0)[1])
        .expect("ask");
    w.run(secs(1));
    assert_eq!(w.stats(1, b).primary, Some(PathId(1)));
    let told = AddressEvent::PreferenceTold(addresses(0)[1]);
    assert!(address_events(&mut w, 0).contains(&told));
    assert_eq!(
        w.ends[0].set_peer_primary(w.now, a, ip("10.9.9.9")),
        Err(OperationError::UnknownAddress)
    );
}

#[test]
fn both_sides_move_at_once_5_1_1() {
    let (mut w, a, b) = double();
    for end in [0, 1] {
        w.ends[end].local_address_removed(w.now, addresses(end)[0]);
        w.kill(addresses(end)[0]);
    }
    w.run(secs(30));
    assert_eq!(remotes(&w, 0, a), [addresses(1)[1]]);
    assert_eq!(remotes(&w, 1, b), [addresses(0)[1]]);
    exchange(&mut w, a, b);
}

#[test]
fn numbers_of_paths_are_not_used_again_soon() {
    let (mut w, a, b) = single();
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..200_u8 {
        let new = IpAddr::from([10, 3, 0, 10 + n]);
        w.ends[0].local_address_added(new);
        w.run(ms(100));
        let path = w.ends[1].paths(b).last().expect("a path");
        assert_eq!(path.remote, new);
        assert!(seen.insert(path.id), "{:?} again", path.id);
        w.ends[0].local_address_removed(w.now, new);
        w.run(ms(100));
        assert_eq!(w.ends[1].paths(b).count(), 1);
    }
    for n in 0..200_u8 {
        let new = IpAddr::from([10, 3, 0, 10 + n]);
        w.ends[0].local_address_added(new);
        w.run(ms(60));
        w.ends[0].local_address_removed(w.now, new);
        w.run(ms(60));
    }
    exchange(&mut w, a, b);
}

#[test]
fn a_message_for_a_path_that_is_gone_takes_another_one() {
    let (mut w, a, b) = double();
    let options = carrick_proto::SendOptions {
        path: Some(PathId(0)),
        ..carrick_proto::SendOptions::on_stream(0)
    };
    for _ in 0..50 {
        w.send_with(1, b, options, pattern(1400));
    }
    w.run(ms(5));
    w.ends[0].local_address_removed(w.now, addresses(0)[0]);
    w.kill(addresses(0)[0]);
    w.run(secs(10));
    assert_eq!(w.receive_lengths(0, a), [1400; 50]);
}

// ---- A peer that lacks it ----

#[test]
fn without_it_at_the_peer_no_asconf_is_sent_4_2_7() {
    let mut w = World::with(2, |end, c| {
        c.local_addresses.truncate(1);
        if end == 0 {
            c.association = dynamic();
        }
    });
    w.config = dynamic();
    let (a, b) = w.connect();
    assert!(!w.stats(0, a).extensions.dynamic_addresses);
    w.ends[0].local_address_added(addresses(0)[1]);
    exchange(&mut w, a, b);
    assert!(w.sent(0, ChunkType::ASCONF).is_empty());
    let refused = w.ends[0].set_peer_primary(w.now, a, addresses(0)[0]);
    assert_eq!(refused, Err(OperationError::WrongState));
}

#[test]
fn without_authentication_it_is_not_offered_unless_the_user_wants_so_6() {
    let mut bare = dynamic();
    bare.extensions.authentication = false;
    let mut w = world_of(&bare, 1);
    let (a, _) = w.connect();
    assert!(!w.stats(0, a).extensions.dynamic_addresses);
    let mut w = world_of(&open(), 1);
    let (a, b) = w.connect();
    w.ends[0].local_address_added(addresses(0)[1]);
    w.run(secs(1));
    assert_eq!(remotes(&w, 1, b), addresses(0));
    assert!(w.sent(0, ChunkType::AUTH).is_empty());
    exchange(&mut w, a, b);
}

#[test]
fn a_peer_with_addresses_but_no_authentication_is_refused_6() {
    let mut w = world_of(&dynamic(), 1);
    let puppet = Puppet::new();
    let offer = |p: &mut ParameterWriter<'_>| {
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
    };
    let answers = puppet.init(&mut w, offer);
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    let mut puppet = Puppet::new();
    puppet.begin_accept(&mut w);
    puppet.answer_init(&mut w, |p| {
        p.state_cookie(b"cookie");
        offer(p);
    });
    assert!(w.sent(0, ChunkType::COOKIE_ECHO).is_empty());
    assert_eq!(w.ends[0].associations().count(), 0);
}

#[test]
fn a_peer_that_does_not_know_the_chunk_gets_no_more_of_them_5_1_a9() {
    let (mut w, puppet, id) = puppet();
    w.ends[0].local_address_added(addresses(0)[1]);
    let sent = puppet.hear(&mut w);
    assert!(sent[0].has(ChunkType::ASCONF));
    let chunk = [0xc1, 0, 0, 4];
    puppet.say(&mut w, |p| {
        p.error(|causes| causes.unrecognized_chunk(&chunk));
    });
    assert!(address_events(&mut w, 0).contains(&AddressEvent::NotSupported));
    w.ends[0].local_address_added(ip("10.2.0.1"));
    w.run(secs(20));
    assert_eq!(w.sent(0, ChunkType::ASCONF).len(), 1);
    assert_eq!(w.stats(0, id).error_count, 0);
}

// ---- Loss ----

#[test]
fn each_lost_chunk_is_sent_again_unchanged_5_1_b4() {
    for (end, kind) in [(0, ChunkType::ASCONF), (1, ChunkType::ASCONF_ACK)] {
        let (mut w, a, b) = double();
        w.lose(end, kind, 3);
        w.ends[0].local_address_added(ip("10.2.0.1"));
        w.run(secs(1));
        w.ends[0].local_address_added(ip("10.2.0.2"));
        w.run(secs(40));
        let first: Vec<Vec<u8>> = w
            .sent(0, ChunkType::ASCONF)
            .iter()
            .take(4)
            .map(|p| asconf_bytes(p))
            .collect();
        assert!(first.windows(2).all(|w| w[0] == w[1]), "the same content");
        let all = w.sent(0, ChunkType::ASCONF);
        assert_ne!(all[0].to(), all[1].to(), "to another address");
        assert_eq!(asconfs(&w, 0).len(), 5, "and then the second change");
        assert_eq!(remotes(&w, 1, b).len(), 4);
        assert_eq!(w.stats(0, a).error_count, 0, "A5");
    }
}

fn asconf_bytes(seen: &Seen) -> Vec<u8> {
    let packet = seen.packet();
    let raw = packet.chunks().flatten();
    let found = raw.into_iter().find(|c| c.kind == ChunkType::ASCONF);
    found.expect("an ASCONF").bytes.to_vec()
}

#[test]
fn an_asconf_that_is_never_answered_ends_the_association_5_1_b2() {
    let (mut w, _, _) = single();
    w.lose(0, ChunkType::ASCONF, 1000);
    w.lose(0, ChunkType::HEARTBEAT, 1000);
    w.ends[0].local_address_added(addresses(0)[1]);
    w.run(secs(1000));
    let closed = Event::Closed(CloseReason::PeerUnreachable);
    assert!(w.events(0).contains(&closed));
}

// ---- Misuse ----

/// A puppet with dynamic addresses that needs no authentication.
fn puppet() -> (World, Puppet, AssociationId) {
    puppet_with(&open())
}

fn puppet_with(config: &AssociationConfig) -> (World, Puppet, AssociationId) {
    let mut w = world_of(config, 1);
    let mut puppet = Puppet::new();
    let answers = puppet.init(&mut w, |p| {
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
    });
    puppet.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    puppet.say(&mut w, |p| p.cookie_echo(&cookie));
    w.events(0);
    let id = w.only(0);
    (w, puppet, id)
}

const ONE: CorrelationId = CorrelationId(1);
const TWO: CorrelationId = CorrelationId(2);

/// Sends an ASCONF with this serial number, counted from the first.
fn say(
    w: &mut World,
    puppet: &Puppet,
    number: u32,
    requests: impl FnOnce(&mut ParameterWriter<'_>),
) -> Vec<Seen> {
    let serial = AsconfSerial::new(puppet.tsn.plus(number).value());
    let from = puppet.link.from;
    puppet.say(w, |p| p.asconf(serial, from, requests))
}

/// The causes in the answer, with what they belong to; `None` for a success.
fn answers(seen: &[Seen]) -> Vec<(CorrelationId, Option<CauseCode>)> {
    let chunks = seen.iter().flat_map(|p| p.chunks());
    let acks = chunks.filter_map(|c| match c {
        Chunk::AsconfAck(ack) => Some(ack.parameters().collect::<Vec<_>>()),
        _ => None,
    });
    acks.flatten()
        .map(|p| match Parameter::parse(p.expect("an answer").raw) {
            Ok(Parameter::ErrorCauseIndication(mut e)) => {
                let cause = e.causes.next().expect("a cause").expect("well formed");
                (e.correlation_id, Some(cause.code))
            }
            Ok(Parameter::SuccessIndication(id)) => (id, None),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn acks(seen: &[Seen]) -> usize {
    seen.iter().filter(|p| p.has(ChunkType::ASCONF_ACK)).count()
}

#[test]
fn only_the_next_serial_number_is_acted_on_and_old_ones_are_answered_alike_5_2() {
    let (mut w, puppet, id) = puppet();
    let add = |address: &'static str| {
        move |p: &mut ParameterWriter<'_>| p.add_ip_address(ONE, ip(address))
    };
    assert_eq!(acks(&say(&mut w, &puppet, 1, add("10.0.0.101"))), 0, "E5");
    assert_eq!(acks(&say(&mut w, &puppet, u32::MAX, add("10.0.0.101"))), 0);
    assert_eq!(remotes(&w, 0, id).len(), 1);
    let first = say(&mut w, &puppet, 0, add("10.0.0.101"));
    assert_eq!((acks(&first), remotes(&w, 0, id).len()), (1, 2));
    // A replay, even with other content, gets the answer that was kept.
    let again = say(&mut w, &puppet, 0, add("10.0.0.102"));
    assert_eq!((acks(&again), remotes(&w, 0, id).len()), (1, 2));
    assert_eq!(acks(&say(&mut w, &puppet, 1, add("10.0.0.102"))), 1);
    assert_eq!(acks(&say(&mut w, &puppet, 0, add("10.0.0.101"))), 0, "E1");
    assert_eq!(remotes(&w, 0, id).len(), 3);
}

#[test]
fn the_last_address_and_the_source_are_not_deleted_5_3_f7_f8() {
    let (mut w, puppet, id) = puppet();
    let own = puppet.link.from;
    let last = say(&mut w, &puppet, 0, |p| p.delete_ip_address(ONE, own));
    assert_eq!(
        answers(&last),
        [(ONE, Some(CauseCode::DELETE_LAST_ADDRESS))]
    );
    let source = say(&mut w, &puppet, 1, |p| {
        p.add_ip_address(ONE, ip("10.0.0.101"));
        p.delete_ip_address(TWO, own);
    });
    assert_eq!(
        answers(&source),
        [(TWO, Some(CauseCode::DELETE_SOURCE_ADDRESS))]
    );
    let unknown = say(&mut w, &puppet, 2, |p| {
        p.delete_ip_address(ONE, ip("10.0.0.102"));
        p.set_primary_address(TWO, ip("10.0.0.101"));
    });
    let expected = [(ONE, Some(CauseCode::UNRESOLVABLE_ADDRESS)), (TWO, None)];
    assert_eq!(
        answers(&unknown),
        expected,
        "A7: a success is told behind a failure"
    );
    assert_eq!(remotes(&w, 0, id).len(), 2);
}

#[test]
fn addresses_that_can_be_nobodys_are_refused_5_2() {
    let (mut w, puppet, id) = puppet();
    for (n, odd) in ["224.0.0.1", "255.255.255.255", "127.0.0.1", "2001:db8::1"]
        .into_iter()
        .enumerate()
    {
        let answer = say(&mut w, &puppet, n as u32, |p| {
            p.add_ip_address(ONE, ip(odd))
        });
        assert_eq!(
            answers(&answer),
            [(ONE, Some(CauseCode::UNRESOLVABLE_ADDRESS))],
            "{odd}"
        );
    }
    assert_eq!(remotes(&w, 0, id).len(), 1);
}

#[test]
fn once_there_is_no_room_all_that_follows_is_refused_5_3_f11() {
    let mut config = open();
    config.max_paths = 2;
    let (mut w, puppet, id) = puppet_with(&config);
    let [one, two] = [ip("10.0.0.101"), ip("10.0.0.102")];
    let answer = say(&mut w, &puppet, 0, |p| {
        p.add_ip_address(ONE, one);
        p.add_ip_address(TWO, two);
        p.delete_ip_address(CorrelationId(3), one);
        p.set_primary_address(CorrelationId(4), one);
    });
    let shortage = Some(CauseCode::RESOURCE_SHORTAGE);
    let expected = [
        (TWO, shortage),
        (CorrelationId(3), shortage),
        (CorrelationId(4), None),
    ];
    assert_eq!(answers(&answer), expected);
    assert_eq!(remotes(&w, 0, id), [puppet.link.from, one]);
}

#[test]
fn requests_that_are_not_known_are_reported_5_2_v2() {
    let (mut w, puppet, id) = puppet();
    let answer = say(&mut w, &puppet, 0, |p| {
        p.raw(ParameterType(0xc0f0), &[0, 0, 0, 1, 9, 9]);
        p.raw(ParameterType(0x80f0), &[0, 0, 0, 2]);
        p.add_ip_address(TWO, ip("10.0.0.101"));
    });
    let unknown = Some(CauseCode::UNRECOGNIZED_PARAMETERS);
    assert_eq!(answers(&answer), [(ONE, unknown), (TWO, None)]);
    assert_eq!(remotes(&w, 0, id).len(), 2);
    let stopped = say(&mut w, &puppet, 1, |p| {
        p.raw(ParameterType(0x40f0), &[0, 0, 0, 1]);
        p.delete_ip_address(TWO, ip("10.0.0.101"));
    });
    assert_eq!(answers(&stopped), [(ONE, unknown)]);
    assert_eq!(remotes(&w, 0, id).len(), 2);
}

#[test]
fn absurd_lengths_do_nothing_5_2() {
    let (mut w, puppet, id) = puppet();
    let serial = puppet.tsn.value().to_be_bytes();
    let address = [0, 5, 0, 8, 10, 0, 0, 99];
    for tail in [
        &[0xc0, 1, 0xff, 0xff, 0, 0, 0, 1][..],
        &[0xc0, 1, 0, 0, 0, 0, 0, 1],
        &[0xc0, 1, 0, 3],
        &[0xc0, 1, 0, 8, 0, 0, 0, 1],
        &[0xc0, 1, 0, 16, 0, 0, 0, 1, 0, 5, 0, 200, 1, 2, 3, 4],
        &[0xc0, 1, 0, 15, 0, 0, 0, 1, 0, 5, 0, 7, 1, 2, 3],
    ] {
        let value = [&serial[..], &address, tail].concat();
        puppet.say(&mut w, |p| p.raw(ChunkType::ASCONF, 0, &value));
        assert_eq!(remotes(&w, 0, id), [puppet.link.from]);
    }
    for short in [&[][..], &serial, &[&serial[..], &address[..5]].concat()] {
        puppet.say(&mut w, |p| p.raw(ChunkType::ASCONF, 0, short));
        puppet.say(&mut w, |p| p.raw(ChunkType::ASCONF_ACK, 0, short));
    }
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    // As many requests as fit into the largest packet: the answer fits into a small one.
    let answer = say(&mut w, &puppet, 1, |p| {
        for n in 0..3000 {
            p.delete_ip_address(CorrelationId(n), ip("10.9.0.1"));
        }
    });
    assert!(answer.iter().all(|p| p.bytes.len() <= 1480));
    assert_eq!(state_name(&w.stats(0, id)), "Established");
}

#[test]
fn an_answer_to_nothing_ends_the_association_and_an_old_one_does_not_5_3_f0() {
    let (mut w, puppet, id) = puppet();
    let ours = AsconfSerial::new(puppet.peer_tsn.value());
    puppet.say(&mut w, |p| p.asconf_ack(ours.previous(), |_| {}));
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    puppet.say(&mut w, |p| p.asconf_ack(ours, |_| {}));
    let closed = w.events(0).into_iter().find_map(|e| match e {
        Event::Closed(CloseReason::AbortedByProtocol(cause)) => Some(cause.code),
        _ => None,
    });
    assert_eq!(closed, Some(CauseCode::ILLEGAL_ASCONF_ACK.0));
}

#[test]
fn a_refused_address_is_not_used_and_not_asked_for_again_5_3_f10() {
    let (mut w, puppet, id) = puppet();
    w.ends[0].local_address_added(addresses(0)[1]);
    let sent = puppet.hear(&mut w);
    let request = sent[0].chunks().into_iter().find_map(|c| match c {
        Chunk::Asconf(a) => Some((a.serial, a.parameters().next()?.ok()?.correlation_id)),
        _ => None,
    });
    let (serial, correlation) = request.expect("a request");
    puppet.say(&mut w, |p| {
        p.asconf_ack(serial, |p| {
            p.error_cause_indication(correlation, |c| c.resource_shortage(&[]));
        });
    });
    let refused = address_events(&mut w, 0).into_iter().any(|e| {
        matches!(e, AddressEvent::Refused { address, code }
            if address == addresses(0)[1] && code == CauseCode::RESOURCE_SHORTAGE.0)
    });
    assert!(refused);
    w.run(secs(5));
    assert_eq!(w.sent(0, ChunkType::ASCONF).len(), 1);
    assert_eq!(w.path(0, id, 0).local, Some(addresses(0)[0]));
}

#[test]
fn an_asconf_without_authentication_drops_the_rest_of_its_packet_5_2_d5() {
    let (mut w, a, b) = double();
    let forged = {
        let tag = w.sent(1, ChunkType::INIT_ACK)[0].init().tag;
        let tsn = w.sent(0, ChunkType::INIT)[0].init().initial_tsn;
        let mut buf = Vec::new();
        let header = carrick_wire::CommonHeader {
            source_port: port(0),
            destination_port: port(1),
            tag,
        };
        let mut packet = PacketBuilder::new(&mut buf, header, 1400);
        let known = addresses(0)[0];
        packet.asconf(AsconfSerial::new(tsn.value()), known, |p| {
            p.add_ip_address(ONE, ip("10.66.6.6"));
            p.delete_ip_address(TWO, addresses(0)[1]);
        });
        packet.abort(false, |_| {});
        packet.finish();
        buf
    };
    let before = remotes(&w, 1, b);
    for source in [addresses(0)[0], ip("10.66.6.6")] {
        let route = Route::plain(addresses(1)[0], source);
        w.inject(1, &route, forged.clone());
    }
    w.run(secs(1));
    assert_eq!(remotes(&w, 1, b), before);
    assert_eq!(state_name(&w.stats(1, b)), "Established");
    assert_eq!(w.stats(1, b).authentication.unauthenticated_chunks, 2);
    exchange(&mut w, a, b);
}

#[test]
fn a_deleted_address_is_out_of_the_blue_and_its_abort_is_ignored_5_3_f4_f13() {
    let (mut w, a, b) = double();
    let [old, _] = addresses(0);
    w.ends[0].local_address_removed(w.now, old);
    w.run(secs(1));
    let strays = w.ends[1].stats().out_of_the_blue;
    let tag = w.sent(1, ChunkType::INIT_ACK)[0].init().tag;
    let mut buf = Vec::new();
    let header = carrick_wire::CommonHeader {
        source_port: port(0),
        destination_port: port(1),
        tag,
    };
    let mut packet = PacketBuilder::new(&mut buf, header, 1400);
    packet.abort(false, |_| {});
    packet.finish();
    w.inject(1, &Route::plain(addresses(1)[0], old), buf);
    assert_eq!(w.ends[1].stats().out_of_the_blue, strays + 1);
    exchange(&mut w, a, b);
}

// ---- Behind a NAT ----

#[test]
fn behind_a_nat_the_source_address_stands_for_the_new_one_4_2_1() {
    let mut config = dynamic();
    config.wildcard_addresses = true;
    let mut w = world_of(&config, 1);
    let (a, b) = w.connect();
    let [old, new] = addresses(0);
    w.kill(old);
    w.ends[0].local_address_removed(w.now, old);
    w.ends[0].local_address_added(new);
    w.run(secs(2));
    let asconf = w.sent(0, ChunkType::ASCONF)[0].clone();
    let unspecified = asconf.chunks().into_iter().any(|c| match c {
        Chunk::Asconf(asconf) => asconf.address.is_unspecified(),
        _ => false,
    });
    assert!(unspecified, "found by the verification tag");
    assert_eq!(remotes(&w, 1, b), [new]);
    exchange(&mut w, a, b);
}

#[test]
fn a_wildcard_deletes_all_but_the_source_4_2_2() {
    let (mut w, puppet, id) = puppet();
    say(&mut w, &puppet, 0, |p| {
        p.add_ip_address(ONE, ip("10.0.0.101"));
        p.add_ip_address(TWO, ip("10.0.0.102"));
    });
    assert_eq!(remotes(&w, 0, id).len(), 3);
    let answer = say(&mut w, &puppet, 1, |p| {
        p.delete_ip_address(ONE, ip("0.0.0.0"))
    });
    assert_eq!(answers(&answer), []);
    assert_eq!(remotes(&w, 0, id), [puppet.link.from]);
    // From an address that is not the association's there is nothing left to keep.
    let serial = AsconfSerial::new(puppet.tsn.plus(2).value());
    let mut other = puppet.clone();
    other.link.from = ip("10.0.0.103");
    let answer = other.say(&mut w, |p| {
        p.asconf(serial, puppet.link.from, |p| {
            p.delete_ip_address(ONE, ip("0.0.0.0"))
        });
    });
    assert_eq!(
        answers(&answer),
        [(ONE, Some(CauseCode::DELETE_LAST_ADDRESS))]
    );
    assert_eq!(answer[0].to(), other.link.from, "E6: back to the source");
}
