//! Verification of addresses before use (section 5.4).

use std::collections::BTreeMap;
use std::net::IpAddr;

use carrick_proto::{Event, PathId, SendOptions};

use carrick_wire::ChunkType;

use crate::common::*;
use crate::paths::support::*;

/// RFC 9260, section 5.4
#[test]
fn an_unknown_address_is_verified_with_a_nonce() {
    let mut w = World::new();
    let (peer, id) = two_homed(&mut w);
    assert!(!w.path(0, id, 1).status.confirmed);
    let packets = peer.receive(&mut w);
    let sent = heartbeats(&packets);
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
        second.send(&mut w, |p| p.heartbeat_ack(&value));
        assert!(!w.path(0, id, 1).status.confirmed);
    }
    second.answer_heartbeat(&mut w, sent[0]);
    assert!(w.path(0, id, 1).status.confirmed);
    assert_eq!(w.events(0), [Event::PathConfirmed(PathId(1))]);
}

/// RFC 9260, section 5.4
#[test]
fn an_address_that_stays_unconfirmed_is_reported_once() {
    let mut w = World::new();
    let (peer, id) = two_homed(&mut w);
    w.run(ms(900));
    assert!(
        w.events(0).is_empty(),
        "the heartbeat may still be acknowledged"
    );
    w.run(ms(200));
    assert_eq!(w.events(0), [Event::PathUnconfirmed(PathId(1))]);
    w.run(secs(5));
    assert!(w.path(0, id, 1).error_count > 1);
    assert!(w.events(0).is_empty(), "further errors");
    let packets = peer.receive(&mut w);
    at_second(&peer).answer_heartbeat(&mut w, heartbeats(&packets).last().unwrap());
    assert_eq!(w.events(0), [Event::PathConfirmed(PathId(1))]);
}

/// RFC 9260, section 5.4
#[test]
fn an_unverified_address_gets_no_data() {
    let mut w = World::new();
    let (peer, id) = two_homed(&mut w);
    let to_second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    for _ in 0..5 {
        w.send_with(0, id, to_second, pattern(1400));
    }
    // Timeouts select an alternate path; none is verified.
    w.run(secs(30));
    let packets = peer.receive(&mut w);
    for packet in packets.iter().filter(|p| p.to() == ip(SECOND)) {
        assert_eq!(packet.kinds(), [ChunkType::HEARTBEAT]);
    }
    assert!(packets.iter().filter(|p| p.has(ChunkType::DATA)).count() > 5);
    assert_eq!(
        w.change(0, id).set_primary(PathId(1)),
        Ok(()),
        "it becomes the primary when it is verified"
    );
    w.run(secs(5));
    let packets = peer.receive(&mut w);
    assert!(
        packets
            .iter()
            .all(|p| p.to() != ip(SECOND) || !p.has(ChunkType::DATA))
    );
}

/// RFC 9260, section 5.4
#[test]
fn replies_go_to_a_verified_address() {
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
    let answers = second.send(&mut w, |p| p.heartbeat(b"who is there"));
    assert_eq!(
        (answers[0].to(), answers[0].kinds()),
        (ip(SECOND), vec![ChunkType::HEARTBEAT_ACK])
    );
}

/// RFC 9260, section 5.4
#[test]
fn hb_max_burst_limits_verification_heartbeats() {
    for burst in [1, 2, 3] {
        let mut w = World::with(1, |_, c| c.association.paths.hb_max_burst = burst);
        let more: Vec<IpAddr> = (0..6).map(|i| ip(&format!("10.0.0.{}", 100 + i))).collect();
        let (peer, _) = many_homed(&mut w, &more);
        let began = w.now;
        w.run(secs(6));
        let packets = peer.receive(&mut w);
        let mut by_second: BTreeMap<u64, u32> = BTreeMap::new();
        for packet in heartbeats(&packets) {
            let second = (packet.time - began).as_millis() as u64 / 1000;
            *by_second.entry(second).or_default() += 1;
        }
        assert!(
            by_second.values().all(|n| *n <= burst),
            "burst {burst}: {by_second:?}"
        );
        let to: std::collections::BTreeSet<IpAddr> =
            heartbeats(&packets).iter().map(|p| p.to()).collect();
        assert_eq!(to.len(), 6, "all addresses were probed");
    }
}

/// RFC 9260, section 5.4
#[test]
fn an_unanswered_verification_fails_alone() {
    let mut w = World::new();
    let (peer, id) = two_homed(&mut w);
    let main = peer.clone();
    w.run(secs(200));
    assert!(w.events(0).contains(&Event::PathFailed(PathId(1))));
    let _ = main;
    let before = w.stats(0, id).error_count;
    assert!(before <= 6, "only those of the primary count: {before}");
    // The normal rate now.
    let packets = peer.receive(&mut w);
    let times: Vec<_> = heartbeats(&packets)
        .iter()
        .filter(|p| p.to() == ip(SECOND) && p.source() == addresses(0)[1])
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
