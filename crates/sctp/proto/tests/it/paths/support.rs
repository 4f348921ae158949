//! Helpers shared by the modules.

use std::net::IpAddr;

use carrick_proto::{AssociationId, Event, PathId};

use carrick_wire::ChunkType;

use crate::common::*;

pub(crate) const SECOND: &str = "10.1.0.99";

/// A puppet with two addresses in an association of endpoint 0; the second is not verified.
pub(crate) fn two_homed(w: &mut World) -> (Puppet, AssociationId) {
    many_homed(w, &[ip(SECOND)])
}

pub(crate) fn many_homed(w: &mut World, more: &[IpAddr]) -> (Puppet, AssociationId) {
    let mut peer = Puppet::new();
    let answers = peer.init(w, |p| more.iter().for_each(|a| p.ip_address(*a)));
    peer.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    // Packets behind the COOKIE ACK, such as heartbeats, remain to be received.
    let bytes = peer.build(peer.peer_tag, |p| p.cookie_echo(&cookie));
    w.inject(0, &peer.route(), bytes);
    w.run(ms(0));
    let id = w.association(0);
    w.events(0);
    (peer, id)
}

/// The puppet at its second address.
pub(crate) fn at_second(peer: &Puppet) -> Puppet {
    let mut second = peer.clone();
    second.link.from = ip(SECOND);
    second.link.to = addresses(0)[1];
    second
}

pub(crate) fn heartbeats(packets: &[SentPacket]) -> Vec<&SentPacket> {
    packets
        .iter()
        .filter(|p| p.has(ChunkType::HEARTBEAT))
        .collect()
}

/// The puppet's second address is verified.
pub(crate) fn verified(w: &mut World) -> (Puppet, AssociationId) {
    let (peer, id) = two_homed(w);
    let replies = peer.receive(w);
    let heartbeat = heartbeats(&replies)[0].clone();
    at_second(&peer).answer_heartbeat(w, &heartbeat);
    assert_eq!(w.events(0), [Event::PathConfirmed(PathId(1))]);
    (peer, id)
}
