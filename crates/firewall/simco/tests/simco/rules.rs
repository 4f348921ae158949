//! Policy rules: lifetimes, groups, status, lists and notifications.

use carrick_simco::message::{
    AddressTuple, Capabilities, Direction, EnableRequest, GroupId, IpVersion, Lifetime, Location,
    NegativeReply, PolicyRuleId, Reply, Request, Scope,
};
use carrick_simco::middlebox::Rights;

use crate::network::{Net, UDP, block, change, config, ends, in_group, pinhole, range, reserve};

fn reservation() -> Request {
    let mut request = reserve(UDP, 1, 60);
    request.parameters.outside = Some(IpVersion::V6);
    Request::Reserve(request)
}

fn enable_reserved(rule: PolicyRuleId, port: u16) -> Request {
    Request::EnableReserved {
        enable: pinhole(port),
        rule,
    }
}

/// RFC 4540, section 8.3
#[test]
fn per_opens_a_pinhole_until_expiry() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    assert!(!net.passes(5, Direction::Inbound));
    let enabled = net.enable(session, pinhole(5));
    assert_eq!(enabled.lifetime, Lifetime(60));
    assert_eq!(enabled.outside, pinhole(5).internal.at(Location::Outside));
    assert_eq!(
        enabled.inside,
        Some(pinhole(5).external.at(Location::Inside))
    );
    assert!(net.passes(5, Direction::Inbound) && net.passes(5, Direction::Outbound));
    net.wait(59);
    assert!(net.passes(5, Direction::Inbound));
    net.wait(1);
    assert!(!net.passes(5, Direction::Inbound));
    assert_eq!(
        net.rule_events(session),
        [(enabled.rule, Lifetime(0))],
        "8.9"
    );
    assert_eq!(
        net.refusal(session, &change(enabled.rule, 9)),
        NegativeReply::NoSuchRule
    );
    assert_eq!((net.middlebox.rules().len(), net.elements()), (0, 0));
}

/// RFC 4540, section 8.3.2
#[test]
fn only_the_requested_direction_passes() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    let mut inbound = pinhole(5);
    inbound.parameters.direction = Direction::Inbound;
    net.enable(session, inbound);
    assert!(net.passes(5, Direction::Inbound) && !net.passes(5, Direction::Outbound));
}

/// RFC 4540, section 8.5
#[test]
fn plc_extends_shortens_and_ends_rules() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    let rule = net.enable(session, pinhole(5)).rule;
    let lengthened = net.ask(session, &change(rule, 1000));
    assert_eq!(lengthened, Reply::LifetimeChanged(Lifetime(1000)));
    net.wait(999);
    assert!(
        net.passes(5, Direction::Inbound),
        "the fail-safe timeout was changed, too"
    );
    let too_long = net.ask(session, &change(rule, u32::MAX));
    assert_eq!(
        too_long,
        Reply::LifetimeChanged(config().capabilities.max_lifetime)
    );
    net.ask(session, &change(rule, 10));
    net.wait(10);
    assert_eq!(net.middlebox.rules().len(), 0);
    let rule = net.enable(session, pinhole(5)).rule;
    assert_eq!(net.ask(session, &change(rule, 0)), Reply::Deleted);
    assert_eq!(net.elements(), 0);
}

/// RFC 4540, section 8.3.1
#[test]
fn granted_lifetime_is_bounded_and_positive() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    let mut request = pinhole(5);
    request.lifetime = Lifetime(u32::MAX);
    let granted = net.enable(session, request).lifetime;
    assert_eq!(granted, config().capabilities.max_lifetime);
    request.lifetime = Lifetime(0);
    let refusal = net.refusal(session, &Request::Enable(request));
    assert_eq!(refusal, NegativeReply::ConfigurationFailed);
    assert_eq!(net.middlebox.rules().len(), 1);
}

#[test]
fn identical_rules_are_all_accepted() {
    let mut net = Net::new(config());
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    let first = net.enable(alice, pinhole(5)).rule;
    let second = net.enable(bob, pinhole(5)).rule;
    assert_ne!(first, second);
    net.ask(alice, &change(first, 0));
    assert!(net.passes(5, Direction::Inbound));
    net.ask(bob, &change(second, 0));
    assert!(!net.passes(5, Direction::Inbound));
}

/// RFC 4540, section 8.4
#[test]
fn pea_keeps_identifier_and_group() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    let Reply::Reserved(reserved) = net.ask(session, &reservation()) else {
        panic!("not reserved");
    };
    assert_eq!(reserved.outside.scope, Scope::ProtocolsOnly(IpVersion::V6));
    assert_eq!((reserved.inside, net.elements()), (None, 0));
    let Reply::ReserveStatus {
        reserved: status, ..
    } = net.ask(session, &Request::Status(reserved.rule))
    else {
        panic!("not a PRS reply");
    };
    assert_eq!(status, reserved, "8.6");
    let Reply::Enabled(enabled) = net.ask(session, &enable_reserved(reserved.rule, 5)) else {
        panic!("not enabled");
    };
    assert_eq!(
        (enabled.rule, enabled.group),
        (reserved.rule, reserved.group)
    );
    assert!(net.passes(5, Direction::Inbound));
    let again = net.refusal(session, &enable_reserved(reserved.rule, 5));
    assert_eq!(again, NegativeReply::Inconsistent, "no longer RESERVED");
    let unknown = net.refusal(session, &enable_reserved(PolicyRuleId(99), 5));
    assert_eq!(unknown, NegativeReply::NoSuchRule);
}

/// RFC 4540, section 8.4
#[test]
fn reservation_is_for_its_protocol() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    let Reply::Reserved(reserved) = net.ask(session, &reservation()) else {
        panic!("not reserved");
    };
    let tcp = |tuple: AddressTuple| AddressTuple {
        protocol: 6,
        ..tuple
    };
    let request = Request::EnableReserved {
        enable: EnableRequest {
            internal: tcp(pinhole(5).internal),
            external: tcp(pinhole(5).external),
            ..pinhole(5)
        },
        rule: reserved.rule,
    };
    assert_eq!(
        net.refusal(session, &request),
        NegativeReply::ProtocolMismatch
    );
    let plc = net.ask(session, &change(reserved.rule, 30));
    assert_eq!(
        plc,
        Reply::LifetimeChanged(Lifetime(30)),
        "PLC in state RESERVED"
    );
    assert_eq!(net.ask(session, &change(reserved.rule, 0)), Reply::Deleted);
}

#[test]
fn groups_end_with_their_members() {
    let mut net = Net::new(config());
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    let first = net.enable(alice, pinhole(5));
    let second = net.enable(alice, in_group(first.group, 6));
    assert_eq!(first.group, second.group);
    assert_ne!(net.enable(alice, pinhole(7)).group, first.group);
    let of_bob = net.refusal(bob, &Request::Enable(in_group(first.group, 8)));
    assert_eq!(of_bob, NegativeReply::GroupNotAuthorized);
    for rule in [first.rule, second.rule] {
        net.ask(alice, &change(rule, 0));
    }
    for group in [first.group, GroupId(99)] {
        let refusal = net.refusal(alice, &Request::Enable(in_group(group, 8)));
        assert_eq!(refusal, NegativeReply::NoSuchGroup);
    }
}

/// RFC 4540, section 8.6
#[test]
fn status_reports_request_and_remaining_lifetime() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    let enabled = net.enable(session, pinhole(5));
    net.wait(20);
    let Reply::EnableStatus(status) = net.ask(session, &Request::Status(enabled.rule)) else {
        panic!("not a PES reply");
    };
    assert_eq!(status.enabled.lifetime, Lifetime(40));
    assert_eq!(
        (status.enabled.outside, status.enabled.inside),
        (enabled.outside, enabled.inside)
    );
    assert_eq!(
        (status.internal, status.external),
        (pinhole(5).internal, pinhole(5).external)
    );
    assert_eq!(status.owner.as_bytes(), b"alice");
    let unknown = net.refusal(session, &Request::Status(PolicyRuleId(99)));
    assert_eq!(unknown, NegativeReply::NoSuchRule);
}

/// RFC 4540, section 8.3.1
#[test]
fn inconsistent_requests_are_refused() {
    let base = pinhole(5);
    let with = |change: &dyn Fn(&mut EnableRequest)| {
        let mut request = base;
        change(&mut request);
        request
    };
    let scope = |prefix: u8, port: u16, ports: u16| Scope::Full {
        address: [10, 0, 0, 1].into(),
        prefix,
        port,
        ports,
    };
    let host = |address: [u8; 4]| Scope::Full {
        address: address.into(),
        prefix: 32,
        port: 5,
        ports: 1,
    };
    let cases = [
        (
            with(&|r| r.internal.location = Location::Outside),
            NegativeReply::Inconsistent,
        ),
        (
            with(&|r| r.external.location = Location::Internal),
            NegativeReply::Inconsistent,
        ),
        (
            with(&|r| r.external.protocol = 6),
            NegativeReply::Inconsistent,
        ),
        (
            with(&|r| r.internal.scope = scope(32, 5, 2)),
            NegativeReply::Inconsistent,
        ),
        (
            with(&|r| r.internal.scope = scope(33, 5, 1)),
            NegativeReply::IllegalAddress,
        ),
        (
            with(&|r| r.internal.scope = host([224, 0, 0, 1])),
            NegativeReply::IllegalAddress,
        ),
        (
            with(&|r| r.external.scope = host([255; 4])),
            NegativeReply::IllegalAddress,
        ),
        (
            with(&|r| r.external.scope = host([169, 254, 169, 254])),
            NegativeReply::IllegalAddress,
        ),
        (
            with(&|r| r.internal.scope = scope(32, 5, 0)),
            NegativeReply::IllegalPortRange,
        ),
        (
            with(&|r| r.internal.scope = scope(32, 65_535, 2)),
            NegativeReply::IllegalPort,
        ),
        // Wildcards in a bidirectional stream.
        (
            with(&|r| r.internal.scope = scope(24, 5, 1)),
            NegativeReply::Inconsistent,
        ),
        (
            with(&|r| r.internal.scope = scope(32, 0, 1)),
            NegativeReply::Inconsistent,
        ),
        (
            with(&|r| r.internal.scope = Scope::ProtocolsOnly(IpVersion::V4)),
            NegativeReply::Inconsistent,
        ),
        (
            with(&|r| r.internal.scope = Scope::ProtocolsOnly(IpVersion::V6)),
            NegativeReply::IpVersionMismatch,
        ),
    ];
    let mut net = Net::new(config());
    let session = net.open("alice");
    for (request, expected) in cases {
        let refusal = net.refusal(session, &Request::Enable(request));
        assert_eq!(refusal, expected, "{request:?}");
    }
    let nothing = (net.middlebox.rules().len(), net.elements());
    assert_eq!(nothing, (0, 0));
    // A wildcard of the protocol may be bidirectional.
    let any = with(&|r| {
        r.internal.protocol = 0;
        r.external.protocol = 0;
    });
    net.enable(session, any);
}

/// RFC 4540, section 8.3.1
#[test]
fn unsupported_wildcards_are_refused() {
    let mut bare = config();
    bare.capabilities.internal_address_wildcards = false;
    bare.capabilities.external_address_wildcards = false;
    bare.capabilities.port_wildcards = false;
    bare.protocols = vec![UDP];
    let (mut net, mut rich) = (Net::new(bare), Net::new(config()));
    let (session, rich_session) = (net.open("alice"), rich.open("alice"));
    let wild = |internal: bool, prefix: u8, port: u16| {
        let mut request = pinhole(5);
        request.parameters.direction = Direction::Inbound;
        let tuple = if internal {
            &mut request.internal
        } else {
            &mut request.external
        };
        tuple.scope = Scope::Full {
            address: [10, 0, 0, 1].into(),
            prefix,
            port,
            ports: 1,
        };
        request
    };
    for request in [wild(true, 24, 5), wild(false, 0, 5), wild(true, 32, 0)] {
        let refusal = net.refusal(session, &Request::Enable(request));
        assert_eq!(
            refusal,
            NegativeReply::WildcardingNotSupported,
            "{request:?}"
        );
        rich.enable(rich_session, request);
    }
    let mut tcp = pinhole(5);
    tcp.internal.protocol = 6;
    tcp.external.protocol = 6;
    let refusal = net.refusal(session, &Request::Enable(tcp));
    assert_eq!(refusal, NegativeReply::ProtocolNotSupported);
}

#[test]
fn range_of_two_ports_is_two_flows() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    let mut request = pinhole(5);
    let range = |tuple: AddressTuple| match tuple.scope {
        Scope::Full { address, port, .. } => {
            AddressTuple::range(tuple.location, UDP, address, port, 2)
        }
        Scope::ProtocolsOnly(_) => tuple,
    };
    request.internal = range(request.internal);
    request.external = range(request.external);
    net.enable(session, request);
    assert_eq!(net.elements(), 2, "RTP and RTCP");
    assert!(net.passes(5, Direction::Inbound) && net.passes(6, Direction::Inbound));
    assert!(!net.passes(7, Direction::Inbound));
}

/// RFC 5189, section 2.3.6
#[test]
fn port_range_opens_matching_pairs_only() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    let crossed = |net: &Net| {
        let backend = net.middlebox.backend();
        let [internal, external] = [([10, 0, 0, 1], 100), ([192, 0, 2, 1], 101)];
        backend.passes(
            net.now,
            UDP,
            internal.into(),
            external.into(),
            Direction::Inbound,
        )
    };
    net.enable(session, range(100, 64));
    assert!(net.passes(100, Direction::Inbound) && net.passes(163, Direction::Inbound));
    assert!(!crossed(&net));
    // More ports than this middlebox opens one by one are refused, not opened as a pattern.
    let refusal = net.refusal(session, &Request::Enable(range(100, 65)));
    assert_eq!(refusal, NegativeReply::IllegalPortRange);
    assert!(!crossed(&net) && net.elements() == 64);
}

/// RFC 4540, section 8.3.1
#[test]
fn port_range_beyond_65535_is_refused() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    for (port, ports) in [(65_535, 2), (2, u16::MAX), (65_000, u16::MAX)] {
        let mut request = pinhole(5);
        request.external.scope = range(port, ports).external.scope;
        let refusal = net.refusal(session, &Request::Enable(request));
        assert_eq!(
            refusal,
            NegativeReply::IllegalPort,
            "{ports} ports from {port}"
        );
    }
}

/// RFC 4540, section 8.3.1
#[test]
fn all_ports_of_a_side_are_a_wildcard() {
    let mut bare = config();
    bare.capabilities.port_wildcards = false;
    let (mut net, mut without) = (Net::new(config()), Net::new(bare));
    let (session, other) = (net.open("alice"), without.open("alice"));
    for (inside, outside) in [(u16::MAX, 1), (u16::MAX, u16::MAX - 1), (1, u16::MAX)] {
        let mut request = pinhole(5);
        request.internal.scope = range(1, inside).internal.scope;
        request.external.scope = range(1, outside).external.scope;
        let ask = Request::Enable(request);
        assert_eq!(net.refusal(session, &ask), NegativeReply::Inconsistent);
        let lacking = NegativeReply::WildcardingNotSupported;
        assert_eq!(without.refusal(other, &ask), lacking);
        request.parameters.direction = Direction::Inbound;
        assert_eq!(without.refusal(other, &Request::Enable(request)), lacking);
        net.enable(session, request);
    }
    // All ports of both sides are too many single flows for this middlebox.
    let refusal = net.refusal(session, &Request::Enable(range(1, u16::MAX)));
    assert_eq!(refusal, NegativeReply::IllegalPortRange);
}

/// RFC 4540, section 8.3.1
#[test]
fn any_protocol_is_refused_in_a_limited_set() {
    let mut limited = config();
    limited.protocols = vec![UDP];
    limited.agents[0].rights.disable = true;
    let mut net = Net::new(limited);
    let session = net.open("alice");
    let mut any = pinhole(5);
    (any.internal.protocol, any.external.protocol) = (0, 0);
    for direction in [Direction::Both, Direction::Inbound, Direction::Outbound] {
        any.parameters.direction = direction;
        let refusal = net.refusal(session, &Request::Enable(any));
        assert_eq!(refusal, NegativeReply::ProtocolNotSupported);
    }
    let refusal = net.refusal(session, &Request::Reserve(reserve(0, 1, 60)));
    assert_eq!(refusal, NegativeReply::ProtocolNotSupported);
    let Reply::Reserved(reserved) = net.ask(session, &Request::Reserve(reserve(UDP, 1, 60))) else {
        panic!("no reservation");
    };
    let enable = Request::EnableReserved {
        enable: any,
        rule: reserved.rule,
    };
    assert_eq!(
        net.refusal(session, &enable),
        NegativeReply::ProtocolNotSupported
    );
    assert_eq!(net.elements(), 0);
    assert!(matches!(
        net.ask(session, &block(any)),
        Reply::Disabled { .. }
    ));
}

/// RFC 4540, section 8.3.1
#[test]
fn each_wildcard_needs_its_capability() {
    type Take = fn(&mut Capabilities);
    type Use = fn(&mut EnableRequest);
    let cases: [(Take, Use); 4] = [
        (
            |c| c.internal_address_wildcards = false,
            |r| r.internal.scope = wide([10, 0, 0, 0], 24, 5),
        ),
        (
            |c| c.external_address_wildcards = false,
            |r| r.external.scope = wide([192, 0, 2, 0], 24, 5),
        ),
        (
            |c| c.port_wildcards = false,
            |r| r.external.scope = wide([192, 0, 2, 1], 32, 0),
        ),
        (
            |c| c.port_wildcards = false,
            |r| {
                r.internal.protocol = 0;
                r.external.protocol = 0;
            },
        ),
    ];
    for (lacking, (take, _)) in cases.iter().enumerate() {
        let mut config = config();
        take(&mut config.capabilities);
        let mut net = Net::new(config);
        let session = net.open("alice");
        for (wanted, (_, make)) in cases.iter().enumerate() {
            let mut request = pinhole(5);
            request.parameters.direction = Direction::Inbound;
            make(&mut request);
            let same = lacking == wanted || (lacking >= 2 && wanted >= 2);
            let expected = same.then_some(Reply::Negative(NegativeReply::WildcardingNotSupported));
            let reply = net.ask(session, &Request::Enable(request));
            match expected {
                Some(refusal) => assert_eq!(reply, refusal, "{lacking} {wanted}"),
                None => assert!(matches!(reply, Reply::Enabled(_)), "{lacking} {wanted}"),
            }
        }
    }
}

fn wide(address: [u8; 4], prefix: u8, port: u16) -> Scope {
    Scope::Full {
        address: address.into(),
        prefix,
        port,
        ports: 1,
    }
}

/// RFC 4540, section 8.3.1
#[test]
fn portless_protocols_take_no_ports() {
    let mut house = config();
    // Without the right to wildcards.
    house.agents[0].rights = Rights {
        wildcards: false,
        ..Rights::ALL
    };
    let mut net = Net::new(house);
    let alice = net.open("alice");
    for protocol in [1, 50, 58, 253] {
        let about = |port| {
            let mut request = pinhole(port);
            (request.internal.protocol, request.external.protocol) = (protocol, protocol);
            request
        };
        for request in [Request::Enable(about(5)), block(about(5))] {
            let refusal = net.refusal(alice, &request);
            assert_eq!(refusal, NegativeReply::IllegalPort, "{protocol}");
        }
        // A portless protocol between two hosts has no wildcard; its number of ports has no effect.
        let mut all = about(0);
        if let Scope::Full { ports, .. } = &mut all.internal.scope {
            *ports = 7;
        }
        let rule = net.enable(alice, all).rule;
        let ((inside, _), (outside, _)) = ends(0);
        let passes = |net: &Net, protocol| {
            let backend = net.middlebox.backend();
            let (a0, a3) = ((inside, 0).into(), (outside, 0).into());
            backend.passes(net.now, protocol, a0, a3, Direction::Inbound)
        };
        assert!(passes(&net, protocol) && !passes(&net, UDP));
        net.ask(alice, &change(rule, 0));
        assert!(!passes(&net, protocol));
    }
}
