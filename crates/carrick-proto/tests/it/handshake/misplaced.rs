//! Packets of the set-up in the wrong place, from the wrong address, or twice.

use carrick_proto::{ConnectError, Event, Tsn};
use carrick_wire::{ChunkType, VerificationTag};

use crate::common::*;

#[test]
fn the_init_ack_goes_where_the_init_came_from_5_1_b() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    peer.link.from = ip("10.1.0.77");
    peer.link.to = addresses(0)[1];
    let answers = peer.init(&mut w, |p| p.ip_address(ip("10.0.0.99")));
    assert_eq!(answers[0].to(), ip("10.1.0.77"));
    assert_eq!(answers[0].source(), addresses(0)[1]);
}

#[test]
fn a_cookie_is_good_for_one_association_only_5_2_4() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    for _ in 0..3 {
        let answers = peer.say(&mut w, |p| p.cookie_echo(&cookie));
        assert_eq!(answers[0].kinds(), [ChunkType::COOKIE_ACK], "row D");
    }
    assert_eq!(w.ends[0].associations().count(), 1);
    assert_eq!(w.events(0).len(), 1, "established once");
}

#[test]
fn a_cookie_with_other_ports_or_tags_is_discarded_5_1_5() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let mut other_port = peer.clone();
    other_port.port += 1;
    assert_eq!(other_port.say(&mut w, |p| p.cookie_echo(&cookie)).len(), 0);
    let mut other_tag = peer.clone();
    other_tag.peer_tag.0 ^= 1;
    assert_eq!(other_tag.say(&mut w, |p| p.cookie_echo(&cookie)).len(), 0);
    assert_eq!(w.ends[0].associations().count(), 0);
    assert_eq!(peer.say(&mut w, |p| p.cookie_echo(&cookie)).len(), 1);
}

#[test]
fn an_init_ack_or_cookie_ack_out_of_place_is_discarded_5_2_3_and_5_2_5() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().accept(&mut w);
    let mut other = peer.clone();
    other.tag = VerificationTag(99);
    other.tsn = Tsn::new(5);
    assert_eq!(other.answer_init(&mut w, |p| p.state_cookie(b"x")).len(), 0);
    assert_eq!(peer.say(&mut w, |p| p.cookie_ack()).len(), 0);
    let answers = peer.data(&mut w, 0, 0, b"works");
    assert_eq!(answers[0].tag(), peer.tag, "the tag is the old one");
    assert_eq!(w.receive_lengths(0, id), [5]);
    assert_eq!(w.events(0), [Event::MessageReceived]);
}

#[test]
fn an_init_ack_from_another_address_is_taken_but_that_address_is_not_trusted_5_4() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    // It lists the address that was asked, so it belongs to the association (section 5.1.2 D).
    peer.link.from = ip("10.1.0.99");
    peer.link.to = addresses(0)[1];
    let answers = peer.answer_init(&mut w, |p| {
        p.state_cookie(b"c");
        p.ip_address(ip("10.0.0.99"));
    });
    assert_eq!(answers[0].kinds(), [ChunkType::COOKIE_ECHO]);
    assert_eq!(answers[0].to(), ip("10.0.0.99"));
    peer.say(&mut w, |p| p.cookie_ack());
    let confirmed: Vec<_> = w.ends[0]
        .paths(id)
        .map(|p| (p.remote, p.status.confirmed))
        .collect();
    assert_eq!(
        confirmed,
        [(ip("10.0.0.99"), true), (ip("10.1.0.99"), false)]
    );
}

#[test]
fn a_cookie_echo_from_an_address_that_the_init_did_not_have_gets_its_answer_where_the_init_came_from()
 {
    let mut w = World::new();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let header = Puppet::data_header(peer.tsn, 0, 0);
    peer.link.from = ip("10.1.0.66");
    peer.link.to = addresses(0)[1];
    let answers = peer.say(&mut w, |p| {
        p.cookie_echo(&cookie);
        p.data(&header, b"hello");
    });
    assert!(!answers.is_empty());
    for answer in answers {
        assert_eq!(answer.to(), ip("10.0.0.99"));
    }
}

#[test]
fn arguments_of_connect_are_checked_11_1_2() {
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
    w.config.outbound_streams = 0;
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
