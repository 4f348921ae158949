//! Local addresses that INIT and INIT ACK advertise, and addresses of the peer that are accepted.

use std::net::IpAddr;

use carrick_wire::{ChunkType, Parameter, ParameterType};

use crate::common::*;

const KINDS: [ChunkType; 2] = [ChunkType::INIT, ChunkType::INIT_ACK];

fn ips(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|a| ip(a)).collect()
}

/// Two endpoints with these addresses, established by connecting to the first one of endpoint 1.
fn established(locals: [&[&str]; 2], dynamic: bool) -> World {
    let mut w = World::with(2, |end, config| {
        config.local_addresses = ips(locals[end]);
        config.association.extensions.dynamic_addresses = dynamic;
        config.association.extensions.authentication = dynamic;
    });
    w.config.extensions.dynamic_addresses = dynamic;
    w.config.extensions.authentication = dynamic;
    w.begin_connect(&[ip(locals[1][0])]);
    w.run(secs(5));
    assert_eq!(w.states(), [Some("Established"); 2]);
    w
}

/// The addresses in the INIT of endpoint 0 or in the INIT ACK of endpoint 1.
fn advertised(w: &World, end: usize) -> Vec<IpAddr> {
    let packet = w.sent(end, KINDS[end])[0];
    let parameters = packet.parameters().into_iter();
    let addresses = parameters.filter_map(|p| match p {
        Parameter::Ipv4Address(a) => Some(IpAddr::V4(a)),
        Parameter::Ipv6Address(a) => Some(IpAddr::V6(a)),
        _ => None,
    });
    addresses.collect()
}

fn remotes(w: &World, end: usize) -> Vec<IpAddr> {
    w.paths(end, w.association(end)).map(|p| p.remote).collect()
}

/// RFC 6951, section 5.7
#[test]
fn a_single_address_beside_loopback_is_not_advertised() {
    let loopback = ["127.0.0.1", "10.0.0.1", "::1"];
    let single = ["10.0.0.2"];
    for dynamic in [false, true] {
        let w = established([&loopback, &single], dynamic);
        assert_eq!([0, 1].map(|end| advertised(&w, end).len()), [0, 0]);
        let w = established([&["10.0.0.1"], &["10.0.0.2", "127.0.0.1", "::1"]], dynamic);
        assert_eq!([0, 1].map(|end| advertised(&w, end).len()), [0, 0]);
        assert_eq!(w.sent(1, ChunkType::ASCONF).len(), 0);
    }
}

/// RFC 6951, section 5.7
#[test]
fn a_translated_host_with_loopback_hides_its_address() {
    let mut w = World::with(2, |end, config| {
        let own = addresses(end)[0];
        config.local_addresses = vec![ip("127.0.0.1"), own, ip("::1")];
        config
            .local_addresses
            .truncate(if end == 0 { 3 } else { 2 });
        config
            .local_addresses
            .retain(|a| end == 0 || !a.is_loopback());
    });
    let outside = ip("192.0.2.7");
    w.translated.insert(addresses(0)[0], (outside, 40_000));
    let config = w.config.clone();
    let a = w.ends[0]
        .connect(w.now, &[addresses(1)[0]], port(1), Some(9900), config)
        .expect("connect");
    w.run(secs(60));
    let b = w.association(1);
    assert_eq!(remotes(&w, 1), [outside]);
    w.send(0, a, 0, pattern(3000));
    w.send(1, b, 0, pattern(2000));
    w.run(secs(5));
    assert_eq!(w.receive_lengths(1, b), [3000]);
    assert_eq!(w.receive_lengths(0, a), [2000]);
}

/// RFC 9260, section 5.1.2
#[test]
fn several_addresses_are_advertised_without_loopback() {
    let first = ["127.0.0.1", "10.0.0.1", "10.1.0.1", "::1"];
    let w = established([&first, &["10.0.0.2", "10.1.0.2"]], false);
    assert_eq!(advertised(&w, 0), ips(&first[1..3]));
    assert_eq!(advertised(&w, 1), ips(&["10.0.0.2", "10.1.0.2"]));
}

/// All addresses of a host are valid on it.
///
/// RFC 9260, section 5.1.2
#[test]
fn a_peer_on_this_host_is_sent_loopback_and_others() {
    let both = [["127.0.0.1", "10.0.0.1"], ["127.0.0.2", "10.0.0.2"]];
    let w = established([&both[0], &both[1]], false);
    assert_eq!(advertised(&w, 0), ips(&both[0]));
    assert_eq!(advertised(&w, 1), ips(&both[1]));
    let w = established([&both[0][..1], &both[1][..1]], false);
    assert_eq!([0, 1].map(|end| advertised(&w, end).len()), [0, 0]);
}

/// The address of a family that the peer lacks does not count.
///
/// RFC 9260, section 5.1.2
#[test]
fn an_unsupported_family_makes_no_second_address() {
    let w = established([&["10.0.0.1"], &["10.0.0.2", "fd00::2"]], false);
    assert_eq!(advertised(&w, 1).len(), 0);
    let w = established([&["10.0.0.1", "fd00::1"], &["10.0.0.2", "fd00::2"]], false);
    assert_eq!(advertised(&w, 1), ips(&["10.0.0.2", "fd00::2"]));
}

/// Loopback alone does not support a family.
///
/// RFC 9260, section 3.3.2.1.5
#[test]
fn loopback_is_no_support_for_its_family() {
    let server = ["10.0.0.2", "fd00::2"];
    let w = established([&["10.0.0.1", "127.0.0.1", "::1"], &server], false);
    let init = w.sent(0, ChunkType::INIT)[0];
    let types = init.parameter_types();
    assert!(types.contains(&ParameterType::SUPPORTED_ADDRESS_TYPES));
    assert_eq!(remotes(&w, 0), ips(&server[..1]));
    // A peer that lists the family all the same.
    let mut w = World::with(1, |_, config| {
        config.local_addresses = ips(&["10.0.0.1", "127.0.0.1", "::1"]);
    });
    Puppet::new().connect_with(&mut w, |p| p.ip_address(ip("fd00::99")));
    assert_eq!(remotes(&w, 0), ips(&["10.0.0.99"]));
}

/// RFC 4291, section 2.5.6
#[test]
fn link_local_addresses_stay_on_their_link() {
    let first = ["fd00::1", "fe80::1"];
    let w = established([&first, &["fd00::2", "fe80::2"]], false);
    assert_eq!([0, 1].map(|end| advertised(&w, end).len()), [0, 0]);
    let w = established([&first, &["fe80::2", "fd00::2"]], false);
    assert_eq!(advertised(&w, 0), ips(&first));
    assert_eq!(advertised(&w, 1), ips(&["fe80::2", "fd00::2"]));
    assert_eq!(remotes(&w, 0), ips(&["fe80::2", "fd00::2"]));
    // Listed by a peer that sends from a wider scope.
    let mut w = World::new();
    Puppet::new().connect_with(&mut w, |p| p.ip_address(ip("169.254.0.9")));
    assert_eq!(remotes(&w, 0), ips(&["10.0.0.99"]));
}

/// A pair of addresses that cannot work is not monitored.
///
/// RFC 9260, section 5.1.2
#[test]
fn loopback_makes_no_pair_with_another_host() {
    let mut w = World::with(2, |end, config| {
        if end == 0 {
            config.local_addresses = ips(&["127.0.0.1", "10.0.0.1"]);
        }
    });
    w.config.paths.monitor_pairs = true;
    w.connect();
    let mut sources = w.paths(0, w.association(0)).map(|p| p.local);
    assert!(sources.all(|source| source == Some(addresses(0)[0])));
}
