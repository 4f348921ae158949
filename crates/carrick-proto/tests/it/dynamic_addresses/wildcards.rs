//! Behind a NAT: no packet holds an address, each is told by its own packets (RFC 6951 section 5.7).

use std::net::IpAddr;

use carrick_proto::{AddressEvent, AssociationConfig, AssociationId, PathId, PeerAddress};
use carrick_wire::{Chunk, ChunkType};

use crate::common::*;
use crate::dynamic_addresses::support::*;

/// What the world sees of the addresses of endpoint 0.
const OUTSIDE: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

fn outside() -> [IpAddr; 2] {
    OUTSIDE.map(ip)
}

fn wildcards() -> AssociationConfig {
    AssociationConfig {
        wildcard_addresses: true,
        path_max_retrans: 1,
        ..dynamic()
    }
}

/// Endpoint 0 has so many addresses, each behind a translator of its own; endpoint 1 has two and
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
        c.association = AssociationConfig {
            wildcard_peers: finds,
            path_max_retrans: 1,
            ..dynamic()
        };
        if end == 0 {
            c.association = wildcards();
            c.local_addresses.truncate(homes);
        }
    });
    w.blind = blind;
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
    let b = w.only(1);
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

/// No packet of endpoint 0 has one of its addresses in it.
fn assert_untold(w: &World) {
    for seen in w.log.iter().filter(|s| s.from == 0) {
        for inside in addresses(0) {
            let IpAddr::V4(inside) = inside else { continue };
            let told = seen.bytes.windows(4).any(|b| b == inside.octets());
            assert!(!told, "{:?}", seen.kinds());
        }
    }
}

fn asconf_sources(w: &World) -> Vec<IpAddr> {
    let sent = w.sent(0, ChunkType::ASCONF).into_iter();
    sent.map(Seen::source).collect()
}

#[test]
fn each_further_address_is_told_from_itself_6951_5_7() {
    for later in [false, true] {
        let (mut w, a, b) = behind_translators(if later { 1 } else { 2 }, true);
        if later {
            assert_eq!(remotes(&w, 1, b), [outside()[0]]);
            w.ends[0].local_address_added(addresses(0)[1]);
            w.run(secs(5));
        }
        assert_eq!(remotes(&w, 1, b), outside());
        assert!(w.ends[1].paths(b).all(|p| p.status.confirmed));
        assert_eq!(asconf_sources(&w), [addresses(0)[1]]);
        assert_eq!(remotes(&w, 0, a).len(), 2, "the other side lists its own");
        // Either way is enough.
        for lost in addresses(0) {
            w.kill(lost);
            transfer(&mut w, a, b);
            w.revive(lost);
            w.run(secs(200));
        }
        assert_untold(&w);
    }
}

#[test]
fn of_two_the_one_that_is_gone_is_deleted_by_the_other_5061_4_2_2() {
    let (mut w, a, b) = behind_translators(2, true);
    let [old, stays] = addresses(0);
    w.events(0);
    w.kill(old);
    w.ends[0].local_address_removed(w.now, old);
    w.run(secs(5));
    assert_eq!(remotes(&w, 1, b), [outside()[1]]);
    assert!(address_events(&mut w, 0).contains(&AddressEvent::LocalRemoved(old)));
    transfer(&mut w, a, b);
    // Who comes back may be another one to the peer.
    w.revive(old);
    w.log.clear();
    w.ends[0].local_address_added(old);
    w.run(secs(5));
    assert_eq!(remotes(&w, 1, b), [outside()[1], outside()[0]]);
    assert_eq!(asconf_sources(&w), [old]);
    w.ends[0].set_peer_primary(w.now, a, stays).expect("ask");
    w.run(secs(5));
    let primary = w.stats(1, b).primary.expect("a primary");
    w.ends[0].set_peer_primary(w.now, a, old).expect("ask");
    w.run(secs(5));
    assert_ne!(w.stats(1, b).primary, Some(primary));
    assert_untold(&w);
    transfer(&mut w, a, b);
}

#[test]
fn an_address_that_leads_nowhere_ends_nothing_5061_5_1_b2() {
    for finds in [true, false] {
        let (mut w, a, b) = behind_translators(1, finds);
        let second = addresses(0)[1];
        if finds {
            // Its packets get lost; without the tag, the peer answers with an ABORT.
            w.kill(second);
        }
        w.ends[0].local_address_added(second);
        w.run(secs(200));
        assert_eq!(remotes(&w, 1, b), [outside()[0]]);
        let refused = AddressEvent::Refused {
            address: second,
            code: 0,
        };
        assert!(address_events(&mut w, 0).contains(&refused));
        let told = w.sent(0, ChunkType::ASCONF).len();
        assert!(told < 10, "{told} ASCONFs");
        transfer(&mut w, a, b);
        assert_eq!(w.sent(0, ChunkType::ASCONF).len(), told);
        let others = w.log.iter().filter(|s| s.from == 0 && s.source() == second);
        for seen in others {
            assert_eq!(seen.kinds(), [ChunkType::AUTH, ChunkType::ASCONF]);
        }
        assert_untold(&w);
    }
}

#[test]
fn an_address_that_a_wildcard_deleted_is_told_again_5061_4_2_2() {
    let mut w = world_of(&wildcards(), 2);
    let (a, b) = w.connect();
    w.run(secs(3));
    assert_eq!(remotes(&w, 1, b).len(), 2);
    let [first, second] = addresses(0);
    let third = ip("10.3.0.1");
    for gone in [first, second] {
        w.kill(gone);
        w.ends[0].local_address_removed(w.now, gone);
    }
    w.ends[0].local_address_added(third);
    w.run(secs(3));
    assert_eq!(remotes(&w, 1, b), [third]);
    w.revive(second);
    w.log.clear();
    w.ends[0].local_address_added(second);
    w.run(secs(3));
    assert_eq!(remotes(&w, 1, b), [third, second]);
    let from_second = w.log.iter().find(|s| s.from == 0 && s.source() == second);
    let first = from_second.expect("a packet").kinds();
    assert_eq!(first, [ChunkType::AUTH, ChunkType::ASCONF]);
    exchange(&mut w, a, b);
}

#[test]
fn a_wildcard_leaves_from_no_other_address_unless_that_is_gone_5061_4_2_1() {
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
    // It goes while its ASCONF waits: the answer means nothing, and it is told again.
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

#[test]
fn with_a_peer_that_lacks_asconf_one_address_is_all_there_is_6951_5_7() {
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
    w.kill(addresses(1)[0]);
    transfer(&mut w, a, b);
    let only = |s: &&Seen| s.from == 0 && s.source() != addresses(0)[0];
    assert_eq!(w.log.iter().filter(only).count(), 0);
    assert_eq!(w.path(0, a, PathId(1).0).local, Some(addresses(0)[0]));
}

#[test]
fn who_does_not_know_which_address_packets_came_to_tells_all_of_them_6951_5_7() {
    let (mut w, a, b) = behind_translators_of(2, true, Some(0));
    let mut known = remotes(&w, 1, b);
    known.sort();
    known.dedup();
    assert_eq!(known, outside());
    assert!(asconf_sources(&w).contains(&addresses(0)[1]));
    assert_untold(&w);
    transfer(&mut w, a, b);
}

#[test]
fn a_second_init_ack_from_an_address_that_was_not_told_is_discarded_9260_5_2_3() {
    let config = AssociationConfig {
        wildcard_peers: true,
        ..open()
    };
    let mut w = world_of(&config, 1);
    let mut puppet = Puppet::new();
    let (first, second) = (puppet.link.from, ip("10.0.0.98"));
    let id = w.begin_connect_from(0, &[first, second], puppet.port);
    let sent = puppet.hear(&mut w);
    puppet.learn(&sent[0]);
    puppet.answer_init(&mut w, |p| p.state_cookie(b"cookie"));
    puppet.say(&mut w, |p| p.cookie_ack());
    puppet.hear(&mut w);
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
