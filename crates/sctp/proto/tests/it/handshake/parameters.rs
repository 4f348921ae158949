//! Unknown parameters, and address parameters (sections 3.2.1, 5.1.2).

use carrick_wire::{CauseCode, ChunkType, Parameter, ParameterType};

use crate::common::*;

/// Parameters of all four kinds of unknown types (section 3.2.1), then an address.
fn unknown_parameters(stop: u16, p: &mut carrick_wire::ParameterWriter<'_>) {
    p.raw(ParameterType(0x8123), b"skip");
    p.raw(ParameterType(0xc123), b"skip, report");
    p.raw(ParameterType(stop), b"stop");
    p.ip_address(ip("10.1.0.99"));
    p.raw(ParameterType(0xc124), b"never reached");
}

/// RFC 9260, section 3.2.1
#[test]
fn unknown_init_parameters_are_reported_in_init_ack() {
    for (stop, reported) in [(0x0123, 1), (0x4123, 2)] {
        let mut w = World::new();
        let peer = Puppet::new();
        let answers = peer.init(&mut w, |p| unknown_parameters(stop, p));
        let parameters = answers[0].parameters();
        let unrecognized: Vec<_> = parameters
            .iter()
            .filter_map(|p| match p {
                Parameter::UnrecognizedParameter(value) => Some(*value),
                _ => None,
            })
            .collect();
        assert_eq!(unrecognized.len(), reported);
        assert_eq!(unrecognized[0], b"\xc1\x23\x00\x10skip, report");
        assert!(
            parameters
                .iter()
                .any(|p| matches!(p, Parameter::StateCookie(_)))
        );
    }
}

/// Parameters of extensions that are not implemented are not parsed, so a malformed one is unknown,
/// too.
///
/// RFC 9260, section 3.2.1
#[test]
fn unimplemented_extension_parameters_are_unknown() {
    let mut w = World::new();
    let peer = Puppet::new();
    let malformed: [(u16, &[u8]); 4] = [
        (0xc000, b"?"),
        (0xc004, &[0, 0, 0, 1]),
        (0x8001, &[]),
        (0x8004, &[0, 1, 0]),
    ];
    let answers = peer.init(&mut w, |p| {
        for (kind, value) in malformed {
            p.raw(ParameterType(kind), value);
        }
        // The two highest bits of RE-CONFIG's parameters are 00: stop without a report.
        p.raw(ParameterType(15), &[]);
        p.raw(ParameterType(0xc124), b"never reached");
    });
    assert!(answers[0].has(ChunkType::INIT_ACK));
    let parameters = answers[0].parameters();
    let unrecognized: Vec<_> = parameters
        .iter()
        .filter_map(|p| match p {
            Parameter::UnrecognizedParameter(value) => Some(&value[..2]),
            _ => None,
        })
        .collect();
    let expected: [&[u8]; 2] = [&[0xc0, 0], &[0xc0, 4]];
    assert_eq!(unrecognized, expected);
}

/// RFC 9260, section 3.2.2
#[test]
fn unknown_init_ack_parameters_are_reported() {
    for (stop, reported) in [(0x0123, 16), (0x4123, 24)] {
        let mut w = World::new();
        let mut peer = Puppet::new();
        peer.begin_accept(&mut w);
        let answers = peer.answer_init(&mut w, |p| {
            p.state_cookie(b"cookie");
            unknown_parameters(stop, p);
        });
        assert_eq!(
            answers[0].kinds(),
            [ChunkType::COOKIE_ECHO, ChunkType::ERROR]
        );
        let causes = answers[0].causes();
        assert_eq!(causes[0].0, CauseCode::UNRECOGNIZED_PARAMETERS);
        assert_eq!(causes[0].1.len(), reported);
        assert_eq!(&causes[0].1[..16], b"\xc1\x23\x00\x10skip, report");
    }
}

/// RFC 9260, section 5.1.2, rule C
#[test]
fn addresses_of_both_families_are_exchanged() {
    let mut w = World::with(2, |i, c| {
        c.local_addresses.push(ip(&format!("fd00::{}", i + 1)));
    });
    let (a, b) = w.connect();
    w.run(secs(5));
    assert_eq!(w.sent(0, ChunkType::INIT)[0].listed().len(), 3);
    assert_eq!(w.sent(1, ChunkType::INIT_ACK)[0].listed().len(), 3);
    for (end, id) in [(0, a), (1, b)] {
        let paths: Vec<_> = w.paths(end, id).collect();
        assert_eq!(paths.len(), 3);
        assert!(paths.iter().all(|p| p.status.confirmed && p.status.active));
    }
    w.block(addresses(1)[0]);
    w.block(addresses(1)[1]);
    w.send(0, a, 0, pattern(5000));
    w.run(secs(60));
    assert_eq!(w.receive_lengths(1, b), [5000], "over IPv6");
}

/// RFC 9260, section 3.3.2.1.5
#[test]
fn ipv6_alone_is_declared_supported() {
    let mut w = World::with(2, |i, c| {
        c.local_addresses = vec![ip(&format!("fd00::{}", i + 1))];
    });
    w.begin_connect(&[ip("fd00::2")]);
    w.run(secs(1));
    assert_eq!(w.states(), [Some("Established"); 2]);
    let init = w.sent(0, ChunkType::INIT)[0].clone();
    assert!(init.parameters().iter().any(
        |p| matches!(p, Parameter::SupportedAddressTypes(t) if t.clone().collect::<Vec<_>>() == [6])
    ));
    assert_eq!(init.listed().len(), 0, "a single address is not listed");
}

/// RFC 9260, section 5.1.2
#[test]
fn supported_address_types_limit_the_init_ack() {
    let with_v6 = || {
        World::with(1, |_, c| {
            c.local_addresses.push(ip("fd00::1"));
            c.local_addresses.push(ip("fd00::2"));
        })
    };
    let mut w = with_v6();
    let answers = Puppet::new().init(&mut w, |p| p.supported_address_types(&[5]));
    assert_eq!(answers[0].listed(), addresses(0));
    // The family that the peer uses counts as supported, whatever it lists.
    let mut w = with_v6();
    let answers = Puppet::new().init(&mut w, |p| {
        p.supported_address_types(&[5]);
        p.ip_address(ip("fd00::99"));
    });
    assert_eq!(answers[0].listed().len(), 4);
    let mut w = with_v6();
    let answers = Puppet::new().init(&mut w, |p| p.supported_address_types(&[6]));
    // IPv4 carried the INIT, whose length limits the addresses of the answer.
    assert_eq!(answers[0].listed().len(), 3);
}

/// RFC 9260, section 5.1.2
#[test]
fn unusable_addresses_are_ignored_silently() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |p| {
        for address in [
            "fd00::99",
            "224.0.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "127.0.0.1",
            "10.1.0.99",
        ] {
            p.ip_address(ip(address));
        }
    });
    assert_eq!(answers[0].kinds(), [ChunkType::INIT_ACK]);
    peer.record_init(&answers[0]);
    peer.send(&mut w, |p| p.cookie_echo(&Puppet::cookie(&answers[0])));
    let id = w.association(0);
    let remotes: Vec<_> = w.paths(0, id).map(|p| p.remote).collect();
    assert_eq!(remotes, [ip("10.0.0.99"), ip("10.1.0.99")]);
}

/// RFC 9260, section 5.1.2, rule A
#[test]
fn without_parameters_the_source_is_the_only_address() {
    let mut w = World::new();
    let (_, id) = Puppet::new().connect(&mut w);
    assert_eq!(w.paths(0, id).count(), 1);
}
