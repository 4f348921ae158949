//! Encoding and decoding are inverse.

use std::net::IpAddr;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::super::*;

fn version() -> impl Strategy<Value = IpVersion> {
    prop_oneof![Just(IpVersion::V4), Just(IpVersion::V6)]
}

fn tuple(location: Location) -> impl Strategy<Value = AddressTuple> {
    let address = any::<IpAddr>();
    let full = (address, any::<u8>(), any::<u16>(), any::<u16>());
    let scope = prop_oneof![
        version().prop_map(Scope::ProtocolsOnly),
        full.prop_map(|(address, prefix, port, ports)| Scope::Full {
            address,
            prefix,
            port,
            ports,
        }),
    ];
    (any::<u8>(), scope).prop_map(move |(protocol, scope)| AddressTuple {
        location,
        protocol,
        scope,
    })
}

fn any_location() -> impl Strategy<Value = AddressTuple> {
    prop_oneof![
        tuple(Location::Internal),
        tuple(Location::Inside),
        tuple(Location::Outside),
        tuple(Location::External),
    ]
}

fn per() -> impl Strategy<Value = PerParameters> {
    let parity = prop_oneof![Just(PortParity::Any), Just(PortParity::Same)];
    let direction = prop_oneof![
        Just(Direction::Inbound),
        Just(Direction::Outbound),
        Just(Direction::Both)
    ];
    (parity, direction).prop_map(|(parity, direction)| PerParameters { parity, direction })
}

fn prr() -> impl Strategy<Value = PrrParameters> {
    let mode = prop_oneof![Just(NatMode::Traditional), Just(NatMode::Twice)];
    let parity = prop_oneof![Just(Parity::Any), Just(Parity::Odd), Just(Parity::Even)];
    let versions = (option::of(version()), option::of(version()));
    (mode, parity, versions, any::<u8>(), any::<u16>()).prop_map(
        |(nat_mode, parity, (inside, outside), protocol, ports)| PrrParameters {
            nat_mode,
            parity,
            inside,
            outside,
            protocol,
            ports,
        },
    )
}

fn rule() -> impl Strategy<Value = PolicyRuleId> {
    any::<u32>().prop_map(PolicyRuleId)
}

fn lifetime() -> impl Strategy<Value = Lifetime> {
    any::<u32>().prop_map(Lifetime)
}

fn group() -> impl Strategy<Value = GroupId> {
    any::<u32>().prop_map(GroupId)
}

fn enable() -> impl Strategy<Value = EnableRequest> {
    (per(), any_location(), any_location(), lifetime()).prop_map(
        |(parameters, internal, external, lifetime)| EnableRequest {
            parameters,
            internal,
            external,
            lifetime,
            group: None,
        },
    )
}

fn challenge() -> impl Strategy<Value = Challenge> {
    vec(any::<u8>(), 0..100).prop_map(|v| Challenge::new(v).unwrap())
}

fn token() -> impl Strategy<Value = Token> {
    vec(any::<u8>(), 0..100).prop_map(|v| Token::new(v).unwrap())
}

fn owner() -> impl Strategy<Value = Owner> {
    vec(any::<u8>(), 0..=MAX_OWNER).prop_map(|v| Owner::new(v).unwrap())
}

fn request() -> impl Strategy<Value = Request> {
    let establish =
        (any::<[u8; 2]>(), option::of(challenge())).prop_map(|([major, minor], challenge)| {
            Request::Establish {
                version: ProtocolVersion { major, minor },
                challenge,
            }
        });
    let reserve =
        (prr(), lifetime(), option::of(group())).prop_map(|(parameters, lifetime, group)| {
            Request::Reserve(ReserveRequest {
                parameters,
                lifetime,
                group,
            })
        });
    let disable =
        (any_location(), any_location(), lifetime()).prop_map(|(internal, external, lifetime)| {
            Request::Disable(DisableRequest {
                internal,
                external,
                lifetime,
            })
        });
    prop_oneof![
        establish,
        option::of(token()).prop_map(Request::Authenticate),
        Just(Request::Terminate),
        Just(Request::List),
        reserve,
        (enable(), option::of(group()))
            .prop_map(|(enable, group)| Request::Enable(EnableRequest { group, ..enable })),
        (enable(), rule()).prop_map(|(enable, rule)| Request::EnableReserved { enable, rule }),
        disable,
        (rule(), lifetime())
            .prop_map(|(rule, lifetime)| Request::ChangeLifetime { rule, lifetime }),
        rule().prop_map(Request::Status),
    ]
}

fn reserved() -> impl Strategy<Value = ReserveReply> {
    let inside = option::of(tuple(Location::Inside));
    (
        rule(),
        group(),
        lifetime(),
        tuple(Location::Outside),
        inside,
    )
        .prop_map(|(rule, group, lifetime, outside, inside)| ReserveReply {
            rule,
            group,
            lifetime,
            outside,
            inside,
        })
}

fn enabled() -> impl Strategy<Value = EnableReply> {
    reserved().prop_map(|r| EnableReply {
        rule: r.rule,
        group: r.group,
        lifetime: r.lifetime,
        outside: r.outside,
        inside: r.inside,
    })
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    (any::<[bool; 9]>(), 1..4u8, 1..4u8, lifetime()).prop_map(|(b, internal, external, max)| {
        Capabilities {
            packet_filter: b[0],
            address_translator: b[1],
            disable_rules: b[2],
            port_translation: b[1] && b[3],
            protocol_translation: b[1] && b[4],
            twice_nat: b[1] && b[5],
            internal_address_wildcards: b[6],
            external_address_wildcards: b[7],
            port_wildcards: b[8],
            persistent: b[3],
            internal_v4: internal & 1 != 0,
            internal_v6: internal & 2 != 0,
            external_v4: external & 1 != 0,
            external_v6: external & 2 != 0,
            max_lifetime: max,
        }
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    let both_or_one =
        (challenge(), token(), 0..3u8).prop_map(|(c, t, which)| Reply::Authenticate {
            challenge: (which != 1).then_some(c),
            token: (which != 2).then_some(t),
        });
    let internal = || tuple(Location::Internal);
    let external = || tuple(Location::External);
    let enable_status = (enabled(), per(), internal(), external(), owner()).prop_map(
        |(enabled, parameters, internal, external, owner)| {
            Reply::EnableStatus(Box::new(EnableStatus {
                enabled,
                parameters,
                internal,
                external,
                owner,
            }))
        },
    );
    let disable_status = (rule(), internal(), external(), lifetime(), owner()).prop_map(
        |(rule, internal, external, lifetime, owner)| Reply::DisableStatus {
            rule,
            disable: DisableRequest {
                internal,
                external,
                lifetime,
            },
            owner,
        },
    );
    prop_oneof![
        capabilities().prop_map(Reply::Established),
        both_or_one,
        Just(Reply::Terminated),
        Just(Reply::Deleted),
        reserved().prop_map(Reply::Reserved),
        enabled().prop_map(Reply::Enabled),
        (rule(), lifetime()).prop_map(|(rule, lifetime)| Reply::Disabled { rule, lifetime }),
        lifetime().prop_map(Reply::LifetimeChanged),
        (reserved(), owner())
            .prop_map(|(reserved, owner)| Reply::ReserveStatus { reserved, owner }),
        vec(rule(), 0..50).prop_map(|rules| Reply::List(RuleList::new(rules).unwrap())),
        enable_status,
        disable_status,
    ]
}

proptest! {
    #[test]
    fn requests_are_read_as_written(tid in any::<u32>(), request in request()) {
        let bytes = request.to_bytes(TransactionId(tid));
        prop_assert_eq!(Request::parse(&bytes), Ok((TransactionId(tid), request)));
    }

    #[test]
    fn replies_are_read_as_written(tid in any::<u32>(), reply in reply()) {
        let bytes = reply.to_bytes(TransactionId(tid));
        let expected = (TransactionId(tid), FromMiddlebox::Reply(reply));
        prop_assert_eq!(FromMiddlebox::parse(&bytes), Ok(expected));
    }

    #[test]
    fn changed_octet_is_rejected_or_another_message(
        request in request(), at in any::<prop::sample::Index>(), value in any::<u8>()
    ) {
        let mut bytes = request.to_bytes(TransactionId(1)).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = value;
        let bytes = Bytes::from(bytes);
        if let Ok((tid, request)) = Request::parse(&bytes) {
            let again = request.to_bytes(tid);
            prop_assert_eq!(again.len(), bytes.len());
            prop_assert_eq!(Request::parse(&again), Ok((tid, request)));
        }
    }

    #[test]
    fn any_octets_are_parsed_without_a_panic(octets in vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(octets);
        if let Ok((tid, request)) = Request::parse(&bytes) {
            prop_assert_eq!(request.to_bytes(tid).len(), bytes.len());
        }
        let _ = FromMiddlebox::parse(&bytes);
    }
}
