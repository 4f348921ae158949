//! Transitions between the states.

use super::*;

/// RFC 4666, section 4.3.1: ASP-DOWN to ASP-INACTIVE
/// RFC 4666, section 4.3.4.1
#[test]
fn asp_up_ack_leads_to_asp_inactive() {
    let mut bench = Bench::connected();
    assert_eq!(bench.states(), [AspState::Down; 2]);
    bench.asp.asp_up(bench.now).expect("an association");
    assert_eq!(bench.sent(), [up()]);
    bench.receive(&up_ack());
    assert_eq!(bench.states(), [AspState::Inactive; 2]);
    let indications = bench.indications();
    assert!(
        indications.contains(&AspIndication::AspUp(Ok(()))),
        "{indications:?}"
    );
    assert_eq!(bench.asp.poll_timeout(), None);
    assert_eq!(bench.sent(), []);
}

/// RFC 4666, section 4.3.1: ASP-INACTIVE to ASP-ACTIVE
/// RFC 4666, section 4.3.4.3
#[test]
fn asp_active_ack_leads_to_asp_active() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .asp_active(bench.now, &[rc(2)])
        .expect("an ASP that is up");
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[2]))]);
    bench.receive(&active_ack(&[2]));
    assert_eq!(bench.states(), [AspState::Inactive, AspState::Active]);
    let indications = bench.indications();
    assert!(indications.contains(&AspIndication::AspActive(Some(rc(2)), Ok(()))));
}

/// RFC 4666, section 4.3.4.3: several acknowledgements of one request
#[test]
fn acknowledgements_may_be_split() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[1, 2]))]);
    bench.receive(&active_ack(&[1]));
    assert_eq!(bench.states(), [AspState::Active, AspState::Inactive]);
    // Only the rest is requested again.
    bench.advance(T_ACK);
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[2]))]);
    bench.receive(&active_ack(&[2]));
    assert_eq!(bench.states(), [AspState::Active; 2]);
    assert_eq!(bench.asp.poll_timeout(), None);
}

/// RFC 4666, section 4.3.4.3: one traffic mode in a message
#[test]
fn each_traffic_mode_has_its_message() {
    let mode = |context, mode| AspApplicationServer {
        traffic_mode: Some(mode),
        ..AspApplicationServer::new(rc(context))
    };
    let mut bench = Bench::new(AspConfig {
        application_servers: vec![
            mode(1, TrafficMode::LOADSHARE),
            mode(2, TrafficMode::OVERRIDE),
            mode(3, TrafficMode::LOADSHARE),
        ],
        ..AspConfig::default()
    });
    bench.asp.handle_sctp(bench.now, UP);
    bench.asp.asp_up(bench.now).expect("an association");
    bench.receive(&up_ack());
    bench.sent();
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    let expected = [
        (TrafficMode::OVERRIDE, &[2][..]),
        (TrafficMode::LOADSHARE, &[1, 3]),
    ];
    let expected = expected.map(|(mode, list)| {
        Message::AspActive(AspActive {
            traffic_mode: Some(mode),
            ..active_body(list)
        })
    });
    assert_eq!(bench.sent(), expected);
}

/// RFC 4666, section 4.3.1: ASP-ACTIVE to ASP-INACTIVE
/// RFC 4666, section 4.3.4.4
#[test]
fn asp_inactive_ack_leads_to_asp_inactive() {
    let mut bench = Bench::active();
    bench
        .asp
        .asp_inactive(bench.now, &[rc(1)])
        .expect("an ASP that is up");
    assert_eq!(bench.sent(), [Message::AspInactive(inactive_body(&[1]))]);
    bench.receive(&inactive_ack(&[1]));
    assert_eq!(bench.states(), [AspState::Inactive, AspState::Active]);
    let indications = bench.indications();
    assert!(indications.contains(&AspIndication::AspInactive(Some(rc(1)), Ok(()))));
    assert_eq!(bench.sent(), []);
}

/// RFC 4666, section 4.3.1: ASP-ACTIVE to ASP-INACTIVE, another ASP overrides
/// RFC 4666, section 4.3.4.3
#[test]
fn alternate_asp_leads_to_asp_inactive() {
    let mut bench = Bench::active();
    let notify = notify(Status::AlternateAspActive, &[1]);
    bench.receive(&Message::Notify(notify.clone()));
    assert_eq!(bench.states(), [AspState::Inactive, AspState::Active]);
    assert!(bench.indications().contains(&AspIndication::Notify(notify)));
    // The ASP does not override in its turn.
    assert_eq!(bench.sent(), []);
    bench.receive(&up_ack());
    let sent = bench.sent();
    assert_eq!(sent[1..], [Message::AspActive(active_body(&[2]))]);
}

/// RFC 4666, section 4.3.1: ASP-INACTIVE to ASP-DOWN
/// RFC 4666, section 4.3.4.2
#[test]
fn asp_down_ack_leads_to_asp_down() {
    for mut bench in [Bench::inactive(), Bench::active()] {
        bench.asp.asp_down(bench.now).expect("an association");
        assert_eq!(bench.sent(), [down()]);
        bench.receive(&down_ack());
        assert_eq!(bench.states(), [AspState::Down; 2]);
        assert!(!bench.asp.is_up());
        assert!(
            bench
                .indications()
                .contains(&AspIndication::AspDown(Ok(())))
        );
        assert_eq!(bench.asp.poll_timeout(), None);
        assert_eq!(bench.sent(), []);
    }
}

/// RFC 4666, section 4.3.1: SCTP CDI and SCTP RI
/// RFC 4666, section 4.3.3
#[test]
fn lost_association_leads_to_asp_down() {
    let restarted = SctpNotification::Restarted {
        outbound_streams: 3,
    };
    for notification in [SctpNotification::Down, restarted] {
        let mut bench = Bench::active();
        bench.asp.handle_sctp(bench.now, notification);
        assert_eq!(bench.states(), [AspState::Down; 2]);
        let indications = bench.indications();
        assert_eq!(indications[0], AspIndication::SctpStatus(notification));
        let paused: Vec<_> = indications
            .iter()
            .filter_map(|indication| match indication {
                AspIndication::MtpPause(pause) => Some(pause.routing_contexts.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(paused, [contexts(&[1]), contexts(&[2])]);
        if notification == SctpNotification::Down {
            assert_eq!(bench.sent(), []);
            let error = bench.asp.asp_up(bench.now);
            assert_eq!(error, Err(AspRequestError::NoAssociation));
            bench.asp.handle_sctp(bench.now, UP);
        }
        // Recovery begins with the ASP Up procedure and ends in the previous state.
        assert_eq!(bench.sent(), [up()]);
        bench.receive(&up_ack());
        assert_eq!(bench.sent(), [Message::AspActive(active_body(&[1, 2]))]);
        bench.receive(&active_ack(&[1, 2]));
        assert_eq!(bench.states(), [AspState::Active; 2]);
    }
}
