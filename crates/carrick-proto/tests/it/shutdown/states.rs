//! What each state makes of the chunks of the end (sections 8.5.1, 9.2).

use carrick_proto::CloseReason;
use carrick_wire::{ChunkType, VerificationTag};

use crate::common::*;
use crate::shutdown::support::*;

#[test]
fn shutdown_while_being_set_up_is_discarded_9_2() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    let own = peer.peer_tag;
    let tsn = peer.theirs(0).previous();
    assert_eq!(peer.say_with(&mut w, own, |p| p.shutdown(tsn)).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "CookieWait");
    peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    assert_eq!(peer.say(&mut w, |p| p.shutdown(tsn)).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "CookieEchoed");
}

#[test]
fn shutdown_ack_while_being_set_up_is_out_of_the_blue_8_5_1_e() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    for state in ["CookieWait", "CookieEchoed"] {
        assert_eq!(state_name(&w.stats(0, id)), state);
        let tag = VerificationTag(0xabcd);
        let answers = peer.say_with(&mut w, tag, |p| p.shutdown_ack());
        assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_COMPLETE]);
        assert_eq!(answers[0].tag(), tag, "the same tag");
        assert_eq!(answers[0].flags(ChunkType::SHUTDOWN_COMPLETE), 1);
        assert_eq!(state_name(&w.stats(0, id)), state, "stays");
        peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    }
}

#[test]
fn the_users_shutdown_during_set_up_drops_the_association() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(closed(&w.events(0)), [&CloseReason::AbortedByUser]);
    assert_eq!(peer.hear(&mut w).len(), 0, "the peer's tag is not known");
    peer.port += 1;
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(closed(&w.events(0)), [&CloseReason::AbortedByUser]);
    assert!(peer.hear(&mut w)[0].has(ChunkType::ABORT));
    assert!(gone(&w));
}

#[test]
fn shutdown_ack_in_shutdown_ack_sent_completes_9_2() {
    let mut w = World::single_homed();
    let (peer, _) = Puppet::new().accept(&mut w);
    let tsn = peer.theirs(0).previous();
    let answers = peer.say(&mut w, |p| p.shutdown(tsn));
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    let answers = peer.say(&mut w, |p| p.shutdown_ack());
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_COMPLETE]);
    assert_eq!(answers[0].flags(ChunkType::SHUTDOWN_COMPLETE), 0);
    assert_eq!(answers[0].tag(), peer.tag);
    assert!(gone(&w));
}

#[test]
fn shutdown_in_shutdown_sent_is_answered_with_shutdown_ack_9_2() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    peer.hear(&mut w);
    let tsn = peer.theirs(0).previous();
    let answers = peer.say(&mut w, |p| p.shutdown(tsn));
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
}

#[test]
fn a_repeated_shutdown_is_answered_again_9_2() {
    let mut w = World::single_homed();
    let (peer, _) = Puppet::new().accept(&mut w);
    let tsn = peer.theirs(0).previous();
    for _ in 0..3 {
        let answers = peer.say(&mut w, |p| p.shutdown(tsn));
        assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    }
}

#[test]
fn shutdown_complete_outside_shutdown_ack_sent_is_discarded_8_5_1_c() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    peer.say(&mut w, |p| p.shutdown_complete(false));
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    w.ends[0].shutdown(w.now, id).unwrap();
    peer.say(&mut w, |p| p.shutdown_complete(false));
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownSent");
}

#[test]
fn shutdown_complete_needs_the_right_tag_8_5_1_c() {
    for (reflected, own_tag, accepted) in [
        (false, true, true),
        (true, false, true),
        (true, true, false),
        (false, false, false),
    ] {
        let mut w = World::single_homed();
        let (peer, _) = Puppet::new().accept(&mut w);
        let tsn = peer.theirs(0).previous();
        peer.say(&mut w, |p| p.shutdown(tsn));
        let tag = if own_tag { peer.peer_tag } else { peer.tag };
        peer.say_with(&mut w, tag, |p| p.shutdown_complete(reflected));
        assert_eq!(gone(&w), accepted, "T bit {reflected}, own tag {own_tag}");
    }
}
