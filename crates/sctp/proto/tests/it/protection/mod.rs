//! Protection of the chunks behind the common header, by an implementation outside the library
//! that uses only the hook, similar to the DTLS chunk.

mod above;
mod bypass;
mod keys;
#[path = "../../support/toy.rs"]
mod toy;

/// Interface of the library that the toy uses.
mod hook {
    pub(crate) use carrick_proto::protection::{
        ChunkProtection, ChunkProtectionOffer, Offers, PacketContext, Seal,
    };
    pub(crate) use carrick_proto::{ChunkType, ParameterType, Time};
    pub(crate) use carrick_wire::CauseCode;
}

use std::any::Any;

use crate::common::{Verdict, World, addresses, fix_checksum, ms, pattern, port, secs};
use bytes::Bytes;
use carrick_proto::protection::{MAX_OFFER, MAX_OVERHEAD};
use carrick_proto::{
    AssociationConfig, AssociationId, CloseReason, ConnectError, Endpoint, EndpointConfig, Event,
    Message, StateName, Time,
};
use carrick_wire::{Chunk, ChunkType, CommonHeader, Packet, PacketBuilder};
use toy::{Offer, PARAMETER, RESTART, SEALED, Toy};

const CLIENT: usize = 0;
const SERVER: usize = 1;

fn offering(offers: [Option<Offer>; 2]) -> World {
    offering_from(offers, 2)
}

fn offering_from(offers: [Option<Offer>; 2], homes: usize) -> World {
    let client = offers[CLIENT].clone().map(Offer::shared);
    let mut world = World::with(2, move |end, config| {
        config.local_addresses.truncate(homes);
        config.association.security.protection = offers[end].clone().map(Offer::shared);
    });
    world.config.security.protection = client;
    world
}

/// The toy of an association.
fn toy(endpoint: &mut Endpoint, id: AssociationId) -> &mut Toy {
    let hook = endpoint.chunk_protection(id).expect("protection in force");
    let any: &mut dyn Any = hook;
    any.downcast_mut().expect("the protection of these tests")
}

fn both_offering() -> World {
    offering([Some(Offer::new()), Some(Offer::new())])
}

/// Installs the key on both sides; from now on clear packets are dropped.
fn protect(world: &mut World, ids: (AssociationId, AssociationId), key: u8) {
    for (end, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
        let toy = toy(&mut world.ends[end], id);
        toy.install(key, [key; 32]);
        toy.send_with(key);
        toy.lock();
    }
}

/// An association whose paths are verified and whose packets are sealed.
fn protected() -> (World, (AssociationId, AssociationId)) {
    protected_over(2)
}

fn protected_over(homes: usize) -> (World, (AssociationId, AssociationId)) {
    let mut world = offering_from([Some(Offer::new()), Some(Offer::new())], homes);
    let ids = world.connect();
    world.run(secs(5));
    protect(&mut world, ids, 1);
    world.log.clear();
    (world, ids)
}

fn bytes_of(messages: Vec<Message>) -> Vec<Bytes> {
    let payload = |m: Message| m.payload.into_bytes();
    messages.into_iter().map(payload).collect()
}

fn transfer(world: &mut World, ids: (AssociationId, AssociationId), count: usize) {
    for n in 0..count {
        world.send(CLIENT, ids.0, 0, pattern(3000 + n));
    }
    let mut arrived = Vec::new();
    let done = world.run_until(secs(300), |w| {
        arrived.extend(bytes_of(w.receive(SERVER, ids.1)));
        arrived.len() == count
    });
    assert!(done, "{} of {count}", arrived.len());
    assert!((0..count).all(|n| arrived[n] == pattern(3000 + n)));
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.2
#[test]
fn a_lossy_transfer_is_sealed_on_both_paths() {
    let (mut world, ids) = protected();
    let mut state = 1_u32;
    world.rule(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        match state >> 24 {
            0..=15 => Verdict::Drop,
            16..=24 => Verdict::Duplicate,
            25..=40 => Verdict::Delay(ms(15)),
            _ => Verdict::Pass,
        }
    });
    transfer(&mut world, ids, 50);
    world.block(addresses(SERVER)[0]);
    transfer(&mut world, ids, 20);
    let clear = pattern(3000);
    for seen in &world.log {
        assert_eq!(seen.kinds(), [SEALED]);
        assert!(
            !seen.bytes.windows(16).any(|w| w == &clear[..16]),
            "payload in the clear"
        );
    }
    let forged = world.ends[SERVER].stats().forged_protection;
    assert!(forged > 0, "replayed packets were rejected");
    let used = |remote| world.log.iter().any(|s| s.to() == remote);
    assert!(addresses(SERVER).into_iter().all(used), "both paths");
}

#[test]
fn the_overhead_fits_into_the_path_mtu() {
    let (mut world, ids) = protected();
    transfer(&mut world, ids, 20);
    // The world checks each packet against the path MTU; that they are as large as they may be is
    // checked here. 12 of header, 4 of the chunk's, 9 and 16 of the record's.
    let largest = world.log.iter().map(|s| s.ip_len()).max().unwrap();
    assert!((1493..=1500).contains(&largest), "{largest}");
}

#[test]
fn the_largest_overhead_fits_into_the_path_mtu() {
    let offer = Offer {
        overhead: MAX_OVERHEAD,
        ..Offer::new()
    };
    let mut world = offering([Some(offer.clone()), Some(offer)]);
    let ids = world.connect();
    world.run(secs(5));
    protect(&mut world, ids, 1);
    world.log.clear();
    transfer(&mut world, ids, 20);
    // The toy uses 25 of the 200 bytes that are kept free, and pads them to 28.
    let largest = world.log.iter().map(|s| s.ip_len()).max().unwrap();
    assert!((1493 - 172..=1500 - 172).contains(&largest), "{largest}");
}

#[test]
fn an_invalid_offer_is_refused_when_configured() {
    let refusal = |offer: Offer| {
        let association =
            AssociationConfig::rfc9260().with(|c| c.security.protection = Some(offer.shared()));
        let config = || EndpointConfig::new(port(CLIENT), addresses(CLIENT).to_vec(), [1; 32]);
        let accepting = Endpoint::new(EndpointConfig {
            association: association.clone(),
            ..config()
        });
        let accepting = accepting.map(|_| ()).map_err(|e| e.to_string());
        let mut plain = Endpoint::new(config()).expect("valid without protection");
        let (peer, at) = (addresses(SERVER), port(SERVER));
        match plain.connect(Time::ZERO, &peer, at, None, association) {
            Ok(_) => assert_eq!(accepting, Ok(())),
            Err(ConnectError::InvalidConfig(error)) => {
                assert_eq!(accepting, Err(error.to_string()))
            }
            Err(other) => panic!("{other}"),
        }
        accepting.err()
    };
    let overhead = |overhead| Offer {
        overhead,
        ..Offer::new()
    };
    assert_eq!(refusal(overhead(MAX_OVERHEAD)), None);
    for much in [MAX_OVERHEAD + 1, 65_536 + 25, usize::MAX] {
        let error = refusal(overhead(much)).expect("too much");
        assert!(
            error.contains("protection: the offer's overhead()"),
            "{error}"
        );
        assert!(error.contains(&MAX_OVERHEAD.to_string()), "{error}");
    }
    let value = |len| Offer {
        value: vec![7; len],
        ..Offer::new()
    };
    assert_eq!(refusal(value(MAX_OFFER)), None);
    let error = refusal(value(MAX_OFFER + 1)).expect("too long");
    assert!(error.contains("protection: the offer's value()"), "{error}");
    assert!(error.contains(&MAX_OFFER.to_string()), "{error}");
}

#[test]
fn a_value_longer_than_offered_is_withheld() {
    let offer = Offer {
        overhead: Offer::new().overhead - 1,
        ..Offer::new()
    };
    let mut world = offering([Some(offer), Some(Offer::new())]);
    let ids = world.connect();
    world.run(secs(5));
    protect(&mut world, ids, 1);
    world.log.clear();
    world.send(CLIENT, ids.0, 0, pattern(10));
    world.run(secs(3));
    assert!(world.log.iter().all(|s| s.from == SERVER));
    let protection = |w: &World, end, id| w.stats(end, id).protection.expect("in force");
    let ours = protection(&world, CLIENT, ids.0);
    assert!(ours.held_back > 0, "{ours:?}");
    assert_eq!(protection(&world, SERVER, ids.1).held_back, 0);
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.3
#[test]
fn shutdown_and_abort_are_sealed() {
    for aborts in [false, true] {
        let (mut world, ids) = protected();
        if aborts {
            world.ends[CLIENT]
                .abort(world.now, ids.0, b"enough")
                .unwrap();
        } else {
            world.ends[CLIENT].shutdown(world.now, ids.0).unwrap();
        }
        world.run(secs(5));
        assert!(world.log.iter().all(|s| s.kinds() == [SEALED]));
        let closed = world.events(SERVER).into_iter().find_map(|e| match e {
            Event::Closed(reason) => Some(reason),
            _ => None,
        });
        match closed {
            Some(CloseReason::AbortedByPeer(cause)) => {
                assert!(aborts && cause.information == b"enough");
            }
            Some(CloseReason::Shutdown) => assert!(!aborts),
            other => panic!("{other:?}"),
        }
    }
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 7.8
#[test]
fn keys_change_at_run_time_without_loss() {
    let (mut world, ids) = protected();
    for key in 2..6 {
        for n in 0..10 {
            world.send(CLIENT, ids.0, 0, pattern(2000 + n));
        }
        // The receiver learns of the key before the sender uses it, and forgets the old one later.
        toy(&mut world.ends[SERVER], ids.1).install(key, [key; 32]);
        toy(&mut world.ends[CLIENT], ids.0).install(key, [key; 32]);
        world.run(ms(5));
        toy(&mut world.ends[CLIENT], ids.0).send_with(key);
        toy(&mut world.ends[SERVER], ids.1).send_with(key);
        world.run(secs(3));
        for (end, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
            toy(&mut world.ends[end], id).remove(key - 1);
        }
        assert_eq!(world.receive(SERVER, ids.1).len(), 10);
    }
    assert_eq!(world.ends[SERVER].stats().forged_protection, 0);
    assert_eq!(world.ends[CLIENT].stats().forged_protection, 0);
}

#[test]
fn wrong_keys_end_with_peer_unreachable() {
    let (mut world, ids) = protected();
    let toy = toy(&mut world.ends[CLIENT], ids.0);
    toy.install(1, [9; 32]);
    world.send(CLIENT, ids.0, 0, pattern(100));
    world.run(secs(2000));
    assert!(world.ends[SERVER].stats().forged_protection > 0);
    let lost = Event::Closed(CloseReason::PeerUnreachable);
    assert!(world.events(CLIENT).contains(&lost));
}

#[test]
fn nothing_leaves_without_the_sending_key() {
    let (mut world, ids) = protected();
    toy(&mut world.ends[CLIENT], ids.0).remove(1);
    world.send(CLIENT, ids.0, 0, pattern(100));
    world.run(ms(500));
    assert!(world.log.iter().all(|s| s.from != CLIENT));
    toy(&mut world.ends[CLIENT], ids.0).install(1, [1; 32]);
    world.run(secs(5));
    let arrived = world.receive_lengths(SERVER, ids.1);
    assert_eq!(arrived, [100], "SCTP sends again what the hook kept back");
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.2
#[test]
fn replayed_and_changed_packets_change_nothing() {
    let (mut world, ids) = protected();
    world.send(CLIENT, ids.0, 0, pattern(500));
    world.run(secs(1));
    assert_eq!(world.receive(SERVER, ids.1).len(), 1);
    let sent: Vec<_> = world
        .log
        .iter()
        .filter(|s| s.from == CLIENT)
        .cloned()
        .collect();
    let before = world.stats(SERVER, ids.1).counters;
    let mut injected = 0;
    for seen in &sent {
        let route = carrick_proto::Route {
            local: Some(seen.to()),
            remote: seen.source(),
            ..seen.route
        };
        world.inject(SERVER, &route, seen.bytes.clone());
        injected += 1;
        for bit in 0..seen.bytes.len() * 8 {
            // Neither ports, nor the checksum, nor the length of the chunk, which are looked at
            // first.
            if bit / 8 < 4 || (8..16).contains(&(bit / 8)) {
                continue;
            }
            let mut changed = seen.bytes.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            fix_checksum(&mut changed);
            world.inject(SERVER, &route, changed);
            injected += 1;
        }
    }
    assert_eq!(world.stats(SERVER, ids.1).counters, before);
    assert!(world.receive(SERVER, ids.1).is_empty());
    assert_eq!(world.ends[SERVER].stats().forged_protection, injected);
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 7.9
#[test]
fn clear_packets_are_dropped_once_locked() {
    let (mut world, ids) = protected();
    let stolen = world.stats(SERVER, ids.1);
    assert_eq!(stolen.state, StateName::Established);
    // With the right tag, which is in the common header of every packet.
    world.send(CLIENT, ids.0, 0, pattern(10));
    world.run(ms(1));
    let seen = world
        .log
        .iter()
        .rfind(|s| s.from == CLIENT)
        .unwrap()
        .clone();
    let route = carrick_proto::Route {
        local: Some(seen.to()),
        remote: seen.source(),
        ..seen.route
    };
    let header = CommonHeader {
        source_port: port(CLIENT),
        destination_port: port(SERVER),
        tag: seen.tag(),
    };
    let mut abort = Vec::new();
    let mut packet = PacketBuilder::new(&mut abort, header, 1200);
    packet.abort(false, |_| {});
    packet.finish();
    let mut hidden = Vec::new();
    // An admitted chunk at the front of the packet does not admit the chunks behind it.
    let mut packet = PacketBuilder::new(&mut hidden, header, 1200);
    packet.raw(ChunkType::PAD, 0, &[1; 16]);
    packet.abort(false, |_| {});
    packet.finish();
    world.inject(SERVER, &route, abort);
    world.inject(SERVER, &route, hidden);
    assert_eq!(world.ends[SERVER].stats().unprotected, 2);
    assert_eq!(world.stats(SERVER, ids.1).state, StateName::Established);
}

fn restarted(offer: Offer, homes: usize) -> Endpoint {
    let address = addresses(CLIENT)[..homes].to_vec();
    let mut config = EndpointConfig::new(port(CLIENT), address, [55; 32]);
    config.association.security.protection = Some(offer.shared());
    Endpoint::new(config).unwrap()
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.4
#[test]
fn a_peer_with_the_restart_key_restarts() {
    let (mut world, ids) = protected_over(1);
    transfer(&mut world, ids, 3);
    let offer = Offer {
        restarts: true,
        ..Offer::new()
    };
    world.ends[CLIENT] = restarted(offer.clone(), 1);
    world.config.security.protection = Some(offer.shared());
    world.log.clear();
    world.begin_connect(&addresses(SERVER)[..1]);
    world.run(secs(5));
    assert!(world.events(SERVER).contains(&Event::Restarted));
    assert_eq!(toy(&mut world.ends[SERVER], ids.1).restarts, 1);
    let kinds: Vec<_> = world.log.iter().map(|s| s.kinds()[0]).collect();
    assert_eq!(kinds[..2], [ChunkType::INIT, ChunkType::INIT_ACK]);
    assert!(kinds[2..].iter().all(|k| *k == SEALED), "{kinds:?}");
    let again = world.association(CLIENT);
    transfer(&mut world, (again, ids.1), 5);
}

/// World 13580: the only clear sign of the association that a sealed COOKIE ECHO is for is the
/// source address.
///
/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.4
#[test]
fn a_restart_from_an_unverifiable_address_succeeds() {
    let mut world = both_offering();
    world.block(addresses(CLIENT)[1]);
    let ids = world.connect();
    protect(&mut world, ids, 1);
    world.run(secs(300));
    let status = world.path(SERVER, ids.1, 1).status;
    assert!(!status.active && !status.confirmed);
    world.unblock(addresses(CLIENT)[1]);
    let offer = Offer {
        restarts: true,
        ..Offer::new()
    };
    world.ends[CLIENT] = restarted(offer.clone(), 2);
    world.config.security.protection = Some(offer.shared());
    world.begin_connect(&addresses(SERVER)[1..]);
    world.run(secs(5));
    assert!(world.events(SERVER).contains(&Event::Restarted));
    let again = world.association(CLIENT);
    transfer(&mut world, (again, ids.1), 5);
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.4
#[test]
fn a_clear_or_wrongly_keyed_restart_is_ignored() {
    for key in [None, Some([3; 32])] {
        let (mut world, ids) = protected_over(1);
        let mut offer = Offer::new();
        if let Some(key) = key {
            offer.restarts = true;
            offer.restart_key = key;
        }
        world.ends[CLIENT] = restarted(offer.clone(), 1);
        world.config.security.protection = Some(offer.shared());
        world.begin_connect(&addresses(SERVER)[..1]);
        world.run(secs(3));
        assert!(!world.events(SERVER).contains(&Event::Restarted));
        assert_eq!(world.stats(SERVER, ids.1).state, StateName::Established);
        let stats = world.ends[SERVER].stats();
        let refused = if key.is_some() {
            stats.forged_protection
        } else {
            stats.unprotected
        };
        assert!(refused > 0);
    }
}

#[test]
fn clear_text_is_used_unless_protection_is_required() {
    for (lacks, required) in [
        (CLIENT, false),
        (SERVER, false),
        (CLIENT, true),
        (SERVER, true),
    ] {
        let offer = Offer {
            required,
            ..Offer::new()
        };
        let mut offers = [Some(offer.clone()), Some(offer)];
        offers[lacks] = None;
        let mut world = offering(offers);
        let id = world.begin_connect(&addresses(SERVER)[..1]);
        world.run(secs(3));
        if required {
            let events = world.events(CLIENT);
            assert!(matches!(events[..], [Event::Closed(_)]), "{events:?}");
            assert_eq!(world.ends[SERVER].associations().count(), 0);
            continue;
        }
        let peer = world.association(SERVER);
        assert!(world.ends[CLIENT].chunk_protection(id).is_none());
        assert!(world.ends[SERVER].chunk_protection(peer).is_none());
        transfer(&mut world, (id, peer), 3);
    }
}

#[test]
fn the_offers_of_both_sides_have_to_match() {
    for value in [vec![9, 9], vec![0, 1, 2], vec![7; MAX_OFFER]] {
        let other = Offer {
            value,
            ..Offer::new()
        };
        let mut world = offering([Some(Offer::new()), Some(other)]);
        let ids = world.connect();
        assert!(world.ends[CLIENT].chunk_protection(ids.0).is_none());
        assert!(world.ends[SERVER].chunk_protection(ids.1).is_none());
    }
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.1
#[test]
fn init_ack_offers_protection_only_if_the_init_did() {
    let has = |world: &World, n: usize| world.log[n].parameter_types().contains(&PARAMETER);
    let mut both = both_offering();
    both.connect();
    assert!(has(&both, 0) && has(&both, 1));
    let mut server = offering([None, Some(Offer::new())]);
    server.connect();
    assert!(!has(&server, 0) && !has(&server, 1));
    let mut ids = both.ends[CLIENT].associations();
    let id = ids.next().unwrap();
    drop(ids);
    assert!(toy(&mut both.ends[CLIENT], id).connects);
    let peer = both.association(SERVER);
    assert!(!toy(&mut both.ends[SERVER], peer).connects);
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.1
#[test]
fn both_sides_may_connect_at_once() {
    let mut world = both_offering();
    world.begin_connect(&addresses(SERVER)[..1]);
    world.begin_connect_from(SERVER, &addresses(CLIENT)[..1], port(CLIENT));
    world.run(secs(5));
    let ids = (world.association(CLIENT), world.association(SERVER));
    protect(&mut world, ids, 1);
    transfer(&mut world, ids, 5);
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.1
#[test]
fn a_lost_set_up_packet_keeps_the_protection() {
    for lost in 0..4 {
        let mut world = both_offering();
        let mut n = 0;
        world.rule(move |_| {
            n += 1;
            if n == lost + 1 {
                Verdict::Drop
            } else {
                Verdict::Pass
            }
        });
        world.begin_connect(&addresses(SERVER)[..1]);
        world.run(secs(10));
        let ids = (world.association(CLIENT), world.association(SERVER));
        protect(&mut world, ids, 1);
        transfer(&mut world, ids, 3);
    }
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.2
#[test]
fn garbage_in_a_sealed_chunk_is_dropped_and_counted() {
    let (mut world, ids) = protected();
    world.send(CLIENT, ids.0, 0, pattern(10));
    world.run(secs(1));
    let seen = world
        .log
        .iter()
        .rfind(|s| s.from == CLIENT)
        .unwrap()
        .clone();
    let route = carrick_proto::Route {
        local: Some(seen.to()),
        remote: seen.source(),
        ..seen.route
    };
    let header = seen.packet().header();
    for len in 0..100 {
        let mut garbage = Vec::new();
        let mut packet = PacketBuilder::new(&mut garbage, header, 1200);
        packet.raw(SEALED, 0, &vec![RESTART; len]);
        packet.finish();
        assert!(matches!(
            Packet::parse(&garbage)
                .unwrap()
                .chunks()
                .next()
                .map(|c| Chunk::parse(c.unwrap())),
            Some(Ok(Chunk::Unknown(_)))
        ));
        world.inject(SERVER, &route, garbage);
    }
    assert_eq!(world.ends[SERVER].stats().forged_protection, 100);
    assert_eq!(world.stats(SERVER, ids.1).state, StateName::Established);
}
