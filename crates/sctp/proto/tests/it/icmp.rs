//! ICMP messages: the rules of RFC 9260, section 10, and RFC 6951, section 5.5.

use crate::common;

use std::net::IpAddr;

use carrick_proto::research::ProtocolUnreachable;
use carrick_proto::{
    AssociationId, CloseReason, Event, IcmpInput, IcmpKind, PathId, VerificationTag,
};
use carrick_wire::{ChunkType, PacketBuilder};
use common::*;

const KINDS: [IcmpKind; 4] = [
    IcmpKind::PacketTooBig { mtu: 1000 },
    IcmpKind::ProtocolUnreachable,
    IcmpKind::PortUnreachable,
    IcmpKind::DestinationUnreachable,
];

/// A packet as endpoint 0 would have sent it to the puppet.
fn packet(p: &Puppet, tag: VerificationTag, write: impl FnOnce(&mut PacketBuilder<'_>)) -> Vec<u8> {
    let mut buf = Vec::new();
    let header = carrick_wire::CommonHeader {
        source_port: port(0),
        destination_port: p.port,
        tag,
    };
    let mut builder = PacketBuilder::new(&mut buf, header, 1400);
    write(&mut builder);
    builder.finish();
    buf
}

fn heartbeat(p: &Puppet, tag: VerificationTag) -> Vec<u8> {
    packet(p, tag, |b| b.heartbeat(b"info"))
}

/// Delivers the message to endpoint 0; returns whether it was accepted.
fn icmp(w: &mut World, kind: IcmpKind, remote: IpAddr, quoted: &[u8]) -> bool {
    icmp_with(w, kind, remote, quoted, false)
}

fn icmp_with(
    w: &mut World,
    kind: IcmpKind,
    remote: IpAddr,
    quoted: &[u8],
    encapsulated: bool,
) -> bool {
    let input = IcmpInput {
        kind,
        remote,
        encapsulation: encapsulated.then_some(9899),
        quoted,
    };
    let before = w.ends[0].stats();
    w.ends[0].handle_icmp(w.now, &input);
    w.pump();
    let after = w.ends[0].stats();
    let accepted = after.icmp_accepted - before.icmp_accepted;
    let ignored = after.icmp_ignored - before.icmp_ignored;
    assert_eq!(accepted + ignored, 1, "each message is counted once");
    accepted == 1
}

fn established() -> (World, Puppet, AssociationId) {
    let mut w = World::new();
    let (p, id) = Puppet::new().connect(&mut w);
    (w, p, id)
}

fn unreachable(events: &[Event]) -> bool {
    events == [Event::Closed(CloseReason::ProtocolUnreachable)]
}

/// RFC 9260, section 10, rule ICMP3
#[test]
fn port_unreachable_is_ignored() {
    let (mut w, p, id) = established();
    let quoted = heartbeat(&p, p.tag);
    let before = w.path(0, id, 0);
    assert!(!icmp(
        &mut w,
        IcmpKind::PortUnreachable,
        p.link.from,
        &quoted
    ));
    assert_eq!(w.path(0, id, 0), before);
    assert_eq!(w.events(0), []);
}

/// RFC 6951, section 5.5
#[test]
fn port_unreachable_over_udp_is_protocol_unreachable() {
    let mut w = World::new();
    let peer = Puppet {
        encapsulation: Some(9899),
        ..Puppet::new()
    };
    let (p, _) = peer.connect(&mut w);
    let quoted = heartbeat(&p, p.tag);
    let kind = IcmpKind::PortUnreachable;
    assert!(icmp_with(&mut w, kind, p.link.from, &quoted, true));
    assert!(unreachable(&w.events(0)));
}

/// RFC 9260, section 10, rule ICMP5
#[test]
fn icmp_without_an_association_is_ignored() {
    let (mut w, p, id) = established();
    let quoted = heartbeat(&p, p.tag);
    let before = (w.stats(0, id), w.path(0, id, 0));
    for kind in KINDS {
        // Another host, another source port, another destination port.
        assert!(!icmp(&mut w, kind, ip("10.0.0.98"), &quoted));
        for at in [1, 3] {
            let mut other = quoted.clone();
            other[at] ^= 1;
            assert!(!icmp(&mut w, kind, p.link.from, &other));
        }
    }
    assert_eq!((w.stats(0, id), w.path(0, id, 0)), before);
    assert_eq!(w.events(0), []);
}

/// RFC 9260, section 10, rule ICMP6
#[test]
fn icmp_needs_the_tag_of_the_peer() {
    let (mut w, p, id) = established();
    let before = (w.stats(0, id), w.path(0, id, 0));
    for kind in KINDS {
        for tag in [p.peer_tag, VerificationTag(p.tag.0 ^ 1), VerificationTag(1)] {
            assert!(!icmp(&mut w, kind, p.link.from, &heartbeat(&p, tag)));
        }
    }
    assert_eq!((w.stats(0, id), w.path(0, id, 0)), before);
    assert_eq!(w.events(0), []);
}

/// RFC 9260, section 10, rule ICMP6
#[test]
fn icmp_needs_a_quotation_with_the_tag() {
    let (mut w, p, _) = established();
    let quoted = heartbeat(&p, p.tag);
    for kind in KINDS {
        for len in 0..8 {
            assert!(!icmp(&mut w, kind, p.link.from, &quoted[..len]));
        }
    }
    assert_eq!(w.events(0), []);
    // Eight bytes are what ICMP for IPv4 guarantees.
    assert!(icmp(
        &mut w,
        IcmpKind::ProtocolUnreachable,
        p.link.from,
        &quoted[..8]
    ));
    assert!(unreachable(&w.events(0)));
}

/// RFC 9260, section 10, rule ICMP6
#[test]
fn icmp_with_a_zero_tag_needs_our_init() {
    let mut w = World::new();
    let mut p = Puppet::new();
    let id = p.begin_accept(&mut w);
    let own = p.fields();
    let init = |tag: VerificationTag, kind: ChunkType| {
        let fields = carrick_wire::InitFields { tag, ..own };
        packet(&p, VerificationTag::ZERO, |b| b.init(kind, fields, |_| {}))
    };
    let kind = IcmpKind::ProtocolUnreachable;
    let good = init(p.peer_tag, ChunkType::INIT);
    let wrong_tag = init(VerificationTag(p.peer_tag.0 ^ 1), ChunkType::INIT);
    let no_init = init(p.peer_tag, ChunkType::INIT_ACK);
    for quoted in [
        &wrong_tag,
        &no_init,
        &good[..19].to_vec(),
        &good[..8].to_vec(),
    ] {
        assert!(!icmp(&mut w, kind, p.link.from, quoted));
    }
    assert_eq!(state_name(&w.stats(0, id)), "CookieWait");
    assert!(icmp(&mut w, kind, p.link.from, &good[..20]));
    assert!(unreachable(&w.events(0)));
}

/// RFC 9260, section 10, rule ICMP7
#[test]
fn packet_too_big_lowers_the_mtu_of_its_path() {
    let mut w = World::new();
    let (a, _) = w.connect();
    let tag = w
        .log
        .iter()
        .find(|s| s.has(ChunkType::INIT_ACK))
        .expect("INIT ACK");
    let mut p = Puppet::new();
    p.port = port(1);
    p.tag = tag.init().tag;
    let quoted = heartbeat(&p, p.tag);
    let to = w.path(0, a, 1).remote;
    assert!(icmp(
        &mut w,
        IcmpKind::PacketTooBig { mtu: 1000 },
        to,
        &quoted
    ));
    assert_eq!((w.path(0, a, 0).mtu, w.path(0, a, 1).mtu), (1500, 1000));
    // It never raises it, and not below what every link has to carry.
    assert!(icmp(
        &mut w,
        IcmpKind::PacketTooBig { mtu: 9000 },
        to,
        &quoted
    ));
    assert_eq!(w.path(0, a, 1).mtu, 1000);
    for mtu in [0, 68, 575] {
        assert!(icmp(&mut w, IcmpKind::PacketTooBig { mtu }, to, &quoted));
        assert_eq!(w.path(0, a, 1).mtu, 576);
    }
    // Messages are cut to the new size, on that path only. The world checks the packets.
    w.change(0, a).set_primary(PathId(1)).expect("a path");
    w.send(0, a, 0, pattern(5000));
    w.run(secs(2));
    let b = w.association(1);
    assert_eq!(w.receive_lengths(1, b), [5000]);
}

/// RFC 9260, section 10, rule ICMP7
/// RFC 9260, section 6.10
#[test]
fn the_reported_mtu_is_rounded_down_to_four_octets() {
    for mtu in 768..776 {
        let mut w = World::new();
        // Chunks whose padding would not fit into the last odd bytes of a packet.
        w.config.mtu.max_payload = Some(7);
        let mut p = Puppet::new();
        let id = p.begin_accept(&mut w);
        p.answer_init(&mut w, |b| b.state_cookie(b"cookie"));
        p.send(&mut w, |b| b.cookie_ack());
        let quoted = heartbeat(&p, p.tag);
        assert!(icmp(
            &mut w,
            IcmpKind::PacketTooBig { mtu },
            p.link.from,
            &quoted
        ));
        w.send(0, id, 0, pattern(5000));
        let sent = p.receive(&mut w);
        assert!(sent.iter().any(|s| s.data().len() > 20), "MTU {mtu}");
    }
}

/// RFC 9260, section 10, rule ICMP7
/// RFC 9260, section 6.9
#[test]
fn chunks_above_the_mtu_use_ip_fragmentation() {
    let (mut w, p, id) = established();
    w.send(0, id, 0, pattern(1400));
    let sent = p.receive(&mut w);
    assert_eq!(sent[0].data().len(), 1);
    let kind = IcmpKind::PacketTooBig { mtu: 600 };
    assert!(icmp(&mut w, kind, p.link.from, &sent[0].bytes[..28]));
    w.run(secs(2));
    let again: Vec<SentPacket> = p.receive(&mut w);
    let again: Vec<&SentPacket> = again.iter().filter(|s| !s.data().is_empty()).collect();
    assert!(!again.is_empty(), "T3-rtx");
    assert!(
        again
            .iter()
            .all(|s| s.may_fragment && s.data()[0].payload.len() == 1400)
    );
}

/// RFC 9260, section 10, rule ICMP8
#[test]
fn protocol_unreachable_aborts_the_association() {
    for state in ["CookieEchoed", "Established", "ShutdownSent"] {
        let mut w = World::new();
        let mut p = Puppet::new();
        let id = p.begin_accept(&mut w);
        p.answer_init(&mut w, |b| b.state_cookie(b"cookie"));
        if state != "CookieEchoed" {
            p.send(&mut w, |b| b.cookie_ack());
        }
        if state == "ShutdownSent" {
            w.ends[0].shutdown(w.now, id).expect("it exists");
        }
        assert_eq!(state_name(&w.stats(0, id)), state);
        p.receive(&mut w);
        w.events(0);
        let quoted = heartbeat(&p, p.tag);
        assert!(icmp(
            &mut w,
            IcmpKind::ProtocolUnreachable,
            p.link.from,
            &quoted
        ));
        assert!(unreachable(&w.events(0)));
        assert_eq!(w.ends[0].associations().count(), 0);
        assert!(
            p.receive(&mut w).is_empty(),
            "like an ABORT, without an answer"
        );
    }
}

/// RFC 9260, section 10, rule ICMP8
#[test]
fn protocol_unreachable_is_ignored_while_peer_answers() {
    let mut w = World::new();
    w.config.research.policies.protocol_unreachable = ProtocolUnreachable::AbortAfterSilence;
    let (mut p, id) = Puppet::new().accept(&mut w);
    let quoted = heartbeat(&p, p.tag);
    let from = p.link.from;
    let denied = |w: &mut World| icmp(w, IcmpKind::ProtocolUnreachable, from, &quoted);
    let rto = w.path(0, id, 0).rto;
    // Each packet that finds a full buffer is answered so, and then the buffer is read.
    for n in 0..10 {
        (0..50).for_each(|_| assert!(denied(&mut w)));
        w.run(rto * 3 / 4);
        assert!(denied(&mut w));
        p.data(&mut w, 0, n, b"here");
        w.run(rto);
    }
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    // Nothing but denials for a whole RTO.
    w.events(0);
    assert!(denied(&mut w));
    w.run(rto);
    assert!(denied(&mut w));
    assert!(
        w.events(0)
            .contains(&Event::Closed(CloseReason::ProtocolUnreachable))
    );
}

/// RFC 9260, section 10, rule ICMP8: hosts limit the rate of their ICMP messages (RFC 4443, section 2.4)
#[test]
fn a_timeout_after_an_icmp_message_ends_it() {
    for answered in [false, true] {
        let mut w = World::new();
        w.config.research.policies.protocol_unreachable = ProtocolUnreachable::AbortAfterSilence;
        let (mut p, id) = Puppet::new().accept(&mut w);
        w.events(0);
        w.send(0, id, 0, "data");
        let quoted = heartbeat(&p, p.tag);
        let kind = IcmpKind::ProtocolUnreachable;
        assert!(icmp(&mut w, kind, p.link.from, &quoted));
        let rto = w.path(0, id, 0).rto;
        if answered {
            p.data(&mut w, 0, 0, b"here");
        }
        // The first timeout comes an RTO after the message, the second one three.
        w.run(rto * 4);
        let end = Event::Closed(CloseReason::ProtocolUnreachable);
        assert_eq!(w.events(0).contains(&end), !answered);
    }
}

/// RFC 9260, section 10, rule ICMP8
#[test]
fn protocol_unreachable_ends_a_set_up_at_once() {
    let mut w = World::new();
    w.config.research.policies.protocol_unreachable = ProtocolUnreachable::AbortAfterSilence;
    let mut p = Puppet::new();
    p.begin_accept(&mut w);
    let init = w.log.last().expect("an INIT").bytes.clone();
    assert!(icmp(
        &mut w,
        IcmpKind::ProtocolUnreachable,
        p.link.from,
        &init
    ));
    assert!(unreachable(&w.events(0)));
}

/// RFC 9260, section 10, rule ICMP8
#[test]
fn icmp_about_an_init_counts_only_in_cookie_wait() {
    // A message that was delayed, or made up, about an INIT that the peer has answered since.
    let mut w = World::new();
    let mut p = Puppet::new();
    let id = p.begin_accept(&mut w);
    let init = w.log.last().expect("an INIT").bytes.clone();
    p.answer_init(&mut w, |b| b.state_cookie(b"cookie"));
    let kind = IcmpKind::ProtocolUnreachable;
    assert!(!icmp(&mut w, kind, p.link.from, &init));
    p.send(&mut w, |b| b.cookie_ack());
    assert!(!icmp(&mut w, kind, p.link.from, &init));
    assert_eq!(state_name(&w.stats(0, id)), "Established");
}

/// RFC 9260, section 10, rule ICMP9
#[test]
fn unreachable_is_an_error_of_its_path() {
    let mut w = World::new();
    let (a, _) = w.connect();
    let tag = w
        .log
        .iter()
        .find(|s| s.has(ChunkType::INIT_ACK))
        .expect("INIT ACK");
    let mut p = Puppet::new();
    p.port = port(1);
    let quoted = heartbeat(&p, tag.init().tag);
    w.events(0);
    let to = w.path(0, a, 1).remote;
    let limit = w.config.paths.path_max_retrans;
    for count in 1..=limit {
        assert!(icmp(&mut w, IcmpKind::DestinationUnreachable, to, &quoted));
        assert_eq!(w.path(0, a, 1).error_count, count);
    }
    assert_eq!(w.events(0), []);
    assert!(icmp(&mut w, IcmpKind::DestinationUnreachable, to, &quoted));
    assert!(w.events(0).contains(&Event::PathFailed(PathId(1))));
    assert_eq!(w.path(0, a, 0).error_count, 0);
    // Repeated messages never end the association.
    let other = w.path(0, a, 0).remote;
    for _ in 0..100 {
        icmp(&mut w, IcmpKind::DestinationUnreachable, to, &quoted);
        icmp(&mut w, IcmpKind::DestinationUnreachable, other, &quoted);
    }
    assert_eq!(w.stats(0, a).error_count, 0);
    assert_eq!(state_name(&w.stats(0, a)), "Established");
}

/// RFC 9260, section 10, rule ICMP9
#[test]
fn unreachable_in_cookie_wait_waits_for_t1() {
    let mut w = World::new();
    let mut p = Puppet::new();
    let id = p.begin_accept(&mut w);
    let init = w.log.last().expect("an INIT").bytes.clone();
    icmp(&mut w, IcmpKind::DestinationUnreachable, p.link.from, &init);
    assert_eq!(state_name(&w.stats(0, id)), "CookieWait");
    assert_eq!(w.events(0), []);
    p.answer_init(&mut w, |b| b.state_cookie(b"cookie"));
    p.send(&mut w, |b| b.cookie_ack());
    assert_eq!(state_name(&w.stats(0, id)), "Established");
}

/// RFC 6951, section 5.5: the host of a killed peer answers each packet with "Port Unreachable".
#[test]
fn a_killed_peer_is_noticed_after_one_rto() {
    let mut w = World::single(|c| *c = carrick_proto::AssociationConfig::modern());
    let peer = Puppet {
        encapsulation: Some(9899),
        ..Puppet::new()
    };
    let (peer, id) = peer.connect(&mut w);
    w.events(0);
    peer.receive(&mut w);
    w.send(0, id, 0, pattern(100));
    let since = w.now;
    let mut closed = None;
    for _ in 0..2000 {
        for packet in peer.receive(&mut w) {
            let kind = IcmpKind::PortUnreachable;
            icmp_with(&mut w, kind, packet.to(), &packet.bytes[..8], true);
        }
        let end = Event::Closed(CloseReason::ProtocolUnreachable);
        if w.events(0).contains(&end) {
            closed = Some(w.now - since);
            break;
        }
        w.run(ms(1));
    }
    // T3-rtx of 1 s starts again with the tail loss probe, which leaves within 0.24 s.
    let closed = closed.expect("the end");
    assert!(closed >= secs(1) && closed <= ms(1240), "{closed:?}");
}

/// Kinds that make a set-up try its next address, over UDP.
const REFUSALS: [IcmpKind; 3] = [
    IcmpKind::PortUnreachable,
    IcmpKind::ProtocolUnreachable,
    IcmpKind::DestinationUnreachable,
];

/// RFC 9260, section 5.1: each address that the user gave is tried.
#[test]
fn a_setup_tries_its_next_address_at_once() {
    for kind in REFUSALS {
        let mut w = World::new();
        let given = ["10.0.0.91", "10.0.0.92", "10.0.0.93"].map(ip);
        w.begin_connect_with(&given, Some(9899));
        let since = w.now;
        w.run(ms(20));
        let tried = |w: &World| -> Vec<IpAddr> {
            w.log
                .iter()
                .filter(|p| p.has(ChunkType::INIT))
                .map(SentPacket::to)
                .collect()
        };
        for refused in 0..3 {
            assert_eq!(tried(&w), given[..=refused]);
            let init = w.log.last().unwrap().bytes.clone();
            icmp_with(&mut w, kind, given[refused], &init[..20], true);
            let closed = unreachable(&w.events(0));
            let last = refused == 2 && !matches!(kind, IcmpKind::DestinationUnreachable);
            assert_eq!(closed, last, "{kind:?} of {refused}");
        }
        assert!(w.now - since < ms(100), "without a timeout");
        if matches!(kind, IcmpKind::DestinationUnreachable) {
            w.run(ms(1500));
            assert_eq!(tried(&w).len(), 4, "T1-init continues");
        }
    }
}

/// RFC 9260, section 10, rule ICMP8: another path works.
#[test]
fn protocol_unreachable_of_one_path_fails_that_path() {
    let mut w = World::with(2, |_, c| {
        c.association = carrick_proto::AssociationConfig::modern();
    });
    w.config = carrick_proto::AssociationConfig::modern();
    let (mut w, a, _) = w.connected();
    w.send(0, a, 0, pattern(100));
    w.run(ms(1));
    let sent = w.sent(0, ChunkType::DATA)[0].bytes.clone();
    let to = addresses(1)[0];
    for _ in 0..3 {
        icmp(&mut w, IcmpKind::ProtocolUnreachable, to, &sent[..8]);
        w.run(secs(1));
    }
    assert_eq!(w.states()[0], Some("Established"));
    assert!(
        w.events(0)
            .contains(&Event::PathPotentiallyFailed(PathId(0)))
    );
}
