//! The receiver of I-DATA: messages are the same for any order of arrival, and invalid chunks only abort
//! the association.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use carrick_wire::{Fragment as Place, Fsn, IDataHeader, Mid, Ppid};
use proptest::prelude::*;

use super::message::MessagePart;
use super::*;

/// A chunk as a sender would make it.
#[derive(Clone, Debug)]
struct SentChunk {
    tsn: u32,
    stream: u16,
    unordered: bool,
    mid: u32,
    fsn: u32,
    ending: bool,
    payload: Vec<u8>,
}

/// Stream, order and MID.
type Name = (u16, bool, u32);

impl SentChunk {
    fn name(&self) -> Name {
        (self.stream, self.unordered, self.mid)
    }
}

fn give(receiver: &mut Receiver, sent: &SentChunk) -> DataOutcome {
    let fragment = match sent.fsn {
        0 => Place::First(Ppid(7)),
        fsn => Place::Later(Fsn::new(fsn)),
    };
    give_as(receiver, sent, fragment)
}

fn give_as(receiver: &mut Receiver, sent: &SentChunk, fragment: Place) -> DataOutcome {
    let datagram = Bytes::from(sent.payload.clone());
    let header = IDataHeader {
        tsn: Tsn::new(sent.tsn),
        stream: StreamId(sent.stream),
        mid: Mid::new(sent.mid),
        fragment,
        immediate: false,
        unordered: sent.unordered,
        ending: sent.ending,
    };
    let data = IData {
        header,
        payload: &datagram,
    };
    let outcome = receiver.on_i_data(&data, &datagram);
    receiver.on_packet_end(Time::ZERO, None);
    outcome
}

/// Messages fragmented into chunks of three bytes; `order` selects the stream of each chunk, and the TSNs
/// begin with `tsn`. A stream begins a message when its previous message is complete.
fn chunks(
    tsn: u32,
    messages: &[(u16, bool, usize)],
    order: &[prop::sample::Index],
) -> Vec<SentChunk> {
    let mut lines: BTreeMap<u16, Vec<SentChunk>> = BTreeMap::new();
    let mut next: BTreeMap<(u16, bool), u32> = BTreeMap::new();
    for (number, &(stream, unordered, len)) in messages.iter().enumerate() {
        let counter = next.entry((stream, unordered)).or_default();
        let bytes: Vec<u8> = (0..len).map(|i| (number * 31 + i) as u8).collect();
        for (fsn, piece) in bytes.chunks(3).enumerate() {
            lines.entry(stream).or_default().push(SentChunk {
                tsn: 0,
                stream,
                unordered,
                mid: *counter,
                fsn: fsn as u32,
                ending: (fsn + 1) * 3 >= len,
                payload: piece.to_vec(),
            });
        }
        *counter += 1;
    }
    for line in lines.values_mut() {
        line.reverse();
    }
    let mut picks = order.iter().cycle();
    let mut all: Vec<SentChunk> = Vec::new();
    while !lines.is_empty() {
        let streams: Vec<u16> = lines.keys().copied().collect();
        let stream = picks.next().map_or(streams[0], |pick| *pick.get(&streams));
        let Some(mut chunk) = lines.get_mut(&stream).and_then(Vec::pop) else {
            lines.remove(&stream);
            continue;
        };
        chunk.tsn = tsn.wrapping_add(all.len() as u32);
        all.push(chunk);
    }
    all
}

/// Naive model of the messages to deliver once the chunks in `arrived` have arrived.
fn naive(sent: &[SentChunk], arrived: &BTreeSet<u32>) -> BTreeMap<Name, Vec<u8>> {
    let mut whole: BTreeMap<Name, Vec<u8>> = BTreeMap::new();
    let mut broken: BTreeSet<Name> = BTreeSet::new();
    for chunk in sent {
        let bytes = whole.entry(chunk.name()).or_default();
        bytes.extend(&chunk.payload);
        if !arrived.contains(&chunk.tsn) {
            broken.insert(chunk.name());
        }
    }
    let waits = |name: &Name| {
        let before = |other: &Name| other.0 == name.0 && !other.1 && other.2 <= name.2;
        if name.1 {
            broken.contains(name)
        } else {
            broken.iter().any(before)
        }
    };
    whole.retain(|name, _| !waits(name));
    whole
}

fn receiver(tsn: u32, buffer: usize) -> Receiver {
    let config = AssociationConfig::rfc9260().with(|c| {
        c.buffers.receive_buffer = buffer;
        c.buffers.message_overhead = 16;
    });
    Receiver::new(Tsn::new(tsn), 8, true, &config)
}

/// Puts messages and their parts together; panics at what does not fit.
#[derive(Default)]
struct Reader {
    open: BTreeMap<u32, (Name, Vec<u8>)>,
    done: BTreeMap<Name, Vec<u8>>,
    /// Ordered messages in the order of their first parts.
    order: Vec<Name>,
    /// Messages that were open at the same time.
    most: usize,
}

impl Reader {
    fn read(&mut self, receiver: &mut Receiver) {
        while let Some(message) = receiver.receive() {
            self.take(&message);
        }
    }

    fn take(&mut self, message: &Message) {
        let mid = message.mid.expect("a MID").value();
        let name = (message.stream.0, message.ssn.is_none(), mid);
        assert!(
            message
                .ssn
                .is_none_or(|s| u32::from(s.value()) == mid & 0xffff)
        );
        assert_eq!(message.ppid, Ppid(7));
        let bytes = message.payload.clone().into_bytes().to_vec();
        let tsn = message.tsn.value();
        if matches!(message.part, MessagePart::Whole | MessagePart::First) {
            assert!(self.open.insert(tsn, (name, Vec::new())).is_none());
            self.order.push(name);
            self.most = self.most.max(self.open.len());
        }
        let (begun, so_far) = self
            .open
            .get_mut(&tsn)
            .expect("the first part of the message");
        assert_eq!(*begun, name);
        so_far.extend(bytes);
        if matches!(message.part, MessagePart::Whole | MessagePart::Last) {
            let (name, bytes) = self
                .open
                .remove(&tsn)
                .expect("a message in partial delivery");
            assert!(self.done.insert(name, bytes).is_none(), "{name:?} twice");
        }
    }

    /// Ordered messages came one after the other.
    fn check_order(&self) {
        let mut next: BTreeMap<u16, u32> = BTreeMap::new();
        for (stream, _, mid) in self.order.iter().filter(|n| !n.1) {
            let expected = next.entry(*stream).or_default();
            assert_eq!(mid, expected);
            *expected += 1;
        }
    }
}

fn messages() -> impl Strategy<Value = Vec<(u16, bool, usize)>> {
    proptest::collection::vec((0_u16..8, any::<bool>(), 1_usize..20), 1..40)
}

fn indexes(most: usize) -> impl Strategy<Value = Vec<prop::sample::Index>> {
    proptest::collection::vec(any::<prop::sample::Index>(), 0..most)
}

proptest! {
    /// RFC 8260, section 2.2.3.
    #[test]
    fn any_order_and_repetition_agrees_with_a_model(
        tsn: u32,
        messages in messages(),
        turns in indexes(40),
        order in indexes(300),
    ) {
        let sent = chunks(tsn, &messages, &turns);
        let mut receiver = receiver(tsn, 1 << 20);
        let mut reader = Reader::default();
        let mut arrived = BTreeSet::new();
        // Random chunks, many of them again and again, then whatever is missing.
        for chunk in order.iter().map(|pick| pick.get(&sent)).chain(&sent) {
            let expected = if arrived.insert(chunk.tsn) {
                DataOutcome::Accepted
            } else {
                DataOutcome::Duplicate
            };
            prop_assert_eq!(give(&mut receiver, chunk), expected);
            reader.read(&mut receiver);
            prop_assert_eq!(&reader.done, &naive(&sent, &arrived));
        }
        reader.check_order();
        prop_assert_eq!(reader.done.len(), messages.len());
        prop_assert_eq!(receiver.buffered_bytes(), 0);
        prop_assert!(!receiver.has_gaps());
    }

    /// RFC 8260, section 2.2.3.
    #[test]
    fn a_small_buffer_is_kept_and_nothing_is_lost(
        messages in proptest::collection::vec((0_u16..8, any::<bool>(), 1_usize..400), 1..30),
        turns in indexes(200),
        order in indexes(200),
    ) {
        const BUFFER: usize = 1500;
        let sent = chunks(1, &messages, &turns);
        let mut receiver = receiver(1, BUFFER);
        let mut reader = Reader::default();
        let mut step = 0;
        let mut missing: Vec<&SentChunk> = order.iter().map(|pick| pick.get(&sent)).collect();
        // The sender repeats what is not acknowledged until all of it is, lowest first.
        for round in 0..2000 {
            for chunk in missing.drain(..) {
                let outcome = give(&mut receiver, chunk);
                prop_assert!(!matches!(outcome, DataOutcome::Violation(_)), "{:?}", outcome);
                prop_assert!(receiver.buffered_bytes() <= BUFFER + 3 + 16);
                step += 1;
                if step % 7 == 0 && let Some(message) = receiver.receive() {
                    reader.take(&message);
                }
            }
            let cumulative = receiver.cumulative_tsn();
            missing = sent.iter().filter(|c| Tsn::new(c.tsn).is_after(cumulative)).take(50).collect();
            if missing.is_empty() {
                break;
            }
            prop_assert!(round < 1999, "chunks are still missing after 2,000 rounds");
        }
        reader.read(&mut receiver);
        reader.check_order();
        prop_assert!(reader.open.is_empty());
        prop_assert_eq!(receiver.buffered_bytes(), 0);
        prop_assert_eq!(reader.done, naive(&sent, &sent.iter().map(|c| c.tsn).collect()));
    }

    /// RFC 8260, section 2.2.3.
    #[test]
    fn random_chunks_are_bounded_and_never_panic(
        chunks in proptest::collection::vec((0_u32..60, 0_u16..10, any::<bool>(), any::<bool>(), any::<bool>(), prop_oneof![0_u32..4, any::<u32>()], prop_oneof![0_u32..4, any::<u32>()]), 0..200),
        read in any::<bool>(),
    ) {
        const BUFFER: usize = 1500;
        let mut receiver = receiver(1, BUFFER);
        for (tsn, stream, unordered, beginning, ending, mid, fsn) in chunks {
            let sent = SentChunk { tsn, stream, unordered, mid, fsn, ending, payload: vec![0; 100] };
            let fragment = if beginning { Place::First(Ppid(0)) } else { Place::Later(Fsn::new(fsn)) };
            give_as(&mut receiver, &sent, fragment);
            prop_assert!(receiver.buffered_bytes() <= BUFFER + 116);
            if read {
                receiver.receive();
            }
        }
    }
}

/// A chunk of an ordered message of stream 1.
fn piece(tsn: u32, mid: u32, fsn: u32, ending: bool) -> SentChunk {
    SentChunk {
        tsn,
        stream: 1,
        unordered: false,
        mid,
        fsn,
        ending,
        payload: vec![tsn as u8; 3],
    }
}

/// RFC 8260, section 2.2.3.
#[test]
fn inconsistent_fragments_are_a_violation() {
    let lies: [(&str, &[SentChunk]); 8] = [
        (
            "two first fragments",
            &[piece(1, 0, 0, false), piece(2, 0, 0, false)],
        ),
        (
            "a fragment number twice",
            &[piece(1, 0, 2, false), piece(2, 0, 2, false)],
        ),
        (
            "two last fragments",
            &[piece(1, 0, 2, true), piece(2, 0, 3, true)],
        ),
        (
            "two last fragments with the same number",
            &[piece(1, 0, 2, true), piece(2, 0, 2, true)],
        ),
        (
            "a fragment behind the last one",
            &[piece(1, 0, 2, true), piece(2, 0, 3, false)],
        ),
        (
            "a last fragment before a received one",
            &[piece(1, 0, 3, false), piece(2, 0, 2, true)],
        ),
        (
            "an unfragmented message after a fragment",
            &[piece(1, 0, 0, false), piece(2, 0, 0, true)],
        ),
        (
            "a fragment number far below",
            &[piece(1, 0, 0x8000_0000, false)],
        ),
    ];
    for (what, sent) in lies {
        let mut receiver = receiver(1, 10_000);
        let (last, before) = sent.split_last().expect("a chunk");
        for chunk in before {
            assert_eq!(give(&mut receiver, chunk), DataOutcome::Accepted, "{what}");
        }
        let outcome = give(&mut receiver, last);
        assert!(matches!(outcome, DataOutcome::Violation(_)), "{what}");
    }
}

/// RFC 8260, section 2.1.
#[test]
fn a_message_identifier_is_used_once() {
    let mut receiver = receiver(1, 10_000);
    assert_eq!(
        give(&mut receiver, &piece(1, 0, 0, true)),
        DataOutcome::Accepted
    );
    for mid in [0, u32::MAX, 0x8000_0001] {
        let outcome = give(&mut receiver, &piece(2, mid, 0, true));
        assert!(matches!(outcome, DataOutcome::Violation(_)), "MID {mid}");
        let config = AssociationConfig::rfc9260();
        receiver.restart(Tsn::new(1), 8, true, &config);
        give(&mut receiver, &piece(1, 0, 0, true));
    }
}

/// RFC 8260, section 2.1.
#[test]
fn fsn_zero_without_the_b_bit_is_a_violation() {
    let mut receiver = receiver(1, 10_000);
    let outcome = give_as(
        &mut receiver,
        &piece(1, 0, 0, false),
        Place::Later(Fsn::new(0)),
    );
    assert!(matches!(outcome, DataOutcome::Violation(_)));
}

/// RFC 8260, section 2.2.3.
#[test]
fn absurd_mids_and_fsns_wait_within_the_buffer() {
    let mut receiver = receiver(1, 1500);
    let mut dropped = 0;
    for i in 0..200 {
        let sent = piece(1 + i, 0x7000_0000 + i, 0x7fff_0000, false);
        dropped += usize::from(give(&mut receiver, &sent) == DataOutcome::Dropped);
    }
    assert!(receiver.buffered_bytes() <= 1500 + 19);
    assert!(dropped > 100);
    assert_eq!(receiver.receive(), None);
}

/// RFC 8260, section 2.1.
#[test]
fn ordered_and_unordered_mids_are_separate() {
    let mut receiver = receiver(1, 10_000);
    let unordered = |chunk: SentChunk| SentChunk {
        unordered: true,
        ..chunk
    };
    give(&mut receiver, &piece(1, 0, 0, false));
    give(&mut receiver, &unordered(piece(2, 0, 0, false)));
    give(&mut receiver, &unordered(piece(3, 0, 1, true)));
    let first = receiver.receive().expect("the unordered one is complete");
    assert_eq!((first.ssn, first.mid), (None, Some(Mid::new(0))));
    assert!(first.payload == [2, 2, 2, 3, 3, 3][..]);
    give(&mut receiver, &piece(4, 0, 1, true));
    assert!(receiver.receive().expect("the second message").payload == [1, 1, 1, 4, 4, 4][..]);
}

/// RFC 8260, section 2.2.3.
#[test]
fn partial_deliveries_of_several_messages_alternate() {
    let messages: Vec<_> = (0..4).map(|stream| (stream, stream == 3, 3000)).collect();
    let alternating: Vec<prop::sample::Index> = Vec::new();
    let mut sent = chunks(1, &messages, &alternating);
    // The streams alternate: the first chunk of each message, then the second of each.
    sent.sort_by_key(|c| (c.fsn, c.stream));
    for (chunk, tsn) in sent.iter_mut().zip(1..) {
        chunk.tsn = tsn;
    }
    let mut receiver = receiver(1, 1500);
    let mut reader = Reader::default();
    for chunk in &sent {
        assert_eq!(give(&mut receiver, chunk), DataOutcome::Accepted);
        reader.read(&mut receiver);
    }
    assert_eq!(reader.most, 4);
    assert!(reader.open.is_empty());
    assert_eq!(reader.done.len(), 4);
    assert!(reader.done.values().all(|bytes| bytes.len() == 3000));
}

/// RFC 8260, section 2.2.3.
#[test]
fn a_restart_drops_parts_and_keeps_whole_messages() {
    let mut receiver = receiver(1, 1500);
    let mut tsn = 0;
    for fsn in 0..30 {
        for stream in [1, 2] {
            tsn += 1;
            let chunk = SentChunk {
                stream,
                ..piece(tsn, 0, fsn, false)
            };
            give(&mut receiver, &chunk);
        }
    }
    let first = receiver.receive().map(|m| m.part);
    assert_eq!(first, Some(MessagePart::First));
    let whole = SentChunk {
        stream: 3,
        ..piece(tsn + 1, 0, 0, true)
    };
    give(&mut receiver, &whole);
    receiver.restart(Tsn::new(7000), 8, true, &AssociationConfig::rfc9260());
    let left: Vec<_> = core::iter::from_fn(|| receiver.receive()).collect();
    assert!(
        left.iter().all(|m| m.part == MessagePart::Whole),
        "{left:?}"
    );
    assert_eq!(left.len(), 1);
    assert_eq!(receiver.buffered_bytes(), 0);
    assert_eq!(
        give(&mut receiver, &piece(7000, 0, 0, true)),
        DataOutcome::Accepted
    );
    assert_eq!(receiver.receive().map(|m| m.part), Some(MessagePart::Whole));
}

/// RFC 8260, section 2.1.
#[test]
fn one_message_releases_tens_of_thousands() {
    let config = AssociationConfig::rfc9260().with(|c| {
        c.buffers.receive_buffer = 64 << 20;
        c.buffers.receive_buffer_chunks = 1 << 20;
    });
    let mut receiver = Receiver::new(Tsn::new(1), 8, true, &config);
    for i in (1..60_000).chain([0]) {
        assert_eq!(
            give(&mut receiver, &piece(1 + i, i, 0, true)),
            DataOutcome::Accepted
        );
    }
    let mids = core::iter::from_fn(|| receiver.receive()).filter_map(|m| m.mid);
    assert!(mids.map(Mid::value).eq(0..60_000));
}
