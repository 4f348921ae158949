//! Several paths: verification, heartbeats, failure, source addresses (RFC 9260 sections 5.4, 6.3,
//! 6.4, 8; RFC 6951 section 5.4).

mod common;

use std::collections::BTreeMap;
use std::net::IpAddr;

use carrick_proto::{
    AssociationId, CloseReason, Event, OperationError, PathId, Route, SendOptions, Transmit,
};
use carrick_wire::{Chunk, ChunkType, ParameterType, VerificationTag};
use common::*;

const SECOND: &str = "10.1.0.99";

/// A puppet with two addresses in an association of endpoint 0; the second is not verified.
fn two_homed(w: &mut World) -> (Puppet, AssociationId) {
    many_homed(w, &[ip(SECOND)])
}

fn many_homed(w: &mut World, more: &[IpAddr]) -> (Puppet, AssociationId) {
    let mut peer = Puppet::new();
    let answers = peer.init(w, |p| more.iter().for_each(|a| p.ip_address(*a)));
    peer.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    // What follows the COOKIE ACK, such as heartbeats, stays to be heard.
    let bytes = peer.build(peer.peer_tag, |p| p.cookie_echo(&cookie));
    w.inject(0, &peer.route(), bytes);
    w.run(ms(0));
    let id = w.only(0);
    w.events(0);
    (peer, id)
}

/// All addresses of endpoint 1 are dead.
fn kill_all(w: &mut World) {
    for address in addresses(1) {
        w.kill(address);
    }
}

/// The puppet at its second address.
fn at_second(peer: &Puppet) -> Puppet {
    let mut second = peer.clone();
    second.link.from = ip(SECOND);
    second.link.to = addresses(0)[1];
    second
}

fn heartbeats(packets: &[Seen]) -> Vec<&Seen> {
    packets
        .iter()
        .filter(|p| p.has(ChunkType::HEARTBEAT))
        .collect()
}

/// The puppet's second address is verified.
fn verified(w: &mut World) -> (Puppet, AssociationId) {
    let (peer, id) = two_homed(w);
    let heard = peer.hear(w);
    let heartbeat = heartbeats(&heard)[0].clone();
    at_second(&peer).answer_heartbeat(w, &heartbeat);
    assert_eq!(w.events(0), [Event::PathConfirmed(PathId(1))]);
    (peer, id)
}

#[test]
fn an_address_that_was_not_given_is_verified_with_a_nonce_5_4() {
    let mut w = World::new();
    let (peer, id) = two_homed(&mut w);
    assert!(!w.path(0, id, 1).status.confirmed);
    let heard = peer.hear(&mut w);
    let sent = heartbeats(&heard);
    assert_eq!(sent.len(), 1, "at once");
    assert_eq!(
        (sent[0].to(), sent[0].source()),
        (ip(SECOND), addresses(0)[1])
    );
    let info = sent[0].heartbeat_info().unwrap();
    assert!(info.len() >= 8, "a 64-bit nonce and the path");
    let second = at_second(&peer);
    // One bit wrong anywhere, nothing at all, something longer.
    let mut wrong: Vec<Vec<u8>> = (0..info.len() * 8)
        .map(|bit| {
            let mut bad = info.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            bad
        })
        .collect();
    wrong.push(Vec::new());
    wrong.push([&info[..], &[0]].concat());
    for bad in wrong {
        let mut value = vec![0, 1, 0, 4 + bad.len() as u8];
        value.extend_from_slice(&bad);
        second.say(&mut w, |p| p.heartbeat_ack(&value));
        assert!(!w.path(0, id, 1).status.confirmed);
    }
    second.answer_heartbeat(&mut w, sent[0]);
    assert!(w.path(0, id, 1).status.confirmed);
    assert_eq!(w.events(0), [Event::PathConfirmed(PathId(1))]);
}

#[test]
fn an_address_that_is_not_verified_gets_no_data_5_4() {
    let mut w = World::new();
    let (peer, id) = two_homed(&mut w);
    let to_second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    for _ in 0..5 {
        w.send_with(0, id, to_second, pattern(1400));
    }
    // Timeouts look for an alternate; there is none that is verified.
    w.run(secs(30));
    let heard = peer.hear(&mut w);
    for packet in heard.iter().filter(|p| p.to() == ip(SECOND)) {
        assert_eq!(packet.kinds(), [ChunkType::HEARTBEAT]);
    }
    assert!(heard.iter().filter(|p| p.has(ChunkType::DATA)).count() > 5);
    assert_eq!(
        w.ends[0].set_primary(w.now, id, PathId(1)),
        Ok(()),
        "it becomes the primary when it is verified"
    );
    w.run(secs(5));
    let heard = peer.hear(&mut w);
    assert!(
        heard
            .iter()
            .all(|p| p.to() != ip(SECOND) || !p.has(ChunkType::DATA))
    );
}

#[test]
fn sacks_and_errors_for_data_from_an_unverified_address_go_to_a_verified_one_5_4() {
    let mut w = World::new();
    let (peer, _) = two_homed(&mut w);
    let mut second = at_second(&peer);
    for ssn in 0..4 {
        for answer in second.data(&mut w, 0, ssn, b"from there") {
            assert_eq!(answer.to(), ip("10.0.0.99"));
        }
    }
    for answer in second.data(&mut w, 99, 0, b"no such stream") {
        assert_eq!(answer.to(), ip("10.0.0.99"));
    }
    // A HEARTBEAT is answered even there.
    let answers = second.say(&mut w, |p| p.heartbeat(b"who is there"));
    assert_eq!(
        (answers[0].to(), answers[0].kinds()),
        (ip(SECOND), vec![ChunkType::HEARTBEAT_ACK])
    );
}

#[test]
fn hb_max_burst_limits_the_heartbeats_of_a_verification_5_4() {
    for burst in [1, 2, 3] {
        let mut w = World::with(1, |_, c| c.association.hb_max_burst = burst);
        let more: Vec<IpAddr> = (0..6).map(|i| ip(&format!("10.0.0.{}", 100 + i))).collect();
        let (peer, _) = many_homed(&mut w, &more);
        let began = w.now;
        w.run(secs(6));
        let heard = peer.hear(&mut w);
        let mut by_second: BTreeMap<u64, u32> = BTreeMap::new();
        for packet in heartbeats(&heard) {
            let second = (packet.time - began).as_millis() as u64 / 1000;
            *by_second.entry(second).or_default() += 1;
        }
        assert!(
            by_second.values().all(|n| *n <= burst),
            "burst {burst}: {by_second:?}"
        );
        let to: std::collections::BTreeSet<IpAddr> =
            heartbeats(&heard).iter().map(|p| p.to()).collect();
        assert_eq!(to.len(), 6, "each was tried");
    }
}

#[test]
fn an_address_that_does_not_answer_its_verification_fails_alone_5_4() {
    let mut w = World::new();
    let (peer, id) = two_homed(&mut w);
    let main = peer.clone();
    w.run(secs(200));
    assert!(w.events(0).contains(&Event::PathFailed(PathId(1))));
    let _ = main;
    let before = w.stats(0, id).error_count;
    assert!(before <= 6, "only those of the primary count: {before}");
    // The normal rate now.
    let heard = peer.hear(&mut w);
    let times: Vec<_> = heartbeats(&heard)
        .iter()
        .filter(|p| p.to() == ip(SECOND))
        .map(|p| p.time)
        .collect();
    let early: Vec<_> = times.windows(2).map(|t| t[1] - t[0]).take(4).collect();
    assert!(
        early.iter().all(|d| *d < secs(20)),
        "once an RTO: {early:?}"
    );
    let late = *times.last().unwrap() - times[times.len() - 2];
    assert!(late >= secs(30), "{late:?}");
}

#[test]
fn idle_paths_are_probed_every_hb_interval_plus_rto_with_jitter_8_3() {
    let mut w = World::new();
    w.connect();
    w.run(secs(10));
    w.log.clear();
    w.run(secs(4000));
    for to in addresses(1) {
        let times: Vec<_> = w
            .sent(0, ChunkType::HEARTBEAT)
            .iter()
            .filter(|p| p.to() == to)
            .map(|p| p.time)
            .collect();
        assert!(times.len() > 100, "{} heartbeats to {to}", times.len());
        let gaps: Vec<_> = times.windows(2).map(|t| t[1] - t[0]).collect();
        assert!(
            gaps.iter().all(|g| *g >= ms(30_500) && *g < ms(31_500)),
            "{gaps:?}"
        );
        let spread = gaps
            .iter()
            .max()
            .unwrap()
            .abs_diff(*gaps.iter().min().unwrap());
        assert!(spread > ms(700), "jitter of an RTO: {spread:?}");
    }
    let a = w.only(0);
    let path = w.path(0, a, 0);
    assert_eq!(path.srtt, Some(ms(20)), "measured by heartbeats");
    assert_eq!(path.heartbeats_sent, path.heartbeats_answered);
}

#[test]
fn a_path_with_data_needs_no_heartbeats_8_3() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.log.clear();
    for _ in 0..200 {
        w.send(0, a, 0, pattern(10));
        w.run(secs(1));
        w.receive(1, b);
    }
    let to: Vec<_> = w
        .sent(0, ChunkType::HEARTBEAT)
        .iter()
        .map(|p| p.to())
        .collect();
    assert!(!to.contains(&addresses(1)[0]), "busy");
    assert!(to.contains(&addresses(1)[1]), "idle");
}

#[test]
fn heartbeats_can_be_switched_off_and_asked_for_11_1_9() {
    let mut w = World::new();
    let (a, _) = w.connect();
    for path in [0, 1] {
        w.ends[0]
            .set_heartbeat(w.now, a, PathId(path), false)
            .unwrap();
    }
    w.run(secs(100));
    w.log.clear();
    w.run(secs(500));
    assert_eq!(w.sent(0, ChunkType::HEARTBEAT).len(), 0);
    w.ends[0].request_heartbeat(w.now, a, PathId(1)).unwrap();
    w.run(secs(1));
    let sent = w.sent(0, ChunkType::HEARTBEAT);
    assert_eq!((sent.len(), sent[0].to()), (1, addresses(1)[1]));
    w.ends[0].set_heartbeat(w.now, a, PathId(0), true).unwrap();
    w.run(secs(100));
    assert!(w.sent(0, ChunkType::HEARTBEAT).len() >= 3);
    let unknown = PathId(7);
    assert_eq!(
        w.ends[0].request_heartbeat(w.now, a, unknown),
        Err(OperationError::UnknownPath)
    );
    assert_eq!(
        w.ends[0].set_heartbeat(w.now, a, unknown, true),
        Err(OperationError::UnknownPath)
    );
}

#[test]
fn operations_before_the_set_up_are_refused() {
    let mut w = World::new();
    w.kill(addresses(1)[0]);
    let a = w.begin_connect(&[addresses(1)[0]]);
    assert_eq!(
        w.ends[0].request_heartbeat(w.now, a, PathId(0)),
        Err(OperationError::WrongState)
    );
}

#[test]
fn a_heartbeat_is_answered_unchanged_the_way_it_came_8_3() {
    let mut w = World::new();
    let (peer, _) = two_homed(&mut w);
    // To the other local address than the path uses.
    let mut odd = peer.clone();
    odd.link.to = addresses(0)[1];
    let mut value = vec![0x00, 0x01, 0x00, 0x07, b'a', b'b', b'c', 0];
    value.extend_from_slice(&[0xc0, 0x55, 0x00, 0x06, 1, 2, 0, 0]);
    let answers = odd.say(&mut w, |p| p.raw(ChunkType::HEARTBEAT, 0, &value));
    assert_eq!(answers.len(), 1);
    assert_eq!(
        (answers[0].source(), answers[0].to()),
        (addresses(0)[1], peer.link.from),
        "from the address that was addressed"
    );
    let chunks = answers[0].chunks();
    let Chunk::HeartbeatAck(ack) = &chunks[0] else {
        panic!("{chunks:?}")
    };
    assert_eq!(ack.value, value);
}

#[test]
fn a_path_that_does_not_answer_heartbeats_fails_after_path_max_retrans_8_2_and_8_3() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.run(secs(5));
    w.kill(addresses(1)[1]);
    w.log.clear();
    w.events(0);
    assert!(w.run_until(secs(1000), |w| !w.path(0, a, 1).status.active));
    let misses = w
        .sent(0, ChunkType::HEARTBEAT)
        .iter()
        .filter(|p| p.to() == addresses(1)[1])
        .count();
    assert_eq!(misses, 6, "one more than Path.Max.Retrans");
    let moved = Event::PathLocalAddressChanged(PathId(1));
    assert_eq!(w.events(0), [Event::PathFailed(PathId(1)), moved]);
    assert_eq!(w.stats(0, a).error_count, 0, "an idle path does not count");
    // Heartbeats go on, the counter stays.
    let errors = w.path(0, a, 1).error_count;
    w.log.clear();
    w.run(secs(300));
    assert!(
        w.sent(0, ChunkType::HEARTBEAT)
            .iter()
            .any(|p| p.to() == addresses(1)[1])
    );
    assert_eq!(w.path(0, a, 1).error_count, errors);
    assert_eq!(w.path(0, a, 1).rto, secs(60), "backed off");
    w.revive(addresses(1)[1]);
    w.run(secs(200));
    assert_eq!(w.events(0).last(), Some(&Event::PathRecovered(PathId(1))));
    let path = w.path(0, a, 1);
    assert_eq!((path.error_count, path.rto), (0, secs(1)));
}

#[test]
fn unanswered_heartbeats_on_the_current_path_count_for_the_association_8_1() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    w.kill(addresses(1)[0]);
    w.log.clear();
    w.run(secs(100_000));
    assert_eq!(w.sent(0, ChunkType::HEARTBEAT).len(), 11);
    let events = w.events(0);
    assert!(events.contains(&Event::Dormant), "{events:?}");
    assert_eq!(
        events.last(),
        Some(&Event::Closed(CloseReason::PeerUnreachable))
    );
    assert!(w.ends[0].association_stats(a).is_none());
}

#[test]
fn data_leaves_a_dead_primary_and_returns_to_it_6_4_1() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.events(0);
    w.kill(addresses(1)[0]);
    let mut total = 0;
    for _ in 0..120 {
        w.send(0, a, 0, pattern(2000));
        total += 1;
        w.run(secs(1));
    }
    assert_eq!(w.receive(1, b).len(), total, "over the other path");
    let events = w.events(0);
    let expected = [
        Event::PathFailed(PathId(0)),
        Event::PrimaryChanged(PathId(1)),
    ];
    let told: Vec<_> = events.iter().filter(|e| expected.contains(e)).collect();
    assert_eq!(told, expected.iter().collect::<Vec<_>>(), "{events:?}");
    w.log.clear();
    w.send(0, a, 0, pattern(2000));
    w.run(secs(1));
    assert!(
        w.sent(0, ChunkType::DATA)
            .iter()
            .all(|p| p.to() == addresses(1)[1])
    );
    w.revive(addresses(1)[0]);
    w.run(secs(200));
    let events = w.events(0);
    assert!(events.contains(&Event::PathRecovered(PathId(0))));
    assert!(events.contains(&Event::PrimaryChanged(PathId(0))));
    w.log.clear();
    w.send(0, a, 0, pattern(2000));
    w.run(secs(1));
    assert!(
        w.sent(0, ChunkType::DATA)
            .iter()
            .all(|p| p.to() == addresses(1)[0])
    );
}

#[test]
fn what_timed_out_goes_to_another_active_path_6_4() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.kill(addresses(1)[0]);
    w.log.clear();
    w.send(0, a, 0, pattern(100));
    w.run(secs(2));
    let to: Vec<_> = w.sent(0, ChunkType::DATA).iter().map(|p| p.to()).collect();
    assert_eq!(to, addresses(1), "first the primary, then the other");
    assert_eq!(w.receive_lengths(1, b), [100]);
    assert_eq!(w.path(0, a, 0).error_count, 1);
    assert_eq!(w.path(0, a, 1).error_count, 0);
}

#[test]
fn fast_retransmissions_stay_on_their_path_6_4() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.log.clear();
    w.lose_data(0, &[2]);
    for _ in 0..30 {
        w.send(0, a, 0, pattern(1400));
    }
    w.run(secs(5));
    assert_eq!(w.receive(1, b).len(), 30);
    assert_eq!(w.stats(0, a).counters.fast_retransmissions, 1);
    assert!(
        w.sent(0, ChunkType::DATA)
            .iter()
            .all(|p| p.to() == addresses(1)[0])
    );
}

#[test]
fn sacks_and_retransmissions_avoid_a_dead_path_while_a_live_one_exists() {
    let mut w = World::new();
    let (a, b) = w.connect();
    // Endpoint 1 knows that the way to 10.0.0.1 is dead.
    w.kill(addresses(0)[0]);
    assert!(w.run_until(secs(500), |w| !w.path(1, b, 0).status.active));
    w.log.clear();
    let over_second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    for _ in 0..10 {
        w.send_with(0, a, over_second, pattern(1000));
        w.send(1, b, 0, pattern(1000));
    }
    w.run(secs(10));
    let from_1: Vec<_> = w
        .log
        .iter()
        .filter(|p| p.from == 1 && (p.has(ChunkType::SACK) || p.has(ChunkType::DATA)))
        .map(|p| p.to())
        .collect();
    assert!(!from_1.is_empty());
    assert!(from_1.iter().all(|to| *to == addresses(0)[1]), "{from_1:?}");
    assert_eq!(w.receive_lengths(0, a), [1000; 10]);
}

#[test]
fn the_peer_is_unreachable_after_association_max_retrans_8_1() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.events(0);
    kill_all(&mut w);
    w.send_with(
        0,
        a,
        SendOptions {
            context: 5,
            ..SendOptions::default()
        },
        pattern(100),
    );
    w.log.clear();
    w.run(secs(3000));
    let events = w.events(0);
    assert!(events.contains(&Event::Dormant), "{events:?}");
    let end = events.len();
    assert!(
        matches!(&events[end - 2..], [Event::SendFailed(f), Event::Closed(CloseReason::PeerUnreachable)] if f.context == 5 && f.sent),
        "{events:?}"
    );
    let tries = w.sent(0, ChunkType::DATA).len();
    assert!((10..=11).contains(&tries), "{tries} retransmissions");
}

#[test]
fn a_dormant_association_comes_back_on_any_path_8_2() {
    for alive in [0, 1] {
        let mut w = World::new();
        w.config.association_max_retrans = 50;
        let (a, b) = w.connect();
        w.events(0);
        kill_all(&mut w);
        w.send(0, a, 0, pattern(100));
        assert!(w.run_until(secs(3000), |w| {
            (0..2).all(|p| !w.path(0, a, p).status.active)
        }));
        assert!(w.events(0).contains(&Event::Dormant));
        w.revive(addresses(1)[alive]);
        w.run(secs(300));
        assert_eq!(w.receive_lengths(1, b), [100], "over path {alive}");
        let recovered = Event::PathRecovered(PathId(alive as u8));
        assert!(w.events(0).contains(&recovered));
    }
}

#[test]
fn the_user_chooses_the_primary_6_4() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.events(0);
    w.ends[0].set_primary(w.now, a, PathId(1)).unwrap();
    assert_eq!(w.events(0), [Event::PrimaryChanged(PathId(1))]);
    w.log.clear();
    w.send(0, a, 0, pattern(5000));
    w.run(secs(1));
    let sent = w.sent(0, ChunkType::DATA);
    assert!(sent.iter().all(|p| p.to() == addresses(1)[1]));
    assert_eq!(w.receive_lengths(1, b), [5000]);
    assert_eq!(
        w.ends[0].set_primary(w.now, a, PathId(9)),
        Err(OperationError::UnknownPath)
    );
}

#[test]
fn a_message_goes_to_the_path_that_its_user_wants_while_that_works_6_4() {
    let mut w = World::new();
    let (a, b) = w.connect();
    let second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    w.log.clear();
    w.send_with(0, a, second, pattern(3000));
    w.send(0, a, 1, pattern(100));
    w.run(secs(1));
    let to: Vec<_> = w
        .log
        .iter()
        .flat_map(|p| {
            p.data()
                .iter()
                .map(|d| (d.stream.0, p.to()))
                .collect::<Vec<_>>()
        })
        .collect();
    let [one, two] = addresses(1);
    assert_eq!(to, [(0, two), (0, two), (0, two), (1, one)]);
    w.kill(two);
    assert!(w.run_until(secs(1000), |w| !w.path(0, a, 1).status.active));
    w.log.clear();
    w.send_with(0, a, second, pattern(100));
    w.run(secs(1));
    assert_eq!(w.sent(0, ChunkType::DATA)[0].to(), one);
    assert_eq!(w.receive(1, b).len(), 3);
}

#[test]
fn a_transfer_survives_pulling_each_path_in_turn_6_4_1() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.forget = true;
    let mut got = 0;
    let mut sent = 0;
    for round in 0..6 {
        let [one, two] = addresses(1);
        let (dead, live) = if round % 2 == 0 {
            (one, two)
        } else {
            (two, one)
        };
        w.revive(live);
        w.run(secs(100));
        w.kill(dead);
        for _ in 0..50 {
            w.send(0, a, 0, pattern(10_000));
            sent += 1;
        }
        // A minute until Path.Max.Retrans is exceeded, and the reader comes seldom.
        for _ in 0..10 {
            w.run(secs(15));
            got += w.receive_lengths(1, b).len();
        }
        assert_eq!(got, sent, "round {round}");
    }
    assert_eq!(w.states(), [Some("Established"); 2]);
}

#[test]
fn answers_leave_from_the_address_that_was_addressed_6_4() {
    let mut w = World::new();
    // Everything goes to the second local address, which source selection would not choose.
    let mut peer = Puppet::new();
    peer.link.to = addresses(0)[1];
    let mut all = peer.init(&mut w, |_| {});
    peer.learn(&all[0]);
    let cookie = Puppet::cookie(&all[0]);
    all.extend(peer.say(&mut w, |p| p.cookie_echo(&cookie)));
    for ssn in 0..4 {
        all.extend(peer.data(&mut w, 0, ssn, b"x"));
    }
    all.extend(peer.data(&mut w, 77, 0, b"no such stream"));
    let id = w.only(0);
    w.send(0, id, 0, pattern(100));
    all.extend(peer.hear(&mut w));
    all.extend(peer.say(&mut w, |p| p.shutdown(peer.theirs(0))));
    assert!(all.len() >= 7);
    for packet in &all {
        assert_eq!(packet.source(), addresses(0)[1], "{:?}", packet.kinds());
    }
    // Also of what belongs to no association, and for SACKs of one that prefers another address.
    let mut stranger = Puppet::new();
    stranger.port = 7777;
    stranger.link.to = addresses(0)[1];
    let answers = stranger.say_with(&mut w, VerificationTag(1), |p| {
        p.cookie_ack();
    });
    assert_eq!(answers.len(), 0);
    let header = Puppet::data_header(stranger.tsn, 0, 0);
    let answers = stranger.say_with(&mut w, VerificationTag(1), |p| p.data(&header, b"x"));
    assert_eq!(answers[0].source(), addresses(0)[1]);
}

#[test]
fn a_sack_leaves_from_the_address_that_the_data_came_to_6_4() {
    let mut w = World::new();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    for (ssn, to) in [(0, 0), (1, 1), (2, 1), (3, 0), (4, 0), (5, 1), (6, 1)] {
        peer.link.to = addresses(0)[to];
        for answer in peer.data(&mut w, 0, ssn, b"x") {
            assert_eq!(answer.source(), addresses(0)[to], "message {ssn}");
        }
    }
}

#[test]
fn a_local_address_that_goes_away_is_not_used_any_more() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.send(1, b, 0, pattern(10));
    w.run(secs(1));
    w.send(1, b, 0, pattern(10));
    // The SACK for this is delayed, and belongs to the address that goes.
    w.run(ms(50));
    w.events(0);
    let gone = addresses(0)[0];
    w.ends[0].local_address_removed(w.now, gone);
    w.kill(gone);
    // Every packet is checked to come from an address of the endpoint.
    w.send(0, a, 0, pattern(5000));
    w.run(secs(10));
    assert_eq!(w.receive_lengths(1, b), [5000]);
    assert!(
        w.events(0)
            .contains(&Event::PathLocalAddressChanged(PathId(0)))
    );
    assert_eq!(w.path(0, a, 0).local, Some(addresses(0)[1]));
    // The peer sends to what works.
    w.send(1, b, 0, pattern(6000));
    w.run(secs(30));
    assert_eq!(w.receive_lengths(0, a), [10, 10, 6000]);
}

#[test]
fn answers_in_waiting_do_not_leave_from_an_address_that_is_gone() {
    let mut w = World::new();
    let (peer, _) = two_homed(&mut w);
    // The answer waits in the endpoint while the address goes.
    let bytes = peer.build(peer.peer_tag, |p| p.heartbeat(b"hello"));
    let end = &mut w.ends[0];
    end.handle_datagram(w.now, &peer.route(), bytes);
    end.local_address_removed(w.now, addresses(0)[0]);
    w.pump();
}

#[test]
fn a_path_that_failed_is_tried_from_another_local_address() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.events(0);
    // What leaves from the first address is lost, wherever it goes.
    w.rule(|p| {
        let lost = p.from == 0 && p.source() == addresses(0)[0];
        if lost { Fate::Drop } else { Fate::Pass }
    });
    w.run(secs(600));
    assert!(
        w.events(0)
            .contains(&Event::PathLocalAddressChanged(PathId(0)))
    );
    let path = w.path(0, a, 0);
    assert!(path.status.active);
    assert_eq!(path.local, Some(addresses(0)[1]));
}

#[test]
fn every_pair_of_addresses_can_be_monitored() {
    let mut w = World::new();
    w.config.monitor_pairs = true;
    let (a, b) = w.connect();
    w.run(secs(30));
    let pairs: Vec<_> = w.ends[0]
        .paths(a)
        .map(|p| (p.local.unwrap(), p.remote))
        .collect();
    assert_eq!(pairs.len(), 4);
    assert!(w.ends[0].paths(a).all(|p| p.status.confirmed));
    w.events(0);
    // One pair breaks, not its addresses.
    let broken = pairs[0];
    w.rule(move |p| {
        let lost = p.from == 0 && (p.source(), p.to()) == broken;
        if lost { Fate::Drop } else { Fate::Pass }
    });
    for _ in 0..20 {
        w.send(0, a, 0, pattern(1000));
        w.run(secs(10));
    }
    assert_eq!(w.receive(1, b).len(), 20);
    assert!(w.events(0).contains(&Event::PathFailed(PathId(0))));
    let active: Vec<_> = w.ends[0].paths(a).map(|p| p.status.active).collect();
    assert_eq!(active, [false, true, true, true]);
}

fn encapsulated(w: &mut World) -> (AssociationId, AssociationId) {
    let a = w.ends[0]
        .connect(
            w.now,
            &[addresses(1)[0]],
            port(1),
            Some(9900),
            w.config.clone(),
        )
        .unwrap();
    w.run(secs(3));
    (a, w.only(1))
}

#[test]
fn udp_encapsulation_follows_the_port_of_valid_packets_rfc_6951_5_4() {
    let mut w = World::single_homed();
    let (a, b) = encapsulated(&mut w);
    assert_eq!(w.path(0, a, 0).encapsulation, Some(9900));
    assert_eq!(w.path(1, b, 0).encapsulation, Some(9899));
    w.send(0, a, 0, pattern(20_000));
    w.run(secs(1));
    assert_eq!(w.receive_lengths(1, b), [20_000]);
    // A translator gives endpoint 0 another port.
    w.udp_ports[0] = 40_000;
    w.send(0, a, 0, pattern(20_000));
    w.run(secs(1));
    assert_eq!(w.path(1, b, 0).encapsulation, Some(40_000));
    assert_eq!(w.receive_lengths(1, b), [20_000]);
}

#[test]
fn udp_encapsulation_ignores_packets_that_fail_the_tag_check_rfc_6951_5_4() {
    let mut w = World::single_homed();
    let (a, b) = encapsulated(&mut w);
    let forge = |w: &mut World, kind: ChunkType, value: &[u8], tag: u32| {
        let mut buf = Vec::new();
        let header = carrick_wire::CommonHeader {
            source_port: port(0),
            destination_port: port(1),
            tag: VerificationTag(tag),
        };
        let mut packet = carrick_wire::PacketBuilder::new(&mut buf, header, 1000);
        packet.raw(kind, 0, value);
        packet.finish();
        let route = Route::encapsulated(addresses(1)[0], addresses(0)[0], 666);
        w.inject(1, &route, buf);
    };
    let tag = w.sent(1, ChunkType::INIT_ACK)[0].init().tag.0;
    let kinds = [
        ChunkType::HEARTBEAT,
        ChunkType::SACK,
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::COOKIE_ECHO,
        ChunkType::COOKIE_ACK,
        ChunkType::SHUTDOWN_ACK,
        ChunkType::ERROR,
    ];
    for kind in kinds {
        for value in [&[][..], &[0, 1, 0, 8, 0, 0, 0, 0], &[1; 16]] {
            for wrong in [0, 1, tag ^ 1] {
                forge(&mut w, kind, value, wrong);
            }
        }
    }
    assert_eq!(w.path(1, b, 0).encapsulation, Some(9899));
    w.send(1, b, 0, pattern(100));
    w.run(secs(1));
    assert_eq!(w.receive_lengths(0, a), [100]);
}

#[test]
fn a_plain_packet_ends_the_encapsulation_rfc_6951_5_4() {
    let mut w = World::with(1, |_, c| c.local_addresses.truncate(1));
    let (peer, id) = Puppet::new().connect(&mut w);
    let encapsulated = Route::encapsulated(peer.link.to, peer.link.from, 777);
    let heartbeat = peer.build(peer.peer_tag, |p| p.heartbeat(b"x"));
    w.inject(0, &encapsulated, heartbeat.clone());
    assert_eq!(w.path(0, id, 0).encapsulation, Some(777));
    w.inject(0, &peer.route(), heartbeat);
    assert_eq!(w.path(0, id, 0).encapsulation, None);
}

#[test]
fn a_smaller_path_mtu_applies_to_new_chunks_and_old_ones_may_be_fragmented_by_ip_6_9() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    w.log.clear();
    w.lose_data(0, &[0, 1, 2]);
    for _ in 0..3 {
        w.send(0, a, 0, pattern(1452));
    }
    w.pump();
    w.ends[0].set_path_mtu(w.now, a, PathId(0), 1000).unwrap();
    w.send(0, a, 0, pattern(3000));
    w.run(secs(30));
    assert_eq!(w.receive_lengths(1, b), [1452, 1452, 1452, 3000]);
    for packet in w.sent(0, ChunkType::DATA).iter().skip(3) {
        let size = packet.bytes.len() + 20;
        let old = packet.data().iter().any(|d| d.payload.len() == 1452);
        assert_eq!(packet.may_fragment, size > 1000);
        assert_eq!(old, size > 1000, "only what had been cut before");
    }
    // The floor of IPv4, and an unknown path.
    w.ends[0].set_path_mtu(w.now, a, PathId(0), 10).unwrap();
    assert_eq!(w.path(0, a, 0).mtu, 576);
    assert_eq!(
        w.ends[0].set_path_mtu(w.now, a, PathId(3), 1000),
        Err(OperationError::UnknownPath)
    );
}

#[test]
fn chunks_are_sized_for_the_smallest_path_mtu_7_3() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.ends[0].set_path_mtu(w.now, a, PathId(1), 1000).unwrap();
    w.log.clear();
    w.send(0, a, 0, pattern(10_000));
    w.run(secs(1));
    let largest = w
        .log
        .iter()
        .flat_map(|p| p.data().iter().map(|d| d.payload.len()).collect::<Vec<_>>())
        .max();
    assert_eq!(largest, Some(1000 - 20 - 12 - 16));
    assert_eq!(w.receive_lengths(1, b), [10_000]);
}

#[test]
fn no_round_trip_is_taken_from_a_sack_that_came_another_way_6_3_1() {
    let mut w = World::new();
    let (peer, id) = verified(&mut w);
    let before = w.path(0, id, 0).srtt;
    let second = at_second(&peer);
    w.send(0, id, 0, pattern(100));
    peer.hear(&mut w);
    w.run(ms(400));
    second.sack(&mut w, peer.theirs(0), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
    assert_eq!(w.path(0, id, 0).srtt, before);
    w.send(0, id, 0, pattern(100));
    peer.hear(&mut w);
    w.run(ms(300));
    peer.sack(&mut w, peer.theirs(1), 1 << 20, &[]);
    assert_eq!(w.path(0, id, 0).srtt, Some(ms(300)));
}

#[test]
fn a_path_whose_sacks_come_another_way_is_measured_by_heartbeats_8_3() {
    let mut w = World::new();
    let (peer, id) = verified(&mut w);
    let second = at_second(&peer);
    let mut asked = false;
    for n in 0..100 {
        w.send(0, id, 0, pattern(100));
        w.run(secs(1));
        let heard = peer.hear(&mut w);
        for heartbeat in heartbeats(&heard) {
            asked |= heartbeat.to() == peer.link.from;
            if heartbeat.to() == peer.link.from {
                peer.answer_heartbeat(&mut w, heartbeat);
            } else {
                second.answer_heartbeat(&mut w, heartbeat);
            }
        }
        second.sack(&mut w, peer.theirs(n), 1 << 20, &[]);
    }
    assert!(asked, "data alone does not make the path busy");
}

#[test]
fn data_that_never_advances_is_reported_although_heartbeats_are_answered() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.events(0);
    // Something on the way eats DATA and lets everything else through.
    w.rule(|p| {
        let eaten = p.from == 0 && p.has(ChunkType::DATA);
        if eaten { Fate::Drop } else { Fate::Pass }
    });
    w.send(0, a, 0, pattern(1000));
    w.run(secs(45));
    let events = w.events(0);
    let told = events.iter().filter(|e| **e == Event::NoProgress).count();
    assert_eq!(told, 1, "{events:?}");
    assert!(!events.iter().any(|e| matches!(e, Event::Closed(_))));
    // The association gives up in the end, because heartbeats don't clear its counter then.
    w.run(secs(3000));
    assert!(
        w.events(0)
            .contains(&Event::Closed(CloseReason::PeerUnreachable))
    );
}

#[test]
fn path_max_retrans_can_be_set_for_each_path_11_1_12() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.ends[0]
        .set_failure_threshold(w.now, a, PathId(0), 0)
        .unwrap();
    w.events(0);
    w.kill(addresses(1)[0]);
    w.send(0, a, 0, pattern(100));
    w.run(ms(1100));
    let events = w.events(0);
    assert_eq!(events[0], Event::PathFailed(PathId(0)));
    assert!(events.contains(&Event::PrimaryChanged(PathId(1))));
    assert_eq!(w.receive_lengths(1, b), [100]);
    assert_eq!(
        w.ends[0].set_failure_threshold(w.now, a, PathId(9), 1),
        Err(OperationError::UnknownPath)
    );
}

#[test]
fn paths_have_windows_and_timeouts_of_their_own_7_2() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.lose_data(0, &[3]);
    for _ in 0..40 {
        w.send(0, a, 0, pattern(1400));
    }
    w.run(secs(5));
    w.receive(1, b);
    let (one, two) = (w.path(0, a, 0), w.path(0, a, 1));
    assert_ne!(one.cwnd, 4404);
    assert_eq!((two.cwnd, two.ssthresh), (4404, usize::MAX));
    assert_eq!((one.flight_size, two.flight_size), (0, 0));
}

#[test]
fn more_addresses_than_paths_are_left_out() {
    let mut w = World::with(1, |_, c| c.association.max_paths = 3);
    let more: Vec<IpAddr> = (0..50).map(|i| ip(&format!("10.0.1.{i}"))).collect();
    let (_, id) = many_homed(&mut w, &more);
    assert_eq!(w.ends[0].paths(id).count(), 3);
}

#[test]
fn a_heartbeat_without_info_is_not_answered_3_3_5() {
    let mut w = World::new();
    let (peer, _) = two_homed(&mut w);
    peer.hear(&mut w);
    let mut other = [0_u8; 8];
    other[..2].copy_from_slice(&ParameterType::IPV4_ADDRESS.0.to_be_bytes());
    other[3] = 8;
    for value in [&[][..], &other[..]] {
        let answers = peer.say(&mut w, |p| p.raw(ChunkType::HEARTBEAT, 0, value));
        assert_eq!(answers.len(), 0);
    }
}

#[test]
fn transmits_say_how_many_packets_they_are() {
    let transmit = Transmit {
        route: Route::plain(addresses(0)[0], addresses(1)[0]),
        len: 2500,
        segment_size: Some(1000),
        may_fragment: false,
        probe: false,
    };
    assert_eq!(transmit.packets(), 3);
}

#[test]
fn the_end_of_a_closed_window_is_no_error_of_a_path_6_1_a() {
    let mut w = World::with(2, |_, c| c.association.receive_buffer = 5000);
    let (a, b) = w.connect();
    for _ in 0..20 {
        w.send(0, a, 0, pattern(1000));
    }
    w.run(secs(20));
    let mut got = w.receive(1, b).len();
    // The probe that the peer had dropped goes out again; no timer of it may stay behind.
    for _ in 0..10 {
        w.run(secs(3));
        got += w.receive(1, b).len();
    }
    assert_eq!(got, 20);
    for path in 0..2 {
        let path = w.path(0, a, path);
        assert!(path.cwnd >= 4404, "{path:?}");
        assert_eq!(path.error_count, 0);
    }
    assert_eq!(w.stats(0, a).error_count, 0);
    assert!(
        !w.events(0)
            .iter()
            .any(|e| matches!(e, Event::PathFailed(_)))
    );
}

#[test]
fn a_timer_of_a_path_that_has_nothing_in_flight_is_no_error_6_3_2() {
    let mut w = World::new();
    let mut config = w.config.clone();
    config.policies.retransmission_route = &carrick_proto::policy::RetransmitOnAlternate;
    w.config = config;
    let (a, b) = w.connect();
    // Everything that was on the first path is found lost by reports and moves to the second.
    w.lose_data(0, &[0, 1, 2]);
    let on = |path| SendOptions {
        path: Some(PathId(path)),
        no_delay: true,
        ..SendOptions::default()
    };
    for _ in 0..3 {
        w.send_with(0, a, on(0), pattern(1400));
    }
    w.pump();
    for _ in 0..4 {
        w.send_with(0, a, on(1), pattern(1400));
        w.pump();
    }
    w.run(secs(10));
    assert_eq!(w.receive(1, b).len(), 7);
    assert_eq!(w.stats(0, a).counters.t3_expirations, 0);
    assert_eq!(w.path(0, a, 0).error_count, 0);
}

#[test]
fn both_paths_lose_packets_in_turn_and_all_arrives() {
    for seed in 0..20_u64 {
        let mut w = World::new();
        let (a, b) = w.connect();
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        w.rule(move |_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if x % 7 == 0 { Fate::Drop } else { Fate::Pass }
        });
        for i in 0..60 {
            let options = SendOptions {
                path: Some(PathId(i % 2)),
                ..SendOptions::on_stream(u16::from(i % 5))
            };
            w.send_with(0, a, options, pattern(2500));
        }
        w.run(secs(300));
        assert_eq!(w.receive(1, b).len(), 60, "seed {seed}");
    }
}

#[test]
fn a_probe_that_moves_to_another_path_leaves_no_timer_behind_6_1_a() {
    let mut w = World::new();
    let (peer, id) = verified(&mut w);
    for path in 0..2 {
        w.ends[0]
            .set_heartbeat(w.now, id, PathId(path), false)
            .unwrap();
    }
    w.send(0, id, 0, pattern(1000));
    peer.sack(&mut w, peer.theirs(0), 0, &[]);
    w.send(0, id, 0, pattern(1000));
    w.run(ms(1500));
    let probes = peer.hear(&mut w);
    assert_eq!(peer.numbers(&probes), [1], "a probe after one RTO");
    // The peer had no room for it, and then it has.
    peer.sack(&mut w, peer.theirs(0), 0, &[]);
    let again = peer.sack(&mut w, peer.theirs(0), 100_000, &[]);
    assert_eq!(peer.numbers(&again), [1]);
    // Longer than the rest of the old timer, shorter than the new one.
    w.run(ms(900));
    peer.sack(&mut w, peer.theirs(1), 100_000, &[]);
    w.run(secs(20));
    assert_eq!(w.stats(0, id).counters.t3_expirations, 0);
    assert_eq!(
        (w.path(0, id, 0).error_count, w.path(0, id, 1).error_count),
        (0, 0)
    );
    assert_eq!(w.path(0, id, 0).cwnd, 4404);
}

#[test]
fn refused_data_stays_on_its_path_and_flows_when_the_window_opens_6_1_a() {
    let mut w = World::with(2, |_, c| c.association.receive_buffer = 100_000);
    let (a, b) = w.connect();
    for _ in 0..30 {
        w.send(0, a, 0, pattern(10_000));
    }
    // A path that stops answering while the window is closed is no place for what was refused.
    w.run(secs(20));
    w.kill(addresses(1)[1]);
    w.run(secs(40));
    w.log.clear();
    let mut got = 0;
    for _ in 0..20 {
        got += w.receive_lengths(1, b).iter().sum::<usize>();
        w.run(secs(1));
    }
    assert_eq!(got, 300_000);
    let data = w.sent(0, ChunkType::DATA);
    assert!(data.iter().all(|p| p.to() == addresses(1)[0]));
}
