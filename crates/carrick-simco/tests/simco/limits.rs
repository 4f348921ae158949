//! Limits: clear refusals, bounded memory, other agents unaffected.

use std::time::Duration;

use carrick_simco::backend::{MemoryBackend, MemoryLimits};
use carrick_simco::message::{
    FromMiddlebox, Lifetime, MAX_LISTED, NegativeReply, Notification, Reply, Request,
    TransactionId, VERSION,
};
use carrick_simco::middlebox::{Access, Limits, MiddleboxConfig};

use crate::network::{Net, change, config, pinhole};

fn limited(limits: Limits) -> MiddleboxConfig {
    MiddleboxConfig { limits, ..config() }
}

#[test]
fn a_flood_of_half_open_sessions_takes_bounded_memory_and_keeps_nobody_out() {
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
    net.open("bob");
    net.enable(alice, pinhole(5));
    assert!(net.middlebox.stats().crowded_out > 900);
    net.wait(10);
    assert_eq!(
        net.middlebox.session_counts(),
        (2, 0),
        "and in the end their time is over"
    );
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
    assert!(refused(&mut net, "bob"), "the fourth of all");
    net.middlebox.disconnected(first);
    net.open("bob");
}

#[test]
fn an_agent_that_wants_ten_million_rules_gets_its_quota() {
    let mut config = limited(Limits {
        rules: 150,
        ..Limits::default()
    });
    config.agents[0].max_rules = 100;
    let mut net = Net::new(config);
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    let mut granted = 0;
    for port in 1..10_000 {
        match net.ask(alice, &Request::Enable(pinhole(port))) {
            Reply::Enabled(_) => granted += 1,
            Reply::Negative(NegativeReply::NoResources) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((granted, net.middlebox.rules().len()), (100, 100));
    for port in 1..=50 {
        net.enable(bob, pinhole(port));
    }
    let refusal = net.refusal(bob, &Request::Enable(pinhole(51)));
    assert_eq!(refusal, NegativeReply::NoResources, "the limit of all");
}

#[test]
fn a_full_packet_filter_refuses_and_nothing_is_left_behind() {
    let backend = MemoryBackend::new(MemoryLimits { elements: 2 });
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
fn an_agent_that_does_not_read_loses_its_session_and_keeps_its_rules() {
    let mut config = limited(Limits {
        queued_messages: 20,
        ..Limits::default()
    });
    config.agents[1].sees = Access::All;
    let mut net = Net::new(config);
    let [alice, deaf] = ["alice", "bob"].map(|name| net.open(name));
    net.enable(deaf, pinhole(999));
    for port in 1..100 {
        let rule = net.enable(alice, pinhole(port)).rule;
        net.ask(alice, &change(rule, 0));
    }
    let (received, closed) = net.received(deaf);
    let [(_, _, what)] = &received[..] else {
        panic!("{} messages were kept", received.len());
    };
    assert_eq!(
        what,
        &FromMiddlebox::Notification(Notification::SessionTerminated)
    );
    assert!(closed);
    assert_eq!(net.middlebox.stats().overrun, 1);
    assert_eq!(
        net.middlebox.rules().len(),
        1,
        "the rule of the one that was cut off"
    );
}

#[test]
fn a_list_that_fits_in_no_message_is_refused_8_7() {
    let mut net = Net::new(config());
    let alice = net.open("alice");
    let mut last = None;
    for n in 0..=MAX_LISTED as u32 {
        let mut request = pinhole(5);
        request.lifetime = Lifetime(100);
        if n == MAX_LISTED as u32 {
            let Reply::List(list) = net.ask(alice, &Request::List) else {
                panic!("no list of {n}");
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
fn a_session_that_does_not_open_ends_in_time() {
    let mut net = Net::new(config());
    let session = net.connect();
    let due = net.middlebox.poll_timeout().unwrap();
    assert_eq!(due.since(net.now), Duration::from_secs(10));
    net.wait(9);
    assert_eq!(net.received(session), (vec![], false));
    net.wait(1);
    assert_eq!(net.received(session), (vec![], true));
    assert_eq!(net.middlebox.poll_timeout(), None);
}
