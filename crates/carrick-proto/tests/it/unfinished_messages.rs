//! A peer with partial reliability gives up what it has not sent of a message, and goes on with the
//! next one (RFC 3758 section 3.6).

use crate::common;

use carrick_proto::{AssociationId, Event, Part};
use carrick_wire::{ChunkType, DataFlags, Ssn, StreamId, Tsn};
use common::*;

const BEGINNING: DataFlags = DataFlags {
    ending: false,
    ..DataFlags::WHOLE
};
const MIDDLE: DataFlags = DataFlags {
    beginning: false,
    ..BEGINNING
};

/// An endpoint with a puppet that has partial reliability, if `partial`.
fn receiver(partial: bool, buffer: usize) -> (World, Puppet, AssociationId) {
    let mut w = World::with(1, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions.partial_reliability = partial;
        config.association.receive_buffer = buffer;
    });
    let (peer, id) = Puppet::new().connect_with(&mut w, |p| p.forward_tsn_supported());
    (w, peer, id)
}

fn tsn(number: u32) -> Tsn {
    Puppet::new().tsn.plus(number)
}

fn read(w: &mut World, id: AssociationId) -> Vec<(u8, Part)> {
    let all = w.receive(0, id);
    all.into_iter()
        .map(|m| (m.payload.into_bytes().first().copied().unwrap_or(0), m.part))
        .collect()
}

#[test]
fn a_message_may_begin_behind_one_whose_rest_was_given_up_3758_3_6() {
    let (mut w, peer, id) = receiver(true, 100_000);
    peer.fragment(&mut w, 0, (3, 0), DataFlags::WHOLE, 10);
    peer.fragment(&mut w, 1, (3, 1), BEGINNING, 10);
    peer.fragment(&mut w, 2, (3, 1), MIDDLE, 10);
    // What was sent has been acknowledged: this says nothing new.
    let skipped = [(StreamId(3), Ssn::new(1))];
    peer.say(&mut w, |p| p.forward_tsn(tsn(2), skipped.into_iter()));
    let answers = peer.fragment(&mut w, 3, (3, 2), DataFlags::WHOLE, 10);
    assert!(answers.iter().all(|a| !a.has(ChunkType::ABORT)));
    assert_eq!(read(&mut w, id), [(0, Part::Whole), (3, Part::Whole)]);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

#[test]
fn an_unfinished_message_above_a_gap_waits_for_what_comes_before_it_3758_3_6() {
    let (mut w, peer, id) = receiver(true, 100_000);
    // TSN 0, a message of the same stream, is late. Fragments come in any order.
    peer.fragment(&mut w, 3, (3, 2), DataFlags::WHOLE, 10);
    peer.fragment(&mut w, 2, (3, 1), MIDDLE, 10);
    peer.fragment(&mut w, 1, (3, 1), BEGINNING, 10);
    assert_eq!(read(&mut w, id), []);
    peer.fragment(&mut w, 0, (3, 0), DataFlags::WHOLE, 10);
    assert_eq!(read(&mut w, id), [(0, Part::Whole), (3, Part::Whole)]);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

#[test]
fn an_unfinished_message_is_given_up_when_what_is_skipped_closes_the_gap_3758_3_6() {
    let (mut w, peer, id) = receiver(true, 100_000);
    // TSN 0 is lost and given up; the message that TSN 1 begins is not finished.
    peer.fragment(&mut w, 1, (1, 0), BEGINNING, 10);
    peer.fragment(&mut w, 2, (1, 1), DataFlags::WHOLE, 10);
    assert_eq!(read(&mut w, id), []);
    let skipped = [(StreamId(0), Ssn::new(0))];
    peer.say(&mut w, |p| p.forward_tsn(tsn(0), skipped.into_iter()));
    assert_eq!(read(&mut w, id), [(2, Part::Whole)]);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

#[test]
fn an_unfinished_message_is_given_up_when_a_stream_that_is_not_there_closes_the_gap_6_5() {
    let (mut w, peer, id) = receiver(true, 100_000);
    peer.fragment(&mut w, 1, (1, 0), BEGINNING, 10);
    peer.fragment(&mut w, 2, (1, 1), DataFlags::WHOLE, 10);
    peer.fragment(&mut w, 0, (60_000, 0), DataFlags::WHOLE, 10);
    assert_eq!(read(&mut w, id), [(2, Part::Whole)]);
}

#[test]
fn an_unfinished_message_that_was_begun_is_told_3758_3_6() {
    let (mut w, peer, id) = receiver(true, 3000);
    peer.fragment(&mut w, 0, (1, 0), BEGINNING, 1400);
    peer.fragment(&mut w, 1, (1, 0), MIDDLE, 1400);
    assert_eq!(read(&mut w, id), [(0, Part::First)]);
    w.events(0);
    peer.fragment(&mut w, 2, (1, 1), DataFlags::WHOLE, 10);
    let aborted = |e: &Event| matches!(e, Event::MessageAborted { .. });
    assert!(w.events(0).iter().any(aborted));
    assert_eq!(read(&mut w, id), [(0, Part::Aborted), (2, Part::Whole)]);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

#[test]
fn without_partial_reliability_every_message_has_its_end_6_9() {
    let (mut w, peer, _) = receiver(false, 100_000);
    peer.fragment(&mut w, 0, (3, 1), BEGINNING, 10);
    let answers = peer.fragment(&mut w, 1, (3, 2), DataFlags::WHOLE, 10);
    assert!(answers.iter().any(|a| a.has(ChunkType::ABORT)));
}
