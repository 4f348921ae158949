//! Data while an association ends (section 9.2).

use carrick_proto::Event;
use carrick_wire::ChunkType;

use crate::common::*;
use crate::shutdown::support::*;

/// RFC 9260, section 9.2
#[test]
fn a_peer_sending_data_keeps_shutdown_sent_alive() {
    // Any packet of the peer clears the count of retransmissions.
    let mut w = World::single_homed();
    w.config.timers.shutdown_guard = Some(secs(100_000));
    let (mut peer, id) = Puppet::new().accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    for i in 0..30 {
        w.run(secs(100));
        peer.data(&mut w, 0, i, b"slow");
        w.receive(0, id);
        assert_eq!(w.states()[0], Some("ShutdownSent"), "after message {i}");
    }
    peer.send(&mut w, |p| p.shutdown_ack());
    assert!(gone(&w));
}

/// The SACK that lets the shutdown proceed also notifies the user.
///
/// RFC 9260, section 9.2
#[test]
fn the_last_acknowledgement_precedes_the_end() {
    for ours in [true, false] {
        let mut w = World::single_homed();
        let (peer, id) = Puppet::new().accept(&mut w);
        w.send(0, id, 0, pattern(100));
        if ours {
            w.ends[0].shutdown(w.now, id).unwrap();
        } else {
            let last = peer.tsn.previous();
            peer.send(&mut w, |p| p.shutdown(last));
        }
        let first = peer.endpoint_tsn(0);
        assert!(!w.events(0).contains(&Event::AllAcknowledged));
        peer.sack(&mut w, first, 1 << 20, &[]);
        let state = if ours {
            "ShutdownSent"
        } else {
            "ShutdownAckSent"
        };
        assert_eq!(w.states()[0], Some(state));
        let all = w.events(0).into_iter();
        let reported = all.filter(|e| *e == Event::AllAcknowledged);
        assert_eq!(reported.count(), 1, "{state}");
    }
}

/// RFC 9260, section 9.2
#[test]
fn data_in_shutdown_sent_is_answered_with_shutdown() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().accept(&mut w);
    peer.data(&mut w, 0, 0, b"before");
    w.ends[0].shutdown(w.now, id).unwrap();
    let shutdown = peer.receive(&mut w);
    assert_eq!(shutdown[0].kinds(), [ChunkType::SHUTDOWN]);
    // In order: SHUTDOWN acknowledges it.
    let answers = peer.data(&mut w, 0, 1, b"one");
    let kinds: Vec<_> = answers.iter().flat_map(|p| p.kinds()).collect();
    assert!(kinds.contains(&ChunkType::SHUTDOWN));
    let cumulative = answers
        .iter()
        .flat_map(|p| p.chunks())
        .find_map(|c| match c {
            carrick_wire::Chunk::Shutdown(s) => Some(s.cumulative_tsn_ack),
            _ => None,
        });
    assert_eq!(cumulative, Some(peer.tsn.previous()));
    // A gap and a duplicate: a SACK as well.
    let gap = Puppet::data_header(peer.tsn.plus(1), 0, 3);
    let duplicate = Puppet::data_header(peer.tsn.previous(), 0, 1);
    for header in [gap, duplicate] {
        let answers = peer.send(&mut w, |p| p.data(&header, b"two"));
        let kinds: Vec<_> = answers.iter().flat_map(|p| p.kinds()).collect();
        assert!(kinds.contains(&ChunkType::SACK), "{kinds:?}");
        assert!(kinds.contains(&ChunkType::SHUTDOWN), "{kinds:?}");
    }
    assert_eq!(w.receive_lengths(0, id), [6, 3]);
}

/// RFC 9260, section 9.2
#[test]
fn a_shutdown_acknowledges_data() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    w.send(0, id, 0, pattern(100));
    let sent = peer.receive(&mut w);
    assert_eq!(peer.numbers(&sent), [0]);
    // The peer's SHUTDOWN acknowledges the last message, so SHUTDOWN ACK follows.
    let answers = peer.send(&mut w, |p| p.shutdown(peer.endpoint_tsn(0)));
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    peer.send(&mut w, |p| p.shutdown_complete(false));
    assert!(gone(&w));
}

/// RFC 9260, section 9.2
#[test]
fn acknowledging_shutdown_restores_the_window() {
    // A peer may acknowledge with SHUTDOWN alone, which has no window.
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.a_rwnd = 5000;
    let (peer, id) = peer.accept(&mut w);
    for _ in 0..30 {
        w.send(0, id, 0, pattern(1000));
    }
    let mut highest = 0;
    let mut next = peer.receive(&mut w);
    let began = w.now;
    while highest < 29 {
        let numbers = peer.numbers(&next);
        highest = numbers
            .iter()
            .copied()
            .max()
            .unwrap_or(highest)
            .max(highest);
        assert!(w.now - began < secs(1), "stuck after {highest}");
        w.run(ms(10));
        next = peer.receive(&mut w);
        let cumulative = peer.endpoint_tsn(highest);
        next.extend(peer.send(&mut w, |p| p.shutdown(cumulative)));
    }
}
