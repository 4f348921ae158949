//! Traffic, destinations, registration and configuration.

use super::*;

/// RFC 4666, section 4.1.1
/// RFC 4666, section 1.4.7
#[test]
fn messages_of_an_sls_use_one_stream() {
    let mut bench = Bench::active();
    for sls in 0..16 {
        let protocol_data = data(sls, &[sls]).protocol_data;
        bench
            .asp
            .transfer(Some(rc(1)), protocol_data.clone())
            .expect("an active ASP");
        let transmit = bench.asp.poll_transmit().expect("a DATA");
        assert_eq!(transmit.stream, 1 + u16::from(sls) % 4);
        assert_eq!(transmit.message, Message::Data(data(sls, &[sls])));
    }
    bench.receive(&Message::Data(data(3, &[1, 2])));
    assert_eq!(
        bench.indications(),
        [AspIndication::Transfer(data(3, &[1, 2]))]
    );
}

/// RFC 4666, section 4.3.1
#[test]
fn traffic_needs_asp_active() {
    let mut bench = Bench::inactive();
    let protocol_data = data(0, &[]).protocol_data;
    let mut transfer = |context| bench.asp.transfer(context, protocol_data.clone());
    assert_eq!(transfer(Some(rc(1))), Err(AspRequestError::NotActive));
    let unknown = AspRequestError::UnknownApplicationServer(Some(rc(9)));
    assert_eq!(transfer(Some(rc(9))), Err(unknown));
    let mut bench = Bench::connected();
    assert_eq!(
        bench.asp.asp_active(bench.now, &[]),
        Err(AspRequestError::NotUp)
    );
}

/// RFC 4666, section 1.4.7: DATA is not sent on stream 0
#[test]
fn data_needs_a_second_stream() {
    let mut bench = Bench::connected();
    let one = SctpNotification::Up {
        outbound_streams: 1,
    };
    bench.asp.handle_sctp(bench.now, one);
    bench.asp.asp_up(bench.now).expect("an association");
    bench.receive(&up_ack());
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    bench.receive(&active_ack(&[1, 2]));
    let error = bench.asp.transfer(Some(rc(1)), data(0, &[]).protocol_data);
    assert_eq!(error, Err(AspRequestError::NoDataStream));
}

/// RFC 4666, section 3.8.1: Unexpected Message; DATA is discarded silently
#[test]
fn data_in_asp_inactive_is_discarded() {
    for mut bench in [Bench::connected(), Bench::inactive()] {
        bench.receive(&Message::Data(data(1, &[])));
        assert_eq!((bench.sent(), bench.indications()), (vec![], vec![]));
    }
}

/// RFC 4666, section 3.8.1
#[test]
fn wrong_data_is_answered() {
    let mut bench = Bench::active();
    bench.receive_on(0, &Message::Data(data(1, &[])));
    bench.sent_error(ErrorCode::INVALID_STREAM_IDENTIFIER);
    let mut wrong = data(1, &[]);
    wrong.routing_context = Some(rc(9));
    bench.receive(&Message::Data(wrong.clone()));
    let error = bench.sent_error(ErrorCode::INVALID_ROUTING_CONTEXT);
    assert_eq!(error.routing_contexts, contexts(&[9]));
    wrong.routing_context = None;
    bench.receive(&Message::Data(wrong));
    bench.sent_error(ErrorCode::MISSING_PARAMETER);
}

/// RFC 4666, section 3.8.1: Unexpected Message
#[test]
fn messages_for_an_sgp_are_answered() {
    let messages = [
        up(),
        down(),
        Message::AspActive(active_body(&[1])),
        Message::AspInactive(inactive_body(&[1])),
        Message::DestinationStateAudit(DestinationState {
            network_appearance: None,
            routing_contexts: contexts(&[1]),
            affected: affected(),
            info: None,
        }),
        Message::DeregistrationRequest(DeregistrationRequest {
            routing_contexts: contexts(&[1]).expect("one context"),
        }),
    ];
    for message in messages {
        let mut bench = Bench::active();
        bench.receive(&message);
        let error = bench.sent_error(ErrorCode::UNEXPECTED_MESSAGE);
        assert_eq!(error.routing_contexts, message.routing_contexts());
        assert_eq!(bench.states(), [AspState::Active; 2]);
    }
}

/// RFC 4666, section 4.5.2.1
#[test]
fn destination_states_are_indicated() {
    let mut bench = Bench::active();
    let state = DestinationState {
        network_appearance: None,
        routing_contexts: contexts(&[1]),
        affected: affected(),
        info: None,
    };
    bench.receive(&Message::DestinationUnavailable(state.clone()));
    bench.receive(&Message::DestinationRestricted(state.clone()));
    bench.receive(&Message::DestinationAvailable(state.clone()));
    let expected = [
        AspIndication::MtpPause(state.clone()),
        AspIndication::Restricted(state.clone()),
        AspIndication::MtpResume(state.clone()),
    ];
    assert_eq!(bench.indications(), expected);
    bench.receive(&Message::DestinationAvailable(DestinationState {
        routing_contexts: contexts(&[1, 9]),
        ..state
    }));
    let error = bench.sent_error(ErrorCode::INVALID_ROUTING_CONTEXT);
    assert_eq!(error.routing_contexts, contexts(&[9]));
}

/// RFC 4666, section 4.5.3
#[test]
fn audit_is_sent_unordered() {
    let mut bench = Bench::active();
    bench
        .asp
        .audit(Some(rc(2)), affected())
        .expect("an active ASP");
    let transmit = bench.asp.poll_transmit().expect("a DAUD");
    assert!(transmit.unordered);
    let Message::DestinationStateAudit(audit) = transmit.message else {
        panic!("no DAUD");
    };
    assert_eq!(
        (audit.affected, audit.routing_contexts),
        (affected(), contexts(&[2]))
    );
}

fn key(id: u32) -> RoutingKey {
    RoutingKey {
        local_id: LocalRoutingKeyIdentifier(id),
        routing_context: None,
        traffic_mode: None,
        network_appearance: None,
        destinations: vec![RoutingKeyDestination::all(crate::samples::code(id))],
    }
}

fn registration(id: u32, status: RegistrationStatus, context: u32) -> RegistrationResult {
    RegistrationResult {
        local_id: LocalRoutingKeyIdentifier(id),
        status,
        routing_context: rc(context),
    }
}

/// RFC 4666, section 4.4.1
/// RFC 4666, section 4.4.2
#[test]
fn registered_keys_are_served_until_deregistration() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .register(bench.now, vec![key(10), key(11)])
        .expect("an ASP that is up");
    assert!(matches!(
        bench.sent()[..],
        [Message::RegistrationRequest(_)]
    ));
    let in_use = bench.asp.register(bench.now, vec![key(10)]);
    assert_eq!(in_use, Err(AspRequestError::IdentifierInUse(10)));
    bench.receive(&Message::RegistrationResponse(RegistrationResponse {
        results: vec![
            registration(11, RegistrationStatus::PERMISSION_DENIED, 0),
            registration(10, RegistrationStatus::SUCCESS, 50),
        ],
    }));
    let denied = Err(Some(RegistrationStatus::PERMISSION_DENIED));
    let indications = bench.indications();
    let expected = [
        AspIndication::Registered(LocalRoutingKeyIdentifier(11), denied),
        AspIndication::Registered(LocalRoutingKeyIdentifier(10), Ok(rc(50))),
    ];
    assert!(
        expected
            .iter()
            .all(|indication| indications.contains(indication))
    );
    assert_eq!(bench.asp.state(Some(rc(50))), Some(AspState::Inactive));
    assert_eq!(bench.asp.poll_timeout(), None);

    let list = contexts(&[50]).expect("one context");
    bench
        .asp
        .deregister(bench.now, list)
        .expect("a served context");
    assert!(matches!(
        bench.sent()[..],
        [Message::DeregistrationRequest(_)]
    ));
    let result = DeregistrationResult {
        routing_context: rc(50),
        status: DeregistrationStatus::SUCCESS,
    };
    bench.receive(&Message::DeregistrationResponse(DeregistrationResponse {
        results: vec![result],
    }));
    assert!(
        bench
            .indications()
            .contains(&AspIndication::Deregistered(result))
    );
    assert_eq!(bench.asp.state(Some(rc(50))), None);
}

#[test]
fn registrations_without_response_fail() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .register(bench.now, vec![key(10)])
        .expect("an ASP that is up");
    bench.advance(T_ACK * 5);
    let failed = AspIndication::Registered(LocalRoutingKeyIdentifier(10), Err(None));
    assert_eq!(bench.indications(), [failed]);
    let keys = (0..1023).map(key).collect();
    let error = bench.asp.register(bench.now, keys);
    assert_eq!(error, Err(AspRequestError::TooManyRegistrations(1024)));
}

/// RFC 4666, section 4.3.4.2: ASP Down deregisters
#[test]
fn registrations_end_with_asp_down() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .register(bench.now, vec![key(10)])
        .expect("an ASP that is up");
    let results = vec![registration(10, RegistrationStatus::SUCCESS, 50)];
    bench.receive(&Message::RegistrationResponse(RegistrationResponse {
        results,
    }));
    bench.asp.asp_down(bench.now).expect("an association");
    bench.receive(&down_ack());
    assert_eq!(bench.asp.state(Some(rc(50))), None);
    assert_eq!(bench.asp.routing_contexts().count(), 2);
}

/// RFC 4666, section 4.8
#[test]
fn other_version_is_answered() {
    let mut bench = Bench::connected();
    let octets = bytes::Bytes::from_static(&[9, 0, 3, 4, 0, 0, 0, 8]);
    let error = Message::decode(&octets).expect_err("version 9");
    bench.asp.handle_malformed(bench.now, &error, &octets);
    let answer = bench.sent_error(ErrorCode::INVALID_VERSION);
    assert_eq!(bench.indications(), [AspIndication::PeerError(answer)]);
}

#[test]
fn contradictory_configurations_are_refused() {
    let server = AspApplicationServer::new(rc(1));
    let config = |application_servers| AspConfig {
        application_servers,
        ..AspConfig::default()
    };
    let error = Asp::new(config(vec![server, server])).expect_err("a repeated context");
    assert_eq!(error, AspConfigError::IdentifierRepeated(rc(1)));
    let plain = AspApplicationServer {
        routing_context: None,
        ..server
    };
    let error = Asp::new(config(vec![server, plain])).expect_err("a missing context");
    assert_eq!(error, AspConfigError::IdentifierMissing);
    let many = (0..1025).map(|context| AspApplicationServer::new(rc(context)));
    let error = Asp::new(config(many.collect())).expect_err("too many contexts");
    assert!(matches!(error, AspConfigError::TooMany { count: 1025, .. }));
}

/// RFC 4666, section 4.2: NETWORK STATUS CHANGE and SEND FAILURE
#[test]
fn failed_paths_are_indicated_only() {
    let mut bench = Bench::active();
    let address = "192.0.2.1".parse().expect("an address");
    let path = |active| SctpNotification::PathStatus { address, active };
    for notification in [path(false), SctpNotification::SendFailure, path(true)] {
        bench.asp.handle_sctp(bench.now, notification);
        assert_eq!(
            bench.indications(),
            [AspIndication::SctpStatus(notification)]
        );
        assert_eq!(bench.states(), [AspState::Active; 2]);
        assert_eq!(bench.sent(), []);
    }
}
