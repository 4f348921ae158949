//! FORWARD-TSN at the receiver (RFC 3758 section 3.6).

use crate::common;

use carrick_proto::{AssociationId, Event, Extensions, MessagePart, Ssn, StreamId};
use carrick_wire::{CauseCode, ChunkType, DataFlags};
use common::*;

/// An endpoint with a puppet that supports FORWARD-TSN.
fn forwarding(buffer: usize) -> (World, Puppet, AssociationId) {
    let mut w = World::single(|config| {
        config.extensions.partial_reliability = true;
        config.buffers.receive_buffer = buffer;
    });
    let (peer, id) = Puppet::new().connect_with(&mut w, |p| p.forward_tsn_supported());
    (w, peer, id)
}

/// RFC 3758, section 3.6
#[test]
fn the_cumulative_tsn_advances_past_received_chunks() {
    let (mut w, peer, id) = forwarding(1 << 20);
    for number in [0, 2, 3, 5] {
        peer.message(&mut w, number, (number as u16, Some(0)), 10);
    }
    let answers = peer.forward_tsn(&mut w, 1, &[(1, 0)]);
    expect_sack(&answers, 3, &[(2, 2)]);
    assert_eq!(w.read_numbers(0, id), [0, 2, 3, 5]);
    // A skipped chunk that arrives late is a duplicate.
    let answers = peer.message(&mut w, 1, (1, Some(0)), 10);
    let sack = answers[0].sack().expect("a SACK");
    assert_eq!(sack.duplicate_tsns().collect::<Vec<_>>(), [tsn(1)]);
    assert_eq!(w.read_numbers(0, id), [0; 0]);
}

/// RFC 3758, section 3.6
#[test]
fn an_old_forward_tsn_is_acknowledged_and_ignored() {
    let (mut w, peer, id) = forwarding(1 << 20);
    peer.message(&mut w, 0, (0, Some(0)), 10);
    peer.forward_tsn(&mut w, 3, &[(0, 2)]);
    for number in [3, 0, u32::MAX - 7] {
        let answers = peer.forward_tsn(&mut w, number, &[(0, 900)]);
        expect_sack(&answers, 3, &[]);
    }
    peer.message(&mut w, 4, (0, Some(3)), 10);
    assert_eq!(w.read_numbers(0, id), [0, 4], "the stream continues");
}

/// RFC 3758, section 3.6
#[test]
fn without_gaps_the_sack_is_delayed() {
    let (mut w, peer, _) = forwarding(1 << 20);
    peer.message(&mut w, 0, (0, Some(0)), 10);
    assert_eq!(peer.forward_tsn(&mut w, 1, &[]).len(), 0);
    w.run(ms(200));
    expect_sack(&peer.receive(&mut w), 1, &[]);
    assert_eq!(peer.forward_tsn(&mut w, 2, &[]).len(), 0);
    expect_sack(&peer.forward_tsn(&mut w, 3, &[]), 3, &[]);
}

/// RFC 3758, section 3.6
#[test]
fn messages_behind_a_skipped_one_are_delivered() {
    let (mut w, peer, id) = forwarding(1 << 20);
    // Streams 1 and 2 miss their first, and stream 1 its fourth.
    for (number, stream, ssn) in [(2, 1, 1), (3, 2, 1), (5, 1, 2), (6, 1, 4), (7, 1, 6)] {
        peer.message(&mut w, number, (stream, Some(ssn)), 10);
    }
    assert_eq!(w.read_numbers(0, id), [0; 0]);
    peer.forward_tsn(&mut w, 1, &[(1, 0)]);
    assert_eq!(
        w.read_numbers(0, id),
        [2, 5],
        "up to the next gap; stream 2 was not listed"
    );
    peer.forward_tsn(&mut w, 4, &[(2, 0), (1, 3)]);
    assert_eq!(w.read_numbers(0, id), [3, 6]);
    // Named by its last number, the stream gives what it has below.
    peer.message(&mut w, 9, (1, Some(7)), 10);
    peer.forward_tsn(&mut w, 8, &[(1, 8)]);
    assert_eq!(w.read_numbers(0, id), [7, 9]);
    peer.message(&mut w, 10, (1, Some(9)), 10);
    assert_eq!(w.read_numbers(0, id), [10]);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

/// RFC 3758, section 3.6
#[test]
fn skipped_ssns_wrap() {
    let (mut w, peer, id) = forwarding(1 << 20);
    peer.forward_tsn(&mut w, 0, &[(0, 0x7000)]);
    peer.forward_tsn(&mut w, 1, &[(0, 0xe000)]);
    peer.forward_tsn(&mut w, 2, &[(0, 0xfffd)]);
    for (number, ssn) in [(4, 0xffff_u16), (6, 1), (7, 3)] {
        peer.message(&mut w, number, (0, Some(ssn)), 10);
    }
    peer.forward_tsn(&mut w, 5, &[(0, 0)]);
    assert_eq!(w.read_numbers(0, id), [4, 6]);
}

/// RFC 3758, section 3.6
#[test]
fn fragments_of_skipped_messages_are_freed() {
    let (mut w, peer, id) = forwarding(1 << 20);
    // Ordered without its middle, unordered without its end, and one without its beginning.
    peer.fragment(&mut w, 0, (0, 0), BEGINNING, 1000);
    peer.fragment(&mut w, 2, (0, 0), ENDING, 1000);
    let unordered = |flags| DataFlags {
        unordered: true,
        ..flags
    };
    peer.fragment(&mut w, 3, (1, 0), unordered(BEGINNING), 1000);
    peer.fragment(&mut w, 4, (1, 0), unordered(MIDDLE), 1000);
    peer.fragment(&mut w, 7, (2, 0), MIDDLE, 1000);
    // One message continues behind the new cumulative TSN, another begins there.
    peer.fragment(&mut w, 9, (3, 0), BEGINNING, 1000);
    assert!(w.stats(0, id).receive_buffer_bytes > 6000);
    peer.forward_tsn(&mut w, 8, &[(0, 0), (2, 0)]);
    let held = w.stats(0, id).receive_buffer_bytes;
    assert!(
        (1000..1300).contains(&held),
        "{held}: the message that may continue"
    );
    peer.forward_tsn(&mut w, 10, &[(3, 0)]);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
    assert_eq!(w.read_numbers(0, id), [0; 0]);
}

/// RFC 3758, section 3.6
#[test]
fn a_message_above_the_new_cumulative_tsn_completes() {
    let (mut w, peer, id) = forwarding(1 << 20);
    peer.fragment(&mut w, 1, (3, 0), BEGINNING, 100);
    peer.forward_tsn(&mut w, 0, &[]);
    peer.fragment(&mut w, 2, (3, 0), ENDING, 100);
    let all = w.receive(0, id);
    assert_eq!(all[0].payload.len(), 200);
}

/// RFC 3758, section 3.6
#[test]
fn the_end_of_a_partial_delivery_is_notified() {
    for read_some in [false, true] {
        let (mut w, peer, id) = forwarding(5000);
        peer.fragment(&mut w, 0, (4, 0), BEGINNING, 1400);
        for number in 1..3 {
            peer.fragment(&mut w, number, (4, 0), MIDDLE, 1400);
        }
        peer.message(&mut w, 4, (4, Some(1)), 10);
        w.events(0);
        if read_some {
            let parts = w.receive(0, id);
            assert_eq!(
                parts.iter().map(|m| m.part).collect::<Vec<_>>(),
                [MessagePart::First]
            );
        }
        peer.forward_tsn(&mut w, 3, &[(4, 0)]);
        let aborted = Event::MessageAborted {
            stream: StreamId(4),
            ssn: Some(Ssn::new(0)),
            tsn: tsn(0),
        };
        let parts = w.receive(0, id);
        assert_eq!(w.events(0).contains(&aborted), read_some);
        let found: Vec<_> = parts
            .iter()
            .map(|m| (m.part, m.tsn, m.payload.len()))
            .collect();
        let next = (MessagePart::Whole, tsn(4), 10);
        if read_some {
            assert_eq!(found, [(MessagePart::Aborted, tsn(0), 0), next]);
        } else {
            assert_eq!(found, [next], "no part was read, so no part remains");
        }
        assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
        peer.message(&mut w, 5, (4, Some(2)), 10);
        assert_eq!(w.read_numbers(0, id), [5]);
    }
}

/// RFC 3758, section 3.6
#[test]
fn a_far_forward_tsn_is_accepted_at_no_cost() {
    let (mut w, peer, id) = forwarding(1 << 20);
    for number in [2, 4, 60_000] {
        peer.fragment(&mut w, number, (0, 0), BEGINNING, 10);
    }
    let far = 0x7fff_fffe;
    let answers = peer.forward_tsn(&mut w, far, &[]);
    expect_sack(&answers, far, &[]);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
    peer.message(&mut w, far + 1, (0, Some(0)), 10);
    assert_eq!(w.receive_lengths(0, id), [10]);
    // Half of the numbers ahead is not ahead.
    let answers = peer.forward_tsn(&mut w, far.wrapping_add(1 + (1 << 31)), &[]);
    expect_sack(&answers, far + 1, &[]);
}

/// RFC 3758, section 3.6
#[test]
fn any_list_of_streams_is_accepted() {
    let (mut w, peer, id) = forwarding(1 << 20);
    peer.message(&mut w, 1, (3, Some(1)), 10);
    // Streams that do not exist, every stream again and again, numbers in any order.
    let skipped: Vec<(u16, u16)> = (0..16_000_u16)
        .map(|n| {
            (
                if n % 2 == 0 { n.wrapping_mul(4099) } else { 3 },
                n.wrapping_mul(31),
            )
        })
        .collect();
    peer.forward_tsn(&mut w, 0, &skipped);
    assert_eq!(w.read_numbers(0, id), [1]);
    peer.message(&mut w, 2, (60_000, Some(0)), 10);
    assert_eq!(w.states()[0], Some("Established"));
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

/// RFC 3758, section 3.3.1
#[test]
fn without_negotiation_forward_tsn_is_unknown() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().connect(&mut w);
    assert_eq!(w.stats(0, id).extensions, Extensions::NONE);
    let answers = peer.forward_tsn(&mut w, 5, &[(0, 5)]);
    assert_eq!(answers[0].causes()[0].0, CauseCode::UNRECOGNIZED_CHUNK);
    peer.message(&mut w, 0, (0, Some(0)), 10);
    assert_eq!(w.read_numbers(0, id), [0], "nothing was skipped");
}

/// RFC 9260, section 9.2
#[test]
fn forward_tsn_is_answered_with_shutdown() {
    let (mut w, peer, id) = forwarding(1 << 20);
    peer.message(&mut w, 0, (0, Some(0)), 10);
    w.ends[0].shutdown(w.now, id).unwrap();
    peer.receive(&mut w);
    let answers = peer.forward_tsn(&mut w, 4, &[(0, 4)]);
    let shutdown = answers.iter().find(|p| p.has(ChunkType::SHUTDOWN));
    let chunks = shutdown.expect("a SHUTDOWN").chunks();
    let reported = chunks
        .iter()
        .any(|c| matches!(c, carrick_wire::Chunk::Shutdown(s) if s.cumulative_tsn_ack == tsn(4)));
    assert!(reported);
}

/// RFC 9260, section 6.2
#[test]
fn a_window_full_of_fragments_opens_again() {
    let (mut w, peer, id) = forwarding(5000);
    for number in 1..6 {
        peer.fragment(&mut w, number, (0, 0), MIDDLE, 1000);
    }
    assert!(w.stats(0, id).a_rwnd <= 1);
    let answers = peer.forward_tsn(&mut w, 6, &[(0, 0)]);
    let sack = answers.iter().find_map(SentPacket::sack).expect("a SACK");
    assert!(sack.a_rwnd > 3000, "{}", sack.a_rwnd);
}

/// It waits for nothing, since the stream has passed this sequence number.
///
/// RFC 3758, section 3.6
#[test]
fn a_message_with_a_passed_ssn_is_delivered() {
    let (mut w, peer, id) = forwarding(1 << 20);
    peer.forward_tsn(&mut w, 0, &[(1, 5)]);
    for (number, ssn) in [(1, 3), (2, 5), (3, 3), (4, 6)] {
        peer.message(&mut w, number, (1, Some(ssn)), 10);
    }
    // One that is behind a gap, too.
    peer.message(&mut w, 6, (1, Some(4)), 10);
    let ssns: Vec<_> = w.receive(0, id).iter().map(|m| m.ssn).collect();
    assert_eq!(ssns, [3, 5, 3, 6, 4].map(|n| Some(Ssn::new(n))));
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
    // A message ahead of a gap waits for it, however far away its number is.
    peer.message(&mut w, 7, (1, Some(8)), 10);
    assert!(w.receive(0, id).is_empty());
    peer.message(&mut w, 5, (1, Some(7)), 10);
    assert_eq!(w.receive(0, id).len(), 2);
}
