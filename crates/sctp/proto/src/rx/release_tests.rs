//! Messages deferred by a reset when the association ends or restarts: they are delivered, with work in
//! proportion to their number, and none remains charged to the receive buffer.

use alloc::vec;
use alloc::vec::Vec;

use carrick_wire::{
    DataFlags, Fragment as Place, Fsn, IDataHeader, Mid, Ppid, SkippedMessage, Ssn,
};
use proptest::prelude::*;

use super::message::MessagePart;
use super::*;
use crate::research::WindowAnnouncement;
use crate::stream_set::StreamSet;

const STREAMS: u16 = u16::MAX;

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260().with(|c| {
        c.buffers.receive_buffer = 1 << 20;
        c.buffers.message_overhead = 16;
    });
    // The window follows from what is held, and from nothing that was learned before.
    config.research.policies.window_announcement = WindowAnnouncement::True;
    config
}

fn receiver(interleaving: bool) -> Receiver {
    Receiver::new(Tsn::new(1), STREAMS, interleaving, &config())
}

/// A chunk of an ordered message, whole if it is both first and last.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    tsn: u32,
    stream: u16,
    mid: u32,
    fsn: u32,
    ending: bool,
    unordered: bool,
    len: usize,
}

fn whole(tsn: u32, stream: u16, mid: u32) -> Chunk {
    Chunk {
        tsn,
        stream,
        mid,
        fsn: 0,
        ending: true,
        unordered: false,
        len: 1,
    }
}

fn give(receiver: &mut Receiver, chunk: Chunk) -> DataOutcome {
    let datagram = Bytes::from(vec![0; chunk.len]);
    let stream = StreamId(chunk.stream);
    if receiver.interleaved.is_none() {
        let data = Data {
            tsn: Tsn::new(chunk.tsn),
            stream,
            ssn: Ssn::new(chunk.mid as u16),
            ppid: Ppid(7),
            flags: DataFlags {
                immediate: false,
                unordered: chunk.unordered,
                beginning: chunk.fsn == 0,
                ending: chunk.ending,
            },
            payload: &datagram,
        };
        return receiver.on_data(&data, &datagram);
    }
    let fragment = match chunk.fsn {
        0 => Place::First(Ppid(7)),
        fsn => Place::Later(Fsn::new(fsn)),
    };
    let header = IDataHeader {
        tsn: Tsn::new(chunk.tsn),
        stream,
        mid: Mid::new(chunk.mid),
        fragment,
        immediate: false,
        unordered: chunk.unordered,
        ending: chunk.ending,
    };
    let data = IData {
        header,
        payload: &datagram,
    };
    receiver.on_i_data(&data, &datagram)
}

fn read_all(receiver: &mut Receiver) -> Vec<Message> {
    core::iter::from_fn(|| receiver.receive()).collect()
}

/// The messages that were looked at since the last call.
fn work(receiver: &Receiver) -> usize {
    let interleaved = receiver.interleaved.as_ref().expect("interleaving");
    interleaved.looks.take()
}

/// RFC 8260, section 2.2.3.
#[test]
fn used_mids_cost_no_more_than_waiting_messages() {
    const COUNT: u32 = 8100;
    type Make = fn(u32) -> Chunk;
    let cases: [(&str, Make); 4] = [
        ("one stream", |i| whole(2 + i, 7, 0x8000_0001 + i)),
        ("many streams", |i| whole(2 + i, i as u16, 0x8000_0001)),
        ("first fragments", |i| Chunk {
            ending: false,
            ..whole(2 + i, i as u16, 0x8000_0001)
        }),
        ("unordered", |i| Chunk {
            unordered: true,
            ..whole(2 + i, i as u16, 3)
        }),
    ];
    for (what, chunk) in cases {
        let mut receiver = receiver(true);
        give(&mut receiver, whole(1, STREAMS - 1, 0));
        if let Some(all) = &mut receiver.interleaved {
            for stream in (0..COUNT as u16).map(StreamId) {
                let skipped = SkippedMessage {
                    stream,
                    unordered: true,
                    mid: Mid::new(5),
                };
                all.skip(skipped, &mut receiver.delivery);
            }
        }
        receiver.defer_after(Tsn::new(1), StreamSet::All);
        for i in 0..COUNT {
            assert_eq!(give(&mut receiver, chunk(i)), DataOutcome::Accepted);
        }
        work(&receiver);
        receiver.release_at_end();
        let (work, most) = (work(&receiver), 4 * COUNT as usize);
        assert!(
            work >= COUNT as usize && work <= most,
            "{what}: {work} looks"
        );
    }
}

/// RFC 6525, section 5.2.2.
#[test]
fn a_reset_visits_only_messages_of_its_streams() {
    const COUNT: u32 = 4000;
    let listed = |stream| StreamSet::Listed(vec![StreamId(stream)]);
    for streams in [listed(1), listed(3), StreamSet::All] {
        let mut receiver = receiver(true);
        // Streams up to the highest have had a message; stream 2 waits for its first one, and behind
        // a gap stream 3 does.
        give(&mut receiver, whole(1, STREAMS - 1, 0));
        for i in 0..COUNT {
            give(&mut receiver, whole(2 + i, 2, 1 + i));
            give(&mut receiver, whole(2 + COUNT + 1 + i, 3, 1 + i));
        }
        receiver
            .reset_streams(&streams)
            .expect("the reset is valid");
        work(&receiver);
        for _ in 0..60 {
            receiver
                .reset_streams(&streams)
                .expect("the reset is valid");
        }
        assert!(work(&receiver) <= 60, "{streams:?}");
    }
}

/// RFC 8260, section 2.2.2.
#[test]
fn parts_that_are_read_leave_few_messages() {
    const BUFFER: usize = 20_000;
    let config = config().with(|c| c.buffers.receive_buffer = BUFFER);
    let mut receiver = Receiver::new(Tsn::new(1), 8, true, &config);
    let mut tsn = 0;
    // Nearly full of messages that cannot be read.
    while receiver.buffered_bytes() < BUFFER / 10 * 8 {
        tsn += 1;
        give(&mut receiver, whole(tsn, 0, tsn));
    }
    let mut dropped = 0;
    for mid in 0..100_000 {
        let begun = Chunk {
            unordered: true,
            ending: false,
            ..whole(tsn + 1, 1, mid)
        };
        if give(&mut receiver, begun) == DataOutcome::Accepted {
            tsn += 1;
        } else {
            dropped += 1;
        }
        read_all(&mut receiver);
    }
    let interleaved = receiver.interleaved.as_ref().expect("interleaving");
    assert_eq!(interleaved.partial_tsns().count(), 2 * 8);
    assert!(receiver.buffered_bytes() <= BUFFER + 17 && receiver.a_rwnd() <= 1);
    assert!(dropped > 99_000, "{dropped}");
}

/// More messages under way than the buffer has room for chunks: all end, because each is read as it comes.
/// RFC 8260, section 2.2.3.
#[test]
fn many_partial_deliveries_end_in_a_small_buffer() {
    const STREAMS: u16 = 8;
    let config = config().with(|c| c.buffers.receive_buffer_chunks = 4);
    let mut receiver = Receiver::new(Tsn::new(1), STREAMS, true, &config);
    let mut read = Vec::new();
    for tsn in 1..=3 * u32::from(STREAMS) {
        let n = tsn - 1;
        let chunk = Chunk {
            fsn: n / u32::from(STREAMS),
            ending: n / u32::from(STREAMS) == 2,
            ..whole(tsn, n as u16 % STREAMS, 0)
        };
        assert_eq!(give(&mut receiver, chunk), DataOutcome::Accepted, "{tsn}");
        read.extend(read_all(&mut receiver).iter().map(|m| m.part));
    }
    let ends = read
        .iter()
        .filter(|part| matches!(part, MessagePart::Last | MessagePart::Whole));
    assert_eq!(ends.count(), usize::from(STREAMS), "{read:?}");
    assert_eq!(receiver.buffered_bytes(), 0);
}

/// RFC 8260, section 2.2.3.
#[test]
fn a_restart_frees_the_space_of_unfit_messages() {
    for interleaving in [true, false] {
        let mut receiver = receiver(interleaving);
        let full = receiver.a_rwnd();
        give(&mut receiver, whole(1, 1, 0));
        // Messages in DATA don't begin within another one.
        let begun = Chunk {
            ending: !interleaving,
            len: 1000,
            ..whole(2, 1, 1)
        };
        give(&mut receiver, begun);
        receiver.defer_after(Tsn::new(2), StreamSet::All);
        // Behind the reset that is awaited, and what fits nowhere.
        for (tsn, mid) in [(3, 0), (4, 0), (6, 2), (7, 2)] {
            give(&mut receiver, whole(tsn, 1, mid));
        }
        let read = read_all(&mut receiver).len();
        receiver.release_at_end();
        // Where the TSNs prove that nothing is missing, a message in DATA is delivered with any SSN.
        let expected = if interleaving { 2 } else { 4 };
        assert_eq!(read + read_all(&mut receiver).len(), expected);
        receiver.restart(Tsn::new(9000), STREAMS, interleaving, &config());
        assert_eq!(receiver.buffered_bytes(), 0, "interleaving: {interleaving}");
        assert_eq!(receiver.a_rwnd(), full);
    }
}

/// A message of which the user has read the beginning, up to TSN 14; a part of it waits to be read.
fn begun(interleaving: bool) -> Receiver {
    let mut receiver = receiver(interleaving);
    let part = |tsn, fsn| Chunk {
        fsn,
        ending: false,
        len: 70_000,
        ..whole(tsn, 1, 1)
    };
    give(&mut receiver, whole(1, 1, 0));
    read_all(&mut receiver);
    for (tsn, fsn) in (2..=13).zip(0..) {
        give(&mut receiver, part(tsn, fsn));
    }
    assert_eq!(receiver.receive().map(|m| m.part), Some(MessagePart::First));
    give(&mut receiver, part(14, 12));
    receiver
}

/// Reads all messages; asserts that nothing remains charged to the receive buffer. Returns the parts and
/// their lengths in bytes.
fn read_parts(receiver: &mut Receiver) -> Vec<(MessagePart, usize)> {
    let read = read_all(receiver);
    assert_eq!(receiver.buffered_bytes(), 0);
    read.iter().map(|m| (m.part, m.payload.len())).collect()
}

/// RFC 8260, section 2.2.3.
#[test]
fn a_partial_delivery_ends_before_a_stream_restart() {
    let mut receiver = begun(true);
    receiver.defer_after(Tsn::new(14), StreamSet::All);
    give(&mut receiver, whole(15, 1, 0));
    receiver.release_at_end();
    let expected = [(MessagePart::Aborted, 0), (MessagePart::Whole, 1)];
    assert_eq!(read_parts(&mut receiver), expected);
}

/// RFC 6525, section 5.2.2.
#[test]
fn a_stream_reset_aborts_a_partial_delivery() {
    let listed = StreamSet::Listed(vec![StreamId(1)]);
    for streams in [listed, StreamSet::All] {
        let mut receiver = begun(true);
        receiver
            .reset_streams(&streams)
            .expect("the reset is valid");
        give(&mut receiver, whole(15, 1, 0));
        let expected = [(MessagePart::Aborted, 0), (MessagePart::Whole, 1)];
        assert_eq!(read_parts(&mut receiver), expected, "{streams:?}");
    }
    // DATA delivers one message at a time, in the order of TSNs: the partial delivery continues.
    let mut receiver = begun(false);
    receiver
        .reset_streams(&StreamSet::All)
        .expect("the reset is valid");
    let last = Chunk {
        fsn: 13,
        ..whole(15, 1, 1)
    };
    give(&mut receiver, last);
    assert_eq!(read_parts(&mut receiver), [(MessagePart::Last, 70_001)]);
}

/// RFC 6525, section 5.2.4, rule G4.
#[test]
fn a_reset_of_tsns_aborts_a_partial_delivery() {
    // The next TSN is the next one, it is one that the peer has not reached, or it is far away.
    let cases = [15, 21, 1 << 31].map(|next| [(true, next), (false, next)]);
    for (interleaving, next) in cases.into_iter().flatten() {
        let mut receiver = begun(interleaving);
        let renumbered = receiver.renumber(Tsn::new(next));
        assert_eq!(renumbered, Ok(()));
        give(&mut receiver, whole(next, 1, 0));
        let expected = [(MessagePart::Aborted, 0), (MessagePart::Whole, 1)];
        let read = read_parts(&mut receiver);
        assert_eq!(read, expected, "interleaving: {interleaving}, {next}");
    }
}

fn mid() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..4, Just(0x8000_0001)]
}

proptest! {
    /// Arbitrary DATA before, during and after a deferred stream reset.
    /// RFC 9260, section 6.2.
    #[test]
    fn an_end_and_a_restart_free_the_whole_buffer(
        interleaving: bool,
        chunks in proptest::collection::vec((1_u32..60, 0_u16..3, mid(), 0_u32..3, any::<(bool, bool, bool)>()), 0..80),
        deferred_at in 0_usize..40,
        all: bool,
        len in prop_oneof![Just(10_usize), Just(40_000)],
    ) {
        let mut receiver = receiver(interleaving);
        let full = receiver.a_rwnd();
        for (at, (tsn, stream, mid, fsn, (ending, unordered, read))) in chunks.into_iter().enumerate() {
            if at == deferred_at && all {
                receiver.defer_all();
            } else if at == deferred_at {
                receiver.defer_after(Tsn::new(20), StreamSet::All);
            }
            let chunk = Chunk { tsn, stream, mid, fsn, ending, unordered, len };
            if matches!(give(&mut receiver, chunk), DataOutcome::Violation(_)) {
                // The association is aborted.
                return Ok(());
            }
            if read {
                receiver.receive();
            }
        }
        receiver.release_at_end();
        receiver.restart(Tsn::new(9000), STREAMS, interleaving, &config());
        read_all(&mut receiver);
        prop_assert_eq!(receiver.buffered_bytes(), 0);
        prop_assert_eq!(receiver.a_rwnd(), full);
    }
}
