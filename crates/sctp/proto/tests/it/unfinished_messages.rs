//! A peer with partial reliability abandons the rest of a message and sends the next one, without
//! FORWARD-TSN (RFC 3758, section 3.6).

use crate::common;

use carrick_proto::{AssociationId, Event, MessagePart};
use carrick_wire::{ChunkType, DataFlags};
use common::*;

/// An endpoint with a puppet that has partial reliability, if `partial`.
fn partially_reliable(partial: bool, buffer: usize) -> (World, Puppet, AssociationId) {
    let mut w = World::single(|config| {
        config.extensions.partial_reliability = partial;
        config.buffers.receive_buffer = buffer;
    });
    let (peer, id) = Puppet::new().connect_with(&mut w, |p| p.forward_tsn_supported());
    (w, peer, id)
}

fn read(w: &mut World, id: AssociationId) -> Vec<(u8, MessagePart)> {
    let all = w.receive(0, id);
    all.into_iter()
        .map(|m| (m.payload.into_bytes().first().copied().unwrap_or(0), m.part))
        .collect()
}

/// RFC 3758, section 3.6
#[test]
fn a_message_may_follow_an_unfinished_one() {
    let (mut w, peer, id) = partially_reliable(true, 100_000);
    peer.fragment(&mut w, 0, (3, 0), DataFlags::WHOLE, 10);
    peer.fragment(&mut w, 1, (3, 1), BEGINNING, 10);
    peer.fragment(&mut w, 2, (3, 1), MIDDLE, 10);
    // All data sent has been acknowledged: the FORWARD-TSN has no effect.
    peer.forward_tsn(&mut w, 2, &[(3, 1)]);
    let answers = peer.fragment(&mut w, 3, (3, 2), DataFlags::WHOLE, 10);
    assert!(answers.iter().all(|a| !a.has(ChunkType::ABORT)));
    assert_eq!(
        read(&mut w, id),
        [(0, MessagePart::Whole), (3, MessagePart::Whole)]
    );
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

/// RFC 3758, section 3.6
#[test]
fn an_unfinished_message_above_a_gap_waits() {
    let (mut w, peer, id) = partially_reliable(true, 100_000);
    // TSN 0, a message of the same stream, is late. Fragments come in any order.
    peer.fragment(&mut w, 3, (3, 2), DataFlags::WHOLE, 10);
    peer.fragment(&mut w, 2, (3, 1), MIDDLE, 10);
    peer.fragment(&mut w, 1, (3, 1), BEGINNING, 10);
    assert_eq!(read(&mut w, id), []);
    peer.fragment(&mut w, 0, (3, 0), DataFlags::WHOLE, 10);
    assert_eq!(
        read(&mut w, id),
        [(0, MessagePart::Whole), (3, MessagePart::Whole)]
    );
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

/// RFC 3758, section 3.6
#[test]
fn a_forward_tsn_below_a_begun_message_discards_it() {
    let (mut w, peer, id) = partially_reliable(true, 100_000);
    // TSN 0 is lost and abandoned; the message that begins at TSN 1 is unfinished.
    peer.fragment(&mut w, 1, (1, 0), BEGINNING, 10);
    peer.fragment(&mut w, 2, (1, 1), DataFlags::WHOLE, 10);
    assert_eq!(read(&mut w, id), []);
    peer.forward_tsn(&mut w, 0, &[(0, 0)]);
    assert_eq!(read(&mut w, id), [(2, MessagePart::Whole)]);
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

/// RFC 9260, section 6.5
/// RFC 3758, section 3.6
#[test]
fn an_invalid_stream_that_closes_the_gap_ends_it() {
    let (mut w, peer, id) = partially_reliable(true, 100_000);
    peer.fragment(&mut w, 1, (1, 0), BEGINNING, 10);
    peer.fragment(&mut w, 2, (1, 1), DataFlags::WHOLE, 10);
    peer.fragment(&mut w, 0, (60_000, 0), DataFlags::WHOLE, 10);
    assert_eq!(read(&mut w, id), [(2, MessagePart::Whole)]);
}

/// RFC 3758, section 3.6
#[test]
fn the_end_of_a_begun_message_is_notified() {
    let (mut w, peer, id) = partially_reliable(true, 3000);
    peer.fragment(&mut w, 0, (1, 0), BEGINNING, 1400);
    peer.fragment(&mut w, 1, (1, 0), MIDDLE, 1400);
    assert_eq!(read(&mut w, id), [(0, MessagePart::First)]);
    w.events(0);
    peer.fragment(&mut w, 2, (1, 1), DataFlags::WHOLE, 10);
    let aborted = |e: &Event| matches!(e, Event::MessageAborted { .. });
    assert!(w.events(0).iter().any(aborted));
    assert_eq!(
        read(&mut w, id),
        [(0, MessagePart::Aborted), (2, MessagePart::Whole)]
    );
    assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
}

/// RFC 9260, section 6.9
#[test]
fn without_pr_sctp_an_unfinished_message_aborts() {
    let (mut w, peer, _) = partially_reliable(false, 100_000);
    peer.fragment(&mut w, 0, (3, 1), BEGINNING, 10);
    let answers = peer.fragment(&mut w, 1, (3, 2), DataFlags::WHOLE, 10);
    assert!(answers.iter().any(|a| a.has(ChunkType::ABORT)));
}
