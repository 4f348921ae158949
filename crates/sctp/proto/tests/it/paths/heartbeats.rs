//! Heartbeats on idle paths (section 8.3).

use carrick_proto::{AssociationConfig, CloseReason, Event, OperationError, PathId};
use carrick_wire::{Chunk, ChunkType};

use crate::common::*;
use crate::paths::support::*;

/// RFC 9260, section 8.3
#[test]
fn idle_paths_get_heartbeats_with_jitter() {
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
    let a = w.association(0);
    let path = w.path(0, a, 0);
    assert_eq!(path.srtt, Some(ms(20)), "measured by heartbeats");
    assert_eq!(path.heartbeats_sent, path.heartbeats_answered);
}

/// RFC 9260, section 8.3: the recommended configuration, which looks for paths that return, has no more than HB.interval
/// allows.
#[test]
fn an_idle_association_has_no_further_heartbeats() {
    let mut w = World::new();
    w.config = AssociationConfig::modern();
    w.connect();
    w.run(secs(60));
    w.log.clear();
    w.run(secs(3600));
    for end in [0, 1] {
        for to in addresses(1 - end) {
            let heartbeats = w.sent(end, ChunkType::HEARTBEAT);
            let count = heartbeats.iter().filter(|p| p.to() == to).count();
            assert!((110..=120).contains(&count), "{count} to {to}");
        }
        assert_eq!(w.sent(end, ChunkType::DATA).len(), 0);
    }
}

/// RFC 9260, section 8.3
#[test]
fn a_path_with_data_needs_no_heartbeats() {
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
    assert!(
        !to.contains(&addresses(1)[0]),
        "a path with data needs no heartbeats"
    );
    assert!(to.contains(&addresses(1)[1]), "idle");
}

/// RFC 9260, section 11.1.9
/// RFC 9260, section 11.1.10
#[test]
fn heartbeats_can_be_disabled_and_requested() {
    let mut w = World::new();
    let (a, _) = w.connect();
    for path in [0, 1] {
        w.change(0, a).set_heartbeat(PathId(path), false).unwrap();
    }
    w.run(secs(100));
    w.log.clear();
    w.run(secs(500));
    assert_eq!(w.sent(0, ChunkType::HEARTBEAT).len(), 0);
    w.change(0, a).request_heartbeat(PathId(1)).unwrap();
    w.run(secs(1));
    let sent = w.sent(0, ChunkType::HEARTBEAT);
    assert_eq!((sent.len(), sent[0].to()), (1, addresses(1)[1]));
    w.change(0, a).set_heartbeat(PathId(0), true).unwrap();
    w.run(secs(100));
    assert!(w.sent(0, ChunkType::HEARTBEAT).len() >= 3);
    let unknown = PathId(7);
    assert_eq!(
        w.change(0, a).request_heartbeat(unknown),
        Err(OperationError::UnknownPath)
    );
    assert_eq!(
        w.change(0, a).set_heartbeat(unknown, true),
        Err(OperationError::UnknownPath)
    );
}

/// RFC 9260, section 11.1
#[test]
fn operations_before_the_set_up_are_refused() {
    let mut w = World::new();
    w.block(addresses(1)[0]);
    let a = w.begin_connect(&[addresses(1)[0]]);
    assert_eq!(
        w.change(0, a).request_heartbeat(PathId(0)),
        Err(OperationError::WrongState)
    );
}

/// RFC 9260, section 8.3
#[test]
fn a_heartbeat_is_answered_to_its_source() {
    let mut w = World::new();
    let (peer, _) = two_homed(&mut w);
    // To the other local address than the path uses.
    let mut odd = peer.clone();
    odd.link.to = addresses(0)[1];
    let mut value = vec![0x00, 0x01, 0x00, 0x07, b'a', b'b', b'c', 0];
    value.extend_from_slice(&[0xc0, 0x55, 0x00, 0x06, 1, 2, 0, 0]);
    let answers = odd.send(&mut w, |p| p.raw(ChunkType::HEARTBEAT, 0, &value));
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

/// RFC 9260, section 8.2
/// RFC 9260, section 8.3
#[test]
fn unanswered_heartbeats_fail_the_path() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.run(secs(5));
    w.block(addresses(1)[1]);
    w.log.clear();
    w.events(0);
    assert!(w.run_until(secs(1000), |w| !w.path(0, a, 1).status.active));
    let misses = w
        .sent(0, ChunkType::HEARTBEAT)
        .iter()
        .filter(|p| p.to() == addresses(1)[1])
        .count();
    assert_eq!(misses, 6, "one more than Path.Max.Retrans");
    assert_eq!(w.events(0), [Event::PathFailed(PathId(1))]);
    assert_eq!(w.stats(0, a).error_count, 0, "an idle path does not count");
    // Heartbeats continue, the counter does not change.
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
    w.unblock(addresses(1)[1]);
    w.run(secs(200));
    assert_eq!(w.events(0).last(), Some(&Event::PathRecovered(PathId(1))));
    let path = w.path(0, a, 1);
    assert_eq!((path.error_count, path.rto), (0, secs(1)));
}

/// RFC 9260, section 8.1
#[test]
fn heartbeats_count_for_the_association() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    w.block(addresses(1)[0]);
    w.log.clear();
    w.run(secs(100_000));
    assert_eq!(w.sent(0, ChunkType::HEARTBEAT).len(), 11);
    let events = w.events(0);
    assert!(events.contains(&Event::Dormant), "{events:?}");
    assert_eq!(
        events.last(),
        Some(&Event::Closed(CloseReason::PeerUnreachable))
    );
    assert!(w.ends[0].association(a).is_none());
}

/// A link that drops data in both directions and passes heartbeats, such as one with a smaller MTU: the heartbeats of one
/// end are no reason for those of the other.
#[test]
fn heartbeats_of_both_ends_do_not_answer_each_other() {
    let mut w = World::with(2, |_, c| {
        c.association = AssociationConfig::default();
        c.local_addresses.truncate(1);
    });
    w.config = AssociationConfig::default();
    let (a, b) = w.connect();
    for _ in 0..20 {
        w.send(0, a, 0, pattern(100));
        w.send(1, b, 0, pattern(100));
        w.run(ms(100));
    }
    w.run(secs(2));
    w.rule(|seen| {
        if seen.user_data().is_empty() {
            Verdict::Pass
        } else {
            Verdict::Drop
        }
    });
    w.log.clear();
    w.send(0, a, 0, pattern(100));
    w.run(ms(500));
    w.send(1, b, 0, pattern(100));
    w.run(secs(3));
    for end in [0, 1] {
        assert!(w.path(end, [a, b][end], 0).status.potentially_failed);
        let sent = w.sent(end, ChunkType::HEARTBEAT).len();
        assert!((1..=4).contains(&sent), "{sent} heartbeats in 3 s");
    }
}
