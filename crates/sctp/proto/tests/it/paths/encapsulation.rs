//! UDP ports of a path (RFC 6951 section 5.4).

use carrick_proto::{AssociationId, Route};
use carrick_wire::{ChunkType, VerificationTag};

use crate::common::*;

fn encapsulated(w: &mut World) -> (AssociationId, AssociationId) {
    let a = w.ends[0]
        .connect(
            w.now,
            &[addresses(1)[0]],
            port(1),
            Some(9900),
            w.config.clone(),
        )
        .unwrap();
    w.run(secs(3));
    (a, w.association(1))
}

/// RFC 6951, section 5.4
#[test]
fn the_port_follows_valid_packets() {
    let mut w = World::single_homed();
    let (a, b) = encapsulated(&mut w);
    assert_eq!(w.path(0, a, 0).encapsulation, Some(9900));
    assert_eq!(w.path(1, b, 0).encapsulation, Some(9899));
    w.send(0, a, 0, pattern(20_000));
    w.run(secs(1));
    assert_eq!(w.receive_lengths(1, b), [20_000]);
    // A translator gives endpoint 0 another port.
    w.udp_ports[0] = 40_000;
    w.send(0, a, 0, pattern(20_000));
    w.run(secs(1));
    assert_eq!(w.path(1, b, 0).encapsulation, Some(40_000));
    assert_eq!(w.receive_lengths(1, b), [20_000]);
}

/// RFC 6951, section 5.4
#[test]
fn the_port_ignores_packets_with_a_wrong_tag() {
    let mut w = World::single_homed();
    let (a, b) = encapsulated(&mut w);
    let forge = |w: &mut World, kind: ChunkType, value: &[u8], tag: u32| {
        let mut buf = Vec::new();
        let header = carrick_wire::CommonHeader {
            source_port: port(0),
            destination_port: port(1),
            tag: VerificationTag(tag),
        };
        let mut packet = carrick_wire::PacketBuilder::new(&mut buf, header, 1000);
        packet.raw(kind, 0, value);
        packet.finish();
        let route = Route::encapsulated(addresses(1)[0], addresses(0)[0], 666);
        w.inject(1, &route, buf);
    };
    let tag = w.sent(1, ChunkType::INIT_ACK)[0].init().tag.0;
    let kinds = [
        ChunkType::HEARTBEAT,
        ChunkType::SACK,
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::COOKIE_ECHO,
        ChunkType::COOKIE_ACK,
        ChunkType::SHUTDOWN_ACK,
        ChunkType::ERROR,
    ];
    for kind in kinds {
        for value in [&[][..], &[0, 1, 0, 8, 0, 0, 0, 0], &[1; 16]] {
            for wrong in [0, 1, tag ^ 1] {
                forge(&mut w, kind, value, wrong);
            }
        }
    }
    assert_eq!(w.path(1, b, 0).encapsulation, Some(9899));
    w.send(1, b, 0, pattern(100));
    w.run(secs(1));
    assert_eq!(w.receive_lengths(0, a), [100]);
}

/// RFC 6951, section 5.4
#[test]
fn a_plain_packet_ends_the_encapsulation() {
    let mut w = World::with(1, |_, c| c.local_addresses.truncate(1));
    let (peer, id) = Puppet::new().connect(&mut w);
    let encapsulated = Route::encapsulated(peer.link.to, peer.link.from, 777);
    let heartbeat = peer.build(peer.peer_tag, |p| p.heartbeat(b"x"));
    w.inject(0, &encapsulated, heartbeat.clone());
    assert_eq!(w.path(0, id, 0).encapsulation, Some(777));
    w.inject(0, &peer.route(), heartbeat);
    assert_eq!(w.path(0, id, 0).encapsulation, None);
}
