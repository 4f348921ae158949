//! Probes as a share of all packets: docs/decisions/path-mtu.md

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use carrick_proto::{AssociationConfig, PathId, PathMtuDiscovery, SendOptions};

use crate::common::*;

/// MTU of the routes of both hosts in bytes.
const ROUTE_MTU: usize = 1500;

/// Probes of one search from the base: more than any path here needs.
const ONE_SEARCH: u64 = 25;

#[derive(Clone, Copy, Debug)]
enum Load {
    /// As many messages as the windows admit, for a minute.
    Bulk,
    /// A message of this number of bytes at this interval, for an hour.
    Messages(Duration, usize),
    /// Heartbeats alone, for an hour.
    Idle,
}

/// Loads of many packets, whose simulation takes a minute.
const HEAVY_LOADS: [Load; 2] = [Load::Bulk, Load::Messages(Duration::from_millis(20), 1400)];

const LOADS: [Load; 4] = [
    Load::Messages(Duration::from_millis(20), 100),
    Load::Messages(Duration::from_secs(1), 1400),
    Load::Messages(Duration::from_secs(1), 100),
    Load::Idle,
];

/// Packets of both directions.
#[derive(Debug)]
struct Counts {
    probes: u64,
    packets: u64,
}

impl Counts {
    fn per_cent(&self) -> f64 {
        100.0 * self.probes as f64 / self.packets as f64
    }
}

/// Counts the packets of an association over a path that silently drops packets larger than `link`.
fn counted(config: &AssociationConfig, link: usize, load: Load) -> Counts {
    let mut w = World::pair([config.clone(), config.clone()]);
    w.discard_log = true;
    // Millions of packets.
    w.hands_over = false;
    let counts = Rc::new([Cell::new(0), Cell::new(0)]);
    let [packets, probes] = &*counts;
    let seen = Rc::clone(&counts);
    w.rule(move |packet| {
        let [packets, probes] = &*seen;
        packets.set(packets.get() + 1);
        probes.set(probes.get() + u64::from(packet.probe));
        Verdict::Pass
    });
    w.narrow(0, link);
    let a = w.begin_connect(&[addresses(1)[0]]);
    let established = [Some("Established"); 2];
    assert!(w.run_until(secs(10), |w| w.states() == established));
    let b = w.association(1);
    // The MTU of the hosts' routes, which drivers set.
    for (end, id) in [(0, a), (1, b)] {
        let set = w.change(end, id).set_path_mtu(PathId(0), ROUTE_MTU);
        set.expect("a path");
    }
    let (interval, bytes, duration) = match load {
        Load::Bulk => (ms(10), 100_000, secs(60)),
        Load::Messages(interval, bytes) => (interval, bytes, secs(3600)),
        Load::Idle => (secs(3600), 0, secs(3600)),
    };
    let end = w.now + duration;
    while w.now < end {
        if bytes > 0 {
            let now = w.now;
            let sent = w.ends[0].send(now, a, SendOptions::default(), pattern(bytes));
            assert!(sent.is_ok() || matches!(load, Load::Bulk), "{sent:?}");
        }
        w.run(interval);
        w.receive(1, b);
    }
    let counts = Counts {
        probes: probes.get(),
        packets: packets.get(),
    };
    let share = counts.per_cent();
    println!("{link} bytes, {load:?}: {counts:?}, {share:.4} %");
    counts
}

/// Returns the configuration with a search of each path.
fn searching() -> AssociationConfig {
    AssociationConfig::modern().with(|c| {
        c.mtu.path_mtu_discovery = Some(PathMtuDiscovery {
            // No larger probe leaves a host.
            max_probed_mtu: ROUTE_MTU,
            ..PathMtuDiscovery::default()
        });
    })
}

/// Checks the bound for the default configuration: none on a path without a black hole, and beside the search after
/// one at most one of 1000 packets.
fn check_default(load: Load) {
    let config = AssociationConfig::modern();
    assert_eq!(counted(&config, ROUTE_MTU, load).probes, 0, "{load:?}");
    for link in [1400, 1280] {
        let counts = counted(&config, link, load);
        let later = counts.probes.saturating_sub(ONE_SEARCH);
        assert!(later * 1000 <= counts.packets, "{load:?}: {counts:?}");
    }
}

/// RFC 8899, section 5.1.1
#[test]
fn default_probes_are_one_in_a_thousand_packets() {
    LOADS.into_iter().for_each(check_default);
}

/// The reason why the search of each path is off by default.
#[test]
fn a_search_of_idle_paths_is_more_than_that() {
    for link in [ROUTE_MTU, 1400, 1280] {
        let counts = counted(&searching(), link, Load::Idle);
        assert!(counts.probes * 1000 > counts.packets, "{counts:?}");
    }
}

/// RFC 8899, section 5.1.1
#[test]
#[ignore = "takes a minute"]
fn probes_of_heavy_loads_are_fewer() {
    HEAVY_LOADS.into_iter().for_each(check_default);
    for load in HEAVY_LOADS.into_iter().chain(LOADS) {
        for link in [ROUTE_MTU, 1400, 1280] {
            let counts = counted(&searching(), link, load);
            assert!(counts.probes > 0, "{load:?}: {counts:?}");
        }
    }
}
