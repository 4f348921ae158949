//! Repeated, refused and unexpected messages; heartbeats.

use super::*;

/// RFC 4666, section 4.3.4.1: T(ack)
#[test]
fn asp_up_is_repeated_until_it_fails() {
    let mut bench = Bench::connected();
    bench.asp.asp_up(bench.now).expect("an association");
    assert_eq!(bench.asp.poll_timeout(), Some(bench.now + T_ACK));
    bench.sent();
    bench.advance(Duration::from_millis(1999));
    assert_eq!(bench.sent(), []);
    bench.advance(Duration::from_millis(1));
    assert_eq!(bench.sent(), [up()]);
    for _ in 0..3 {
        bench.advance(T_ACK);
        assert_eq!(bench.sent(), [up()]);
    }
    assert_eq!(bench.indications(), []);
    bench.advance(T_ACK);
    assert_eq!(bench.sent(), []);
    let failed = AspIndication::AspUp(Err(RequestFailure::TimedOut));
    assert_eq!(bench.indications(), [failed]);
    assert_eq!(bench.asp.poll_timeout(), None);
}

/// RFC 4666, section 4.3.4.2: T(ack)
/// RFC 4666, section 4.3.4.4: T(ack)
#[test]
fn other_requests_are_repeated_until_they_fail() {
    let mut bench = Bench::active();
    bench
        .asp
        .asp_inactive(bench.now, &[rc(1)])
        .expect("an ASP that is up");
    for _ in 0..4 {
        assert_eq!(bench.sent(), [Message::AspInactive(inactive_body(&[1]))]);
        bench.advance(T_ACK);
    }
    bench.drain();
    bench.advance(T_ACK);
    let failure = Err(RequestFailure::TimedOut);
    assert_eq!(
        bench.indications(),
        [AspIndication::AspInactive(Some(rc(1)), failure)]
    );
    bench.asp.asp_down(bench.now).expect("an association");
    for _ in 0..5 {
        assert_eq!(bench.sent(), [down()]);
        bench.advance(T_ACK);
    }
    assert_eq!(bench.indications(), [AspIndication::AspDown(failure)]);
}

/// RFC 4666, section 4.3.4.1: unexpected ASP Up Ack
#[test]
fn unexpected_asp_up_ack_is_answered() {
    let mut bench = Bench::inactive();
    bench.receive(&up_ack());
    assert_eq!((bench.sent(), bench.indications()), (vec![], vec![]));

    let mut bench = Bench::active();
    bench.receive(&up_ack());
    assert_eq!(bench.states(), [AspState::Inactive; 2]);
    let sent = bench.sent();
    assert!(matches!(&sent[0], Message::Error(e) if e.code == ErrorCode::UNEXPECTED_MESSAGE));
    assert_eq!(sent[1..], [Message::AspActive(active_body(&[1, 2]))]);

    let mut bench = Bench::connected();
    bench.receive(&up_ack());
    let sent = bench.sent();
    assert!(matches!(&sent[0], Message::Error(e) if e.code == ErrorCode::UNEXPECTED_MESSAGE));
    assert_eq!(sent[1..], [down()]);
}

/// RFC 4666, section 4.3.4.2: unexpected ASP Down Ack
#[test]
fn unexpected_asp_down_ack_leads_back() {
    let mut bench = Bench::active();
    bench.receive(&down_ack());
    assert_eq!(bench.states(), [AspState::Down; 2]);
    assert_eq!(bench.sent(), [up()]);
    bench.receive(&up_ack());
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[1, 2]))]);
    // In ASP-DOWN it changes nothing.
    let mut bench = Bench::connected();
    bench.receive(&down_ack());
    assert_eq!((bench.sent(), bench.indications()), (vec![], vec![]));
}

/// RFC 4666, section 4.3.4.4: unexpected ASP Inactive Ack
#[test]
fn unexpected_asp_inactive_ack_leads_back() {
    let mut bench = Bench::active();
    bench.receive(&inactive_ack(&[2]));
    assert_eq!(bench.states(), [AspState::Active, AspState::Inactive]);
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[2]))]);
}

/// RFC 4666, section 4.3.4.3: the acknowledgement of a repeated request
#[test]
fn last_acknowledgement_determines_the_state() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    // The request is sent again; another ASP overrides between the two at the SGP.
    bench.advance(T_ACK);
    assert_eq!(bench.sent().len(), 2);
    bench.receive(&active_ack(&[1, 2]));
    bench.receive(&Message::Notify(notify(
        Status::AlternateAspActive,
        &[1, 2],
    )));
    assert_eq!(bench.states(), [AspState::Inactive; 2]);
    bench.receive(&active_ack(&[1, 2]));
    assert_eq!(bench.states(), [AspState::Active; 2]);
    assert_eq!(bench.sent(), []);
}

/// RFC 4666, section 4.3.4.3
#[test]
fn unwanted_activation_is_ended() {
    let mut bench = Bench::inactive();
    bench.receive(&active_ack(&[2]));
    assert_eq!(bench.states(), [AspState::Inactive, AspState::Active]);
    assert_eq!(bench.sent(), [Message::AspInactive(inactive_body(&[2]))]);
}

#[test]
fn repeated_requests_have_one_confirm() {
    let mut bench = Bench::connected();
    for _ in 0..2 {
        bench.asp.asp_up(bench.now).expect("an association");
    }
    assert_eq!(bench.sent(), [up()]);
    bench.receive(&up_ack());
    for _ in 0..2 {
        bench
            .asp
            .asp_active(bench.now, &[rc(1)])
            .expect("an ASP that is up");
    }
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[1]))]);
    bench.receive(&active_ack(&[1]));
    let confirms = bench.indications();
    let confirm = AspIndication::AspActive(Some(rc(1)), Ok(()));
    assert_eq!(
        confirms
            .iter()
            .filter(|indication| **indication == confirm)
            .count(),
        1
    );
}

/// RFC 4666, section 3.8.1: Refused - Management Blocking
#[test]
fn refused_requests_fail() {
    let refusal = |code| Message::Error(ErrorMessage::new(code));
    let mut bench = Bench::connected();
    bench.asp.asp_up(bench.now).expect("an association");
    bench.sent();
    bench.receive(&refusal(ErrorCode::MANAGEMENT_BLOCKING));
    let failure = Err(RequestFailure::Refused(ErrorCode::MANAGEMENT_BLOCKING));
    assert_eq!(bench.indications()[0], AspIndication::AspUp(failure));
    assert_eq!(bench.asp.poll_timeout(), None);

    let mut bench = Bench::inactive();
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    bench.receive(&Message::Error(ErrorMessage {
        routing_contexts: contexts(&[2]),
        ..ErrorMessage::new(ErrorCode::NO_CONFIGURED_AS)
    }));
    let failure = Err(RequestFailure::Refused(ErrorCode::NO_CONFIGURED_AS));
    assert_eq!(
        bench.indications()[0],
        AspIndication::AspActive(Some(rc(2)), failure)
    );
    bench.receive(&active_ack(&[1]));
    assert_eq!(bench.states(), [AspState::Active, AspState::Inactive]);
    assert_eq!(bench.asp.poll_timeout(), None);
}

/// RFC 4666, section 3.8.1: the diagnostic information names the offending message
#[test]
fn errors_about_other_messages_end_no_request() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    bench.drain();
    let octets = Message::Data(data(1, &[1])).encode().expect("a DATA");
    let error = ErrorMessage {
        diagnostic: Some(DiagnosticInformation(octets)),
        ..ErrorMessage::new(ErrorCode::INVALID_ROUTING_CONTEXT)
    };
    bench.receive(&Message::Error(error.clone()));
    assert_eq!(bench.indications(), [AspIndication::Error(error)]);
    // An Error message is not answered.
    assert_eq!(bench.sent(), []);
    bench.receive(&active_ack(&[1, 2]));
    assert_eq!(bench.states(), [AspState::Active; 2]);
}

/// RFC 4666, section 4.3.4.1: Unexpected Message beside an ASP Up Ack
#[test]
fn unexpected_message_error_does_not_end_asp_up() {
    let mut bench = Bench::connected();
    bench.asp.asp_up(bench.now).expect("an association");
    bench.receive(&Message::Error(ErrorMessage::new(
        ErrorCode::UNEXPECTED_MESSAGE,
    )));
    bench.receive(&up_ack());
    assert_eq!(bench.states(), [AspState::Inactive; 2]);
}

/// RFC 4666, section 4.3.4.6
#[test]
fn heartbeats_are_answered_in_any_state() {
    for mut bench in [Bench::connected(), Bench::inactive(), Bench::active()] {
        let beat = Heartbeat::new(b"beat").expect("a short heartbeat");
        bench.receive(&Message::Heartbeat(beat.clone()));
        assert_eq!(bench.sent(), [Message::HeartbeatAck(beat)]);
    }
}

/// RFC 4666, section 4.3.4.6: 2 × T(beat)
#[test]
fn silent_peer_is_unresponsive() {
    let t_beat = Duration::from_secs(10);
    let mut bench = Bench::new(AspConfig {
        t_beat: Some(t_beat),
        ..AspConfig::default()
    });
    bench.asp.handle_sctp(bench.now, UP);
    bench.indications();
    bench.advance(t_beat);
    let sent = bench.sent();
    let [Message::Heartbeat(beat)] = &sent[..] else {
        panic!("no BEAT: {sent:?}");
    };
    bench.receive(&Message::HeartbeatAck(beat.clone()));
    bench.advance(t_beat);
    assert!(matches!(bench.sent()[..], [Message::Heartbeat(_)]));
    assert_eq!(bench.indications(), []);
    bench.advance(t_beat);
    assert_eq!(bench.indications()[..1], [AspIndication::PeerUnresponsive]);
    assert_eq!((bench.sent(), bench.asp.poll_timeout()), (vec![], None));
}
