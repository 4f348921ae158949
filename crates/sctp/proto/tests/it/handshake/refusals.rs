//! Refused INITs and INIT ACKs (sections 3.3.2, 3.3.3, 5.1).

use carrick_proto::{CloseReason, Event};
use carrick_wire::{CauseCode, ChunkType, ParameterType, VerificationTag};

use crate::common::*;

/// RFC 9260, section 3.3.2
#[test]
fn an_init_with_a_zero_initiate_tag_is_discarded() {
    let mut w = World::with(1, |_, _| {});
    let mut peer = Puppet::new();
    peer.tag = VerificationTag::ZERO;
    assert_eq!(peer.init(&mut w, |_| {}).len(), 0);
}

/// RFC 9260, section 3.3.2
#[test]
fn no_streams_and_a_small_window_are_refused() {
    let change: [fn(&mut Puppet); 3] = [
        |p| p.streams.0 = 0,
        |p| p.streams.1 = 0,
        |p| p.a_rwnd = 1499,
    ];
    for change in change {
        let mut w = World::with(1, |_, _| {});
        let mut peer = Puppet::new();
        change(&mut peer);
        let answers = peer.init(&mut w, |_| {});
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert_eq!(answers[0].tag(), peer.tag, "the Initiate Tag");
        assert_eq!(answers[0].flags(ChunkType::ABORT), 0, "no T bit");
        assert_eq!(w.ends[0].stats().inits_refused, 1);
    }
}

/// RFC 9260, section 3.3.2
#[test]
fn a_refused_init_leaves_the_association_alone() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    let mut again = peer.clone();
    again.a_rwnd = 1000;
    assert!(again.init(&mut w, |_| {})[0].has(ChunkType::ABORT));
    peer.data(&mut w, 0, 0, b"still here");
    assert_eq!(w.receive_lengths(0, id), [10]);
}

/// RFC 9260, section 3.3.3
#[test]
fn an_init_ack_with_zero_streams_ends_the_set_up() {
    let change: [fn(&mut Puppet); 2] = [|p| p.streams.0 = 0, |p| p.streams.1 = 0];
    for change in change {
        let mut w = World::single_homed();
        let mut peer = Puppet::new();
        change(&mut peer);
        peer.begin_accept(&mut w);
        let answers = peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert_eq!(answers[0].tag(), peer.tag);
        assert!(matches!(
            w.events(0)[0],
            Event::Closed(CloseReason::AbortedByProtocol(_))
        ));
    }
}

/// RFC 9260, section 3.3.3
#[test]
fn an_init_ack_with_a_zero_tag_aborts_with_t_bit() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.begin_accept(&mut w);
    peer.tag = VerificationTag::ZERO;
    let answers = peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].flags(ChunkType::ABORT), 1);
    assert_eq!(w.ends[0].associations().count(), 0);
}

/// RFC 9260, section 3.3.3, erratum 7148
#[test]
fn an_init_ack_with_a_small_window_ends_the_set_up() {
    for (a_rwnd, expected) in [(1499, ChunkType::ABORT), (1500, ChunkType::COOKIE_ECHO)] {
        let mut w = World::single_homed();
        let mut peer = Puppet::new();
        peer.begin_accept(&mut w);
        peer.a_rwnd = a_rwnd;
        let answers = peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
        assert_eq!(answers[0].kinds(), [expected]);
        assert_eq!(answers[0].tag(), peer.tag);
        let is_open = expected == ChunkType::COOKIE_ECHO;
        assert_eq!(w.ends[0].associations().count(), usize::from(is_open));
    }
}

/// RFC 9260, section 5.2.3, erratum 7148
#[test]
fn a_late_init_ack_with_a_small_window_is_silent() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    peer.a_rwnd = 1499;
    assert!(
        peer.answer_init(&mut w, |p| p.state_cookie(b"c"))
            .is_empty()
    );
    assert_eq!(state_name(&w.stats(0, id)), "Established");
}

/// RFC 9260, section 5.1.2, rule B
#[test]
fn a_host_name_address_is_refused() {
    let mut w = World::single_homed();
    let peer = Puppet::new();
    let answers = peer.init(&mut w, |p| {
        p.raw(ParameterType::HOST_NAME_ADDRESS, b"a.b\0")
    });
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    let causes = answers[0].causes();
    assert_eq!(causes[0].0, CauseCode::UNRESOLVABLE_ADDRESS);
    assert_eq!(causes[0].1, b"\x00\x0b\x00\x08a.b\0");

    let mut peer = Puppet::new();
    peer.begin_accept(&mut w);
    let answers = peer.answer_init(&mut w, |p| {
        p.state_cookie(b"c");
        p.raw(ParameterType::HOST_NAME_ADDRESS, b"a.b\0");
    });
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].causes()[0].0, CauseCode::UNRESOLVABLE_ADDRESS);
    assert_eq!(w.ends[0].associations().count(), 0);
}

/// RFC 9260, section 5.1
#[test]
fn an_init_ack_without_a_cookie_is_refused() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.begin_accept(&mut w);
    let answers = peer.answer_init(&mut w, |_| {});
    let causes = answers[0].causes();
    assert_eq!(causes[0].0, CauseCode::MISSING_PARAMETERS);
    assert_eq!(causes[0].1, [0, 0, 0, 1, 0, 7]);
    assert_eq!(answers[0].tag(), peer.tag);
}
