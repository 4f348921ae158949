//! Answers, memory and work that a peer can cause are bounded (section 12.4).

use bytes::Bytes;
use carrick_proto::{AssociationId, Event, StateName, Tsn};
use carrick_wire::ChunkType;

use crate::common::*;

/// An established association that has three full packets outstanding.
fn with_outstanding_data() -> (World, Puppet, AssociationId) {
    let mut w = World::new();
    let (p, id) = Puppet::new().connect(&mut w);
    w.send(0, id, 0, pattern(3 * 1452));
    let sent = p.receive(&mut w);
    assert_eq!(p.numbers(&sent), [0, 1, 2]);
    (w, p, id)
}

/// RFC 9260, section 12.4
#[test]
fn a_sack_of_an_unsent_tsn_aborts() {
    for (cumulative, gaps) in [
        (3, vec![]),
        (0x7fff_0000, vec![]),
        (u32::MAX, vec![(4, 4)]),
        (0, vec![(2, 0xffff)]),
        (0, vec![(2, 2), (0xfffe, 0xffff)]),
    ] {
        let (mut w, p, _) = with_outstanding_data();
        let answers = p.sack(&mut w, p.endpoint_tsn(cumulative), 10_000, &gaps);
        assert_eq!(answers.len(), 1, "{cumulative} {gaps:?}");
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert!(matches!(w.events(0).last(), Some(Event::Closed(_))));
    }
}

/// RFC 9260, section 3.3.4
#[test]
fn absurd_gap_blocks_change_nothing() {
    for gaps in [
        vec![(0, 0)],
        vec![(2, 1)],
        vec![(1, 3)],
        vec![(2, 2), (2, 2), (2, 3)],
        vec![(3, 3), (2, 2)],
        vec![(0xffff, 0)],
        vec![(2, 2); 1000],
        vec![(1, 1), (2, 2), (3, 3)],
    ] {
        let (mut w, mut p, id) = with_outstanding_data();
        let before = p.endpoint_tsn(0).previous();
        p.sack(&mut w, before, 10_000, &gaps);
        assert_eq!(w.stats(0, id).outstanding_chunks, 3, "{gaps:?}");
        // An old SACK is nothing.
        p.sack(&mut w, Tsn::new(before.value().wrapping_sub(5)), 0, &gaps);
        // The endpoint continues after this.
        p.sack(&mut w, p.endpoint_tsn(2), 10_000, &[]);
        assert_eq!(w.stats(0, id).outstanding_chunks, 0);
        p.data(&mut w, 0, 0, b"fine");
        assert_eq!(w.receive_lengths(0, id), [4]);
    }
}

/// RFC 9260, section 12.4
#[test]
fn heartbeats_in_a_packet_get_one_packet_of_answers() {
    let mut w = World::new();
    let (p, _) = Puppet::new().connect(&mut w);
    for info in [1_usize, 50, 1000, 8000] {
        let answers = p.send(&mut w, |b| {
            while b.fits(8 + info) {
                b.heartbeat(&vec![b'i'; info]);
            }
        });
        assert_eq!(answers.len(), 1);
        assert!(answers[0].bytes.len() <= info + 1300);
    }
    let counters = w.stats(0, w.association(0)).counters;
    assert!(counters.replies_dropped > 0);
}

/// RFC 9260, section 12.4
#[test]
fn unknown_chunks_get_one_packet_of_errors() {
    let mut w = World::new();
    let (p, _) = Puppet::new().connect(&mut w);
    for size in [0_usize, 30, 1000, 10_000] {
        let answers = p.send(&mut w, |b| {
            while b.fits(4 + size) {
                b.raw(ChunkType(0xfe), 0, &vec![b'u'; size]);
            }
        });
        assert_eq!(answers.len(), 1);
        assert!(answers[0].bytes.len() <= 1300, "{}", answers[0].bytes.len());
    }
}

/// RFC 9260, section 12.4
#[test]
fn data_on_invalid_streams_gets_one_packet_of_errors() {
    let mut w = World::new();
    let (mut p, id) = Puppet::new().connect(&mut w);
    let answers = p.send(&mut w, |b| {
        for number in 0..2000 {
            b.data(&Puppet::data_header(p.tsn.plus(number), 5000, 0), b"x");
        }
    });
    assert!(answers.len() <= 2, "an ERROR and a SACK");
    p.tsn = p.tsn.plus(2000);
    let sack = answers.iter().find_map(SentPacket::sack).expect("a SACK");
    assert_eq!(
        sack.cumulative_tsn_ack,
        p.tsn.previous(),
        "acknowledged and discarded (6.5)"
    );
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

/// RFC 9260, section 12.4
#[test]
fn a_64_kib_datagram_of_tiny_chunks_is_bounded() {
    let mut w = World::new();
    let (mut p, id) = Puppet::new().connect(&mut w);
    let limit = w.config.buffers.receive_buffer;
    let mut count = 0_u32;
    let mut delivered = 0;
    for _ in 0..10 {
        let first = p.tsn;
        let mut number = 0;
        let mut answers = p.send(&mut w, |b| {
            while b.fits(17) {
                let header = Puppet::data_header(first.plus(number), 0, (count + number) as u16);
                b.data(&header, b"t");
                number += 1;
            }
        });
        count += number;
        p.tsn = first.plus(number);
        w.run(ms(200));
        answers.extend(p.receive(&mut w));
        answers.retain(|s| s.has(ChunkType::SACK));
        assert_eq!(answers.len(), 1, "one SACK");
        let held = w.stats(0, id).receive_buffer_bytes;
        assert!(held < limit + 1000, "{held} bytes");
        let sack = answers[0].sack().expect("a SACK");
        let kept = sack.cumulative_tsn_ack.next().since(Tsn::new(1000));
        if kept < count {
            assert_eq!(sack.a_rwnd, 0, "what was dropped had no room");
            delivered = kept;
            break;
        }
    }
    assert!(delivered > 0, "the buffer was filled");
    assert!(w.stats(0, id).counters.dropped_for_buffer > 0);
    assert_eq!(w.receive(0, id).len() as u32, delivered);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

/// RFC 9260, section 6.2
#[test]
fn a_small_message_does_not_retain_a_large_datagram() {
    // A message costs what the window accounts for, not 64 KiB of padding behind one byte.
    let mut w = World::new();
    // A successor has a copy.
    w.hands_over = false;
    let (mut p, id) = Puppet::new().connect(&mut w);
    for (ssn, padding) in [(0, 1000), (1, 60_000)] {
        let header = Puppet::data_header(p.tsn, 0, ssn);
        p.tsn = p.tsn.next();
        let bytes: Bytes = p.build(p.peer_tag, |b| {
            b.data(&header, b"t");
            b.raw(ChunkType(0x84), 0, &vec![0; padding]);
        });
        w.inject(0, &p.route(), bytes.clone());
        assert!(bytes.is_unique(), "{padding} bytes are kept for one");
    }
    assert_eq!(w.receive_lengths(0, id), [1, 1]);
    // A message that fills its datagram is not copied.
    let bytes = p.build(p.peer_tag, |b| {
        b.data(&Puppet::data_header(p.tsn, 0, 2), &[7; 1000])
    });
    w.inject(0, &p.route(), bytes.clone());
    let message = w.receive(0, id).remove(0).payload.into_bytes();
    assert!(bytes.as_ptr_range().contains(&message.as_ptr()));
}

/// RFC 9260, section 12.4
#[test]
fn endless_gaps_are_bounded() {
    // Every other TSN on streams that do not exist: nothing is charged to the receive buffer.
    let mut w = World::new();
    let (p, id) = Puppet::new().connect(&mut w);
    let mut number = 1;
    for _ in 0..40 {
        let answers = p.send(&mut w, |b| {
            while b.fits(17) {
                b.data(&Puppet::data_header(p.tsn.plus(number), 5000, 0), b"x");
                number += 2;
            }
        });
        for seen in answers {
            assert!(seen.bytes.len() <= 1480);
        }
    }
    assert_eq!(w.stats(0, id).state, StateName::Established);
    assert!(
        w.stats(0, id).counters.dropped_for_buffer > 0,
        "out of a SACK's reach"
    );
}

/// RFC 9260, section 12.4
#[test]
fn an_error_chunk_notifies_a_bounded_number_of_causes() {
    let mut w = World::new();
    let (p, _) = Puppet::new().connect(&mut w);
    let answers = p.send(&mut w, |b| {
        b.error(|c| {
            while c.fits(4) {
                c.invalid_stream(carrick_proto::StreamId(1));
            }
        });
    });
    assert!(answers.is_empty());
    let reported = w.events(0).len();
    assert!(reported > 0 && reported <= 64, "{reported} events");
}
