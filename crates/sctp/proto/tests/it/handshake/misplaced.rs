//! Set-up packets in the wrong state, from the wrong address, or repeated.

use carrick_proto::{ConnectError, Event, Tsn};
use carrick_wire::{ChunkType, VerificationTag};

use crate::common::*;

/// RFC 9260, section 5.1, rule B
#[test]
fn the_init_ack_goes_to_the_source_of_the_init() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    peer.link.from = ip("10.1.0.77");
    peer.link.to = addresses(0)[1];
    let answers = peer.init(&mut w, |p| p.ip_address(ip("10.0.0.99")));
    assert_eq!(answers[0].to(), ip("10.1.0.77"));
    assert_eq!(answers[0].source(), addresses(0)[1]);
}

/// RFC 9260, section 5.2.4
#[test]
fn a_cookie_makes_one_association_only() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    for _ in 0..3 {
        let answers = peer.send(&mut w, |p| p.cookie_echo(&cookie));
        assert_eq!(
            answers[0].kinds(),
            [ChunkType::COOKIE_ACK],
            "action D (section 5.2.4)"
        );
    }
    assert_eq!(w.ends[0].associations().count(), 1);
    assert_eq!(w.events(0).len(), 1, "established once");
}

/// RFC 9260, section 5.1.5
#[test]
fn a_cookie_with_other_ports_or_tags_is_discarded() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let mut other_port = peer.clone();
    other_port.port += 1;
    assert_eq!(other_port.send(&mut w, |p| p.cookie_echo(&cookie)).len(), 0);
    let mut other_tag = peer.clone();
    other_tag.peer_tag.0 ^= 1;
    assert_eq!(other_tag.send(&mut w, |p| p.cookie_echo(&cookie)).len(), 0);
    assert_eq!(w.ends[0].associations().count(), 0);
    assert_eq!(peer.send(&mut w, |p| p.cookie_echo(&cookie)).len(), 1);
}

/// RFC 9260, section 5.2.3
/// RFC 9260, section 5.2.5
#[test]
fn misplaced_init_ack_and_cookie_ack_are_discarded() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().accept(&mut w);
    let mut other = peer.clone();
    other.tag = VerificationTag(99);
    other.tsn = Tsn::new(5);
    assert_eq!(other.answer_init(&mut w, |p| p.state_cookie(b"x")).len(), 0);
    assert_eq!(peer.send(&mut w, |p| p.cookie_ack()).len(), 0);
    let answers = peer.data(&mut w, 0, 0, b"works");
    assert_eq!(answers[0].tag(), peer.tag, "the tag is the old one");
    assert_eq!(w.receive_lengths(0, id), [5]);
    assert_eq!(w.events(0), [Event::MessageReceived]);
}

/// RFC 9260, section 5.4
#[test]
fn another_source_of_an_init_ack_is_unconfirmed() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    // It lists the destination of the INIT, so it belongs to the association (section 5.1.2 D).
    peer.link.from = ip("10.1.0.99");
    peer.link.to = addresses(0)[1];
    let answers = peer.answer_init(&mut w, |p| {
        p.state_cookie(b"c");
        p.ip_address(ip("10.0.0.99"));
    });
    assert_eq!(answers[0].kinds(), [ChunkType::COOKIE_ECHO]);
    assert_eq!(answers[0].to(), ip("10.0.0.99"));
    peer.send(&mut w, |p| p.cookie_ack());
    let confirmed: Vec<_> = w
        .paths(0, id)
        .map(|p| (p.remote, p.status.confirmed))
        .collect();
    assert_eq!(
        confirmed,
        [(ip("10.0.0.99"), true), (ip("10.1.0.99"), false)]
    );
}

/// RFC 9260, section 5.1
#[test]
fn cookie_ack_goes_to_the_source_of_the_init() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let header = Puppet::data_header(peer.tsn, 0, 0);
    peer.link.from = ip("10.1.0.66");
    peer.link.to = addresses(0)[1];
    let answers = peer.send(&mut w, |p| {
        p.cookie_echo(&cookie);
        p.data(&header, b"hello");
    });
    assert!(!answers.is_empty());
    for answer in answers {
        assert_eq!(answer.to(), ip("10.0.0.99"));
    }
}

/// RFC 9260, section 11.1.2
#[test]
fn arguments_of_connect_are_checked() {
    let mut w = World::single_homed();
    let mut connect = |peers: &[&str], port| {
        let peers: Vec<_> = peers.iter().map(|p| ip(p)).collect();
        w.ends[0].connect(w.now, &peers, port, None, w.config.clone())
    };
    assert_eq!(connect(&[], 1), Err(ConnectError::NoAddress));
    assert_eq!(connect(&["10.0.0.9"], 0), Err(ConnectError::InvalidPort));
    assert_eq!(connect(&["fd00::1"], 1), Err(ConnectError::FamilyMismatch));
    assert!(connect(&["10.0.0.9"], 1).is_ok());
    assert_eq!(
        connect(&["10.0.0.8", "10.0.0.9"], 1),
        Err(ConnectError::AlreadyConnected)
    );
    w.config.streams.outbound_streams = 0;
    let refused = w.ends[0].connect(w.now, &[ip("10.0.0.7")], 1, None, w.config.clone());
    assert!(refused.is_err(), "a configuration out of its range");
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let run = || {
        let mut w = World::new();
        let (a, b) = w.connect();
        w.lose_data(0, &[3, 4]);
        w.send(0, a, 1, pattern(50_000));
        w.run(secs(3));
        w.receive(1, b);
        w.run(secs(100));
        let all: Vec<_> = w.log.iter().map(|p| (p.time, p.bytes.clone())).collect();
        all
    };
    assert_eq!(run(), run());
}
