//! Rights of agents: requests, visibility, control and notifications.

use carrick_simco::agent::{AgentEvent, CloseReason};
use carrick_simco::message::{
    AddressTuple, Direction, DisableRequest, EnableRequest, IpVersion, Lifetime, Location,
    NegativeReply, PolicyRuleId, Reply, Request, Scope,
};
use carrick_simco::middlebox::{MiddleboxConfig, Network, Rights, RuleAccess};

use crate::network::{Net, UDP, agent_config, block, change, config, name, pinhole, reserve};

/// `alice` and `bob` with their own rules, `watcher` who sees all, `admin` who may change alice's.
fn config_of_four_agents() -> MiddleboxConfig {
    let mut watcher = agent_config("watcher");
    watcher.sees = RuleAccess::All;
    watcher.rights.enable = false;
    let mut admin = agent_config("admin");
    admin.sees = RuleAccess::Of(vec![name("alice")]);
    admin.controls = RuleAccess::Of(vec![name("alice")]);
    MiddleboxConfig {
        agents: vec![agent_config("alice"), agent_config("bob"), watcher, admin],
        ..config()
    }
}

fn list(reply: Reply) -> Vec<u32> {
    match reply {
        Reply::List(list) => list.rules().iter().map(|rule| rule.0).collect(),
        other => panic!("{other:?} is not a list"),
    }
}

/// RFC 4540, section 5.3.1
#[test]
fn agents_see_and_change_permitted_rules_only() {
    let mut net = Net::new(config_of_four_agents());
    let [alice, bob, watcher, admin] =
        ["alice", "bob", "watcher", "admin"].map(|name| net.open(name));
    let rule = net.enable(alice, pinhole(5)).rule;
    net.enable(bob, pinhole(6));
    let denied = NegativeReply::RuleNotAuthorized;
    assert_eq!(net.refusal(bob, &change(rule, 0)), denied);
    assert_eq!(net.refusal(bob, &Request::Status(rule)), denied);
    assert_eq!(
        net.refusal(watcher, &change(rule, 0)),
        denied,
        "the right to see does not include the right to change"
    );
    assert!(matches!(
        net.ask(watcher, &Request::Status(rule)),
        Reply::EnableStatus(_)
    ));
    let lists = [alice, bob, watcher, admin].map(|s| list(net.ask(s, &Request::List)));
    assert_eq!(lists, [vec![1], vec![2], vec![1, 2], vec![1]]);
    assert_eq!(net.ask(admin, &change(rule, 0)), Reply::Deleted);
}

/// RFC 4540, section 8
#[test]
fn missing_right_is_refused_first() {
    let mut nothing = agent_config("mallory");
    nothing.rights = Rights {
        reserve: false,
        enable: false,
        disable: false,
        change_lifetime: false,
        status: false,
        list: false,
        wildcards: true,
    };
    let mut net = Net::new(MiddleboxConfig {
        agents: vec![nothing],
        ..config()
    });
    let session = net.open("mallory");
    let unknown = PolicyRuleId(99);
    let requests = [
        Request::Reserve(reserve(UDP, 0, 0)),
        Request::Enable(pinhole(5)),
        Request::EnableReserved {
            enable: pinhole(5),
            rule: unknown,
        },
        Request::Disable(DisableRequest {
            internal: pinhole(5).external,
            external: pinhole(5).internal,
            lifetime: Lifetime(0),
        }),
        change(unknown, 0),
        Request::Status(unknown),
        Request::List,
    ];
    for request in requests {
        let refusal = net.refusal(session, &request);
        assert_eq!(refusal, NegativeReply::AgentNotAuthorized, "{request:?}");
    }
}

/// RFC 4540, section 5.3.19
#[test]
fn are_is_not_sent_to_the_requesting_session() {
    let mut net = Net::new(config_of_four_agents());
    let [alice, bob, watcher] = ["alice", "bob", "watcher"].map(|name| net.open(name));
    let other = net.open("alice");
    let rule = net.enable(alice, pinhole(5)).rule;
    net.ask(alice, &change(rule, 90));
    net.ask(alice, &change(rule, 0));
    let reported = [
        (rule, Lifetime(60)),
        (rule, Lifetime(90)),
        (rule, Lifetime(0)),
    ];
    assert_eq!(net.rule_events(watcher), reported);
    assert_eq!(
        net.rule_events(other),
        reported,
        "another session of the same agent is notified"
    );
    assert_eq!(net.rule_events(alice), []);
    assert_eq!(net.rule_events(bob), []);
    let rule = net.enable(alice, pinhole(5)).rule;
    net.wait(60);
    assert_eq!(
        net.rule_events(alice),
        [(rule, Lifetime(0))],
        "the requesting session is notified of an expiry"
    );
    assert_eq!(net.rule_events(watcher).len(), 2);
}

#[test]
fn events_of_a_rule_keep_their_order_on_one_stream() {
    let mut net = Net::new(config_of_four_agents());
    let [alice, watcher] = ["alice", "watcher"].map(|name| net.open(name));
    for port in 1..9 {
        let rule = net.enable(alice, pinhole(port)).rule;
        net.ask(alice, &change(rule, 0));
    }
    let (received, _) = net.received(watcher);
    let streams: Vec<u16> = received.iter().map(|(stream, ..)| *stream).collect();
    assert_eq!(streams.len(), 16);
    for pair in streams.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
    assert_eq!(*streams.iter().max().unwrap(), 3, "all streams are used");
    let mut transactions: Vec<u32> = received.iter().map(|(_, t, _)| t.0).collect();
    transactions.sort_unstable();
    transactions.dedup();
    assert_eq!(
        transactions.len(),
        16,
        "no transaction identifier is reused (section 4.2.5)"
    );
}

/// RFC 4540, section 5.3.1
#[test]
fn control_of_a_rule_includes_seeing_it() {
    let mut config = config_of_four_agents();
    config.agents[3].sees = RuleAccess::Own;
    let mut net = Net::new(config);
    let [alice, bob, admin] = ["alice", "bob", "admin"].map(|name| net.open(name));
    let rule = net.enable(alice, pinhole(5)).rule;
    net.enable(bob, pinhole(6));
    assert_eq!(net.rule_events(admin), [(rule, Lifetime(60))]);
    assert!(matches!(
        net.ask(admin, &Request::Status(rule)),
        Reply::EnableStatus(_)
    ));
    assert_eq!(list(net.ask(admin, &Request::List)), [1]);
}

/// RFC 4540, section 5.3.19
#[test]
fn are_carries_the_granted_lifetime() {
    let mut config = config_of_four_agents();
    config.agents[1].rights = Rights::ALL;
    let mut net = Net::new(config);
    let [alice, bob, watcher] = ["alice", "bob", "watcher"].map(|name| net.open(name));
    let reserve = Request::Reserve(reserve(UDP, 1, u32::MAX));
    let Reply::Reserved(reserved) = net.ask(alice, &reserve) else {
        panic!("not reserved");
    };
    let rule = reserved.rule;
    let enable = Request::EnableReserved {
        enable: pinhole(5),
        rule,
    };
    net.ask(alice, &enable);
    let block = block(EnableRequest {
        lifetime: Lifetime(30),
        ..pinhole(5)
    });
    let Reply::Disabled { rule: blocking, .. } = net.ask(bob, &block) else {
        panic!("not disabled");
    };
    let end = (rule, Lifetime(0));
    assert_eq!(
        net.rule_events(watcher),
        [
            (rule, Lifetime(3600)),
            (rule, Lifetime(60)),
            end,
            (blocking, Lifetime(30))
        ],
        "PRR, PEA, PDR and the rule that it ended"
    );
    assert_eq!(
        net.rule_events(alice),
        [end],
        "the requesting session gets replies"
    );
    net.middlebox.end_rule(net.now, blocking);
    assert_eq!(net.rule_events(bob), [(blocking, Lifetime(0))], "8.9");
}

/// RFC 4540, section 8.3.1
#[test]
fn wildcards_need_their_right_except_in_pdr() {
    let mut config = config();
    config.agents[0].rights = Rights {
        wildcards: false,
        ..Rights::ALL
    };
    let mut net = Net::new(config);
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    let wild = |change: &dyn Fn(&mut EnableRequest)| {
        let mut request = pinhole(5);
        request.parameters.direction = Direction::Inbound;
        change(&mut request);
        request
    };
    let any_port = wild(&|r| {
        r.external = AddressTuple::single(Location::External, 17, [192, 0, 2, 1].into(), 0);
    });
    let any_protocol = wild(&|r| (r.internal.protocol, r.external.protocol) = (0, 0));
    let anywhere = wild(&|r| r.external.scope = Scope::ProtocolsOnly(IpVersion::V4));
    for request in [any_port, any_protocol, anywhere] {
        // The middlebox supports them, as its capabilities report (RFC 4540, section 4.3.3).
        let refusal = net.refusal(alice, &Request::Enable(request));
        assert_eq!(refusal, NegativeReply::AgentNotAuthorized);
        net.enable(bob, request);
        let Reply::Disabled { rule, .. } = net.ask(alice, &block(request)) else {
            panic!("{request:?} is not blocked");
        };
        net.ask(alice, &change(rule, 0));
    }
    net.enable(alice, pinhole(6));
}

/// RFC 4540, section 8.3.1
#[test]
fn wildcard_right_is_checked_before_support() {
    let mut config = config();
    config.agents[0].rights.wildcards = false;
    config.agents[1].rights.wildcards = true;
    config.capabilities.external_address_wildcards = false;
    let mut net = Net::new(config);
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    // A bidirectional stream may have no wildcard, which is checked last.
    let mut request = pinhole(5);
    request.external.scope = Scope::ProtocolsOnly(IpVersion::V4);
    for (session, expected) in [
        (alice, NegativeReply::AgentNotAuthorized),
        (bob, NegativeReply::WildcardingNotSupported),
    ] {
        let refusal = net.refusal(session, &Request::Enable(request));
        assert_eq!(refusal, expected);
    }
}

#[test]
fn rules_are_confined_to_the_networks_of_an_agent() {
    let mut config = config();
    let network = |text: &str, prefix| Network::new(text.parse().unwrap(), prefix).unwrap();
    config.agents[0].rights = Rights::ALL;
    config.agents[0].internal = vec![network("10.1.0.0", 16), network("2001:db8::", 32)];
    config.agents[0].external = vec![network("198.51.100.0", 24), network("::", 0)];
    let mut net = Net::new(config);
    let alice = net.open("alice");
    let at = |internal: &str, external: &str, prefix| {
        let mut request = pinhole(5);
        request.parameters.direction = Direction::Inbound;
        for (tuple, address) in [
            (&mut request.internal, internal),
            (&mut request.external, external),
        ] {
            let full_length = if address.contains(':') { 128 } else { 32 };
            let inside = tuple.location == Location::Internal;
            let prefix = if inside { prefix } else { full_length };
            tuple.scope = Scope::Full {
                address: address.parse().unwrap(),
                prefix,
                port: 5,
                ports: 1,
            };
        }
        request
    };
    let outside = NegativeReply::AddressSpaceUnavailable;
    for request in [
        at("10.2.0.1", "198.51.100.1", 32),
        at("10.1.0.1", "198.51.101.1", 32),
        // Only a part of the network is permitted.
        at("10.0.0.0", "198.51.100.1", 15),
        at("2001:db9::1", "2001:db9::2", 128),
    ] {
        assert_eq!(net.refusal(alice, &Request::Enable(request)), outside);
        assert_eq!(net.refusal(alice, &block(request)), outside);
    }
    net.enable(alice, at("10.1.255.1", "198.51.100.1", 32));
    net.enable(alice, at("10.1.128.0", "198.51.100.1", 17));
    net.enable(alice, at("2001:db8::1", "2001:db9::2", 128));
    let mut all = at("10.1.0.0", "198.51.100.1", 16);
    all.internal.scope = Scope::ProtocolsOnly(IpVersion::V4);
    assert_eq!(net.refusal(alice, &Request::Enable(all)), outside);
}

#[test]
fn reload_ends_sessions_no_longer_allowed() {
    let anonymous = MiddleboxConfig {
        anonymous: Some(crate::network::name("bob")),
        ..config()
    };
    let mut net = Net::new(anonymous.clone());
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    let unauthenticated = {
        let (agent, session, _) = net.agent(carrick_simco::agent::AgentSettings::default());
        assert!(agent.is_open());
        session
    };
    let open = |net: &Net| net.middlebox.session_counts().0;
    assert_eq!(open(&net), 3);
    net.middlebox.reconfigure(anonymous.clone());
    assert_eq!(open(&net), 3, "the same configuration ends no session");
    let ended = |net: &mut Net, session| net.received(session).1;
    // Another key ends the sessions with the old one only.
    let mut other_key = anonymous.clone();
    other_key.agents[0].key = Some(crate::network::key("other"));
    net.middlebox.reconfigure(other_key.clone());
    assert!(ended(&mut net, alice) && !ended(&mut net, bob) && !ended(&mut net, unauthenticated));
    // Authentication is required: the unauthenticated session of bob ends, the authenticated one stays.
    net.middlebox.reconfigure(MiddleboxConfig {
        anonymous: None,
        ..other_key.clone()
    });
    assert!(!ended(&mut net, bob) && ended(&mut net, unauthenticated));
    // Encryption is required, too.
    net.middlebox.reconfigure(MiddleboxConfig {
        require_security: true,
        ..other_key
    });
    assert!(ended(&mut net, bob));
    assert_eq!(open(&net), 0);
}

/// Change of a configuration that withdraws a permission.
type Withdraw = fn(&mut MiddleboxConfig);

/// RFC 4540, section 8.5
#[test]
fn rule_no_longer_allowed_is_not_extended() {
    let mut before = config_of_four_agents();
    before.agents[0].rights = Rights::ALL;
    // Control of a rule needs no right to open rules.
    before.agents[3].rights = Rights {
        change_lifetime: true,
        ..Rights::NONE
    };
    let mut wide = pinhole(6);
    wide.parameters.direction = Direction::Inbound;
    if let Scope::Full { prefix, .. } = &mut wide.external.scope {
        *prefix = 24;
    }
    let withdrawn: [(&str, Withdraw); 6] = [
        ("the right to enable", |c| c.agents[0].rights.enable = false),
        ("the right to wildcards", |c| {
            c.agents[0].rights.wildcards = false
        }),
        ("its network", |c| {
            c.agents[0].internal = vec![Network::new([10, 9, 0, 0].into(), 16).unwrap()];
        }),
        ("the protocol", |c| c.protocols = vec![6]),
        ("wildcards", |c| {
            c.capabilities.external_address_wildcards = false
        }),
        ("the agent", |c| {
            c.agents.remove(0);
        }),
    ];
    for (what, withdraw) in withdrawn {
        let mut net = Net::new(before.clone());
        let [alice, admin] = ["alice", "admin"].map(|name| net.open(name));
        let rule = net.enable(alice, wide).rule;
        let longer = Reply::LifetimeChanged(Lifetime(90));
        assert_eq!(net.ask(admin, &change(rule, 90)), longer, "{what}");
        let mut after = before.clone();
        withdraw(&mut after);
        net.middlebox.reconfigure(after);
        let refused = NegativeReply::LifetimeNotAuthorized;
        net.received(admin);
        assert_eq!(net.refusal(admin, &change(rule, 100)), refused, "{what}");
        let shorter = Reply::LifetimeChanged(Lifetime(30));
        assert_eq!(net.ask(admin, &change(rule, 30)), shorter, "{what}");
        assert_eq!(net.refusal(admin, &change(rule, 60)), refused, "{what}");
        assert_eq!(net.ask(admin, &change(rule, 0)), Reply::Deleted, "{what}");
    }
    // Rules by PDR and reservations, too.
    let mut net = Net::new(before.clone());
    let alice = net.open("alice");
    let block = block(pinhole(5));
    let rules = [block, Request::Reserve(reserve(UDP, 1, 60))];
    let rules = rules.map(|request| net.ask(alice, &request).rule().unwrap());
    let mut after = before.clone();
    (
        after.agents[0].rights.disable,
        after.agents[0].rights.reserve,
    ) = (false, false);
    net.middlebox.reconfigure(after);
    for rule in rules {
        let refused = NegativeReply::LifetimeNotAuthorized;
        assert_eq!(net.refusal(alice, &change(rule, 90)), refused);
    }
    net.middlebox.reconfigure(before);
    for rule in rules {
        let longer = Reply::LifetimeChanged(Lifetime(90));
        assert_eq!(net.ask(alice, &change(rule, 90)), longer);
    }
}

/// RFC 4540, section 7.3
#[test]
fn encryption_requirement_applies_to_opening_sessions() {
    let mut net = Net::new(config_of_four_agents());
    let settings = carrick_simco::agent::AgentSettings {
        credentials: Some(crate::network::credentials("alice")),
        ..Default::default()
    };
    let mut alice = carrick_simco::agent::Agent::new(settings, [2; 32]);
    let session = net.connect();
    alice.connected(net.now, 4);
    let (stream, establish) = alice.poll_transmit().unwrap();
    net.raw(session, stream, &establish);
    // Her SA arrives after the configuration has changed.
    net.middlebox.reconfigure(MiddleboxConfig {
        require_security: true,
        ..config_of_four_agents()
    });
    let events = net.carry(&mut alice, session);
    let refused = CloseReason::Refused(NegativeReply::InsufficientSecurity);
    assert!(events.contains(&AgentEvent::Closed(refused)), "{events:?}");
    assert_eq!(net.middlebox.session_counts(), (0, 0));
}
