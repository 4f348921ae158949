//! Limits: clear refusals, bounded memory, other agents unaffected.

use std::time::Duration;

use carrick_simco::backend::{MemoryBackend, MemoryLimits};
use carrick_simco::message::{
    Direction, EnableRequest, FromMiddlebox, IpVersion, Lifetime, MAX_LISTED, NegativeReply,
    Notification, PolicyRuleId, Reply, Request, Scope, TransactionId, VERSION,
};
use carrick_simco::middlebox::{
    Connection, Limits, MiddleboxConfig, Rights, RuleAccess, SessionOutput,
};

use crate::network::{
    Net, UDP, agent_config, block, change, config, name, pinhole, range, reserve,
};

fn limited(limits: Limits) -> MiddleboxConfig {
    MiddleboxConfig { limits, ..config() }
}

#[test]
fn half_open_flood_takes_bounded_memory() {
    let mut net = Net::new(limited(Limits {
        half_open: 10,
        ..Limits::default()
    }));
    let alice = net.open("alice");
    let establish = Request::Establish {
        version: VERSION,
        challenge: None,
    };
    for n in 0..1000 {
        let session = net.connect();
        if n % 2 == 0 {
            net.raw(session, 0, &establish.to_bytes(TransactionId(1)));
        }
        while let Some(ready) = net.middlebox.poll_ready() {
            net.received(ready);
        }
        assert!(net.middlebox.session_counts().1 <= 10);
    }
    // A slow agent connects during the flood.
    let settings = carrick_simco::agent::AgentSettings {
        credentials: Some(crate::network::credentials("bob")),
        ..Default::default()
    };
    let mut bob = carrick_simco::agent::Agent::new(settings, [2; 32]);
    let session = net.connect();
    bob.connected(net.now, 4);
    while !bob.is_open() {
        for _ in 0..4 {
            net.connect();
        }
        let (stream, message) = bob.poll_transmit().unwrap();
        net.raw(session, stream, &message);
        let Some(SessionOutput::Send { stream, message }) = net.middlebox.poll_output(session)
        else {
            panic!("crowded out");
        };
        bob.handle_message(net.now, stream, &message);
    }
    while let Some(ready) = net.middlebox.poll_ready() {
        net.received(ready);
    }
    net.enable(alice, pinhole(5));
    assert!(net.middlebox.stats().half_open_evicted > 900);
    net.wait(10);
    assert_eq!(
        net.middlebox.session_counts(),
        (2, 0),
        "and all of them time out"
    );
}

#[test]
fn flood_from_one_address_evicts_only_itself() {
    let mut net = Net::new(limited(Limits {
        half_open: 10,
        half_open_per_address: 3,
        ..Limits::default()
    }));
    let from = |address: &str| Connection {
        address: Some(address.parse().unwrap()),
        ..Connection::plain(4)
    };
    let settings = carrick_simco::agent::AgentSettings {
        credentials: Some(crate::network::credentials("bob")),
        ..Default::default()
    };
    let mut bob = carrick_simco::agent::Agent::new(settings, [2; 32]);
    let session = net.middlebox.connected(net.now, &from("192.0.2.1"));
    bob.connected(net.now, 4);
    while !bob.is_open() {
        // Far more connections than the limit, before each of his messages.
        for n in 0..1000 {
            let flood = ["198.51.100.7".to_owned(), format!("2001:db8::{n:x}:1")];
            for address in &flood {
                net.middlebox.connected(net.now, &from(address));
            }
            while let Some(ready) = net.middlebox.poll_ready() {
                if ready == session {
                    break;
                }
                net.received(ready);
            }
        }
        assert!(
            net.middlebox.session_counts().1 <= 7,
            "3 of each source, and his"
        );
        let (stream, message) = bob.poll_transmit().unwrap();
        net.raw(session, stream, &message);
        let Some(SessionOutput::Send { stream, message }) = net.middlebox.poll_output(session)
        else {
            panic!("crowded out");
        };
        bob.handle_message(net.now, stream, &message);
    }
    assert_eq!(net.middlebox.session_counts(), (1, 6));
    // Sessions that end make room.
    net.wait(10);
    assert_eq!(net.middlebox.session_counts(), (1, 0));
    let before = net.middlebox.stats().half_open_evicted;
    for _ in 0..3 {
        net.middlebox.connected(net.now, &from("198.51.100.7"));
    }
    assert_eq!(net.middlebox.stats().half_open_evicted, before);
}

#[test]
fn sessions_are_limited_for_each_agent_and_for_all() {
    let mut config = limited(Limits {
        open_sessions: 3,
        ..Limits::default()
    });
    config.agents[0].max_sessions = 2;
    let mut net = Net::new(config);
    let first = net.open("alice");
    net.open("alice");
    let refused = |net: &mut Net, name: &str| {
        let settings = carrick_simco::agent::AgentSettings {
            credentials: Some(crate::network::credentials(name)),
            ..Default::default()
        };
        let (agent, _, events) = net.agent(settings);
        let lack = NegativeReply::LackOfResources;
        let reason = carrick_simco::agent::CloseReason::Refused(lack);
        !agent.is_open() && events.contains(&carrick_simco::agent::AgentEvent::Closed(reason))
    };
    assert!(refused(&mut net, "alice"), "her third");
    net.open("bob");
    assert!(refused(&mut net, "bob"), "the fourth session in total");
    net.middlebox.disconnected(first);
    net.open("bob");
}

#[test]
fn full_packet_filter_refuses_cleanly() {
    let backend = MemoryBackend::new(MemoryLimits {
        elements: 2,
        ..MemoryLimits::default()
    });
    let mut net = Net::with_backend(config(), backend);
    let alice = net.open("alice");
    let first = net.enable(alice, pinhole(1)).rule;
    net.enable(alice, pinhole(2));
    let refusal = net.refusal(alice, &Request::Enable(pinhole(3)));
    assert_eq!(refusal, NegativeReply::NoResources);
    assert_eq!((net.middlebox.rules().len(), net.elements()), (2, 2));
    net.ask(alice, &change(first, 0));
    net.enable(alice, pinhole(3));
    assert!(net.passes(3, carrick_simco::message::Direction::Inbound));
}

#[test]
fn agent_that_does_not_read_keeps_its_rules() {
    let mut config = limited(Limits {
        queued_messages: 20,
        ..Limits::default()
    });
    config.agents[1].sees = RuleAccess::All;
    let mut net = Net::new(config);
    let [alice, deaf] = ["alice", "bob"].map(|name| net.open(name));
    net.enable(deaf, pinhole(999));
    for port in 1..100 {
        let rule = net.enable(alice, pinhole(port)).rule;
        net.ask(alice, &change(rule, 0));
    }
    let (received, closed) = net.received(deaf);
    assert_eq!(received.len(), 22, "the limit, and AST");
    assert_eq!(
        received[21].2,
        FromMiddlebox::Notification(Notification::SessionTerminated)
    );
    assert!(closed);
    assert_eq!(net.middlebox.stats().overrun, 1);
    assert_eq!(
        net.middlebox.rules().len(),
        1,
        "the rule of the terminated session"
    );
}

/// RFC 4540, section 8.7
#[test]
fn oversized_list_is_refused() {
    let mut net = Net::new(config());
    let alice = net.open("alice");
    let mut last = None;
    for n in 0..=MAX_LISTED as u32 {
        let mut request = pinhole(5);
        request.lifetime = Lifetime(100);
        if n == MAX_LISTED as u32 {
            let Reply::List(list) = net.ask(alice, &Request::List) else {
                panic!("not a list of {n}");
            };
            assert_eq!(list.rules().len(), MAX_LISTED);
        }
        last = Some(net.enable(alice, request).rule);
    }
    assert_eq!(
        net.refusal(alice, &Request::List),
        NegativeReply::ReplyTooBig
    );
    net.ask(alice, &change(last.unwrap(), 0));
    assert!(matches!(net.ask(alice, &Request::List), Reply::List(_)));
}

#[test]
fn half_open_session_times_out() {
    let mut net = Net::new(config());
    let session = net.connect();
    let timeout = net.middlebox.poll_timeout().unwrap();
    assert_eq!(timeout.since(net.now), Duration::from_secs(10));
    net.wait(9);
    assert_eq!(net.received(session), (vec![], false));
    net.wait(1);
    assert_eq!(net.received(session), (vec![], true));
    assert_eq!(net.middlebox.poll_timeout(), None);
}

/// RFC 4540, section 7.5
#[test]
fn replies_precede_ast() {
    let mut net = Net::new(limited(Limits {
        queued_messages: 20,
        ..Limits::default()
    }));
    let alice = net.open("alice");
    for tid in 0..50 {
        let request = Request::Status(PolicyRuleId(99));
        net.raw(alice, 0, &request.to_bytes(TransactionId(tid)));
    }
    let (received, closed) = net.received(alice);
    let (last, replies) = received.split_last().unwrap();
    assert_eq!(
        last.2,
        FromMiddlebox::Notification(Notification::SessionTerminated)
    );
    let answered: Vec<u32> = replies.iter().map(|(_, tid, _)| tid.0).collect();
    assert_eq!(
        answered,
        (0..21).collect::<Vec<u32>>(),
        "exactly the completed requests are answered"
    );
    assert!(closed);
}

/// RFC 4540, section 7.5
#[test]
fn nothing_follows_ast() {
    let mut config = limited(Limits {
        queued_messages: 1,
        ..Limits::default()
    });
    config.agents[1].rights.disable = true;
    config.agents[1].sees = RuleAccess::All;
    let mut net = Net::new(config);
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    for port in 1..6 {
        net.enable(alice, pinhole(port));
        net.received(bob);
    }
    let mut all = pinhole(1);
    for tuple in [&mut all.internal, &mut all.external] {
        tuple.scope = Scope::ProtocolsOnly(IpVersion::V4);
    }
    net.raw(bob, 0, &block(all).to_bytes(TransactionId(5)));
    let (received, closed) = net.received(bob);
    let last = received.last().map(|(_, _, what)| what.clone());
    let ast = FromMiddlebox::Notification(Notification::SessionTerminated);
    assert_eq!((last, closed), (Some(ast), true), "{received:?}");
    // Completed requests are answered first.
    let first = &received[0].2;
    let answered = matches!(first, FromMiddlebox::Reply(Reply::Disabled { .. }));
    assert!(answered, "{received:?}");
}

#[test]
fn queued_octets_are_bounded() {
    let mut net = Net::new(limited(Limits {
        queued_octets: 100_000,
        ..Limits::default()
    }));
    let alice = net.open("alice");
    for port in 1..=2000 {
        net.enable(alice, pinhole(port));
    }
    // The lists have 16 kB each.
    for tid in 0..100 {
        net.raw(alice, 0, &Request::List.to_bytes(TransactionId(tid)));
    }
    let (received, closed) = net.received(alice);
    assert_eq!((received.len(), closed), (8, true), "7 lists and AST");
    assert_eq!(net.middlebox.stats().overrun, 1);
}

/// RFC 4540, section 8.9
#[test]
fn mass_expiry_spares_agents_that_read() {
    let mut net = Net::new(limited(Limits {
        queued_messages: 1000,
        ..Limits::default()
    }));
    let alice = net.open("alice");
    for port in 1..=5000 {
        net.enable(alice, pinhole(port));
    }
    net.now += Duration::from_secs(60);
    let mut reported = 0;
    while net
        .middlebox
        .poll_timeout()
        .is_some_and(|timeout| timeout <= net.now)
    {
        net.middlebox.handle_timeout(net.now);
        reported += net.rule_events(alice).len();
    }
    assert_eq!((reported, net.elements()), (5000, 0));
    assert_eq!(net.middlebox.session_counts(), (1, 0));
}

/// RFC 4540, section 8.1
#[test]
fn rule_expires_on_time() {
    let mut net = Net::new(config());
    let alice = net.open("alice");
    let rules: Vec<PolicyRuleId> = (1..=5000)
        .map(|port| net.enable(alice, pinhole(port)).rule)
        .collect();
    net.now += Duration::from_secs(60);
    for rule in [rules[0], rules[4999]] {
        assert_eq!(
            net.refusal(alice, &Request::Status(rule)),
            NegativeReply::NoSuchRule
        );
    }
}

#[test]
fn elements_per_agent_are_bounded() {
    let mut config = config();
    config.agents[0].max_rules = 100;
    config.agents[0].max_elements = 100;
    let backend = MemoryBackend::new(MemoryLimits {
        elements: 150,
        ..MemoryLimits::default()
    });
    let mut net = Net::with_backend(config, backend);
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    let mut rules = Vec::new();
    for n in 0..100 {
        match net.ask(alice, &Request::Enable(range(1 + n * 32, 32))) {
            Reply::Enabled(enabled) => rules.push(enabled.rule),
            Reply::Negative(NegativeReply::NoResources) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((rules.len(), net.elements()), (3, 96));
    net.enable(bob, range(60_000, 50));
    net.ask(alice, &change(rules[0], 0));
    net.enable(alice, range(1, 32));
}

/// Returns the request for a pattern: an external network, one internal port.
fn network(third: u8, port: u16) -> EnableRequest {
    let mut request = pinhole(port);
    request.parameters.direction = Direction::Inbound;
    request.external.scope = Scope::Full {
        address: [198, 51, third, 0].into(),
        prefix: 24,
        port,
        ports: 1,
    };
    request
}

/// RFC 5189, section 2.1.4
#[test]
fn patterns_per_agent_are_bounded() {
    let mut config = config();
    config.agents[0].max_patterns = 3;
    let mut net = Net::new(config);
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    let rules: Vec<PolicyRuleId> = (0..3)
        .map(|third| net.enable(alice, network(third, 5)).rule)
        .collect();
    let full = NegativeReply::NoResources;
    for more in [network(3, 5), network(0, 6)] {
        assert_eq!(net.refusal(alice, &Request::Enable(more)), full);
    }
    // Single flows and patterns of other agents do not count; an ended rule makes room.
    net.enable(alice, pinhole(5));
    net.enable(bob, network(3, 5));
    net.ask(alice, &change(rules[1], 0));
    net.enable(alice, network(3, 5));
    assert_eq!(net.refusal(alice, &Request::Enable(network(4, 5))), full);
    // A reservation enabled for a pattern counts, too.
    let reserve = Request::Reserve(reserve(UDP, 1, 60));
    let Reply::Reserved(reserved) = net.ask(alice, &reserve) else {
        panic!("not reserved");
    };
    let enable = network(4, 5);
    let enable = Request::EnableReserved {
        enable,
        rule: reserved.rule,
    };
    assert_eq!(net.refusal(alice, &enable), full);
}

/// RFC 4540, section 8.8
#[test]
fn prohibit_succeeds_despite_existing_pinholes() {
    let mut config = limited(Limits {
        rules: 10,
        disable_rules: 3,
        ..Limits::default()
    });
    let mut police = agent_config("police");
    police.rights = Rights::ALL;
    // Its own quota of enabling rules is used up, too.
    police.max_rules = 1;
    police.max_disable_rules = 2;
    let mut other = police.clone();
    other.identity = name("other");
    other.key = Some(crate::network::key("other"));
    config.agents.extend([police, other]);
    let backend = MemoryBackend::new(MemoryLimits {
        elements: 10,
        blocks: 3,
    });
    let mut net = Net::with_backend(config, backend);
    let [alice, police, other] = ["alice", "police", "other"].map(|name| net.open(name));
    net.enable(police, pinhole(100));
    for port in 1..10 {
        net.enable(alice, pinhole(port));
    }
    let full = NegativeReply::NoResources;
    assert_eq!(net.refusal(alice, &Request::Enable(pinhole(50))), full);
    for port in [1, 60] {
        let reply = net.ask(police, &block(pinhole(port)));
        assert!(matches!(reply, Reply::Disabled { .. }), "{reply:?}");
    }
    assert_eq!(
        net.refusal(police, &block(pinhole(61))),
        full,
        "the limit of the agent"
    );
    assert!(matches!(
        net.ask(other, &block(pinhole(61))),
        Reply::Disabled { .. }
    ));
    assert_eq!(
        net.refusal(other, &block(pinhole(62))),
        full,
        "the limit of all agents"
    );
    assert!(!net.passes(1, Direction::Inbound));
    // Rules by PDR do not count for enabling rules: only the pinhole that was blocked is free.
    net.enable(alice, pinhole(50));
    assert_eq!(net.refusal(alice, &Request::Enable(pinhole(51))), full);
    assert_eq!((net.middlebox.rules().len(), net.elements()), (13, 13));
}
