//! Kernels before Linux 6.12, which can't change the timeout of an element: it is removed and added in
//! one batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use carrick_nftables::{NftablesBackend, NftablesConfig};
use carrick_simco::backend::{Backend as _, Element, Flow, PortPool, Traffic, pattern_of};
use carrick_simco::message::{AddressTuple, Direction, IpVersion, Lifetime, Location, Scope};

use crate::network::{LONG, Network, Side, TCP, UDP, at, flow, inside, outside, translator};

fn config() -> NftablesConfig {
    NftablesConfig {
        update_timeouts: false,
        ..NftablesConfig::default()
    }
}

/// All TCP over IPv4.
fn wildcard() -> Element {
    let any = |location| AddressTuple {
        location,
        protocol: TCP,
        scope: Scope::ProtocolsOnly(IpVersion::V4),
    };
    let pattern = pattern_of(&any(Location::Internal), &any(Location::External));
    Element::Allow(pattern, Direction::Both)
}

/// Returns whether the wildcard passes packets.
fn connects(network: &Network, port: u16) -> bool {
    let (internal, external) = (inside(false, port), outside(false, port));
    network.connect(internal, external).is_some()
}

#[test]
#[ignore = "needs root"]
fn older_kernels_extend_and_restart_counters() {
    let network = Network::new();
    let mut filter = network.filter(config());
    let [short, long] = [400, 401].map(|port| flow(false, UDP, port, Direction::Both));
    let all = [short, long, wildcard()];
    filter.add(at(0), &all, Lifetime(2)).unwrap();
    let passes = |port| network.both_ways(inside(false, port), outside(false, port));
    assert_eq!([passes(400), passes(401)], [[true; 2]; 2]);
    assert!(connects(&network, 1));
    filter.extend(at(0), &[long, wildcard()], LONG).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!([passes(400), passes(401)], [[false; 2], [true; 2]]);
    assert!(connects(&network, 2));
    let since = Traffic {
        packets: 2,
        octets: 2 * (20 + 8 + 6),
    };
    assert_eq!(filter.traffic(&[long]), Ok(Some(since)));
    // An expired element is extended nevertheless: the middlebox decides.
    filter.extend(at(3), &[short, wildcard()], LONG).unwrap();
    assert_eq!(passes(400), [true; 2]);
    filter.remove(at(3), &all).unwrap();
    assert_eq!([passes(400), passes(401)], [[false; 2]; 2]);
    assert!(!connects(&network, 3));
    assert_eq!(filter.elements(), 0);
    assert!(!network.nft("list ruleset").contains("expires"));
}

#[test]
#[ignore = "needs root"]
fn older_kernels_extend_an_expired_wildcard() {
    let network = Network::new();
    let mut filter = network.filter(config());
    filter.add(at(0), &[wildcard()], Lifetime(1)).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!connects(&network, 1));
    filter.extend(at(2), &[wildcard()], LONG).unwrap();
    assert!(connects(&network, 2));
}

/// Packets sent while a flow is extended.
const PACKETS: u32 = 2000;

#[test]
#[ignore = "needs root"]
fn older_kernels_drop_no_packet_on_extension() {
    let network = Network::new();
    let mut filter = network.filter(config());
    let element = [flow(false, UDP, 400, Direction::Outbound)];
    filter.add(at(0), &element, LONG).unwrap();
    let (internal, external) = (inside(false, 400), outside(false, 400));
    assert_eq!(network.both_ways(internal, external), [true, false]);
    let sender = network.udp(Side::Inside, internal);
    let receiver = network.udp(Side::Outside, external);
    let sent = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&sent);
    // Few enough at a time that no queue is full.
    let sending = std::thread::spawn(move || {
        let mut received = 0_u32;
        while counter.load(Ordering::Relaxed) < PACKETS {
            for _ in 0..8 {
                sender.send_to(&[1], external).unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(1));
            while receiver.recv(&mut [0; 16]).is_ok() {
                received += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(200));
        while receiver.recv(&mut [0; 16]).is_ok() {
            received += 1;
        }
        received
    });
    // As long as packets are sent, whichever thread runs.
    let mut changes = 0_u32;
    while sent.load(Ordering::Relaxed) < PACKETS && !sending.is_finished() {
        filter
            .extend(at(0), &element, Lifetime(601 + changes % 2))
            .unwrap();
        changes += 1;
    }
    let received = sending.join().unwrap();
    assert!(changes > 100, "{changes}");
    assert_eq!(sent.load(Ordering::Relaxed), received, "{changes} changes");
}

#[test]
#[ignore = "needs root"]
fn older_kernels_extend_a_translated_flow() {
    let network = Network::new();
    let config = NftablesConfig {
        translation: vec![PortPool::new(translator(false, 0).ip(), 4000..=4100)],
        ..config()
    };
    let mut filter = network.filter(config.clone());
    let element = Element::Flow(Flow {
        protocol: UDP,
        internal: inside(false, 5000),
        external: outside(false, 6000),
        outside: Some(translator(false, 4000)),
        direction: Direction::Both,
    });
    let seen = || {
        let external = outside(false, 6000);
        network.datagram(Side::Inside, inside(false, 5000), external, external)
    };
    filter.add(at(0), &[element], Lifetime(2)).unwrap();
    assert_eq!(seen(), Some(translator(false, 4000)));
    filter.extend(at(0), &[element], LONG).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(seen(), Some(translator(false, 4000)));
    drop(filter);
    // The extension changes the timeout.
    let mut filter: NftablesBackend = network.open(config);
    filter
        .reconcile(at(0), &[(element, Lifetime(3600))])
        .unwrap();
    assert_eq!(seen(), Some(translator(false, 4000)));
    assert!(network.nft("list map inet carrick snat4").contains("59m"));
    filter.remove(at(0), &[element]).unwrap();
    assert_eq!(seen(), None);
}
