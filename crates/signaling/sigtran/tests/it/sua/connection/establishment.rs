//! Establishment and refusal.

use super::*;

/// RFC 3868, section 3.3.3
#[test]
fn requests_send_a_core() {
    for class in [Class2, Class3] {
        let connection = Connection::request(START, config(), request(class));
        let mut connection = connection.expect("a valid request");
        let Some(Message::ConnectionRequest(core)) = connection.poll_transmit() else {
            panic!("a CORE");
        };
        assert_eq!(core.protocol_class, ProtocolClass::new(class));
        assert_eq!(core.source_reference, LOCAL);
        assert_eq!(core.credit, (class == Class3).then_some(Credit(3)));
        assert_eq!(core.sequence_numbers.is_some(), class == Class3);
        assert_eq!(connection.state(), ConnectionState::OutgoingPending);
        Message::ConnectionRequest(core)
            .encode()
            .expect("a valid CORE");
    }
    for class in [ServiceClass::Class0, ServiceClass::Class1] {
        let error = Connection::request(START, config(), request(class)).map(drop);
        assert_eq!(error, Err(ConnectionRequestError::InvalidClass(class)));
    }
}

/// RFC 3868, section 3.3.4
#[test]
fn coak_establishes_the_connection() {
    let mut subject = Subject::outgoing(Class3);
    subject.receive(&acknowledge(Class2));
    let connected = Indication::Connected {
        class: Class2,
        responding: Some(host()),
        data: Some(Bytes::from_static(b"welcome")),
    };
    assert_eq!(subject.indications(), [connected]);
    assert_eq!(subject.connection.class(), Class2);
    assert_eq!(
        subject.connection.pause(),
        Err(ConnectionRequestError::Class(Class2))
    );
    // A class above the requested one is an error.
    let mut subject = Subject::outgoing(Class2);
    subject.receive(&acknowledge(Class3));
    let cause = ReleaseCause::INCONSISTENT_DATA;
    assert_eq!(subject.sent(), [release(cause, TO_PEER)]);
    assert_eq!(
        subject.indications(),
        [disconnected(DisconnectReason::Released(cause))]
    );
}

/// RFC 3868, section 3.3.4
#[test]
fn accepted_requests_are_acknowledged() {
    let mut peer = Connection::request(START, config(), request(Class3)).expect("a request");
    let Some(Message::ConnectionRequest(core)) = peer.poll_transmit() else {
        panic!("a CORE");
    };
    let mut connection = Connection::incoming(config(), PEER, &core).expect("a CORE");
    assert_eq!(connection.state(), ConnectionState::IncomingPending);
    let error = connection.accept(START, ServiceClass::Class1, None, None);
    assert_eq!(
        error,
        Err(ConnectionRequestError::InvalidClass(ServiceClass::Class1))
    );
    connection
        .accept(START, Class3, Some(host()), None)
        .expect("a CORE waits");
    let Some(Message::ConnectionAcknowledge(coak)) = connection.poll_transmit() else {
        panic!("a COAK");
    };
    assert_eq!(coak.destination_reference.0, LOCAL.0);
    assert_eq!(coak.source_reference, PEER);
    assert_eq!(coak.credit, Some(Credit(3)));
    // The CORE has a source address.
    let source = request(Class3).source.map(DestinationAddress);
    assert_eq!(coak.destination, source);
    assert_eq!(coak.source, Some(SourceAddress(host())));
    assert_eq!(connection.state(), ConnectionState::Active);
    let error = connection.accept(START, Class3, None, None);
    assert_eq!(
        error,
        Err(ConnectionRequestError::State(ConnectionState::Active))
    );
}

/// RFC 3868, section 3.3.5
#[test]
fn refusals_end_both_ends() {
    let mut subject = Subject::outgoing(Class2);
    subject.receive(&refused(RefusalCause::UNEQUIPPED_USER));
    let indication = Indication::Disconnected {
        reason: DisconnectReason::Refused(RefusalCause::UNEQUIPPED_USER),
        data: Some(Bytes::from_static(b"no")),
    };
    assert_eq!(subject.indications(), [indication]);
    assert_eq!(subject.state(), ConnectionState::Released);
    assert_eq!(subject.connection.poll_timeout(), None);

    let mut peer = Connection::request(START, config(), request(Class2)).expect("a request");
    let Some(Message::ConnectionRequest(core)) = peer.poll_transmit() else {
        panic!("a CORE");
    };
    let mut connection = Connection::incoming(config(), PEER, &core).expect("a CORE");
    let cause = RefusalCause::END_USER_CONGESTION;
    connection.refuse(START, cause, None).expect("a CORE waits");
    let Some(Message::ConnectionRefused(coref)) = connection.poll_transmit() else {
        panic!("a COREF");
    };
    assert_eq!(
        (coref.destination_reference.0, coref.cause),
        (LOCAL.0, cause)
    );
    assert_eq!(connection.state(), ConnectionState::Released);
}

/// RFC 3868, section 3.3.3: T(conn est) of Q.714
#[test]
fn unanswered_requests_fail() {
    let mut subject = Subject::outgoing(Class2);
    subject.wait(Duration::from_secs(59));
    assert_eq!(subject.state(), ConnectionState::OutgoingPending);
    subject.wait(Duration::from_secs(1));
    let reason = DisconnectReason::Refused(RefusalCause::ESTABLISHMENT_TIMER);
    assert_eq!(subject.indications(), [disconnected(reason)]);
    // A late COAK is answered, so that the peer does not keep the connection.
    subject.receive(&acknowledge(Class2));
    assert_eq!(
        subject.sent(),
        [error(ErrorCause::UNASSIGNED_REFERENCE, PEER)]
    );
}

/// RFC 3868, section 3.3.6: disconnection before the answer
#[test]
fn early_disconnections_wait_for_the_answer() {
    let pending = || {
        let mut subject = Subject::outgoing(Class2);
        let cause = ReleaseCause::SCCP_USER;
        subject
            .connection
            .disconnect(START, cause, None)
            .expect("a pending request");
        assert_eq!(subject.state(), ConnectionState::WaitForConfirm);
        assert!(subject.connection.disconnect(START, cause, None).is_err());
        assert_eq!(subject.sent(), []);
        subject
    };
    let mut subject = pending();
    subject.receive(&acknowledge(Class2));
    assert_eq!(subject.sent(), [release(ReleaseCause::END_USER, TO_PEER)]);
    subject.receive(&release_complete(TO_LOCAL));
    assert_eq!(subject.indications(), [CONFIRMED]);
    let mut subject = pending();
    subject.receive(&refused(RefusalCause::UNQUALIFIED));
    assert_eq!(subject.indications(), [CONFIRMED]);
    let mut subject = pending();
    subject.wait(Duration::from_secs(60));
    assert_eq!(subject.indications(), [UNCONFIRMED]);
    assert_eq!(subject.state(), ConnectionState::Released);
}
