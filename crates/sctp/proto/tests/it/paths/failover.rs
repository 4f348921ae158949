//! Failure and recovery of paths (sections 6.4, 8.1, 8.2).

use carrick_proto::{CloseReason, Event, PathId, SendOptions};
use carrick_wire::ChunkType;

use crate::common::*;

/// Blocks all addresses of endpoint 1.
fn block_all(w: &mut World) {
    for address in addresses(1) {
        w.block(address);
    }
}

/// RFC 9260, section 6.4.1
#[test]
fn data_leaves_a_failed_primary_and_returns() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.events(0);
    w.block(addresses(1)[0]);
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
    let reported: Vec<_> = events.iter().filter(|e| expected.contains(e)).collect();
    assert_eq!(reported, expected.iter().collect::<Vec<_>>(), "{events:?}");
    w.log.clear();
    w.send(0, a, 0, pattern(2000));
    w.run(secs(1));
    assert!(
        w.sent(0, ChunkType::DATA)
            .iter()
            .all(|p| p.to() == addresses(1)[1])
    );
    w.unblock(addresses(1)[0]);
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

/// RFC 9260, section 6.4.1
#[test]
fn timed_out_data_goes_to_another_active_path() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.block(addresses(1)[0]);
    w.log.clear();
    w.send(0, a, 0, pattern(100));
    w.run(secs(2));
    let to: Vec<_> = w.sent(0, ChunkType::DATA).iter().map(|p| p.to()).collect();
    assert_eq!(to, addresses(1), "first the primary, then the other");
    assert_eq!(w.receive_lengths(1, b), [100]);
    assert_eq!(w.path(0, a, 0).error_count, 1);
    assert_eq!(w.path(0, a, 1).error_count, 0);
}

/// RFC 9260, section 6.4
#[test]
fn fast_retransmissions_stay_on_their_path() {
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

/// RFC 9260, section 6.4
#[test]
fn sacks_and_retransmissions_avoid_a_failed_path() {
    let mut w = World::new();
    let (a, b) = w.connect();
    // The path of endpoint 1 to 10.0.0.1 is inactive.
    w.block(addresses(0)[0]);
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

/// RFC 9260, section 8.1
#[test]
fn association_max_retrans_makes_the_peer_unreachable() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.events(0);
    block_all(&mut w);
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

/// RFC 9260, section 8.2
#[test]
fn a_dormant_association_recovers_on_any_path() {
    for alive in [0, 1] {
        let mut w = World::new();
        w.config.paths.association_max_retrans = 50;
        let (a, b) = w.connect();
        w.events(0);
        block_all(&mut w);
        w.send(0, a, 0, pattern(100));
        assert!(w.run_until(secs(3000), |w| {
            (0..2).all(|p| !w.path(0, a, p).status.active)
        }));
        assert!(w.events(0).contains(&Event::Dormant));
        w.unblock(addresses(1)[alive]);
        w.run(secs(300));
        assert_eq!(w.receive_lengths(1, b), [100], "over path {alive}");
        let recovered = Event::PathRecovered(PathId(alive as u8));
        assert!(w.events(0).contains(&recovered));
    }
}
