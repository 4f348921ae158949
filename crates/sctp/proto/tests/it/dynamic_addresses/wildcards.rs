//! Addresses behind a NAT: no packet contains an address, each is added by a wildcard from itself
//! (RFC 6951, section 5.7).

use std::net::IpAddr;

use carrick_proto::{AddressEvent, AssociationConfig, AssociationId, PathId, PeerAddress};
use carrick_wire::{Chunk, ChunkType};

use crate::common::*;
use crate::dynamic_addresses::support::*;

/// External addresses of endpoint 0.
const OUTSIDE: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

fn outside() -> [IpAddr; 2] {
    OUTSIDE.map(ip)
}

fn wildcards() -> AssociationConfig {
    dynamic().with(|c| {
        c.paths.wildcard_addresses = true;
        c.paths.path_max_retrans = 1;
    })
}

/// Endpoint 0 has this number of addresses, each behind its own translator; endpoint 1 has two and
/// finds its peers by their tags if it `finds`.
fn behind_translators(homes: usize, finds: bool) -> (World, AssociationId, AssociationId) {
    behind_translators_of(homes, finds, None)
}

fn behind_translators_of(
    homes: usize,
    finds: bool,
    blind: Option<usize>,
) -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |end, c| {
        c.association = dynamic().with(|c| {
            c.paths.wildcard_peers = finds;
            c.paths.path_max_retrans = 1;
        });
        if end == 0 {
            c.association = wildcards();
            c.local_addresses.truncate(homes);
        }
    });
    w.destination_unknown = blind;
    for (n, inside) in addresses(0).into_iter().enumerate() {
        let port = 40_000 + n as u16;
        w.translated.insert(inside, (outside()[n], port));
    }
    let peers = addresses(1).map(|a| PeerAddress::encapsulated(a, 9900));
    let a = w.ends[0]
        .associate(w.now, &peers, port(1), wildcards())
        .expect("associate");
    w.run(secs(5));
    assert_eq!(w.states(), [Some("Established"); 2]);
    let b = w.association(1);
    (w, a, b)
}

fn transfer(w: &mut World, a: AssociationId, b: AssociationId) {
    for n in 0..20 {
        w.send(0, a, 0, pattern(900 + n));
        w.send(1, b, 0, pattern(500 + n));
    }
    w.run(secs(120));
    assert_eq!(w.receive_lengths(1, b).len(), 20);
    assert_eq!(w.receive_lengths(0, a).len(), 20);
}

/// Checks that no packet of endpoint 0 contains one of its addresses.
fn assert_unlisted(w: &World) {
    for seen in w.log.iter().filter(|s| s.from == 0) {
        for inside in addresses(0) {
            let IpAddr::V4(inside) = inside else { continue };
            let listed = seen.bytes.windows(4).any(|b| b == inside.octets());
            assert!(!listed, "{:?}", seen.kinds());
        }
    }
}

fn asconf_sources(w: &World) -> Vec<IpAddr> {
    let sent = w.sent(0, ChunkType::ASCONF).into_iter();
    sent.map(SentPacket::source).collect()
}

/// RFC 6951, section 5.7
#[test]
fn each_further_address_adds_itself_by_wildcard() {
    for later in [false, true] {
        let (mut w, a, b) = behind_translators(if later { 1 } else { 2 }, true);
        if later {
            assert_eq!(remotes(&w, 1, b), [outside()[0]]);
            w.ends[0].local_address_added(addresses(0)[1]);
            w.run(secs(5));
        }
        assert_eq!(remotes(&w, 1, b), outside());
        assert!(w.paths(1, b).all(|p| p.status.confirmed));
        assert_eq!(asconf_sources(&w), [addresses(0)[1]]);
        assert_eq!(remotes(&w, 0, a).len(), 2, "the other side lists its own");
        // Either way is enough.
        for lost in addresses(0) {
            w.block(lost);
            transfer(&mut w, a, b);
            w.unblock(lost);
            w.run(secs(200));
        }
        assert_unlisted(&w);
    }
}

/// RFC 5061, section 4.2.2
#[test]
fn a_lost_address_is_deleted_by_wildcard() {
    let (mut w, a, b) = behind_translators(2, true);
    let [old, stays] = addresses(0);
    w.events(0);
    w.block(old);
    w.ends[0].local_address_removed(w.now, old);
    w.run(secs(5));
    assert_eq!(remotes(&w, 1, b), [outside()[1]]);
    assert!(address_events(&mut w, 0).contains(&AddressEvent::LocalRemoved(old)));
    transfer(&mut w, a, b);
    // A returning address may have another external address.
    w.unblock(old);
    w.log.clear();
    w.ends[0].local_address_added(old);
    w.run(secs(5));
    assert_eq!(remotes(&w, 1, b), [outside()[1], outside()[0]]);
    assert_eq!(asconf_sources(&w), [old]);
    w.change(0, a).set_peer_primary(stays).expect("ask");
    w.run(secs(5));
    let primary = w.stats(1, b).current.expect("a primary");
    w.change(0, a).set_peer_primary(old).expect("ask");
    w.run(secs(5));
    assert_ne!(w.stats(1, b).current, Some(primary));
    assert_unlisted(&w);
    transfer(&mut w, a, b);
}

/// RFC 5061, section 5.1, rule B2
#[test]
fn a_dead_additional_address_ends_nothing() {
    for finds in [true, false] {
        let (mut w, a, b) = behind_translators(1, finds);
        let second = addresses(0)[1];
        if finds {
            // Its packets get lost; without the tag, the peer answers with an ABORT.
            w.block(second);
        }
        w.ends[0].local_address_added(second);
        w.run(secs(200));
        assert_eq!(remotes(&w, 1, b), [outside()[0]]);
        let refused = AddressEvent::Refused {
            address: second,
            code: 0,
        };
        assert!(address_events(&mut w, 0).contains(&refused));
        let listed = w.sent(0, ChunkType::ASCONF).len();
        assert!(listed < 10, "{listed} ASCONFs");
        transfer(&mut w, a, b);
        assert_eq!(w.sent(0, ChunkType::ASCONF).len(), listed);
        let others = w.log.iter().filter(|s| s.from == 0 && s.source() == second);
        for seen in others {
            assert_eq!(seen.kinds(), [ChunkType::AUTH, ChunkType::ASCONF]);
        }
        assert_unlisted(&w);
    }
}

/// RFC 5061, section 4.2.2
#[test]
fn an_address_deleted_by_wildcard_is_added_again() {
    let mut w = world_of(&wildcards(), 2);
    let (a, b) = w.connect();
    w.run(secs(3));
    assert_eq!(remotes(&w, 1, b).len(), 2);
    let [first, second] = addresses(0);
    let third = ip("10.3.0.1");
    for gone in [first, second] {
        w.block(gone);
        w.ends[0].local_address_removed(w.now, gone);
    }
    w.ends[0].local_address_added(third);
    w.run(secs(3));
    assert_eq!(remotes(&w, 1, b), [third]);
    w.unblock(second);
    w.log.clear();
    w.ends[0].local_address_added(second);
    w.run(secs(3));
    assert_eq!(remotes(&w, 1, b), [third, second]);
    let from_second = w.log.iter().find(|s| s.from == 0 && s.source() == second);
    let first = from_second.expect("a packet").kinds();
    assert_eq!(first, [ChunkType::AUTH, ChunkType::ASCONF]);
    exchange(&mut w, a, b);
}

/// RFC 5061, section 4.2.1
#[test]
fn a_wildcard_moves_only_when_its_address_is_gone() {
    let (mut w, _, b) = behind_translators(1, true);
    let second = addresses(0)[1];
    w.lose(0, ChunkType::ASCONF, 2);
    w.ends[0].local_address_added(second);
    w.run(secs(20));
    assert_eq!(asconf_sources(&w), [second; 3]);
    assert_eq!(remotes(&w, 1, b), outside());
    let wild = w.sent(0, ChunkType::ASCONF).iter().all(|s| {
        s.chunks().into_iter().all(|c| match c {
            Chunk::Asconf(asconf) => asconf.address.is_unspecified(),
            _ => true,
        })
    });
    assert!(wild);
    // The address is removed while its ASCONF is outstanding; the answer has no effect, and it is
    // added again.
    let (mut w, a, b) = behind_translators(1, true);
    w.lose(1, ChunkType::ASCONF_ACK, 1);
    w.ends[0].local_address_added(second);
    w.run(ms(200));
    w.ends[0].local_address_removed(w.now, second);
    w.run(secs(20));
    assert_eq!(remotes(&w, 1, b), [outside()[0]], "deleted by the first");
    w.ends[0].local_address_added(second);
    w.run(secs(20));
    assert_eq!(remotes(&w, 1, b), outside());
    transfer(&mut w, a, b);
}

/// RFC 6951, section 5.7
#[test]
fn without_asconf_one_address_remains() {
    let mut w = World::with(2, |end, c| {
        if end == 0 {
            c.association = wildcards();
        }
    });
    w.config = wildcards();
    let (a, b) = w.connect();
    assert_eq!(remotes(&w, 1, b), [addresses(0)[0]]);
    assert_eq!(remotes(&w, 0, a), addresses(1));
    assert!(w.path(0, a, 1).status.confirmed);
    w.block(addresses(1)[0]);
    transfer(&mut w, a, b);
    let only = |s: &&SentPacket| s.from == 0 && s.source() != addresses(0)[0];
    assert_eq!(w.log.iter().filter(only).count(), 0);
    assert_eq!(w.path(0, a, PathId(1).0).local, Some(addresses(0)[0]));
}

/// RFC 6951, section 5.7
#[test]
fn an_unknown_source_lists_all_addresses() {
    let (mut w, a, b) = behind_translators_of(2, true, Some(0));
    let mut known = remotes(&w, 1, b);
    known.sort();
    known.dedup();
    assert_eq!(known, outside());
    assert!(asconf_sources(&w).contains(&addresses(0)[1]));
    assert_unlisted(&w);
    transfer(&mut w, a, b);
}

/// RFC 9260, section 5.2.3
#[test]
fn a_second_init_ack_from_an_unlisted_address_is_lost() {
    let config = open().with(|c| c.paths.wildcard_peers = true);
    let mut w = world_of(&config, 1);
    let mut puppet = Puppet::new();
    let (first, second) = (puppet.link.from, ip("10.0.0.98"));
    let id = w.begin_connect_from(0, &[first, second], puppet.port);
    let sent = puppet.receive(&mut w);
    puppet.record_init(&sent[0]);
    puppet.answer_init(&mut w, |p| p.state_cookie(b"cookie"));
    puppet.send(&mut w, |p| p.cookie_ack());
    puppet.receive(&mut w);
    // An INIT had gone there, too, and this is late.
    puppet.link.from = second;
    let answers = puppet.answer_init(&mut w, |p| p.state_cookie(b"another cookie"));
    assert!(
        answers.iter().all(|a| !a.has(ChunkType::ABORT)),
        "{answers:?}"
    );
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    // A stranger's is answered.
    puppet.peer_tag.0 ^= 1;
    let answers = puppet.answer_init(&mut w, |p| p.state_cookie(b"a third one"));
    assert!(answers.iter().any(|a| a.has(ChunkType::ABORT)));
}
