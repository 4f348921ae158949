//! Agent with unexpected replies: unsolicited, duplicate, mismatched, early or late.

use std::time::Duration;

use bytes::Bytes;
use carrick_simco::Time;
use carrick_simco::agent::{Agent, AgentEvent, AgentSettings, CloseReason, SubmitError};
use carrick_simco::message::{
    EnableReply, EnableStatus, GroupId, Lifetime, Location, NegativeReply, Notification,
    PolicyRuleId, Reply, Request, RequestKind, ReserveReply, RuleList, TransactionId,
};
use carrick_simco::session::{SessionSide, make_challenge, make_token};

use crate::network::{UDP, change, config, credentials, key, name, pinhole, reserve};

const RULE: PolicyRuleId = PolicyRuleId(7);

fn parse_request(message: &Bytes) -> (TransactionId, Request) {
    Request::parse(message).unwrap()
}

fn events(agent: &mut Agent) -> Vec<AgentEvent> {
    std::iter::from_fn(|| agent.poll_event()).collect()
}

/// Returns an agent with an open session and four stream pairs.
fn opened(settings: AgentSettings) -> Agent {
    let mut agent = Agent::new(settings, [2; 32]);
    agent.connected(Time::ZERO, 4);
    let (_, message) = agent.poll_transmit().unwrap();
    let reply = Reply::Established(config().capabilities);
    agent.handle_message(Time::ZERO, 0, &reply.to_bytes(parse_request(&message).0));
    assert!(agent.is_open());
    events(&mut agent);
    agent
}

fn submit(agent: &mut Agent, request: &Request) -> TransactionId {
    let transaction = agent.submit(Time::ZERO, request).unwrap();
    assert!(agent.poll_transmit().is_some());
    transaction
}

fn deliver(agent: &mut Agent, transaction: TransactionId, reply: &Reply) {
    agent.handle_message(Time::ZERO, 1, &reply.to_bytes(transaction));
}

fn enabled(rule: PolicyRuleId) -> Reply {
    Reply::Enabled(EnableReply {
        rule,
        group: GroupId(1),
        lifetime: Lifetime(60),
        outside: pinhole(5).internal.at(Location::Outside),
        inside: None,
    })
}

fn reserved(rule: PolicyRuleId) -> Reply {
    Reply::Reserved(ReserveReply {
        rule,
        group: GroupId(1),
        lifetime: Lifetime(60),
        outside: pinhole(5).internal.at(Location::Outside),
        inside: None,
    })
}

fn status(rule: PolicyRuleId) -> Reply {
    let Reply::Enabled(enabled) = enabled(rule) else {
        panic!("no PER reply");
    };
    Reply::EnableStatus(Box::new(EnableStatus {
        enabled,
        parameters: pinhole(5).parameters,
        internal: pinhole(5).internal,
        external: pinhole(5).external,
        owner: name("alice").owner(),
    }))
}

/// RFC 4540, section 4.2.5
#[test]
fn unsolicited_reply_is_counted_and_ignored() {
    let mut agent = opened(AgentSettings::default());
    for rule in 0..1000 {
        deliver(
            &mut agent,
            TransactionId(5000 + rule),
            &enabled(PolicyRuleId(rule)),
        );
    }
    assert_eq!(events(&mut agent), []);
    assert_eq!(
        (agent.streams().bound(), agent.unsolicited_replies()),
        (0, 1000)
    );
    assert!(agent.is_open(), "the session stays open");
}

/// RFC 4540, section 4.2.5
#[test]
fn duplicate_reply_is_reported_once() {
    let mut agent = opened(AgentSettings::default());
    let transaction = submit(&mut agent, &Request::Enable(pinhole(5)));
    for _ in 0..2 {
        deliver(&mut agent, transaction, &enabled(RULE));
    }
    let reported = events(&mut agent);
    assert!(
        matches!(reported[..], [AgentEvent::Reply { .. }]),
        "reported once: {reported:?}"
    );
    assert_eq!(agent.unsolicited_replies(), 1);
    // A duplicate of a late reply.
    let transaction = submit(&mut agent, &Request::Enable(pinhole(6)));
    agent.handle_timeout(Time::from_millis(60_000));
    events(&mut agent);
    for _ in 0..2 {
        deliver(&mut agent, transaction, &enabled(PolicyRuleId(8)));
    }
    let reported = events(&mut agent);
    assert!(
        matches!(reported[..], [AgentEvent::LateReply { .. }]),
        "reported once: {reported:?}"
    );
    assert_eq!(
        (agent.unsolicited_replies(), agent.streams().bound()),
        (2, 2)
    );
}

/// RFC 4540, section 4.2.2
#[test]
fn mismatched_reply_ends_the_session() {
    let reserve = Request::Reserve(reserve(UDP, 1, 60));
    let after = Request::EnableReserved {
        enable: pinhole(5),
        rule: RULE,
    };
    let lengthened = Reply::LifetimeChanged(Lifetime(60));
    let list = Reply::List(RuleList::default());
    let another = PolicyRuleId(8);
    let mismatched = [
        (reserve.clone(), enabled(RULE)),
        (Request::Enable(pinhole(5)), reserved(RULE)),
        (Request::Enable(pinhole(5)), Reply::Deleted),
        (after.clone(), reserved(RULE)),
        (after.clone(), enabled(another)),
        (change(RULE, 60), status(RULE)),
        // A PLC with zero gets no lifetime.
        (change(RULE, 0), lengthened.clone()),
        (Request::Status(RULE), list.clone()),
        (Request::Status(RULE), status(another)),
        (Request::List, Reply::Terminated),
        (Request::List, Reply::Established(config().capabilities)),
    ];
    for (request, reply) in mismatched {
        let mut agent = opened(AgentSettings::default());
        let transaction = submit(&mut agent, &request);
        deliver(&mut agent, transaction, &reply);
        let reported = events(&mut agent);
        let lost = matches!(reported.first(), Some(AgentEvent::Lost { transaction: t, .. }) if *t == transaction);
        assert!(lost, "{request:?} and {reply:?}: {reported:?}");
        assert_eq!(
            reported.last(),
            Some(&AgentEvent::Closed(CloseReason::ProtocolViolation))
        );
    }
    let matching = [
        (reserve, reserved(RULE)),
        (Request::Enable(pinhole(5)), enabled(RULE)),
        (after, enabled(RULE)),
        (change(RULE, 60), lengthened),
        // A middlebox may grant a lifetime of zero (RFC 4540, section 8.5).
        (change(RULE, 60), Reply::Deleted),
        (change(RULE, 0), Reply::Deleted),
        (Request::Status(RULE), status(RULE)),
        (Request::List, list),
        (
            Request::List,
            Reply::Negative(NegativeReply::AgentNotAuthorized),
        ),
    ];
    for (request, reply) in matching {
        let mut agent = opened(AgentSettings::default());
        let transaction = submit(&mut agent, &request);
        deliver(&mut agent, transaction, &reply);
        let reported = events(&mut agent);
        assert!(
            matches!(reported[..], [AgentEvent::Reply { .. }]),
            "{reported:?}"
        );
    }
}

#[test]
fn reply_on_unpaired_stream_binds_to_a_paired_one() {
    let mut agent = opened(AgentSettings::default());
    let transaction = submit(&mut agent, &Request::Enable(pinhole(5)));
    agent.handle_message(Time::ZERO, 60_000, &enabled(RULE).to_bytes(transaction));
    agent.submit(Time::ZERO, &change(RULE, 60)).unwrap();
    let (stream, _) = agent.poll_transmit().unwrap();
    assert!(stream < 4, "{stream}");
}

/// RFC 4540, section 5.3.19
#[test]
fn end_overtaking_the_reply_is_repeated_after_it() {
    let mut agent = opened(AgentSettings::default());
    let first = submit(&mut agent, &Request::Enable(pinhole(5)));
    let second = submit(&mut agent, &Request::Enable(pinhole(6)));
    let ended = |rule| Notification::RuleEvent {
        rule,
        lifetime: Lifetime(0),
    };
    let are = ended(RULE).to_bytes(TransactionId(1));
    agent.handle_message(Time::ZERO, 3, &are);
    let end = AgentEvent::Rule {
        rule: RULE,
        lifetime: Lifetime(0),
    };
    assert_eq!(events(&mut agent), std::slice::from_ref(&end));
    deliver(&mut agent, first, &enabled(RULE));
    let reported = events(&mut agent);
    assert!(
        matches!(reported[0], AgentEvent::Reply { .. }),
        "{reported:?}"
    );
    assert_eq!(
        reported[1..],
        [end],
        "after the reply, so that no rule remains"
    );
    assert_eq!(agent.streams().bound(), 0, "no rule stays bound");
    deliver(&mut agent, second, &enabled(PolicyRuleId(8)));
    assert_eq!(events(&mut agent).len(), 1, "the other rule remains");
    assert_eq!(agent.streams().bound(), 1);
}

#[test]
fn remembered_ends_of_unknown_rules_are_bounded() {
    let mut agent = opened(AgentSettings {
        max_pending: 10,
        ..AgentSettings::default()
    });
    submit(&mut agent, &Request::Enable(pinhole(5)));
    for rule in 0..100_000 {
        let are = Notification::RuleEvent {
            rule: PolicyRuleId(rule),
            lifetime: Lifetime(0),
        };
        agent.handle_message(Time::ZERO, 0, &are.to_bytes(TransactionId(rule)));
        assert!(agent.poll_event().is_some());
    }
    assert!(agent.remembered_ends() <= 10, "{}", agent.remembered_ends());
}

#[test]
fn cancelled_request_is_never_sent() {
    let mut agent = opened(AgentSettings::default());
    let first = agent.submit(Time::ZERO, &Request::Enable(pinhole(5)));
    let timeout = agent.poll_timeout().unwrap();
    let later = Time::from_millis(29_000);
    let second = agent.submit(later, &Request::Enable(pinhole(6))).unwrap();
    agent.handle_timeout(timeout);
    let reported = events(&mut agent);
    assert!(
        matches!(reported[..], [AgentEvent::TimedOut { transaction, .. }] if Ok(transaction) == first)
    );
    let (_, message) = agent.poll_transmit().unwrap();
    assert_eq!(parse_request(&message).0, second);
    assert_eq!(agent.poll_transmit(), None);
}

#[test]
fn unsent_requests_are_bounded() {
    let mut agent = opened(AgentSettings {
        max_pending: 50,
        ..AgentSettings::default()
    });
    let mut now = Time::ZERO;
    for _ in 0..10 {
        while agent.submit(now, &Request::List).is_ok() {}
        assert_eq!(agent.submit(now, &Request::List), Err(SubmitError::TooMany));
        now += Duration::from_secs(31);
        agent.handle_timeout(now);
        assert_eq!(events(&mut agent).len(), 50);
        assert!(agent.queued() <= 100, "{} wait", agent.queued());
    }
    assert_eq!(agent.poll_transmit(), None);
}

#[test]
fn new_connection_ends_the_earlier_session() {
    let mut agent = opened(AgentSettings::default());
    let lost = submit(&mut agent, &Request::List);
    agent.connected(Time::ZERO, 2);
    let reported = events(&mut agent);
    assert!(
        matches!(reported[..], [
            AgentEvent::Lost { transaction, request: RequestKind::List, .. },
            AgentEvent::Closed(CloseReason::Disconnected),
        ] if transaction == lost),
        "{reported:?}"
    );
    let (_, message) = agent.poll_transmit().unwrap();
    let (transaction, request) = parse_request(&message);
    assert!(matches!(request, Request::Establish { .. }) && transaction != lost);
    // Replies of the first session have no meaning in the second.
    deliver(&mut agent, lost, &Reply::List(RuleList::default()));
    assert_eq!(events(&mut agent), []);
}

/// RFC 4540, section 7.4
#[test]
fn session_can_be_ended_before_it_is_open() {
    let mut agent = Agent::new(AgentSettings::default(), [2; 32]);
    agent.connected(Time::ZERO, 4);
    agent.terminate(Time::ZERO);
    assert_eq!(
        events(&mut agent),
        [AgentEvent::Closed(CloseReason::Requested)],
        "the middlebox has no session to end"
    );

    // SA was sent: its reply crosses ST.
    let settings = AgentSettings {
        credentials: Some(credentials("alice")),
        verify_middlebox: false,
        ..AgentSettings::default()
    };
    let mut agent = Agent::new(settings, [2; 32]);
    agent.connected(Time::ZERO, 4);
    let (_, message) = agent.poll_transmit().unwrap();
    let demand = Reply::Authenticate {
        challenge: Some(make_challenge(&name("firewall"), [1; 32])),
        token: None,
    };
    deliver(&mut agent, parse_request(&message).0, &demand);
    let (_, authenticate) = agent.poll_transmit().unwrap();
    agent.terminate(Time::ZERO);
    let (_, terminate) = agent.poll_transmit().unwrap();
    let established = Reply::Established(config().capabilities);
    deliver(&mut agent, parse_request(&authenticate).0, &established);
    assert_eq!(events(&mut agent), [], "the session is not opened");
    deliver(&mut agent, parse_request(&terminate).0, &Reply::Terminated);
    assert_eq!(
        events(&mut agent),
        [AgentEvent::Closed(CloseReason::Requested)]
    );
}

/// RFC 4540, section 7.2
#[test]
fn challenge_of_another_middlebox_is_not_answered() {
    for (challenger, opens) in [("firewall", true), ("another", false)] {
        // With one key for two middleboxes, one of them could relay the challenge of the other.
        for expected in [Some(name("firewall")), None] {
            let mut own = credentials("alice");
            own.middlebox = expected;
            let settings = AgentSettings {
                credentials: Some(own),
                ..AgentSettings::default()
            };
            let mut agent = Agent::new(settings, [2; 32]);
            agent.connected(Time::ZERO, 4);
            let (_, message) = agent.poll_transmit().unwrap();
            let (transaction, request) = parse_request(&message);
            let Request::Establish {
                challenge: Some(challenge),
                ..
            } = request
            else {
                panic!("no challenge");
            };
            let (alice, firewall) = (name("alice"), name("firewall"));
            let token = make_token(
                &key("alice"),
                SessionSide::Middlebox,
                &challenge,
                &alice,
                &firewall,
            );
            let reply = Reply::Authenticate {
                challenge: Some(make_challenge(&name(challenger), [1; 32])),
                token: Some(token),
            };
            deliver(&mut agent, transaction, &reply);
            assert_eq!(agent.poll_transmit().is_some(), opens, "{challenger}");
            let closed = AgentEvent::Closed(CloseReason::MiddleboxNotAuthenticated);
            assert_eq!(events(&mut agent).contains(&closed), !opens);
        }
    }
}
