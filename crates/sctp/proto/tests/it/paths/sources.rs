//! Source selection of paths in the course of an association.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use carrick_proto::{AssociationId, Event, MatchingAddress, PathId, SourceSelection};

use crate::common::*;

/// Routes of a host; when the link to network 1 is down, everything leaves through network 0.
#[derive(Debug)]
struct Routes {
    down: Arc<AtomicBool>,
    refreshed: Arc<AtomicUsize>,
}

impl SourceSelection for Routes {
    fn select(&self, local: &[IpAddr], remote: IpAddr) -> Option<IpAddr> {
        let first = local.iter().copied().find(|a| *a == addresses(0)[0]);
        if self.down.load(Ordering::Relaxed) {
            first
        } else {
            MatchingAddress.select(local, remote)
        }
    }

    fn refresh(&self) {
        self.refreshed.fetch_add(1, Ordering::Relaxed);
    }
}

fn sources(w: &World, end: usize, id: AssociationId) -> Vec<IpAddr> {
    w.paths(end, id).filter_map(|p| p.local).collect()
}

fn changes(w: &mut World) -> Vec<Event> {
    let mut events = w.events(0);
    events.retain(|e| matches!(e, Event::PathLocalAddressChanged(_)));
    events
}

/// RFC 9260, section 6.4
#[test]
fn a_route_change_moves_the_affected_path() {
    let down = Arc::new(AtomicBool::new(false));
    let refreshed = Arc::new(AtomicUsize::new(0));
    let mut w = World::with(2, |end, c| {
        if end == 0 {
            c.source_selection = Box::new(Routes {
                down: Arc::clone(&down),
                refreshed: Arc::clone(&refreshed),
            });
        }
    });
    let (a, b) = w.connect();
    let [first, second] = addresses(0);
    assert_eq!(sources(&w, 0, a), [first, second]);
    w.events(0);
    w.ends[0].local_routes_changed();
    assert_eq!(refreshed.load(Ordering::Relaxed), 1);
    assert_eq!(changes(&mut w), [], "the choice is the same");
    down.store(true, Ordering::Relaxed);
    w.ends[0].local_routes_changed();
    let moved = [Event::PathLocalAddressChanged(PathId(1))];
    assert_eq!(changes(&mut w), moved);
    assert_eq!(sources(&w, 0, a), [first, first]);
    down.store(false, Ordering::Relaxed);
    w.ends[0].local_routes_changed();
    assert_eq!(changes(&mut w), moved);
    assert_eq!(sources(&w, 0, a), [first, second]);
    w.send(0, a, 0, pattern(3000));
    w.run(secs(1));
    assert_eq!(w.receive_lengths(1, b), [3000]);
}

/// The interface to the peer was down when the set-up began.
///
/// RFC 9260, section 6.4
#[test]
fn a_route_change_moves_an_init() {
    let down = Arc::new(AtomicBool::new(true));
    let mut w = World::with(2, |end, c| {
        if end == 0 {
            c.source_selection = Box::new(Routes {
                down: Arc::clone(&down),
                refreshed: Arc::default(),
            });
        }
    });
    let [first, second] = addresses(0);
    // With policy routing, nothing arrives from an address of another network.
    w.rule(move |packet| {
        let is_foreign = packet.from == 0 && packet.route.local == Some(first);
        if is_foreign {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    let id = w.begin_connect(&[addresses(1)[1]]);
    w.run(secs(2));
    assert_eq!(state_name(&w.stats(0, id)), "CookieWait");
    down.store(false, Ordering::Relaxed);
    w.ends[0].local_routes_changed();
    w.run(secs(10));
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    assert_eq!(sources(&w, 0, id)[0], second);
}

/// A peer behind a translator takes packets from no other address.
///
/// RFC 9260, section 6.4
#[test]
fn a_route_change_keeps_the_contacted_address() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    peer.link.to = addresses(0)[1];
    let (_, id) = peer.connect(&mut w);
    assert_eq!(sources(&w, 0, id), [addresses(0)[1]]);
    w.ends[0].local_routes_changed();
    w.ends[0].local_address_added(ip("10.2.0.1"));
    w.ends[0].local_address_removed(w.now, addresses(0)[0]);
    w.pump();
    assert_eq!(sources(&w, 0, id), [addresses(0)[1]]);
    assert_eq!(changes(&mut w), []);
}

/// Without ASCONF the peer lists an address as long as it knows the association.
///
/// RFC 9260, section 5.1.2
#[test]
fn a_returning_listed_address_is_a_source_again() {
    let mut w = World::new();
    let (a, b) = w.connect();
    let [first, second] = addresses(0);
    w.ends[0].local_address_removed(w.now, second);
    w.block(second);
    w.run(secs(60));
    assert_eq!(sources(&w, 0, a), [first, first]);
    w.unblock(second);
    w.ends[0].local_address_added(second);
    w.run(secs(60));
    assert_eq!(sources(&w, 0, a), [first, second]);
    for end in [0, 1] {
        w.block(addresses(end)[0]);
    }
    w.send(0, a, 0, pattern(3000));
    w.run(secs(100));
    assert_eq!(w.receive_lengths(1, b), [3000]);
}
