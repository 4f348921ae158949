//! Order of the chunks of several streams with I-DATA (RFC 8260, section 3).

use std::collections::BTreeMap;

use carrick_proto::{Mid, StreamId, StreamScheduler};

use crate::common::*;
use crate::interleaving::support::{
    FULL, interleaved, interleaved_with, on_the_wire, send_figure_2,
};

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

/// RFC 8260, section 3.1
#[test]
fn first_come_first_served_does_not_interleave() {
    let (mut w, a, b) = interleaved(StreamScheduler::FirstCome);
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

/// RFC 8260, section 3.2
#[test]
fn round_robin_takes_a_chunk_of_each_stream() {
    let (mut w, a, b) = interleaved(StreamScheduler::RoundRobin);
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

/// RFC 8260, section 3.3
#[test]
fn each_packet_has_chunks_of_one_stream() {
    let (mut w, a, b) = interleaved_with(StreamScheduler::RoundRobinPerPacket, |_| {});
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

/// RFC 8260, section 3.4
#[test]
fn an_urgent_message_overtakes_a_large_one() {
    let (mut w, a, b) = interleaved(StreamScheduler::Priority);
    w.change(0, a).set_stream_value(StreamId(1), 9).unwrap();
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

/// RFC 8260, section 3.5
#[test]
fn fair_capacity_shares_by_bytes() {
    let (mut w, a, _) = interleaved(StreamScheduler::FairBandwidth);
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

/// Chunks of each stream among the first `count` on the wire.
fn shares(w: &World, count: usize) -> BTreeMap<u16, usize> {
    let mut shares = BTreeMap::new();
    for chunk in on_the_wire(w).into_iter().take(count) {
        *shares.entry(chunk.stream).or_default() += chunk.len;
    }
    shares
}

/// RFC 8260, section 3.6
#[test]
fn weighted_fair_queueing_shares_by_weight() {
    let (mut w, a, _) = interleaved(StreamScheduler::WeightedFair);
    for (stream, weight) in [(1, 256), (2, 512), (3, 1024)] {
        w.change(0, a)
            .set_stream_value(StreamId(stream), weight)
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
