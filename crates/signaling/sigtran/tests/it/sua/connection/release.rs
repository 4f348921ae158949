//! Release, inactivity, errors and limits.

use super::*;

/// RFC 3868, sections 3.3.6 and 3.3.7: T(rel), T(repeat rel) and T(int) of Q.714
#[test]
fn release_requests_are_repeated() {
    let mut subject = Subject::active(Class2);
    let cause = ReleaseCause::END_USER;
    subject
        .connection
        .disconnect(subject.now, cause, None)
        .expect("a connection");
    assert_eq!(subject.sent(), [release(cause, TO_PEER)]);
    subject.wait(Duration::from_secs(9));
    assert_eq!(subject.sent(), []);
    subject.wait(Duration::from_secs(1));
    assert_eq!(subject.sent(), [release(cause, TO_PEER)]);
    subject.wait(Duration::from_secs(59));
    assert_eq!(subject.sent().len(), 5);
    assert_eq!(subject.indications(), []);
    subject.wait(Duration::from_secs(1));
    assert_eq!(subject.indications(), [UNCONFIRMED]);
    assert_eq!(subject.sent(), []);
    assert_eq!(subject.connection.poll_timeout(), None);
}

/// RFC 3868, section 3.3.7
#[test]
fn releases_are_confirmed() {
    let mut subject = Subject::active(Class2);
    let cause = ReleaseCause::END_USER;
    subject
        .connection
        .disconnect(subject.now, cause, None)
        .expect("a connection");
    subject.receive(&data(Some((0, false, 0)), b"late", LOCAL));
    subject.receive(&release_complete(TO_LOCAL));
    assert_eq!(subject.indications(), [CONFIRMED]);
    // Both ends release.
    let mut subject = Subject::active(Class2);
    subject
        .connection
        .disconnect(subject.now, cause, None)
        .expect("a connection");
    subject.sent();
    subject.receive(&release(cause, TO_LOCAL));
    assert_eq!(subject.indications(), [CONFIRMED]);
    // The peer releases.
    for state in [Class2, Class3] {
        let mut subject = Subject::active(state);
        subject.receive(&release(cause, TO_LOCAL));
        assert_eq!(subject.sent(), [release_complete(TO_PEER)]);
        assert_eq!(
            subject.indications(),
            [disconnected(DisconnectReason::Released(cause))]
        );
        // A repeated request is confirmed again.
        subject.receive(&release(cause, TO_LOCAL));
        assert_eq!(subject.sent(), [release_complete(TO_PEER)]);
        assert_eq!(subject.indications(), []);
    }
}

/// RFC 3868, section 3.3.11: T(ias) of Q.714
#[test]
fn inactivity_is_tested() {
    let mut subject = Subject::active(Class3);
    subject.send(b"x");
    subject.receive(&data(Some((1, false, 0)), b"y", LOCAL));
    subject.sent();
    subject.wait(Duration::from_secs(299));
    assert_eq!(subject.sent(), []);
    subject.wait(Duration::from_secs(1));
    let Some(Message::InactivityTest(test)) = subject.sent().pop() else {
        panic!("a COIT");
    };
    assert_eq!(test.protocol_class, ProtocolClass::new(Class3));
    assert_eq!((test.source_reference, test.credit), (LOCAL, Credit(3)));
    let numbers = SequenceNumbers {
        received: number(1),
        more: false,
        sent: number(0),
    };
    assert_eq!(test.sequence_numbers, numbers);
    // Each message delays the test.
    subject.wait(Duration::from_secs(200));
    subject.receive(&inactivity_test(Class3, 1, 2));
    subject.send(b"z");
    assert_eq!(subject.sent().len(), 1);
    subject.wait(Duration::from_secs(299));
    assert_eq!(subject.sent(), []);
}

/// RFC 3868, section 3.3.11: T(iar) of Q.714
#[test]
fn silent_peers_are_released() {
    let mut subject = Subject::active(Class2);
    subject.wait(Duration::from_secs(600));
    subject.receive(&inactivity_test(Class2, 9, 9));
    subject.wait(Duration::from_secs(659));
    assert_eq!(subject.state(), ConnectionState::Active);
    subject.sent();
    subject.wait(Duration::from_secs(1));
    let cause = ReleaseCause::INACTIVITY_TIMER;
    assert_eq!(subject.sent(), [release(cause, TO_PEER)]);
    assert_eq!(
        subject.indications(),
        [disconnected(DisconnectReason::Released(cause))]
    );
}

/// RFC 3868, section 3.3.11: consistency of the connection data at both ends
#[test]
fn inactivity_tests_compare_the_ends() {
    let mut subject = Subject::active(Class3);
    for _ in 0..3 {
        subject.send(b"x");
    }
    assert_eq!(subject.sent().len(), 2);
    subject.receive(&inactivity_test(Class3, 1, 2));
    assert_eq!(subject.sent(), [data(Some((0, false, 2)), b"x", PEER)]);
    let cause = ReleaseCause::INCONSISTENT_DATA;
    let mut other_peer = inactivity_test(Class3, 0, 2);
    if let Message::InactivityTest(body) = &mut other_peer {
        body.source_reference = SourceReferenceNumber(9);
    }
    for test in [inactivity_test(Class2, 0, 2), other_peer] {
        let mut subject = Subject::active(Class3);
        subject.receive(&test);
        assert_eq!(subject.sent(), [release(cause, TO_PEER)]);
        assert_eq!(
            subject.indications(),
            [disconnected(DisconnectReason::Released(cause))]
        );
    }
}

/// RFC 3868, section 3.3.10
#[test]
fn errors_end_the_connection() {
    let mut subject = Subject::active(Class2);
    subject.receive(&error(ErrorCause::UNASSIGNED_REFERENCE, LOCAL));
    let reason = DisconnectReason::Error(ErrorCause::UNASSIGNED_REFERENCE);
    assert_eq!(subject.indications(), [disconnected(reason)]);
    assert_eq!(
        (subject.state(), subject.sent()),
        (ConnectionState::Released, vec![])
    );
    let mut subject = Subject::active(Class2);
    subject.receive(&error(ErrorCause::SERVICE_CLASS_MISMATCH, LOCAL));
    let cause = ReleaseCause::REMOTE_PROCEDURE_ERROR;
    assert_eq!(subject.sent(), [release(cause, TO_PEER)]);
    subject.receive(&error(ErrorCause::UNASSIGNED_REFERENCE, LOCAL));
    let reason = DisconnectReason::Released(cause);
    assert_eq!(subject.indications(), [disconnected(reason), UNCONFIRMED]);
}

/// RFC 3868, section 3.3.10: messages with another source reference number
#[test]
fn messages_of_other_sources_are_errors() {
    let other: References = (LOCAL, SourceReferenceNumber(9));
    for message in [
        release(ReleaseCause::END_USER, other),
        release_complete(other),
        reset(ResetCause::END_USER, other),
        reset_confirm(other),
    ] {
        let mut subject = Subject::active(Class3);
        subject.receive(&message);
        let answer = error(ErrorCause::INCONSISTENT_REFERENCE, other.1);
        assert_eq!(subject.sent(), [answer]);
        assert_eq!(subject.state(), ConnectionState::Active);
    }
}

/// RFC 3868, section 3.3.10: messages without a connection
#[test]
fn unassigned_references_are_answered() {
    let unassigned = error(ErrorCause::UNASSIGNED_REFERENCE, PEER);
    let cases = [
        (acknowledge(Class2), Some(unassigned.clone())),
        (
            reset(ResetCause::END_USER, TO_LOCAL),
            Some(unassigned.clone()),
        ),
        (reset_confirm(TO_LOCAL), Some(unassigned)),
        (
            release(ReleaseCause::END_USER, TO_LOCAL),
            Some(release_complete(TO_PEER)),
        ),
        (
            inactivity_test(Class2, 0, 0),
            Some(release(ReleaseCause::INCONSISTENT_DATA, TO_PEER)),
        ),
        (release_complete(TO_LOCAL), None),
        (refused(RefusalCause::UNQUALIFIED), None),
        (data(None, b"", LOCAL), None),
        (data_acknowledge(None, LOCAL), None),
        (error(ErrorCause::UNQUALIFIED, LOCAL), None),
    ];
    for (message, answer) in cases {
        assert_eq!(answer_unassigned(&message), answer);
    }
}

#[test]
fn lost_associations_end_the_connection() {
    let mut subject = Subject::active(Class2);
    subject.connection.handle_association_loss();
    let reason = DisconnectReason::Released(ReleaseCause::MTP_FAILURE);
    assert_eq!(subject.indications(), [disconnected(reason)]);
    subject.connection.handle_association_loss();
    assert_eq!((subject.indications(), subject.sent()), (vec![], vec![]));
    let mut subject = Subject::active(Class2);
    subject
        .connection
        .disconnect(subject.now, ReleaseCause::END_USER, None)
        .expect("a connection");
    subject.connection.handle_association_loss();
    assert_eq!(subject.indications(), [UNCONFIRMED]);
}

#[test]
fn limits_are_errors() {
    let mut subject = Subject::active(Class3);
    let now = subject.now;
    let long = subject.connection.send(now, &vec![0; 101].into());
    let too_long = |length, limit| Err(ConnectionRequestError::TooLong { length, limit });
    assert_eq!(long, too_long(101, 100));
    // The window is closed after two segments; then octets and segments are bounded.
    subject.send(&[0; 100]);
    subject.send(&[0; 60]);
    let full = subject.connection.send(now, &vec![0; 9].into());
    assert_eq!(full, Err(ConnectionRequestError::QueueFull));
    let long = subject
        .connection
        .disconnect(now, ReleaseCause::END_USER, Some(vec![0; 9].into()));
    assert_eq!(long, too_long(9, 8));
    for (credit, max_segment, error) in [
        (0, 8, ConnectionConfigError::Credit(0)),
        (128, 8, ConnectionConfigError::Credit(128)),
        (1, 0, ConnectionConfigError::MaxSegment(0)),
        (1, 65_401, ConnectionConfigError::MaxSegment(65_401)),
    ] {
        let config = ConnectionConfig {
            credit,
            max_segment,
            ..config()
        };
        let found = Connection::request(START, config, request(Class2)).map(drop);
        assert_eq!(found, Err(ConnectionRequestError::Config(error)));
    }
    // The longest segments fit into messages.
    let config = ConnectionConfig {
        max_segment: 65_400,
        ..ConnectionConfig::default()
    };
    let longest = ConnectRequest {
        data: Some(vec![0; 65_000].into()),
        ..request(Class2)
    };
    let connection = Connection::request(START, config, longest).expect("a valid request");
    let mut subject = Subject {
        connection,
        now: START,
    };
    subject.sent();
    subject.receive(&acknowledge(Class2));
    subject.send(&vec![0; 65_400]);
    assert_eq!(subject.sent().len(), 1);
}

/// RFC 3868, section 1.5.4
#[test]
fn streams_follow_the_local_reference() {
    let subject = Subject::active(Class2);
    let streams = [0, 1, 2, 3, 17, u16::MAX].map(|count| subject.connection.stream(count));
    assert_eq!(streams, [0, 0, 1, 2, 2, 18]);
    assert_eq!(subject.connection.local_reference(), LOCAL);
}
