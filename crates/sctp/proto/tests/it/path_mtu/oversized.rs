//! Chunks that exceed the path MTU after a black hole. Routers do not fragment IPv6, and a sender
//! fragments only packets above the MTU of its link (RFC 8200, section 5), so packets are padded
//! beyond it.

use carrick_proto::{
    AssociationConfig, AssociationId, MatchingAddress, PathMtuDiscovery, SourceSelection,
    StreamDirection,
};
use carrick_wire::{ChunkType, StreamId};

use crate::common::*;
use crate::path_mtu::support::*;

/// Differences between the scenarios.
struct OversizedCase {
    v6: bool,
    udp: bool,
    routes: fn() -> Box<dyn SourceSelection>,
    change: fn(&mut AssociationConfig),
}

/// Plain IPv6, from hosts that know the MTU of their links.
const V6: OversizedCase = OversizedCase {
    v6: true,
    udp: false,
    routes: || Box::new(KnownRoutes(LINK_MTU)),
    change: |_| {},
};

/// Connected over a path that took 1500 bytes and takes 1400 now. What `begin` does, and 50,000
/// bytes behind it, has had 20 seconds.
fn black_hole(way: &OversizedCase, begin: fn(&mut World, AssociationId)) -> (World, AssociationId) {
    let address = |end: usize| {
        let v4 = addresses(end)[0];
        if way.v6 { in_v6(v4) } else { v4 }
    };
    let mut w = World::with(2, |end, c| {
        c.local_addresses = vec![address(end)];
        c.source_selection = (way.routes)();
        (way.change)(&mut c.association);
    });
    w.config = w.ends[0].default_config().as_ref().clone();
    w.config.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default());
    w.narrow(0, LINK_MTU);
    let udp = way.udp.then_some(w.udp_ports[1]);
    let config = w.config.clone();
    let a = w.ends[0].connect(w.now, &[address(1)], port(1), udp, config);
    let a = a.expect("connect");
    assert!(w.run_until(secs(120), |w| complete(w, a)));
    assert_eq!(mtu(&w, a), LINK_MTU);
    w.clear_rules();
    w.narrow(0, 1400);
    w.log.clear();
    begin(&mut w, a);
    w.send(0, a, 0, pattern(50_000));
    w.run(secs(20));
    assert!(mtu(&w, a) <= 1400, "the black hole was found");
    (w, a)
}

fn received(w: &mut World) -> Vec<usize> {
    let b = w.association(1);
    w.receive_lengths(1, b)
}

/// Packets with a chunk of this type that IP has to fragment.
fn oversized(w: &World, kind: ChunkType) -> Vec<&SentPacket> {
    let sent = w.sent(0, kind).into_iter();
    sent.filter(|p| p.may_fragment).collect()
}

/// RFC 4820, section 3
/// RFC 8200, section 5
#[test]
fn on_ipv6_padding_forces_fragmentation_by_the_sender() {
    for udp in [false, true] {
        let (mut w, _) = black_hole(&OversizedCase { udp, ..V6 }, |_, _| {});
        assert_eq!(received(&mut w), [50_000], "in UDP: {udp}");
        let filled = oversized(&w, ChunkType::DATA);
        assert!(!filled.is_empty());
        for packet in filled {
            assert_eq!(packet.kinds(), [ChunkType::PAD, ChunkType::DATA]);
            let size = packet.ip_len();
            assert!(size > LINK_MTU && size <= LINK_MTU + 4, "{size} bytes");
        }
    }
}

/// RFC 4895, section 6.2
#[test]
fn padding_is_authenticated_when_required() {
    let change = |c: &mut AssociationConfig| {
        c.extensions.authentication = true;
        c.security.authentication.required = vec![ChunkType::DATA, ChunkType::PAD];
    };
    let (mut w, _) = black_hole(&OversizedCase { change, ..V6 }, |_, _| {});
    assert_eq!(received(&mut w), [50_000]);
    let filled = oversized(&w, ChunkType::DATA);
    assert!(!filled.is_empty());
    for packet in filled {
        let expected = [ChunkType::AUTH, ChunkType::PAD, ChunkType::DATA];
        assert_eq!(packet.kinds(), expected);
        assert!(packet.ip_len() > LINK_MTU);
    }
}

/// RFC 6525, section 5.1.1
#[test]
fn a_long_reset_request_passes_the_black_hole() {
    let change = |c: &mut AssociationConfig| {
        c.extensions.reconfiguration = true;
        c.streams.outbound_streams = 1000;
        c.streams.max_inbound_streams = 1000;
    };
    let (mut w, a) = black_hole(&OversizedCase { change, ..V6 }, |w, a| {
        let streams: Vec<_> = (1..=690).map(StreamId).collect();
        let asked = w
            .change(0, a)
            .reset_streams(StreamDirection::Outgoing, &streams);
        asked.expect("it leaves at once");
    });
    assert_eq!(received(&mut w), [50_000]);
    let requests = oversized(&w, ChunkType::RE_CONFIG);
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|p| p.ip_len() > LINK_MTU));
    let again = [StreamId(1)];
    let asked = w
        .change(0, a)
        .reset_streams(StreamDirection::Outgoing, &again);
    asked.expect("the previous request is complete");
}

/// A packet that needs much padding takes further chunks instead.
///
/// RFC 4820, section 3
#[test]
fn a_wider_route_bundles_several_chunks() {
    let routes: fn() -> Box<dyn SourceSelection> = || Box::new(KnownRoutes(9000));
    let (mut w, _) = black_hole(&OversizedCase { routes, ..V6 }, |_, _| {});
    assert_eq!(received(&mut w), [50_000]);
    let filled = oversized(&w, ChunkType::DATA);
    assert!(filled.iter().all(|p| p.ip_len() > 9000));
    let chunks: Vec<usize> = filled.iter().map(|p| p.user_data().len()).collect();
    assert!(chunks.iter().any(|count| *count > 1), "{chunks:?}");
}

/// RFC 4820, section 3
#[test]
fn on_ipv4_or_an_unknown_route_nothing_is_padded() {
    let unknown = OversizedCase {
        routes: || Box::new(MatchingAddress),
        ..V6
    };
    for (way, expected) in [
        (OversizedCase { v6: false, ..V6 }, &[50_000][..]),
        (unknown, &[]),
    ] {
        let (mut w, _) = black_hole(&way, |_, _| {});
        assert_eq!(received(&mut w), expected, "IPv6: {}", way.v6);
        let sent = oversized(&w, ChunkType::DATA);
        assert!(!sent.is_empty());
        assert!(sent.iter().all(|p| !p.has(ChunkType::PAD)));
    }
}
