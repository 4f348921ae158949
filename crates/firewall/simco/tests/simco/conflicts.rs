//! PDR: rules that it ends, rules that it prevents, and rules that stay.

use carrick_simco::message::{
    AddressTuple, Direction, DisableRequest, Lifetime, Location, NegativeReply, PolicyRuleId,
    Reply, Request, Scope,
};
use carrick_simco::middlebox::{MiddleboxConfig, Rights};

use crate::network::{Net, UDP, agent_config, change, config, pinhole};

fn block(first: u16, ports: u16) -> Request {
    let any = |location, address: [u8; 4], prefix| AddressTuple {
        location,
        protocol: UDP,
        scope: Scope::Full {
            address: address.into(),
            prefix,
            port: first,
            ports,
        },
    };
    Request::Disable(DisableRequest {
        internal: any(Location::Internal, [0, 0, 0, 0], 0),
        external: any(Location::External, [192, 0, 2, 0], 24),
        lifetime: Lifetime(30),
    })
}

fn with_police() -> MiddleboxConfig {
    let mut police = agent_config("police");
    police.rights = Rights::ALL;
    MiddleboxConfig {
        agents: vec![agent_config("alice"), agent_config("bob"), police],
        ..config()
    }
}

/// RFC 4540, section 8.8
#[test]
fn pdr_ends_and_reports_conflicting_rules() {
    let mut net = Net::new(with_police());
    let [alice, bob, police] = ["alice", "bob", "police"].map(|name| net.open(name));
    let hit = [
        net.enable(alice, pinhole(10)).rule,
        net.enable(bob, pinhole(11)).rule,
    ];
    let spared = net.enable(bob, pinhole(12)).rule;
    let Reply::Disabled { rule, lifetime } = net.ask(police, &block(10, 2)) else {
        panic!("not disabled");
    };
    assert_eq!(lifetime, Lifetime(30));
    assert_eq!(net.rule_events(alice), [(hit[0], Lifetime(0))]);
    assert_eq!(net.rule_events(bob), [(hit[1], Lifetime(0))]);
    let passing = [10, 11, 12].map(|port| net.passes(port, Direction::Inbound));
    assert_eq!(passing, [false, false, true]);
    assert!(net.middlebox.rules().get(spared).is_some());
    let conflict = net.refusal(alice, &Request::Enable(pinhole(11)));
    assert_eq!(conflict, NegativeReply::Conflict);
    let Reply::DisableStatus { disable, owner, .. } = net.ask(police, &Request::Status(rule))
    else {
        panic!("not a PDS reply");
    };
    assert_eq!(
        (disable.lifetime, owner.as_bytes()),
        (Lifetime(30), &b"police"[..])
    );
    net.wait(30);
    net.enable(alice, pinhole(11));
}

#[test]
fn two_blocks_of_one_flow_apply_until_both_end() {
    let mut net = Net::new(with_police());
    let [alice, police] = ["alice", "police"].map(|name| net.open(name));
    let rules = [(); 2].map(|()| match net.ask(police, &block(10, 2)) {
        Reply::Disabled { rule, .. } => rule,
        other => panic!("{other:?}"),
    });
    assert_eq!(net.elements(), 1);
    net.ask(police, &change(rules[0], 0));
    let conflict = net.refusal(alice, &Request::Enable(pinhole(11)));
    assert_eq!(conflict, NegativeReply::Conflict);
    net.ask(police, &change(rules[1], 0));
    net.enable(alice, pinhole(11));
}

/// RFC 4540, section 8.8.2
#[test]
fn pdr_needs_right_and_capability() {
    let mut net = Net::new(with_police());
    let alice = net.open("alice");
    assert_eq!(
        net.refusal(alice, &block(10, 1)),
        NegativeReply::AgentNotAuthorized
    );
    let mut without = with_police();
    without.capabilities.disable_rules = false;
    let mut net = Net::new(without);
    let police = net.open("police");
    assert_eq!(
        net.refusal(police, &block(10, 1)),
        NegativeReply::TransactionNotSupported
    );
}

#[test]
fn refused_pdr_ends_no_rule() {
    let mut net = Net::new(with_police());
    let [alice, police] = ["alice", "police"].map(|name| net.open(name));
    net.enable(alice, pinhole(10));
    let Request::Disable(mut request) = block(10, 1) else {
        panic!("no PDR");
    };
    request.lifetime = Lifetime(0);
    let refusal = net.refusal(police, &Request::Disable(request));
    assert_eq!(refusal, NegativeReply::ConfigurationFailed);
    assert!(net.passes(10, Direction::Inbound));
    assert_eq!(
        net.refusal(police, &Request::Status(PolicyRuleId(2))),
        NegativeReply::NoSuchRule
    );
}
