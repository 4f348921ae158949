//! Messages and the chunks that carry them: fragments, bundles, order (sections 3.3.1, 6.5, 6.6,
//! 6.9, 6.10).

use carrick_proto::{CloseReason, Event, MessagePart, Ppid, Route, SendError, SendOptions, Tsn};
use carrick_wire::{CauseCode, ChunkType, DataFlags, DataHeader};

use crate::common::*;
use crate::data::support::*;

fn fragment(tsn: Tsn, stream: u16, ssn: u16, place: (bool, bool)) -> DataHeader {
    DataHeader {
        flags: DataFlags {
            beginning: place.0,
            ending: place.1,
            ..DataFlags::WHOLE
        },
        ..Puppet::data_header(tsn, stream, ssn)
    }
}

/// RFC 9260, section 6.9
#[test]
fn messages_of_sizes_around_the_limits_arrive() {
    let mut sizes: Vec<usize> = (1..=9).collect();
    for pieces in 1..=4 {
        sizes.extend(pieces * FULL - 9..=pieces * FULL + 9);
    }
    for size in sizes {
        let mut w = World::single_homed();
        let (a, b) = w.connect();
        w.log.clear();
        w.send(0, a, 0, pattern(size));
        w.run(secs(2));
        let flags: Vec<_> = w
            .log
            .iter()
            .flat_map(|p| p.data().iter().map(|d| d.flags).collect::<Vec<_>>())
            .map(|f| (f.beginning, f.ending))
            .collect();
        let pieces = size.div_ceil(FULL);
        let expected: Vec<_> = (0..pieces).map(|i| (i == 0, i + 1 == pieces)).collect();
        assert_eq!(flags, expected, "{size} bytes");
        let got = w.receive(1, b);
        assert_eq!(got.len(), 1, "{size} bytes");
        assert!(got[0].payload == pattern(size)[..], "{size} bytes");
        assert_eq!(got[0].part, MessagePart::Whole);
    }
}

/// RFC 9260, section 6.9
#[test]
fn fragments_share_sid_ssn_and_ppid() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    w.log.clear();
    for unordered in [false, true] {
        let all = SendOptions {
            ppid: Ppid(0xdead_beef),
            unordered,
            ..options(4)
        };
        w.send_with(0, a, all, pattern(4000));
    }
    w.run(secs(2));
    let chunks: Vec<DataHeader> = w
        .log
        .iter()
        .flat_map(|p| p.data().iter().map(|d| d.header()).collect::<Vec<_>>())
        .collect();
    assert_eq!(chunks.len(), 6);
    for pair in chunks.windows(2) {
        assert_eq!(pair[1].tsn, pair[0].tsn.next());
    }
    for (i, chunk) in chunks.iter().enumerate() {
        assert_eq!((chunk.stream.0, chunk.ppid.0), (4, 0xdead_beef));
        assert_eq!(chunk.flags.unordered, i >= 3, "U bit on every fragment");
        if i < 3 {
            assert_eq!(chunk.ssn.value(), 0);
        }
    }
    let got = w.receive(1, b);
    assert!(got.iter().all(|m| m.ppid == Ppid(0xdead_beef)));
    assert_eq!((got[0].ssn.is_some(), got[1].ssn), (true, None));
}

/// RFC 9260, section 6.9
#[test]
fn without_fragmentation_large_messages_are_refused() {
    let mut w = World::single_homed();
    w.config.mtu.fragment = false;
    let (a, b) = w.connect();
    assert_eq!(
        w.ends[0].send(w.now, a, options(0), pattern(FULL + 1)),
        Err(SendError::TooLarge { limit: FULL })
    );
    w.send(0, a, 0, pattern(FULL));
    w.run(secs(1));
    assert_eq!(w.receive_lengths(1, b), [FULL]);
}

/// RFC 6458, section 8.1.16
#[test]
fn the_maximum_payload_can_be_lowered() {
    let mut w = World::single_homed();
    w.config.mtu.max_payload = Some(100);
    let (a, b) = w.connect();
    w.log.clear();
    w.send(0, a, 0, pattern(1000));
    w.run(secs(1));
    assert_eq!(w.data_sent(0), 10);
    assert_eq!(w.receive_lengths(1, b), [1000]);
}

/// RFC 9260, section 6.10
#[test]
fn small_messages_share_a_packet() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    w.log.clear();
    for i in 0..30 {
        w.send(0, a, i % 10, pattern(11));
    }
    w.run(secs(1));
    assert_eq!(w.sent(0, ChunkType::DATA).len(), 1);
    assert_eq!(w.receive_lengths(1, b), [11; 30]);
}

/// RFC 9260, section 6.6
#[test]
fn order_holds_within_a_stream_only() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    w.lose_data(0, &[0]);
    // Separate packets: nothing is bundled with the lost one.
    let now = SendOptions {
        no_delay: true,
        ..options(0)
    };
    w.send_with(0, a, now, pattern(1));
    w.pump();
    w.send_with(0, a, now, pattern(2));
    w.send_with(
        0,
        a,
        SendOptions {
            no_delay: true,
            ..options(1)
        },
        pattern(3),
    );
    w.send_with(
        0,
        a,
        SendOptions {
            no_delay: true,
            ..unordered()
        },
        pattern(4),
    );
    w.run(ms(100));
    assert_eq!(
        w.receive_lengths(1, b),
        [3, 4],
        "stream 1 and unordered do not wait"
    );
    w.run(secs(5));
    assert_eq!(w.receive_lengths(1, b), [1, 2]);
}

/// RFC 9260, section 6.6
#[test]
fn unordered_messages_leave_the_ssn_alone() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    for i in 0..10 {
        let which = if i % 2 == 0 { options(0) } else { unordered() };
        w.send_with(0, a, which, pattern(i + 1));
    }
    w.run(secs(1));
    let ordered: Vec<_> = w
        .receive(1, b)
        .iter()
        .filter_map(|m| m.ssn.map(|s| s.value()))
        .collect();
    assert_eq!(ordered, [0, 1, 2, 3, 4]);
}

/// RFC 9260, section 6.5
#[test]
fn data_on_an_invalid_stream_is_acked_and_reported() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    let answers = peer.data(&mut w, 10, 0, b"stream 10 of 10");
    let causes: Vec<_> = answers.iter().flat_map(|p| p.causes()).collect();
    assert_eq!(causes, [(CauseCode::INVALID_STREAM, vec![0, 10, 0, 0])]);
    let sack = answers.iter().find_map(|p| p.sack()).expect("at once");
    assert_eq!(sack.cumulative_tsn_ack, peer.tsn.previous());
    assert_eq!(w.receive(0, id).len(), 0);
    peer.data(&mut w, 9, 0, b"fine");
    assert_eq!(w.receive(0, id).len(), 1);
}

/// RFC 9260, section 6.2
#[test]
fn data_without_user_data_aborts() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    let tsn = peer.tsn;
    let answers = peer.data(&mut w, 0, 0, b"");
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(
        answers[0].causes(),
        [(CauseCode::NO_USER_DATA, tsn.value().to_be_bytes().to_vec())]
    );
    assert!(matches!(
        w.events(0)[..],
        [Event::Closed(CloseReason::AbortedByProtocol(_))]
    ));
}

/// RFC 9260, section 6.9
#[test]
fn fragments_are_reassembled_in_any_order() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    let place = |i: u32| (i == 0, i == 4);
    for order in [[4, 3, 2, 1, 0], [2, 0, 4, 1, 3], [0, 4, 1, 3, 2]] {
        let ssn = w.stats(0, id).counters.messages_delivered as u16;
        for i in order {
            let header = fragment(peer.tsn.plus(i), 0, ssn, place(i));
            peer.send(&mut w, |p| p.data(&header, &[i as u8; 3]));
        }
        peer.tsn = peer.tsn.plus(5);
        let got = w.receive(0, id);
        assert_eq!(got.len(), 1);
        assert!(got[0].payload == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4][..]);
    }
}

/// RFC 9260, section 3.3.1
#[test]
fn contradicting_fragments_abort() {
    // Offset of the TSN, stream, number, beginning and end.
    type Piece = (u32, u16, u16, (bool, bool));
    let cases: [&[Piece]; 8] = [
        // A fragment that nothing can begin any more: of the first TSN, behind a whole message,
        // behind the end of one.
        &[(0, 0, 0, (false, true))],
        &[(0, 0, 0, (true, true)), (1, 0, 1, (false, true))],
        &[
            (0, 0, 0, (true, false)),
            (1, 0, 0, (false, true)),
            (2, 0, 0, (false, false)),
        ],
        // A middle fragment behind the end of a message, above a gap.
        &[(1, 0, 0, (false, true)), (2, 0, 0, (false, false))],
        // A new message before the last one ended.
        &[(0, 0, 0, (true, false)), (1, 0, 1, (true, true))],
        // Another stream, another number within one message.
        &[(0, 0, 0, (true, false)), (1, 1, 0, (false, true))],
        &[(0, 0, 0, (true, false)), (1, 0, 1, (false, true))],
        &[(1, 0, 1, (false, true)), (0, 0, 0, (true, false))],
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let mut w = World::single_homed();
        let (peer, _) = Puppet::new().connect(&mut w);
        let mut last = Vec::new();
        for &(offset, stream, ssn, place) in case {
            let kinds = last.first().map(SentPacket::kinds).unwrap_or_default();
            assert!(
                !kinds.contains(&ChunkType::ABORT),
                "case {number}: too early"
            );
            let header = fragment(peer.tsn.plus(offset), stream, ssn, place);
            last = peer.send(&mut w, |p| p.data(&header, b"x"));
        }
        assert_eq!(last[0].kinds(), [ChunkType::ABORT], "case {number}");
        assert_eq!(last[0].causes()[0].0, CauseCode::PROTOCOL_VIOLATION);
    }
}

#[test]
fn a_received_message_is_a_slice_of_its_datagram() {
    let mut w = World::single_homed();
    // A successor has a copy.
    w.hands_over = false;
    let (peer, id) = Puppet::new().connect(&mut w);
    let header = Puppet::data_header(peer.tsn, 0, 0);
    let datagram = peer.build(peer.peer_tag, |p| p.data(&header, b"not copied"));
    w.inject(0, &peer.route(), datagram.clone());
    let payload = w.receive(0, id)[0].payload.clone().into_bytes();
    let at = payload.as_ptr() as usize - datagram.as_ptr() as usize;
    assert_eq!(&datagram[at..at + payload.len()], b"not copied");
}

#[test]
fn full_packets_are_batched_for_offload() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    for _ in 0..10 {
        w.send(0, a, 0, pattern(FULL));
    }
    let mut buf = Vec::new();
    let transmit = w.ends[0].poll_transmit(w.now, &mut buf).unwrap();
    assert_eq!(transmit.segment_size, Some(1480));
    assert_eq!(transmit.len, buf.len());
    assert!(transmit.packets() >= 3, "an initial window");
    assert_eq!(
        transmit.route,
        Route::plain(addresses(0)[0], addresses(1)[0])
    );
}

#[test]
fn both_sides_send_at_once_with_losses() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.lose_data(0, &[1, 5, 6, 7, 50, 99]);
    w.lose_data(1, &[0, 2, 30, 31, 98, 99]);
    for i in 0..100 {
        w.send(0, a, i % 3, pattern(1000 + usize::from(i)));
        w.send(1, b, i % 4, pattern(500 + usize::from(i)));
    }
    w.run(secs(60));
    let mut at_b = w.receive_lengths(1, b);
    let mut at_a = w.receive_lengths(0, a);
    at_a.sort_unstable();
    at_b.sort_unstable();
    assert_eq!(at_b, (1000..1100).collect::<Vec<_>>());
    assert_eq!(at_a, (500..600).collect::<Vec<_>>());
}

/// RFC 9260, section 3.3.1
#[test]
fn a_message_beginning_in_a_partial_delivery_aborts() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.buffers.receive_buffer = 20_000;
    });
    for (stream, beginning) in [(0, true), (1, false)] {
        let mut peer = Puppet::new();
        peer.port += stream;
        peer.link.from = ip(&format!("10.0.0.{}", 100 + stream));
        let (mut peer, id) = peer.connect(&mut w);
        for i in 0..11 {
            let header = fragment(peer.tsn, 0, 0, (i == 0, false));
            peer.send(&mut w, |p| p.data(&header, &[7; 1400]));
            peer.tsn = peer.tsn.next();
        }
        let got = w.receive(0, id);
        assert_eq!(got[0].part, MessagePart::First);
        // The fragment above the gap belongs to another message; then the gap is filled.
        let next = fragment(peer.tsn.next(), stream, 0, (beginning, false));
        peer.send(&mut w, |p| p.data(&next, b"other"));
        let fill = fragment(peer.tsn, 0, 0, (false, false));
        let answers = peer.send(&mut w, |p| p.data(&fill, b"gap"));
        assert!(
            answers.iter().any(|p| p.has(ChunkType::ABORT)),
            "stream {stream}, beginning {beginning}"
        );
    }
}

/// RFC 9260, section 6.10
#[test]
fn data_before_a_broken_chunk_is_accepted() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().connect(&mut w);
    let header = Puppet::data_header(peer.tsn, 0, 0);
    let whole = peer.build(peer.peer_tag, |p| {
        p.data(&header, b"fine");
        p.data(&Puppet::data_header(peer.tsn.next(), 0, 1), b"cut off");
    });
    let mut cut = whole[..whole.len() - 4].to_vec();
    fix_checksum(&mut cut);
    w.inject(0, &peer.route(), cut);
    assert_eq!(w.receive_lengths(0, id), [4], "a partial chunk is dropped");
    assert_eq!(w.ends[0].stats().malformed_chunks, 1);
}

/// RFC 9260, section 3.3.1: a DATA chunk has at least one byte, also where a limit of few bytes is below a quarter of
/// what a packet has room for.
#[test]
fn fragments_have_at_least_one_byte() {
    for limit in 1..=5 {
        let mut w = World::single_homed();
        w.config.mtu.max_payload = Some(limit);
        let (a, b) = w.connect();
        let message: Vec<u8> = (0..2000_u32).map(|n| n as u8).collect();
        w.send(0, a, 0, message.clone());
        w.run(secs(60));
        let received = w.receive(1, b).remove(0);
        assert!(received.payload.into_bytes() == message, "limit {limit}");
    }
}
