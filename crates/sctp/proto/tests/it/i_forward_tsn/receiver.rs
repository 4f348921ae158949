//! Reception of I-FORWARD-TSN with any content.

use carrick_proto::research::{Policies, UnlistedIForwardTsn};
use carrick_proto::{AssociationId, Event, Extensions, MessagePart, Mid, Ppid, Ssn, StreamId};
use carrick_wire::{CauseCode, ChunkType, Fragment, Fsn, IDataHeader, SkippedMessage};

use super::OFFERED;
use crate::common::*;

const TYPES: [ChunkType; 2] = [ChunkType::I_DATA, ChunkType::I_FORWARD_TSN];

fn interleaved_with(
    buffer: usize,
    types: &[ChunkType],
    offered: Extensions,
) -> (World, Puppet, AssociationId) {
    let mut w = World::single(|config| {
        config.extensions = offered;
        config.buffers.receive_buffer = buffer;
    });
    let (peer, id) = Puppet::new().connect_with(&mut w, |p| p.supported_extensions(types));
    (w, peer, id)
}

fn interleaved(buffer: usize) -> (World, Puppet, AssociationId) {
    interleaved_with(buffer, &TYPES, OFFERED)
}

/// A message: stream, whether it is unordered, MID.
type MessageId = (u16, bool, u32);

fn skipped((stream, unordered, mid): MessageId) -> SkippedMessage {
    SkippedMessage {
        stream: StreamId(stream),
        unordered,
        mid: Mid::new(mid),
    }
}

fn forward(w: &mut World, peer: &Puppet, number: u32, names: &[MessageId]) -> Vec<SentPacket> {
    let names: Vec<_> = names.iter().copied().map(skipped).collect();
    peer.send(w, |p| p.i_forward_tsn(tsn(number), names.into_iter()))
}

/// A fragment of a message: its number in it, and whether it is the last.
fn fragment(
    w: &mut World,
    peer: &Puppet,
    number: u32,
    name: MessageId,
    (fsn, ending): (u32, bool),
    size: usize,
) -> Vec<SentPacket> {
    let header = IDataHeader {
        tsn: tsn(number),
        stream: StreamId(name.0),
        mid: Mid::new(name.2),
        fragment: match fsn {
            0 => Fragment::First(Ppid(0)),
            fsn => Fragment::Later(Fsn::new(fsn)),
        },
        immediate: false,
        unordered: name.1,
        ending,
    };
    peer.send(w, |p| p.i_data(&header, &vec![number as u8; size]))
}

fn whole(w: &mut World, peer: &Puppet, number: u32, name: MessageId) -> Vec<SentPacket> {
    fragment(w, peer, number, name, (0, true), 10)
}

fn held(w: &World, id: AssociationId) -> usize {
    w.stats(0, id).receive_buffer_bytes
}

/// RFC 8260, section 2.3.1
#[test]
fn streams_resume_behind_the_named_mid() {
    let (mut w, peer, id) = interleaved(1 << 20);
    for (number, stream, mid) in [(2, 1, 1), (3, 2, 1), (5, 1, 2), (6, 1, 4), (7, 1, 6)] {
        whole(&mut w, &peer, number, (stream, false, mid));
    }
    assert_eq!(w.read_numbers(0, id), [0; 0]);
    let answers = forward(&mut w, &peer, 1, &[(1, false, 0)]);
    expect_sack(&answers, 3, &[(2, 4)]);
    assert_eq!(w.read_numbers(0, id), [2, 5], "stream 2 was not named");
    forward(&mut w, &peer, 4, &[(2, false, 0), (1, false, 3)]);
    assert_eq!(w.read_numbers(0, id), [3, 6]);
    forward(&mut w, &peer, 8, &[(1, false, 5)]);
    assert_eq!(w.read_numbers(0, id), [7]);
    whole(&mut w, &peer, 9, (1, false, 7));
    assert_eq!(w.read_numbers(0, id), [9]);
    assert_eq!(held(&w, id), 0);
}

/// RFC 8260, section 2.3.1
#[test]
fn complete_messages_below_the_mid_are_delivered() {
    let (mut w, peer, id) = interleaved(1 << 20);
    for (number, mid) in [(6, 5), (2, 1), (4, 3)] {
        whole(&mut w, &peer, number, (0, false, mid));
    }
    // The second fragment of MID 4 is missing.
    fragment(&mut w, &peer, 5, (0, false, 4), (0, false), 10);
    forward(&mut w, &peer, 5, &[(0, false, 4)]);
    assert_eq!(w.read_numbers(0, id), [2, 4, 6]);
    assert_eq!(held(&w, id), 0);
}

/// RFC 8260, section 2.3.1
#[test]
fn fragments_up_to_the_mid_are_freed() {
    let (mut w, peer, id) = interleaved(1 << 20);
    fragment(&mut w, &peer, 0, (0, false, 0), (0, false), 1000);
    fragment(&mut w, &peer, 2, (0, false, 0), (2, true), 1000);
    fragment(&mut w, &peer, 3, (0, true, 0), (1, false), 1000);
    fragment(&mut w, &peer, 4, (0, true, 1), (0, false), 1000);
    // Others: of another stream, and the next of this one.
    fragment(&mut w, &peer, 6, (1, true, 0), (0, false), 1000);
    fragment(&mut w, &peer, 7, (0, true, 2), (0, false), 1000);
    assert!(held(&w, id) > 6000);
    forward(&mut w, &peer, 5, &[(0, false, 0), (0, true, 1)]);
    let left = held(&w, id);
    assert!((2000..2600).contains(&left), "{left}");
    fragment(&mut w, &peer, 8, (0, true, 2), (1, true), 10);
    fragment(&mut w, &peer, 9, (1, true, 0), (1, true), 10);
    assert_eq!(
        w.read_numbers(0, id),
        [7, 6],
        "messages that were not skipped"
    );
    assert_eq!(held(&w, id), 0);
}

/// RFC 8260, section 2.3.1
#[test]
fn fragments_after_the_skip_are_not_stored() {
    let (mut w, peer, id) = interleaved(1 << 20);
    forward(&mut w, &peer, 0, &[(0, false, 0), (0, true, 3)]);
    // Two with TSNs above the point; nothing names their messages again once these arrived.
    let answers = fragment(&mut w, &peer, 2, (0, false, 0), (1, true), 1000);
    expect_sack(&answers, 0, &[(2, 2)]);
    fragment(&mut w, &peer, 3, (0, true, 3), (1, true), 1000);
    fragment(&mut w, &peer, 4, (0, true, 2), (1, true), 1000);
    assert_eq!(held(&w, id), 0);
    let answers = whole(&mut w, &peer, 1, (0, false, 1));
    expect_sack(&answers, 4, &[]);
    whole(&mut w, &peer, 5, (0, true, 4));
    assert_eq!(w.read_numbers(0, id), [1, 5]);
    assert_eq!(w.states()[0], Some("Established"));
}

/// RFC 8260, section 2.3.1
#[test]
fn a_skipped_mid_is_forgotten_before_wrap() {
    let (mut w, peer, id) = interleaved(1 << 20);
    forward(&mut w, &peer, 0, &[(0, true, 7)]);
    for (number, mid) in [(1, 8), (2, 7 + (1 << 30)), (3, 7 + (1 << 31)), (4, 9)] {
        whole(&mut w, &peer, number, (0, true, mid));
    }
    assert_eq!(w.read_numbers(0, id), [1, 2, 3, 4]);
    // Ordered and unordered ones have nothing to do with each other.
    whole(&mut w, &peer, 5, (0, false, 0));
    assert_eq!(w.read_numbers(0, id), [5]);
}

/// RFC 8260, section 2.3.1
#[test]
fn ends_of_partial_deliveries_are_notified() {
    for read_some in [false, true] {
        let (mut w, peer, id) = interleaved(5000);
        fragment(&mut w, &peer, 0, (4, false, 0), (0, false), 1400);
        fragment(&mut w, &peer, 1, (5, true, 0), (0, false), 1400);
        fragment(&mut w, &peer, 2, (4, false, 0), (1, false), 1400);
        whole(&mut w, &peer, 5, (4, false, 1));
        w.events(0);
        if read_some {
            let mut parts = w.receive(0, id);
            fragment(&mut w, &peer, 3, (5, true, 0), (1, false), 1400);
            fragment(&mut w, &peer, 6, (5, true, 0), (2, false), 1400);
            fragment(&mut w, &peer, 7, (5, true, 0), (3, false), 1400);
            parts.extend(w.receive(0, id));
            let kinds: Vec<_> = parts.iter().map(|m| (m.stream.0, m.part)).collect();
            assert_eq!(kinds[0], (4, MessagePart::First));
            assert!(kinds.contains(&(5, MessagePart::First)), "{kinds:?}");
        }
        forward(&mut w, &peer, 4, &[(4, false, 0), (5, true, 0)]);
        let parts = w.receive(0, id);
        let events = w.events(0);
        let aborted = [(4, Some(Ssn::new(0)), 0), (5, None, 1)].map(|(stream, ssn, first)| {
            Event::MessageAborted {
                stream: StreamId(stream),
                ssn,
                tsn: tsn(first),
            }
        });
        for event in aborted {
            assert_eq!(events.contains(&event), read_some, "{event:?}");
        }
        let found: Vec<_> = parts
            .iter()
            .map(|m| (m.stream.0, m.part, m.mid.map(Mid::value), m.tsn))
            .collect();
        let next = (4, MessagePart::Whole, Some(1), tsn(5));
        if read_some {
            let expected = [
                (4, MessagePart::Aborted, Some(0), tsn(0)),
                next,
                (5, MessagePart::Aborted, Some(0), tsn(1)),
            ];
            let place = |e| found.iter().position(|f| f == e);
            assert!(expected.iter().all(|e| place(e).is_some()), "{found:?}");
            assert!(
                place(&expected[0]) < place(&next),
                "the end, then what follows"
            );
            assert_eq!(found.len(), 3);
        } else {
            assert_eq!(found, [next], "no part was read, so no part remains");
        }
        assert_eq!(held(&w, id), 0);
    }
}

/// RFC 8260, section 2.1
#[test]
fn skipped_mids_wrap() {
    for unordered in [false, true] {
        let (mut w, peer, id) = interleaved(1 << 20);
        for (number, mid) in [(0, 0x7000_0000), (1, 0xe000_0000), (2, u32::MAX - 2)] {
            forward(&mut w, &peer, number, &[(0, unordered, mid)]);
        }
        for (number, mid) in [(4, u32::MAX), (6, 1), (7, 3)] {
            fragment(&mut w, &peer, number, (0, unordered, mid), (0, false), 10);
        }
        whole(&mut w, &peer, 8, (0, unordered, 2));
        assert!(held(&w, id) > 0);
        forward(&mut w, &peer, 7, &[(0, unordered, 1)]);
        assert_eq!(w.read_numbers(0, id), [8]);
        fragment(&mut w, &peer, 9, (0, unordered, 3), (1, true), 10);
        assert_eq!(w.receive_lengths(0, id), [20]);
        assert_eq!(held(&w, id), 0);
    }
}

/// RFC 8260, section 2.3.1
#[test]
fn a_passed_mid_changes_nothing() {
    let (mut w, peer, id) = interleaved(1 << 20);
    forward(&mut w, &peer, 0, &[(0, false, 9)]);
    // Behind, and half of all numbers ahead, which is behind too.
    forward(&mut w, &peer, 1, &[(0, false, 3)]);
    forward(&mut w, &peer, 2, &[(0, false, 10 + (1 << 31))]);
    // An old chunk does not count at all.
    forward(&mut w, &peer, 0, &[(0, false, 50)]);
    whole(&mut w, &peer, 3, (0, false, 10));
    assert_eq!(w.read_numbers(0, id), [3], "the stream continues");
}

/// RFC 8260, section 2.3.1
#[test]
fn any_list_of_streams_is_accepted() {
    let (mut w, peer, id) = interleaved(1 << 20);
    for number in 1..200_u32 {
        let unordered = number % 2 == 0;
        let mid = number * 0x0050_5050;
        fragment(
            &mut w,
            &peer,
            number,
            (number as u16 % 10, unordered, mid),
            (1, false),
            100,
        );
    }
    let names: Vec<MessageId> = (0..8000_u32)
        .map(|n| {
            let stream = (n as u16).wrapping_mul(4099);
            (stream, n % 3 == 0, n.wrapping_mul(0x9e37_79b9))
        })
        .collect();
    let answers = forward(&mut w, &peer, 0, &names);
    expect_sack(&answers, 199, &[]);
    assert_eq!(w.states()[0], Some("Established"));
    let everywhere: Vec<MessageId> = (0..10)
        .flat_map(|stream| [(stream, true, 1 << 31), (stream, true, u32::MAX)])
        .collect();
    forward(&mut w, &peer, 200, &everywhere);
    let ordered: Vec<MessageId> = (0..10)
        .flat_map(|stream| (1..=4).map(move |n: u32| (stream, false, n.wrapping_mul(0x3fff_ffff))))
        .collect();
    forward(&mut w, &peer, 201, &ordered);
    assert_eq!(held(&w, id), 0);
    assert!(w.read_numbers(0, id).is_empty());
}

/// RFC 3758, section 3.6
#[test]
fn a_far_i_forward_tsn_costs_nothing() {
    let (mut w, peer, id) = interleaved(1 << 20);
    fragment(&mut w, &peer, 60_000, (0, false, 0), (0, false), 10);
    let far = 0x7fff_fffe;
    let answers = forward(&mut w, &peer, far, &[(0, false, 0)]);
    expect_sack(&answers, far, &[]);
    assert_eq!(held(&w, id), 0);
    let answers = forward(&mut w, &peer, far.wrapping_add(1 << 31), &[(0, false, 5)]);
    expect_sack(&answers, far, &[]);
    whole(&mut w, &peer, far + 1, (0, false, 1));
    assert_eq!(w.receive_lengths(0, id), [10]);
}

/// RFC 9260, section 6.2
#[test]
fn a_window_full_of_fragments_opens_again() {
    let (mut w, peer, id) = interleaved(5000);
    for number in 1..6 {
        fragment(&mut w, &peer, number, (0, false, 0), (number, false), 1000);
    }
    assert!(w.stats(0, id).a_rwnd <= 1);
    let answers = forward(&mut w, &peer, 6, &[(0, false, 0)]);
    let sack = answers.iter().find_map(SentPacket::sack).expect("a SACK");
    assert!(sack.a_rwnd > 3000, "{}", sack.a_rwnd);
}

/// RFC 9260, section 3.2
#[test]
fn a_truncated_i_forward_tsn_is_dropped_and_counted() {
    let (mut w, peer, id) = interleaved(1 << 20);
    whole(&mut w, &peer, 1, (0, false, 1));
    for len in [4_usize, 7, 11, 15] {
        let mut value = vec![0; len - 4];
        let point = tsn(0).value().to_be_bytes();
        value.iter_mut().zip(point).for_each(|(v, p)| *v = p);
        let before = w.ends[0].stats().malformed_chunks;
        peer.send(&mut w, |p| {
            p.raw(ChunkType::I_FORWARD_TSN, 0, &value);
        });
        assert_eq!(w.ends[0].stats().malformed_chunks, before + 1, "{len}");
    }
    assert_eq!(w.read_numbers(0, id), [0; 0], "nothing was skipped");
    assert_eq!(w.stats(0, id).counters.forward_tsns_received, 0);
}

/// RFC 8260, section 2.3.1
#[test]
fn unnegotiated_i_forward_tsn_aborts() {
    let without = Extensions {
        interleaved_partial_reliability: false,
        ..OFFERED
    };
    let data = Extensions {
        interleaving: false,
        ..OFFERED
    };
    for (types, offered) in [
        (&TYPES[..], without),
        (&TYPES[..], data),
        (&TYPES[..1], OFFERED),
        (&TYPES[1..], OFFERED),
    ] {
        let (mut w, peer, id) = interleaved_with(1 << 20, types, offered);
        let in_force = w.stats(0, id).extensions;
        assert!(!in_force.interleaved_partial_reliability, "{offered:?}");
        let answers = forward(&mut w, &peer, 0, &[(0, false, 0)]);
        expect_abort(&answers, CauseCode::PROTOCOL_VIOLATION);
    }
}

/// RFC 8260, section 2.3.1
#[test]
fn an_unlisted_i_forward_tsn_may_be_accepted() {
    let with = |types: &[ChunkType], extensions: Extensions| {
        let mut w = World::with(1, |_, config| {
            config.local_addresses.truncate(1);
            config.association.research.policies.unlisted_i_forward_tsn = UnlistedIForwardTsn::Take;
            config.association.extensions = extensions;
        });
        let (peer, id) = Puppet::new().connect_with(&mut w, |p| p.supported_extensions(types));
        (w, peer, id)
    };
    // As Linux does: I-DATA and FORWARD-TSN are listed.
    let (mut w, peer, id) = with(&[ChunkType::FORWARD_TSN, ChunkType::I_DATA], OFFERED);
    let in_force = w.stats(0, id).extensions;
    assert!(in_force.interleaving && !in_force.partial_reliability);
    fragment(&mut w, &peer, 1, (0, false, 1), (0, true), 10);
    assert_eq!(w.read_numbers(0, id), [0; 0], "it waits for the first");
    let answers = forward(&mut w, &peer, 0, &[(0, false, 0)]);
    assert!(answers.iter().all(|p| !p.has(ChunkType::ABORT)));
    assert_eq!(
        w.read_numbers(0, id).len(),
        1,
        "the stream continues behind it"
    );
    let counters = w.stats(0, id).counters;
    assert_eq!(counters.forward_tsns_received, 1);
    // FORWARD-TSN still ends it, and so does the chunk where this side has not listed it, or
    // without I-DATA.
    let answers = peer.send(&mut w, |p| p.forward_tsn(tsn(2), std::iter::empty()));
    expect_abort(&answers, CauseCode::PROTOCOL_VIOLATION);
    let without = Extensions {
        interleaved_partial_reliability: false,
        ..OFFERED
    };
    for (types, offered) in [(&TYPES[..1], without), (&TYPES[1..], OFFERED)] {
        let (mut w, peer, _) = with(types, offered);
        let answers = forward(&mut w, &peer, 0, &[(0, false, 0)]);
        expect_abort(&answers, CauseCode::PROTOCOL_VIOLATION);
    }
    // The recommended policies accept it; the defaults do not.
    assert_eq!(
        Policies::modern().unlisted_i_forward_tsn,
        UnlistedIForwardTsn::Take
    );
    assert_eq!(
        Policies::default().unlisted_i_forward_tsn,
        UnlistedIForwardTsn::Abort
    );
}

/// RFC 8260, section 2.3.1
#[test]
fn forward_tsn_with_interleaving_aborts() {
    let (mut w, peer, id) = interleaved(1 << 20);
    assert!(w.stats(0, id).extensions.partial_reliability);
    let answers = peer.send(&mut w, |p| p.forward_tsn(tsn(0), std::iter::empty()));
    expect_abort(&answers, CauseCode::PROTOCOL_VIOLATION);
}
