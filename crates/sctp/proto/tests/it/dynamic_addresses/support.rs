//! Helpers shared by the modules.

use std::net::IpAddr;

use carrick_proto::{AddressEvent, AssociationConfig, AssociationId, Event};
use carrick_wire::{
    AsconfSerial, CauseCode, Chunk, ChunkType, CorrelationId, Parameter, ParameterWriter,
};

use crate::common::*;

pub(crate) fn dynamic() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.extensions.authentication = true;
    config.extensions.dynamic_addresses = true;
    config
}

pub(crate) fn open() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.extensions.dynamic_addresses = true;
    config.security.dynamic_addresses_without_authentication = true;
    config
}

pub(crate) fn world_of(config: &AssociationConfig, homes: usize) -> World {
    let mut w = World::with(2, |_, c| {
        c.association = config.clone();
        c.local_addresses.truncate(homes);
    });
    w.config = config.clone();
    w
}

/// Two endpoints with one address each; a second one can be added.
pub(crate) fn single() -> (World, AssociationId, AssociationId) {
    let mut w = world_of(&dynamic(), 1);
    let (a, b) = w.connect();
    assert!(w.stats(0, a).extensions.dynamic_addresses);
    (w, a, b)
}

pub(crate) fn double() -> (World, AssociationId, AssociationId) {
    let mut w = world_of(&dynamic(), 2);
    let (a, b) = w.connect();
    (w, a, b)
}

pub(crate) fn remotes(w: &World, end: usize, id: AssociationId) -> Vec<IpAddr> {
    w.paths(end, id).map(|p| p.remote).collect()
}

pub(crate) fn address_events(w: &mut World, end: usize) -> Vec<AddressEvent> {
    let events = w.events(end).into_iter();
    events
        .filter_map(|e| match e {
            Event::Address(event) => Some(event),
            _ => None,
        })
        .collect()
}

/// Checks that 100 messages each way arrive once and in order.
pub(crate) fn exchange(w: &mut World, a: AssociationId, b: AssociationId) {
    for n in 0..100 {
        w.send(0, a, 0, pattern(1000 + n));
        w.send(1, b, 0, pattern(500 + n));
    }
    w.run(secs(60));
    let lengths = |from: usize| (0..100).map(|n| from + n).collect::<Vec<_>>();
    assert_eq!(w.receive_lengths(1, b), lengths(1000));
    assert_eq!(w.receive_lengths(0, a), lengths(500));
}

pub(crate) fn asconfs(w: &World, end: usize) -> Vec<AsconfSerial> {
    let sent = w.sent(end, ChunkType::ASCONF);
    let chunks = sent.iter().flat_map(|p| p.chunks());
    chunks
        .filter_map(|c| match c {
            Chunk::Asconf(asconf) => Some(asconf.serial),
            _ => None,
        })
        .collect()
}

/// A puppet with dynamic addresses that needs no authentication.
pub(crate) fn puppet() -> (World, Puppet, AssociationId) {
    puppet_with(&open())
}

pub(crate) fn puppet_with(config: &AssociationConfig) -> (World, Puppet, AssociationId) {
    let mut w = world_of(config, 1);
    let mut puppet = Puppet::new();
    let answers = puppet.init(&mut w, |p| {
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
    });
    puppet.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    puppet.send(&mut w, |p| p.cookie_echo(&cookie));
    w.events(0);
    let id = w.association(0);
    (w, puppet, id)
}

pub(crate) const ONE: CorrelationId = CorrelationId(1);
pub(crate) const TWO: CorrelationId = CorrelationId(2);

/// Sends an ASCONF with this serial number, counted from the first.
pub(crate) fn send_asconf(
    w: &mut World,
    puppet: &Puppet,
    number: u32,
    requests: impl FnOnce(&mut ParameterWriter<'_>),
) -> Vec<SentPacket> {
    let serial = AsconfSerial::new(puppet.tsn.plus(number).value());
    let from = puppet.link.from;
    puppet.send(w, |p| p.asconf(serial, from, requests))
}

/// The causes in the answer, with what they belong to; `None` for a success.
pub(crate) fn answers(seen: &[SentPacket]) -> Vec<(CorrelationId, Option<CauseCode>)> {
    let chunks = seen.iter().flat_map(|p| p.chunks());
    let acks = chunks.filter_map(|c| match c {
        Chunk::AsconfAck(ack) => Some(ack.parameters().collect::<Vec<_>>()),
        _ => None,
    });
    acks.flatten()
        .map(|p| match Parameter::parse(p.expect("an answer").raw) {
            Ok(Parameter::ErrorCauseIndication(mut e)) => {
                let cause = e.causes.next().expect("a cause").expect("well formed");
                (e.correlation_id, Some(cause.code))
            }
            Ok(Parameter::SuccessIndication(id)) => (id, None),
            other => panic!("{other:?}"),
        })
        .collect()
}

pub(crate) fn acks(seen: &[SentPacket]) -> usize {
    seen.iter().filter(|p| p.has(ChunkType::ASCONF_ACK)).count()
}
