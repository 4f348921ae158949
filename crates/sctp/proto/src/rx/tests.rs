//! The receiver as a whole: any order of arrival gives the same messages.

use alloc::vec;
use alloc::vec::Vec;

use carrick_wire::{DataFlags, Ppid, Ssn};
use proptest::prelude::*;

use super::message::MessagePart;
use super::*;

/// A chunk as a sender would make it.
#[derive(Clone, Debug)]
struct SentChunk {
    tsn: u32,
    stream: u16,
    ssn: u16,
    unordered: bool,
    beginning: bool,
    ending: bool,
    payload: Vec<u8>,
}

fn give(receiver: &mut Receiver, sent: &SentChunk) -> DataOutcome {
    let datagram = Bytes::from(sent.payload.clone());
    let data = Data {
        tsn: Tsn::new(sent.tsn),
        stream: StreamId(sent.stream),
        ssn: Ssn::new(sent.ssn),
        ppid: Ppid(7),
        flags: DataFlags {
            immediate: false,
            unordered: sent.unordered,
            beginning: sent.beginning,
            ending: sent.ending,
        },
        payload: &datagram,
    };
    let outcome = receiver.on_data(&data, &datagram);
    receiver.on_packet_end(Time::ZERO, None);
    outcome
}

/// Messages cut into chunks of three bytes, numbered from `tsn`.
fn chunks(tsn: u32, messages: &[(u16, bool, usize)]) -> Vec<SentChunk> {
    let mut next = [0_u16; 8];
    let mut all = Vec::new();
    for (number, &(stream, unordered, len)) in messages.iter().enumerate() {
        let ssn = next[usize::from(stream)];
        if !unordered {
            next[usize::from(stream)] += 1;
        }
        let bytes: Vec<u8> = (0..len).map(|i| (number * 31 + i) as u8).collect();
        let pieces: Vec<&[u8]> = bytes.chunks(3).collect();
        for (i, piece) in pieces.iter().enumerate() {
            all.push(SentChunk {
                tsn: tsn.wrapping_add(all.len() as u32),
                stream,
                ssn,
                unordered,
                beginning: i == 0,
                ending: i + 1 == pieces.len(),
                payload: piece.to_vec(),
            });
        }
    }
    all
}

fn receiver(tsn: u32, buffer: usize) -> Receiver {
    let config = AssociationConfig::rfc9260().with(|c| {
        c.buffers.receive_buffer = buffer;
        c.buffers.message_overhead = 16;
    });
    Receiver::new(Tsn::new(tsn), 8, false, &config)
}

/// All messages that are ready, parts joined: stream, unordered, first byte and length.
fn drain(receiver: &mut Receiver) -> Vec<(u16, bool, Vec<u8>)> {
    let mut messages: Vec<(u16, bool, Vec<u8>)> = Vec::new();
    while let Some(message) = receiver.receive() {
        let bytes = message.payload.clone().into_bytes().to_vec();
        match message.part {
            MessagePart::Whole | MessagePart::First => {
                messages.push((message.stream.0, message.ssn.is_none(), bytes))
            }
            MessagePart::Middle | MessagePart::Last => messages.last_mut().unwrap().2.extend(bytes),
            MessagePart::Aborted => drop(messages.pop()),
        }
    }
    messages
}

#[test]
fn a_restart_drops_parts_of_incomplete_messages() {
    for read_some in [false, true] {
        let mut receiver = receiver(1, 1500);
        let sent = chunks(1, &[(1, false, 600)]);
        for chunk in &sent[..70] {
            give(&mut receiver, chunk);
        }
        assert!(receiver.receivable() > 0, "a partial delivery began");
        if read_some {
            assert_eq!(receiver.receive().map(|m| m.part), Some(MessagePart::First));
            for chunk in &sent[70..90] {
                give(&mut receiver, chunk);
            }
            assert!(receiver.receivable() > 0, "the partial delivery continues");
        }
        let config = AssociationConfig::rfc9260();
        receiver.restart(Tsn::new(7000), 8, false, &config);
        assert_eq!(receiver.receive(), None);
        assert_eq!(receiver.buffered_bytes(), 0);
        give(&mut receiver, &chunks(7000, &[(1, false, 3)])[0]);
        let message = receiver.receive().map(|m| (m.part, m.payload.len()));
        assert_eq!(message, Some((MessagePart::Whole, 3)));
    }
}

#[test]
fn a_restart_keeps_whole_messages_for_the_user() {
    let mut receiver = receiver(1, 1500);
    give(&mut receiver, &chunks(1, &[(1, false, 3)])[0]);
    receiver.restart(Tsn::new(7000), 8, false, &AssociationConfig::rfc9260());
    assert_eq!(drain(&mut receiver).len(), 1);
}

proptest! {
    #[test]
    fn any_order_and_repetition_gives_every_message_once(
        tsn: u32,
        messages in proptest::collection::vec((0_u16..8, any::<bool>(), 1_usize..20), 1..40),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..300),
    ) {
        let sent = chunks(tsn, &messages);
        let mut receiver = receiver(tsn, 1 << 20);
        let mut got = Vec::new();
        // Random chunks, many of them again and again, then whatever is missing.
        for pick in &order {
            give(&mut receiver, pick.get(&sent));
            got.extend(drain(&mut receiver));
        }
        for chunk in &sent {
            prop_assert!(!matches!(give(&mut receiver, chunk), DataOutcome::Violation(_) | DataOutcome::Dropped));
            got.extend(drain(&mut receiver));
        }
        prop_assert_eq!(receiver.cumulative_tsn(), Tsn::new(tsn.wrapping_add(sent.len() as u32).wrapping_sub(1)));
        prop_assert!(!receiver.has_gaps());
        prop_assert_eq!(receiver.buffered_bytes(), 0);
        let expected: Vec<_> = messages.iter().enumerate().map(|(n, &(stream, unordered, len))| {
            (stream, unordered, (0..len).map(|i| (n * 31 + i) as u8).collect::<Vec<u8>>())
        }).collect();
        for stream in 0..8 {
            let ordered = |all: &[(u16, bool, Vec<u8>)]| -> Vec<_> { all.iter().filter(|m| m.0 == stream && !m.1).cloned().collect() };
            prop_assert_eq!(ordered(&got), ordered(&expected), "order within stream {}", stream);
        }
        let sorted = |mut all: Vec<(u16, bool, Vec<u8>)>| { all.sort(); all };
        prop_assert_eq!(sorted(got), sorted(expected));
    }

    #[test]
    fn small_buffers_are_not_exceeded_and_lose_nothing(
        messages in proptest::collection::vec((0_u16..8, any::<bool>(), 1_usize..400), 1..30),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..200),
    ) {
        const BUFFER: usize = 1500;
        let sent = chunks(1, &messages);
        let mut receiver = receiver(1, BUFFER);
        let mut got = Vec::new();
        let mut step = 0;
        let mut missing: Vec<&SentChunk> = order.iter().map(|pick| pick.get(&sent)).collect();
        // The sender repeats what is not acknowledged until all of it is, lowest first.
        for round in 0..2000 {
            for chunk in missing.drain(..) {
                let outcome = give(&mut receiver, chunk);
                prop_assert!(!matches!(outcome, DataOutcome::Violation(_)), "{:?}", outcome);
                prop_assert!(receiver.buffered_bytes() <= BUFFER + 3 + 16);
                step += 1;
                if step % 7 == 0 {
                    got.extend(receiver.receive().map(|m| (m.tsn, m.payload.clone().into_bytes().to_vec())));
                }
            }
            let cumulative = receiver.cumulative_tsn();
            missing = sent.iter().filter(|c| Tsn::new(c.tsn).is_after(cumulative)).take(50).collect();
            if missing.is_empty() {
                break;
            }
            prop_assert!(round < 1999, "chunks are still missing after 2,000 rounds");
        }
        got.extend(core::iter::from_fn(|| receiver.receive()).map(|m| (m.tsn, m.payload.clone().into_bytes().to_vec())));
        // Parts of one message share the TSN of its first fragment.
        let mut joined: alloc::collections::BTreeMap<u32, Vec<u8>> = alloc::collections::BTreeMap::new();
        for (tsn, bytes) in got {
            joined.entry(tsn.value()).or_default().extend(bytes);
        }
        let mut expected: Vec<Vec<u8>> = messages.iter().enumerate().map(|(n, m)| (0..m.2).map(|i| (n * 31 + i) as u8).collect()).collect();
        let mut found: Vec<Vec<u8>> = joined.into_values().collect();
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
    }
}

fn fragment(tsn: u32, stream: u16, ssn: u16, beginning: bool, ending: bool) -> SentChunk {
    SentChunk {
        tsn,
        stream,
        ssn,
        unordered: false,
        beginning,
        ending,
        payload: vec![1],
    }
}

#[test]
fn fragments_that_do_not_fit_together_are_a_violation() {
    let violation = |first: SentChunk, second: SentChunk| {
        for (a, b) in [(&first, &second), (&second, &first)] {
            let mut receiver = receiver(1, 10_000);
            assert_eq!(give(&mut receiver, a), DataOutcome::Accepted);
            assert!(
                matches!(give(&mut receiver, b), DataOutcome::Violation(_)),
                "{a:?} then {b:?}"
            );
        }
    };
    violation(
        fragment(1, 0, 0, true, false),
        fragment(2, 0, 1, true, false),
    );
    violation(
        fragment(1, 0, 0, true, false),
        fragment(2, 1, 0, false, true),
    );
    violation(
        fragment(1, 0, 0, true, false),
        fragment(2, 0, 1, false, true),
    );
}

/// RFC 9260, section 6.5.
#[test]
fn data_on_an_invalid_stream_is_acknowledged() {
    let mut receiver = receiver(1, 10_000);
    let outcome = give(&mut receiver, &fragment(1, 8, 0, true, true));
    assert_eq!(outcome, DataOutcome::InvalidStream(StreamId(8)));
    assert_eq!(receiver.cumulative_tsn(), Tsn::new(1));
    assert_eq!(receiver.receive(), None);
}

#[test]
fn a_message_above_the_buffer_size_arrives_in_parts() {
    let sent = chunks(1, &[(2, false, 5000)]);
    let mut receiver = receiver(1, 1500);
    let mut parts = Vec::new();
    for chunk in &sent {
        assert_eq!(give(&mut receiver, chunk), DataOutcome::Accepted);
        parts.extend(core::iter::from_fn(|| receiver.receive()));
    }
    assert_eq!(parts.first().map(|p| p.part), Some(MessagePart::First));
    assert_eq!(parts.last().map(|p| p.part), Some(MessagePart::Last));
    assert_eq!(parts.iter().map(|p| p.payload.len()).sum::<usize>(), 5000);
    assert!(
        parts[1..parts.len() - 1]
            .iter()
            .all(|p| p.part == MessagePart::Middle)
    );
}
