//! Helpers shared by the modules.

use std::net::IpAddr;

use carrick_proto::{
    AssociationId, IcmpInput, IcmpKind, PathMtuDiscovery, PathMtuState, Route, Transmit,
};
use carrick_wire::ChunkType;

use crate::common::*;

/// Two single-homed endpoints, of which the first searches the path MTU.
pub(crate) fn searching(change: impl FnOnce(&mut PathMtuDiscovery)) -> World {
    let mut w = World::single_homed();
    let mut discovery = PathMtuDiscovery::default();
    change(&mut discovery);
    w.config.mtu.path_mtu_discovery = Some(discovery);
    w
}

/// One endpoint with one address that searches the path MTU of accepted associations.
pub(crate) fn searching_server() -> World {
    World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default());
    })
}

/// Connected over links with this MTU, after the search.
pub(crate) fn searched(mtu: usize) -> (World, AssociationId, AssociationId) {
    let mut w = searching(|_| {});
    w.narrow(0, mtu);
    let (a, b) = w.connect();
    assert!(
        w.run_until(secs(120), |w| complete(w, a)),
        "{:?}",
        w.path(0, a, 0)
    );
    (w, a, b)
}

pub(crate) fn state(w: &World, a: AssociationId) -> PathMtuState {
    w.path(0, a, 0)
        .mtu_discovery
        .expect("path MTU discovery is enabled")
}

pub(crate) fn complete(w: &mut World, a: AssociationId) -> bool {
    state(w, a) == PathMtuState::SearchComplete
}

pub(crate) fn mtu(w: &World, a: AssociationId) -> usize {
    w.path(0, a, 0).mtu
}

/// Sizes of the probes in the log.
pub(crate) fn probes(w: &World) -> Vec<usize> {
    let all = w.log.iter().filter(|p| p.probe);
    all.map(SentPacket::ip_len).collect()
}

/// Number of probes sent on a path.
pub(crate) fn probes_sent(w: &World, a: AssociationId, path: u8) -> u64 {
    w.path(0, a, path).mtu_probes_sent
}

/// Sends a message of this size; returns the last DATA packet that leaves at once.
pub(crate) fn data_in_flight(w: &mut World, a: AssociationId, bytes: usize) -> SentPacket {
    w.send(0, a, 0, pattern(bytes));
    w.pump();
    let sent = w.sent(0, ChunkType::DATA);
    (*sent.last().expect("data")).clone()
}

/// Refuses the packet from this address, as the host does, with the MTU of its route.
pub(crate) fn refuse(
    w: &mut World,
    packet: &SentPacket,
    local: Option<IpAddr>,
    route_mtu: Option<usize>,
) {
    let transmit = Transmit {
        route: Route {
            local,
            ..packet.route
        },
        len: packet.bytes.len(),
        segment_size: None,
        may_fragment: false,
        probe: packet.probe,
        dscp: 0,
    };
    let now = w.now;
    w.ends[0].handle_oversized(now, &transmit, &packet.bytes, route_mtu);
}

pub(crate) fn too_big(w: &mut World, about: &SentPacket, mtu: usize) -> bool {
    let before = w.ends[0].stats().icmp_accepted;
    let input = IcmpInput {
        kind: IcmpKind::PacketTooBig { mtu },
        remote: about.to(),
        encapsulation: None,
        quoted: &about.bytes[..8],
    };
    w.ends[0].handle_icmp(w.now, &input);
    w.pump();
    w.ends[0].stats().icmp_accepted > before
}
