//! A local address that was removed and returns becomes the source of the same paths again.

use carrick_proto::{AddressEvent, AssociationId, Event, PathId};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::dynamic_addresses::support::*;

/// Source and destination addresses of the paths.
fn pairs(w: &World, end: usize, id: AssociationId) -> Vec<(std::net::IpAddr, std::net::IpAddr)> {
    let paths = w.paths(end, id);
    let mut pairs: Vec<_> = paths
        .map(|p| (p.local.expect("a source"), p.remote))
        .collect();
    pairs.sort_unstable();
    pairs
}

/// One path in each network.
fn separate(end: usize) -> Vec<(std::net::IpAddr, std::net::IpAddr)> {
    std::iter::zip(addresses(end), addresses(1 - end)).collect()
}

fn changed_sources(w: &mut World, end: usize) -> usize {
    let events = w.events(end).into_iter();
    let changed = events.filter(|e| matches!(e, Event::PathLocalAddressChanged(_)));
    changed.count()
}

/// The second address of one side leaves and returns; later network 0 fails. All messages arrive.
fn survives(end: usize) {
    let (mut w, a, b) = double();
    let second = addresses(end)[1];
    let mut sent = 0;
    for second_of_run in 0..1200 {
        match second_of_run {
            60 => {
                w.ends[end].local_address_removed(w.now, second);
                w.block(second);
            }
            120 => {
                w.unblock(second);
                w.ends[end].local_address_added(second);
            }
            600 => {
                for (end, id) in [(0, a), (1, b)] {
                    assert_eq!(pairs(&w, end, id), separate(end));
                    w.block(addresses(end)[0]);
                }
            }
            _ => {}
        }
        if second_of_run % 2 == 0 {
            w.send(0, a, 0, pattern(100));
            w.send(1, b, 0, pattern(100));
            sent += 1;
        }
        w.run(secs(1));
    }
    w.run(secs(120));
    assert_eq!(w.states(), [Some("Established"); 2]);
    assert_eq!(w.receive(1, b).len(), sent);
    assert_eq!(w.receive(0, a).len(), sent);
}

/// RFC 9260, section 6.4
#[test]
fn redundancy_survives_a_returning_address() {
    survives(0);
}

/// RFC 9260, section 6.4
#[test]
fn redundancy_survives_a_returning_server_address() {
    survives(1);
}

/// RFC 5061, section 5.3, rule F1
#[test]
fn a_returned_address_is_a_source_when_confirmed() {
    let (mut w, a, _) = double();
    let [first, second] = addresses(0);
    w.ends[0].local_address_removed(w.now, second);
    w.run(secs(2));
    w.lose(1, ChunkType::ASCONF_ACK, 1);
    let before = w.log.len();
    w.ends[0].local_address_added(second);
    w.send(0, a, 0, pattern(5000));
    w.run(ms(500));
    assert!(w.sent(1, ChunkType::ASCONF_ACK).last().unwrap().lost);
    assert!(pairs(&w, 0, a).iter().all(|pair| pair.0 == first));
    let early = |p: &&SentPacket| p.from == 0 && p.source() == second;
    assert_eq!(w.log[before..].iter().filter(early).count(), 0);
    w.run(secs(5));
    assert_eq!(pairs(&w, 0, a), separate(0));
}

/// The address returns while its deletion is not acknowledged.
///
/// RFC 5061, section 5.3, rule F4
#[test]
fn an_address_returning_at_once_is_a_source_again() {
    let (mut w, a, b) = double();
    let second = addresses(0)[1];
    for _ in 0..3 {
        w.ends[0].local_address_removed(w.now, second);
        w.pump();
        w.ends[0].local_address_added(second);
        w.pump();
    }
    w.run(secs(10));
    assert_eq!(pairs(&w, 0, a), separate(0));
    assert_eq!(pairs(&w, 1, b), separate(1));
    exchange(&mut w, a, b);
}

/// RFC 9260, section 6.4
#[test]
fn the_only_address_of_a_family_returns() {
    let mut w = World::with(2, |end, c| {
        c.association = dynamic();
        c.local_addresses[1] = in_v6(c.local_addresses[1]);
        assert_eq!(c.local_addresses[1], in_v6(addresses(end)[1]));
    });
    w.config = dynamic();
    let (a, _) = w.connect();
    let v6 = in_v6(addresses(0)[1]);
    let to_v6 = |w: &World| {
        let mut paths = w.paths(0, a);
        paths.find(|p| p.remote.is_ipv6()).expect("a path").local
    };
    assert_eq!(to_v6(&w), Some(v6));
    w.ends[0].local_address_removed(w.now, v6);
    w.run(secs(5));
    assert_eq!(to_v6(&w), None);
    w.ends[0].local_address_added(v6);
    w.run(secs(5));
    assert_eq!(to_v6(&w), Some(v6));
}

/// The confirmation of another address does not change a working source.
///
/// RFC 9260, section 6.4
#[test]
fn a_source_stays_when_the_choice_is_the_same() {
    let (mut w, a, b) = double();
    // Nothing arrives from the first address, which is the choice for path 0.
    w.rule(|p| {
        let lost = p.from == 0 && p.source() == addresses(0)[0];
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    w.run(secs(600));
    let moved = w.path(0, a, 0);
    assert_eq!(moved.local, Some(addresses(0)[1]));
    assert!(moved.status.active);
    w.send(0, a, 0, pattern(20_000));
    w.run(secs(10));
    w.receive(1, b);
    let (path_0, path_1) = (w.path(0, a, 0), w.path(0, a, 1));
    address_events(&mut w, 0);
    let third = ip("10.2.0.1");
    w.ends[0].local_address_added(third);
    w.pump();
    let confirmed = w.run_until(secs(5), |w| {
        address_events(w, 0).contains(&AddressEvent::LocalAdded(third))
    });
    assert!(confirmed);
    w.ends[0].local_routes_changed();
    assert_eq!(changed_sources(&mut w, 0), 0);
    for (path, before) in [(0, path_0), (1, path_1)] {
        let after = w.path(0, a, path);
        assert_eq!(after.local, before.local);
        assert_eq!((after.cwnd, after.rto), (before.cwnd, before.rto));
    }
}

/// Path parameters measured from another source address do not apply.
///
/// RFC 9260, section 7.2.5.2
#[test]
fn the_path_of_a_returned_address_starts_afresh() {
    let (mut w, a, b) = double();
    let second = addresses(0)[1];
    w.ends[0].local_address_removed(w.now, second);
    w.run(secs(2));
    w.change(0, a).set_primary(PathId(1)).expect("a path");
    w.send(0, a, 0, pattern(50_000));
    w.run(secs(10));
    let before = w.path(0, a, 1);
    assert!(before.cwnd > 20_000 && before.srtt.is_some());
    changed_sources(&mut w, 0);
    let retransmissions = |w: &World| {
        let counters = w.stats(0, a).counters;
        counters.fast_retransmissions + counters.timeout_retransmissions
    };
    let sent_again = retransmissions(&w);
    w.ends[0].local_address_added(second);
    // Data is in flight from the address that stays when the other one is confirmed.
    w.pump();
    w.run(ms(15));
    w.send(0, a, 0, pattern(3000));
    assert!(w.run_until(secs(1), |w| w.path(0, a, 1).local == Some(second)));
    let after = w.path(0, a, 1);
    assert!(after.cwnd <= 4404 && after.srtt.is_none(), "{after:?}");
    assert_eq!(after.rto, secs(1));
    assert_eq!(changed_sources(&mut w, 0), 1);
    w.run(secs(10));
    assert_eq!(w.receive_lengths(1, b), [50_000, 3000]);
    assert_eq!(retransmissions(&w), sent_again, "the old address is valid");
}

/// A path that failed from the remaining address is probed when it gets its source back.
///
/// RFC 9260, section 8.3
#[test]
fn a_returned_address_probes_an_inactive_path() {
    let (mut w, a, _) = double();
    let second = addresses(0)[1];
    w.ends[0].local_address_removed(w.now, second);
    // No route leads from one network to the other.
    w.rule(|p| {
        let network = |address: std::net::IpAddr| match address {
            std::net::IpAddr::V4(v4) => v4.octets()[1],
            std::net::IpAddr::V6(_) => 0,
        };
        let joined = network(p.source()) == network(p.to());
        if joined { Verdict::Pass } else { Verdict::Drop }
    });
    assert!(w.run_until(secs(1000), |w| !w.path(0, a, 1).status.active));
    w.ends[0].local_address_added(second);
    // Well before the next heartbeat of an inactive path is due.
    w.run(secs(1));
    let path = w.path(0, a, 1);
    assert!(path.status.active, "{path:?}");
}

/// With `monitor_pairs` each pair of addresses keeps its own path.
///
/// RFC 9260, section 6.4
#[test]
fn pairs_get_their_own_source_back() {
    let mut config = dynamic();
    config.paths.monitor_pairs = true;
    let mut w = world_of(&config, 2);
    let (a, _) = w.connect();
    let before = pairs(&w, 0, a);
    assert_eq!(before.len(), 4);
    let second = addresses(0)[1];
    w.ends[0].local_address_removed(w.now, second);
    w.run(secs(2));
    assert!(pairs(&w, 0, a).iter().all(|pair| pair.0 == addresses(0)[0]));
    w.ends[0].local_address_added(second);
    w.run(secs(2));
    assert_eq!(pairs(&w, 0, a), before);
}
