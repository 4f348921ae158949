//! Wildcards and prohibits.

use carrick_nftables::NftablesConfig;
use carrick_simco::backend::{Backend as _, BackendError, Element, Pattern, Traffic, pattern_of};
use carrick_simco::message::{AddressTuple, Direction, IpVersion, Lifetime, Location, Scope};

use crate::network::{LONG, Network, TCP, UDP, at, flow, inside, outside};

/// A protocol without ports.
const ICMP: u8 = 1;

/// Pattern of an internal port and any port of the outer host's network.
fn wildcard(v6: bool, protocol: u8, port: u16, ports: u16) -> Pattern {
    let internal = AddressTuple::range(
        Location::Internal,
        protocol,
        inside(v6, 0).ip(),
        port,
        ports,
    );
    let external = AddressTuple {
        location: Location::External,
        protocol,
        scope: Scope::Full {
            address: outside(v6, 0).ip(),
            prefix: if v6 { 61 } else { 23 },
            port: 0,
            ports: 1,
        },
    };
    pattern_of(&internal, &external)
}

#[test]
#[ignore = "needs root"]
fn wildcards_pass_their_direction_only() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    for v6 in [false, true] {
        for (direction, expected) in [
            (Direction::Inbound, [false, true]),
            (Direction::Outbound, [true, false]),
        ] {
            let element = [Element::Allow(wildcard(v6, UDP, 100, 10), direction)];
            filter.add(at(0), &element, LONG).unwrap();
            for (port, covered) in [(99, false), (100, true), (109, true), (110, false)] {
                let passes = network.both_ways(inside(v6, port), outside(v6, 7000 + port));
                let expected = if covered { expected } else { [false; 2] };
                assert_eq!(passes, expected, "{direction:?} {port} {v6}");
            }
            filter.remove(at(0), &element).unwrap();
            let passes = network.both_ways(inside(v6, 105), outside(v6, 7105));
            assert_eq!(passes, [false; 2]);
        }
        let elsewhere = Pattern {
            external: wildcard(v6, UDP, 1, 1).internal,
            ..wildcard(v6, UDP, 100, 10)
        };
        let element = [Element::Allow(elsewhere, Direction::Both)];
        filter.add(at(0), &element, LONG).unwrap();
        let passes = network.both_ways(inside(v6, 105), outside(v6, 7105));
        assert_eq!(passes, [false; 2], "another network");
        filter.remove(at(0), &element).unwrap();
    }
    assert_eq!(filter.elements(), 0);
}

#[test]
#[ignore = "needs root"]
fn portless_protocols_match_by_addresses() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    let pattern = wildcard(false, ICMP, 0, 1);
    let allow = [Element::Allow(pattern, Direction::Both)];
    assert!(!network.echoes());
    filter.add(at(0), &allow, LONG).unwrap();
    assert!(network.echoes());
    filter.add(at(0), &[Element::Block(pattern)], LONG).unwrap();
    assert!(!network.echoes());
    filter.remove(at(0), &[Element::Block(pattern)]).unwrap();
    assert!(network.echoes());
}

#[test]
#[ignore = "needs root"]
fn overlapping_wildcards_are_independent() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    let first = [Element::Allow(
        wildcard(false, UDP, 100, 10),
        Direction::Inbound,
    )];
    let second = [Element::Allow(
        wildcard(false, UDP, 105, 10),
        Direction::Inbound,
    )];
    let exact = [flow(false, UDP, 107, Direction::Inbound)];
    for element in [&first, &second, &exact] {
        filter.add(at(0), element, LONG).unwrap();
    }
    let passes = |port| network.both_ways(inside(false, port), outside(false, port))[1];
    assert_eq!([101, 107, 113].map(passes), [true; 3]);
    filter.remove(at(0), &first).unwrap();
    assert_eq!([101, 107, 113].map(passes), [false, true, true]);
    filter.remove(at(0), &second).unwrap();
    assert_eq!([101, 107, 113].map(passes), [false, true, false]);
    filter.remove(at(0), &exact).unwrap();
    assert!(!passes(107));
}

#[test]
#[ignore = "needs root"]
fn prohibit_blocks_established_flows() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    for v6 in [false, true] {
        let tcp = [flow(v6, TCP, 200, Direction::Both)];
        filter.add(at(0), &tcp, LONG).unwrap();
        let streams = network.connect(inside(v6, 200), outside(v6, 200));
        let mut streams = streams.unwrap();
        let any = |location| AddressTuple {
            location,
            protocol: 0,
            scope: Scope::ProtocolsOnly(if v6 { IpVersion::V6 } else { IpVersion::V4 }),
        };
        let all = pattern_of(&any(Location::Internal), &any(Location::External));
        let block = [Element::Block(all)];
        let side = crate::network::Side::Inside;
        assert!(network.carries(&mut streams, side, v6));
        filter.add(at(0), &block, LONG).unwrap();
        assert!(!network.carries(&mut streams, side, v6));
        filter.remove(at(0), &block).unwrap();
        let passes = network.both_ways(inside(v6, 200), outside(v6, 200));
        assert_eq!(passes, [false; 2], "TCP only");
        filter.remove(at(0), &tcp).unwrap();
    }
}

#[test]
#[ignore = "needs root"]
fn prohibit_counts_dropped_packets() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    let lets_pass = flow(false, UDP, 100, Direction::Both);
    let blocks = Element::Block(wildcard(false, UDP, 100, 1));
    filter.add(at(0), &[lets_pass, blocks], LONG).unwrap();
    let passes = network.both_ways(inside(false, 100), outside(false, 100));
    assert_eq!(passes, [false; 2]);
    let dropped = Traffic {
        packets: 2,
        octets: 2 * (20 + 8 + 6),
    };
    assert_eq!(filter.traffic(&[blocks]), Ok(Some(dropped)));
    assert_eq!(filter.traffic(&[lets_pass]), Ok(Some(Traffic::default())));
}

/// RFC 4540, section 8.5
#[test]
#[ignore = "needs root"]
fn pinholes_do_not_prevent_prohibits() {
    let network = Network::new();
    let config = NftablesConfig {
        max_elements: 2,
        max_patterns: 2,
        max_blocks: 2,
        ..NftablesConfig::default()
    };
    let mut filter = network.filter(config.clone());
    let wild = |n: u16| Element::Allow(wildcard(false, UDP, n * 100, 10), Direction::Both);
    let block = |n: u16| Element::Block(wildcard(false, UDP, n * 100, 10));
    let exact = |n: u16| flow(false, UDP, n * 100, Direction::Both);
    // The limit of passing patterns is reached.
    for n in [1, 2] {
        filter.add(at(0), &[wild(n), exact(n)], LONG).unwrap();
    }
    for element in [wild(3), exact(3)] {
        assert_eq!(filter.add(at(0), &[element], LONG), Err(BackendError::Full));
    }
    let passes = |n: u16| network.both_ways(inside(false, n * 100), outside(false, n * 100));
    assert_eq!([1, 2].map(passes), [[true; 2]; 2]);
    filter.add(at(0), &[block(1), block(2)], LONG).unwrap();
    assert_eq!([1, 2].map(passes), [[false; 2]; 2]);
    assert_eq!(
        filter.add(at(0), &[block(3)], LONG),
        Err(BackendError::Full)
    );
    filter.remove(at(0), &[block(1)]).unwrap();
    filter.add(at(0), &[block(3)], LONG).unwrap();
    // Nor do blocks count for the limit of passing patterns, also after a restart.
    drop(filter);
    let mut filter = network.open(config);
    let after = [block(2), block(3), wild(1)].map(|element| (element, LONG));
    filter.reconcile(at(0), &after).unwrap();
    assert_eq!([1, 2].map(passes), [[true; 2], [false; 2]]);
    filter.add(at(0), &[wild(4)], LONG).unwrap();
    let all = [block(2), block(3), wild(1), wild(4)];
    filter.remove(at(0), &all).unwrap();
    assert_eq!(filter.elements(), 0);
}

#[test]
#[ignore = "needs root"]
fn wildcards_expire_extend_and_count() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig {
        max_patterns: 2,
        ..NftablesConfig::default()
    });
    let [short, long, third] = [1, 2, 3].map(|n| {
        [Element::Allow(
            wildcard(false, UDP, n * 100, 10),
            Direction::Both,
        )]
    });
    for element in [&short, &long] {
        filter.add(at(0), element, Lifetime(2)).unwrap();
    }
    assert_eq!(filter.add(at(0), &third, LONG), Err(BackendError::Full));
    filter.extend(at(0), &long, Lifetime(1000)).unwrap();
    let passes = |port| network.both_ways(inside(false, port), outside(false, port));
    assert_eq!([passes(100), passes(200)], [[true; 2]; 2]);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!([passes(100), passes(200)], [[false; 2], [true; 2]]);
    let passed = Traffic {
        packets: 4,
        octets: 4 * (20 + 8 + 6),
    };
    assert_eq!(filter.traffic(&long), Ok(Some(passed)));
    filter.extend(at(3), &short, Lifetime(1000)).unwrap();
    assert_eq!(passes(100), [true; 2]);
    filter.remove(at(3), &[short[0], long[0]]).unwrap();
    assert_eq!([passes(100), passes(200)], [[false; 2]; 2]);
}
