//! Traditional NAT.

use std::net::SocketAddr;

use carrick_nftables::NftablesConfig;
use carrick_simco::backend::{Backend as _, Element, Flow, PortPool};
use carrick_simco::message::{Direction, NatMode, Parity, PrrParameters};

use crate::network::{LONG, Network, Side, UDP, at, inside, outside, translator};

fn config() -> NftablesConfig {
    let pool = |v6| PortPool::new(translator(v6, 0).ip(), 4000..=4100);
    NftablesConfig {
        translation: vec![pool(false), pool(true)],
        ..NftablesConfig::default()
    }
}

fn translated(v6: bool, internal: u16, port: u16, direction: Direction) -> [Element; 1] {
    [Element::Flow(Flow {
        protocol: UDP,
        internal: inside(v6, internal),
        external: outside(v6, 6000),
        outside: Some(translator(v6, port)),
        direction,
    })]
}

impl Network {
    /// Returns the source address of a packet of the inner host, as seen outside.
    fn seen_outside(&self, v6: bool, internal: u16) -> Option<SocketAddr> {
        let external = outside(v6, 6000);
        self.datagram(Side::Inside, inside(v6, internal), external, external)
    }

    /// Returns the source address of a packet to the translator's port, as seen by the inner host.
    fn seen_inside(&self, v6: bool, port: u16, internal: u16) -> Option<SocketAddr> {
        let (from, to) = (outside(v6, 6000), translator(v6, port));
        self.datagram(Side::Outside, from, to, inside(v6, internal))
    }
}

#[test]
#[ignore = "needs root"]
fn flow_is_translated_in_both_directions() {
    let network = Network::new();
    let mut filter = network.filter(config());
    for v6 in [false, true] {
        for (port, outward_first) in [(4000, true), (4001, false)] {
            // An earlier packet must not affect the translation.
            assert_eq!(network.seen_inside(v6, port, 5000), None);
            assert_eq!(network.seen_outside(v6, 5000), None);
            let element = translated(v6, 5000, port, Direction::Both);
            filter.add(at(0), &element, LONG).unwrap();
            for round in 0..2 {
                if (round == 0) == outward_first {
                    let seen = network.seen_outside(v6, 5000);
                    assert_eq!(seen, Some(translator(v6, port)));
                } else {
                    let seen = network.seen_inside(v6, port, 5000);
                    assert_eq!(seen, Some(outside(v6, 6000)));
                }
            }
            filter.remove(at(0), &element).unwrap();
            assert_eq!(network.seen_inside(v6, port, 5000), None);
            assert_eq!(network.seen_outside(v6, 5000), None);
        }
    }
    assert_eq!(filter.elements(), 0);
}

#[test]
#[ignore = "needs root"]
fn reused_port_leads_to_the_new_host() {
    let network = Network::new();
    let mut filter = network.filter(config());
    let first = translated(false, 5000, 4000, Direction::Inbound);
    let second = translated(false, 5001, 4000, Direction::Inbound);
    filter.add(at(0), &first, LONG).unwrap();
    assert!(network.seen_inside(false, 4000, 5000).is_some());
    filter.remove(at(0), &first).unwrap();
    filter.add(at(0), &second, LONG).unwrap();
    assert_eq!(network.seen_inside(false, 4000, 5000), None);
    let seen = network.seen_inside(false, 4000, 5001);
    assert_eq!(seen, Some(outside(false, 6000)));
    assert_eq!(network.seen_outside(false, 5001), None, "inbound only");
}

#[test]
#[ignore = "needs root"]
fn first_binding_of_a_flow_is_used() {
    let network = Network::new();
    let mut filter = network.filter(config());
    let first = translated(false, 5000, 4000, Direction::Both);
    let second = translated(false, 5000, 4001, Direction::Both);
    filter.add(at(0), &first, LONG).unwrap();
    filter.add(at(0), &second, LONG).unwrap();
    let seen = |port| Some(translator(false, port));
    assert_eq!(network.seen_outside(false, 5000), seen(4000));
    assert!(network.seen_inside(false, 4001, 5000).is_some());
    filter.remove(at(0), &first).unwrap();
    assert_eq!(network.seen_outside(false, 5000), seen(4001));
}

#[test]
#[ignore = "needs root"]
fn ports_of_the_requested_version_are_reserved() {
    let network = Network::new();
    let mut filter = network.filter(config());
    let wanted = PrrParameters {
        nat_mode: NatMode::Traditional,
        parity: Parity::Even,
        inside: None,
        outside: Some(carrick_simco::message::IpVersion::V6),
        protocol: UDP,
        ports: 2,
    };
    let reserved = filter.reserve(&wanted).unwrap();
    assert_eq!(
        reserved.outside.version(),
        carrick_simco::message::IpVersion::V6
    );
    filter.release(&reserved);
    filter.restore_reservation(&reserved).unwrap();
    assert!(filter.restore_reservation(&reserved).is_err(), "taken");
}
