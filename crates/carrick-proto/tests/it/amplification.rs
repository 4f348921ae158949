//! Length of the answer to an INIT, whose source may be forged (RFC 5062, section 3).

use carrick_proto::VerificationTag;
use carrick_wire::{ChunkType, HmacId, ParameterType, ParameterWriter};

use crate::common::*;

/// Bytes of an INIT and its INIT ACK on plain IP, IP headers included, and how many addresses
/// that lists.
fn sizes(
    w: &mut World,
    v6: bool,
    parameters: impl Fn(&mut ParameterWriter<'_>),
) -> (usize, usize, usize) {
    let mut puppet = Puppet::new();
    let mut below = 20;
    if v6 {
        puppet.link.to = in_v6(puppet.link.to);
        puppet.link.from = in_v6(puppet.link.from);
        below = 40;
    }
    let init = puppet.build(VerificationTag::ZERO, |p| {
        p.init(ChunkType::INIT, puppet.fields(), &parameters);
    });
    let init = init.len() + below;
    let answers = puppet.init(w, &parameters);
    assert_eq!(answers[0].kinds(), [ChunkType::INIT_ACK]);
    let kinds = answers[0].parameter_types();
    let addresses = [ParameterType::IPV4_ADDRESS, ParameterType::IPV6_ADDRESS];
    let listed = kinds.iter().filter(|k| addresses.contains(k)).count();
    (init, answers[0].bytes.len() + below, listed)
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
    for (v6, count, most) in [
        (false, 1, 27),
        (false, 16, 38),
        (true, 1, 26),
        (true, 16, 38),
    ] {
        let (init, ack, listed) = sizes(&mut server(v6, count), v6, |_| {});
        println!("measured: minimal INIT of {init} bytes: INIT ACK of {ack}, {listed} addresses");
        assert!(ack * 10 <= init * most, "{init} to {ack}");
        let (init, ack, listed) = sizes(&mut server(v6, count), v6, typical);
        println!("measured: typical INIT of {init} bytes: INIT ACK of {ack}, {listed} addresses");
        assert!(ack * 10 <= init * 33, "{init} to {ack}");
    }
}

/// A peer with a short INIT learns the addresses of a usual multi-homed host.
///
/// RFC 9260, section 5.1.2
#[test]
fn a_short_init_is_answered_with_four_addresses() {
    for v6 in [false, true] {
        for count in 2..=4 {
            let (_, _, listed) = sizes(&mut server(v6, count), v6, |_| {});
            assert_eq!(listed, usize::from(count));
        }
        let (_, _, listed) = sizes(&mut server(v6, 16), v6, typical);
        assert!(listed >= 4 && (v6 || listed >= 8), "{listed}");
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
        assert!(ack * 10 <= init * 40, "{init} to {ack}");
        let (init, ack, _) = sizes(&mut server, v6, offered);
        println!("measured: INIT with AUTH of {init} bytes: INIT ACK of {ack}");
        assert!(ack * 10 <= init * 40, "{init} to {ack}");
    }
}
