//! FORWARD-TSN at the receiver (RFC 3758 section 3.6).

use crate::common;

use carrick_proto::{AssociationId, Event, Extensions, Part, Ssn, StreamId};
use carrick_wire::{CauseCode, ChunkType, DataFlags, Tsn};
use common::*;

/// An endpoint with a puppet that sends FORWARD-TSN.
fn receiver(buffer: usize) -> (World, Puppet, AssociationId) {
    let mut w = World::with(1, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions.partial_reliability = true;
        config.association.receive_buffer = buffer;
    });
    let (peer, id) = Puppet::new().connect_with(&mut w, |p| p.forward_tsn_supported());
    (w, peer, id)
}

/// The puppet's TSN with this number, 0 for its first.
fn tsn(number: u32) -> Tsn {
    Puppet::new().tsn.plus(number)
}

fn forward(w: &mut World, peer: &Puppet, number: u32, skipped: &[(u16, u16)]) -> Vec<Seen> {
    let skipped: Vec<_> = skipped
        .iter()
        .map(|(s, n)| (StreamId(*s), Ssn::new(*n)))
        .collect();
    peer.say(w, |p| p.forward_tsn(tsn(number), skipped.into_iter()))
}

/// A whole message; `ssn` is `None` for an unordered one.
fn give(w: &mut World, peer: &Puppet, number: u32, stream: u16, ssn: Option<u16>) -> Vec<Seen> {
    let flags = DataFlags {
        unordered: ssn.is_none(),
        ..DataFlags::WHOLE
    };
    peer.fragment(w, number, (stream, ssn.unwrap_or(0)), flags, 10)
}

const BEGINNING: DataFlags = DataFlags {
    ending: false,
    ..DataFlags::WHOLE
};
const MIDDLE: DataFlags = DataFlags {
    beginning: false,
    ..BEGINNING
};
const ENDING: DataFlags = DataFlags {
    ending: true,
    ..MIDDLE
};

/// What can be read: the first byte of each message, which is its TSN's number.
fn read(w: &mut World, id: AssociationId) -> Vec<u8> {
    let all = w.receive(0, id);
    all.iter()
        .map(|m| m.payload.clone().into_bytes()[0])
        .collect()
}

fn acknowledged(answers: &[Seen]) -> (Tsn, Vec<(u16, u16)>) {
    let sack = answers.iter().find_map(Seen::sack).expect("a SACK");
    let gaps = sack.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
    (sack.cumulative_tsn_ack, gaps)
}

#[test]
fn the_cumulative_tsn_follows_and_goes_on_where_it_can_3_6() {
    let (mut w, peer, id) = receiver(1 << 20);
    for number in [0, 2, 3, 5] {
        give(&mut w, &peer, number, number as u16, Some(0));
    }
    let answers = forward(&mut w, &peer, 1, &[(1, 0)]);
    assert_eq!(
        acknowledged(&answers),
        (tsn(3), vec![(2, 2)]),
        "at once, as for DATA"
    );
    assert_eq!(read(&mut w, id), [0, 2, 3, 5]);
    // What was skipped and comes late is a duplicate.
    let answers = give(&mut w, &peer, 1, 1, Some(0));
    let sack = answers[0].sack().expect("a SACK");
    assert_eq!(sack.duplicate_tsns().collect::<Vec<_>>(), [tsn(1)]);
    assert_eq!(read(&mut w, id), [0; 0]);
}

#[test]
fn one_that_says_nothing_new_is_acknowledged_and_changes_nothing_3_6() {
    let (mut w, peer, id) = receiver(1 << 20);
    give(&mut w, &peer, 0, 0, Some(0));
    forward(&mut w, &peer, 3, &[(0, 2)]);
    for number in [3, 0, u32::MAX - 7] {
        let answers = forward(&mut w, &peer, number, &[(0, 900)]);
        assert_eq!(acknowledged(&answers), (tsn(3), vec![]), "{number}");
    }
    give(&mut w, &peer, 4, 0, Some(3));
    assert_eq!(read(&mut w, id), [0, 4], "the stream goes on where it was");
}

#[test]
fn without_gaps_the_sack_is_delayed_as_for_data_3_6() {
    let (mut w, peer, _) = receiver(1 << 20);
    give(&mut w, &peer, 0, 0, Some(0));
    assert_eq!(forward(&mut w, &peer, 1, &[]).len(), 0);
    w.run(ms(200));
    assert_eq!(acknowledged(&peer.hear(&mut w)), (tsn(1), vec![]));
    assert_eq!(forward(&mut w, &peer, 2, &[]).len(), 0);
    assert_eq!(
        acknowledged(&forward(&mut w, &peer, 3, &[])).0,
        tsn(3),
        "the second packet"
    );
}

#[test]
fn messages_that_waited_behind_a_hole_are_delivered_in_order_3_6() {
    let (mut w, peer, id) = receiver(1 << 20);
    // Streams 1 and 2 miss their first, and stream 1 its fourth.
    for (number, stream, ssn) in [(2, 1, 1), (3, 2, 1), (5, 1, 2), (6, 1, 4), (7, 1, 6)] {
        give(&mut w, &peer, number, stream, Some(ssn));
    }
    assert_eq!(read(&mut w, id), [0; 0]);
    forward(&mut w, &peer, 1, &[(1, 0)]);
    assert_eq!(
        read(&mut w, id),
        [2, 5],
        "up to the next hole; stream 2 was not named"
    );
    forward(&mut w, &peer, 4, &[(2, 0), (1, 3)]);
    assert_eq!(read(&mut w, id), [3, 6]);
    // Named by its last number, the stream gives what it has below.
    give(&mut w, &peer, 9, 1, Some(7));
    forward(&mut w, &peer, 8, &[(1, 8)]);
    assert_eq!(read(&mut w, id), [7, 9]);
    give(&mut w, &peer, 10, 1, Some(9));
    assert_eq!(read(&mut w, id), [10]);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

#[test]
fn the_numbers_of_a_stream_wrap_while_they_are_skipped_3_6() {
    let (mut w, peer, id) = receiver(1 << 20);
    forward(&mut w, &peer, 0, &[(0, 0x7000)]);
    forward(&mut w, &peer, 1, &[(0, 0xe000)]);
    forward(&mut w, &peer, 2, &[(0, 0xfffd)]);
    for (number, ssn) in [(4, 0xffff_u16), (6, 1), (7, 3)] {
        give(&mut w, &peer, number, 0, Some(ssn));
    }
    forward(&mut w, &peer, 5, &[(0, 0)]);
    assert_eq!(read(&mut w, id), [4, 6]);
}

#[test]
fn fragments_of_what_was_given_up_are_freed_3_6() {
    let (mut w, peer, id) = receiver(1 << 20);
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
    // One that goes on behind the point, and one that begins there.
    peer.fragment(&mut w, 9, (3, 0), BEGINNING, 1000);
    assert!(w.stats(0, id).receive_buffer_bytes > 6000);
    forward(&mut w, &peer, 8, &[(0, 0), (2, 0)]);
    let held = w.stats(0, id).receive_buffer_bytes;
    assert!(
        (1000..1300).contains(&held),
        "{held}: the message that may go on"
    );
    forward(&mut w, &peer, 10, &[(3, 0)]);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
    assert_eq!(read(&mut w, id), [0; 0]);
}

#[test]
fn a_message_that_the_point_only_touches_is_completed_3_6() {
    let (mut w, peer, id) = receiver(1 << 20);
    peer.fragment(&mut w, 1, (3, 0), BEGINNING, 100);
    forward(&mut w, &peer, 0, &[]);
    peer.fragment(&mut w, 2, (3, 0), ENDING, 100);
    let all = w.receive(0, id);
    assert_eq!(all[0].payload.len(), 200);
}

#[test]
fn the_user_learns_that_a_partial_delivery_ends_3_6() {
    for read_some in [false, true] {
        let (mut w, peer, id) = receiver(5000);
        peer.fragment(&mut w, 0, (4, 0), BEGINNING, 1400);
        for number in 1..3 {
            peer.fragment(&mut w, number, (4, 0), MIDDLE, 1400);
        }
        give(&mut w, &peer, 4, 4, Some(1));
        w.events(0);
        if read_some {
            let parts = w.receive(0, id);
            assert_eq!(
                parts.iter().map(|m| m.part).collect::<Vec<_>>(),
                [Part::First]
            );
        }
        forward(&mut w, &peer, 3, &[(4, 0)]);
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
        let next = (Part::Whole, tsn(4), 10);
        if read_some {
            assert_eq!(found, [(Part::Aborted, tsn(0), 0), next]);
        } else {
            assert_eq!(found, [next], "nothing was read, nothing is left");
        }
        assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
        give(&mut w, &peer, 5, 4, Some(2));
        assert_eq!(read(&mut w, id), [5]);
    }
}

#[test]
fn a_point_far_ahead_costs_nothing_and_is_taken_3_6() {
    let (mut w, peer, id) = receiver(1 << 20);
    for number in [2, 4, 60_000] {
        peer.fragment(&mut w, number, (0, 0), BEGINNING, 10);
    }
    let far = 0x7fff_fffe;
    let answers = forward(&mut w, &peer, far, &[]);
    assert_eq!(acknowledged(&answers), (tsn(far), vec![]));
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
    give(&mut w, &peer, far + 1, 0, Some(0));
    assert_eq!(w.receive_lengths(0, id), [10]);
    // Half of the numbers ahead is not ahead.
    let answers = forward(&mut w, &peer, far.wrapping_add(1 + (1 << 31)), &[]);
    assert_eq!(acknowledged(&answers).0, tsn(far + 1));
}

#[test]
fn a_list_of_streams_may_say_anything_3_6() {
    let (mut w, peer, id) = receiver(1 << 20);
    give(&mut w, &peer, 1, 3, Some(1));
    // Streams that do not exist, every stream again and again, numbers in any order.
    let skipped: Vec<(u16, u16)> = (0..16_000_u16)
        .map(|n| {
            (
                if n % 2 == 0 { n.wrapping_mul(4099) } else { 3 },
                n.wrapping_mul(31),
            )
        })
        .collect();
    forward(&mut w, &peer, 0, &skipped);
    assert_eq!(read(&mut w, id), [1]);
    give(&mut w, &peer, 2, 60_000, Some(0));
    assert_eq!(w.states()[0], Some("Established"));
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

#[test]
fn without_negotiation_it_is_an_unknown_chunk_3758_3_3_1() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().connect(&mut w);
    assert_eq!(w.stats(0, id).extensions, Extensions::NONE);
    let answers = forward(&mut w, &peer, 5, &[(0, 5)]);
    assert_eq!(answers[0].causes()[0].0, CauseCode::UNRECOGNIZED_CHUNK);
    give(&mut w, &peer, 0, 0, Some(0));
    assert_eq!(read(&mut w, id), [0], "nothing was skipped");
}

#[test]
fn it_is_answered_with_shutdown_as_data_is_9_2() {
    let (mut w, peer, id) = receiver(1 << 20);
    give(&mut w, &peer, 0, 0, Some(0));
    w.ends[0].shutdown(w.now, id).unwrap();
    peer.hear(&mut w);
    let answers = forward(&mut w, &peer, 4, &[(0, 4)]);
    let shutdown = answers.iter().find(|p| p.has(ChunkType::SHUTDOWN));
    let chunks = shutdown.expect("a SHUTDOWN").chunks();
    let told = chunks
        .iter()
        .any(|c| matches!(c, carrick_wire::Chunk::Shutdown(s) if s.cumulative_tsn_ack == tsn(4)));
    assert!(told);
}

#[test]
fn a_window_that_was_full_of_fragments_opens_again_6_2() {
    let (mut w, peer, id) = receiver(5000);
    for number in 1..6 {
        peer.fragment(&mut w, number, (0, 0), MIDDLE, 1000);
    }
    assert!(w.stats(0, id).a_rwnd <= 1);
    let answers = forward(&mut w, &peer, 6, &[(0, 0)]);
    let sack = answers.iter().find_map(Seen::sack).expect("a SACK");
    assert!(sack.a_rwnd > 3000, "{}", sack.a_rwnd);
}

/// A number that the stream has passed does not come again: the message is not held for ever.
///
/// RFC 3758, section 3.6
#[test]
fn a_message_whose_number_was_passed_is_not_held() {
    let (mut w, peer, id) = receiver(1 << 20);
    forward(&mut w, &peer, 0, &[(1, 5)]);
    for (number, ssn) in [(1, 3), (2, 5), (3, 3), (4, 6)] {
        give(&mut w, &peer, number, 1, Some(ssn));
    }
    // One that is behind a gap, too.
    give(&mut w, &peer, 6, 1, Some(4));
    let ssns: Vec<_> = w.receive(0, id).iter().map(|m| m.ssn).collect();
    assert_eq!(ssns, [3, 5, 3, 6, 4].map(|n| Some(Ssn::new(n))));
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
    // A message ahead of a gap waits for it, however far away its number is.
    give(&mut w, &peer, 7, 1, Some(8));
    assert!(w.receive(0, id).is_empty());
    give(&mut w, &peer, 5, 1, Some(7));
    assert_eq!(w.receive(0, id).len(), 2);
}
