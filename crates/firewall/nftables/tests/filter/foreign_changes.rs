//! Another program changes the middlebox's table: the middlebox detects the change, and its next start
//! restores the table.

use carrick_nftables::{NftablesBackend, NftablesConfig, Policy};
use carrick_simco::backend::{
    Backend as _, BackendError, Element, Flow, Pattern, PatternSide, PortPool,
};
use carrick_simco::message::{Direction, Lifetime};

use crate::hosts::Host;
use crate::network::{LONG, Network, Side, UDP, at, flow, inside, outside, translator};

/// Internal ports, by the handling of their packets.
const GRANTED: u16 = 100;
const WILD: u16 = 101;
const BLOCKED: u16 = 102;
const NOTHING: u16 = 103;

/// Flows of one internal port, by external port.
fn pattern(port: u16) -> Pattern {
    let side = |address, first_port, last_port| PatternSide {
        address,
        prefix: 32,
        first_port,
        last_port,
    };
    Pattern {
        protocol: UDP,
        internal: side(inside(false, 0).ip(), port, port),
        external: side(outside(false, 0).ip(), 0, u16::MAX),
    }
}

fn granted() -> Element {
    flow(false, UDP, GRANTED, Direction::Both)
}

/// Returns a flow, a wildcard and a blocked flow.
fn elements() -> [(Element, Lifetime); 4] {
    [
        granted(),
        Element::Allow(pattern(WILD), Direction::Both),
        flow(false, UDP, BLOCKED, Direction::Both),
        Element::Block(pattern(BLOCKED)),
    ]
    .map(|element| (element, LONG))
}

fn start(network: &Network, config: &NftablesConfig) -> NftablesBackend {
    let mut filter = network.open(config.clone());
    filter.reconcile(at(0), &elements()).unwrap();
    filter
}

/// Returns a chain with the handles of its rules.
fn chain(network: &Network, name: &str) -> String {
    let firewall = network.path(Host::Firewall);
    let firewall = firewall.file_name().unwrap().to_str().unwrap();
    let output = std::process::Command::new("ip")
        .args(["netns", "exec", firewall, "nft", "-a", "list", "chain"])
        .args(["inet", "carrick", name])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that exactly the granted packets pass.
fn assert_filtered(network: &Network, policy: Policy, after: &str) {
    let passes = |port| network.both_ways(inside(false, port), outside(false, port));
    assert_eq!(
        [GRANTED, WILD, BLOCKED, NOTHING].map(passes),
        [
            [true; 2],
            [true; 2],
            [false; 2],
            [policy == Policy::Accept; 2]
        ],
        "{policy:?}, {after}"
    );
}

/// Changes of the table as created; `&&` separates two batches. `FIRST` is the handle of the first rule
/// of `forward`.
const CHANGES: &[&str] = &[
    "flush ruleset",
    "delete table inet carrick",
    "delete table inet carrick; add table inet carrick; add chain inet carrick forward { type filter hook forward priority 0; policy drop; }",
    "add table inet carrick { flags dormant; }",
    "flush chain inet carrick forward; delete chain inet carrick forward && add table inet carrick { flags dormant; }",
    "flush chain inet carrick forward",
    "flush chain inet carrick blocks",
    "flush chain inet carrick patterns",
    "delete rule inet carrick forward handle FIRST",
    "replace rule inet carrick forward handle FIRST accept",
    "insert rule inet carrick forward accept",
    "insert rule inet carrick forward drop",
    "insert rule inet carrick blocks accept",
    "insert rule inet carrick patterns drop",
    "flush chain inet carrick forward; delete chain inet carrick forward",
    "rename chain inet carrick forward aside",
    // A chain replaced by another one of its name.
    "flush chain inet carrick forward; delete chain inet carrick forward; add chain inet carrick forward",
    "flush chain inet carrick forward; delete chain inet carrick forward; add chain inet carrick forward { type filter hook input priority 0; policy drop; }",
    "flush chain inet carrick forward; delete chain inet carrick forward; add chain inet carrick forward { type filter hook forward priority 9; policy accept; }",
    "flush chain inet carrick forward; flush chain inet carrick blocks; delete chain inet carrick blocks",
    "flush chain inet carrick forward; flush chain inet carrick blocks; delete chain inet carrick blocks; add chain inet carrick blocks { type filter hook forward priority 9; }",
    // The same with sets.
    "flush chain inet carrick forward; delete set inet carrick out4",
    "flush chain inet carrick forward; delete set inet carrick in4; add set inet carrick in4 { type ipv4_addr; }",
    "flush chain inet carrick blocks; flush chain inet carrick patterns; delete set inet carrick alive; add set inet carrick alive { type mark; }",
];

#[test]
#[ignore = "needs root"]
fn changes_of_the_table_are_detected_and_repaired() {
    let network = Network::new();
    for policy in [Policy::Drop, Policy::Accept] {
        let config = NftablesConfig {
            policy,
            ..NftablesConfig::default()
        };
        let opposite = match policy {
            Policy::Drop => "chain inet carrick forward { policy accept; }",
            Policy::Accept => "chain inet carrick forward { policy drop; }",
        };
        for command in CHANGES.iter().chain([&opposite]) {
            let mut filter = start(&network, &config);
            network.nft("add rule inet carrick site udp dport 99 accept");
            assert_eq!(filter.check(), Ok(()));
            assert_filtered(&network, policy, "before");
            let rules = chain(&network, "forward");
            let first = rules.lines().find(|line| line.contains("jump site"));
            let first = first.unwrap().rsplit(' ').next().unwrap();
            for batch in command.replace("FIRST", first).split("&&") {
                network.nft(batch);
            }
            assert_eq!(filter.check(), Err(BackendError::NotEnforced), "{command}");
            drop(filter);
            let mut filter = start(&network, &config);
            assert_filtered(&network, policy, command);
            assert_eq!(filter.check(), Ok(()), "{command}");
            filter.remove_table().unwrap();
            network.nft("flush ruleset");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn restart_repairs_changed_elements() {
    let network = Network::new();
    let policy = Policy::Drop;
    let config = NftablesConfig::default();
    let key = "17 . 10.81.1.2 . 103 . 10.81.2.2 . 103";
    for command in [
        "flush set inet carrick out4; flush set inet carrick in4".to_owned(),
        "flush set inet carrick alive".to_owned(),
        format!("add element inet carrick out4 {{ {key} }}"),
        format!("add element inet carrick out4 {{ {key} timeout 1h }}"),
    ] {
        let filter = start(&network, &config);
        assert_filtered(&network, policy, "before");
        network.nft(&command);
        drop(filter);
        let filter = start(&network, &config);
        assert_filtered(&network, policy, &command);
        filter.remove_table().unwrap();
    }
}

#[test]
#[ignore = "needs root"]
fn administrator_rules_are_kept() {
    let network = Network::new();
    let mut filter = start(&network, &NftablesConfig::default());
    for command in [
        "add rule inet carrick site udp dport 98 counter accept",
        "add chain inet carrick mine",
        "add rule inet carrick mine udp dport 97 accept",
        "add rule inet carrick site jump mine",
        "add set inet carrick friends { type ipv4_addr; elements = { 10.81.2.2 } }",
        "add table inet other; add chain inet other forward { type filter hook forward priority 5; }",
        "add rule inet carrick site ip saddr 10.99.0.1 jump patterns",
    ] {
        network.nft(command);
        assert_eq!(filter.check(), Ok(()), "{command}");
    }
    // The middlebox's own changes are not reported either, with and without foreign ones between them.
    let block = [Element::Block(pattern(NOTHING))];
    filter.add(at(0), &block, LONG).unwrap();
    assert_eq!(filter.check(), Ok(()));
    network.nft("delete table inet other");
    filter.remove(at(0), &block).unwrap();
    assert_eq!(filter.check(), Ok(()));
    assert_filtered(&network, Policy::Drop, "beside");
    let beside = || ["site", "mine"].map(|name| chain(&network, name));
    let before = beside();
    drop(filter);
    network.nft("flush chain inet carrick forward");
    let mut filter = start(&network, &NftablesConfig::default());
    assert_eq!(beside(), before);
    assert_eq!(filter.check(), Ok(()));
    assert_filtered(&network, Policy::Drop, "the next start");
}

#[test]
#[ignore = "needs root"]
fn counters_continue_after_a_repair() {
    let network = Network::new();
    let config = NftablesConfig::default();
    let filter = start(&network, &config);
    assert_filtered(&network, Policy::Drop, "before");
    drop(filter);
    network.nft("flush chain inet carrick forward; delete chain inet carrick forward");
    let mut filter = start(&network, &config);
    assert_filtered(&network, Policy::Drop, "after");
    let traffic = filter.traffic(&[granted()]).unwrap().unwrap();
    assert_eq!(traffic.packets, 4);
}

#[test]
#[ignore = "needs root"]
fn translation_is_restored_by_a_restart() {
    let network = Network::new();
    let config = NftablesConfig {
        translation: vec![PortPool::new(translator(false, 0).ip(), 4000..=4100)],
        ..NftablesConfig::default()
    };
    let element = Element::Flow(Flow {
        protocol: UDP,
        internal: inside(false, 5000),
        external: outside(false, 6000),
        outside: Some(translator(false, 4000)),
        direction: Direction::Both,
    });
    let seen = || {
        let (internal, external) = (inside(false, 5000), outside(false, 6000));
        let mapped = translator(false, 4000);
        [
            network.datagram(Side::Inside, internal, external, external),
            network.datagram(Side::Outside, external, mapped, internal),
        ]
    };
    let right = [Some(translator(false, 4000)), Some(outside(false, 6000))];
    for command in [
        "flush chain inet carrick postrouting",
        "insert rule inet carrick prerouting accept",
        "flush chain inet carrick prerouting; delete chain inet carrick prerouting",
        "flush chain inet carrick postrouting; delete map inet carrick snat4",
    ] {
        let mut filter = network.open(config.clone());
        filter.reconcile(at(0), &[(element, LONG)]).unwrap();
        assert_eq!(filter.check(), Ok(()));
        assert_eq!(seen(), right, "before");
        network.nft(command);
        assert_eq!(filter.check(), Err(BackendError::NotEnforced), "{command}");
        drop(filter);
        let mut filter = network.open(config.clone());
        filter.reconcile(at(0), &[(element, LONG)]).unwrap();
        assert_eq!(seen(), right, "{command}");
        filter.remove_table().unwrap();
    }
}

/// Packets of each kind that are sent while the middlebox restarts repeatedly.
const PACKETS: u32 = 2000;

#[test]
#[ignore = "needs root"]
fn restart_changes_no_packet_decision() {
    let network = Network::new();
    let config = NftablesConfig::default();
    drop(start(&network, &config));
    assert_filtered(&network, Policy::Drop, "before");
    let ends = [GRANTED, WILD, BLOCKED, NOTHING].map(|port| {
        let sender = network.udp(Side::Inside, inside(false, port));
        let receiver = network.udp(Side::Outside, outside(false, port));
        (sender, receiver, outside(false, port))
    });
    let sending = std::thread::spawn(move || {
        let mut received = [0_u32; 4];
        let mut receive = || {
            for ((_, receiver, _), received) in ends.iter().zip(&mut received) {
                while receiver.recv(&mut [0; 16]).is_ok() {
                    *received += 1;
                }
            }
        };
        for _ in 0..PACKETS {
            for (sender, _, to) in &ends {
                sender.send_to(&[1], to).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_micros(300));
            receive();
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        receive();
        received
    });
    let mut starts = 0_u32;
    while !sending.is_finished() {
        drop(start(&network, &config));
        starts += 1;
    }
    assert_eq!(sending.join().unwrap(), [PACKETS, PACKETS, 0, 0]);
    assert!(starts > 5, "{starts}");
}
