//! The end of an association (RFC 9260 sections 8.5.1 B and C, 9.1, 9.2).

mod common;

use carrick_proto::{CloseReason, Event, OperationError, Part, SendError, SendOptions, Tsn};
use carrick_wire::{CauseCode, ChunkType, DataFlags, VerificationTag};
use common::*;

fn closed(events: &[Event]) -> Vec<&CloseReason> {
    events
        .iter()
        .filter_map(|e| match e {
            Event::Closed(reason) => Some(reason),
            _ => None,
        })
        .collect()
}

fn gone(w: &World) -> bool {
    w.ends.iter().all(|e| e.associations().count() == 0)
}

#[test]
fn three_packets_end_an_association_9_2() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    w.log.clear();
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(1));
    let kinds: Vec<_> = w.log.iter().flat_map(|p| p.kinds()).collect();
    assert_eq!(
        kinds,
        [
            ChunkType::SHUTDOWN,
            ChunkType::SHUTDOWN_ACK,
            ChunkType::SHUTDOWN_COMPLETE
        ]
    );
    assert_eq!(w.log[2].flags(ChunkType::SHUTDOWN_COMPLETE), 0, "no T bit");
    assert_eq!(closed(&w.events(0)), [&CloseReason::Shutdown]);
    let events = w.events(1);
    assert!(events.contains(&Event::PeerShutdown));
    assert_eq!(closed(&events), [&CloseReason::Shutdown]);
    assert!(gone(&w));
    assert_eq!(
        w.ends[1].shutdown(w.now, b),
        Err(OperationError::UnknownAssociation)
    );
    assert_eq!((w.ends[0].stats().closed, w.ends[1].stats().closed), (1, 1));
}

#[test]
fn each_lost_packet_of_the_end_is_sent_again_9_2() {
    for (end, kind) in [
        (0, ChunkType::SHUTDOWN),
        (1, ChunkType::SHUTDOWN_ACK),
        (0, ChunkType::SHUTDOWN_COMPLETE),
    ] {
        for losses in [1, 3] {
            let mut w = World::new();
            let (a, _) = w.connect();
            w.lose(end, kind, losses);
            w.ends[0].shutdown(w.now, a).unwrap();
            w.run(secs(60));
            assert!(gone(&w), "{kind} lost {losses} times");
            assert_eq!(closed(&w.events(0)), [&CloseReason::Shutdown], "{kind}");
            assert_eq!(closed(&w.events(1)), [&CloseReason::Shutdown], "{kind}");
        }
    }
}

#[test]
fn all_messages_of_both_sides_arrive_before_the_end_9_2() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.lose_data(0, &[5, 20]);
    w.lose_data(1, &[3, 30]);
    for _ in 0..40 {
        w.send(0, a, 0, pattern(3000));
        w.send(1, b, 0, pattern(2000));
    }
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(60));
    let kinds = w.log.iter().position(|p| p.has(ChunkType::SHUTDOWN));
    let last_data = w
        .log
        .iter()
        .rposition(|p| p.from == 0 && p.has(ChunkType::DATA));
    assert!(last_data < kinds, "SHUTDOWN after all own data");
    assert_eq!(w.receive_lengths(1, b), [3000; 40]);
    assert_eq!(w.receive_lengths(0, a), [2000; 40]);
    assert!(gone(&w));
    assert_eq!(closed(&w.events(0)), [&CloseReason::Shutdown]);
}

#[test]
fn both_sides_may_shut_down_at_once_9_2() {
    for data in [0, 20] {
        let mut w = World::new();
        let (a, b) = w.connect();
        for _ in 0..data {
            w.send(0, a, 0, pattern(2000));
            w.send(1, b, 0, pattern(2000));
        }
        w.ends[0].shutdown(w.now, a).unwrap();
        w.ends[1].shutdown(w.now, b).unwrap();
        w.run(secs(30));
        assert_eq!(w.receive_lengths(1, b), vec![2000; data]);
        assert_eq!(w.receive_lengths(0, a), vec![2000; data]);
        assert!(gone(&w));
        assert_eq!(closed(&w.events(0)), [&CloseReason::Shutdown]);
        assert_eq!(closed(&w.events(1)), [&CloseReason::Shutdown]);
    }
}

#[test]
fn crossing_shutdown_and_shutdown_ack_with_losses_end_9_2() {
    for lost in [
        ChunkType::SHUTDOWN,
        ChunkType::SHUTDOWN_ACK,
        ChunkType::SHUTDOWN_COMPLETE,
    ] {
        for (first, second) in [(1, 0), (0, 1), (1, 1), (2, 2)] {
            let mut w = World::new();
            let (a, b) = w.connect();
            w.lose(0, lost, first);
            w.lose(1, lost, second);
            w.ends[0].shutdown(w.now, a).unwrap();
            w.ends[1].shutdown(w.now, b).unwrap();
            w.run(secs(60));
            assert!(gone(&w), "{lost} lost {first} and {second} times");
        }
    }
}

#[test]
fn no_new_messages_while_shutting_down_9_2() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.kill(addresses(0)[0]);
    w.kill(addresses(0)[1]);
    w.send(0, a, 0, pattern(10));
    w.ends[0].shutdown(w.now, a).unwrap();
    w.pump();
    assert_eq!(state_name(&w.stats(0, a)), "ShutdownPending");
    let refuse = |w: &mut World, end: usize, id| {
        w.ends[end].send(w.now, id, SendOptions::default(), pattern(1))
    };
    assert_eq!(refuse(&mut w, 0, a), Err(SendError::ShuttingDown));
    w.revive(addresses(0)[0]);
    w.revive(addresses(0)[1]);
    w.rule(|p| {
        let hold = p.from == 1 && p.has(ChunkType::DATA);
        if hold { Fate::Drop } else { Fate::Pass }
    });
    w.send(1, b, 0, pattern(1000));
    assert!(w.run_until(secs(10), |w| {
        w.states() == [Some("ShutdownSent"), Some("ShutdownReceived")]
    }));
    assert_eq!(refuse(&mut w, 0, a), Err(SendError::ShuttingDown));
    assert_eq!(refuse(&mut w, 1, b), Err(SendError::ShuttingDown));
    assert_eq!(w.ends[1].shutdown(w.now, b), Ok(()), "ignored");
    assert_eq!(w.states()[1], Some("ShutdownReceived"));
    w.clear_rules();
    w.run(secs(60));
    assert_eq!(w.receive_lengths(0, a), [1000]);
    assert_eq!(w.receive_lengths(1, b), [10]);
    assert!(gone(&w));
}

#[test]
fn t2_gives_up_after_association_max_retrans_9_2() {
    for (survivor, kind) in [(0, ChunkType::SHUTDOWN), (1, ChunkType::SHUTDOWN_ACK)] {
        let mut w = World::with(2, |_, c| {
            c.local_addresses.truncate(1);
            c.association.shutdown_guard = Some(secs(100_000));
        });
        w.config.shutdown_guard = Some(secs(100_000));
        let (a, _) = w.connect();
        let other = 1 - survivor;
        // What the other side says from now on is lost; the SHUTDOWN still gets there.
        w.rule(move |p| {
            let silent = p.from == other && !(survivor == 1 && p.has(ChunkType::SHUTDOWN));
            if silent { Fate::Drop } else { Fate::Pass }
        });
        w.ends[0].shutdown(w.now, a).unwrap();
        w.run(secs(5));
        // After the first answer the other end has done its part and is silent for good.
        w.kill(addresses(other)[0]);
        w.run(secs(2000));
        assert_eq!(w.sent(survivor, kind).len(), 11, "once and ten times again");
        assert_eq!(
            closed(&w.events(survivor)),
            [&CloseReason::PeerUnreachable],
            "{kind}"
        );
    }
}

#[test]
fn t2_uses_all_paths_and_doubles_9_2() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.kill(addresses(1)[0]);
    w.log.clear();
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(ms(1500));
    assert!(gone(&w), "the answer goes where the SHUTDOWN came from");
    let to: Vec<_> = w
        .sent(0, ChunkType::SHUTDOWN)
        .iter()
        .map(|p| p.to())
        .collect();
    assert_eq!(to, addresses(1));
}

#[test]
fn t5_guard_aborts_a_shutdown_that_takes_too_long_9_2() {
    let mut w = World::single_homed();
    w.config.rto_max = secs(10);
    let (mut peer, id) = Puppet::new().accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    let began = w.now;
    let mut aborted = None;
    // The peer goes on sending data and never answers the SHUTDOWN.
    for i in 0..200 {
        w.run(ms(500));
        if w.ends[0].associations().next().is_none() {
            aborted = Some(w.now);
            break;
        }
        let answers = peer.data(&mut w, 0, i, b"more");
        assert!(answers.iter().any(|p| p.has(ChunkType::SHUTDOWN)));
        w.receive(0, id);
    }
    let took = aborted.expect("the guard ended it") - began;
    assert!(
        took >= secs(50) && took <= secs(51),
        "5 * RTO.Max: {took:?}"
    );
    assert_eq!(closed(&w.events(0)), [&CloseReason::ShutdownTimedOut]);
    assert!(peer.hear(&mut w).iter().any(|p| p.has(ChunkType::ABORT)));
}

#[test]
fn a_peer_that_sends_data_now_and_then_is_not_given_up_in_shutdown_sent_9_2() {
    // Any packet of the peer clears the count of retransmissions.
    let mut w = World::single_homed();
    w.config.shutdown_guard = Some(secs(100_000));
    let (mut peer, id) = Puppet::new().accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    for i in 0..30 {
        w.run(secs(100));
        peer.data(&mut w, 0, i, b"slow");
        w.receive(0, id);
        assert_eq!(w.states()[0], Some("ShutdownSent"), "after message {i}");
    }
    peer.say(&mut w, |p| p.shutdown_ack());
    assert!(gone(&w));
}

#[test]
fn data_in_shutdown_sent_is_answered_with_shutdown_9_2() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().accept(&mut w);
    peer.data(&mut w, 0, 0, b"before");
    w.ends[0].shutdown(w.now, id).unwrap();
    let shutdown = peer.hear(&mut w);
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
        let answers = peer.say(&mut w, |p| p.data(&header, b"two"));
        let kinds: Vec<_> = answers.iter().flat_map(|p| p.kinds()).collect();
        assert!(kinds.contains(&ChunkType::SACK), "{kinds:?}");
        assert!(kinds.contains(&ChunkType::SHUTDOWN), "{kinds:?}");
    }
    assert_eq!(w.receive_lengths(0, id), [6, 3]);
}

#[test]
fn a_shutdown_acknowledges_data_9_2() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    w.send(0, id, 0, pattern(100));
    let sent = peer.hear(&mut w);
    assert_eq!(peer.numbers(&sent), [0]);
    // The peer's SHUTDOWN says that the message arrived: nothing is left, SHUTDOWN ACK.
    let answers = peer.say(&mut w, |p| p.shutdown(peer.theirs(0)));
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    peer.say(&mut w, |p| p.shutdown_complete(false));
    assert!(gone(&w));
}

#[test]
fn a_shutdown_gives_the_window_back_that_its_data_had_taken() {
    // A peer may acknowledge with SHUTDOWN alone, which has no window.
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.a_rwnd = 5000;
    let (peer, id) = peer.accept(&mut w);
    for _ in 0..30 {
        w.send(0, id, 0, pattern(1000));
    }
    let mut highest = 0;
    let mut next = peer.hear(&mut w);
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
        next = peer.hear(&mut w);
        let cumulative = peer.theirs(highest);
        next.extend(peer.say(&mut w, |p| p.shutdown(cumulative)));
    }
}

#[test]
fn shutdown_while_being_set_up_is_discarded_9_2() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    let own = peer.peer_tag;
    let tsn = peer.theirs(0).previous();
    assert_eq!(peer.say_with(&mut w, own, |p| p.shutdown(tsn)).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "CookieWait");
    peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    assert_eq!(peer.say(&mut w, |p| p.shutdown(tsn)).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "CookieEchoed");
}

#[test]
fn shutdown_ack_while_being_set_up_is_out_of_the_blue_8_5_1_e() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    for state in ["CookieWait", "CookieEchoed"] {
        assert_eq!(state_name(&w.stats(0, id)), state);
        let tag = VerificationTag(0xabcd);
        let answers = peer.say_with(&mut w, tag, |p| p.shutdown_ack());
        assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_COMPLETE]);
        assert_eq!(answers[0].tag(), tag, "the same tag");
        assert_eq!(answers[0].flags(ChunkType::SHUTDOWN_COMPLETE), 1);
        assert_eq!(state_name(&w.stats(0, id)), state, "stays");
        peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    }
}

#[test]
fn the_users_shutdown_during_set_up_drops_the_association() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(closed(&w.events(0)), [&CloseReason::AbortedByUser]);
    assert_eq!(peer.hear(&mut w).len(), 0, "the peer's tag is not known");
    peer.port += 1;
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(closed(&w.events(0)), [&CloseReason::AbortedByUser]);
    assert!(peer.hear(&mut w)[0].has(ChunkType::ABORT));
    assert!(gone(&w));
}

#[test]
fn shutdown_ack_in_shutdown_ack_sent_completes_9_2() {
    let mut w = World::single_homed();
    let (peer, _) = Puppet::new().accept(&mut w);
    let tsn = peer.theirs(0).previous();
    let answers = peer.say(&mut w, |p| p.shutdown(tsn));
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    let answers = peer.say(&mut w, |p| p.shutdown_ack());
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_COMPLETE]);
    assert_eq!(answers[0].flags(ChunkType::SHUTDOWN_COMPLETE), 0);
    assert_eq!(answers[0].tag(), peer.tag);
    assert!(gone(&w));
}

#[test]
fn shutdown_in_shutdown_sent_is_answered_with_shutdown_ack_9_2() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    peer.hear(&mut w);
    let tsn = peer.theirs(0).previous();
    let answers = peer.say(&mut w, |p| p.shutdown(tsn));
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
}

#[test]
fn a_repeated_shutdown_is_answered_again_9_2() {
    let mut w = World::single_homed();
    let (peer, _) = Puppet::new().accept(&mut w);
    let tsn = peer.theirs(0).previous();
    for _ in 0..3 {
        let answers = peer.say(&mut w, |p| p.shutdown(tsn));
        assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    }
}

#[test]
fn shutdown_complete_outside_shutdown_ack_sent_is_discarded_8_5_1_c() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    peer.say(&mut w, |p| p.shutdown_complete(false));
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    w.ends[0].shutdown(w.now, id).unwrap();
    peer.say(&mut w, |p| p.shutdown_complete(false));
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownSent");
}

#[test]
fn shutdown_complete_needs_the_right_tag_8_5_1_c() {
    for (reflected, own_tag, accepted) in [
        (false, true, true),
        (true, false, true),
        (true, true, false),
        (false, false, false),
    ] {
        let mut w = World::single_homed();
        let (peer, _) = Puppet::new().accept(&mut w);
        let tsn = peer.theirs(0).previous();
        peer.say(&mut w, |p| p.shutdown(tsn));
        let tag = if own_tag { peer.peer_tag } else { peer.tag };
        peer.say_with(&mut w, tag, |p| p.shutdown_complete(reflected));
        assert_eq!(gone(&w), accepted, "T bit {reflected}, own tag {own_tag}");
    }
}

#[test]
fn abort_needs_the_right_tag_8_5_1_b() {
    for (reflected, own_tag, accepted) in [
        (false, true, true),
        (true, false, true),
        (true, true, false),
        (false, false, false),
    ] {
        let mut w = World::single_homed();
        let (peer, _) = Puppet::new().accept(&mut w);
        let tag = if own_tag { peer.peer_tag } else { peer.tag };
        let answers = peer.say_with(&mut w, tag, |p| p.abort(reflected, |_| {}));
        assert_eq!(answers.len(), 0, "never an answer to ABORT");
        assert_eq!(gone(&w), accepted, "T bit {reflected}, own tag {own_tag}");
    }
}

#[test]
fn an_abort_tells_the_reason_9_1() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.send(0, a, 0, pattern(10));
    w.ends[0].abort(w.now, a, b"tired of this").unwrap();
    assert_eq!(closed(&w.events(0)), [&CloseReason::AbortedByUser]);
    w.run(secs(1));
    let abort = w.sent(0, ChunkType::ABORT)[0];
    assert_eq!(abort.kinds(), [ChunkType::ABORT], "no DATA with it");
    assert_eq!(
        abort.causes(),
        [(CauseCode::USER_INITIATED_ABORT, b"tired of this".to_vec())]
    );
    let events = w.events(1);
    let reasons = closed(&events);
    assert!(
        matches!(reasons[..], [CloseReason::AbortedByPeer(c)] if c.code == 12 && c.information == b"tired of this")
    );
    assert!(gone(&w));
    assert_eq!(w.log.last().unwrap().from, 0, "no answer to the ABORT");
}

#[test]
fn a_long_reason_still_fits_into_a_packet_9_1() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.ends[0].abort(w.now, a, &pattern(70_000)).unwrap();
    w.run(secs(1));
    assert!(gone(&w));
}

#[test]
fn what_was_received_can_be_read_after_the_end() {
    for abort in [false, true] {
        let mut w = World::new();
        let (a, b) = w.connect();
        // The last SACK is still delayed when the ABORT comes.
        w.send(0, a, 0, pattern(10));
        w.run(secs(1));
        w.send(0, a, 0, pattern(20));
        w.run(ms(15));
        if abort {
            w.ends[0].abort(w.now, a, b"").unwrap();
        } else {
            w.ends[0].shutdown(w.now, a).unwrap();
        }
        w.run(secs(10));
        assert_eq!(closed(&w.events(1)).len(), 1);
        assert_eq!(
            w.ends[1].send(w.now, b, SendOptions::default(), pattern(1)),
            Err(SendError::UnknownAssociation)
        );
        assert_eq!(w.receive_lengths(1, b), [10, 20]);
        assert!(gone(&w));
        assert_eq!(w.ends[1].receive(b), None);
    }
}

#[test]
fn a_peer_can_come_back_while_its_last_messages_are_unread() {
    let mut w = World::single_homed();
    let (mut peer, first) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"unread");
    peer.say(&mut w, |p| p.abort(false, |_| {}));
    assert_eq!(closed(&w.events(0)).len(), 1);
    let mut again = Puppet::new();
    again.tag = VerificationTag(0x7777);
    let answers = again.init(&mut w, |_| {});
    again.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    assert!(again.say(&mut w, |p| p.cookie_echo(&cookie))[0].has(ChunkType::COOKIE_ACK));
    let events = w.events(0);
    assert!(
        matches!(events[..], [Event::Established { accepted: true, .. }]),
        "a new association, not a restart: {events:?}"
    );
    assert_eq!(w.receive_lengths(0, first), [6], "the old one's");
    let second = w.only(0);
    assert_ne!(first, second);
    again.data(&mut w, 0, 0, b"fresh data");
    assert_eq!(w.receive_lengths(0, second), [10]);
}

#[test]
fn connecting_again_works_while_the_last_messages_are_unread() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"unread");
    peer.say(&mut w, |p| p.abort(false, |_| {}));
    let again = w.ends[0].connect(w.now, &[peer.link.from], peer.port, None, w.config.clone());
    assert!(again.is_ok(), "{again:?}");
}

#[test]
fn undelivered_messages_come_back_when_the_association_fails_11_2_2() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    for context in 0..4 {
        let options = SendOptions {
            context,
            ..SendOptions::default()
        };
        w.send_with(0, id, options, pattern(1400));
    }
    let sent = peer.hear(&mut w);
    assert_eq!(
        peer.numbers(&sent),
        [0, 1, 2],
        "the window takes three and a bit"
    );
    peer.sack(&mut w, peer.theirs(0), 1 << 20, &[]);
    peer.say(&mut w, |p| p.abort(false, |_| {}));
    let failed: Vec<_> = w
        .events(0)
        .into_iter()
        .filter_map(|e| match e {
            Event::SendFailed(f) => Some((f.context, f.unsent.len())),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(1, 1400), (2, 1400), (3, 1400)]);
}

#[test]
fn sack_and_heartbeat_in_late_states_are_handled_by_the_table_8_3() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    let tsn = peer.theirs(0).previous();
    peer.say(&mut w, |p| p.shutdown(tsn));
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
    let answers = peer.say(&mut w, |p| p.heartbeat(b"hello"));
    assert!(answers.iter().all(|p| !p.has(ChunkType::HEARTBEAT_ACK)));
    // DATA in SHUTDOWN-ACK-SENT is discarded.
    let header = Puppet::data_header(peer.tsn, 0, 0);
    let answers = peer.say(&mut w, |p| p.data(&header, b"late"));
    assert!(answers.iter().all(|p| !p.has(ChunkType::SACK)));
    assert_eq!(w.receive_lengths(0, id), [0; 0]);
}

#[test]
fn an_init_in_shutdown_ack_sent_is_answered_with_shutdown_ack_9_2() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    let tsn = peer.theirs(0).previous();
    peer.say(&mut w, |p| p.shutdown(tsn));
    peer.tag = VerificationTag(0x9999);
    let answers = peer.init(&mut w, |_| {});
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    assert_eq!(
        answers[0].tag(),
        Puppet::new().tag,
        "the association's tag, not the INIT's"
    );
}

#[test]
fn a_message_whose_life_ends_does_not_hold_up_the_shutdown() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.a_rwnd = 1500;
    let (peer, id) = peer.accept(&mut w);
    w.send(0, id, 0, pattern(1000));
    peer.hear(&mut w);
    peer.sack(&mut w, peer.theirs(0), 0, &[]);
    // The window is closed: this one can't leave.
    let options = SendOptions {
        lifetime: Some(ms(300)),
        context: 9,
        ..SendOptions::default()
    };
    w.send_with(0, id, options, pattern(500));
    w.ends[0]
        .set_heartbeat(w.now, id, carrick_proto::PathId(0), false)
        .unwrap();
    w.ends[0].shutdown(w.now, id).unwrap();
    w.run(ms(400));
    let events = w.events(0);
    assert!(
        events
            .iter()
            .any(|e| matches!(e, Event::SendFailed(f) if f.context == 9 && f.expired)),
        "{events:?}"
    );
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownSent");
}

#[test]
fn shutdown_waits_for_messages_behind_a_closed_window() {
    let mut w = World::with(2, |_, c| c.association.receive_buffer = 5000);
    let (a, b) = w.connect();
    for _ in 0..20 {
        w.send(0, a, 0, pattern(1000));
    }
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(500));
    assert_eq!(w.states()[0], Some("ShutdownPending"), "the peer is alive");
    let mut got = 0;
    for _ in 0..100 {
        got += w.receive(1, b).len();
        w.run(secs(2));
    }
    assert_eq!(got, 20);
    assert!(gone(&w));
}

#[test]
fn the_last_part_of_a_partial_delivery_comes_before_the_end() {
    let mut w = World::with(2, |_, c| c.association.receive_buffer = 20_000);
    let (a, b) = w.connect();
    w.send(0, a, 0, pattern(100_000));
    w.ends[0].shutdown(w.now, a).unwrap();
    let mut parts = Vec::new();
    for _ in 0..200 {
        w.run(ms(300));
        parts.extend(w.receive(1, b));
    }
    let total: usize = parts.iter().map(|m| m.payload.len()).sum();
    assert_eq!(total, 100_000);
    assert_eq!(parts.first().unwrap().part, Part::First);
    assert_eq!(parts.last().unwrap().part, Part::Last);
    assert!(gone(&w));
}

#[test]
fn shutdown_of_an_unsent_tsn_is_a_violation() {
    let mut w = World::single_homed();
    let (peer, _) = Puppet::new().accept(&mut w);
    let answers = peer.say(&mut w, |p| p.shutdown(peer.theirs(5)));
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].causes()[0].0, CauseCode::PROTOCOL_VIOLATION);
}

#[test]
fn a_fragment_that_waits_is_forgotten_at_the_end() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    let mut header = Puppet::data_header(peer.tsn, 0, 0);
    header.flags = DataFlags {
        ending: false,
        ..DataFlags::WHOLE
    };
    peer.say(&mut w, |p| p.data(&header, b"half"));
    peer.tsn = Tsn::new(0);
    peer.say(&mut w, |p| p.abort(false, |_| {}));
    assert_eq!(w.ends[0].receive(id), None);
    assert!(gone(&w));
}

#[test]
fn a_stale_cookie_error_while_shutting_down_is_discarded_5_2_6() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    let stale = |w: &mut World| peer.say(w, |p| p.error(|c| c.stale_cookie(5)));
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(stale(&mut w).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownSent");
    let tsn = peer.theirs(0).previous();
    peer.say(&mut w, |p| p.shutdown(tsn));
    assert_eq!(stale(&mut w).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
    peer.say(&mut w, |p| p.shutdown_complete(false));
    assert_eq!(closed(&w.events(0)), [&CloseReason::Shutdown]);
}

#[test]
fn an_abort_that_was_lost_is_found_out_by_the_next_packet_8_3() {
    for silent in [false, true] {
        let mut w = World::new();
        let (a, b) = w.connect();
        w.lose(0, ChunkType::ABORT, 1);
        w.ends[0].abort(w.now, a, b"").unwrap();
        if !silent {
            w.send(1, b, 0, pattern(10));
        }
        w.run(secs(100));
        assert!(gone(&w), "by {}", if silent { "HEARTBEAT" } else { "DATA" });
        let events = w.events(1);
        assert!(matches!(
            closed(&events)[..],
            [CloseReason::AbortedByPeer(_)]
        ));
    }
}

#[test]
fn timeouts_without_a_bound_are_no_overflow() {
    let endless = |c: &mut carrick_proto::AssociationConfig| {
        c.rto_max = std::time::Duration::MAX;
        c.hb_interval = std::time::Duration::MAX;
        c.no_progress_after = Some(u32::MAX);
        c.association_max_retrans = 200;
        c.path_max_retrans = 200;
    };
    let mut w = World::with(2, |_, c| endless(&mut c.association));
    endless(&mut w.config);
    let (a, b) = w.connect();
    w.kill(addresses(1)[0]);
    w.kill(addresses(1)[1]);
    w.send(0, a, 0, pattern(10));
    w.run(secs(1 << 33));
    assert_eq!(w.states(), [Some("Established"); 2]);
    w.revive(addresses(1)[0]);
    w.revive(addresses(1)[1]);
    w.ends[1].shutdown(w.now, b).unwrap();
    w.run(secs(1));
    assert_eq!(w.states()[0], Some("ShutdownReceived"));
}
