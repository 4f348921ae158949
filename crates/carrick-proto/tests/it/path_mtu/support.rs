//! What the modules share.

use std::net::IpAddr;

use carrick_proto::{
    AssociationId, IcmpInput, IcmpKind, PathMtuDiscovery, PathMtuState, Route, Transmit,
};
use carrick_wire::ChunkType;

use crate::common::*;

/// Two single-homed endpoints, of which the first looks for the path MTU.
pub(crate) fn world(change: impl FnOnce(&mut PathMtuDiscovery)) -> World {
    let mut w = World::single_homed();
    let mut discovery = PathMtuDiscovery::default();
    change(&mut discovery);
    w.config.path_mtu_discovery = Some(discovery);
    w
}

/// One endpoint with one address, which looks for the path MTU to whoever connects.
pub(crate) fn searching_server() -> World {
    World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.path_mtu_discovery = Some(PathMtuDiscovery::default());
    })
}

/// Connected over links that take this much, after the search.
pub(crate) fn searched(mtu: usize) -> (World, AssociationId, AssociationId) {
    let mut w = world(|_| {});
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
    w.path(0, a, 0).mtu_discovery.expect("it is on")
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
    all.map(Seen::ip_len).collect()
}

/// Probes that left on a path.
pub(crate) fn probes_sent(w: &World, a: AssociationId, path: u8) -> u64 {
    w.path(0, a, path).mtu_probes_sent
}

/// Sends so many bytes; the last packet with DATA that leaves at once.
pub(crate) fn data_in_flight(w: &mut World, a: AssociationId, bytes: usize) -> Seen {
    w.send(0, a, 0, pattern(bytes));
    w.pump();
    let sent = w.sent(0, ChunkType::DATA);
    (*sent.last().expect("data")).clone()
}

/// The host refuses a probe that was to leave from this address.
pub(crate) fn refuse(w: &mut World, probe: &Seen, local: Option<IpAddr>) {
    let transmit = Transmit {
        route: Route {
            local,
            ..probe.route
        },
        len: probe.bytes.len(),
        segment_size: None,
        may_fragment: false,
        probe: true,
    };
    let now = w.now;
    w.ends[0].handle_refused_probe(now, &transmit, &probe.bytes);
}

pub(crate) fn too_big(w: &mut World, about: &Seen, mtu: usize) -> bool {
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
