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

/// A tag that is neither side's.
fn wrong(p: &Puppet) -> VerificationTag {
    VerificationTag(p.peer_tag.0 ^ 0x1000)
}

fn closed_by_peer(events: &[Event]) -> bool {
    matches!(
        events.last(),
        Some(Event::Closed(CloseReason::AbortedByPeer(_)))
    )
}

#[test]
fn a_wrong_tag_is_discarded_without_a_word_8_5() {
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
            let answers = p.say_with(&mut w, tag, kind);
            assert!(answers.is_empty(), "kind {number}");
            assert_eq!(w.stats(0, id), before, "kind {number}");
            assert_eq!(w.events(0), [], "kind {number}");
            assert_eq!(w.ends[0].stats().wrong_tag, 1);
            assert_eq!(w.ends[0].stats().out_of_the_blue, 0);
        }
    }
}

#[test]
fn every_packet_carries_the_peers_tag_8_5() {
    let mut w = World::new();
    let (mut p, id) = Puppet::new().connect(&mut w);
    w.send(0, id, 0, &b"hello"[..]);
    let mut heard = p.hear(&mut w);
    heard.extend(p.data(&mut w, 0, 0, b"hello"));
    heard.extend(p.say(&mut w, |p| p.heartbeat(b"info")));
    heard.extend(p.say(&mut w, |p| p.raw(ChunkType(0xff), 0, b"what")));
    assert!(heard.len() >= 4);
    assert!(heard.iter().all(|s| s.tag() == p.tag));
}

#[test]
fn a_an_init_has_a_zero_tag_and_is_alone_8_5_1() {
    let mut w = World::new();
    let p = Puppet::new();
    for tag in [VerificationTag(1), p.tag] {
        let answers = p.say_with(&mut w, tag, |b| {
            b.init(ChunkType::INIT, p.fields(), |_| {});
        });
        assert!(answers.is_empty());
    }
    for behind in KINDS {
        let answers = p.say_with(&mut w, VerificationTag::ZERO, |b| {
            b.init(ChunkType::INIT, p.fields(), |_| {});
            behind(b);
        });
        assert!(answers.is_empty());
    }
    assert_eq!(w.ends[0].stats().inits, 0);
    // An INIT behind another chunk is no INIT.
    let (p, id) = p.connect(&mut w);
    let before = w.stats(0, id).state;
    let answers = p.say(&mut w, |b| {
        b.heartbeat(b"info");
        b.init(ChunkType::INIT, p.fields(), |_| {});
    });
    assert!(answers.iter().all(|a| !a.has(ChunkType::INIT_ACK)));
    assert_eq!(w.stats(0, id).state, before);
}

#[test]
fn b_an_abort_has_our_tag_or_with_the_t_bit_the_peers_8_5_1() {
    for (reflected, theirs, accepted) in [
        (false, false, true),
        (true, true, true),
        (true, false, false),
        (false, true, false),
    ] {
        let mut w = World::new();
        let (p, _) = Puppet::new().connect(&mut w);
        let tag = if theirs { p.tag } else { p.peer_tag };
        let answers = p.say_with(&mut w, tag, |b| b.abort(reflected, |_| {}));
        assert!(
            answers.is_empty(),
            "an ABORT is never answered (section 9.1)"
        );
        assert_eq!(closed_by_peer(&w.events(0)), accepted);
        assert_eq!(w.ends[0].associations().count(), usize::from(!accepted));
    }
}

#[test]
fn b_an_abort_behind_other_chunks_follows_the_same_rule_8_5_1() {
    for (reflected, accepted) in [(false, true), (true, false)] {
        let mut w = World::new();
        let (p, id) = Puppet::new().connect(&mut w);
        p.say(&mut w, |b| {
            b.error(|c| c.out_of_resource());
            b.abort(reflected, |_| {});
        });
        assert_eq!(closed_by_peer(&w.events(0)), accepted);
        let stats = w.ends[0].association_stats(id);
        assert_eq!(stats.is_none(), accepted);
    }
}

#[test]
fn b_while_the_peers_tag_is_unknown_only_our_own_tag_ends_the_set_up_8_5_1() {
    for tag in [VerificationTag::ZERO, VerificationTag(77)] {
        let mut w = World::new();
        let mut p = Puppet::new();
        p.begin_accept(&mut w);
        p.say_with(&mut w, tag, |b| b.abort(true, |_| {}));
        p.say_with(&mut w, tag, |b| b.abort(false, |_| {}));
        assert_eq!(w.events(0), []);
        p.say(&mut w, |b| b.abort(true, |_| {}));
        assert_eq!(w.events(0), [], "our tag is not reflected from an INIT");
        p.say(&mut w, |b| b.abort(false, |_| {}));
        assert!(closed_by_peer(&w.events(0)));
    }
}

#[test]
fn b_the_abort_that_is_sent_has_the_peers_tag_and_no_t_bit_8_5_1() {
    let mut w = World::new();
    let (p, id) = Puppet::new().connect(&mut w);
    w.ends[0].abort(w.now, id, b"").expect("it exists");
    let heard = p.hear(&mut w);
    let abort = heard
        .iter()
        .find(|s| s.has(ChunkType::ABORT))
        .expect("ABORT");
    assert_eq!((abort.tag(), abort.flags(ChunkType::ABORT)), (p.tag, 0));
}

#[test]
fn a_reflected_tag_is_good_for_that_chunk_only_8_5_1() {
    // The peer's tag proves less than our own: nothing that comes along is believed.
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
            b.shutdown(p.theirs(0).previous());
        });
        let route = Route::encapsulated(p.link.to, p.link.from, 6666);
        w.inject(0, &route, bytes);
        assert!(p.hear(&mut w).is_empty());
        assert_eq!(w.events(0), []);
        assert_eq!(w.receive_lengths(0, id), [] as [usize; 0]);
        assert_eq!(w.stats(0, id).state, before.state);
        assert_eq!(w.path(0, id, 0).encapsulation, None);
    }
}

/// An endpoint that waits for SHUTDOWN COMPLETE.
fn shutdown_ack_sent(w: &mut World) -> Puppet {
    let (p, id) = Puppet::new().connect(w);
    let heard = p.say(w, |b| b.shutdown(p.theirs(0).previous()));
    assert!(heard.iter().any(|s| s.has(ChunkType::SHUTDOWN_ACK)));
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
    w.events(0);
    p
}

#[test]
fn c_a_shutdown_complete_has_our_tag_or_with_the_t_bit_the_peers_8_5_1() {
    for (reflected, theirs, accepted) in [
        (false, false, true),
        (true, true, true),
        (true, false, false),
        (false, true, false),
    ] {
        let mut w = World::new();
        let p = shutdown_ack_sent(&mut w);
        let tag = if theirs { p.tag } else { p.peer_tag };
        let answers = p.say_with(&mut w, tag, |b| b.shutdown_complete(reflected));
        assert!(answers.is_empty());
        let closed = w.events(0) == [Event::Closed(CloseReason::Shutdown)];
        assert_eq!(closed, accepted);
        assert_eq!(w.ends[0].associations().count(), usize::from(!accepted));
    }
}

#[test]
fn c_a_shutdown_complete_in_another_state_is_ignored_8_5_1() {
    for reflected in [false, true] {
        let mut w = World::new();
        let (p, id) = Puppet::new().connect(&mut w);
        let tag = if reflected { p.tag } else { p.peer_tag };
        let check = |w: &mut World, state: &str| {
            let answers = p.say_with(w, tag, |b| b.shutdown_complete(reflected));
            assert!(answers.is_empty());
            assert_eq!(state_name(&w.stats(0, id)), state);
        };
        check(&mut w, "Established");
        w.send(0, id, 0, &b"x"[..]);
        w.ends[0].shutdown(w.now, id).expect("it exists");
        p.hear(&mut w);
        check(&mut w, "ShutdownPending");
        p.sack(&mut w, p.theirs(0), 10_000, &[]);
        check(&mut w, "ShutdownSent");
        let closed = |e: &Event| matches!(e, Event::Closed(_));
        assert!(!w.events(0).iter().any(closed));
    }
}

#[test]
fn c_with_a_control_block_the_shutdown_complete_has_the_peers_tag_and_no_t_bit_8_5_1() {
    let mut w = World::new();
    let (p, id) = Puppet::new().connect(&mut w);
    w.ends[0].shutdown(w.now, id).expect("it exists");
    p.hear(&mut w);
    let answers = p.say(&mut w, |b| b.shutdown_ack());
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_COMPLETE]);
    assert_eq!(answers[0].tag(), p.tag);
    assert_eq!(answers[0].flags(ChunkType::SHUTDOWN_COMPLETE), 0);
}

#[test]
fn d_a_cookie_echo_carries_the_tag_of_the_init_ack_8_5_1() {
    let mut w = World::new();
    let mut p = Puppet::new();
    p.begin_accept(&mut w);
    let mut answering = p.clone();
    answering.tag = VerificationTag(0x7777);
    let heard = answering.answer_init(&mut w, |b| b.state_cookie(b"cookie"));
    assert_eq!(heard[0].kinds(), [ChunkType::COOKIE_ECHO]);
    assert_eq!(heard[0].tag(), VerificationTag(0x7777));
}

#[test]
fn e_a_shutdown_ack_during_the_set_up_is_out_of_the_blue_8_5_1() {
    for echoed in [false, true] {
        let mut w = World::new();
        let mut p = Puppet::new();
        let id = p.begin_accept(&mut w);
        if echoed {
            p.answer_init(&mut w, |b| b.state_cookie(b"cookie"));
        }
        // It belongs to an association before this one, and has that one's tag.
        for tag in [VerificationTag(99), p.peer_tag] {
            let answers = p.say_with(&mut w, tag, |b| b.shutdown_ack());
            assert_eq!(answers.len(), 1);
            assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_COMPLETE]);
            assert_eq!(answers[0].tag(), tag);
            assert_eq!(answers[0].flags(ChunkType::SHUTDOWN_COMPLETE), 1);
        }
        let state = state_name(&w.stats(0, id));
        assert_eq!(state, if echoed { "CookieEchoed" } else { "CookieWait" });
    }
}

#[test]
fn the_encapsulation_port_is_learnt_from_the_right_tag_only_rfc_6951_5_4() {
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
