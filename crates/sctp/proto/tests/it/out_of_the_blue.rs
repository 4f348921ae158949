//! Packets without an association: the rules of RFC 9260, section 8.4, in their order.

use crate::common;

use std::net::IpAddr;

use carrick_proto::{Endpoint, Route, Time, VerificationTag};
use carrick_wire::{CauseCode, ChunkType, PacketBuilder};
use common::*;

type Write = fn(&mut PacketBuilder<'_>);

/// A tag that no association has.
const TAG: VerificationTag = VerificationTag(0x0b00_b1e5);

fn data(p: &mut PacketBuilder<'_>) {
    let header = Puppet::data_header(carrick_proto::Tsn::new(7), 0, 0);
    p.data(&header, b"hello");
}

/// Answers to a packet from an unknown source.
fn answers(write: impl FnOnce(&mut PacketBuilder<'_>)) -> Vec<SentPacket> {
    let mut w = World::new();
    let answers = Puppet::new().send_with_tag(&mut w, TAG, write);
    assert_eq!(w.ends[0].associations().count(), 0, "nothing is kept");
    assert_eq!(w.events(0), []);
    answers
}

/// The one chunk of the one answer, with its flags and the packet's tag.
fn answer(write: impl FnOnce(&mut PacketBuilder<'_>)) -> (ChunkType, u8, VerificationTag) {
    let answers = answers(write);
    assert_eq!(answers.len(), 1);
    let kinds = answers[0].kinds();
    assert_eq!(kinds.len(), 1);
    (kinds[0], answers[0].flags(kinds[0]), answers[0].tag())
}

/// All packets that an endpoint sends now, with their routes.
fn drain(end: &mut Endpoint) -> Vec<(Route, Vec<u8>)> {
    let mut all = Vec::new();
    let mut buf = Vec::new();
    while let Some(transmit) = end.poll_transmit(Time::from_millis(1000), &mut buf) {
        all.push((transmit.route, std::mem::take(&mut buf)));
    }
    all
}

/// RFC 9260, section 8.4, rule 1
#[test]
fn non_unicast_sources_are_not_answered() {
    let kinds: [Write; 4] = [
        data,
        |p| p.shutdown_ack(),
        |p| p.heartbeat(b"info"),
        |p| p.cookie_echo(b"cookie"),
    ];
    let init = |p: &Puppet| {
        p.build(VerificationTag::ZERO, |b| {
            b.init(ChunkType::INIT, p.fields(), |_| {});
        })
    };
    for [to, from] in [
        ["10.0.0.1", "224.0.0.1"],
        ["10.0.0.1", "255.255.255.255"],
        ["10.0.0.1", "0.0.0.0"],
        ["10.0.0.1", "ff02::1"],
        ["224.0.0.7", "10.0.0.99"],
        ["255.255.255.255", "10.0.0.99"],
        ["ff02::1", "fd00::1"],
    ] {
        let mut w = World::new();
        let puppet = Puppet::new();
        let mut packets: Vec<_> = kinds.iter().map(|k| puppet.build(TAG, k)).collect();
        packets.push(init(&puppet));
        for packet in packets {
            w.ends[0].handle_datagram(w.now, &Route::plain(ip(to), ip(from)), packet);
            assert_eq!(drain(&mut w.ends[0]), [], "from {from} to {to}");
        }
        assert_eq!(w.ends[0].stats().out_of_the_blue, 5);
    }
}

/// RFC 9260, section 8.4, rule 2
#[test]
fn an_abort_is_never_answered() {
    assert!(answers(|p| p.abort(false, |_| {})).is_empty());
    assert!(answers(|p| p.abort(true, |_| {})).is_empty());
    // Wherever in the packet it is.
    assert!(
        answers(|p| {
            p.shutdown_ack();
            p.abort(false, |_| {});
        })
        .is_empty()
    );
    assert!(
        answers(|p| {
            p.sack(
                carrick_proto::Tsn::new(1),
                0,
                [].into_iter(),
                [].into_iter(),
            );
            p.abort(false, |c| c.out_of_resource());
        })
        .is_empty()
    );
    // Also when its causes make no sense.
    assert!(answers(|p| p.raw(ChunkType::ABORT, 0, &[0, 1, 0xff, 0xff])).is_empty());
}

/// RFC 9260, section 8.4, rule 3
#[test]
fn an_init_is_processed() {
    let mut w = World::new();
    let answers = Puppet::new().init(&mut w, |_| {});
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::INIT_ACK]);
    assert_eq!(answers[0].tag(), Puppet::new().tag);
}

/// RFC 9260, section 8.4, rule 3
#[test]
fn a_refused_init_gets_an_abort_with_its_tag() {
    let mut w = World::with(2, |_, config| config.accept = false);
    let answers = Puppet::new().init(&mut w, |_| {});
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].flags(ChunkType::ABORT), 0, "not reflected");
    assert_eq!(answers[0].tag(), Puppet::new().tag);
}

/// Sends an INIT to port 9, where there is no endpoint, and returns the answers.
fn answers_to_stray_init(puppet: &Puppet, tag: VerificationTag) -> Vec<(Route, Vec<u8>)> {
    let mut w = World::new();
    let mut bytes = puppet
        .build(tag, |p| {
            p.init(ChunkType::INIT, puppet.fields(), |_| {});
        })
        .to_vec();
    bytes[2..4].copy_from_slice(&9_u16.to_be_bytes());
    fix_checksum(&mut bytes);
    w.ends[0].handle_datagram(w.now, &puppet.route(), bytes.into());
    drain(&mut w.ends[0])
}

/// RFC 9260, section 8.4, rule 3
#[test]
fn an_init_to_another_port_gets_an_abort() {
    let puppet = Puppet::new();
    let sent = answers_to_stray_init(&puppet, VerificationTag::ZERO);
    assert_eq!(sent.len(), 1);
    let packet = carrick_wire::Packet::parse(&sent[0].1).expect("a packet");
    assert_eq!(packet.header().source_port, 9);
    assert_eq!(packet.header().destination_port, puppet.port);
    assert_eq!(packet.header().tag, puppet.tag);
    let chunk = packet.chunks().next().expect("a chunk").expect("whole");
    assert_eq!((chunk.kind, chunk.flags), (ChunkType::ABORT, 0));
}

/// RFC 9260, section 12.3
#[test]
fn an_init_with_a_tag_gets_no_abort() {
    assert_eq!(answers_to_stray_init(&Puppet::new(), TAG), []);
    let init = |p: &mut PacketBuilder<'_>| {
        p.init(ChunkType::INIT, Puppet::new().fields(), |_| {});
    };
    assert!(answers(init).is_empty());
    let with_data = |p: &mut PacketBuilder<'_>| {
        init(p);
        data(p);
    };
    assert!(answers(with_data).is_empty());
}

/// RFC 9260, section 8.4, rule 4
#[test]
fn a_cookie_echo_needs_a_valid_cookie() {
    let mut w = World::new();
    let (_, id) = Puppet::new().connect(&mut w);
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    assert!(answers(|p| p.cookie_echo(b"not ours")).is_empty());
    // First in its packet, or it is nothing special.
    let late = answer(|p| {
        p.heartbeat(b"info");
        p.cookie_echo(b"cookie");
    });
    assert_eq!(late, (ChunkType::ABORT, 1, TAG));
}

/// RFC 9260, section 5.1
#[test]
fn a_cookie_needs_an_endpoint_that_accepts() {
    // The endpoint's own set-up collides with the peer's INIT, so a cookie is given away.
    let mut w = World::with(2, |_, config| config.accept = false);
    let mut puppet = Puppet::new();
    let id = puppet.begin_accept(&mut w);
    let answers = puppet.init(&mut w, |_| {});
    let cookie = Puppet::cookie(&answers[0]);
    puppet.record_init(&answers[0]);
    w.ends[0]
        .abort(w.now, id, b"")
        .expect("the association exists");
    let answers = puppet.send(&mut w, |p| p.cookie_echo(&cookie));
    assert_eq!(w.ends[0].associations().count(), 0);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].tag(), puppet.tag);
    assert_eq!(answers[0].flags(ChunkType::ABORT), 0);
}

/// RFC 9260, section 8.4, rule 5
#[test]
fn shutdown_ack_gets_shutdown_complete() {
    let expected = (ChunkType::SHUTDOWN_COMPLETE, 1, TAG);
    assert_eq!(answer(|p| p.shutdown_ack()), expected);
    // Wherever in the packet it is.
    let behind = answer(|p| {
        p.sack(
            carrick_proto::Tsn::new(1),
            0,
            [].into_iter(),
            [].into_iter(),
        );
        p.shutdown_ack();
    });
    assert_eq!(behind, expected);
}

/// RFC 9260, section 8.4, rule 6
#[test]
fn a_shutdown_complete_is_discarded() {
    assert!(answers(|p| p.shutdown_complete(false)).is_empty());
    assert!(answers(|p| p.shutdown_complete(true)).is_empty());
}

/// RFC 9260, section 8.4, rule 7
#[test]
fn cookie_ack_and_stale_cookie_are_discarded() {
    assert!(answers(|p| p.cookie_ack()).is_empty());
    assert!(
        answers(|p| {
            p.cookie_ack();
            data(p);
        })
        .is_empty()
    );
    assert!(answers(|p| p.error(|c| c.stale_cookie(1))).is_empty());
    let other = answer(|p| p.error(|c| c.invalid_stream(carrick_proto::StreamId(1))));
    assert_eq!(other, (ChunkType::ABORT, 1, TAG));
}

/// RFC 9260, section 8.4, rule 8
#[test]
fn any_other_packet_gets_an_abort() {
    let kinds: [Write; 8] = [
        data,
        |p| {
            p.sack(
                carrick_proto::Tsn::new(1),
                0,
                [].into_iter(),
                [].into_iter(),
            )
        },
        |p| p.heartbeat(b"info"),
        |p| p.heartbeat_ack(b"info"),
        |p| p.shutdown(carrick_proto::Tsn::new(1)),
        |p| p.raw(ChunkType(0x3f), 0, b"what"),
        |p| p.raw(ChunkType(0xff), 0, b"what"),
        |p| p.init(ChunkType::INIT_ACK, Puppet::new().fields(), |_| {}),
    ];
    for (number, kind) in kinds.iter().enumerate() {
        let expected = (ChunkType::ABORT, 1, TAG);
        assert_eq!(answer(kind), expected, "number {number}");
    }
}

/// RFC 9260, section 8.5.1
#[test]
fn a_zero_tag_is_for_init_alone() {
    let mut w = World::new();
    let puppet = Puppet::new();
    let kinds: [Write; 3] = [data, |p| p.shutdown_ack(), |p| p.heartbeat(b"info")];
    for kind in kinds {
        let bytes = puppet.build(VerificationTag::ZERO, kind);
        w.ends[0].handle_datagram(w.now, &puppet.route(), bytes.clone());
        // Nor for another port.
        let mut bytes = bytes.to_vec();
        bytes[2..4].copy_from_slice(&9_u16.to_be_bytes());
        fix_checksum(&mut bytes);
        w.ends[0].handle_datagram(w.now, &puppet.route(), bytes.into());
        assert_eq!(drain(&mut w.ends[0]), []);
    }
    let bytes = puppet.build(VerificationTag::ZERO, |p| {
        p.init(ChunkType::INIT, puppet.fields(), |_| {});
        p.init(ChunkType::INIT, puppet.fields(), |_| {});
    });
    w.ends[0].handle_datagram(w.now, &puppet.route(), bytes);
    assert_eq!(drain(&mut w.ends[0]), []);
}

/// RFC 9260, section 8.4
#[test]
fn heartbeats_for_a_host_behind_the_nat_are_ignored() {
    // The translator gave the peer's port to another host; an ABORT would end its association.
    let kinds: [Write; 2] = [|p| p.heartbeat(b"info"), |p| p.heartbeat_ack(b"info")];
    for kind in kinds {
        let mut w = World::new();
        let puppet = Puppet::new();
        let route = Route::encapsulated(puppet.link.to, puppet.link.from, 40_000);
        w.inject(0, &route, puppet.build(TAG, kind));
        assert!(puppet.receive(&mut w).is_empty());
        assert_eq!(w.ends[0].stats().out_of_the_blue, 1);
    }
}

/// RFC 9260, section 8.4
#[test]
fn a_reply_out_of_the_blue_takes_the_reverse_route() {
    let mut w = World::new();
    let puppet = Puppet::new();
    let from: IpAddr = puppet.link.from;
    for route in [
        Route::plain(addresses(0)[1], from),
        Route::encapsulated(addresses(0)[1], from, 40_000),
        Route::encapsulated(addresses(0)[0], from, 40_001),
    ] {
        w.inject(0, &route, puppet.build(TAG, data));
        let replies = puppet.receive(&mut w);
        assert_eq!(replies.len(), 1);
        assert_eq!(replies[0].route, route);
    }
}

/// RFC 9260, section 8.4
#[test]
fn replies_to_out_of_the_blue_packets_cause_no_loop() {
    // Two endpoints without an association must not exchange replies endlessly.
    for write in [data as Write, |p| p.shutdown_ack()] {
        let mut w = World::new();
        let mut bytes = Puppet::new().build(TAG, write).to_vec();
        bytes[..2].copy_from_slice(&port(1).to_be_bytes());
        fix_checksum(&mut bytes);
        w.inject(0, &Route::plain(addresses(0)[0], addresses(1)[0]), bytes);
        w.run(secs(1));
        assert_eq!(w.log.len(), 1);
        assert_eq!(w.ends[1].stats().out_of_the_blue, 1);
    }
}

/// RFC 9260, section 8.4
#[test]
fn packets_after_an_abort_are_out_of_the_blue() {
    let mut w = World::new();
    let (mut puppet, id) = Puppet::new().connect(&mut w);
    w.ends[0]
        .abort(w.now, id, b"enough")
        .expect("the association exists");
    let replies = puppet.receive(&mut w);
    let causes = replies.last().expect("an ABORT").causes();
    assert_eq!(
        causes,
        [(CauseCode::USER_INITIATED_ABORT, b"enough".to_vec())]
    );
    let answers = puppet.data(&mut w, 0, 0, b"more");
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].flags(ChunkType::ABORT), 1);
    assert_eq!(answers[0].tag(), puppet.peer_tag, "the tag that was sent");
}
