//! Translator: reservations of ports, and rules that use them.

use carrick_simco::agent::AgentEvent;
use carrick_simco::backend::{MemoryBackend, PortPool};
use carrick_simco::message::{
    AddressTuple, Capabilities, Direction, IpVersion, Lifetime, Location, NatMode, NegativeReply,
    Parity, PortParity, PrrParameters, Reply, Request, ReserveRequest, Scope,
};
use carrick_simco::middlebox::Rights;

use crate::network::{Net, UDP, block, change, config, credentials, pinhole};

fn net() -> Net {
    let pool = PortPool::new([198, 51, 100, 1].into(), 4000..=4009);
    let mut config = config();
    config.capabilities.address_translator = true;
    config.capabilities.port_translation = true;
    Net::with_backend(config, MemoryBackend::default().with_translation(pool))
}

fn reserve(ports: u16, parity: Parity) -> Request {
    Request::Reserve(ReserveRequest {
        parameters: PrrParameters {
            nat_mode: NatMode::Traditional,
            parity,
            inside: None,
            outside: None,
            protocol: UDP,
            ports,
        },
        lifetime: Lifetime(60),
        group: None,
    })
}

fn port(tuple: &AddressTuple) -> (u16, u16) {
    match tuple.scope {
        Scope::Full { port, ports, .. } => (port, ports),
        Scope::ProtocolsOnly(_) => panic!("no port"),
    }
}

/// RFC 4540, sections 8.2.3 and 8.4.3
#[test]
fn ports_are_reserved_enabled_and_freed() {
    let mut net = net();
    let alice = net.open("alice");
    let Reply::Reserved(reserved) = net.ask(alice, &reserve(1, Parity::Odd)) else {
        panic!("not reserved");
    };
    assert_eq!(port(&reserved.outside), (4001, 1));
    let mut enable = pinhole(5);
    enable.parameters.parity = PortParity::Same;
    let request = |enable| Request::EnableReserved {
        enable,
        rule: reserved.rule,
    };
    let mut even = pinhole(6);
    even.parameters.parity = PortParity::Same;
    assert_eq!(
        net.refusal(alice, &request(even)),
        NegativeReply::ParityMismatch
    );
    let Reply::Enabled(enabled) = net.ask(alice, &request(enable)) else {
        panic!("not enabled");
    };
    assert_eq!((enabled.outside, enabled.inside), (reserved.outside, None));
    assert_eq!(
        net.middlebox.backend().reserved_ports(),
        1,
        "the reserved port is kept"
    );
    net.ask(alice, &change(enabled.rule, 0));
    assert_eq!(
        (net.middlebox.backend().reserved_ports(), net.elements()),
        (0, 0)
    );
}

/// RFC 4540, section 8.3.3
#[test]
fn per_allocates_and_frees_ports() {
    let mut net = net();
    let alice = net.open("alice");
    let enabled = net.enable(alice, pinhole(5));
    assert_eq!((port(&enabled.outside).1, enabled.inside), (1, None));
    assert_eq!(net.middlebox.backend().reserved_ports(), 1);
    net.wait(60);
    assert_eq!(net.middlebox.backend().reserved_ports(), 0);
}

/// RFC 4540, section 8.2.3
#[test]
fn unavailable_resources_are_refused() {
    let mut net = net();
    let alice = net.open("alice");
    assert_eq!(
        net.refusal(alice, &reserve(0, Parity::Any)),
        NegativeReply::IllegalPortRange
    );
    assert_eq!(
        net.refusal(alice, &reserve(11, Parity::Any)),
        NegativeReply::LackOfPorts
    );
    let Request::Reserve(mut twice) = reserve(1, Parity::Any) else {
        panic!("no PRR");
    };
    twice.parameters.nat_mode = NatMode::Twice;
    let refusal = net.refusal(alice, &Request::Reserve(twice));
    assert_eq!(refusal, NegativeReply::NatModeNotSupported);
    net.ask(alice, &reserve(10, Parity::Any));
    assert_eq!(
        net.refusal(alice, &reserve(1, Parity::Any)),
        NegativeReply::LackOfPorts
    );
    let refusal = net.refusal(alice, &Request::Enable(pinhole(5)));
    assert_eq!(refusal, NegativeReply::LackOfPorts);
    assert_eq!((net.middlebox.rules().len(), net.elements()), (1, 0));
}

/// RFC 4540, section 4.3.9
#[test]
fn address_without_ports_is_not_reserved() {
    let mut net = net();
    let alice = net.open("alice");
    let Request::Reserve(mut address_only) = reserve(1, Parity::Any) else {
        panic!("no PRR");
    };
    // The address would have to be free for all protocols.
    address_only.parameters.protocol = 0;
    let refusal = net.refusal(alice, &Request::Reserve(address_only));
    assert_eq!(refusal, NegativeReply::LackOfAddresses);
    let mut any = pinhole(5);
    any.internal.protocol = 0;
    any.external.protocol = 0;
    let refusal = net.refusal(alice, &Request::Enable(any));
    assert_eq!(refusal, NegativeReply::WildcardingNotSupported);
    assert_eq!(net.middlebox.backend().reserved_ports(), 0);
}

/// RFC 4540, section 8.3.3
#[test]
fn reported_binding_exists() {
    let mut net = net();
    let alice = net.open("alice");
    let Reply::Reserved(reserved) = net.ask(alice, &reserve(1, Parity::Any)) else {
        panic!("not reserved");
    };
    let wide = |host: [u8; 4], prefix, port| Scope::Full {
        address: host.into(),
        prefix,
        port,
        ports: 1,
    };
    let mut inbound = pinhole(5);
    inbound.parameters.direction = Direction::Inbound;
    for (internal, external) in [
        (wide([10, 0, 0, 0], 24, 5), inbound.external.scope),
        (inbound.internal.scope, wide([192, 0, 2, 0], 24, 5)),
        (inbound.internal.scope, wide([192, 0, 2, 1], 32, 0)),
        (inbound.internal.scope, Scope::ProtocolsOnly(IpVersion::V4)),
    ] {
        let mut enable = inbound;
        enable.internal.scope = internal;
        enable.external.scope = external;
        let after = Request::EnableReserved {
            enable,
            rule: reserved.rule,
        };
        // An element of the packet filter binds one outside port to one flow.
        for request in [Request::Enable(enable), after] {
            let refusal = net.refusal(alice, &request);
            assert_eq!(refusal, NegativeReply::WildcardingNotSupported);
        }
    }
    assert_eq!(net.middlebox.backend().reserved_ports(), 1);
    assert_eq!((net.middlebox.rules().len(), net.elements()), (1, 0));
}

/// RFC 5189, section 2.3.9
#[test]
fn flow_has_one_outside_address() {
    let mut net = net();
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    let first = net.enable(alice, pinhole(5)).rule;
    let refusal = net.refusal(bob, &Request::Enable(pinhole(5)));
    assert_eq!(refusal, NegativeReply::Conflict);
    let Reply::Reserved(reserved) = net.ask(bob, &reserve(1, Parity::Any)) else {
        panic!("not reserved");
    };
    let after = Request::EnableReserved {
        enable: pinhole(5),
        rule: reserved.rule,
    };
    assert_eq!(net.refusal(bob, &after), NegativeReply::Conflict);
    assert_eq!(net.middlebox.backend().reserved_ports(), 2);
    net.ask(alice, &change(first, 0));
    assert!(matches!(net.ask(bob, &after), Reply::Enabled(_)));
}

/// RFC 4540, section 8.4.1
#[test]
fn reservation_is_for_its_ip_version() {
    let mut config = config();
    config.capabilities.address_translator = true;
    config.capabilities.protocol_translation = true;
    let pool = PortPool::new([198, 51, 100, 1].into(), 4000..=4009);
    let backend = MemoryBackend::default().with_translation(pool);
    let mut net = Net::with_backend(config, backend);
    let alice = net.open("alice");
    let Reply::Reserved(reserved) = net.ask(alice, &reserve(1, Parity::Any)) else {
        panic!("not reserved");
    };
    let mut enable = pinhole(5);
    let external = std::net::IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);
    enable.external = AddressTuple::single(Location::External, UDP, external, 5);
    let after = Request::EnableReserved {
        enable,
        rule: reserved.rule,
    };
    assert_eq!(net.refusal(alice, &after), NegativeReply::IpVersionMismatch);
}

/// RFC 4540, section 8.2.3
#[test]
fn twice_nat_needs_inside_addresses() {
    let mut config = config();
    config.capabilities.address_translator = true;
    config.capabilities.twice_nat = true;
    let pool = PortPool::new([198, 51, 100, 1].into(), 4000..=4009);
    let backend = MemoryBackend::default().with_translation(pool);
    let mut net = Net::with_backend(config, backend);
    let alice = net.open("alice");
    let Request::Reserve(mut twice) = reserve(1, Parity::Any) else {
        panic!("no PRR");
    };
    twice.parameters.nat_mode = NatMode::Twice;
    let refusal = net.refusal(alice, &Request::Reserve(twice));
    assert_eq!(refusal, NegativeReply::LackOfAddresses);
}

#[test]
fn one_agent_cannot_take_all_ports() {
    let pool = PortPool::new([198, 51, 100, 1].into(), 4000..=4009);
    let mut config = config();
    config.capabilities.address_translator = true;
    config.capabilities.port_translation = true;
    config.agents[0].max_elements = 6;
    let backend = MemoryBackend::default().with_translation(pool);
    let mut net = Net::with_backend(config, backend);
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    assert_eq!(
        net.refusal(alice, &reserve(7, Parity::Any)),
        NegativeReply::NoResources
    );
    net.ask(alice, &reserve(6, Parity::Any));
    assert_eq!(
        net.refusal(alice, &reserve(1, Parity::Any)),
        NegativeReply::NoResources
    );
    assert!(matches!(
        net.ask(bob, &reserve(4, Parity::Any)),
        Reply::Reserved(_)
    ));
}

/// RFC 4540, section 8.3.1
#[test]
fn translator_refuses_untranslatable_wildcards() {
    let mut net = net();
    let alice = net.open("alice");
    let mut inbound = pinhole(5);
    inbound.parameters.direction = Direction::Inbound;
    inbound.external.scope = Scope::ProtocolsOnly(IpVersion::V4);
    assert_eq!(
        net.refusal(alice, &Request::Enable(inbound)),
        NegativeReply::WildcardingNotSupported
    );
    assert_eq!(net.middlebox.backend().reserved_ports(), 0);
}

/// RFC 4540, section 4.3.3
#[test]
fn capabilities_report_wildcard_support() {
    let reported = |net: &mut Net| {
        let settings = carrick_simco::agent::AgentSettings {
            credentials: Some(credentials("alice")),
            ..Default::default()
        };
        match net.agent(settings).2[..] {
            [AgentEvent::Opened(capabilities)] => capabilities,
            ref other => panic!("{other:?}"),
        }
    };
    let wildcards = |can: Capabilities| {
        let addresses = (
            can.internal_address_wildcards,
            can.external_address_wildcards,
        );
        (addresses, can.port_wildcards)
    };
    let mut filter = Net::new(config());
    let can = reported(&mut filter);
    assert_eq!(wildcards(can), ((true, true), true));
    assert!(can.packet_filter && !can.address_translator && !can.port_translation);
    let mut translator = net();
    let can = reported(&mut translator);
    assert_eq!(wildcards(can), ((false, false), false));
    assert!(can.packet_filter && can.address_translator && can.port_translation);
    assert!(can.disable_rules && !can.twice_nat && !can.protocol_translation);
    // The reported capability applies: a network can be blocked but not enabled.
    let mut config = config();
    config.agents[0].rights = Rights::ALL;
    let pool = PortPool::new([198, 51, 100, 1].into(), 4000..=4009);
    let backend = MemoryBackend::default().with_translation(pool);
    let mut net = Net::with_backend(config, backend);
    let alice = net.open("alice");
    let mut enable = pinhole(5);
    enable.parameters.direction = Direction::Inbound;
    if let Scope::Full { prefix, .. } = &mut enable.external.scope {
        *prefix = 24;
    }
    let refusal = net.refusal(alice, &Request::Enable(enable));
    assert_eq!(refusal, NegativeReply::WildcardingNotSupported);
    assert!(matches!(
        net.ask(alice, &block(enable)),
        Reply::Disabled { .. }
    ));
}

/// RFC 4540, section 8.2.3
#[test]
fn portless_protocols_are_not_translated() {
    let mut net = net();
    let alice = net.open("alice");
    let Request::Reserve(mut icmp) = reserve(1, Parity::Any) else {
        panic!("no PRR");
    };
    icmp.parameters.protocol = 1;
    let mut enable = pinhole(0);
    (enable.internal.protocol, enable.external.protocol) = (1, 1);
    for request in [Request::Reserve(icmp), Request::Enable(enable)] {
        let refusal = net.refusal(alice, &request);
        assert_eq!(refusal, NegativeReply::ProtocolNotSupported);
    }
    assert_eq!(net.middlebox.backend().reserved_ports(), 0);
}
