//! State of streams in the receive buffer: what it counts, when it is freed, and that it never
//! leaves a peer without room.

use alloc::vec;

use carrick_wire::{DataFlags, Fragment as Place, IDataHeader, Mid, Ppid, SkippedMessage, Ssn};

use super::*;
use crate::research::{SwsAvoidance, WindowAnnouncement};
use crate::stream_set::StreamSet;

/// Counted for a page of 64 streams: numbers of 2 or 4 octets, the page's bits, and overhead.
const PAGE: [usize; 2] = [64 * 2 + 8 + 48, 64 * 4 + 8 + 48];

/// Pages that are counted: streams 0 to 63 are part of what an association costs.
const PAGES: usize = 1023;

fn receiver(interleaving: bool, buffer: usize) -> Receiver {
    let mut config = AssociationConfig::rfc9260().with(|c| {
        c.buffers.receive_buffer = buffer;
        c.research.receiver_sws_avoidance = SwsAvoidance::Off;
    });
    config.research.policies.window_announcement = WindowAnnouncement::True;
    Receiver::new(Tsn::new(1), u16::MAX, interleaving, &config)
}

/// Gives the receiver a whole message of one octet.
fn give(receiver: &mut Receiver, tsn: u32, stream: u16, number: u16) -> DataOutcome {
    let datagram = Bytes::from(vec![7]);
    let (tsn, stream) = (Tsn::new(tsn), StreamId(stream));
    if receiver.interleaved.is_some() {
        let header = IDataHeader {
            tsn,
            stream,
            mid: Mid::new(number.into()),
            fragment: Place::First(Ppid(0)),
            immediate: false,
            unordered: false,
            ending: true,
        };
        let payload = &datagram;
        return receiver.on_i_data(&IData { header, payload }, &datagram);
    }
    let data = Data {
        tsn,
        stream,
        ssn: Ssn::new(number),
        ppid: Ppid(0),
        flags: DataFlags {
            immediate: false,
            unordered: false,
            beginning: true,
            ending: true,
        },
        payload: &datagram,
    };
    receiver.on_data(&data, &datagram)
}

fn read(receiver: &mut Receiver) -> usize {
    core::iter::from_fn(|| receiver.receive()).count()
}

#[test]
fn a_page_of_streams_counts_in_the_window() {
    for (interleaving, page) in [false, true].into_iter().zip(PAGE) {
        let mut receiver = receiver(interleaving, 100_000);
        for (tsn, stream, pages) in [(1, 0, 0), (2, 65_534, 1), (3, 65_480, 1), (4, 65_471, 2)] {
            assert_eq!(give(&mut receiver, tsn, stream, 0), DataOutcome::Accepted);
            assert_eq!(read(&mut receiver), 1);
            assert_eq!(receiver.a_rwnd(), 100_000 - pages * page, "{stream}");
            assert_eq!(receiver.buffered_bytes(), 0, "user data");
        }
    }
}

/// RFC 6525, sections 5.2.2 and 5.2.4
#[test]
fn a_reset_frees_the_state_of_its_streams() {
    for interleaving in [false, true] {
        let mut receiver = receiver(interleaving, 100_000);
        let streams = [0, 1, 64, 9_999, 65_534];
        for (tsn, stream) in (1..).zip(streams) {
            give(&mut receiver, tsn, stream, 0);
        }
        assert_eq!(read(&mut receiver), streams.len());
        let full = receiver.a_rwnd();
        let listed = StreamSet::Listed(vec![StreamId(64), StreamId(9_999), StreamId(65_534)]);
        receiver.reset_streams(&listed).unwrap();
        assert!(receiver.a_rwnd() > full);
        // The next number of streams that were not reset stays.
        give(&mut receiver, 6, 0, 1);
        give(&mut receiver, 7, 9_999, 0);
        assert_eq!(read(&mut receiver), 2);
        receiver.reset_streams(&StreamSet::All).unwrap();
        assert_eq!(receiver.a_rwnd(), 100_000);
        for (tsn, stream) in (8..).zip(streams) {
            give(&mut receiver, tsn, stream, 0);
        }
        receiver.renumber(Tsn::new(1_000_000)).unwrap();
        assert_eq!(read(&mut receiver), streams.len());
        assert_eq!(receiver.a_rwnd(), 100_000);
        give(&mut receiver, 1_000_000, 1, 0);
        let config = AssociationConfig::rfc9260();
        receiver.restart(Tsn::new(1), u16::MAX, interleaving, &config);
        assert_eq!(read(&mut receiver), 1);
        assert_eq!(receiver.a_rwnd(), 100_000, "restart");
    }
}

/// The state of all streams is larger than the least receive buffer, of which it takes half.
#[test]
fn a_peer_with_all_streams_always_has_room() {
    for interleaving in [false, true] {
        let mut receiver = receiver(interleaving, 1500);
        for stream in 0..u16::MAX {
            let tsn = u32::from(stream) + 1;
            assert_eq!(give(&mut receiver, tsn, stream, 0), DataOutcome::Accepted);
            assert_eq!(read(&mut receiver), 1);
            assert!(receiver.a_rwnd() >= 750);
        }
        // A gap is filled, in exchange for what lies above it.
        let next = 1 + u32::from(u16::MAX);
        for above in 1..100 {
            give(&mut receiver, next + above, 9, 2);
        }
        assert_eq!(give(&mut receiver, next, 9, 1), DataOutcome::Accepted);
        assert!(read(&mut receiver) >= 1);
    }
}

/// The peer may have sent the last of it before it knew that the window became smaller.
#[test]
fn stream_state_closes_the_window_and_drops_nothing() {
    let each = 1 + AssociationConfig::rfc9260().buffers.message_overhead;
    for (interleaving, page) in [false, true].into_iter().zip(PAGE) {
        let mut receiver = receiver(interleaving, 100_000);
        let all = 100_000_usize.div_ceil(each);
        for n in 0..all {
            let outcome = give(&mut receiver, n as u32 + 1, (n * 64) as u16, 0);
            assert_eq!(outcome, DataOutcome::Accepted, "{n}");
            let used = each * (n + 1) + (page * n).min(50_000);
            assert_eq!(receiver.a_rwnd(), 100_000_usize.saturating_sub(used));
        }
        let outcome = give(&mut receiver, all as u32 + 1, 0, 1);
        assert_eq!(outcome, DataOutcome::Dropped, "no room for user data");
        assert_eq!(read(&mut receiver), all);
        assert_eq!(receiver.a_rwnd(), 50_000);
    }
}

/// RFC 8260, section 2.3.1: a chunk of 1,400 octets names 170 streams
#[test]
fn skipped_messages_cost_no_more_than_a_table() {
    for unordered in [false, true] {
        let mut receiver = receiver(true, 2 << 20);
        for stream in 0..u16::MAX {
            let skipped = SkippedMessage {
                stream: StreamId(stream),
                unordered,
                mid: Mid::new(5),
            };
            let interleaved = receiver.interleaved.as_mut().unwrap();
            interleaved.skip(skipped, &mut receiver.delivery);
        }
        receiver.count_streams();
        assert_eq!(
            receiver.a_rwnd(),
            (2 << 20) - PAGES * PAGE[1],
            "{unordered}"
        );
        receiver.reset_streams(&StreamSet::All).unwrap();
        assert_eq!(receiver.a_rwnd(), 2 << 20);
    }
}

/// RFC 9260, section 6.5: such a chunk is acknowledged and discarded, so that nothing but the gaps
/// before it takes memory
#[test]
fn gaps_before_invalid_streams_are_bounded() {
    let config = AssociationConfig::rfc9260();
    let mut receiver = Receiver::new(Tsn::new(1), 1, false, &config);
    let invalid = DataOutcome::InvalidStream(StreamId(1));
    for n in 1..30_000 {
        let outcome = give(&mut receiver, 2 * n, 1, 0);
        let expected = match n as usize {
            ..=MAX_DISCARDED_GAPS => invalid,
            _ => DataOutcome::Dropped,
        };
        assert_eq!(outcome, expected, "{n}");
    }
    assert_eq!(receiver.gap_count(), MAX_DISCARDED_GAPS);
    // What is missing is taken, and makes room.
    for tsn in 1..100 {
        let outcome = give(&mut receiver, tsn, 1, 0);
        let expected = if tsn % 2 == 1 {
            invalid
        } else {
            DataOutcome::Duplicate
        };
        assert_eq!(outcome, expected, "{tsn}");
    }
    assert_eq!(give(&mut receiver, 59_000, 1, 0), invalid);
}

/// Streams in allocated pages remain usable when the endpoint grants the association no more memory.
#[test]
fn the_endpoints_limit_holds_for_the_state_of_streams() {
    for (interleaving, page) in [false, true].into_iter().zip(PAGE) {
        let mut receiver = receiver(interleaving, 1 << 20);
        receiver.set_limit(MIN_RECEIVE);
        let mut accepted = 0;
        for tsn in 1..=200 {
            let outcome = give(&mut receiver, tsn, tsn as u16 * 64, 0);
            if outcome == DataOutcome::Dropped {
                break;
            }
            accepted += 1;
            read(&mut receiver);
        }
        assert_eq!(accepted, MIN_RECEIVE.div_ceil(page));
        let charged = receiver.charged_bytes();
        assert!((MIN_RECEIVE..MIN_RECEIVE + page).contains(&charged));
        assert!(receiver.a_rwnd() > 0, "known streams may be used");
        let next = accepted as u32 + 1;
        for (tsn, stream) in (next..).zip([63, 64, 65, 100]) {
            let number = u16::from(stream == 64);
            let outcome = give(&mut receiver, tsn, stream, number);
            assert_eq!(outcome, DataOutcome::Accepted, "{stream}");
        }
        assert_eq!(read(&mut receiver), 4);
        let above = give(&mut receiver, next + 4, 60_000, 0);
        assert_eq!(above, DataOutcome::Dropped);
        receiver.set_limit(usize::MAX);
        let above = give(&mut receiver, next + 4, 60_000, 0);
        assert_eq!(above, DataOutcome::Accepted);
    }
}
