//! Messages in I-DATA chunks, from SEND to delivery (RFC 8260, sections 2.1, 2.2.2 and 2.2.3).

use std::collections::BTreeMap;

use carrick_proto::{Event, MessagePart, Mid, Ppid, SendOptions, StreamId, StreamScheduler};
use carrick_wire::{ChunkType, Fragment, Fsn};

use crate::common::*;
use crate::interleaving::support::{
    FIRST, FULL, i_data, interleaved, interleaved_with, on_the_wire, puppet, send_figure_2,
};

/// RFC 8260, section 2.1
#[test]
fn flags_and_ppid_are_those_of_the_message() {
    let (mut w, a, b) = interleaved(StreamScheduler::RoundRobin);
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

/// RFC 8260, section 2.2.2
#[test]
fn a_stream_sends_one_message_at_a_time() {
    for scheduler in StreamScheduler::ALL {
        let (mut w, a, b) = interleaved(scheduler);
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

/// RFC 8260, section 2.2.3
#[test]
fn messages_larger_than_the_buffer_are_interleaved() {
    let (mut w, a, b) = interleaved_with(StreamScheduler::RoundRobin, |config| {
        config.buffers.receive_buffer = 20_000;
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
            assert_eq!(bytes.is_empty(), matches!(part.part, MessagePart::First));
            bytes.extend_from_slice(&part.payload.into_bytes());
            most = most.max(open.len());
            if part.part == MessagePart::Last {
                let (stream, bytes) = open.remove(&part.tsn.value()).expect("begun");
                assert_eq!(bytes, pattern(100_000 + usize::from(stream)));
                done += 1;
            }
        }
    }
    assert_eq!((done, most), (4, 4));
}

/// RFC 8260, section 2.2.3
#[test]
fn any_two_lost_i_data_are_recovered() {
    // The messages are nine chunks, of a packet each.
    for first in 0..9 {
        for second in first + 1..11 {
            let (mut w, a, b) = interleaved(StreamScheduler::RoundRobin);
            let mut number = 0;
            w.rule(move |seen| {
                if seen.from != 0 || !seen.has(ChunkType::I_DATA) {
                    return Verdict::Pass;
                }
                number += 1;
                let hit = [first, second].contains(&(number - 1));
                if hit { Verdict::Drop } else { Verdict::Pass }
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

/// RFC 8260, section 2.2.3
#[test]
fn fragments_need_no_order_of_tsns() {
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
        peer.send(&mut w, |p| p.i_data(&header, bytes.as_bytes()));
    }
    let got = w.receive(0, id);
    assert!(got[0].payload == b"CD"[..] && got[1].payload == b"AB"[..]);
}

/// RFC 9260, section 11.2.2
#[test]
fn unacknowledged_data_is_returned_by_message() {
    let (mut w, peer, id) = puppet(true);
    w.change(0, id).set_scheduler(StreamScheduler::RoundRobin);
    for stream in 0..3 {
        let options = SendOptions {
            context: 10 + u64::from(stream),
            ..SendOptions::on_stream(stream)
        };
        w.send_with(0, id, options, pattern(10_000 + usize::from(stream)));
    }
    w.send(0, id, 4, pattern(7));
    peer.receive(&mut w);
    // The first chunk of stream 0 arrived.
    peer.sack(&mut w, peer.endpoint_tsn(0), 100_000, &[]);
    peer.send(&mut w, |p| p.abort(false, |_| {}));
    let mut failed: Vec<_> = w
        .events(0)
        .into_iter()
        .filter_map(|e| match e {
            Event::SendFailed(f) => Some(f),
            _ => None,
        })
        .collect();
    failed.sort_by_key(|f| f.stream.0);
    let reported: Vec<_> = failed
        .iter()
        .map(|f| (f.context, f.sent, f.unsent.len()))
        .collect();
    assert_eq!(
        reported,
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
