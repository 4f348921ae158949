//! Sessions: establishment, authentication, refusals, ends, and the checks of messages.

use carrick_simco::agent::{AgentEvent, AgentSettings, CloseReason, SubmitError};
use carrick_simco::message::{
    FromMiddlebox, NegativeReply, Notification, PolicyRuleId, ProtocolVersion, Reply, Request,
    Token, TransactionId, VERSION,
};
use carrick_simco::middlebox::{Connection, MiddleboxConfig, MiddleboxEvent, SessionId};
use carrick_simco::session::make_challenge;

use crate::network::{Net, change, config, credentials, key, name, pinhole};

const TID: TransactionId = TransactionId(9);

const ESTABLISH: Request = Request::Establish {
    version: VERSION,
    challenge: None,
};

fn negative(reply: NegativeReply) -> FromMiddlebox {
    FromMiddlebox::Reply(Reply::Negative(reply))
}

fn with_key(of: &str) -> AgentSettings {
    AgentSettings {
        credentials: Some(credentials(of)),
        ..AgentSettings::default()
    }
}

fn closed(events: &[AgentEvent]) -> CloseReason {
    match events {
        [.., AgentEvent::Closed(reason)] => reason.clone(),
        other => panic!("not closed: {other:?}"),
    }
}

/// RFC 4540, sections 7.2 and 7.3
#[test]
fn agent_and_middlebox_authenticate_mutually() {
    let mut net = Net::new(config());
    let (agent, _, events) = net.agent(with_key("alice"));
    assert!(agent.is_open());
    assert_eq!(events, [AgentEvent::Opened(config().capabilities)]);
    let opened = std::iter::from_fn(|| net.middlebox.poll_event()).any(
        |e| matches!(e, MiddleboxEvent::SessionOpened { agent, .. } if agent == name("alice")),
    );
    assert!(opened);
    assert_eq!(net.middlebox.session_counts(), (1, 0));
}

/// RFC 4540, section 7.2
#[test]
fn session_opens_without_authentication() {
    let anonymous = MiddleboxConfig {
        anonymous: Some(name("alice")),
        ..config()
    };
    let mut net = Net::new(anonymous);
    let (agent, _, events) = net.agent(AgentSettings::default());
    assert!(agent.is_open(), "{events:?}");
}

/// RFC 4540, section 7.2
#[test]
fn transport_authentication_needs_no_token() {
    let mut net = Net::new(config());
    let connection = Connection {
        peer: Some(name("bob")),
        ..Connection::plain(4)
    };
    let session = net.middlebox.connected(net.now, &connection);
    assert_eq!(
        net.ask(session, &ESTABLISH),
        Reply::Established(config().capabilities)
    );
}

/// RFC 4540, section 7.3
#[test]
fn wrong_key_is_refused() {
    let mut net = Net::new(config());
    let mut settings = with_key("alice");
    settings.verify_middlebox = false;
    settings.credentials.as_mut().unwrap().key = key("mallory");
    let (_, _, events) = net.agent(settings);
    let reason = CloseReason::Refused(NegativeReply::AuthenticationFailed);
    assert_eq!(closed(&events), reason);
    assert_eq!(net.middlebox.session_counts(), (0, 0));
    let failed = MiddleboxEvent::AuthenticationFailed {
        session: SessionId(0),
        claimed: Some(name("alice")),
    };
    assert_eq!(net.middlebox.poll_event(), Some(failed));
}

#[test]
fn agent_rejects_other_middleboxes() {
    let other_key = MiddleboxConfig {
        agents: vec![carrick_simco::middlebox::AgentConfig::new(
            name("alice"),
            Some(key("other")),
        )],
        ..config()
    };
    let none_demanded = MiddleboxConfig {
        anonymous: Some(name("alice")),
        agents: vec![carrick_simco::middlebox::AgentConfig::new(
            name("alice"),
            None,
        )],
        ..config()
    };
    for config in [other_key, none_demanded] {
        let (_, _, events) = Net::new(config).agent(with_key("alice"));
        assert_eq!(closed(&events), CloseReason::MiddleboxNotAuthenticated);
    }
    // The middlebox has the key, so its name is authenticated.
    let other_name = MiddleboxConfig {
        identity: name("another"),
        ..config()
    };
    for verify_middlebox in [true, false] {
        let settings = AgentSettings {
            verify_middlebox,
            ..with_key("alice")
        };
        let (_, _, events) = Net::new(other_name.clone()).agent(settings);
        let reason = closed(&events);
        assert_eq!(reason, CloseReason::OtherMiddlebox(name("another")));
        let text = reason.to_string();
        assert!(
            text.contains("\"another\" instead of the expected one"),
            "{text}"
        );
    }
}

/// RFC 4540, section 7.2
#[test]
fn unknown_agent_opens_no_session() {
    let mut net = Net::new(config());
    let (_, _, events) = net.agent(with_key("mallory"));
    assert_eq!(closed(&events), CloseReason::MiddleboxNotAuthenticated);
    let unauthenticated = AgentSettings {
        verify_middlebox: false,
        ..with_key("mallory")
    };
    let (_, _, events) = net.agent(unauthenticated);
    let reason = CloseReason::Refused(NegativeReply::AuthenticationFailed);
    assert_eq!(closed(&events), reason);
}

#[test]
fn token_is_valid_in_one_session_only() {
    let mut net = Net::new(config());
    let settings = AgentSettings {
        verify_middlebox: false,
        ..with_key("alice")
    };
    let mut agent = carrick_simco::agent::Agent::new(settings, [3; 32]);
    let first = net.connect();
    agent.connected(net.now, 1);
    let (_, establish) = agent.poll_transmit().unwrap();
    net.raw(first, 0, &establish);
    let Some(carrick_simco::middlebox::SessionOutput::Send { message, .. }) =
        net.middlebox.poll_output(first)
    else {
        panic!("no answer");
    };
    agent.handle_message(net.now, 0, &message);
    let (_, authenticate) = agent.poll_transmit().unwrap();
    let second = net.connect();
    net.raw(second, 0, &establish);
    net.received(second);
    net.raw(second, 0, &authenticate);
    let refused = (negative(NegativeReply::AuthenticationFailed), true);
    assert_eq!(net.answer(second), refused, "a replay");
    net.raw(first, 0, &authenticate);
    let opened = FromMiddlebox::Reply(Reply::Established(config().capabilities));
    assert_eq!(net.answer(first), (opened, false));
}

/// RFC 4540, section 7.2
#[test]
fn version_mismatch_closes_the_session() {
    let mut net = Net::new(config());
    let session = net.connect();
    let establish = Request::Establish {
        version: ProtocolVersion { major: 2, minor: 0 },
        challenge: None,
    };
    net.raw(session, 0, &establish.to_bytes(TID));
    let mismatch = negative(NegativeReply::VersionMismatch(VERSION));
    assert_eq!(net.answer(session), (mismatch, true));
}

/// RFC 4540, section 7.2
#[test]
fn unencrypted_transport_is_refused_if_required() {
    let strict = MiddleboxConfig {
        require_security: true,
        anonymous: Some(name("alice")),
        ..config()
    };
    let mut net = Net::new(strict);
    let session = net.connect();
    net.raw(session, 0, &ESTABLISH.to_bytes(TID));
    assert_eq!(
        net.answer(session),
        (negative(NegativeReply::InsufficientSecurity), true)
    );
    let secure = Connection {
        secure: true,
        ..Connection::plain(4)
    };
    let session = net.middlebox.connected(net.now, &secure);
    assert!(matches!(
        net.ask(session, &ESTABLISH),
        Reply::Established(_)
    ));
}

/// RFC 4540, section 7.1
#[test]
fn requests_in_the_wrong_state_are_refused() {
    let mut net = Net::new(config());
    let not_applicable = NegativeReply::NotApplicable;
    let session = net.connect();
    for request in [Request::Authenticate(None), Request::Terminate] {
        assert_eq!(net.refusal(session, &request), not_applicable, "in CLOSED");
    }
    net.raw(session, 0, &ESTABLISH.to_bytes(TID));
    net.received(session);
    assert_eq!(
        net.refusal(session, &ESTABLISH),
        not_applicable,
        "in NOAUTH"
    );
    assert_eq!(
        net.ask(session, &Request::Terminate),
        Reply::Terminated,
        "in NOAUTH"
    );

    let session = net.open("alice");
    for request in [ESTABLISH, Request::Authenticate(Some(Token::default()))] {
        assert_eq!(net.refusal(session, &request), not_applicable, "in OPEN");
    }
    assert!(
        matches!(net.ask(session, &Request::List), Reply::List(_)),
        "the state is unchanged"
    );
}

/// RFC 4540, section 6
#[test]
fn only_session_control_precedes_the_session() {
    for to_noauth in [false, true] {
        let mut net = Net::new(config());
        let session = net.connect();
        if to_noauth {
            net.raw(session, 0, &ESTABLISH.to_bytes(TID));
            net.received(session);
        }
        net.raw(session, 0, &Request::Enable(pinhole(5)).to_bytes(TID));
        assert_eq!(
            net.answer(session),
            (negative(NegativeReply::WrongSubType), true)
        );
        net.raw(session, 0, &ESTABLISH.to_bytes(TID));
        assert_eq!(
            net.received(session).0,
            [],
            "no further message is answered"
        );
    }
}

/// RFC 4540, section 6
#[test]
fn malformed_messages_are_answered_in_order() {
    let header = |basic, sub_type, length: u8| [basic, sub_type, 0, length, 0, 0, 0, 9];
    let cases: [(&[u8], FromMiddlebox); 4] = [
        (&header(2, 1, 0), negative(NegativeReply::WrongBasicType)),
        (&header(1, 0x99, 0), negative(NegativeReply::WrongSubType)),
        (&header(1, 0x01, 0), negative(NegativeReply::BadlyFormed)),
        (
            &header(1, 0x01, 1),
            FromMiddlebox::Notification(Notification::BadlyFormedMessage),
        ),
    ];
    for (message, expected) in cases {
        let mut net = Net::new(config());
        let session = net.connect();
        net.raw(session, 0, message);
        assert_eq!(net.answer(session), (expected, true), "without a session");
    }
    // 0x16, 0x23 and 0x24 are replies only.
    for sub_type in [0x16, 0x23, 0x24, 0x99] {
        let mut net = Net::new(config());
        let session = net.open("alice");
        net.raw(session, 0, &header(1, sub_type, 0));
        let expected = (negative(NegativeReply::WrongSubType), false);
        assert_eq!(net.answer(session), expected, "an open session continues");
        net.raw(session, 0, &header(1, 0x21, 0));
        assert_eq!(
            net.answer(session),
            (negative(NegativeReply::BadlyFormed), false)
        );
        net.raw(session, 0, &header(4, 3, 0));
        assert_eq!(
            net.answer(session),
            (negative(NegativeReply::WrongBasicType), false)
        );
    }
}

/// RFC 4540, section 6
#[test]
fn malformed_message_ends_the_session_only() {
    for broken in [&[1, 0x22, 0, 4, 0, 0, 0, 1][..], b"GET / HTTP/1.1\r\n", b""] {
        let mut net = Net::new(config());
        let session = net.open("alice");
        net.enable(session, pinhole(5));
        net.raw(session, 0, broken);
        let (received, closed) = net.received(session);
        let reported: Vec<FromMiddlebox> = received.into_iter().map(|(_, _, what)| what).collect();
        let expected = [
            Notification::BadlyFormedMessage,
            Notification::SessionTerminated,
        ];
        assert_eq!(reported, expected.map(FromMiddlebox::Notification));
        assert!(closed);
        assert_eq!((net.middlebox.rules().len(), net.elements()), (1, 1));
    }
}

/// RFC 4540, section 7.4
#[test]
fn rules_survive_the_session() {
    let mut net = Net::new(config());
    let (mut agent, session, _) = net.agent(with_key("alice"));
    agent.submit(net.now, &Request::Enable(pinhole(5))).unwrap();
    net.carry(&mut agent, session);
    agent.terminate(net.now);
    let events = net.carry(&mut agent, session);
    assert_eq!(closed(&events), CloseReason::Requested);
    let submit = agent.submit(net.now, &Request::List);
    assert_eq!(submit, Err(SubmitError::NotOpen));
    let session = net.open("alice");
    let Reply::List(list) = net.ask(session, &Request::List) else {
        panic!("no list");
    };
    assert_eq!(list.rules(), [PolicyRuleId(1)]);
    assert_eq!(net.elements(), 1);
}

/// RFC 4540, section 7.5
#[test]
fn middlebox_ends_a_session_with_ast() {
    let mut net = Net::new(config());
    let (mut agent, session, _) = net.agent(with_key("alice"));
    let pending = agent.submit(net.now, &Request::List).unwrap();
    net.middlebox.terminate(session);
    let events = net.carry(&mut agent, session);
    assert_eq!(closed(&events), CloseReason::Terminated);
    let reported = |e: &AgentEvent| matches!(e, AgentEvent::Lost { transaction, .. } if *transaction == pending);
    assert!(events.iter().any(reported), "{events:?}");
}

#[test]
fn timeout_and_late_reply_are_reported_once() {
    let mut net = Net::new(config());
    let (mut agent, session, _) = net.agent(with_key("alice"));
    let request = Request::Enable(pinhole(5));
    let transaction = agent.submit(net.now, &request).unwrap();
    let (stream, message) = agent.poll_transmit().unwrap();
    let timeout = agent.poll_timeout().unwrap();
    agent.handle_timeout(timeout);
    let timed_out = agent.poll_event();
    assert!(
        matches!(timed_out, Some(AgentEvent::TimedOut { transaction: t, .. }) if t == transaction)
    );
    assert_eq!((agent.poll_timeout(), agent.pending()), (None, 0));
    net.raw(session, stream, &message);
    let events = net.carry(&mut agent, session);
    assert!(
        matches!(&events[..], [AgentEvent::LateReply { transaction: t, .. }] if *t == transaction)
    );
    // The rule is bound nevertheless, so that it can be ended on its stream.
    agent.submit(net.now, &change(PolicyRuleId(1), 0)).unwrap();
    assert_eq!(agent.poll_transmit().map(|(s, _)| s), Some(stream));
}

#[test]
fn transactions_of_a_rule_use_one_stream() {
    let mut net = Net::new(config());
    let (mut agent, session, _) = net.agent(with_key("alice"));
    let mut streams = Vec::new();
    for port in 0..6 {
        agent
            .submit(net.now, &Request::Enable(pinhole(100 + port)))
            .unwrap();
        let (stream, message) = agent.poll_transmit().unwrap();
        net.raw(session, stream, &message);
        net.carry(&mut agent, session);
        streams.push(stream);
    }
    assert_eq!(streams, [0, 1, 2, 3, 0, 1], "in turn");
    for (rule, stream) in (1..).map(PolicyRuleId).zip(streams) {
        for request in [Request::Status(rule), change(rule, 90), change(rule, 0)] {
            agent.submit(net.now, &request).unwrap();
            let (used, message) = agent.poll_transmit().unwrap();
            assert_eq!(used, stream, "{request:?}");
            net.raw(session, used, &message);
            net.carry(&mut agent, session);
        }
    }
    assert_eq!(agent.streams().bound(), 0, "ended rules are not bound");
}

/// RFC 4540, section 7.2
#[test]
fn unknown_agent_gets_an_empty_token() {
    let mut net = Net::new(config());
    for (agent, known) in [("alice", true), ("mallory", false)] {
        let session = net.connect();
        let establish = Request::Establish {
            version: VERSION,
            challenge: Some(make_challenge(&name(agent), [5; 32])),
        };
        let Reply::Authenticate { challenge, token } = net.ask(session, &establish) else {
            panic!("not an SA reply");
        };
        let token = token.expect("the agent requested authentication");
        assert_eq!(!token.as_bytes().is_empty(), known, "{agent}");
        assert!(challenge.is_some(), "the agent must authenticate itself");
    }
}

/// RFC 4540, section 7.2
#[test]
fn unknown_transport_identity_is_refused() {
    let mut net = Net::new(MiddleboxConfig {
        anonymous: Some(name("alice")),
        ..config()
    });
    let connection = Connection {
        peer: Some(name("mallory")),
        ..Connection::plain(1)
    };
    let session = net.middlebox.connected(net.now, &connection);
    net.raw(session, 0, &ESTABLISH.to_bytes(TID));
    assert_eq!(
        net.answer(session),
        (negative(NegativeReply::NoAuthorization), true)
    );
}

/// RFC 4540, section 7.5
#[test]
fn session_in_noauth_ends_with_ast() {
    let ast = FromMiddlebox::Notification(Notification::SessionTerminated);
    let mut net = Net::new(config());
    let session = net.connect();
    net.raw(session, 0, &ESTABLISH.to_bytes(TID));
    net.received(session);
    net.wait(10);
    assert_eq!(net.answer(session), (ast.clone(), true), "too slow");

    let session = net.connect();
    net.raw(session, 0, &ESTABLISH.to_bytes(TID));
    net.received(session);
    for _ in 0..1000 {
        net.connect();
    }
    assert_eq!(net.answer(session), (ast, true), "crowded out");
}

/// RFC 4540, sections 7.4 and 7.5
#[test]
fn nothing_follows_the_end_of_a_session() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    net.raw(session, 0, &Request::Terminate.to_bytes(TID));
    net.raw(session, 0, &Request::List.to_bytes(TID));
    net.raw(session, 0, b"garbage");
    net.middlebox.stream_failed(session);
    net.middlebox.terminate(session);
    let terminated = FromMiddlebox::Reply(Reply::Terminated);
    assert_eq!(net.answer(session), (terminated, true));
}

#[test]
fn replies_use_paired_streams() {
    let mut net = Net::new(config());
    let session = net.open("alice");
    for stream in [0, 3, 4, 60_000] {
        net.raw(session, stream, &Request::List.to_bytes(TID));
        let (received, _) = net.received(session);
        let [(used, TID, FromMiddlebox::Reply(_))] = received[..] else {
            panic!("{received:?}");
        };
        assert!(used < 4, "{used} of 4");
        assert!(stream >= 4 || used == stream, "the stream of the request");
    }
}
