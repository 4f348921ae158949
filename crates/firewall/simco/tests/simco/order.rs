//! Requests with several errors: the reply names the first one in the order of RFC 4540, section 8.

use carrick_simco::message::{
    EnableRequest, GroupId, IpVersion, Lifetime, Location, NegativeReply, PolicyRuleId, Reply,
    Request, ReserveRequest, Scope,
};
use carrick_simco::middlebox::{MiddleboxConfig, Rights};

use crate::network::{Net, UDP, agent_config, block, config, pinhole};

/// `alice`, `bob` with a rule, `mallory` without rights, `police` with PDR; limited wildcards.
fn config_of_four_agents() -> MiddleboxConfig {
    let mut mallory = agent_config("mallory");
    mallory.rights = Rights {
        reserve: false,
        enable: false,
        disable: false,
        change_lifetime: false,
        status: false,
        list: false,
        wildcards: true,
    };
    let mut police = agent_config("police");
    police.rights = Rights::ALL;
    let mut config = MiddleboxConfig {
        agents: vec![agent_config("alice"), agent_config("bob"), mallory, police],
        protocols: vec![UDP],
        ..config()
    };
    config.capabilities.internal_address_wildcards = false;
    config
}

/// Expected reply, and the change that removes its cause.
type Correction<R> = (NegativeReply, fn(&mut R));

fn check_in_order<R: Clone>(
    net: &mut Net,
    session: carrick_simco::middlebox::SessionId,
    mut request: R,
    build: impl Fn(R) -> Request,
    corrections: &[Correction<R>],
) {
    for (place, (expected, mend)) in corrections.iter().enumerate() {
        let refusal = net.refusal(session, &build(request.clone()));
        assert_eq!(refusal, *expected, "fault {place}");
        mend(&mut request);
    }
    let reply = net.ask(session, &build(request));
    assert!(!matches!(reply, Reply::Negative(_)), "{reply:?}");
}

/// Prefix and port of the internal tuple.
fn internal(prefix: u8, ports: u16) -> Scope {
    Scope::Full {
        address: [10, 0, 0, 1].into(),
        prefix,
        port: 5,
        ports,
    }
}

/// Errors that PER, PEA and PDR have in common, from the location on.
const TUPLES: &[Correction<EnableRequest>] = &[
    (NegativeReply::Inconsistent, |r| {
        r.internal.location = Location::Internal;
    }),
    (NegativeReply::Inconsistent, |r| r.internal.protocol = 6),
    (NegativeReply::Inconsistent, |r| {
        r.internal.scope = internal(24, 1);
    }),
    (NegativeReply::ProtocolNotSupported, |r| {
        r.internal.protocol = UDP;
        r.external.protocol = UDP;
    }),
    (NegativeReply::WildcardingNotSupported, |r| {
        r.internal.scope = internal(32, 1);
    }),
];

fn faulty() -> EnableRequest {
    let mut request = pinhole(5);
    request.lifetime = Lifetime(0);
    request.internal.location = Location::Outside;
    request.external.protocol = 6;
    request.internal.scope = internal(24, 2);
    request
}

fn life(request: &mut EnableRequest) {
    request.lifetime = Lifetime(60);
}

/// RFC 4540, section 8.3.1
#[test]
fn per_is_checked_in_order() {
    let mut net = Net::new(config_of_four_agents());
    let [alice, bob, mallory, police] =
        ["alice", "bob", "mallory", "police"].map(|name| net.open(name));
    let of_bob = net.enable(bob, pinhole(9)).group;
    assert_eq!(of_bob, GroupId(1));
    let block = block(pinhole(5));
    net.ask(police, &block);
    let mut request = faulty();
    request.group = Some(GroupId(99));
    assert_eq!(
        net.refusal(mallory, &Request::Enable(request)),
        NegativeReply::AgentNotAuthorized
    );
    let mut corrections: Vec<Correction<EnableRequest>> = vec![
        (NegativeReply::NoSuchGroup, |r| r.group = Some(GroupId(1))),
        (NegativeReply::GroupNotAuthorized, |r| r.group = None),
    ];
    corrections.extend(TUPLES);
    corrections.push((NegativeReply::Conflict, |r| {
        r.internal.scope = Scope::Full {
            address: [10, 0, 0, 9].into(),
            prefix: 32,
            port: 5,
            ports: 1,
        };
    }));
    corrections.push((NegativeReply::ConfigurationFailed, life));
    check_in_order(&mut net, alice, request, Request::Enable, &corrections);
}

/// RFC 4540, section 8.3.1
#[test]
fn bidirectional_wildcards_are_checked_last() {
    let mut net = Net::new(config_of_four_agents());
    let alice = net.open("alice");
    let mut request = pinhole(5);
    request.internal.scope = internal(24, 1);
    request.external.scope = Scope::ProtocolsOnly(IpVersion::V4);
    let corrections: &[Correction<EnableRequest>] = &[
        (NegativeReply::WildcardingNotSupported, |r| {
            r.internal.scope = internal(32, 1);
        }),
        (NegativeReply::Inconsistent, |r| {
            r.external = pinhole(5).external;
        }),
    ];
    check_in_order(&mut net, alice, request, Request::Enable, corrections);
}

/// RFC 4540, section 8.4.1
#[test]
fn pea_is_checked_in_order() {
    let mut net = Net::new(config_of_four_agents());
    let [alice, bob, mallory] = ["alice", "bob", "mallory"].map(|name| net.open(name));
    let reserve = |net: &mut Net, session| match net.ask(session, &reservation()) {
        Reply::Reserved(reserved) => reserved.rule,
        other => panic!("{other:?}"),
    };
    let enabled = net.enable(bob, pinhole(9)).rule;
    let of_bob = reserve(&mut net, bob);
    let own = reserve(&mut net, alice);
    let request = |rule, enable| Request::EnableReserved { enable, rule };
    assert_eq!(
        net.refusal(mallory, &request(PolicyRuleId(99), faulty())),
        NegativeReply::AgentNotAuthorized
    );
    for (rule, expected) in [
        (PolicyRuleId(99), NegativeReply::NoSuchRule),
        (enabled, NegativeReply::Inconsistent),
        (of_bob, NegativeReply::RuleNotAuthorized),
    ] {
        assert_eq!(net.refusal(alice, &request(rule, faulty())), expected);
    }
    let mut corrections = TUPLES.to_vec();
    corrections.push((NegativeReply::ConfigurationFailed, life));
    check_in_order(&mut net, alice, faulty(), |r| request(own, r), &corrections);
    // A failed request left the reservation unchanged (RFC 4540, section 8.1).
    assert!(matches!(
        net.ask(bob, &Request::Status(of_bob)),
        Reply::ReserveStatus { .. }
    ));
}

/// RFC 4540, section 8.8.2
#[test]
fn pdr_is_checked_in_order() {
    let mut net = Net::new(config_of_four_agents());
    let [alice, police] = ["alice", "police"].map(|name| net.open(name));
    let rule = net.enable(alice, pinhole(5)).rule;
    assert_eq!(
        net.refusal(alice, &block(faulty())),
        NegativeReply::AgentNotAuthorized
    );
    let mut corrections = TUPLES.to_vec();
    corrections.push((NegativeReply::ConfigurationFailed, life));
    check_in_order(&mut net, police, faulty(), block, &corrections);
    assert_eq!(
        net.rule_events(alice),
        [(rule, Lifetime(0))],
        "all errors are corrected"
    );
}

fn reservation() -> Request {
    Request::Reserve(good_reservation())
}

fn good_reservation() -> ReserveRequest {
    crate::network::reserve(UDP, 1, 60)
}

/// RFC 4540, section 8.2.1
#[test]
fn prr_is_checked_in_order() {
    let mut config_of_four_agents = config_of_four_agents();
    config_of_four_agents.capabilities.internal_v6 = false;
    config_of_four_agents.capabilities.external_v6 = false;
    let mut net = Net::new(config_of_four_agents);
    let [alice, bob, mallory] = ["alice", "bob", "mallory"].map(|name| net.open(name));
    net.enable(bob, pinhole(9));
    let mut request = good_reservation();
    request.group = Some(GroupId(99));
    request.lifetime = Lifetime(0);
    request.parameters.inside = Some(IpVersion::V6);
    request.parameters.outside = Some(IpVersion::V6);
    request.parameters.protocol = 6;
    request.parameters.ports = 0;
    assert_eq!(
        net.refusal(mallory, &Request::Reserve(request)),
        NegativeReply::AgentNotAuthorized
    );
    let corrections: &[Correction<ReserveRequest>] = &[
        (NegativeReply::NoSuchGroup, |r| r.group = Some(GroupId(1))),
        (NegativeReply::GroupNotAuthorized, |r| r.group = None),
        (NegativeReply::IpVersionMismatch, |r| {
            r.parameters.inside = None;
        }),
        (NegativeReply::IpVersionMismatch, |r| {
            r.parameters.outside = None;
        }),
        (NegativeReply::ProtocolNotSupported, |r| {
            r.parameters.protocol = UDP;
        }),
        (NegativeReply::IllegalPortRange, |r| r.parameters.ports = 1),
        (NegativeReply::ConfigurationFailed, |r| {
            r.lifetime = Lifetime(60);
        }),
    ];
    check_in_order(&mut net, alice, request, Request::Reserve, corrections);
}

/// RFC 4540, sections 8.5 and 8.6
#[test]
fn plc_and_prs_are_checked_in_order() {
    let mut net = Net::new(config_of_four_agents());
    let [alice, bob, mallory] = ["alice", "bob", "mallory"].map(|name| net.open(name));
    let of_bob = net.enable(bob, pinhole(9)).rule;
    let unknown = PolicyRuleId(99);
    for build in [
        |rule| Request::Status(rule),
        |rule| crate::network::change(rule, 0),
    ] {
        for (session, rule, expected) in [
            (mallory, unknown, NegativeReply::AgentNotAuthorized),
            (alice, unknown, NegativeReply::NoSuchRule),
            (alice, of_bob, NegativeReply::RuleNotAuthorized),
        ] {
            assert_eq!(net.refusal(session, &build(rule)), expected);
        }
    }
}
