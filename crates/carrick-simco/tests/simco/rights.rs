//! Rights: who may ask for what, see what, change what, and is told of what.

use carrick_simco::message::{
    DisableRequest, Lifetime, NatMode, NegativeReply, Parity, PolicyRuleId, PrrParameters, Reply,
    Request, ReserveRequest,
};
use carrick_simco::middlebox::{Access, MiddleboxConfig, Rights};

use crate::network::{Net, agent_config, change, config, name, pinhole};

/// `alice` and `bob` with their own rules, `watcher` who sees all, `admin` who may change alice's.
fn house() -> MiddleboxConfig {
    let mut watcher = agent_config("watcher");
    watcher.sees = Access::All;
    watcher.rights.enable = false;
    let mut admin = agent_config("admin");
    admin.sees = Access::Of(vec![name("alice")]);
    admin.controls = Access::Of(vec![name("alice")]);
    MiddleboxConfig {
        agents: vec![agent_config("alice"), agent_config("bob"), watcher, admin],
        ..config()
    }
}

fn list(reply: Reply) -> Vec<u32> {
    match reply {
        Reply::List(list) => list.rules().iter().map(|rule| rule.0).collect(),
        other => panic!("{other:?} is no list"),
    }
}

#[test]
fn one_sees_and_changes_what_one_may_5_3_1() {
    let mut net = Net::new(house());
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
        "seeing is not changing"
    );
    assert!(matches!(
        net.ask(watcher, &Request::Status(rule)),
        Reply::EnableStatus(_)
    ));
    let lists = [alice, bob, watcher, admin].map(|s| list(net.ask(s, &Request::List)));
    assert_eq!(lists, [vec![1], vec![2], vec![1, 2], vec![1]]);
    assert_eq!(net.ask(admin, &change(rule, 0)), Reply::Deleted);
}

#[test]
fn a_transaction_without_the_right_is_refused_first_8() {
    let mut nothing = agent_config("nobody");
    nothing.rights = Rights {
        reserve: false,
        enable: false,
        disable: false,
        change_lifetime: false,
        status: false,
        list: false,
    };
    let mut net = Net::new(MiddleboxConfig {
        agents: vec![nothing],
        ..config()
    });
    let session = net.open("nobody");
    let unknown = PolicyRuleId(99);
    let requests = [
        Request::Reserve(ReserveRequest {
            parameters: PrrParameters {
                nat_mode: NatMode::Traditional,
                parity: Parity::Any,
                inside: None,
                outside: None,
                protocol: 17,
                ports: 0,
            },
            lifetime: Lifetime(0),
            group: None,
        }),
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

#[test]
fn everyone_entitled_is_told_but_the_session_that_asked_5_3_19() {
    let mut net = Net::new(house());
    let [alice, bob, watcher] = ["alice", "bob", "watcher"].map(|name| net.open(name));
    let other = net.open("alice");
    let rule = net.enable(alice, pinhole(5)).rule;
    net.ask(alice, &change(rule, 90));
    net.ask(alice, &change(rule, 0));
    let told = [
        (rule, Lifetime(60)),
        (rule, Lifetime(90)),
        (rule, Lifetime(0)),
    ];
    assert_eq!(net.rule_events(watcher), told);
    assert_eq!(
        net.rule_events(other),
        told,
        "another session of the same agent"
    );
    assert_eq!(net.rule_events(alice), []);
    assert_eq!(net.rule_events(bob), []);
    let rule = net.enable(alice, pinhole(5)).rule;
    net.wait(60);
    assert_eq!(
        net.rule_events(alice),
        [(rule, Lifetime(0))],
        "nobody asked for that"
    );
    assert_eq!(net.rule_events(watcher).len(), 2);
}

#[test]
fn events_of_a_rule_keep_their_order_on_one_stream() {
    let mut net = Net::new(house());
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
    assert_eq!(
        *streams.iter().max().unwrap(),
        3,
        "and all streams are used"
    );
    let mut transactions: Vec<u32> = received.iter().map(|(_, t, _)| t.0).collect();
    transactions.sort_unstable();
    transactions.dedup();
    assert_eq!(
        transactions.len(),
        16,
        "no transaction identifier twice: 4.2.5"
    );
}

#[test]
fn who_may_change_a_rule_may_see_it_and_is_told_of_it_5_3_1() {
    let mut config = house();
    config.agents[3].sees = Access::Own;
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

#[test]
fn all_kinds_of_events_go_to_whom_they_concern_with_the_life_granted_5_3_19() {
    let mut config = house();
    config.agents[1].rights = Rights::ALL;
    let mut net = Net::new(config);
    let [alice, bob, watcher] = ["alice", "bob", "watcher"].map(|name| net.open(name));
    let reserve = Request::Reserve(ReserveRequest {
        parameters: PrrParameters {
            nat_mode: NatMode::Traditional,
            parity: Parity::Any,
            inside: None,
            outside: None,
            protocol: 17,
            ports: 1,
        },
        lifetime: Lifetime(u32::MAX),
        group: None,
    });
    let Reply::Reserved(reserved) = net.ask(alice, &reserve) else {
        panic!("not reserved");
    };
    let rule = reserved.rule;
    let enable = Request::EnableReserved {
        enable: pinhole(5),
        rule,
    };
    net.ask(alice, &enable);
    let block = Request::Disable(DisableRequest {
        internal: pinhole(5).internal,
        external: pinhole(5).external,
        lifetime: Lifetime(30),
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
        "PRR, PEA, and PDR with what it ended"
    );
    assert_eq!(net.rule_events(alice), [end], "who asked has replies");
    net.middlebox.end_rule(net.now, blocking);
    assert_eq!(net.rule_events(bob), [(blocking, Lifetime(0))], "8.9");
}
