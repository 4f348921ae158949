//! The verification tag and its exceptions (RFC 9260 sections 8.5 and 8.5.1).

use crate::common;

use carrick_proto::{CloseReason, Event, Route, VerificationTag};
use carrick_wire::{ChunkType, PacketBuilder};
use common::*;

type Write = fn(&mut PacketBuilder<'_>);

const KINDS: [Write; 10] = [
    |p| {
        p.data(
            &Puppet::data_header(carrick_proto::Tsn::new(1000), 0, 0),
            b"x",
        )
    },
    |p| {
        p.sack(
            carrick_proto::Tsn::new(1),
            0,
            [].into_iter(),
            [].into_iter(),
        )
    },
    |p| p.heartbeat(b"info"),
    |p| p.heartbeat_ack(b"info"),
    |p| p.shutdown(carrick_proto::Tsn::new(1)),
    |p| p.shutdown_ack(),
    |p| p.abort(false, |_| {}),
    |p| p.error(|c| c.out_of_resource()),
    |p| p.cookie_ack(),
    |p| p.raw(ChunkType(0xff), 0, b"what"),
];

/// A tag of neither side.
fn wrong(p: &Puppet) -> VerificationTag {
    VerificationTag(p.peer_tag.0 ^ 0x1000)
}

fn closed_by_peer(events: &[Event]) -> bool {
    matches!(
        events.last(),
        Some(Event::Closed(CloseReason::AbortedByPeer(_)))
    )
}

/// RFC 9260, section 8.5, erratum 7852
#[test]
fn a_wrong_tag_is_discarded_silently() {
    for (number, kind) in KINDS.iter().enumerate() {
        for zero in [false, true] {
            let mut w = World::new();
            let (p, id) = Puppet::new().connect(&mut w);
            let tag = if zero {
                VerificationTag::ZERO
            } else {
                wrong(&p)
            };
            let before = w.stats(0, id);
            let answers = p.send_with_tag(&mut w, tag, kind);
            assert!(answers.is_empty(), "kind {number}");
            assert_eq!(w.stats(0, id), before, "kind {number}");
            assert_eq!(w.events(0), [], "kind {number}");
            assert_eq!(w.ends[0].stats().wrong_tag, 1);
            assert_eq!(w.ends[0].stats().out_of_the_blue, 0);
        }
    }
}

/// RFC 9260, section 8.5
#[test]
fn every_packet_carries_the_tag_of_the_peer() {
    let mut w = World::new();
    let (mut p, id) = Puppet::new().connect(&mut w);
    w.send(0, id, 0, &b"hello"[..]);
    let mut packets = p.receive(&mut w);
    packets.extend(p.data(&mut w, 0, 0, b"hello"));
    packets.extend(p.send(&mut w, |p| p.heartbeat(b"info")));
    packets.extend(p.send(&mut w, |p| p.raw(ChunkType(0xff), 0, b"what")));
    assert!(packets.len() >= 4);
    assert!(packets.iter().all(|s| s.tag() == p.tag));
}

/// RFC 9260, section 8.5.1, rule A
#[test]
fn an_init_has_a_zero_tag_and_is_alone() {
    let mut w = World::new();
    let p = Puppet::new();
    for tag in [VerificationTag(1), p.tag] {
        let answers = p.send_with_tag(&mut w, tag, |b| {
            b.init(ChunkType::INIT, p.fields(), |_| {});
        });
        assert!(answers.is_empty());
    }
    for behind in KINDS {
        let answers = p.send_with_tag(&mut w, VerificationTag::ZERO, |b| {
            b.init(ChunkType::INIT, p.fields(), |_| {});
            behind(b);
        });
        assert!(answers.is_empty());
    }
    assert_eq!(w.ends[0].stats().inits, 0);
    // An INIT behind another chunk is no INIT.
    let (p, id) = p.connect(&mut w);
    let before = w.stats(0, id).state;
    let answers = p.send(&mut w, |b| {
        b.heartbeat(b"info");
        b.init(ChunkType::INIT, p.fields(), |_| {});
    });
    assert!(answers.iter().all(|a| !a.has(ChunkType::INIT_ACK)));
    assert_eq!(w.stats(0, id).state, before);
}

/// RFC 9260, section 8.5.1, rule B
#[test]
fn an_abort_needs_our_tag_or_the_t_bit_and_the_peers() {
    for (reflected, theirs, accepted) in [
        (false, false, true),
        (true, true, true),
        (true, false, false),
        (false, true, false),
    ] {
        let mut w = World::new();
        let (p, _) = Puppet::new().connect(&mut w);
        let tag = if theirs { p.tag } else { p.peer_tag };
        let answers = p.send_with_tag(&mut w, tag, |b| b.abort(reflected, |_| {}));
        assert!(
            answers.is_empty(),
            "an ABORT is never answered (section 9.1)"
        );
        assert_eq!(closed_by_peer(&w.events(0)), accepted);
        assert_eq!(w.ends[0].associations().count(), usize::from(!accepted));
    }
}

/// RFC 9260, section 8.5.1, rule B
#[test]
fn an_abort_behind_other_chunks_needs_its_tag() {
    for (reflected, accepted) in [(false, true), (true, false)] {
        let mut w = World::new();
        let (p, id) = Puppet::new().connect(&mut w);
        p.send(&mut w, |b| {
            b.error(|c| c.out_of_resource());
            b.abort(reflected, |_| {});
        });
        assert_eq!(closed_by_peer(&w.events(0)), accepted);
        let stats = w.ends[0].association(id).map(|a| a.stats());
        assert_eq!(stats.is_none(), accepted);
    }
}

/// RFC 9260, section 8.5.1, rule B
#[test]
fn an_abort_needs_our_tag_while_the_peers_is_unknown() {
    for tag in [VerificationTag::ZERO, VerificationTag(77)] {
        let mut w = World::new();
        let mut p = Puppet::new();
        p.begin_accept(&mut w);
        p.send_with_tag(&mut w, tag, |b| b.abort(true, |_| {}));
        p.send_with_tag(&mut w, tag, |b| b.abort(false, |_| {}));
        assert_eq!(w.events(0), []);
        p.send(&mut w, |b| b.abort(true, |_| {}));
        assert_eq!(w.events(0), [], "our tag is not reflected from an INIT");
        p.send(&mut w, |b| b.abort(false, |_| {}));
        assert!(closed_by_peer(&w.events(0)));
    }
}

/// RFC 9260, section 8.5.1, rule B
#[test]
fn a_sent_abort_has_the_peers_tag_and_no_t_bit() {
    let mut w = World::new();
    let (p, id) = Puppet::new().connect(&mut w);
    w.ends[0].abort(w.now, id, b"").expect("it exists");
    let packets = p.receive(&mut w);
    let abort = packets
        .iter()
        .find(|s| s.has(ChunkType::ABORT))
        .expect("ABORT");
    assert_eq!((abort.tag(), abort.flags(ChunkType::ABORT)), (p.tag, 0));
}

/// RFC 9260, section 8.5.1
#[test]
fn a_reflected_tag_is_valid_for_its_chunk_only() {
    // The peer's tag proves less than our own: bundled chunks are ignored.
    let shutdown_complete: Write = |b| b.shutdown_complete(true);
    let broken_abort: Write = |b| b.raw(ChunkType::ABORT, 1, &[0, 12, 0xff, 0xff]);
    for first in [shutdown_complete, broken_abort] {
        let mut w = World::new();
        let (p, id) = Puppet::new().connect(&mut w);
        let before = w.stats(0, id);
        let bytes = p.build(p.tag, |b| {
            first(b);
            b.data(&Puppet::data_header(p.tsn, 0, 0), b"forged");
            b.heartbeat(b"info");
            b.shutdown(p.endpoint_tsn(0).previous());
        });
        let route = Route::encapsulated(p.link.to, p.link.from, 6666);
        w.inject(0, &route, bytes);
        assert!(p.receive(&mut w).is_empty());
        assert_eq!(w.events(0), []);
        assert_eq!(w.receive_lengths(0, id), [] as [usize; 0]);
        assert_eq!(w.stats(0, id).state, before.state);
        assert_eq!(w.path(0, id, 0).encapsulation, None);
    }
}

/// An endpoint that waits for SHUTDOWN COMPLETE.
fn shutdown_ack_sent(w: &mut World) -> Puppet {
    let (p, id) = Puppet::new().connect(w);
    let packets = p.send(w, |b| b.shutdown(p.endpoint_tsn(0).previous()));
    assert!(packets.iter().any(|s| s.has(ChunkType::SHUTDOWN_ACK)));
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
    w.events(0);
    p
}

/// RFC 9260, section 8.5.1, rule C
#[test]
fn a_shutdown_complete_has_either_tag() {
    for (reflected, theirs, accepted) in [
        (false, false, true),
        (true, true, true),
        (true, false, false),
        (false, true, false),
    ] {
        let mut w = World::new();
        let p = shutdown_ack_sent(&mut w);
        let tag = if theirs { p.tag } else { p.peer_tag };
        let answers = p.send_with_tag(&mut w, tag, |b| b.shutdown_complete(reflected));
        assert!(answers.is_empty());
        let closed = w.events(0) == [Event::Closed(CloseReason::Shutdown)];
        assert_eq!(closed, accepted);
        assert_eq!(w.ends[0].associations().count(), usize::from(!accepted));
    }
}

/// RFC 9260, section 8.5.1, rule C
#[test]
fn a_misplaced_shutdown_complete_is_ignored() {
    for reflected in [false, true] {
        let mut w = World::new();
        let (p, id) = Puppet::new().connect(&mut w);
        let tag = if reflected { p.tag } else { p.peer_tag };
        let check = |w: &mut World, state: &str| {
            let answers = p.send_with_tag(w, tag, |b| b.shutdown_complete(reflected));
            assert!(answers.is_empty());
            assert_eq!(state_name(&w.stats(0, id)), state);
        };
        check(&mut w, "Established");
        w.send(0, id, 0, &b"x"[..]);
        w.ends[0].shutdown(w.now, id).expect("it exists");
        p.receive(&mut w);
        check(&mut w, "ShutdownPending");
        p.sack(&mut w, p.endpoint_tsn(0), 10_000, &[]);
        check(&mut w, "ShutdownSent");
        let closed = |e: &Event| matches!(e, Event::Closed(_));
        assert!(!w.events(0).iter().any(closed));
    }
}

/// RFC 9260, section 8.5.1, rule C
#[test]
fn a_sent_shutdown_complete_has_the_peers_tag() {
    let mut w = World::new();
    let (p, id) = Puppet::new().connect(&mut w);
    w.ends[0].shutdown(w.now, id).expect("it exists");
    p.receive(&mut w);
    let answers = p.send(&mut w, |b| b.shutdown_ack());
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_COMPLETE]);
    assert_eq!(answers[0].tag(), p.tag);
    assert_eq!(answers[0].flags(ChunkType::SHUTDOWN_COMPLETE), 0);
}

/// RFC 9260, section 8.5.1, rule D
#[test]
fn a_cookie_echo_has_the_tag_of_the_init_ack() {
    let mut w = World::new();
    let mut p = Puppet::new();
    p.begin_accept(&mut w);
    let mut answering = p.clone();
    answering.tag = VerificationTag(0x7777);
    let packets = answering.answer_init(&mut w, |b| b.state_cookie(b"cookie"));
    assert_eq!(packets[0].kinds(), [ChunkType::COOKIE_ECHO]);
    assert_eq!(packets[0].tag(), VerificationTag(0x7777));
}

/// RFC 9260, section 8.5.1, rule E
#[test]
fn an_early_shutdown_ack_is_out_of_the_blue() {
    for echoed in [false, true] {
        let mut w = World::new();
        let mut p = Puppet::new();
        let id = p.begin_accept(&mut w);
        if echoed {
            p.answer_init(&mut w, |b| b.state_cookie(b"cookie"));
        }
        // It belongs to an earlier association and has its tag.
        for tag in [VerificationTag(99), p.peer_tag] {
            let answers = p.send_with_tag(&mut w, tag, |b| b.shutdown_ack());
            assert_eq!(answers.len(), 1);
            assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_COMPLETE]);
            assert_eq!(answers[0].tag(), tag);
            assert_eq!(answers[0].flags(ChunkType::SHUTDOWN_COMPLETE), 1);
        }
        let state = state_name(&w.stats(0, id));
        assert_eq!(state, if echoed { "CookieEchoed" } else { "CookieWait" });
    }
}

/// RFC 6951, section 5.4
#[test]
fn a_udp_port_is_learned_with_the_right_tag_only() {
    let mut w = World::new();
    let (p, id) = Puppet::new().connect(&mut w);
    let other = Route::encapsulated(p.link.to, p.link.from, 6666);
    for tag in [wrong(&p), VerificationTag::ZERO, p.tag] {
        w.inject(0, &other, p.build(tag, |b| b.heartbeat(b"info")));
        assert_eq!(w.path(0, id, 0).encapsulation, None);
    }
    w.inject(0, &other, p.build(p.peer_tag, |b| b.heartbeat(b"info")));
    assert_eq!(w.path(0, id, 0).encapsulation, Some(6666));
    // Nor does a wrong tag switch it off.
    w.inject(0, &p.route(), p.build(wrong(&p), |b| b.heartbeat(b"info")));
    assert_eq!(w.path(0, id, 0).encapsulation, Some(6666));
    w.inject(0, &p.route(), p.build(p.peer_tag, |b| b.heartbeat(b"info")));
    assert_eq!(w.path(0, id, 0).encapsulation, None);
}

#[test]
fn another_port_is_another_peer() {
    let mut w = World::new();
    let (mut p, id) = Puppet::new().connect(&mut w);
    let before = w.stats(0, id);
    p.port += 1;
    let answers = p.data(&mut w, 0, 0, b"x");
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT], "out of the blue");
    assert_eq!(w.stats(0, id), before);
}
