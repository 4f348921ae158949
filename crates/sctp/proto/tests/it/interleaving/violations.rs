//! Protocol violations: the association is aborted, or the chunk is reported (RFC 8260, section
//! 2.2.3).

use carrick_proto::{CloseReason, Event, Extensions};
use carrick_wire::{CauseCode, ChunkType, Fragment, Fsn};

use crate::common::*;
use crate::interleaving::support::{FIRST, INTERLEAVING, i_data, puppet};

fn assert_violation(w: &mut World, answers: &[SentPacket]) {
    expect_abort(answers, CauseCode::PROTOCOL_VIOLATION);
    let closed = w.events(0).into_iter().any(
        |e| matches!(e, Event::Closed(CloseReason::AbortedByProtocol(cause)) if cause.code == 13),
    );
    assert!(closed);
}

/// RFC 8260, section 2.2.3
#[test]
fn data_ends_an_interleaving_association() {
    let (mut w, mut peer, _) = puppet(true);
    let answers = peer.data(&mut w, 0, 0, b"hello");
    assert_violation(&mut w, &answers);
}

/// RFC 8260, section 2.3.1
#[test]
fn forward_tsn_ends_an_interleaving_association() {
    let both = Extensions {
        partial_reliability: true,
        ..INTERLEAVING
    };
    for offered in [INTERLEAVING, both] {
        let mut w = World::with(2, |_, config| config.association.extensions = offered);
        let (peer, id) = Puppet::new().connect_with(&mut w, |p| {
            p.forward_tsn_supported();
            p.supported_extensions(&[ChunkType::FORWARD_TSN, ChunkType::I_DATA]);
        });
        assert!(!w.stats(0, id).extensions.partial_reliability);
        let tsn = peer.tsn;
        let answers = peer.send(&mut w, |p| p.forward_tsn(tsn, std::iter::empty()));
        assert_violation(&mut w, &answers);
    }
}

/// RFC 8260, section 2.2.3
#[test]
fn i_data_ends_an_association_without_interleaving() {
    for offered in [INTERLEAVING, Extensions::NONE] {
        let mut w = World::with(2, |_, config| config.association.extensions = offered);
        let (peer, _) = Puppet::new().connect(&mut w);
        let header = i_data(peer.tsn, 0, 0, FIRST, true);
        let answers = peer.send(&mut w, |p| p.i_data(&header, b"hello"));
        assert_violation(&mut w, &answers);
    }
}

/// RFC 8260, section 2.2.3
#[test]
fn contradicting_fragments_end_the_association() {
    let later = |fsn| Fragment::Later(Fsn::new(fsn));
    for fragments in [
        [(0, FIRST, false), (0, FIRST, false)],
        [(0, later(3), true), (0, later(4), false)],
        [(0, later(3), true), (0, later(2), true)],
        [(0, FIRST, true), (0, FIRST, true)],
    ] {
        let (mut w, peer, _) = puppet(true);
        let mut answers = Vec::new();
        for ((mid, fragment, ending), number) in fragments.into_iter().zip(0..) {
            let header = i_data(peer.tsn.plus(number), 0, mid, fragment, ending);
            answers = peer.send(&mut w, |p| p.i_data(&header, b"hello"));
        }
        assert_violation(&mut w, &answers);
    }
}

/// RFC 9260, section 6.2
#[test]
fn i_data_without_user_data_aborts() {
    let (mut w, peer, _) = puppet(true);
    let header = i_data(peer.tsn, 0, 0, FIRST, true);
    let answers = peer.send(&mut w, |p| p.i_data(&header, b""));
    let (code, value) = answers[0].causes().remove(0);
    assert_eq!(code, CauseCode::NO_USER_DATA);
    assert_eq!(value, peer.tsn.value().to_be_bytes());
}

/// RFC 9260, section 6.5
#[test]
fn i_data_on_an_invalid_stream_is_reported() {
    let (mut w, peer, id) = puppet(true);
    let streams = w.stats(0, id).inbound_streams;
    let header = i_data(peer.tsn, streams, 0, FIRST, true);
    let answers = peer.send(&mut w, |p| p.i_data(&header, b"hello"));
    let error = answers.iter().find(|p| p.has(ChunkType::ERROR));
    let causes = error.expect("an ERROR").causes();
    assert_eq!(causes[0].0, CauseCode::INVALID_STREAM);
    assert_eq!(causes[0].1[..2], streams.to_be_bytes());
    w.run(secs(1));
    let sack = peer.receive(&mut w).into_iter().chain(answers);
    let acked = sack
        .filter_map(|p| p.sack().map(|s| s.cumulative_tsn_ack))
        .last();
    assert_eq!(acked, Some(peer.tsn));
}
