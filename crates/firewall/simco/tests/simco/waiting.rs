//! Messages queued for agents: ends of many rules at once, replies to many requests.

use std::collections::BTreeMap;

use carrick_simco::message::{
    FromMiddlebox, IpVersion, Lifetime, Location, Notification, PolicyRuleId, Reply, Request,
    Scope, TransactionId,
};
use carrick_simco::middlebox::{
    Limits, MiddleboxConfig, Rights, RuleAccess, SessionId, SessionOutput,
};

use crate::network::{Net, agent_config, block, change, config, pinhole};

/// Returns a configuration of `alice` and `bob`, `watcher` who sees all rules, and `police` with all rights.
fn config_of_four_agents(limits: Limits) -> MiddleboxConfig {
    let mut watcher = agent_config("watcher");
    watcher.sees = RuleAccess::All;
    let mut police = agent_config("police");
    police.rights = Rights::ALL;
    MiddleboxConfig {
        agents: vec![agent_config("alice"), agent_config("bob"), watcher, police],
        limits,
        ..config()
    }
}

/// Returns the request to block all streams.
fn block_all() -> Request {
    let mut all = pinhole(1);
    for tuple in [&mut all.internal, &mut all.external] {
        tuple.scope = Scope::ProtocolsOnly(IpVersion::V4);
    }
    block(all)
}

/// Number of rules of each of two agents.
const RULES: u16 = 10_000;

/// Reads some queued messages of a session; returns the reported rules with their lifetimes.
fn some(net: &mut Net, session: SessionId, most: usize) -> Vec<(PolicyRuleId, Lifetime)> {
    let mut reported = Vec::new();
    while reported.len() < most
        && let Some(output) = net.middlebox.poll_output(session)
    {
        let SessionOutput::Send { message, .. } = output else {
            panic!("cut off");
        };
        match FromMiddlebox::parse(&message).unwrap().1 {
            FromMiddlebox::Notification(Notification::RuleEvent { rule, lifetime }) => {
                reported.push((rule, lifetime));
            }
            other => panic!("{other:?} is not an ARE"),
        }
    }
    reported
}

/// RFC 4540, section 8.8.2
#[test]
fn ending_20000_rules_spares_agents_that_read() {
    let limits = Limits {
        queued_messages: 20,
        queued_octets: 2000,
        ..Limits::default()
    };
    let mut net = Net::new(config_of_four_agents(limits));
    let [alice, bob, watcher, police] =
        ["alice", "bob", "watcher", "police"].map(|name| net.open(name));
    let mut rules: BTreeMap<SessionId, Vec<PolicyRuleId>> = BTreeMap::new();
    for port in 1..=RULES {
        for session in [alice, bob] {
            let rule = net.enable(session, pinhole(port)).rule;
            rules.entry(session).or_default().push(rule);
            some(&mut net, watcher, 1);
        }
    }
    let Reply::Disabled { rule: block, .. } = net.ask(police, &block_all()) else {
        panic!("no block");
    };
    assert_eq!((net.middlebox.rules().len(), net.elements()), (1, 1));
    // Other sessions continue meanwhile, and later notifications follow the queued ones.
    assert_eq!(some(&mut net, watcher, 100).len(), 100);
    let mut elsewhere = pinhole(1);
    for (tuple, address) in [
        (&mut elsewhere.internal, "2001:db8::1"),
        (&mut elsewhere.external, "2001:db8::2"),
    ] {
        let Scope::Full {
            address: own,
            prefix,
            ..
        } = &mut tuple.scope
        else {
            panic!("{tuple:?}");
        };
        (*own, *prefix) = (address.parse().unwrap(), 128);
    }
    assert_eq!(elsewhere.internal.location, Location::Internal);
    let new = net.enable(police, elsewhere).rule;
    assert_eq!(net.ask(police, &change(new, 0)), Reply::Deleted);
    let ends = |rules: &[PolicyRuleId]| {
        let ends = rules.iter().map(|rule| (*rule, Lifetime(0)));
        ends.collect::<Vec<_>>()
    };
    for session in [alice, bob] {
        let mut reported = Vec::new();
        loop {
            let more = some(&mut net, session, 100);
            if more.is_empty() {
                break;
            }
            reported.extend(more);
        }
        assert_eq!(
            reported,
            ends(&rules[&session]),
            "all, in the order of the rules"
        );
    }
    let mut reported = some(&mut net, watcher, usize::MAX);
    let last = reported.split_off(reported.len() - 3);
    let of_police = [(block, 60), (new, 60), (new, 0)];
    assert_eq!(
        last,
        of_police.map(|(rule, seconds)| (rule, Lifetime(seconds)))
    );
    assert_eq!(reported.len(), 2 * usize::from(RULES) - 100);
    assert_eq!(net.middlebox.stats().overrun, 0);
    assert_eq!(net.middlebox.session_counts(), (4, 0));
}

/// RFC 4540, section 7.5
#[test]
fn agent_that_reads_nothing_is_terminated() {
    let limits = Limits {
        queued_messages: 20,
        ..Limits::default()
    };
    let mut net = Net::new(config_of_four_agents(limits));
    let [alice, deaf] = ["alice", "watcher"].map(|name| net.open(name));
    let mut requests = 0;
    while net.middlebox.stats().overrun == 0 {
        requests += 1;
        assert!(requests < 100, "the queue has no bound");
        net.enable(alice, pinhole(requests));
        net.wait(60);
        net.received(alice);
    }
    let (received, closed) = net.received(deaf);
    assert!(closed && received.len() <= 22, "{received:?}");
}

#[test]
fn requests_are_read_until_half_the_queue_is_full() {
    let limits = Limits {
        queued_messages: 20,
        max_reply: 16_000,
        queued_octets: 64_000,
        ..Limits::default()
    };
    let mut net = Net::new(config_of_four_agents(limits));
    let alice = net.open("alice");
    let mut requests = 0;
    while net.middlebox.accepts_requests(alice) {
        let request = Request::Status(PolicyRuleId(99));
        net.raw(alice, 0, &request.to_bytes(TransactionId(requests)));
        requests += 1;
    }
    assert_eq!(requests, 11);
    assert!(net.middlebox.poll_output(alice).is_some());
    assert!(
        net.middlebox.accepts_requests(alice),
        "one message was read"
    );
    net.received(alice);
    for port in 1..=1900 {
        net.enable(alice, pinhole(port));
    }
    // The replies have 15 kB each.
    let mut lists = 0;
    while net.middlebox.accepts_requests(alice) {
        net.raw(alice, 0, &Request::List.to_bytes(TransactionId(lists)));
        lists += 1;
    }
    assert_eq!((lists, net.middlebox.stats().overrun), (3, 0));
}
