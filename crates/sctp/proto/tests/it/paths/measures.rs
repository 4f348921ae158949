//! Per-path state: MTU, RTT, thresholds, windows.

use std::net::IpAddr;

use carrick_proto::{CloseReason, Event, EventReport, OperationError, PathId, Route, Transmit};

use carrick_wire::{ChunkType, ParameterType};

use crate::common::*;
use crate::paths::support::*;

/// RFC 9260, section 6.9
#[test]
fn chunks_above_a_lower_mtu_use_ip_fragmentation() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    w.log.clear();
    w.lose_data(0, &[0, 1, 2]);
    for _ in 0..3 {
        w.send(0, a, 0, pattern(1452));
    }
    w.pump();
    w.change(0, a).set_path_mtu(PathId(0), 1000).unwrap();
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
    w.change(0, a).set_path_mtu(PathId(0), 10).unwrap();
    assert_eq!(w.path(0, a, 0).mtu, 576);
    assert_eq!(
        w.change(0, a).set_path_mtu(PathId(3), 1000),
        Err(OperationError::UnknownPath)
    );
}

/// RFC 9260, section 7.3
#[test]
fn chunks_are_sized_for_the_smallest_path_mtu() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.change(0, a).set_path_mtu(PathId(1), 1000).unwrap();
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

/// RFC 9260, section 6.3.1
#[test]
fn a_sack_from_another_path_gives_no_rtt() {
    let mut w = World::new();
    let (peer, id) = verified(&mut w);
    let before = w.path(0, id, 0).srtt;
    let second = at_second(&peer);
    w.send(0, id, 0, pattern(100));
    peer.receive(&mut w);
    w.run(ms(400));
    second.sack(&mut w, peer.endpoint_tsn(0), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
    assert_eq!(w.path(0, id, 0).srtt, before);
    w.send(0, id, 0, pattern(100));
    peer.receive(&mut w);
    w.run(ms(300));
    peer.sack(&mut w, peer.endpoint_tsn(1), 1 << 20, &[]);
    assert_eq!(w.path(0, id, 0).srtt, Some(ms(300)));
}

/// RFC 9260, section 8.3
#[test]
fn heartbeats_measure_a_path_without_sacks() {
    let mut w = World::new();
    let (peer, id) = verified(&mut w);
    let second = at_second(&peer);
    let mut asked = false;
    for n in 0..100 {
        w.send(0, id, 0, pattern(100));
        w.run(secs(1));
        let replies = peer.receive(&mut w);
        for heartbeat in heartbeats(&replies) {
            asked |= heartbeat.to() == peer.link.from;
            if heartbeat.to() == peer.link.from {
                peer.answer_heartbeat(&mut w, heartbeat);
            } else {
                second.answer_heartbeat(&mut w, heartbeat);
            }
        }
        second.sack(&mut w, peer.endpoint_tsn(n), 1 << 20, &[]);
    }
    assert!(asked, "data alone does not make the path busy");
}

/// RFC 9260, section 8.1
#[test]
fn stalled_data_is_reported_despite_heartbeats() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.events(0);
    // Something on the way eats DATA and lets everything else through.
    w.rule(|p| {
        let eaten = p.from == 0 && p.has(ChunkType::DATA);
        if eaten { Verdict::Drop } else { Verdict::Pass }
    });
    w.send(0, a, 0, pattern(1000));
    w.run(secs(47));
    let events = w.events(0);
    let reported = events.iter().filter(|e| **e == Event::NoProgress).count();
    assert_eq!(reported, 1, "{events:?}");
    assert!(!events.iter().any(|e| matches!(e, Event::Closed(_))));
    let (paths, stats): (Vec<_>, _) = (w.paths(0, a).collect(), w.stats(0, a));
    let report = EventReport::new(&Event::NoProgress, &paths, Some(&stats)).unwrap();
    let path = paths
        .iter()
        .find(|path| Some(path.id) == stats.current)
        .unwrap();
    let words = "; 1000 bytes are outstanding, 0 messages wait behind them, on path ";
    let (_, place) = report.text.split_once(words).unwrap();
    assert!(place.contains(&path.remote.to_string()), "{place}");
    // The association ends, because heartbeats do not clear its error counter then.
    w.run(secs(3000));
    assert!(
        w.events(0)
            .contains(&Event::Closed(CloseReason::PeerUnreachable))
    );
}

/// RFC 9260, section 11.1.12
#[test]
fn path_max_retrans_is_set_per_path() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.change(0, a).set_failure_threshold(PathId(0), 0).unwrap();
    w.events(0);
    w.block(addresses(1)[0]);
    w.send(0, a, 0, pattern(100));
    w.run(ms(1100));
    let events = w.events(0);
    assert_eq!(events[0], Event::PathFailed(PathId(0)));
    assert!(events.contains(&Event::PrimaryChanged(PathId(1))));
    assert_eq!(w.receive_lengths(1, b), [100]);
    assert_eq!(
        w.change(0, a).set_failure_threshold(PathId(9), 1),
        Err(OperationError::UnknownPath)
    );
}

/// RFC 9260, section 7.2
#[test]
fn each_path_has_its_own_cwnd_and_rto() {
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
fn addresses_above_max_paths_are_ignored() {
    let mut w = World::with(1, |_, c| c.association.paths.max_paths = 3);
    let more: Vec<IpAddr> = (0..50).map(|i| ip(&format!("10.0.1.{i}"))).collect();
    let (_, id) = many_homed(&mut w, &more);
    assert_eq!(w.paths(0, id).count(), 3);
}

/// RFC 9260, section 3.3.5
#[test]
fn a_heartbeat_without_info_is_not_answered() {
    let mut w = World::new();
    let (peer, _) = two_homed(&mut w);
    peer.receive(&mut w);
    let mut other = [0_u8; 8];
    other[..2].copy_from_slice(&ParameterType::IPV4_ADDRESS.0.to_be_bytes());
    other[3] = 8;
    for value in [&[][..], &other[..]] {
        let answers = peer.send(&mut w, |p| p.raw(ChunkType::HEARTBEAT, 0, value));
        assert_eq!(answers.len(), 0);
    }
}

#[test]
fn transmits_report_their_number_of_packets() {
    let transmit = Transmit {
        route: Route::plain(addresses(0)[0], addresses(1)[0]),
        len: 2500,
        segment_size: Some(1000),
        may_fragment: false,
        probe: false,
        dscp: 46,
    };
    assert_eq!(transmit.packets(), 3);
    assert_eq!(transmit.traffic_class(), 0xb8, "EF");
}
