//! Replacement of a table of another layout: chains of the administrator are kept, and a table exists at
//! any time.

use carrick_nftables::{NftablesBackend, NftablesConfig, NftablesError};
use carrick_simco::message::Direction;

use crate::hosts::Host;
use crate::network::{LONG, Network, UDP, at, flow, inside, outside, within};
use carrick_simco::backend::Backend as _;

/// Returns a configuration with other rules and sets.
fn other() -> NftablesConfig {
    NftablesConfig {
        max_elements: 5000,
        priority: -7,
        internal_interface: Some("inner".to_owned()),
        ..NftablesConfig::default()
    }
}

fn open(network: &Network, config: NftablesConfig) -> Result<NftablesBackend, NftablesError> {
    within(network.path(Host::Firewall), move || {
        NftablesBackend::open(config)
    })
}

#[test]
#[ignore = "needs root"]
fn administrator_rules_survive_a_new_layout() {
    let network = Network::new();
    drop(network.filter(NftablesConfig::default()));
    // Rules with references to sets, chains and counters.
    for command in [
        "add set inet carrick friends { type ipv4_addr; elements = { 10.81.2.2 } }",
        "add chain inet carrick mine",
        "add rule inet carrick mine udp dport 77 counter accept comment \"mine\"",
        "add rule inet carrick site ip saddr @friends udp dport { 53, 54 } accept",
        "add rule inet carrick site jump mine",
    ] {
        network.nft(command);
    }
    let passes = |port| network.both_ways(inside(false, port), outside(false, port));
    assert_eq!(
        [53, 77, 78].map(passes),
        [[false, true], [true; 2], [false; 2]]
    );
    let site = network.nft("list chain inet carrick site");
    let mut filter = open(&network, other()).unwrap();
    filter.reconcile(at(0), &[]).unwrap();
    let rules = network.nft("list ruleset");
    assert!(rules.contains("priority filter - 7") && rules.contains("size 5000"));
    assert_eq!(network.nft("list chain inet carrick site"), site);
    assert_eq!(
        [53, 77, 78].map(passes),
        [[false, true], [true; 2], [false; 2]]
    );
    // The table has the new layout.
    let element = [flow(false, UDP, 100, Direction::Both)];
    filter.add(at(0), &element, LONG).unwrap();
    drop(filter);
    drop(open(&network, other()).unwrap());
    assert_eq!(
        passes(100),
        [true; 2],
        "sets of the same layout keep their elements"
    );
    drop(open(&network, NftablesConfig::default()).unwrap());
    assert_eq!(passes(100), [false; 2]);
    assert_eq!(network.nft("list chain inet carrick site"), site);
}

#[test]
#[ignore = "needs root"]
fn failed_replacement_leaves_the_table_unchanged() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    let element = [flow(false, UDP, 100, Direction::Both)];
    filter.add(at(0), &element, LONG).unwrap();
    drop(filter);
    // A set in use can't be removed.
    let flow = "meta l4proto . ip saddr . th sport . ip daddr . th dport";
    network.nft(&format!("add rule inet carrick site {flow} @out4 continue"));
    let before = network.nft("list table inet carrick");
    let error = open(&network, other()).unwrap_err().to_string();
    assert!(error.contains("chain site"), "{error}");
    let passes = |port| network.both_ways(inside(false, port), outside(false, port));
    assert_eq!([100, 101].map(passes), [[true; 2], [false; 2]]);
    let stable = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.contains("expires"));
        lines.map(str::to_owned).collect()
    };
    let after = network.nft("list table inet carrick");
    assert_eq!(stable(&after), stable(&before));
}
