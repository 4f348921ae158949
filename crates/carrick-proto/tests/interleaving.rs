//! I-DATA: messages of several streams interleave (RFC 8260 sections 2 and 3).

mod common;

use std::collections::BTreeMap;

use carrick_proto::{
    AssociationId, CloseReason, Event, Extensions, Mid, Part, Ppid, SendOptions, StreamId,
    StreamScheduler, Tsn,
};
use carrick_wire::{CauseCode, ChunkType, Fragment, Fsn, IDataHeader};
use common::*;

/// Payload of an I-DATA chunk that has a packet for itself: four bytes less than with DATA.
const FULL: usize = 1448;

const INTERLEAVING: Extensions = Extensions {
    interleaving: true,
    ..Extensions::NONE
};

/// Two associated endpoints that interleave; the first one's messages wait until the world runs.
fn world(scheduler: StreamScheduler) -> (World, AssociationId, AssociationId) {
    world_with(scheduler, |_| {})
}

fn world_with(
    scheduler: StreamScheduler,
    change: impl Fn(&mut carrick_proto::AssociationConfig),
) -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = INTERLEAVING;
        change(&mut config.association);
    });
    w.config.extensions = INTERLEAVING;
    w.config.scheduler = scheduler;
    w.config.nagle = false;
    let (a, b) = w.connect();
    for (end, id) in [(0, a), (1, b)] {
        assert!(w.stats(end, id).extensions.interleaving);
    }
    w.log.clear();
    (w, a, b)
}

/// The chunks of endpoint 0 by their TSNs, each once.
fn on_the_wire(w: &World) -> Vec<UserData> {
    let mut chunks: Vec<UserData> = w
        .log
        .iter()
        .filter(|p| p.from == 0)
        .flat_map(|p| {
            assert!(!p.has(ChunkType::DATA), "section 2.2.1: I-DATA only");
            p.user_data()
        })
        .collect();
    let first = chunks.first().map_or(Tsn::new(0), |c| c.tsn);
    chunks.sort_by_key(|c| c.tsn.since(first));
    chunks.dedup();
    chunks
}

/// Stream, MID and FSN.
fn numbers_on_the_wire(w: &World) -> Vec<(u16, u32, u32)> {
    let chunks = on_the_wire(w).into_iter();
    chunks
        .map(|c| (c.stream, c.number, c.fsn.expect("I-DATA")))
        .collect()
}

fn streams_on_the_wire(w: &World) -> Vec<u16> {
    on_the_wire(w).into_iter().map(|c| c.stream).collect()
}

/// Three streams with the messages of figure 2.
fn send_figure_2(w: &mut World, a: AssociationId) {
    w.send(0, a, 0, pattern(3 * FULL));
    for _ in 0..3 {
        w.send(0, a, 1, pattern(FULL));
    }
    w.send(0, a, 2, pattern(3 * FULL));
}

#[test]
fn first_come_first_served_does_not_interleave_8260_3_1() {
    let (mut w, a, b) = world(StreamScheduler::FirstCome);
    send_figure_2(&mut w, a);
    w.run(secs(5));
    assert_eq!(streams_on_the_wire(&w), [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    let got = w.receive(1, b);
    let numbers: Vec<_> = got.iter().map(|m| (m.stream.0, m.mid)).collect();
    let mid = |n| Some(Mid::new(n));
    assert_eq!(
        numbers,
        [
            (0, mid(0)),
            (1, mid(0)),
            (1, mid(1)),
            (1, mid(2)),
            (2, mid(0))
        ]
    );
}

#[test]
fn round_robin_takes_a_chunk_of_each_stream_in_turn_8260_3_2() {
    let (mut w, a, b) = world(StreamScheduler::RoundRobin);
    send_figure_2(&mut w, a);
    w.run(secs(5));
    let figure_2 = [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
        (0, 0, 1),
        (1, 1, 0),
        (2, 0, 1),
        (0, 0, 2),
        (1, 2, 0),
        (2, 0, 2),
    ];
    assert_eq!(numbers_on_the_wire(&w), figure_2);
    assert_eq!(
        w.receive_lengths(1, b),
        [FULL, FULL, 3 * FULL, FULL, 3 * FULL]
    );
}

#[test]
fn flags_and_ppid_are_those_of_the_message_8260_2_1() {
    let (mut w, a, b) = world(StreamScheduler::RoundRobin);
    for unordered in [false, true, true] {
        let options = SendOptions {
            unordered,
            immediate: true,
            ppid: Ppid(0xdead_beef),
            ..SendOptions::on_stream(4)
        };
        w.send_with(0, a, options, pattern(2 * FULL));
    }
    w.run(secs(5));
    let chunks = on_the_wire(&w);
    let bits: Vec<_> = chunks
        .iter()
        .map(|c| (c.flags.bits(), c.number, c.fsn.unwrap_or(9)))
        .collect();
    // I 8, U 4, B 2, E 1; ordered and unordered messages are numbered apart.
    assert_eq!(
        bits,
        [
            (0x2, 0, 0),
            (0x9, 0, 1),
            (0x6, 0, 0),
            (0xd, 0, 1),
            (0x6, 1, 0),
            (0xd, 1, 1)
        ]
    );
    let got = w.receive(1, b);
    assert!(got.iter().all(|m| m.ppid == Ppid(0xdead_beef)));
    let numbers: Vec<_> = got
        .iter()
        .map(|m| (m.ssn.map(|s| s.value()), m.mid.map(Mid::value)))
        .collect();
    assert_eq!(
        numbers,
        [(Some(0), Some(0)), (None, Some(0)), (None, Some(1))]
    );
}

#[test]
fn a_packet_has_chunks_of_one_stream_and_messages_interleave_8260_3_3() {
    let (mut w, a, b) = world_with(StreamScheduler::RoundRobinPerPacket, |_| {});
    for stream in 0..3 {
        w.send(0, a, stream, pattern(4 * FULL));
        for _ in 0..20 {
            w.send(0, a, stream, pattern(140));
        }
    }
    w.run(secs(10));
    let packets: Vec<Vec<u16>> = w
        .log
        .iter()
        .map(|p| p.user_data().iter().map(|d| d.stream).collect::<Vec<_>>())
        .filter(|p| !p.is_empty())
        .collect();
    let firsts: Vec<u16> = packets.iter().map(|p| p[0]).collect();
    assert_eq!(firsts[..12], [0, 1, 2].repeat(4));
    for packet in &packets {
        assert!(packet.iter().all(|s| *s == packet[0]), "{packets:?}");
    }
    assert!(packets[12].len() > 5, "packets are filled");
    assert_eq!(w.receive(1, b).len(), 63);
}

#[test]
fn a_large_message_does_not_hold_up_an_urgent_one_8260_3_4() {
    let (mut w, a, b) = world(StreamScheduler::Priority);
    w.ends[0]
        .set_stream_value(w.now, a, StreamId(1), 9)
        .unwrap();
    w.send(0, a, 1, pattern(100 * FULL));
    w.run(ms(1));
    let begun = on_the_wire(&w).len();
    assert!(begun > 0 && begun < 10);
    w.send(0, a, 0, pattern(2 * FULL));
    assert!(w.run_until(secs(1), |w| w.stats(1, b).receivable_messages == 1));
    let first = w.receive(1, b).remove(0);
    assert_eq!((first.stream.0, first.payload.len()), (0, 2 * FULL));
    w.run(secs(20));
    let mut expected = vec![1; begun];
    expected.extend([0, 0]);
    expected.resize(102, 1);
    assert_eq!(streams_on_the_wire(&w), expected);
    let last = w.receive(1, b).remove(0);
    assert!(last.payload == pattern(100 * FULL)[..]);
}

/// Chunks of each stream among the first `count` on the wire.
fn shares(w: &World, count: usize) -> BTreeMap<u16, usize> {
    let mut shares = BTreeMap::new();
    for chunk in on_the_wire(w).into_iter().take(count) {
        *shares.entry(chunk.stream).or_default() += chunk.len;
    }
    shares
}

#[test]
fn streams_with_one_huge_message_share_by_bytes_8260_3_5() {
    let (mut w, a, _) = world(StreamScheduler::FairBandwidth);
    for stream in [1, 2] {
        w.send(0, a, stream, pattern(200_000));
    }
    for _ in 0..2000 {
        w.send(0, a, 3, pattern(100));
    }
    w.run(secs(20));
    let chunks = on_the_wire(&w);
    let mut sums = [0_usize; 4];
    for chunk in &chunks {
        sums[usize::from(chunk.stream)] += chunk.len;
        let [_, a, b, c] = sums;
        if a.max(b).max(c) >= 190_000 {
            break;
        }
        let (low, high) = (a.min(b).min(c), a.max(b).max(c));
        assert!(high - low <= 2 * FULL, "at no time: {sums:?}");
    }
}

#[test]
fn streams_with_one_huge_message_share_by_weight_8260_3_6() {
    let (mut w, a, _) = world(StreamScheduler::WeightedFair);
    for (stream, weight) in [(1, 256), (2, 512), (3, 1024)] {
        w.ends[0]
            .set_stream_value(w.now, a, StreamId(stream), weight)
            .unwrap();
        w.send(0, a, stream, pattern(300_000));
    }
    w.run(secs(20));
    let shares = shares(&w, 280);
    for (stream, expected) in [(1, 40), (2, 80), (3, 160)] {
        let chunks = shares[&stream] / FULL;
        assert!(chunks.abs_diff(expected) <= 2, "{shares:?}");
    }
}

#[test]
fn one_message_of_a_stream_is_under_way_at_a_time_8260_2_2_2() {
    for scheduler in StreamScheduler::ALL {
        let (mut w, a, b) = world(scheduler);
        for i in 0..60_u16 {
            let options = SendOptions {
                unordered: i % 3 == 0,
                ..SendOptions::on_stream(i % 5)
            };
            w.send_with(0, a, options, pattern(1 + usize::from(i) * 173));
        }
        w.lose_data(0, &[2, 9, 10, 40]);
        w.run(secs(30));
        let mut open: BTreeMap<u16, (bool, u32, u32)> = BTreeMap::new();
        for chunk in on_the_wire(&w) {
            let (number, fsn) = (chunk.number, chunk.fsn.expect("I-DATA"));
            let unordered = chunk.flags.unordered;
            if chunk.flags.beginning {
                assert_eq!((open.remove(&chunk.stream), fsn), (None, 0));
            } else {
                let next = open.remove(&chunk.stream);
                assert_eq!(next, Some((unordered, number, fsn)), "{scheduler:?}");
            }
            if !chunk.flags.ending {
                open.insert(chunk.stream, (unordered, number, fsn + 1));
            }
        }
        assert!(open.is_empty());
        assert_eq!(w.receive(1, b).len(), 60, "{scheduler:?}");
    }
}

#[test]
fn several_messages_larger_than_the_buffer_arrive_in_parts_by_turns_8260_2_2_3() {
    let (mut w, a, b) = world_with(StreamScheduler::RoundRobin, |config| {
        config.receive_buffer = 20_000;
    });
    for stream in 0..4 {
        let options = SendOptions {
            unordered: stream == 3,
            ..SendOptions::on_stream(stream)
        };
        w.send_with(0, a, options, pattern(100_000 + usize::from(stream)));
    }
    let mut open: BTreeMap<u32, (u16, Vec<u8>)> = BTreeMap::new();
    let (mut most, mut done) = (0, 0);
    for _ in 0..2000 {
        w.run(ms(20));
        assert!(w.stats(1, b).receive_buffer_bytes <= 22_000);
        for part in w.receive(1, b) {
            assert_eq!(part.mid, Some(Mid::new(0)));
            let entry = open.entry(part.tsn.value());
            let (stream, bytes) = entry.or_insert((part.stream.0, Vec::new()));
            assert_eq!(*stream, part.stream.0);
            assert_eq!(bytes.is_empty(), matches!(part.part, Part::First));
            bytes.extend_from_slice(&part.payload.into_bytes());
            most = most.max(open.len());
            if part.part == Part::Last {
                let (stream, bytes) = open.remove(&part.tsn.value()).expect("begun");
                assert_eq!(bytes, pattern(100_000 + usize::from(stream)));
                done += 1;
            }
        }
    }
    assert_eq!((done, most), (4, 4));
}

#[test]
fn any_two_i_data_may_be_lost_retransmissions_too_8260_2_2_3() {
    // The messages are nine chunks, of a packet each.
    for first in 0..9 {
        for second in first + 1..11 {
            let (mut w, a, b) = world(StreamScheduler::RoundRobin);
            let mut number = 0;
            w.rule(move |seen| {
                if seen.from != 0 || !seen.has(ChunkType::I_DATA) {
                    return Fate::Pass;
                }
                number += 1;
                let hit = [first, second].contains(&(number - 1));
                if hit { Fate::Drop } else { Fate::Pass }
            });
            send_figure_2(&mut w, a);
            w.run(secs(30));
            let lost = w
                .sent(0, ChunkType::I_DATA)
                .iter()
                .filter(|s| s.lost)
                .count();
            assert!(lost >= 1 && (second > 8 || lost == 2), "{first}, {second}");
            let got = w.receive(1, b);
            let of_stream = |stream: u16| -> Vec<(u32, usize)> {
                let of_stream = got.iter().filter(|m| m.stream == StreamId(stream));
                let number = |m: &carrick_proto::Message| m.mid.expect("I-DATA").value();
                of_stream.map(|m| (number(m), m.payload.len())).collect()
            };
            assert_eq!(of_stream(0), [(0, 3 * FULL)]);
            assert_eq!(of_stream(1), [(0, FULL), (1, FULL), (2, FULL)]);
            assert_eq!(of_stream(2), [(0, 3 * FULL)]);
            let whole = |m: &carrick_proto::Message| m.payload == pattern(m.payload.len())[..];
            assert!(got.iter().all(whole), "{first}, {second}");
            assert_eq!(w.stats(0, a).outstanding_chunks, 0);
        }
    }
}

#[test]
fn without_a_peer_that_interleaves_data_is_used_8260_2_2_1() {
    for (ours, theirs) in [(true, false), (false, true)] {
        let offer = |interleaving| Extensions {
            interleaving,
            ..Extensions::NONE
        };
        let mut w = World::with(2, |end, config| {
            config.association.extensions = offer(if end == 0 { ours } else { theirs });
        });
        w.config.extensions = offer(ours);
        w.config.scheduler = StreamScheduler::RoundRobin;
        let (a, b) = w.connect();
        w.log.clear();
        for stream in [1, 2] {
            w.send(0, a, stream, pattern(3000));
        }
        w.run(secs(5));
        assert!(w.log.iter().all(|p| !p.has(ChunkType::I_DATA)));
        let got = w.receive(1, b);
        assert_eq!(got.len(), 2);
        assert!(got.iter().all(|m| m.mid.is_none() && m.ssn.is_some()));
    }
}

/// A puppet whose association with endpoint 0 interleaves, or not.
fn puppet(interleaving: bool) -> (World, Puppet, AssociationId) {
    let mut w = World::with(2, |_, config| config.association.extensions = INTERLEAVING);
    let (peer, id) = Puppet::new().connect_with(&mut w, |p| {
        if interleaving {
            p.supported_extensions(&[ChunkType::I_DATA]);
        }
    });
    assert_eq!(w.stats(0, id).extensions.interleaving, interleaving);
    (w, peer, id)
}

fn i_data(tsn: Tsn, stream: u16, mid: u32, fragment: Fragment, ending: bool) -> IDataHeader {
    IDataHeader {
        tsn,
        stream: StreamId(stream),
        mid: Mid::new(mid),
        fragment,
        immediate: false,
        unordered: false,
        ending,
    }
}

const FIRST: Fragment = Fragment::First(Ppid(0));

fn assert_violation(w: &mut World, answers: &[Seen]) {
    let abort = answers.iter().find(|p| p.has(ChunkType::ABORT));
    let causes = abort.expect("an ABORT").causes();
    assert_eq!(causes[0].0, CauseCode::PROTOCOL_VIOLATION);
    let closed = w.events(0).into_iter().any(
        |e| matches!(e, Event::Closed(CloseReason::AbortedByProtocol(cause)) if cause.code == 13),
    );
    assert!(closed);
}

#[test]
fn data_ends_an_association_that_interleaves_8260_2_2_3() {
    let (mut w, mut peer, _) = puppet(true);
    let answers = peer.data(&mut w, 0, 0, b"hello");
    assert_violation(&mut w, &answers);
}

#[test]
fn a_forward_tsn_ends_an_association_that_interleaves_8260_2_3_1() {
    let both = Extensions {
        partial_reliability: true,
        ..INTERLEAVING
    };
    for offered in [INTERLEAVING, both] {
        let mut w = World::with(2, |_, config| config.association.extensions = offered);
        let (peer, id) = Puppet::new().connect_with(&mut w, |p| {
            p.forward_tsn_supported();
            p.supported_extensions(&[ChunkType::FORWARD_TSN, ChunkType::I_DATA]);
        });
        assert!(!w.stats(0, id).extensions.partial_reliability);
        let tsn = peer.tsn;
        let answers = peer.say(&mut w, |p| p.forward_tsn(tsn, std::iter::empty()));
        assert_violation(&mut w, &answers);
    }
}

#[test]
fn i_data_ends_an_association_that_does_not_interleave_8260_2_2_3() {
    for offered in [INTERLEAVING, Extensions::NONE] {
        let mut w = World::with(2, |_, config| config.association.extensions = offered);
        let (peer, _) = Puppet::new().connect(&mut w);
        let header = i_data(peer.tsn, 0, 0, FIRST, true);
        let answers = peer.say(&mut w, |p| p.i_data(&header, b"hello"));
        assert_violation(&mut w, &answers);
    }
}

#[test]
fn fragments_that_lie_end_the_association_8260_2_2_3() {
    let later = |fsn| Fragment::Later(Fsn::new(fsn));
    for lie in [
        [(0, FIRST, false), (0, FIRST, false)],
        [(0, later(3), true), (0, later(4), false)],
        [(0, later(3), true), (0, later(2), true)],
        [(0, FIRST, true), (0, FIRST, true)],
    ] {
        let (mut w, peer, _) = puppet(true);
        let mut answers = Vec::new();
        for ((mid, fragment, ending), number) in lie.into_iter().zip(0..) {
            let header = i_data(peer.tsn.plus(number), 0, mid, fragment, ending);
            answers = peer.say(&mut w, |p| p.i_data(&header, b"hello"));
        }
        assert_violation(&mut w, &answers);
    }
}

#[test]
fn i_data_without_user_data_ends_the_association_6_2() {
    let (mut w, peer, _) = puppet(true);
    let header = i_data(peer.tsn, 0, 0, FIRST, true);
    let answers = peer.say(&mut w, |p| p.i_data(&header, b""));
    let (code, value) = answers[0].causes().remove(0);
    assert_eq!(code, CauseCode::NO_USER_DATA);
    assert_eq!(value, peer.tsn.value().to_be_bytes());
}

#[test]
fn i_data_on_a_stream_that_does_not_exist_is_acknowledged_and_reported_6_5() {
    let (mut w, peer, id) = puppet(true);
    let streams = w.stats(0, id).inbound_streams;
    let header = i_data(peer.tsn, streams, 0, FIRST, true);
    let answers = peer.say(&mut w, |p| p.i_data(&header, b"hello"));
    let error = answers.iter().find(|p| p.has(ChunkType::ERROR));
    let causes = error.expect("an ERROR").causes();
    assert_eq!(causes[0].0, CauseCode::INVALID_STREAM);
    assert_eq!(causes[0].1[..2], streams.to_be_bytes());
    w.run(secs(1));
    let sack = peer.hear(&mut w).into_iter().chain(answers);
    let acked = sack
        .filter_map(|p| p.sack().map(|s| s.cumulative_tsn_ack))
        .last();
    assert_eq!(acked, Some(peer.tsn));
}

#[test]
fn fragments_need_no_order_of_tsns_8260_2_2_3() {
    let (mut w, peer, id) = puppet(true);
    // Two messages of two streams, whose TSNs run backwards.
    let later = |fsn| Fragment::Later(Fsn::new(fsn));
    let chunks = [
        (1, later(1), true, "B"),
        (2, later(1), true, "D"),
        (2, FIRST, false, "C"),
        (1, FIRST, false, "A"),
    ];
    for ((stream, fragment, ending, bytes), number) in chunks.into_iter().zip(0..) {
        let header = i_data(peer.tsn.plus(number), stream, 0, fragment, ending);
        peer.say(&mut w, |p| p.i_data(&header, bytes.as_bytes()));
    }
    let got = w.receive(0, id);
    assert!(got[0].payload == b"CD"[..] && got[1].payload == b"AB"[..]);
}

#[test]
fn what_was_not_acknowledged_comes_back_by_message_11_1_5() {
    let (mut w, peer, id) = puppet(true);
    w.ends[0]
        .set_scheduler(w.now, id, StreamScheduler::RoundRobin)
        .unwrap();
    for stream in 0..3 {
        let options = SendOptions {
            context: 10 + u64::from(stream),
            ..SendOptions::on_stream(stream)
        };
        w.send_with(0, id, options, pattern(10_000 + usize::from(stream)));
    }
    w.send(0, id, 4, pattern(7));
    peer.hear(&mut w);
    // The first chunk of stream 0 arrived.
    peer.sack(&mut w, peer.theirs(0), 100_000, &[]);
    peer.say(&mut w, |p| p.abort(false, |_| {}));
    let mut failed: Vec<_> = w
        .events(0)
        .into_iter()
        .filter_map(|e| match e {
            Event::SendFailed(f) => Some(f),
            _ => None,
        })
        .collect();
    failed.sort_by_key(|f| f.stream.0);
    let told: Vec<_> = failed
        .iter()
        .map(|f| (f.context, f.sent, f.unsent.len()))
        .collect();
    assert_eq!(
        told,
        [
            (10, true, 10_000 - FULL),
            (11, true, 10_001),
            (12, true, 10_002),
            (0, true, 7)
        ]
    );
    let bytes: Vec<u8> = failed[2].unsent.0.iter().flatten().copied().collect();
    assert_eq!(bytes, pattern(10_002), "in their order");
}

#[test]
fn messages_interleave_after_a_restart_again_8260_2_1() {
    let (mut w, peer, id) = puppet(true);
    w.send(0, id, 1, pattern(10));
    let header = i_data(peer.tsn, 1, 0, FIRST, false);
    peer.say(&mut w, |p| p.i_data(&header, b"lost"));
    for interleaving in [false, true] {
        let again = Puppet {
            tag: carrick_proto::VerificationTag(0x99 + u32::from(interleaving)),
            ..peer.clone()
        };
        let (mut again, same) = again.connect_with(&mut w, |p| {
            if interleaving {
                p.supported_extensions(&[ChunkType::I_DATA]);
            }
        });
        assert_eq!(same, id);
        w.log.clear();
        w.send(0, id, 1, pattern(10));
        w.pump();
        let sent = on_any_wire(&w);
        assert_eq!((sent[0].number, sent[0].fsn.is_some()), (0, interleaving));
        if interleaving {
            let header = i_data(again.tsn, 1, 0, FIRST, true);
            again.say(&mut w, |p| p.i_data(&header, b"new"));
        } else {
            again.data(&mut w, 1, 0, b"new");
        }
        let got = w.receive(0, id);
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].mid.is_some(), interleaving);
    }
}

fn on_any_wire(w: &World) -> Vec<UserData> {
    w.log.iter().flat_map(Seen::user_data).collect()
}
