//! SCTP in UDP (RFC 6951): a port for each address of the peer, ports that translators change, and
//! paths with and without UDP in one association. Tests of several hosts behind one translator are
//! in `translators.rs`.

use crate::common;

use std::net::IpAddr;

use carrick_proto::{
    AssociationConfig, AssociationId, CloseReason, ConnectError, Event, IcmpInput, IcmpKind,
    OperationError, PathId, PathMtuDiscovery, PeerAddress, Route, VerificationTag,
};
use carrick_wire::{ChunkType, CommonHeader, PacketBuilder};
use common::*;

/// Connects endpoint 0 to the addresses of endpoint 1 with these encapsulations, until both are
/// established.
fn associate(w: &mut World, peers: &[PeerAddress]) -> (AssociationId, AssociationId) {
    let config = w.config.clone();
    let a = w.ends[0].associate(w.now, peers, port(1), config).unwrap();
    w.run(secs(3));
    assert_eq!(w.states(), [Some("Established"); 2]);
    (a, w.association(1))
}

/// The UDP ports of an association's paths, by address.
fn ways(w: &World, end: usize, id: AssociationId) -> Vec<(IpAddr, Option<u16>)> {
    let mut ways: Vec<_> = w
        .paths(end, id)
        .map(|p| (p.remote, p.encapsulation))
        .collect();
    ways.sort_unstable();
    ways
}

fn changes(w: &World, end: usize, id: AssociationId) -> u64 {
    w.stats(end, id).counters.encapsulation_changes
}

/// One path, with a translator at each end.
fn translated() -> (World, AssociationId, AssociationId) {
    let mut w = World::single_homed();
    rebind(&mut w, 0, 40_000);
    rebind(&mut w, 1, 50_000);
    let (a, b) = associate(
        &mut w,
        &[PeerAddress::encapsulated(addresses(1)[0], 50_000)],
    );
    (w, a, b)
}

/// Gives an endpoint another external port; the former one is no longer mapped.
fn rebind(w: &mut World, end: usize, port: u16) {
    let address = addresses(end)[0];
    w.translated.insert(address, (address, port));
}

/// RFC 6951, section 5.1
#[test]
fn each_peer_address_has_its_own_udp_port() {
    let mut w = World::new();
    for (end, address, port) in [(0, 0, 1001), (0, 1, 1002), (1, 0, 2001), (1, 1, 2002)] {
        let address = addresses(end)[address];
        w.translated.insert(address, (address, port));
    }
    let [first, second] = addresses(1);
    let peers = [
        PeerAddress::encapsulated(first, 2001),
        PeerAddress::encapsulated(second, 2002),
    ];
    let (a, b) = associate(&mut w, &peers);
    assert_eq!(ways(&w, 0, a), [(first, Some(2001)), (second, Some(2002))]);
    let [first, second] = addresses(0);
    assert_eq!(ways(&w, 1, b), [(first, Some(1001)), (second, Some(1002))]);
    for end in 0..2 {
        let id = [a, b][end];
        assert!(
            w.paths(end, id).all(|p| p.status.confirmed),
            "all paths are confirmed"
        );
    }
    // Addresses that only the peer lists are reached as the one that answered.
    assert_eq!(
        changes(&w, 0, a),
        0,
        "the configured ports are those of the packets"
    );
    assert_eq!(
        changes(&w, 1, b),
        1,
        "the second address is advertised without its port"
    );
}

/// RFC 6951, section 5.1
#[test]
fn one_path_uses_udp_and_another_plain_ip() {
    for udp_first in [true, false] {
        let mut w = World::new();
        // Two networks without a way between them.
        let network = |a: IpAddr| a == addresses(0)[1] || a == addresses(1)[1];
        w.rule(move |seen| {
            let across = network(seen.source()) != network(seen.to());
            if across { Verdict::Drop } else { Verdict::Pass }
        });
        let [first, second] = addresses(1);
        let peers = if udp_first {
            [
                PeerAddress::encapsulated(first, 9900),
                PeerAddress::plain(second),
            ]
        } else {
            [
                PeerAddress::plain(first),
                PeerAddress::encapsulated(second, 9900),
            ]
        };
        let (a, b) = associate(&mut w, &peers);
        let expected = |addresses: [IpAddr; 2], port| {
            let udp = usize::from(!udp_first);
            [0, 1].map(|i| (addresses[i], (i == udp).then_some(port)))
        };
        assert_eq!(ways(&w, 0, a), expected(addresses(1), 9900));
        assert_eq!(ways(&w, 1, b), expected(addresses(0), 9899));
        // Data leaves the path that fails, and comes back when it works again.
        for path in [0, 1] {
            w.log.clear();
            w.block(addresses(1)[path]);
            for _ in 0..20 {
                w.send(0, a, 0, pattern(3000));
                w.send(1, b, 0, pattern(3000));
                w.run(secs(10));
            }
            assert_eq!(w.receive(1, b).len(), 20, "path {path} is dead");
            assert_eq!(w.receive(0, a).len(), 20);
            w.unblock(addresses(1)[path]);
            w.run(secs(900));
            assert!(w.paths(0, a).all(|p| p.status.active));
            for seen in w.log.iter().filter(|s| !s.lost) {
                let in_udp = seen.route.encapsulation.is_some();
                let on_first = addresses(0)[0] == seen.to() || addresses(1)[0] == seen.to();
                assert_eq!(in_udp, on_first == udp_first, "{:?}", seen.route);
            }
        }
        assert_eq!(ways(&w, 0, a), expected(addresses(1), 9900));
        assert_eq!(
            (
                changes(&w, 0, a),
                w.stats(0, a).counters.duplicates_received
            ),
            (0, 0)
        );
    }
}

/// RFC 6951, section 5.4
#[test]
fn a_transfer_survives_new_ports_of_both_nats() {
    let (mut w, a, b) = translated();
    w.latency = ms(50);
    w.send(0, a, 0, pattern(60_000));
    w.run(ms(120));
    assert_eq!(w.receive(1, b).len(), 0, "in the middle of it");
    rebind(&mut w, 0, 41_000);
    w.run(secs(30));
    assert_eq!(w.receive_lengths(1, b), [60_000]);
    assert_eq!(ways(&w, 1, b), [(addresses(0)[0], Some(41_000))]);
    // Nothing reaches the receiver until it sends a packet: its heartbeat.
    w.send(0, a, 0, pattern(60_000));
    w.run(ms(120));
    rebind(&mut w, 1, 51_000);
    w.run(secs(100));
    assert_eq!(w.receive_lengths(1, b), [60_000]);
    assert_eq!(ways(&w, 0, a), [(addresses(1)[0], Some(51_000))]);
    // And both at once.
    w.send(0, a, 0, pattern(60_000));
    w.run(ms(120));
    rebind(&mut w, 0, 42_000);
    rebind(&mut w, 1, 52_000);
    w.run(ms(1));
    assert!(
        !w.run_until(secs(60), |w| w.receive(1, b).len() == 1),
        "neither side knows the new port of its peer"
    );
    assert_eq!((changes(&w, 0, a), changes(&w, 1, b)), (1, 1));
}

/// RFC 6951, section 5.4
#[test]
fn data_that_waits_is_sent_to_a_new_port_at_once() {
    for messages in [1, 20] {
        let (mut w, a, b) = translated();
        let (before, errors) = (w.data_sent(0), w.path(0, a, 0).error_count);
        assert_eq!((before, errors), (0, 0));
        // The peer's translator has forgotten its port.
        rebind(&mut w, 1, 51_000);
        for _ in 0..messages {
            w.send(0, a, 0, pattern(1000));
        }
        w.run(secs(9));
        let (sent, errors) = (w.data_sent(0), w.path(0, a, 0).error_count);
        assert_eq!(errors, 3, "T3-rtx after 1, 3 and 7 s");
        w.change(1, b).request_heartbeat(PathId(0)).expect("a path");
        w.run(ms(25));
        assert_eq!(
            w.data_sent(0),
            sent + 1,
            "one packet is all that cwnd admits"
        );
        assert_eq!(w.receive_lengths(1, b), [1000], "before T3-rtx at 15 s");
        assert!(w.path(0, a, 0).error_count <= errors);
        w.run(secs(2));
        assert_eq!(w.receive_lengths(1, b).len(), messages - 1);
    }
}

/// The peer changes its port with each packet, and acknowledges nothing.
#[test]
fn changing_ports_draw_no_flood() {
    let packets = |changes: bool| {
        let mut w = World::single(|config| config.paths.heartbeat = false);
        let mut peer = Puppet::new();
        peer.encapsulation = Some(40_000);
        let (mut peer, id) = peer.connect(&mut w);
        for _ in 0..20 {
            w.send(0, id, 0, pattern(1000));
        }
        w.run(ms(100));
        for n in 0..600_u16 {
            if changes {
                peer.encapsulation = Some(40_000 + n % 7);
            }
            peer.send(&mut w, |p| p.heartbeat(b"x"));
            w.run(ms(100));
        }
        w.data_sent(0)
    };
    let (without, with) = (packets(false), packets(true));
    assert!(without < with && with <= 2 * without, "{without}, {with}");
}

/// RFC 6951, section 5.4
#[test]
fn a_delayed_sack_goes_to_the_current_port() {
    let mut w = World::with(1, |_, _| {});
    let peer = Puppet {
        encapsulation: Some(1111),
        ..Puppet::new()
    };
    let (mut peer, id) = peer.connect(&mut w);
    assert_eq!(
        peer.data(&mut w, 0, 0, b"one").len(),
        1,
        "the first is acknowledged at once"
    );
    assert_eq!(
        peer.data(&mut w, 0, 1, b"two").len(),
        0,
        "the second is acknowledged with a delay"
    );
    peer.encapsulation = Some(2222);
    let beat = peer.send(&mut w, |p| p.heartbeat(b"x"));
    w.run(secs(1));
    let sacks: Vec<SentPacket> = beat.into_iter().chain(peer.receive(&mut w)).collect();
    assert!(sacks.iter().any(|s| s.has(ChunkType::SACK)));
    for seen in sacks {
        assert_eq!(seen.route.encapsulation, Some(2222), "{:?}", seen.kinds());
    }
    assert_eq!(changes(&w, 0, id), 1);
}

/// RFC 6951, section 5.4
#[test]
fn no_port_is_learned_from_a_wrong_tag() {
    let (mut w, a, b) = translated();
    let tag = w.sent(1, ChunkType::INIT_ACK)[0].init().tag.0;
    let peer_tag = w.sent(0, ChunkType::INIT)[0].init().tag.0;
    let before = ways(&w, 1, b);
    let kinds = [
        ChunkType::DATA,
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::SACK,
        ChunkType::HEARTBEAT,
        ChunkType::HEARTBEAT_ACK,
        ChunkType::SHUTDOWN,
        ChunkType::SHUTDOWN_ACK,
        ChunkType::ERROR,
        ChunkType::COOKIE_ECHO,
        ChunkType::COOKIE_ACK,
        ChunkType::ASCONF,
    ];
    for route in [
        Route::encapsulated(addresses(1)[0], addresses(0)[0], 666),
        Route::plain(addresses(1)[0], addresses(0)[0]),
    ] {
        for kind in kinds {
            for value in [&[][..], &[0, 1, 0, 8, 0, 0, 0, 0], &[1; 16]] {
                for wrong in [0, 1, tag ^ 1, peer_tag] {
                    let mut buf = Vec::new();
                    let header = CommonHeader {
                        source_port: port(0),
                        destination_port: port(1),
                        tag: VerificationTag(wrong),
                    };
                    let mut packet = PacketBuilder::new(&mut buf, header, 1000);
                    packet.raw(kind, 0, value);
                    packet.finish();
                    w.inject(1, &route, buf);
                }
            }
        }
    }
    // An INIT in due form, from where the peer is not: what answers it is another association.
    let stranger = Puppet {
        link: Link {
            end: 1,
            to: addresses(1)[0],
            from: addresses(0)[0],
        },
        encapsulation: Some(666),
        port: port(0),
        ..Puppet::new()
    };
    stranger.init(&mut w, |_| {});
    let init_ack = w
        .sent(1, ChunkType::INIT_ACK)
        .last()
        .copied()
        .unwrap()
        .clone();
    assert_eq!(init_ack.route.encapsulation, Some(666));
    // Without the endpoint's cookie it comes to nothing.
    stranger.send_with_tag(&mut w, init_ack.init().tag, |p| p.cookie_echo(&[7; 100]));
    assert_eq!(w.ends[1].associations().count(), 1);
    assert_eq!((ways(&w, 1, b), changes(&w, 1, b)), (before, 0));
    w.send(1, b, 0, pattern(100));
    w.run(secs(1));
    assert_eq!(w.receive_lengths(0, a), [100]);
}

/// RFC 6951, section 5.4
#[test]
fn no_port_is_learned_out_of_the_blue() {
    let (mut w, _, b) = translated();
    let (before, connected) = (ways(&w, 1, b), w.stats(1, b));
    // From the same address and UDP port that is not the association's, another SCTP port.
    let stranger = Puppet {
        link: Link {
            end: 1,
            to: addresses(1)[0],
            from: addresses(0)[0],
        },
        encapsulation: Some(666),
        port: 4999,
        ..Puppet::new()
    };
    let tag = VerificationTag(77);
    let heartbeat = stranger.build(tag, |p| p.heartbeat(b"x"));
    let data = stranger.build(tag, |p| {
        p.data(&Puppet::data_header(carrick_proto::Tsn::new(1), 0, 0), b"x");
    });
    let sent = w.log.len();
    w.inject(1, &stranger.route(), heartbeat);
    assert_eq!(
        w.log.len(),
        sent,
        "a heartbeat may be for another host: silence"
    );
    w.inject(1, &stranger.route(), data);
    assert!(
        w.log[sent].has(ChunkType::ABORT),
        "the ABORT goes to the sender of the packet"
    );
    assert_eq!(w.log[sent].route.encapsulation, Some(666));
    assert_eq!((ways(&w, 1, b), w.stats(1, b)), (before, connected));
}

/// RFC 6951, section 5.4
#[test]
fn the_set_up_uses_the_port_of_each_packet() {
    // The translator's port changes between INIT and COOKIE ECHO.
    let mut w = World::with(1, |_, _| {});
    let mut peer = Puppet {
        encapsulation: Some(1111),
        ..Puppet::new()
    };
    let answers = peer.init(&mut w, |_| {});
    assert_eq!(answers[0].route.encapsulation, Some(1111));
    peer.record_init(&answers[0]);
    peer.encapsulation = Some(2222);
    let answers = peer.send(&mut w, |p| p.cookie_echo(&Puppet::cookie(&answers[0])));
    assert!(answers[0].has(ChunkType::COOKIE_ACK));
    assert_eq!(answers[0].route.encapsulation, Some(2222));
    assert_eq!(
        ways(&w, 0, w.association(0)),
        [(peer.link.from, Some(2222))]
    );
    // INIT ACK from another port than the INIT went to: COOKIE ECHO goes there.
    let mut w = World::with(1, |_, _| {});
    let to = [PeerAddress::encapsulated(peer.link.from, 9899)];
    let config = w.config.clone();
    let id = w.ends[0].associate(w.now, &to, peer.port, config).unwrap();
    let init = peer.receive(&mut w);
    assert_eq!(init[0].route.encapsulation, Some(9899));
    peer.record_init(&init[0]);
    let echo = peer.answer_init(&mut w, |p| p.state_cookie(b"cookie"));
    assert!(echo[0].has(ChunkType::COOKIE_ECHO));
    assert_eq!(echo[0].route.encapsulation, Some(2222));
    assert_eq!(
        (ways(&w, 0, id), changes(&w, 0, id)),
        (vec![(peer.link.from, Some(2222))], 1)
    );
}

/// RFC 6951, section 6.1
#[test]
fn a_received_port_overrides_the_configured_one() {
    let (mut w, a, b) = translated();
    let set = |w: &mut World, path, port| w.change(0, a).set_encapsulation(PathId(path), port);
    assert_eq!(set(&mut w, 0, Some(0)), Err(OperationError::InvalidPort));
    assert_eq!(set(&mut w, 9, Some(1)), Err(OperationError::UnknownPath));
    assert_eq!(set(&mut w, 0, Some(1)), Ok(()));
    assert_eq!(ways(&w, 0, a)[0].1, Some(1));
    w.send(1, b, 0, pattern(10));
    w.run(secs(1));
    assert_eq!(ways(&w, 0, a)[0].1, Some(50_000));
    let peers = [PeerAddress::encapsulated(addresses(1)[0], 0)];
    let config = w.config.clone();
    let refused = w.ends[0].associate(w.now, &peers, 9, config);
    assert_eq!(refused, Err(ConnectError::InvalidPort));
}

/// RFC 6951, section 5.6
#[test]
fn the_udp_header_changes_the_packet_size() {
    let largest = |w: &World| {
        w.log
            .iter()
            .filter(|s| s.from == 0)
            .map(SentPacket::ip_len)
            .max()
            .unwrap()
    };
    let mut w = World::single_homed();
    let (a, b) = associate(&mut w, &[PeerAddress::plain(addresses(1)[0])]);
    for way in [None, Some(9900), None, Some(9900)] {
        w.change(0, a).set_encapsulation(PathId(0), way).unwrap();
        w.log.clear();
        for _ in 0..3 {
            w.send(0, a, 0, pattern(20_000));
        }
        w.run(secs(5));
        assert_eq!(w.receive_lengths(1, b), [20_000; 3]);
        assert_eq!(w.path(0, a, 0).mtu, 1500, "of IP packets");
        assert_eq!(w.path(1, b, 0).encapsulation, way.map(|_| 9899));
        assert_eq!(largest(&w), 1500, "full packets use the whole MTU");
        assert!(w.log.iter().all(|s| !s.may_fragment));
    }
}

/// RFC 9260, section 6.9
#[test]
fn full_chunks_still_fit_after_encapsulation() {
    let mut w = World::single_homed();
    let (a, b) = associate(&mut w, &[PeerAddress::plain(addresses(1)[0])]);
    w.lose_data(0, &[0, 1, 2, 3]);
    w.send(0, a, 0, pattern(5000));
    w.run(ms(5));
    w.change(0, a)
        .set_encapsulation(PathId(0), Some(9900))
        .unwrap();
    w.log.clear();
    w.run(secs(5));
    assert_eq!(w.receive_lengths(1, b), [5000]);
    let large = w.log.iter().filter(|s| s.ip_len() > 1500);
    assert_eq!(
        large.filter(|s| s.may_fragment).count(),
        3,
        "IP fragments what was too large"
    );
}

/// RFC 8899, section 6.2
/// RFC 6951, section 5.6
#[test]
fn the_discovered_mtu_includes_the_udp_header() {
    let config = AssociationConfig::rfc9260()
        .with(|c| c.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default()));
    let mut w = World::with(2, |_, c| {
        c.local_addresses.truncate(1);
        c.association = config.clone();
    });
    w.config = config;
    w.narrow(0, 1400);
    let (a, b) = associate(&mut w, &[PeerAddress::plain(addresses(1)[0])]);
    w.run(secs(60));
    assert_eq!(w.path(0, a, 0).mtu, 1400);
    w.change(0, a)
        .set_encapsulation(PathId(0), Some(9900))
        .unwrap();
    w.log.clear();
    w.send(0, a, 0, pattern(50_000));
    w.run(secs(10));
    assert_eq!(w.receive_lengths(1, b), [50_000]);
    let data = w.log.iter().filter(|s| s.has(ChunkType::DATA));
    let sizes: Vec<usize> = data.map(SentPacket::ip_len).collect();
    assert_eq!(sizes.iter().max(), Some(&1400), "{sizes:?}");
    assert_eq!(
        w.stats(0, a).counters.timeout_retransmissions,
        0,
        "no packet was lost"
    );
}

/// Delivers an ICMP message about a packet of endpoint 0; returns whether it was accepted.
fn icmp(w: &mut World, kind: IcmpKind, remote: IpAddr, encapsulation: Option<u16>) -> bool {
    let about = w.log.iter().rfind(|s| s.from == 0 && !s.tag().is_zero());
    let quoted = about.expect("a packet").bytes.clone();
    let input = IcmpInput {
        kind,
        remote,
        encapsulation,
        quoted: &quoted[..12],
    };
    let before = w.ends[0].stats().icmp_accepted;
    w.ends[0].handle_icmp(w.now, &input);
    w.pump();
    w.ends[0].stats().icmp_accepted > before
}

/// RFC 6951, section 5.5
#[test]
fn icmp_about_a_former_port_is_ignored() {
    let (mut w, a, b) = translated();
    let peer = addresses(1)[0];
    rebind(&mut w, 1, 51_000);
    w.send(1, b, 0, pattern(10));
    w.run(secs(1));
    w.events(0);
    let kinds = [
        IcmpKind::PortUnreachable,
        IcmpKind::ProtocolUnreachable,
        IcmpKind::DestinationUnreachable,
        IcmpKind::PacketTooBig { mtu: 600 },
    ];
    for kind in kinds {
        for old in [Some(50_000), None] {
            assert!(!icmp(&mut w, kind, peer, old), "{kind:?} {old:?}");
        }
    }
    assert_eq!((w.events(0), w.path(0, a, 0).mtu), (vec![], 1500));
    assert!(icmp(
        &mut w,
        IcmpKind::PacketTooBig { mtu: 1000 },
        peer,
        Some(51_000)
    ));
    assert_eq!(w.path(0, a, 0).mtu, 1000);
    assert!(icmp(&mut w, IcmpKind::PortUnreachable, peer, Some(51_000)));
    assert_eq!(
        w.events(0),
        [Event::Closed(CloseReason::ProtocolUnreachable)]
    );
}

/// RFC 6951, section 5.5
#[test]
fn one_unreachable_port_leaves_other_paths_working() {
    let mut w = World::new();
    let [first, second] = addresses(1);
    let peers = [
        PeerAddress::encapsulated(first, 9900),
        PeerAddress::plain(second),
    ];
    let (a, _) = associate(&mut w, &peers);
    w.events(0);
    for _ in 0..6 {
        assert!(icmp(&mut w, IcmpKind::PortUnreachable, first, Some(9900)));
    }
    let status = w.path(0, a, 0).status;
    assert!(!status.active, "the path is inactive");
    assert!(!w.events(0).iter().any(|e| matches!(e, Event::Closed(_))));
    // The association continues on the last working path.
    assert!(icmp(&mut w, IcmpKind::ProtocolUnreachable, second, None));
    assert_eq!(
        w.events(0),
        [Event::Closed(CloseReason::ProtocolUnreachable)]
    );
}
