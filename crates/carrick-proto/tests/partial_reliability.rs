//! Messages that are given up: the sender's policies and FORWARD-TSN (RFC 3758 section 3.5 and 4.1,
//! RFC 7496).

mod common;

use std::collections::{BTreeMap, BTreeSet};

use carrick_proto::policy::Policies;
use carrick_proto::{
    Abandoned, AbandonedCount, AbandonmentPolicy, AssociationConfig, AssociationId, Event,
    Extensions, Part, Reliability, SendError, SendFailure, SendOptions, StreamId, StreamScheduler,
};
use carrick_wire::{Chunk, ChunkType, Tsn};
use common::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// The payload that fills a packet.
const FULL: usize = 1452;

const PARTIAL: Extensions = Extensions {
    partial_reliability: true,
    ..Extensions::NONE
};

/// Two endpoints that both offer partial reliability.
fn world() -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = PARTIAL;
    });
    w.config.extensions = PARTIAL;
    let (a, b) = w.connect();
    w.log.clear();
    w.events(0);
    (w, a, b)
}

/// An endpoint with a puppet as its peer that takes FORWARD-TSN if `able`.
fn puppet(able: bool, a_rwnd: u32) -> (World, Puppet, AssociationId) {
    let mut w = World::with(1, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = PARTIAL;
    });
    w.config.extensions = PARTIAL;
    let mut peer = Puppet::new();
    peer.a_rwnd = a_rwnd;
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| {
        if able {
            p.forward_tsn_supported();
        }
        p.state_cookie(b"cookie");
    });
    peer.say(&mut w, |p| p.cookie_ack());
    w.ends[0]
        .set_heartbeat(w.now, id, carrick_proto::PathId(0), false)
        .unwrap();
    w.events(0);
    (w, peer, id)
}

fn with(reliability: Reliability, context: u64) -> SendOptions {
    SendOptions {
        reliability,
        context,
        ..SendOptions::default()
    }
}

fn timed(millis: u64) -> Reliability {
    Reliability::Timed(ms(millis))
}

fn failures(events: &[Event]) -> Vec<&SendFailure> {
    let failed = events.iter().filter_map(|e| match e {
        Event::SendFailed(failure) => Some(failure),
        _ => None,
    });
    failed.collect()
}

fn contexts(events: &[Event]) -> Vec<u64> {
    failures(events).iter().map(|f| f.context).collect()
}

/// The FORWARD-TSNs in these packets: the new cumulative TSN and the streams skipped.
fn forwards(packets: &[Seen]) -> Vec<(Tsn, Vec<(u16, u16)>)> {
    let mut all = Vec::new();
    for packet in packets {
        for chunk in packet.chunks() {
            if let Chunk::ForwardTsn(forward) = chunk {
                let skipped = forward.skipped().map(|(s, n)| (s.0, n.value()));
                all.push((forward.new_cumulative_tsn, skipped.collect()));
            }
        }
    }
    all
}

fn numbers(w: &mut World, end: usize, id: AssociationId) -> Vec<u8> {
    let all = w.receive(end, id);
    all.iter()
        .map(|m| m.payload.clone().into_bytes()[0])
        .collect()
}

/// Full messages of one packet each, their number in the first byte.
fn message(number: u8, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[0] = number;
    bytes
}

#[test]
fn a_message_sent_once_is_given_up_when_it_is_lost_7496_3_1() {
    let (mut w, a, b) = world();
    w.lose_data(0, &[1]);
    for n in 0..6 {
        let options = with(Reliability::Retransmissions(0), u64::from(n));
        w.send_with(0, a, options, message(n, FULL));
    }
    w.run(secs(5));
    assert_eq!(numbers(&mut w, 1, b), [0, 2, 3, 4, 5]);
    assert_eq!(w.data_sent(0), 6, "nothing was sent again");
    let events = w.events(0);
    let [failure] = failures(&events)[..] else {
        panic!("{events:?}");
    };
    assert_eq!(
        (failure.context, failure.sent, failure.expired),
        (1, true, false)
    );
    assert_eq!(failure.abandoned, Some(AbandonmentPolicy::Retransmissions));
    assert_eq!(failure.unsent.len(), FULL);
    let stats = w.stats(0, a);
    assert_eq!((stats.outstanding_chunks, stats.send_buffer_bytes), (0, 0));
    assert_eq!(
        (stats.outstanding_bytes, w.path(0, a, 0).flight_size),
        (0, 0)
    );
    assert!(w.events(0).is_empty() && events.contains(&Event::AllAcknowledged));
}

#[test]
fn the_number_of_retransmissions_is_kept_to_7496_3_1() {
    for most in 0..4_u32 {
        let (mut w, a, b) = world();
        // Every copy of the first message is lost.
        let mut tsn = None;
        w.rule(move |seen| {
            let sent = seen
                .data()
                .first()
                .map(|d| d.tsn)
                .filter(|_| seen.from == 0);
            let doomed = sent.is_some_and(|sent| sent == *tsn.get_or_insert(sent));
            if doomed { Fate::Drop } else { Fate::Pass }
        });
        w.send_with(
            0,
            a,
            with(Reliability::Retransmissions(most), 1),
            message(0, FULL),
        );
        w.run(ms(1));
        w.send(0, a, 0, message(1, FULL));
        w.run(secs(60));
        assert_eq!(w.data_sent(0) as u32, most + 2);
        assert_eq!(numbers(&mut w, 1, b), [1], "{most}");
        assert_eq!(contexts(&w.events(0)), [1]);
        assert_eq!(w.stats(0, a).outstanding_chunks, 0);
    }
}

#[test]
fn the_congestion_window_shrinks_as_for_any_loss_3758_f5() {
    let windows = [Reliability::Full, Reliability::Retransmissions(0)].map(|reliability| {
        let (mut w, a, _) = world();
        w.lose_data(0, &[3]);
        for n in 0..12 {
            w.send_with(0, a, with(reliability, 0), message(n, FULL));
        }
        w.run(ms(80));
        let path = w.path(0, a, 0);
        assert!(path.ssthresh < 1 << 20, "{path:?}");
        path.ssthresh
    });
    assert_eq!(windows[0], windows[1]);
}

#[test]
fn a_timed_message_is_given_up_when_it_would_be_sent_again_too_late_3758_4_1() {
    for (life, arrives) in [(900, false), (1100, true)] {
        let (mut w, a, b) = world();
        w.lose_data(0, &[0]);
        w.send_with(0, a, with(timed(life), 7), message(0, FULL));
        w.run(secs(3));
        w.send(0, a, 0, message(1, FULL));
        w.run(secs(3));
        let expected: &[u8] = if arrives { &[0, 1] } else { &[1] };
        assert_eq!(numbers(&mut w, 1, b), expected, "T3-rtx is one second");
        let events = w.events(0);
        assert_eq!(failures(&events).len(), usize::from(!arrives));
        if !arrives {
            let failure = failures(&events)[0];
            assert!(failure.expired && failure.sent);
            assert_eq!(failure.abandoned, Some(AbandonmentPolicy::Timed));
        }
    }
}

#[test]
fn what_is_on_its_way_in_time_is_not_given_up_3758_4_1() {
    let (mut w, a, b) = world();
    w.latency = ms(100);
    w.send_with(0, a, with(timed(50), 1), message(0, FULL));
    w.run(secs(2));
    assert_eq!(numbers(&mut w, 1, b), [0]);
    assert_eq!(contexts(&w.events(0)), [0; 0]);
    assert_eq!(forwards(&w.log), []);
}

#[test]
fn a_timed_message_that_is_not_sent_gets_no_tsn_3758_tr3() {
    let (mut w, peer, id) = puppet(true, 3000);
    for n in 0..4 {
        w.send_with(0, id, with(timed(300), u64::from(n)), message(n, FULL));
    }
    w.send(0, id, 0, message(9, FULL));
    let sent = peer.hear(&mut w);
    assert_eq!(peer.numbers(&sent), [0, 1]);
    w.run(ms(301));
    let events = w.events(0);
    assert_eq!(contexts(&events), [2, 3], "wherever they are in the queue");
    assert!(
        failures(&events)
            .iter()
            .all(|f| !f.sent && f.unsent.len() == FULL)
    );
    let answers = peer.sack(&mut w, peer.theirs(1), 10_000, &[]);
    assert_eq!(forwards(&answers), []);
    let data = answers[0].data();
    assert_eq!((data[0].tsn, data[0].ssn.value()), (peer.theirs(2), 2));
}

#[test]
fn the_rest_of_a_message_is_not_sent_when_a_part_is_lost_3758_a3() {
    let (mut w, peer, id) = puppet(true, 100_000);
    // Four packets fit into the initial window, the message has ten.
    w.send_with(
        0,
        id,
        with(Reliability::Retransmissions(0), 5),
        pattern(10 * FULL),
    );
    w.send(0, id, 0, message(1, 100));
    let sent = peer.hear(&mut w);
    let count = peer.numbers(&sent).len() as u32;
    assert!(count < 10);
    // All but the first arrive.
    let mut answers = Vec::new();
    for n in 2..=count {
        answers.extend(peer.sack(&mut w, peer.theirs(0).previous(), 100_000, &[(2, n as u16)]));
    }
    let last = answers
        .iter()
        .flat_map(|p| peer.numbers(std::slice::from_ref(p)))
        .max();
    w.run(secs(3));
    answers.extend(peer.hear(&mut w));
    let events = w.events(0);
    let failure = failures(&events)[0];
    assert_eq!((failure.context, failure.sent), (5, true));
    assert_eq!(
        failure.unsent.len(),
        10 * FULL,
        "nothing of it was acknowledged for good"
    );
    let mut whole = Vec::new();
    failure
        .unsent
        .0
        .iter()
        .for_each(|piece| whole.extend_from_slice(piece));
    assert_eq!(whole, pattern(10 * FULL), "in its order");
    let forwards = forwards(&answers);
    let (point, skipped) = forwards.last().expect("a FORWARD-TSN");
    assert_eq!(skipped, &[(0, 0)]);
    let small: Vec<_> = answers
        .iter()
        .flat_map(|p| {
            p.data()
                .into_iter()
                .map(|d| (d.tsn, d.payload.len()))
                .collect::<Vec<_>>()
        })
        .filter(|(_, len)| *len == 100)
        .collect();
    assert_eq!(
        small[0].0,
        point.next(),
        "the next message follows the point"
    );
    assert!(last.is_some());
    // One TSN more than was sent: it stands for the end that is never sent.
    let full = |p: &Seen| {
        p.data()
            .iter()
            .filter(|d| d.payload.len() == FULL)
            .map(|d| d.tsn.since(peer.theirs(0)))
            .max()
    };
    let highest = sent.iter().chain(&answers).filter_map(full).max().unwrap();
    assert_eq!(*point, peer.theirs(highest + 1));
    assert_eq!(
        w.stats(0, id).abandoned.retransmissions,
        AbandonedCount { unsent: 0, sent: 1 }
    );
}

#[test]
fn a_message_whose_beginning_was_taken_is_skipped_as_a_whole_3758_3_5() {
    // The peer has the beginning, acknowledged cumulatively; the rest can't leave in time.
    let (mut w, peer, id) = puppet(true, 2 * FULL as u32);
    w.send_with(0, id, with(timed(500), 1), pattern(5 * FULL));
    w.send(0, id, 0, message(2, 10));
    peer.hear(&mut w);
    peer.sack(&mut w, peer.theirs(1), 0, &[]);
    w.run(ms(501));
    let answers = peer.hear(&mut w);
    assert_eq!(forwards(&answers), [(peer.theirs(2), vec![(0, 0)])]);
    let events = w.events(0);
    let failure = failures(&events)[0];
    assert_eq!((failure.sent, failure.unsent.len()), (true, 3 * FULL));
    let answers = peer.sack(&mut w, peer.theirs(2), 10_000, &[]);
    let data = answers[0].data();
    assert_eq!((data[0].tsn, data[0].ssn.value()), (peer.theirs(3), 1));
    assert!(data[0].flags.beginning && data[0].flags.ending);
}

#[test]
fn the_point_moves_over_what_was_given_up_and_no_further_3758_c2() {
    let (mut w, peer, id) = puppet(true, 100_000);
    let give_up = Reliability::Retransmissions(0);
    // 0, 1 and 3 may be given up, 2 not.
    for (n, reliability) in [give_up, give_up, Reliability::Full, give_up]
        .into_iter()
        .enumerate()
    {
        let options = SendOptions {
            stream: StreamId(n as u16),
            ..with(reliability, n as u64)
        };
        w.send_with(0, id, options, message(0, 100));
    }
    peer.hear(&mut w);
    w.run(secs(2));
    let sent = peer.hear(&mut w);
    assert_eq!(forwards(&sent), [(peer.theirs(1), vec![(0, 0), (1, 0)])]);
    assert_eq!(peer.numbers(&sent), [2], "bundled, and sent again");
    assert_eq!(contexts(&w.events(0)), [0, 1, 3]);
    // C1 and C3: the cumulative TSN reaches the point, and 3 is next.
    let answers = peer.sack(&mut w, peer.theirs(2), 100_000, &[]);
    assert_eq!(forwards(&answers), [(peer.theirs(3), vec![(3, 0)])]);
    peer.sack(&mut w, peer.theirs(3), 100_000, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

#[test]
fn each_stream_is_named_once_and_unordered_messages_never_3758_c4() {
    let (mut w, peer, id) = puppet(true, 100_000);
    for n in 0..24_u16 {
        let options = SendOptions {
            stream: StreamId(n % 3),
            unordered: n % 3 == 2,
            ..with(Reliability::Retransmissions(0), 0)
        };
        w.send_with(0, id, options, message(0, 40));
    }
    let sent = peer.hear(&mut w);
    assert_eq!(peer.numbers(&sent).len(), 24);
    w.run(secs(2));
    let sent = peer.hear(&mut w);
    let [(point, skipped)] = &forwards(&sent)[..] else {
        panic!("one FORWARD-TSN");
    };
    assert_eq!(*point, peer.theirs(23));
    let mut skipped = skipped.clone();
    skipped.sort_unstable();
    assert_eq!(skipped, [(0, 7), (1, 7)]);
}

#[test]
fn a_forward_tsn_fits_into_a_packet_3758_c4() {
    let mut w = World::with(1, |_, c| c.local_addresses.truncate(1));
    w.config = AssociationConfig {
        extensions: PARTIAL,
        path_mtu: 576,
        outbound_streams: 1000,
        max_burst: 1000,
        ..AssociationConfig::default()
    };
    let mut peer = Puppet::new();
    peer.streams = (1000, 1000);
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| {
        p.forward_tsn_supported();
        p.state_cookie(b"cookie");
    });
    peer.say(&mut w, |p| p.cookie_ack());
    // The congestion window grows.
    w.send(0, id, 0, pattern(200_000));
    let mut heard = peer.hear(&mut w);
    let mut cumulative = peer.theirs(0).previous();
    while let Some(highest) = peer.numbers(&heard).into_iter().max() {
        cumulative = peer.theirs(highest);
        heard = peer.sack(&mut w, cumulative, 100_000, &[]);
    }
    // More streams than a packet of 576 bytes can name.
    for stream in 0..500 {
        let options = SendOptions {
            stream: StreamId(stream),
            no_delay: true,
            ..with(Reliability::Retransmissions(0), 0)
        };
        w.send_with(0, id, options, message(0, 1));
    }
    let sent = peer.hear(&mut w);
    assert_eq!(peer.numbers(&sent).len(), 500);
    w.run(ms(2500));
    let mut named = Vec::new();
    let mut sent = peer.hear(&mut w);
    while let Some((point, skipped)) = forwards(&sent).pop() {
        assert!(
            skipped.len() <= (576 - 20 - 12 - 8) / 4,
            "{}",
            skipped.len()
        );
        assert_eq!(
            skipped.len() as u32,
            point.since(cumulative),
            "one a stream"
        );
        named.push(skipped.len());
        cumulative = point;
        sent = peer.sack(&mut w, cumulative, 100_000, &[]);
    }
    assert_eq!(named, [134, 134, 134, 98]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

#[test]
fn a_forward_tsn_is_repeated_until_it_is_acknowledged_3758_c5() {
    let (mut w, peer, id) = puppet(true, 100_000);
    w.send_with(
        0,
        id,
        with(Reliability::Retransmissions(0), 0),
        message(0, 100),
    );
    peer.hear(&mut w);
    w.run(secs(1));
    assert_eq!(forwards(&peer.hear(&mut w)).len(), 1);
    // Nothing else is outstanding; T3-rtx runs with its back-off.
    for pause in [2, 4, 8] {
        w.run(ms(pause * 1000 - 1));
        assert_eq!(forwards(&peer.hear(&mut w)).len(), 0);
        w.run(ms(1));
        assert_eq!(
            forwards(&peer.hear(&mut w)),
            [(peer.theirs(0), vec![(0, 0)])]
        );
    }
    assert_eq!(w.path(0, id, 0).error_count, 4);
    peer.sack(&mut w, peer.theirs(0), 100_000, &[]);
    assert_eq!(
        (w.path(0, id, 0).error_count, w.stats(0, id).error_count),
        (0, 0)
    );
    w.run(secs(600));
    assert_eq!(forwards(&peer.hear(&mut w)).len(), 0);
    assert_eq!(w.stats(0, id).counters.forward_tsns_sent, 4);
}

#[test]
fn a_peer_that_never_answers_a_forward_tsn_counts_as_lost_8_1() {
    let (mut w, _peer, id) = puppet(true, 100_000);
    w.send_with(
        0,
        id,
        with(Reliability::Retransmissions(0), 0),
        message(0, 100),
    );
    w.run(secs(2000));
    let events = w.events(0);
    assert!(
        matches!(
            events.last(),
            Some(Event::Closed(carrick_proto::CloseReason::PeerUnreachable))
        ),
        "{events:?}"
    );
    assert_eq!(contexts(&events), [0], "told once");
}

#[test]
fn sacks_repeat_a_forward_tsn_once_a_round_trip_3758_f2() {
    let (mut w, peer, id) = puppet(true, 100_000);
    let give_up = with(Reliability::Retransmissions(0), 0);
    w.send_with(0, id, give_up, message(0, FULL));
    peer.hear(&mut w);
    w.run(ms(100));
    // Smoothed, the round trip is a few milliseconds.
    peer.sack(&mut w, peer.theirs(0), 100_000, &[]);
    for _ in 0..4 {
        w.send_with(0, id, give_up, message(0, FULL));
    }
    w.run(ms(1));
    peer.hear(&mut w);
    let below = peer.theirs(0);
    let mut heard = Vec::new();
    for last in 2..=4 {
        heard.extend(peer.sack(&mut w, below, 100_000, &[(2, last)]));
    }
    assert_eq!(
        forwards(&heard),
        [(peer.theirs(1), vec![(0, 1)])],
        "three missing reports"
    );
    w.run(ms(5));
    assert_eq!(
        forwards(&peer.sack(&mut w, below, 100_000, &[(2, 4)])).len(),
        0
    );
    w.run(ms(60));
    assert_eq!(
        forwards(&peer.sack(&mut w, below, 100_000, &[(2, 4)])).len(),
        1
    );
}

#[test]
fn a_peer_without_forward_tsn_gets_what_was_begun_3758_3_3_2() {
    let (mut w, peer, id) = puppet(false, 3000);
    assert_eq!(w.stats(0, id).extensions, Extensions::NONE);
    let policies = [
        timed(500),
        Reliability::Retransmissions(0),
        Reliability::Priority(9),
    ];
    w.send_with(0, id, with(policies[0], 0), message(0, 1000));
    w.send_with(0, id, with(policies[1], 1), message(1, 1000));
    w.send_with(0, id, with(policies[0], 2), message(2, 1000));
    w.send_with(0, id, with(policies[0], 3), message(3, 1000));
    let sent = peer.hear(&mut w);
    assert_eq!(peer.numbers(&sent), [0, 1]);
    w.run(secs(2));
    let events = w.events(0);
    assert_eq!(contexts(&events), [2, 3], "only what was not begun");
    w.run(secs(120));
    let sent = peer.hear(&mut w);
    let again = peer.numbers(&sent).iter().filter(|n| **n == 0).count();
    assert!(again >= 5, "again and again: {again}");
    assert_eq!(forwards(&sent), []);
    assert_eq!(w.stats(0, id).abandoned.total().sent, 0);
}

#[test]
fn a_message_of_higher_priority_pushes_out_those_below_7496_3_2() {
    let (mut w, peer, id) = {
        let mut w = World::with(1, |_, c| c.local_addresses.truncate(1));
        w.config.extensions = PARTIAL;
        w.config.send_buffer = 10_000;
        let mut peer = Puppet::new();
        peer.a_rwnd = 1500;
        let id = peer.begin_accept(&mut w);
        peer.answer_init(&mut w, |p| {
            p.forward_tsn_supported();
            p.state_cookie(b"cookie");
        });
        peer.say(&mut w, |p| p.cookie_ack());
        w.events(0);
        (w, peer, id)
    };
    let give = |w: &mut World, reliability, context| {
        w.ends[0].send(
            w.now,
            id,
            with(reliability, context),
            message(context as u8, 1000).into(),
        )
    };
    // One is sent, nine wait.
    for (context, priority) in [(0, 5), (1, 5), (2, 7), (3, 3), (4, 7), (5, 5)] {
        give(&mut w, Reliability::Priority(priority), context).unwrap();
    }
    for context in 6..10 {
        give(&mut w, Reliability::Full, context).unwrap();
    }
    peer.hear(&mut w);
    // The lowest priority first, the oldest first among equals.
    give(&mut w, Reliability::Priority(6), 10).unwrap();
    assert_eq!(contexts(&w.events(0)), [2]);
    assert_eq!(
        give(&mut w, Reliability::Priority(7), 11),
        Err(SendError::BufferFull)
    );
    assert_eq!(
        give(&mut w, Reliability::Priority(9), 11),
        Err(SendError::BufferFull)
    );
    assert_eq!(contexts(&w.events(0)), [0; 0], "nothing is below");
    give(&mut w, Reliability::Full, 12).unwrap();
    give(&mut w, timed(100_000), 13).unwrap();
    assert_eq!(contexts(&w.events(0)), [4, 10]);
    // What was not begun goes before what was sent.
    give(&mut w, Reliability::Priority(4), 14).unwrap();
    give(&mut w, Reliability::Full, 15).unwrap();
    give(&mut w, Reliability::Full, 16).unwrap();
    let events = w.events(0);
    assert_eq!(contexts(&events), [1, 5, 0]);
    assert_eq!(
        failures(&events).iter().map(|f| f.sent).collect::<Vec<_>>(),
        [false, false, true]
    );
    assert_eq!(
        forwards(&peer.hear(&mut w)),
        [(peer.theirs(0), vec![(0, 0)])]
    );
    give(&mut w, Reliability::Full, 17).unwrap();
    give(&mut w, Reliability::Full, 18).unwrap();
    assert_eq!(contexts(&w.events(0)), [14, 3]);
    assert_eq!(
        give(&mut w, Reliability::Full, 19),
        Err(SendError::BufferFull)
    );
    assert_eq!(
        give(&mut w, Reliability::Priority(0), 19),
        Err(SendError::BufferFull)
    );
    let stats = w.stats(0, id);
    assert_eq!(stats.send_buffer_bytes, 10_000);
    assert_eq!(
        stats.abandoned.priority,
        AbandonedCount { unsent: 6, sent: 2 }
    );
    // The rest leaves in its order, behind the second that was sent and given up.
    let payloads = |packets: &[Seen]| -> Vec<u8> {
        let data = |p: &Seen| p.data().iter().map(|d| d.payload[0]).collect::<Vec<_>>();
        packets.iter().flat_map(data).collect()
    };
    let mut order = payloads(&peer.hear(&mut w));
    for _ in 0..12 {
        let cumulative = peer.theirs(1 + order.len() as u32);
        order.extend(payloads(&peer.sack(&mut w, cumulative, 1500, &[])));
    }
    assert_eq!(order, [6, 7, 8, 9, 12, 13, 15, 16, 17, 18]);
}

#[test]
fn nothing_is_given_up_if_that_makes_no_room_7496_3_2() {
    let (mut w, peer, id) = puppet(true, 1500);
    let _ = &peer;
    w.send(0, id, 0, message(0, 1_000_000));
    w.send_with(0, id, with(Reliability::Priority(1), 1), message(1, 10_000));
    let refused = w.ends[0].send(
        w.now,
        id,
        with(Reliability::Priority(0), 2),
        message(2, 60_000).into(),
    );
    assert_eq!(refused, Err(SendError::BufferFull));
    assert_eq!(contexts(&w.events(0)), [0; 0]);
    w.send_with(0, id, with(Reliability::Priority(0), 2), message(2, 30_000));
    assert_eq!(contexts(&w.events(0)), [1; 0], "there was room for that");
    w.send_with(0, id, with(Reliability::Priority(0), 3), message(2, 10_000));
    assert_eq!(contexts(&w.events(0)), [1]);
}

#[test]
fn abandoned_messages_are_counted_by_stream_and_policy_7496_4_3() {
    let (mut w, peer, id) = puppet(true, 100_000);
    for stream in [1, 1, 4] {
        let options = SendOptions {
            stream: StreamId(stream),
            ..with(Reliability::Retransmissions(0), 0)
        };
        w.send_with(0, id, options, message(0, 100));
    }
    peer.hear(&mut w);
    w.run(secs(2));
    peer.sack(&mut w, peer.theirs(2), 0, &[]);
    // The window is closed: this one waits.
    w.send(0, id, 0, message(0, 100));
    let options = SendOptions {
        stream: StreamId(4),
        ..with(timed(100), 0)
    };
    w.send_with(0, id, options, message(0, 100));
    w.run(ms(200));
    let of = |stream| {
        w.ends[0]
            .stream_stats(id, StreamId(stream))
            .map(|s| s.abandoned)
    };
    let twice = Abandoned {
        retransmissions: AbandonedCount { unsent: 0, sent: 2 },
        ..Abandoned::default()
    };
    let mixed = Abandoned {
        timed: AbandonedCount { unsent: 1, sent: 0 },
        retransmissions: AbandonedCount { unsent: 0, sent: 1 },
        ..Abandoned::default()
    };
    assert_eq!((of(1), of(4)), (Some(twice), Some(mixed)));
    assert_eq!((of(0), of(10)), (Some(Abandoned::default()), None));
    let all = w.stats(0, id).abandoned;
    assert_eq!(all.total(), AbandonedCount { unsent: 1, sent: 3 });
    assert_eq!(all.by(AbandonmentPolicy::Retransmissions).sent, 3);
}

#[test]
fn the_window_probe_goes_on_when_probes_are_given_up_6_1() {
    let (mut w, peer, id) = puppet(true, 1500);
    w.send(0, id, 0, message(0, 1000));
    peer.hear(&mut w);
    peer.sack(&mut w, peer.theirs(0), 0, &[]);
    for n in 1..4 {
        w.send_with(
            0,
            id,
            with(Reliability::Retransmissions(0), u64::from(n)),
            message(n, 500),
        );
    }
    w.send(0, id, 0, message(9, 500));
    let mut cumulative = peer.theirs(0);
    let mut probed = Vec::new();
    // Every probe is dropped for want of room; FORWARD-TSN is taken, the window stays closed.
    for _ in 0..200 {
        w.run(ms(500));
        let heard = peer.hear(&mut w);
        for packet in &heard {
            probed.extend(packet.data().iter().map(|d| d.payload[0]));
        }
        if let Some((point, _)) = forwards(&heard).pop() {
            cumulative = point;
        }
        if !heard.is_empty() {
            peer.sack(&mut w, cumulative, 0, &[]);
        }
    }
    probed.dedup();
    assert_eq!(
        probed,
        [1, 2, 3, 9],
        "each probes once, the reliable one goes on"
    );
    assert_eq!(contexts(&w.events(0)), [1, 2, 3]);
    let answers = peer.sack(&mut w, cumulative, 10_000, &[]);
    assert_eq!(answers.iter().map(|p| p.data().len()).sum::<usize>(), 1);
    assert_eq!(
        w.stats(0, id).error_count,
        0,
        "the peer was there all the time"
    );
}

#[test]
fn loss_of_forward_tsns_only_delays_3758_3_5() {
    // Every pattern of loss of the first five.
    for pattern in 0..32_u32 {
        let (mut w, a, b) = world();
        w.lose_data(0, &[2, 3]);
        let mut met = 0;
        w.rule(move |seen| {
            if seen.from != 0 || !seen.has(ChunkType::FORWARD_TSN) {
                return Fate::Pass;
            }
            met += 1;
            if met <= 5 && pattern >> (met - 1) & 1 == 1 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        for n in 0..20 {
            let reliability = if n % 2 == 0 {
                Reliability::Full
            } else {
                Reliability::Retransmissions(0)
            };
            w.send_with(0, a, with(reliability, u64::from(n)), message(n, FULL));
        }
        w.run(secs(200));
        let got = numbers(&mut w, 1, b);
        let lost = contexts(&w.events(0));
        assert!(lost.contains(&3), "{lost:?}");
        let expected: Vec<u8> = (0..20).filter(|n| got.contains(n)).collect();
        assert_eq!(got, expected, "in order");
        assert!((0..20).step_by(2).all(|n| got.contains(&n)), "{got:?}");
        assert!((0..20).all(|n| got.contains(&n) || lost.contains(&u64::from(n))));
        assert_eq!(w.stats(0, a).outstanding_chunks, 0);
    }
}

#[test]
fn a_burst_of_loss_while_messages_are_given_up_leaves_nothing_behind() {
    for burst in 1..50_u64 {
        let (mut w, a, b) = world();
        let (from, to) = (w.now + ms(25), w.now + ms(25 + burst * 100));
        w.rule(move |seen| {
            let lost = seen.from == 0 && (from..to).contains(&seen.time);
            if lost { Fate::Drop } else { Fate::Pass }
        });
        for n in 0..60 {
            let reliability = match n % 4 {
                0 => Reliability::Full,
                1 => Reliability::Retransmissions(1),
                2 => timed(700),
                _ => Reliability::Retransmissions(0),
            };
            let options = SendOptions {
                stream: StreamId(u16::from(n % 3)),
                ..with(reliability, u64::from(n))
            };
            w.send_with(0, a, options, message(n, 1 + usize::from(n) * 97));
        }
        w.run(secs(1000));
        let got = numbers(&mut w, 1, b);
        assert!(
            (0..60).step_by(4).all(|n| got.contains(&n)),
            "burst {burst}: {got:?}"
        );
        let (stats, path) = (w.stats(0, a), w.path(0, a, 0));
        assert_eq!((stats.outstanding_chunks, stats.outstanding_bytes), (0, 0));
        assert_eq!((stats.send_buffer_bytes, path.flight_size), (0, 0));
        let told = contexts(&w.events(0)).len() as u64;
        assert_eq!(
            told,
            stats.abandoned.total().sent + stats.abandoned.total().unsent
        );
        assert_eq!(w.stats(1, b).receive_buffer_bytes, 0);
    }
}

#[test]
fn what_is_given_up_follows_the_failover_to_another_path_6_4() {
    let mut w = World::with(2, |_, config| config.association.extensions = PARTIAL);
    w.config.extensions = PARTIAL;
    let (a, b) = w.connect();
    w.kill(addresses(1)[0]);
    for n in 0..6 {
        let reliability = if n == 5 {
            Reliability::Full
        } else {
            Reliability::Retransmissions(0)
        };
        w.send_with(0, a, with(reliability, u64::from(n)), message(n, FULL));
    }
    w.run(secs(30));
    let got = numbers(&mut w, 1, b);
    assert_eq!(got.last(), Some(&5), "{got:?}");
    assert_eq!(got.len() + contexts(&w.events(0)).len(), 6);
    let stats = w.stats(0, a);
    assert_eq!((stats.outstanding_chunks, stats.error_count), (0, 0));
    assert!(
        w.path(0, a, 0).error_count > 0,
        "the dead path got no credit"
    );
    let on_the_other = w
        .log
        .iter()
        .filter(|p| p.has(ChunkType::FORWARD_TSN) && !p.lost);
    assert!(on_the_other.count() > 0);
    // Only messages that are given up: the dead path fails all the same.
    for round in 0..40 {
        w.send_with(
            0,
            a,
            with(Reliability::Retransmissions(0), 0),
            message(round, 100),
        );
        w.run(secs(3));
    }
    assert!(!w.path(0, a, 0).status.active);
    assert!(!w.ends[0].associations().collect::<Vec<_>>().is_empty());
}

#[test]
fn the_shutdown_waits_for_the_forward_tsn_9_2() {
    for by in 0..2 {
        let (mut w, a, b) = world();
        w.lose(0, ChunkType::DATA, 1);
        w.lose(0, ChunkType::FORWARD_TSN, 2);
        w.send_with(
            0,
            a,
            with(Reliability::Retransmissions(0), 4),
            message(0, 100),
        );
        w.ends[by].shutdown(w.now, [a, b][by]).unwrap();
        w.run(ms(2500));
        let state = if by == 0 {
            "ShutdownPending"
        } else {
            "ShutdownReceived"
        };
        assert_eq!(w.states()[0], Some(state));
        w.run(secs(60));
        assert_eq!(w.states(), [None, None]);
        let events = w.events(0);
        assert_eq!(contexts(&events), [4]);
        assert_eq!(
            events.last(),
            Some(&Event::Closed(carrick_proto::CloseReason::Shutdown))
        );
    }
}

#[test]
fn what_waits_for_set_up_is_given_up_by_its_policy() {
    let mut w = World::with(2, |_, c| {
        c.local_addresses.truncate(1);
        c.association.extensions = PARTIAL;
    });
    w.config.extensions = PARTIAL;
    w.lose(0, ChunkType::INIT, 2);
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send_with(0, a, with(timed(100), 1), message(1, 100));
    w.send_with(
        0,
        a,
        with(Reliability::Retransmissions(3), 2),
        message(2, 100),
    );
    w.run(secs(10));
    let b = w.only(1);
    assert_eq!(numbers(&mut w, 1, b), [2]);
    assert_eq!(contexts(&w.events(0)), [1]);
}

#[test]
fn more_messages_of_a_stream_than_half_of_the_numbers_can_be_skipped_3758_c4() {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = PARTIAL;
        config.association.receive_buffer = 1 << 30;
        config.association.receive_buffer_chunks = 1 << 20;
        config.association.message_overhead = 0;
    });
    w.config.extensions = PARTIAL;
    w.config.send_buffer_messages = 1 << 20;
    w.config.max_burst = 100_000;
    w.config.slow_start_limit = 1000;
    w.forget = true;
    let (a, b) = w.connect();
    // The first is lost for long; so are FORWARD-TSNs and all that is above.
    w.kill(addresses(1)[0]);
    for _ in 0..64_000 {
        w.send_with(0, a, with(timed(60_000), 0), message(1, 1));
    }
    w.run(secs(59));
    w.revive(addresses(1)[0]);
    w.run(secs(100));
    w.send(0, a, 0, message(9, 1));
    w.run(secs(100));
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
    let got = numbers(&mut w, 1, b);
    assert_eq!(got.last(), Some(&9));
}

/// Two endpoints whose losses are found by time, with a round trip measured.
fn modern_world() -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = PARTIAL;
    });
    w.config.extensions = PARTIAL;
    w.config.policies = Policies::modern();
    w.config.heartbeat = false;
    let (a, b) = w.connect();
    for _ in 0..10 {
        w.send(0, a, 0, message(0, FULL));
    }
    assert!(w.run_until(secs(5), |w| w.stats(0, a).outstanding_chunks == 0));
    w.receive(1, b);
    w.events(0);
    w.log.clear();
    (w, a, b)
}

fn drops_data(w: &mut World, until: carrick_proto::Time) {
    w.rule(move |seen| {
        let hit = seen.from == 0 && seen.has(ChunkType::DATA) && seen.time < until;
        if hit { Fate::Drop } else { Fate::Pass }
    });
}

#[test]
fn a_probe_sends_nothing_again_that_would_rather_be_given_up_7496_3_1() {
    for (most, probes) in [(0, 0), (1, 1)] {
        let (mut w, a, b) = modern_world();
        let until = w.now + ms(1);
        drops_data(&mut w, until);
        let options = with(Reliability::Retransmissions(most), 7);
        w.send_with(0, a, options, message(1, FULL));
        w.run(secs(20));
        assert_eq!(w.data_sent(0), 1 + probes);
        let stats = w.stats(0, a);
        assert_eq!(stats.counters.tail_loss_probes, probes as u64);
        assert_eq!(stats.outstanding_chunks, 0);
        let (given_up, arrived): (&[u64], &[u8]) = if probes == 0 {
            (&[7], &[])
        } else {
            (&[], &[1])
        };
        assert_eq!(contexts(&w.events(0)), given_up);
        assert_eq!(numbers(&mut w, 1, b), arrived);
    }
}

#[test]
fn what_is_given_up_is_neither_in_flight_nor_probed_nor_found_lost_3758_a2() {
    let (mut w, a, b) = modern_world();
    let until = w.now + ms(6);
    drops_data(&mut w, until);
    w.send_with(0, a, with(Reliability::Full, 1), message(1, FULL));
    w.send_with(0, a, with(timed(5), 2), message(2, 30 * FULL));
    w.run(ms(4));
    let sent = w.data_sent(0);
    assert!(sent > 2 && w.stats(0, a).outstanding_bytes > 2 * FULL);
    w.run(ms(1));
    assert_eq!(contexts(&w.events(0)), [2]);
    assert_eq!(w.stats(0, a).outstanding_bytes, FULL);
    assert!(w.path(0, a, 0).flight_size <= FULL + 16);
    // Only the reliable one is sent again, by the probe.
    w.run(secs(20));
    assert_eq!(numbers(&mut w, 1, b), [1]);
    assert_eq!(w.data_sent(0), sent + 1);
    let counters = w.stats(0, a).counters;
    assert_eq!((counters.tail_loss_probes, counters.t3_expirations), (1, 0));
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
}

#[test]
fn with_interleaving_messages_that_were_begun_are_reliable_8260_2_3_1() {
    let both = Extensions {
        interleaving: true,
        ..PARTIAL
    };
    let mut w = World::with(2, |_, config| config.association.extensions = both);
    w.config.extensions = both;
    let (a, b) = w.connect();
    for stats in [w.stats(0, a), w.stats(1, b)] {
        let in_force = stats.extensions;
        assert!(in_force.interleaving && !in_force.partial_reliability);
    }
    let mut lost = 0;
    w.rule(move |seen| {
        let hit = lost < 3 && seen.from == 0 && seen.has(ChunkType::I_DATA);
        lost += u32::from(hit);
        if hit { Fate::Drop } else { Fate::Pass }
    });
    for n in 0..3 {
        w.send_with(
            0,
            a,
            with(Reliability::Retransmissions(0), n),
            message(n as u8, 3 * FULL),
        );
    }
    w.run(secs(30));
    assert_eq!(w.receive(1, b).len(), 3);
    assert!(forwards(&w.log).is_empty());
    assert_eq!(w.stats(0, a).abandoned, Abandoned::default());
}

/// A message of the property: stream, order, size, policy, and a pause before it.
type Plan = (u16, bool, usize, Reliability, u64);

fn plan() -> impl Strategy<Value = Plan> {
    let policy = prop_oneof![
        3 => Just(Reliability::Full),
        1 => (1_u64..3000).prop_map(timed),
        1 => (0_u32..3).prop_map(Reliability::Retransmissions),
        1 => (0_u32..4).prop_map(Reliability::Priority),
    ];
    (0_u16..4, any::<bool>(), 2_usize..6000, policy, 0_u64..40)
}

/// Bytes with the message's number in the first two.
fn numbered(number: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; size];
    bytes[..2].copy_from_slice(&(number as u16).to_be_bytes());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn reliable_messages_arrive_once_and_others_at_most_once_and_all_in_order(
        plans in vec(plan(), 1..60),
        fates in vec(0_u8..20, 50..600),
        buffer in 3000_usize..60_000,
        send_buffer in 5000_usize..100_000,
        modern: bool,
        scheduler in 0_usize..StreamScheduler::ALL.len(),
    ) {
        let mut w = World::with(2, |_, c| {
            c.association.receive_buffer = buffer;
            c.association.extensions = PARTIAL;
        });
        w.config.extensions = PARTIAL;
        w.config.send_buffer = send_buffer;
        w.config.association_max_retrans = 1000;
        w.config.scheduler = StreamScheduler::ALL[scheduler];
        if modern {
            w.config.policies = Policies::modern();
        }
        let (a, b) = w.connect();
        let mut n = 0;
        w.rule(move |_| {
            n += 1;
            match fates.get(n).copied() {
                Some(0..=4) => Fate::Drop,
                Some(5) => Fate::Duplicate,
                Some(fate @ 6..=9) => Fate::Delay(ms(u64::from(fate) * 17)),
                _ => Fate::Pass,
            }
        });
        let mut taken = BTreeSet::new();
        let mut parts = Vec::new();
        for (number, &(stream, unordered, size, reliability, pause)) in plans.iter().enumerate() {
            w.run(ms(pause));
            parts.extend(w.receive(1, b));
            let options = SendOptions {
                stream: StreamId(stream),
                unordered,
                ..with(reliability, number as u64)
            };
            match w.ends[0].send(w.now, a, options, numbered(number, size).into()) {
                Ok(()) => drop(taken.insert(number)),
                Err(SendError::BufferFull) => {}
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
        w.ends[0].shutdown(w.now, a).unwrap();
        for _ in 0..4000 {
            w.run(ms(500));
            parts.extend(w.receive(1, b));
            if w.ends.iter().all(|e| e.associations().count() == 0) {
                break;
            }
        }
        prop_assert_eq!(w.states(), [None, None], "the association ended");
        let events = w.events(0);
        let failed: BTreeMap<usize, bool> =
            failures(&events).iter().map(|f| (f.context as usize, f.sent)).collect();
        prop_assert_eq!(failed.len(), failures(&events).len(), "each is told once");
        let mut open: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut last: BTreeMap<u16, usize> = BTreeMap::new();
        let mut arrived = BTreeSet::new();
        for part in parts {
            let key = part.tsn.value();
            if part.part == Part::Aborted {
                prop_assert!(open.remove(&key).is_some(), "aborted, and never begun");
                continue;
            }
            let bytes = part.payload.clone().into_bytes();
            open.entry(key).or_default().extend_from_slice(&bytes);
            if !matches!(part.part, Part::Whole | Part::Last) {
                continue;
            }
            let all = open.remove(&key).unwrap_or_default();
            let number = usize::from(u16::from_be_bytes([all[0], all[1]]));
            let (stream, unordered, size, ..) = plans[number];
            prop_assert_eq!(&all, &numbered(number, size));
            prop_assert_eq!((part.stream.0, part.ssn.is_none()), (stream, unordered));
            prop_assert!(arrived.insert(number), "{} came twice", number);
            if !unordered {
                prop_assert!(last.insert(stream, number).is_none_or(|l| l < number));
            }
        }
        prop_assert!(open.is_empty(), "a message without its end");
        for number in taken {
            let (_, _, _, reliability, _) = plans[number];
            let (came, told) = (arrived.contains(&number), failed.get(&number));
            prop_assert!(came || told.is_some(), "{} vanished", number);
            if reliability == Reliability::Full {
                prop_assert!(came && told.is_none(), "{} is reliable", number);
            }
            prop_assert!(!(came && told == Some(&false)), "{} was sent after all", number);
        }
    }
}
