//! Length of the answer to an INIT, whose source may be forged (RFC 5062, section 3).

use carrick_proto::VerificationTag;
use carrick_wire::{ChunkType, HmacId, ParameterType, ParameterWriter};

use crate::common::*;

/// Bytes of the SCTP packets with an INIT and its INIT ACK, and how many addresses that lists.
fn sizes(
    w: &mut World,
    v6: bool,
    parameters: impl Fn(&mut ParameterWriter<'_>),
) -> (usize, usize, usize) {
    let mut puppet = Puppet::new();
    if v6 {
        puppet.link.to = in_v6(puppet.link.to);
        puppet.link.from = in_v6(puppet.link.from);
    }
    let init = puppet.build(VerificationTag::ZERO, |p| {
        p.init(ChunkType::INIT, puppet.fields(), &parameters);
    });
    let init = init.len();
    let answers = puppet.init(w, &parameters);
    assert_eq!(answers[0].kinds(), [ChunkType::INIT_ACK]);
    let kinds = answers[0].parameter_types();
    let addresses = [ParameterType::IPV4_ADDRESS, ParameterType::IPV6_ADDRESS];
    let listed = kinds.iter().filter(|k| addresses.contains(k)).count();
    (init, answers[0].bytes.len(), listed)
}

/// A server with this number of addresses.
fn server(v6: bool, count: u8) -> World {
    server_with(v6, count, false)
}

fn server_with(v6: bool, count: u8, authentication: bool) -> World {
    World::with(1, |_, c| {
        c.local_addresses = (0..count)
            .map(|n| {
                let address = [10, n, 0, 1].into();
                if v6 { in_v6(address) } else { address }
            })
            .collect();
        c.association.extensions.partial_reliability = true;
        c.association.extensions.authentication = authentication;
    })
}

/// As Linux sends it: address types, ECN, supported extensions, FORWARD-TSN, adaptation layer.
fn typical(p: &mut ParameterWriter<'_>) {
    p.supported_address_types(&[5, 6]);
    p.supported_extensions(&[ChunkType::FORWARD_TSN, ChunkType::RE_CONFIG]);
    p.forward_tsn_supported();
    p.adaptation_layer_indication(0);
}

/// RFC 9260, section 12.2.4.1
/// RFC 5062, section 3
#[test]
fn an_init_ack_is_a_few_times_as_long_as_the_init() {
    // Tenths, with a short INIT and a typical one.
    for (v6, count, short, usual) in [
        (false, 1, 38, 23),
        (false, 16, 49, 33),
        (true, 1, 45, 27),
        (true, 16, 59, 38),
    ] {
        let ip = if v6 { 40 } else { 20 };
        let measure = |parameters: fn(&mut ParameterWriter<'_>), most: usize| {
            let (init, ack, listed) = sizes(&mut server(v6, count), v6, parameters);
            let times = |below: usize| (ack + below) as f64 / (init + below) as f64;
            println!(
                "measured: INIT of {init} bytes: INIT ACK of {ack} with {listed} addresses, {:.2} times; \
                 {:.2} times with IP headers",
                times(0),
                times(ip)
            );
            assert!(ack * 10 <= init * most, "{init} to {ack}");
        };
        measure(|_| {}, short);
        measure(typical, usual);
    }
}

/// A peer with a short INIT learns two addresses, and a peer that lists its own addresses as many.
///
/// RFC 9260, section 5.1.2
#[test]
fn a_short_init_is_answered_with_two_addresses() {
    for v6 in [false, true] {
        for count in 2..=4 {
            let (_, _, listed) = sizes(&mut server(v6, count), v6, |_| {});
            let most = if v6 { 2 } else { 4 };
            assert_eq!(listed, usize::from(count).min(most));
        }
        let (_, _, listed) = sizes(&mut server(v6, 16), v6, typical);
        assert_eq!(listed, if v6 { 3 } else { 7 });
        // A peer that lists as many addresses gets all of them.
        let (_, _, listed) = sizes(&mut server(v6, 16), v6, |p| {
            for n in 0..16 {
                let address = [10, n, 0, 99].into();
                p.ip_address(if v6 { in_v6(address) } else { address });
            }
        });
        assert_eq!(listed, 16);
    }
}

/// The INIT ACK has the server's random number, and its cookie those of both sides.
///
/// RFC 4895, section 6.1
#[test]
fn authentication_lengthens_the_init_ack_by_a_bound() {
    let offered = |p: &mut ParameterWriter<'_>| {
        p.random(&[7; 32]);
        p.chunks(&[ChunkType::ASCONF]);
        p.hmac_algo(&[HmacId::SHA_1]);
    };
    for (v6, count) in [(false, 1), (false, 16), (true, 1), (true, 16)] {
        let mut server = server_with(v6, count, true);
        let (init, ack, _) = sizes(&mut server, v6, |_| {});
        println!("measured: INIT without AUTH of {init} bytes: INIT ACK of {ack}");
        assert!(ack * 10 <= init * 59, "{init} to {ack}");
        let (init, ack, _) = sizes(&mut server, v6, offered);
        println!("measured: INIT with AUTH of {init} bytes: INIT ACK of {ack}");
        assert!(ack * 10 <= init * 45, "{init} to {ack}");
    }
}
