//! ASP and AS states, configuration and management.

use super::*;

/// RFC 4666, section 4.3.1: ASP-DOWN to ASP-INACTIVE
/// RFC 4666, section 4.3.2: DN2IA
/// RFC 4666, section 4.3.4.5: notification after the acknowledgement
#[test]
fn asp_up_leads_to_as_inactive() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
    assert_eq!(bench.as_state(), AsState::Down);
    bench.up(0);
    assert_eq!(bench.as_state(), AsState::Inactive);
    assert_eq!(bench.asp_states(), [AspState::Inactive, AspState::Down]);
    assert_eq!(
        bench.sent(),
        [(0, up_ack()), (0, notify(Status::AsInactive, None))]
    );
    let expected = [
        SgpIndication::AspUp(bench.asps[0]),
        SgpIndication::AsStatus(rc(1), AsState::Inactive),
    ];
    assert_eq!(bench.indications(), expected);
    // Only the new ASP is notified when the state stays.
    bench.up(1);
    assert_eq!(
        bench.sent(),
        [(1, up_ack()), (1, notify(Status::AsInactive, None))]
    );
}

/// RFC 4666, section 4.3.4.1: ASP Up in ASP-INACTIVE
#[test]
fn repeated_asp_up_is_acknowledged_only() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.drain();
    bench.up(0);
    assert_eq!(
        (bench.sent(), bench.indications()),
        (vec![(0, up_ack())], vec![])
    );
}

/// RFC 4666, section 4.3.1: ASP-INACTIVE to ASP-ACTIVE
/// RFC 4666, section 4.3.2: IA2AC
#[test]
fn asp_active_leads_to_as_active() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
    bench.up(0);
    bench.up(1);
    bench.drain();
    let mode = Some(TrafficMode::OVERRIDE);
    bench.receive(0, &active(mode, &[1]));
    assert_eq!(bench.as_state(), AsState::Active);
    assert_eq!(bench.asp_states(), [AspState::Active, AspState::Inactive]);
    let expected = [
        (0, active_ack(mode, &[1])),
        (0, notify(Status::AsActive, None)),
        (1, notify(Status::AsActive, None)),
    ];
    assert_eq!(bench.sent(), expected);
    // In ASP-ACTIVE, ASP Active is acknowledged again; without a list the acknowledgement has none.
    bench.receive(0, &active(None, &[]));
    assert_eq!(bench.sent(), [(0, active_ack(None, &[]))]);
}

/// RFC 4666, section 4.3.2: n ASPs before AS-ACTIVE, one to keep it
/// RFC 4666, section 4.3.4.3
/// RFC 4666, section 4.3.4.4: insufficient resources
#[test]
fn loadshare_waits_for_its_minimum() {
    let mut bench = Bench::new(TrafficMode::LOADSHARE, 2, 3);
    (0..3).for_each(|asp| bench.up(asp));
    bench.activate(0);
    bench.drain();
    assert_eq!(bench.as_state(), AsState::Inactive);
    assert_eq!(
        bench.transfer(0),
        Err(TransferError::NotActive(AsState::Inactive))
    );
    bench.activate(1);
    assert_eq!(bench.as_state(), AsState::Active);
    bench.drain();
    bench.receive(0, &inactive(&[1]));
    assert_eq!(bench.as_state(), AsState::Active);
    let insufficient = notify(Status::InsufficientAspResources, None);
    let expected = [
        (0, inactive_ack(&[1])),
        (0, insufficient.clone()),
        (2, insufficient),
    ];
    assert_eq!(bench.sent(), expected);
    assert_eq!(bench.transfer(0), Ok(()));
    assert_eq!(bench.sent_data(), [(1, 0)]);
}

/// RFC 4666, section 4.3.1: ASP-ACTIVE to ASP-INACTIVE, another ASP overrides
/// RFC 4666, section 4.3.4.3
#[test]
fn override_notifies_the_previous_asp() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
    bench.up(0);
    bench.up(1);
    bench.activate(0);
    bench.drain();
    bench.activate(1);
    assert_eq!(bench.as_state(), AsState::Active);
    assert_eq!(bench.asp_states(), [AspState::Inactive, AspState::Active]);
    let expected = [
        (1, active_ack(None, &[1])),
        (0, notify(Status::AlternateAspActive, Some(1))),
    ];
    assert_eq!(bench.sent(), expected);
    assert_eq!(bench.transfer(3), Ok(()));
    assert_eq!(bench.sent_data(), [(1, 3)]);
    // The overridden ASP is inactive already; its ASP Inactive is acknowledged.
    bench.receive(0, &inactive(&[1]));
    assert_eq!(bench.sent(), [(0, inactive_ack(&[1]))]);
}

/// RFC 4666, section 4.3.2: PN2AC, one ASP suffices
#[test]
fn pending_ends_with_the_first_asp() {
    let mut bench = Bench::new(TrafficMode::LOADSHARE, 2, 2);
    for asp in 0..2 {
        bench.up(asp);
        bench.activate(asp);
    }
    for asp in 0..2 {
        bench.receive(asp, &inactive(&[1]));
    }
    assert_eq!(bench.as_state(), AsState::Pending);
    assert_eq!(bench.transfer(9), Ok(()));
    bench.drain();
    bench.activate(1);
    assert_eq!(bench.as_state(), AsState::Active);
    assert_eq!(bench.sent_data(), [(1, 9)]);
    // After T(r), n ASPs are needed again.
    bench.receive(1, &inactive(&[1]));
    bench.advance(T_RECOVERY);
    bench.activate(1);
    assert_eq!(bench.as_state(), AsState::Inactive);
}

/// RFC 4666, section 4.3.2: PN2IA
#[test]
fn recovery_expiry_leads_to_as_inactive() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.receive(0, &inactive(&[1]));
    assert_eq!(bench.transfer(0), Ok(()));
    bench.drain();
    bench.advance(T_RECOVERY);
    assert_eq!(bench.as_state(), AsState::Inactive);
    assert_eq!(bench.sent(), [(0, notify(Status::AsInactive, None))]);
    let expected = [
        SgpIndication::AsStatus(rc(1), AsState::Inactive),
        SgpIndication::Discarded(rc(1), 1),
    ];
    assert_eq!(bench.indications(), expected);
    assert_eq!(
        bench.transfer(0),
        Err(TransferError::NotActive(AsState::Inactive))
    );
}

/// RFC 4666, section 4.3.1: SCTP CDI in ASP-ACTIVE
/// RFC 4666, section 4.3.2: AC2PN and PN2DN
#[test]
fn recovery_expiry_leads_to_as_down() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    bench.lose(0);
    assert_eq!(bench.as_state(), AsState::Pending);
    assert_eq!(bench.asp_states(), [AspState::Down]);
    assert_eq!(bench.transfer(0), Ok(()));
    let expected = [
        SgpIndication::SctpStatus(bench.asps[0], SctpNotification::Down),
        SgpIndication::AspDown(bench.asps[0]),
        SgpIndication::AsStatus(rc(1), AsState::Pending),
    ];
    assert_eq!(bench.indications(), expected);
    bench.advance(T_RECOVERY);
    assert_eq!(bench.as_state(), AsState::Down);
    let expected = [
        SgpIndication::AsStatus(rc(1), AsState::Down),
        SgpIndication::Discarded(rc(1), 1),
    ];
    assert_eq!(bench.indications(), expected);
    assert_eq!(bench.sent(), []);
}

/// RFC 4666, section 4.3.1: ASPDN in ASP-INACTIVE
/// RFC 4666, section 4.3.2: IA2DN
/// RFC 4666, section 4.3.4.2
#[test]
fn asp_down_leads_to_as_down() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.drain();
    let ack = Message::AspDownAck(AspDown::default());
    bench.receive(0, &Message::AspDown(AspDown::default()));
    assert_eq!(bench.as_state(), AsState::Down);
    assert_eq!(bench.sent(), [(0, ack.clone())]);
    let expected = [
        SgpIndication::AspDown(bench.asps[0]),
        SgpIndication::AsStatus(rc(1), AsState::Down),
    ];
    assert_eq!(bench.indications(), expected);
    // In ASP-DOWN it is acknowledged as well.
    bench.receive(0, &Message::AspDown(AspDown::default()));
    assert_eq!(
        (bench.sent(), bench.indications()),
        (vec![(0, ack)], vec![])
    );
}

/// RFC 4666, section 4.3.1: ASPDN in ASP-ACTIVE
#[test]
fn asp_down_of_the_active_asp_leads_to_as_pending() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
    bench.up(0);
    bench.up(1);
    bench.activate(0);
    bench.drain();
    bench.receive(0, &Message::AspDown(AspDown::default()));
    assert_eq!(bench.asp_states(), [AspState::Down, AspState::Inactive]);
    assert_eq!(bench.as_state(), AsState::Pending);
    let ack = Message::AspDownAck(AspDown::default());
    assert_eq!(
        bench.sent(),
        [(0, ack), (1, notify(Status::AsPending, None))]
    );
}

/// RFC 4666, section 4.3.4.6: 2 × T(beat)
#[test]
fn silent_asp_is_unresponsive() {
    let t_beat = Duration::from_secs(10);
    let config = SgpConfig {
        t_beat: Some(t_beat),
        ..SgpConfig::default()
    };
    let mut bench = Bench::with(config, vec![server(1, None, 1)], 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    bench.advance(t_beat);
    assert!(matches!(bench.sent()[..], [(0, Message::Heartbeat(_))]));
    assert_eq!(bench.indications(), []);
    bench.advance(t_beat);
    let indications = bench.indications();
    assert_eq!(
        indications[0],
        SgpIndication::PeerUnresponsive(bench.asps[0])
    );
    assert_eq!(bench.asp_states(), [AspState::Down]);
    // Of the timers only T(r) is left.
    assert_eq!(bench.sgp.poll_timeout(), Some(bench.now + T_RECOVERY));
}

/// RFC 4666, section 4.3.1: SCTP CDI and SCTP RI
/// RFC 4666, section 4.3.4.5: ASP Identifier of the failed ASP
#[test]
fn failure_is_notified_with_its_asp() {
    let restarted = SctpNotification::Restarted {
        outbound_streams: 5,
    };
    for notification in [SctpNotification::Down, restarted] {
        let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
        bench.up(0);
        bench.up(1);
        bench.activate(0);
        bench.drain();
        bench
            .sgp
            .handle_sctp(bench.now, bench.asps[0], notification);
        assert_eq!(bench.asp_states(), [AspState::Down, AspState::Inactive]);
        let expected = [
            (1, notify(Status::AspFailure, Some(0))),
            (1, notify(Status::AsPending, Some(0))),
        ];
        assert_eq!(bench.sent(), expected);
        // Only a restarted association can be used at once.
        bench.up(0);
        assert_eq!(
            bench.sent().is_empty(),
            notification == SctpNotification::Down
        );
    }
}

/// RFC 4666, section 4.3.4.1: ASP Up in ASP-ACTIVE
#[test]
fn asp_up_in_asp_active_is_unexpected() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    bench.up(0);
    assert_eq!(bench.asp_states(), [AspState::Inactive]);
    let sent = bench.sent();
    assert_eq!(sent[0], (0, up_ack()));
    assert!(matches!(&sent[1].1, Message::Error(e) if e.code == ErrorCode::UNEXPECTED_MESSAGE));
    assert_eq!(sent[2..], [(0, notify(Status::AsPending, None))]);
}

/// RFC 4666, section 4.3.4.1: Refused - Management Blocking
/// RFC 4666, section 4.7
#[test]
fn blocked_asps_are_refused() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    bench
        .sgp
        .set_asp_blocked(bench.now, bench.asps[0], true)
        .expect("an ASP");
    assert_eq!(bench.sent(), [(0, Message::AspDownAck(AspDown::default()))]);
    bench.up(0);
    bench.sent_error(0, ErrorCode::MANAGEMENT_BLOCKING);
    assert_eq!(bench.asp_states(), [AspState::Down]);
    bench
        .sgp
        .set_asp_blocked(bench.now, bench.asps[0], false)
        .expect("an ASP");
    bench.up(0);
    assert_eq!(bench.sent()[0], (0, up_ack()));
}

/// RFC 4666, section 4.3.4.3: Refused - Management Blocking
/// RFC 4666, section 4.7
#[test]
fn blocked_application_servers_are_refused() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    let blocked = bench
        .sgp
        .set_application_server_blocked(bench.now, rc(1), true);
    blocked.expect("an application server");
    let pending = (0, notify(Status::AsPending, None));
    assert_eq!(bench.sent(), [(0, inactive_ack(&[1])), pending]);
    bench.activate(0);
    let error = bench.sent_error(0, ErrorCode::MANAGEMENT_BLOCKING);
    assert_eq!(error.routing_contexts, contexts(&[1]));
}

/// RFC 4666, section 3.8.1: ASP Identifier Required, Invalid ASP Identifier
#[test]
fn asp_identifiers_are_checked() {
    let config = SgpConfig {
        require_asp_identifier: true,
        ..SgpConfig::default()
    };
    let mut bench = Bench::with(config, vec![server(1, None, 1)], 2);
    bench.receive(0, &Message::AspUp(AspUp::default()));
    bench.sent_error(0, ErrorCode::ASP_IDENTIFIER_REQUIRED);
    bench.up(0);
    bench.drain();
    bench.receive(1, &up(0));
    bench.sent_error(1, ErrorCode::INVALID_ASP_IDENTIFIER);
    // The identifier is free after ASP Down.
    bench.receive(0, &Message::AspDown(AspDown::default()));
    bench.drain();
    bench.receive(1, &up(0));
    assert_eq!(bench.sent()[0], (1, up_ack()));
}

/// RFC 4666, section 4.3.4.3: the cases of the Routing Context parameter
#[test]
fn asp_active_is_answered_by_its_contexts() {
    let servers = vec![server(1, None, 1), server(2, None, 1)];
    let mut bench = Bench::with(SgpConfig::default(), servers.clone(), 1);
    bench.up(0);
    bench.drain();
    bench.receive(0, &active(None, &[9, 2]));
    let sent = bench.sent();
    let Message::Error(error) = &sent[0].1 else {
        panic!("no Error message: {sent:?}");
    };
    assert_eq!(error.code, ErrorCode::NO_CONFIGURED_AS);
    assert_eq!(error.routing_contexts, contexts(&[9]));
    assert_eq!(sent[1], (0, active_ack(None, &[2])));
    bench.receive(0, &active(None, &[]));
    assert_eq!(bench.sent()[0], (0, active_ack(None, &[])));
    assert_eq!(bench.sgp.as_state(rc(1)), Some(AsState::Active));

    let mandatory = SgpConfig {
        require_routing_context: true,
        ..SgpConfig::default()
    };
    let mut bench = Bench::with(mandatory, servers, 1);
    bench.up(0);
    bench.drain();
    bench.receive(0, &active(None, &[]));
    bench.sent_error(0, ErrorCode::MISSING_PARAMETER);

    let mut bench = Bench::with(SgpConfig::default(), vec![], 1);
    bench.up(0);
    bench.drain();
    bench.receive(0, &active(None, &[]));
    bench.sent_error(0, ErrorCode::INVALID_ROUTING_CONTEXT);
    bench.receive(0, &inactive(&[]));
    bench.sent_error(0, ErrorCode::NO_CONFIGURED_AS);
}

/// RFC 4666, section 4.3.4.4: an Error message for each invalid routing context
#[test]
fn asp_inactive_is_answered_by_its_contexts() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    bench.receive(0, &inactive(&[8, 1, 9]));
    let sent = bench.sent();
    let invalid: Vec<_> = sent[..2]
        .iter()
        .map(|(_, message)| match message {
            Message::Error(error) if error.code == ErrorCode::INVALID_ROUTING_CONTEXT => {
                error.routing_contexts.clone()
            }
            other => panic!("no Error message: {other:?}"),
        })
        .collect();
    assert_eq!(invalid, [contexts(&[8]), contexts(&[9])]);
    assert_eq!(sent[2], (0, inactive_ack(&[1])));
}

/// RFC 4666, section 4.3.4.3: the mode of the first ASP Active applies
/// RFC 4666, section 3.8.1: Unsupported Traffic Mode Type
#[test]
fn traffic_modes_are_not_mixed() {
    let mut bench = Bench::with(SgpConfig::default(), vec![server(1, None, 1)], 2);
    bench.up(0);
    bench.up(1);
    bench.receive(0, &active(Some(TrafficMode::LOADSHARE), &[1]));
    bench.drain();
    bench.receive(1, &active(Some(TrafficMode::OVERRIDE), &[1]));
    let error = bench.sent_error(1, ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE);
    assert_eq!(error.routing_contexts, contexts(&[1]));
    bench.receive(1, &active(None, &[1]));
    assert_eq!(bench.asp_states(), [AspState::Active; 2]);
}

/// RFC 4666, section 4.3.4.1: other messages before ASP Up
/// RFC 4666, section 3.8.1: Unexpected Message
#[test]
fn messages_before_asp_up_are_unexpected() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    for message in [active(None, &[1]), inactive(&[1])] {
        bench.receive(0, &message);
        let error = bench.sent_error(0, ErrorCode::UNEXPECTED_MESSAGE);
        assert_eq!(error.routing_contexts, contexts(&[1]));
    }
    assert_eq!(bench.as_state(), AsState::Down);
    // Heartbeats are answered in ASP-DOWN.
    let beat = Heartbeat::new(b"x").expect("a short heartbeat");
    bench.receive(0, &Message::Heartbeat(beat.clone()));
    assert_eq!(bench.sent(), [(0, Message::HeartbeatAck(beat))]);
    bench.up(0);
    bench.drain();
    for message in [up_ack(), active_ack(None, &[1]), inactive_ack(&[1])] {
        bench.receive(0, &message);
        bench.sent_error(0, ErrorCode::UNEXPECTED_MESSAGE);
    }
    let error = Message::Error(ErrorMessage::new(ErrorCode::PROTOCOL_ERROR));
    bench.receive(0, &error);
    assert_eq!(bench.sent(), []);
}

/// RFC 4666, section 4.3.2: AS-DOWN after the removal from the configuration
#[test]
fn removed_application_servers_are_down() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    let unknown = bench.sgp.remove_application_server(bench.now, rc(9));
    assert_eq!(
        unknown,
        Err(SgpConfigError::UnknownApplicationServer(rc(9)))
    );
    let removed = bench.sgp.remove_application_server(bench.now, rc(1));
    removed.expect("an application server");
    assert_eq!(bench.sgp.as_state(rc(1)), None);
    assert_eq!(bench.sent()[0], (0, inactive_ack(&[1])));
    let down = SgpIndication::AsStatus(rc(1), AsState::Down);
    assert_eq!(bench.indications().last(), Some(&down));
    assert_eq!(bench.transfer(0), Err(TransferError::NoRoutingKey));
    bench.activate(0);
    let error = bench.sent_error(0, ErrorCode::NO_CONFIGURED_AS);
    assert_eq!(error.routing_contexts, contexts(&[1]));
    assert_eq!(bench.sgp.poll_timeout(), None);
    bench
        .sgp
        .add_application_server(server(2, None, 1))
        .expect("a free routing key");
}

#[test]
fn configuration_is_checked() {
    let config = SgpConfig {
        max_asps: 1,
        max_application_servers: 2,
        ..SgpConfig::default()
    };
    let mut sgp = SignallingGatewayProcess::new(config);
    sgp.add_application_server(server(1, None, 1))
        .expect("the first");
    let repeated = sgp.add_application_server(server(1, None, 1));
    assert_eq!(repeated, Err(SgpConfigError::IdentifierInUse(rc(1))));
    let mut overlapping = server(2, None, 1);
    overlapping.destinations = server(1, None, 1).destinations;
    let overlapping = sgp.add_application_server(overlapping);
    assert_eq!(overlapping, Err(SgpConfigError::OverlappingKey(rc(1))));
    sgp.add_application_server(server(2, None, 1))
        .expect("the second");
    let third = sgp.add_application_server(server(3, None, 1));
    assert_eq!(third, Err(SgpConfigError::TooManyApplicationServers(2)));
    let asp = |context| SgpAspConfig {
        identifier: None,
        application_servers: vec![rc(context)],
    };
    let unknown = sgp.add_asp(asp(3));
    assert_eq!(
        unknown,
        Err(SgpConfigError::UnknownApplicationServer(rc(3)))
    );
    let key = sgp.add_asp(asp(1)).expect("the first");
    assert_eq!(sgp.add_asp(asp(1)), Err(SgpConfigError::TooManyAsps(1)));
    sgp.remove_asp(Time::ZERO, key).expect("an ASP");
    assert_eq!(
        sgp.remove_asp(Time::ZERO, key),
        Err(SgpConfigError::UnknownAsp(key))
    );
    assert_eq!(sgp.asp_state(key, rc(1)), None);
}

/// RFC 4666, section 4.2: NETWORK STATUS CHANGE and SEND FAILURE
#[test]
fn failed_paths_are_indicated_only() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    let address = "192.0.2.1".parse().expect("an address");
    let path = |active| SctpNotification::PathStatus { address, active };
    for notification in [path(false), SctpNotification::SendFailure, path(true)] {
        bench
            .sgp
            .handle_sctp(bench.now, bench.asps[0], notification);
        let expected = SgpIndication::SctpStatus(bench.asps[0], notification);
        assert_eq!(bench.indications(), [expected]);
        assert_eq!(bench.as_state(), AsState::Active);
        assert_eq!(bench.sent(), []);
    }
}

/// RFC 4666, section 4.3.2: T(r) of several application servers
#[test]
fn next_timeout_is_the_earliest() {
    let servers = vec![server(1, None, 1), server(2, None, 1)];
    let mut bench = Bench::with(SgpConfig::default(), servers, 2);
    for (asp, context) in [(0, 1), (1, 2)] {
        bench.up(asp);
        bench.receive(asp, &active(None, &[context]));
    }
    let begin = bench.now;
    bench.lose(0);
    bench.advance(Duration::from_millis(500));
    bench.lose(1);
    assert_eq!(bench.sgp.poll_timeout(), Some(begin + T_RECOVERY));
    bench.advance(Duration::from_millis(1500));
    let rest = Duration::from_millis(500);
    assert_eq!(bench.sgp.poll_timeout(), Some(begin + T_RECOVERY + rest));
    bench
        .sgp
        .remove_application_server(bench.now, rc(2))
        .expect("an application server");
    assert_eq!(bench.sgp.poll_timeout(), None);
}
