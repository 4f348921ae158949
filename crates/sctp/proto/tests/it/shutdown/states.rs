//! Chunks of the shutdown in each state (sections 8.5.1, 9.2).

use carrick_proto::CloseReason;
use carrick_wire::{ChunkType, VerificationTag};

use crate::common::*;
use crate::shutdown::support::*;

/// RFC 9260, section 9.2
#[test]
fn a_shutdown_during_set_up_is_discarded() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    let own = peer.peer_tag;
    let tsn = peer.endpoint_tsn(0).previous();
    assert_eq!(
        peer.send_with_tag(&mut w, own, |p| p.shutdown(tsn)).len(),
        0
    );
    assert_eq!(state_name(&w.stats(0, id)), "CookieWait");
    peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    assert_eq!(peer.send(&mut w, |p| p.shutdown(tsn)).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "CookieEchoed");
}

/// RFC 9260, section 8.5.1, rule E
#[test]
fn a_shutdown_ack_during_set_up_is_out_of_the_blue() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    for state in ["CookieWait", "CookieEchoed"] {
        assert_eq!(state_name(&w.stats(0, id)), state);
        let tag = VerificationTag(0xabcd);
        let answers = peer.send_with_tag(&mut w, tag, |p| p.shutdown_ack());
        assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_COMPLETE]);
        assert_eq!(answers[0].tag(), tag, "the same tag");
        assert_eq!(answers[0].flags(ChunkType::SHUTDOWN_COMPLETE), 1);
        assert_eq!(
            state_name(&w.stats(0, id)),
            state,
            "the state does not change"
        );
        peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    }
}

/// RFC 9260, section 9.2
#[test]
fn a_shutdown_by_the_user_cancels_the_set_up() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(closed(&w.events(0)), [&CloseReason::AbortedByUser]);
    assert_eq!(peer.receive(&mut w).len(), 0, "the peer's tag is not known");
    peer.port += 1;
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(closed(&w.events(0)), [&CloseReason::AbortedByUser]);
    assert!(peer.receive(&mut w)[0].has(ChunkType::ABORT));
    assert!(gone(&w));
}

/// RFC 9260, section 9.2
#[test]
fn shutdown_ack_in_shutdown_ack_sent_completes() {
    let mut w = World::single_homed();
    let (peer, _) = Puppet::new().accept(&mut w);
    let tsn = peer.endpoint_tsn(0).previous();
    let answers = peer.send(&mut w, |p| p.shutdown(tsn));
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    let answers = peer.send(&mut w, |p| p.shutdown_ack());
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_COMPLETE]);
    assert_eq!(answers[0].flags(ChunkType::SHUTDOWN_COMPLETE), 0);
    assert_eq!(answers[0].tag(), peer.tag);
    assert!(gone(&w));
}

/// RFC 9260, section 9.2
#[test]
fn a_shutdown_in_shutdown_sent_gets_shutdown_ack() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    peer.receive(&mut w);
    let tsn = peer.endpoint_tsn(0).previous();
    let answers = peer.send(&mut w, |p| p.shutdown(tsn));
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
}

/// RFC 9260, section 9.2
#[test]
fn a_repeated_shutdown_is_answered_again() {
    let mut w = World::single_homed();
    let (peer, _) = Puppet::new().accept(&mut w);
    let tsn = peer.endpoint_tsn(0).previous();
    for _ in 0..3 {
        let answers = peer.send(&mut w, |p| p.shutdown(tsn));
        assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    }
}

/// RFC 9260, section 8.5.1, rule C
#[test]
fn a_misplaced_shutdown_complete_is_discarded() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    peer.send(&mut w, |p| p.shutdown_complete(false));
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    w.ends[0].shutdown(w.now, id).unwrap();
    peer.send(&mut w, |p| p.shutdown_complete(false));
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownSent");
}

/// RFC 9260, section 8.5.1, rule C
#[test]
fn shutdown_complete_needs_the_right_tag() {
    for (reflected, own_tag, accepted) in [
        (false, true, true),
        (true, false, true),
        (true, true, false),
        (false, false, false),
    ] {
        let mut w = World::single_homed();
        let (peer, _) = Puppet::new().accept(&mut w);
        let tsn = peer.endpoint_tsn(0).previous();
        peer.send(&mut w, |p| p.shutdown(tsn));
        let tag = if own_tag { peer.peer_tag } else { peer.tag };
        peer.send_with_tag(&mut w, tag, |p| p.shutdown_complete(reflected));
        assert_eq!(gone(&w), accepted, "T bit {reflected}, own tag {own_tag}");
    }
}
