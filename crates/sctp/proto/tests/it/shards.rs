//! Endpoints that divide the associations of one port among them. Their packets arrive at any of them.

use crate::common;

use std::sync::{Arc, Mutex};

use carrick_proto::{
    AssociationId, CloseReason, ConnectError, Endpoint, EndpointConfig, Event, IcmpInput, IcmpKind,
    PeerAddress, Shard, ShardTable, SharedTable, VerificationTag,
};
use carrick_wire::ChunkType;
use common::*;

/// End that is the first shard; the ends before it are peers.
const FIRST: usize = 4;

/// Number of shards.
const COUNT: u32 = 3;

#[derive(Debug, Default)]
struct Locked(Mutex<ShardTable>);

impl SharedTable for Locked {
    fn with(&self, work: &mut dyn FnMut(&mut ShardTable)) {
        work(&mut self.0.lock().unwrap());
    }
}

/// Peers and an endpoint of shards that has the addresses and the port of the first one.
fn sharded(change: impl Fn(&mut EndpointConfig)) -> World {
    let table: Arc<dyn SharedTable> = Arc::new(Locked::default());
    let shards: Vec<Shard> = (0..COUNT)
        .map(|index| Shard {
            index,
            count: COUNT,
            table: Arc::clone(&table),
        })
        .collect();
    let mut w = World::with(FIRST + COUNT as usize, |end, config| {
        if let Some(index) = end.checked_sub(FIRST) {
            config.port = port(FIRST);
            config.local_addresses = addresses(FIRST).to_vec();
            config.shard = Some(shards[index].clone());
        }
        change(config);
    });
    for index in 0..shards.len() {
        w.udp_ports[FIRST + index] = 9899;
    }
    w.shards = Some((FIRST, shards));
    // An export has no shard.
    w.hands_over = false;
    w
}

/// Connects a peer, and returns its association and the shard's, with the end of the shard.
fn connect(w: &mut World, peer: usize) -> (AssociationId, usize, AssociationId) {
    let before = all(w);
    let a = w.begin_connect_from(peer, &[addresses(FIRST)[0]], port(FIRST));
    w.run(secs(2));
    let new: Vec<_> = all(w).into_iter().filter(|b| !before.contains(b)).collect();
    assert_eq!(new.len(), 1, "one shard has the association");
    (a, new[0].0, new[0].1)
}

/// Associations of all shards.
fn all(w: &World) -> Vec<(usize, AssociationId)> {
    let shards = FIRST..FIRST + COUNT as usize;
    shards
        .flat_map(|end| w.ends[end].associations().map(move |id| (end, id)))
        .collect()
}

/// A message each way.
fn exchange(w: &mut World, peer: usize, (a, shard, b): (AssociationId, usize, AssociationId)) {
    w.send(peer, a, 0, pattern(5000));
    w.send(shard, b, 0, pattern(6000));
    w.run(secs(5));
    assert_eq!(w.receive_lengths(shard, b), [5000]);
    assert_eq!(w.receive_lengths(peer, a), [6000]);
}

/// Starts a peer again, without its associations.
fn restart(w: &mut World, peer: usize, seed: u8) {
    let config = EndpointConfig::new(port(peer), addresses(peer).to_vec(), [seed; 32]);
    w.ends[peer] = Endpoint::new(config).unwrap();
}

#[test]
fn tags_name_the_shard() {
    let mut w = sharded(|_| {});
    for peer in 0..FIRST {
        let association = connect(&mut w, peer);
        exchange(&mut w, peer, association);
    }
    let mut tags = 0;
    for packet in w.log.iter().filter(|packet| packet.from < FIRST) {
        let tag = packet.tag().0;
        assert!(packet.has(ChunkType::INIT) == (tag == 0));
        tags += u32::from(tag != 0);
    }
    assert!(tags >= 40 && w.passed_on >= 20, "{tags}");
    let shards = w.ends[FIRST..].iter();
    assert_eq!(
        shards.map(|end| end.stats().out_of_the_blue).sum::<u64>(),
        0
    );
    assert_eq!(all(&w).len(), FIRST);
}

/// RFC 9260, section 5.2.2, from an address that another shard does not know.
#[test]
fn the_shard_of_a_restarted_peer_gets_its_init() {
    let mut w = sharded(|_| {});
    let (_, shard, b) = connect(&mut w, 0);
    for round in 0..6 {
        restart(&mut w, 0, 100 + round);
        w.events(shard);
        // From each address in turn, and with the INIT at each shard.
        let [first, second] = addresses(FIRST);
        let to = if round % 2 == 0 { first } else { second };
        let a = w.begin_connect_from(0, &[to], port(FIRST));
        w.run(secs(2));
        assert_eq!(all(&w), [(shard, b)], "round {round}");
        assert!(w.events(shard).contains(&Event::Restarted), "round {round}");
        exchange(&mut w, 0, (a, shard, b));
    }
}

/// RFC 9260, section 5.2.1
#[test]
fn colliding_inits_make_one_association() {
    for shard in FIRST..FIRST + COUNT as usize {
        let mut w = sharded(|_| {});
        let b = w.begin_connect_from(shard, &addresses(0), port(0));
        let a = w.begin_connect_from(0, &addresses(FIRST), port(FIRST));
        w.run(secs(5));
        assert_eq!(all(&w), [(shard, b)]);
        exchange(&mut w, 0, (a, shard, b));
    }
}

/// A cookie of one shard comes back after another one has begun to set up an association.
#[test]
fn a_cookie_beside_an_association_is_discarded() {
    let mut w = sharded(|_| {});
    w.lose(0, ChunkType::COOKIE_ECHO, 1);
    let a = w.begin_connect_from(0, &[addresses(FIRST)[0]], port(FIRST));
    w.run(ms(100));
    let echo = w.sent(0, ChunkType::COOKIE_ECHO)[0].clone();
    let answering = FIRST + (echo.tag().0 % COUNT) as usize;
    let other = FIRST + (answering - FIRST + 1) % COUNT as usize;
    let b = w.begin_connect_from(other, &addresses(0), port(0));
    w.run(secs(60));
    assert_eq!(all(&w), [(other, b)]);
    exchange(&mut w, 0, (a, other, b));
}

/// RFC 9260, section 8.5.1 B
#[test]
fn abort_with_the_t_bit_reaches_the_shard() {
    let mut w = sharded(|_| {});
    for peer in 0..FIRST {
        let (_, shard, b) = connect(&mut w, peer);
        restart(&mut w, peer, 50 + peer as u8);
        w.events(shard);
        w.send(shard, b, 0, pattern(10));
        w.run(secs(1));
        let closed = w
            .events(shard)
            .into_iter()
            .find(|event| matches!(event, Event::Closed(_)));
        let is_aborted = |event| matches!(event, Event::Closed(CloseReason::AbortedByPeer(_)));
        assert!(closed.is_some_and(is_aborted), "peer {peer}");
        assert!(all(&w).is_empty());
    }
}

/// RFC 9260, section 9.2: SHUTDOWN COMPLETE has the T bit, because the peer has no association any more.
#[test]
fn shutdown_complete_with_the_t_bit_arrives() {
    let mut w = sharded(|_| {});
    for peer in 0..FIRST {
        let (a, shard, _) = connect(&mut w, peer);
        w.lose(peer, ChunkType::SHUTDOWN_COMPLETE, 1);
        w.ends[peer].shutdown(w.now, a).unwrap();
        w.run(secs(10));
        let reflected = w
            .log
            .iter()
            .rev()
            .find(|p| p.has(ChunkType::SHUTDOWN_COMPLETE));
        assert_eq!(reflected.unwrap().flags(ChunkType::SHUTDOWN_COMPLETE), 1);
        assert!(all(&w).is_empty(), "shard {shard}");
    }
}

/// Peers behind one translator with one SCTP port, in UDP.
fn behind_one_translator(change: impl Fn(&mut EndpointConfig)) -> World {
    let mut w = sharded(|config| {
        if config.port != port(FIRST) {
            config.port = 5000;
            config.local_addresses.truncate(1);
        }
        change(config);
    });
    (0..FIRST).for_each(|peer| map(&mut w, peer, 40_000 + peer as u16));
    w
}

/// Gives a peer this port of the translator.
fn map(w: &mut World, peer: usize, udp: u16) {
    let outside = ip("203.0.113.1");
    w.translated.insert(addresses(peer)[0], (outside, udp));
}

/// Connects a peer in UDP.
fn associate(w: &mut World, peer: usize) -> AssociationId {
    let server = [PeerAddress::encapsulated(addresses(FIRST)[0], 9899)];
    let config = w.config.clone();
    let a = w.ends[peer].associate(w.now, &server, port(FIRST), config);
    w.run(secs(2));
    a.unwrap()
}

/// RFC 6951, section 5.4: the peer's UDP port changes, and hosts behind a translator share an SCTP port.
#[test]
fn a_new_udp_port_leads_to_the_same_shard() {
    let mut w = behind_one_translator(|_| {});
    let mut associations = Vec::new();
    for peer in 0..FIRST {
        let before = all(&w);
        let a = associate(&mut w, peer);
        let new: Vec<_> = all(&w)
            .into_iter()
            .filter(|b| !before.contains(b))
            .collect();
        assert_eq!(new.len(), 1, "peer {peer}");
        associations.push((a, new[0].0, new[0].1));
    }
    for round in 1..5 {
        for (peer, association) in associations.iter().enumerate() {
            map(&mut w, peer, 41_000 + 10 * round + peer as u16);
            exchange(&mut w, peer, *association);
        }
    }
    // A restart behind a new port is a restart of that host's association alone.
    let (_, shard, b) = associations[2];
    let config = EndpointConfig::new(5000, vec![addresses(2)[0]], [99; 32]);
    w.ends[2] = Endpoint::new(config).unwrap();
    let a = associate(&mut w, 2);
    assert_eq!(all(&w).len(), FIRST);
    exchange(&mut w, 2, (a, shard, b));
}

/// RFC 5061: the peer's packets come from an address that it adds, the old one is deleted.
#[test]
fn address_changes_lead_to_the_same_shard() {
    let mut w = sharded(|config| {
        config.association.extensions.dynamic_addresses = true;
        config.association.extensions.authentication = true;
        if config.port != port(FIRST) {
            config.local_addresses.truncate(1);
        }
    });
    w.config.extensions.dynamic_addresses = true;
    w.config.extensions.authentication = true;
    for peer in 0..FIRST {
        let association = connect(&mut w, peer);
        w.ends[peer].local_address_added(addresses(peer)[1]);
        w.run(secs(2));
        let now = w.now;
        w.ends[peer].local_address_removed(now, addresses(peer)[0]);
        w.run(secs(5));
        exchange(&mut w, peer, association);
        let (_, shard, b) = association;
        let remotes: Vec<_> = w.paths(shard, b).map(|path| path.remote).collect();
        assert_eq!(remotes, [addresses(peer)[1]]);
        // The table has the new address.
        restart(&mut w, peer, 60 + peer as u8);
        w.ends[peer].local_address_removed(now, addresses(peer)[0]);
        let a = w.begin_connect_from(peer, &[addresses(FIRST)[1]], port(FIRST));
        w.run(secs(2));
        exchange(&mut w, peer, (a, shard, b));
    }
}

#[test]
fn limits_are_those_of_all_shards() {
    let mut w = sharded(|config| {
        config.max_associations = 3;
        config.max_associations_per_source = Some(2);
    });
    let first = connect(&mut w, 0);
    let others: Vec<_> = (1..3).map(|peer| connect(&mut w, peer)).collect();
    let refused = w.begin_connect_from(3, &[addresses(FIRST)[0]], port(FIRST));
    w.run(secs(2));
    assert!(w.ends[3].association(refused).is_none());
    for shard in FIRST..FIRST + COUNT as usize {
        let (now, config) = (w.now, w.config.clone());
        let outgoing = w.ends[shard].connect(now, &addresses(3), port(3), None, config.clone());
        assert_eq!(outgoing, Err(ConnectError::TooManyAssociations));
        let second = w.ends[shard].connect(now, &addresses(0), port(0), None, config);
        assert_eq!(second, Err(ConnectError::AlreadyConnected));
    }
    for (peer, (a, ..)) in [first].into_iter().chain(others).enumerate() {
        w.ends[peer].shutdown(w.now, a).unwrap();
    }
    w.run(secs(2));
    for peer in 0..3 {
        connect(&mut w, peer);
    }
}

#[test]
fn the_limit_of_a_source_is_that_of_all_shards() {
    let mut w = behind_one_translator(|config| config.max_associations_per_source = Some(2));
    let attempts: Vec<_> = (0..FIRST).map(|peer| associate(&mut w, peer)).collect();
    let is_open = |(peer, a): &(usize, AssociationId)| w.ends[*peer].association(*a).is_some();
    let open = attempts.into_iter().enumerate().filter(is_open);
    assert_eq!((open.count(), all(&w).len()), (2, 2));
}

/// RFC 9260, section 10
#[test]
fn icmp_reaches_the_shard_of_the_quoted_packet() {
    let mut w = sharded(|_| {});
    for peer in 0..FIRST {
        let (_, shard, b) = connect(&mut w, peer);
        w.send(shard, b, 0, pattern(10));
        w.run(secs(1));
        let quoted = w
            .log
            .iter()
            .rev()
            .find(|p| p.from == shard)
            .unwrap()
            .clone();
        deliver_icmp(&mut w, peer, &quoted.bytes);
        let lost = Event::Closed(CloseReason::ProtocolUnreachable);
        assert!(w.events(shard).contains(&lost), "peer {peer}");
    }
    for (peer, shard) in (FIRST..FIRST + COUNT as usize).enumerate() {
        let b = w.begin_connect_from(shard, &[addresses(peer)[0]], port(peer));
        w.pump();
        let init = w.log.last().unwrap().clone();
        assert!(init.has(ChunkType::INIT) && init.tag() == VerificationTag(0));
        deliver_icmp(&mut w, peer, &init.bytes);
        assert!(w.ends[shard].association(b).is_none());
    }
}

/// Delivers "Protocol Unreachable" for a packet to this peer at a shard.
fn deliver_icmp(w: &mut World, peer: usize, quoted: &[u8]) {
    let input = IcmpInput {
        kind: IcmpKind::ProtocolUnreachable,
        remote: addresses(peer)[0],
        encapsulation: None,
        quoted,
    };
    let end = w.shard_of(FIRST, |shard| shard.of_icmp(&input));
    let now = w.now;
    w.ends[end].handle_icmp(now, &input);
    w.pump();
}

#[test]
fn an_index_outside_the_shards_is_refused() {
    let shard = |index| Shard {
        index,
        count: 2,
        table: Arc::new(Locked::default()),
    };
    let mut config = EndpointConfig::new(7, Vec::new(), [1; 32]);
    config.shard = Some(shard(2));
    assert!(config.validate().is_err());
    config.shard = Some(shard(1));
    assert!(Endpoint::new(config).is_ok());
}

/// RFC 9260, section 1.3: the set-ups are of different shards.
#[test]
fn set_ups_of_two_shards_make_one_association() {
    for gap in [0, 5, 15, 25, 35] {
        let mut w = sharded(|_| {});
        let first = w.begin_connect_from(FIRST, &[addresses(0)[0]], port(0));
        w.run(ms(gap));
        let second = w.begin_connect_from(FIRST + 1, &[addresses(0)[1]], port(0));
        w.run(secs(1));
        let closed = Event::Closed(CloseReason::AlreadyConnected);
        assert!(w.events_of_all(FIRST + 1).contains(&(second, closed)));
        w.run(secs(100));
        assert_eq!(all(&w), [(FIRST, first)], "{gap} ms apart");
        let a = w.association(0);
        exchange(&mut w, 0, (a, FIRST, first));
    }
}
