//! Attempts to bypass the protection by clear packets that match the association by something
//! other than their source address, and hosts behind the same address that the protection does not
//! affect.

use bytes::Bytes;
use carrick_proto::{AssociationId, Event, Route, StateName, VerificationTag};
use carrick_wire::{ChunkType, CommonHeader, PacketBuilder};

use super::toy::{Offer, PARAMETER, SEALED};
use super::{CLIENT, SERVER, both_offering, protect, protected, toy};
use crate::common::{Puppet, SentPacket, World, addresses, ip, port, secs};

/// Packets that an observer of the network has recorded.
struct Observed {
    tag: VerificationTag,
    cookie: Bytes,
}

fn observed() -> (World, (AssociationId, AssociationId), Observed) {
    let mut world = both_offering();
    let ids = world.connect();
    let echo: SentPacket = world.sent(CLIENT, ChunkType::COOKIE_ECHO)[0].clone();
    let packet = echo.packet();
    let chunk = packet.chunks().next().unwrap().unwrap();
    let observed = Observed {
        tag: echo.tag(),
        cookie: Bytes::copy_from_slice(chunk.value),
    };
    world.run(secs(5));
    protect(&mut world, ids, 1);
    world.log.clear();
    world.events(SERVER);
    (world, ids, observed)
}

/// A packet with the client's port, from an unused address.
fn inject(world: &mut World, tag: VerificationTag, write: impl FnOnce(&mut PacketBuilder<'_>)) {
    let header = CommonHeader {
        source_port: port(CLIENT),
        destination_port: port(SERVER),
        tag,
    };
    let mut bytes = Vec::new();
    let mut packet = PacketBuilder::new(&mut bytes, header, 1400);
    write(&mut packet);
    packet.finish();
    let route = Route::plain(addresses(SERVER)[0], ip("10.0.0.99"));
    world.inject(SERVER, &route, bytes);
}

/// An ASCONF without a request, about the client's first address.
fn asconf() -> Vec<u8> {
    let std::net::IpAddr::V4(address) = addresses(CLIENT)[0] else {
        panic!("the world has IPv4 addresses");
    };
    let mut value = vec![0, 0, 0, 1, 0, 5, 0, 8];
    value.extend(address.octets());
    value
}

fn data(packet: &mut PacketBuilder<'_>) {
    packet.data(&Puppet::data_header(carrick_proto::Tsn::new(1), 0, 0), b"x");
}

fn is_untouched(world: &mut World, id: AssociationId, dropped: u64) {
    assert_eq!(world.ends[SERVER].stats().unprotected, dropped);
    assert_eq!(world.stats(SERVER, id).state, StateName::Established);
    assert_eq!(world.events(SERVER), []);
    world.run(secs(1));
    assert!(
        world
            .log
            .iter()
            .all(|s| s.from != SERVER || s.kinds() == [SEALED])
    );
}

/// RFC 5061, section 5.2
#[test]
fn an_asconf_in_front_admits_no_unknown_address() {
    let (mut world, ids, observed) = observed();
    let before = world.stats(SERVER, ids.1).counters;
    inject(&mut world, observed.tag, |p| {
        p.raw(ChunkType::ASCONF, 0, &asconf());
        data(p);
    });
    inject(&mut world, observed.tag, |p| {
        p.raw(ChunkType::ASCONF, 0, &asconf());
        p.abort(false, |_| {});
    });
    assert_eq!(world.stats(SERVER, ids.1).counters, before);
    is_untouched(&mut world, ids.1, 2);
}

/// RFC 9260, section 5.2.4
#[test]
fn a_recorded_cookie_admits_no_unknown_address() {
    let (mut world, ids, observed) = observed();
    let before = world.stats(SERVER, ids.1).counters;
    inject(&mut world, observed.tag, |p| {
        p.cookie_echo(&observed.cookie);
        data(p);
    });
    inject(&mut world, observed.tag, |p| {
        p.cookie_echo(&observed.cookie);
        p.abort(false, |_| {});
    });
    assert_eq!(world.stats(SERVER, ids.1).counters, before);
    is_untouched(&mut world, ids.1, 2);
}

/// RFC 9260, section 5.2.4
#[test]
fn a_clear_restart_cookie_from_elsewhere_is_dropped() {
    let (mut world, ids, _) = observed();
    let mut spoofer = Puppet::new();
    spoofer.link.end = SERVER;
    spoofer.link.to = addresses(SERVER)[0];
    spoofer.link.from = addresses(CLIENT)[0];
    spoofer.port = port(CLIENT);
    spoofer.init(&mut world, |_| {});
    let answer = world.sent(SERVER, ChunkType::INIT_ACK)[0].clone();
    spoofer.record_init(&answer);
    let cookie = Puppet::cookie(&answer);
    world.run(secs(1));
    world.log.clear();
    inject(&mut world, spoofer.peer_tag, |p| p.cookie_echo(&cookie));
    assert!(!world.events(SERVER).contains(&Event::Restarted));
    is_untouched(&mut world, ids.1, 1);
}

/// RFC 9260, section 5.2.2
#[test]
fn an_init_listing_a_known_address_needs_admission() {
    let (mut world, ids, _) = observed();
    toy(&mut world.ends[SERVER], ids.1).shut();
    let mut stranger = Puppet::new();
    stranger.link.end = SERVER;
    stranger.link.to = addresses(SERVER)[0];
    stranger.port = port(CLIENT);
    let answers = stranger.init(&mut world, |p| p.ip_address(addresses(CLIENT)[0]));
    assert!(answers.is_empty());
    is_untouched(&mut world, ids.1, 1);
}

/// A host behind a translator, in UDP from this port.
fn behind(translated: u16) -> Puppet {
    let mut host = Puppet::new();
    host.link.end = SERVER;
    host.link.to = addresses(SERVER)[0];
    host.encapsulation = Some(translated);
    host.tag = VerificationTag(u32::from(translated));
    host
}

/// RFC 6951, section 3.2
#[test]
fn protection_does_not_affect_hosts_behind_the_nat() {
    let mut world = both_offering();
    let offer = |p: &mut carrick_wire::ParameterWriter<'_>| p.raw(PARAMETER, &[0, 1]);
    let (_, first) = behind(40_001).connect_with(&mut world, offer);
    let hook = toy(&mut world.ends[SERVER], first);
    hook.lock();
    hook.send_with(9);
    let (mut other, second) = behind(40_002).connect_with(&mut world, |_| {});
    assert_ne!(first, second);
    other.data(&mut world, 0, 0, b"hello");
    assert_eq!(world.receive_lengths(SERVER, second), [5]);
    let stats = world.ends[SERVER].stats();
    assert_eq!((stats.unprotected, stats.forged_protection), (0, 0));
    assert_eq!(world.stats(SERVER, first).state, StateName::Established);
}

#[test]
fn a_sealed_packet_is_matched_by_its_tag() {
    let (mut world, ids) = protected();
    world.send(CLIENT, ids.0, 0, Bytes::from_static(b"hello"));
    let now = world.now;
    let mut bytes = Vec::new();
    world.ends[CLIENT].poll_transmit(now, &mut bytes).unwrap();
    let route = Route::plain(addresses(SERVER)[0], ip("10.0.0.99"));
    let before = world.ends[SERVER].stats();
    world.inject(SERVER, &route, bytes.clone());
    let after = world.ends[SERVER].stats();
    assert_eq!(after.forged_protection, before.forged_protection);
    // It was opened: the record's number is used up.
    world.inject(SERVER, &route, bytes);
    let replayed = world.ends[SERVER].stats();
    assert_eq!(replayed.forged_protection, before.forged_protection + 1);
}

#[test]
fn the_tag_matches_without_endpoint_protection() {
    // The client's endpoint offers nothing to those who connect to it.
    let mut world = World::with(2, |end, config| {
        let offer = (end == SERVER).then(|| Offer::new().shared());
        config.association.security.protection = offer;
    });
    world.config.security.protection = Some(Offer::new().shared());
    let ids = world.connect();
    world.run(secs(5));
    protect(&mut world, ids, 1);
    world.send(SERVER, ids.1, 0, Bytes::from_static(b"hello"));
    let now = world.now;
    let mut bytes = Vec::new();
    world.ends[SERVER].poll_transmit(now, &mut bytes).unwrap();
    let route = Route::plain(addresses(CLIENT)[0], ip("10.0.0.99"));
    let before = world.ends[CLIENT].stats();
    for _ in 0..2 {
        world.inject(CLIENT, &route, bytes.clone());
    }
    let after = world.ends[CLIENT].stats();
    assert_eq!(after.forged_protection, before.forged_protection + 1);
    assert_eq!(after.out_of_the_blue, before.out_of_the_blue + 1);
}
