//! Helpers shared by the modules.

use carrick_proto::{
    AssociationConfig, AssociationId, Event, Extensions, Reliability, SendFailure, SendOptions,
};
use carrick_wire::{Chunk, Tsn};

use crate::common::*;

/// The payload that fills a packet.
pub(crate) const FULL: usize = 1452;

pub(crate) const PARTIAL: Extensions = Extensions {
    partial_reliability: true,
    ..Extensions::NONE
};

/// Two connected endpoints that offer partial reliability.
pub(crate) fn connected() -> (World, AssociationId, AssociationId) {
    let config = AssociationConfig::rfc9260().with(|c| c.extensions = PARTIAL);
    World::pair([config.clone(), config]).connected()
}

/// An endpoint with a puppet as its peer that takes FORWARD-TSN if `able`.
pub(crate) fn puppet(able: bool, a_rwnd: u32) -> (World, Puppet, AssociationId) {
    let mut w = World::with(1, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = PARTIAL;
    });
    w.config.extensions = PARTIAL;
    let mut peer = Puppet::new();
    peer.a_rwnd = a_rwnd;
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| {
        if able {
            p.forward_tsn_supported();
        }
        p.state_cookie(b"cookie");
    });
    peer.send(&mut w, |p| p.cookie_ack());
    w.change(0, id)
        .set_heartbeat(carrick_proto::PathId(0), false)
        .unwrap();
    w.events(0);
    (w, peer, id)
}

pub(crate) fn with(reliability: Reliability, context: u64) -> SendOptions {
    SendOptions {
        reliability,
        context,
        ..SendOptions::default()
    }
}

pub(crate) fn timed(millis: u64) -> Reliability {
    Reliability::Timed(ms(millis))
}

pub(crate) fn failures(events: &[Event]) -> Vec<&SendFailure> {
    let failed = events.iter().filter_map(|e| match e {
        Event::SendFailed(failure) => Some(&**failure),
        _ => None,
    });
    failed.collect()
}

pub(crate) fn contexts(events: &[Event]) -> Vec<u64> {
    failures(events).iter().map(|f| f.context).collect()
}

/// The FORWARD-TSNs in these packets: the new cumulative TSN and the streams skipped.
pub(crate) fn forwards(packets: &[SentPacket]) -> Vec<(Tsn, Vec<(u16, u16)>)> {
    let mut all = Vec::new();
    for packet in packets {
        for chunk in packet.chunks() {
            if let Chunk::ForwardTsn(forward) = chunk {
                let skipped = forward.skipped().map(|(s, n)| (s.0, n.value()));
                all.push((forward.new_cumulative_tsn, skipped.collect()));
            }
        }
    }
    all
}

pub(crate) fn numbers(w: &mut World, end: usize, id: AssociationId) -> Vec<u8> {
    let all = w.receive(end, id);
    all.iter()
        .map(|m| m.payload.clone().into_bytes()[0])
        .collect()
}

/// Full messages of one packet each, their number in the first byte.
pub(crate) fn message(number: u8, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[0] = number;
    bytes
}
