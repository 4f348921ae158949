//! Exact flows.

use std::time::Duration;

use carrick_nftables::{NftablesBackend, NftablesConfig, Policy};
use carrick_simco::backend::{Backend as _, BackendError, Element, Traffic};
use carrick_simco::message::{Direction, Lifetime};

use crate::network::{LONG, Network, Side, TCP, UDP, at, flow, inside, outside};

#[test]
#[ignore = "needs root"]
fn flow_passes_in_its_direction_until_removed() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    for v6 in [false, true] {
        for (port, direction, expected) in [
            (100, Direction::Outbound, [true, false]),
            (101, Direction::Inbound, [false, true]),
            (102, Direction::Both, [true, true]),
        ] {
            let (internal, external) = (inside(v6, port), outside(v6, port));
            assert_eq!(network.both_ways(internal, external), [false; 2]);
            let element = [flow(v6, UDP, port, direction)];
            filter.add(at(0), &element, LONG).unwrap();
            assert_eq!(
                network.both_ways(internal, external),
                expected,
                "{direction:?} {v6}"
            );
            let neighbour = outside(v6, port + 1);
            assert_eq!(network.both_ways(internal, neighbour), [false; 2]);
            assert_eq!(
                network.connect(internal, external).map(drop),
                None,
                "UDP only"
            );
            filter.remove(at(0), &element).unwrap();
            assert_eq!(network.both_ways(internal, external), [false; 2]);
        }
    }
    assert_eq!(filter.elements(), 0);
}

#[test]
#[ignore = "needs root"]
fn ended_rule_blocks_its_connection_at_once() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    for v6 in [false, true] {
        let element = [flow(v6, TCP, 200, Direction::Both)];
        let (internal, external) = (inside(v6, 200), outside(v6, 200));
        assert!(network.connect(inside(v6, 199), outside(v6, 199)).is_none());
        filter.add(at(0), &element, LONG).unwrap();
        let mut streams = network.connect(internal, external).unwrap();
        for side in [Side::Inside, Side::Outside] {
            assert!(network.carries(&mut streams, side, v6));
        }
        filter.remove(at(0), &element).unwrap();
        for side in [Side::Inside, Side::Outside] {
            assert!(!network.carries(&mut streams, side, v6), "{side:?}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn shared_element_stays_until_the_last_flow() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    let (internal, external) = (inside(false, 300), outside(false, 300));
    let both = [flow(false, UDP, 300, Direction::Both)];
    let inward = [flow(false, UDP, 300, Direction::Inbound)];
    filter.add(at(0), &inward, LONG).unwrap();
    filter.add(at(0), &both, LONG).unwrap();
    filter.remove(at(0), &both).unwrap();
    assert_eq!(network.both_ways(internal, external), [false, true]);
    filter.remove(at(0), &inward).unwrap();
    assert_eq!(network.both_ways(internal, external), [false; 2]);
}

#[test]
#[ignore = "needs root"]
fn kernel_expires_elements_and_extends_them() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    let [short, long] = [400, 401].map(|port| [flow(false, UDP, port, Direction::Both)]);
    for element in [&short, &long] {
        filter.add(at(0), element, Lifetime(2)).unwrap();
    }
    filter.extend(at(0), &long, Lifetime(1000)).unwrap();
    let passes = |port| network.both_ways(inside(false, port), outside(false, port));
    assert_eq!([passes(400), passes(401)], [[true; 2]; 2]);
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!([passes(400), passes(401)], [[false; 2], [true; 2]]);
    // An expired element can still be removed together with others.
    filter.remove(at(3), &[short[0], long[0]]).unwrap();
    assert_eq!(passes(401), [false; 2]);
    // Or extended: the middlebox decides.
    filter.add(at(3), &short, Lifetime(1)).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    filter.extend(at(5), &short, Lifetime(1000)).unwrap();
    assert_eq!(passes(400), [true; 2]);
}

#[test]
#[ignore = "needs root"]
fn counters_continue_after_extension() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    let elements = [500, 501].map(|port| flow(false, UDP, port, Direction::Both));
    filter.add(at(0), &elements, LONG).unwrap();
    assert_eq!(filter.traffic(&elements), Ok(Some(Traffic::default())));
    let (internal, external) = (inside(false, 500), outside(false, 500));
    assert_eq!(network.both_ways(internal, external), [true; 2]);
    filter.extend(at(0), &elements, Lifetime(2000)).unwrap();
    network.datagram(Side::Inside, internal, external, external);
    let passed = Traffic {
        packets: 3,
        octets: 3 * (20 + 8 + 6),
    };
    assert_eq!(filter.traffic(&elements), Ok(Some(passed)));
    assert_eq!(filter.traffic(&elements[1..]), Ok(Some(Traffic::default())));
}

#[test]
#[ignore = "needs root"]
fn counters_are_read_concurrently() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    let rule = |port| vec![flow(false, UDP, port, Direction::Both)];
    // More elements than are queried one by one.
    let rules: Vec<_> = (1000..2000).map(rule).collect();
    for rule in &rules {
        filter.add(at(0), rule, LONG).unwrap();
    }
    for port in [1000, 1999] {
        let ends = (inside(false, port), outside(false, port));
        assert_eq!(network.both_ways(ends.0, ends.1), [true; 2]);
    }
    let both_directions = Traffic {
        packets: 2,
        octets: 2 * (20 + 8 + 6),
    };
    let read = |filter: &mut NftablesBackend, rules: &[Vec<Element>]| {
        // This thread uses another namespace than the one that opened the filter.
        let meter = filter.meter(rules).unwrap();
        std::thread::spawn(meter).join().unwrap().unwrap()
    };
    let few = read(&mut filter, &rules[..2]);
    assert_eq!(few, [both_directions, Traffic::default()]);
    // A meter created before the end of a rule and read after it counts nothing.
    let meter = filter.meter(&rules).unwrap();
    filter.remove(at(0), &rules[0]).unwrap();
    let all = meter().unwrap();
    assert_eq!(all.len(), 1000);
    assert_eq!(
        (all[0], all[1], all[999]),
        (Traffic::default(), Traffic::default(), both_directions)
    );
    let sum: u64 = read(&mut filter, &rules).iter().map(|t| t.packets).sum();
    assert_eq!(sum, 2);
}

#[test]
#[ignore = "needs root"]
fn full_set_refuses_the_whole_request() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig {
        max_elements: 3,
        ..NftablesConfig::default()
    });
    let elements: Vec<_> = (600..604)
        .map(|port| flow(false, UDP, port, Direction::Both))
        .collect();
    assert_eq!(filter.add(at(0), &elements, LONG), Err(BackendError::Full));
    assert_eq!(filter.elements(), 0);
    assert!(!network.nft("list ruleset").contains("600"));
    filter.add(at(0), &elements[..3], LONG).unwrap();
    assert_eq!(
        filter.add(at(0), &elements[3..], LONG),
        Err(BackendError::Full)
    );
    filter.remove(at(0), &elements[..1]).unwrap();
    filter.add(at(0), &elements[3..], LONG).unwrap();
}

#[test]
#[ignore = "needs root"]
fn spoofed_packets_are_dropped() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig {
        internal_interface: Some("inner".to_owned()),
        ..NftablesConfig::default()
    });
    // For the filter, the inner host is the external one: its packets arrive on the wrong side.
    let swapped = carrick_simco::backend::Flow {
        protocol: UDP,
        internal: outside(false, 700),
        external: inside(false, 700),
        outside: None,
        direction: Direction::Both,
    };
    let swapped = [carrick_simco::backend::Element::Flow(swapped)];
    filter.add(at(0), &swapped, LONG).unwrap();
    let (internal, external) = (inside(false, 700), outside(false, 700));
    assert_eq!(network.both_ways(internal, external), [false; 2]);
    let right = [flow(false, UDP, 700, Direction::Both)];
    filter.add(at(0), &right, LONG).unwrap();
    assert_eq!(network.both_ways(internal, external), [true; 2]);
}

#[test]
#[ignore = "needs root"]
fn policy_accept_passes_everything() {
    let network = Network::new();
    let filter = network.filter(NftablesConfig {
        policy: Policy::Accept,
        keep: false,
        ..NftablesConfig::default()
    });
    let (internal, external) = (inside(false, 800), outside(false, 800));
    assert_eq!(network.both_ways(internal, external), [true; 2]);
    assert!(network.nft("list ruleset").contains("chain forward"));
    drop(filter);
    assert_eq!(network.nft("list ruleset"), "");
    drop(network.filter(NftablesConfig::default()));
    assert!(network.nft("list ruleset").contains("policy drop"), "kept");
}
