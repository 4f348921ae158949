//! Connection section, each procedure by itself. The peer is the test.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::sua::connection::*;
use carrick_sigtran::sua::*;

use super::samples::{CONTEXT, host};
use crate::samples::code;

use ConnectionIndication as Indication;
use ServiceClass::{Class2, Class3};

pub(crate) const START: Time = Time::from_millis(1);
const LOCAL: SourceReferenceNumber = SourceReferenceNumber(0x11);
const PEER: SourceReferenceNumber = SourceReferenceNumber(0x22);

pub(crate) fn request(class: ServiceClass) -> ConnectRequest {
    ConnectRequest {
        routing_context: CONTEXT,
        class,
        local_reference: LOCAL,
        destination: Address::point_code(code(5), SubsystemNumber(8)),
        source: Some(Address::point_code(code(6), SubsystemNumber(9))),
        sequence_control: SequenceControl(3),
        hop_counter: HopCounter::new(15),
        data: Some(Bytes::from_static(b"hello")),
    }
}

fn config() -> ConnectionConfig {
    ConnectionConfig {
        credit: 3,
        max_segment: 8,
        max_message: 100,
        max_queued_segments: 20,
        max_queued_octets: 150,
        ..ConnectionConfig::default()
    }
}

/// Connection whose peer is the test.
struct Subject {
    connection: Connection,
    now: Time,
}

impl Subject {
    /// Connection that sent a CORE.
    fn outgoing(class: ServiceClass) -> Self {
        let connection = Connection::request(START, config(), request(class));
        let mut subject = Self {
            connection: connection.expect("a valid request"),
            now: START,
        };
        assert_eq!(subject.sent().len(), 1);
        subject
    }

    /// Established connection, requested by this end.
    fn active(class: ServiceClass) -> Self {
        let mut subject = Self::outgoing(class);
        subject.receive(&acknowledge(class));
        assert_eq!(subject.state(), ConnectionState::Active);
        assert!(matches!(
            subject.indications()[..],
            [Indication::Connected { .. }]
        ));
        subject
    }

    fn state(&self) -> ConnectionState {
        self.connection.state()
    }

    fn receive(&mut self, message: &Message) {
        self.connection.handle_message(self.now, message);
    }

    /// Advances the time, with the timeouts until then.
    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(next) = self.connection.poll_timeout().filter(|&next| next <= end) {
            self.now = next;
            self.connection.handle_timeout(next);
        }
        self.now = end;
    }

    fn sent(&mut self) -> Vec<Message> {
        let sent: Vec<_> = std::iter::from_fn(|| self.connection.poll_transmit()).collect();
        for message in &sent {
            message.encode().expect("a valid message");
        }
        sent
    }

    fn indications(&mut self) -> Vec<Indication> {
        std::iter::from_fn(|| self.connection.poll_indication()).collect()
    }

    fn send(&mut self, data: &[u8]) {
        let data = Bytes::copy_from_slice(data);
        self.connection
            .send(self.now, &data)
            .expect("the data phase");
    }
}

fn acknowledge(class: ServiceClass) -> Message {
    Message::ConnectionAcknowledge(ConnectionAcknowledge {
        routing_context: CONTEXT,
        protocol_class: ProtocolClass::new(class),
        destination_reference: DestinationReferenceNumber(LOCAL.0),
        source_reference: PEER,
        sequence_control: SequenceControl(3),
        credit: (class == Class3).then_some(Credit(2)),
        source: Some(SourceAddress(host())),
        importance: None,
        priority: None,
        destination: None,
        data: Some(UserData(Bytes::from_static(b"welcome"))),
    })
}

fn refused(cause: RefusalCause) -> Message {
    Message::ConnectionRefused(ConnectionRefused {
        routing_context: CONTEXT,
        destination_reference: DestinationReferenceNumber(LOCAL.0),
        cause,
        source: None,
        destination: None,
        importance: None,
        data: Some(UserData(Bytes::from_static(b"no"))),
    })
}

fn number(value: u8) -> SequenceNumber {
    SequenceNumber::new(value).expect("7 bits")
}

/// CODT with P(R), the more data indication and P(S).
fn data(numbers: Option<(u8, bool, u8)>, data: &[u8], to: SourceReferenceNumber) -> Message {
    let sequence_numbers = numbers.map(|(received, more, sent)| SequenceNumbers {
        received: number(received),
        more,
        sent: number(sent),
    });
    Message::ConnectionOrientedDataTransfer(ConnectionOrientedDataTransfer {
        routing_context: CONTEXT,
        sequence_numbers,
        destination_reference: DestinationReferenceNumber(to.0),
        priority: None,
        correlation_id: None,
        data: UserData(Bytes::copy_from_slice(data)),
    })
}

/// CODA: of data with a number and a credit, or of expedited data.
fn data_acknowledge(received: Option<(u8, u8)>, to: SourceReferenceNumber) -> Message {
    Message::ConnectionOrientedDataAcknowledge(ConnectionOrientedDataAcknowledge {
        routing_context: CONTEXT,
        destination_reference: DestinationReferenceNumber(to.0),
        received: received.map(|(received, _)| ReceiveSequenceNumber(number(received))),
        credit: received.map(|(_, credit)| Credit(credit)),
    })
}

/// Destination and source reference number of a message.
type References = (SourceReferenceNumber, SourceReferenceNumber);
const TO_PEER: References = (PEER, LOCAL);
const TO_LOCAL: References = (LOCAL, PEER);

fn release(cause: ReleaseCause, (to, from): References) -> Message {
    Message::ReleaseRequest(ReleaseRequest {
        routing_context: CONTEXT,
        destination_reference: DestinationReferenceNumber(to.0),
        source_reference: from,
        cause,
        importance: None,
        data: None,
    })
}

fn release_complete((to, from): References) -> Message {
    Message::ReleaseComplete(ReleaseComplete {
        routing_context: CONTEXT,
        destination_reference: DestinationReferenceNumber(to.0),
        source_reference: from,
        importance: None,
    })
}

fn reset(cause: ResetCause, (to, from): References) -> Message {
    Message::ResetRequest(ResetRequest {
        routing_context: CONTEXT,
        destination_reference: DestinationReferenceNumber(to.0),
        source_reference: from,
        cause,
    })
}

fn reset_confirm((to, from): References) -> Message {
    Message::ResetConfirm(ResetConfirm {
        routing_context: CONTEXT,
        destination_reference: DestinationReferenceNumber(to.0),
        source_reference: from,
    })
}

fn error(cause: ErrorCause, to: SourceReferenceNumber) -> Message {
    Message::ConnectionOrientedError(ConnectionOrientedError {
        routing_context: CONTEXT,
        destination_reference: DestinationReferenceNumber(to.0),
        cause,
    })
}

fn inactivity_test(class: ServiceClass, received: u8, credit: u8) -> Message {
    Message::InactivityTest(InactivityTest {
        routing_context: CONTEXT,
        protocol_class: ProtocolClass::new(class),
        source_reference: PEER,
        destination_reference: DestinationReferenceNumber(LOCAL.0),
        sequence_numbers: SequenceNumbers {
            received: number(received),
            ..SequenceNumbers::default()
        },
        credit: Credit(credit),
    })
}

fn disconnected(reason: DisconnectReason) -> Indication {
    Indication::Disconnected { reason, data: None }
}

const CONFIRMED: Indication = Indication::Released { confirmed: true };
const UNCONFIRMED: Indication = Indication::Released { confirmed: false };

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

/// RFC 3868, section 3.3.1: DT1 with the more data indication
#[test]
fn class_2_segments_and_reassembles() {
    let mut subject = Subject::active(Class2);
    subject.send(b"0123456789abcdef!");
    subject.send(b"");
    let sent = [
        data(Some((0, true, 0)), b"01234567", PEER),
        data(Some((0, true, 0)), b"89abcdef", PEER),
        data(Some((0, false, 0)), b"!", PEER),
        data(Some((0, false, 0)), b"", PEER),
    ];
    assert_eq!(subject.sent(), sent);
    subject.receive(&data(Some((0, true, 0)), b"one ", LOCAL));
    subject.receive(&data(Some((0, true, 0)), b"", LOCAL));
    assert_eq!(subject.indications(), []);
    subject.receive(&data(Some((0, false, 0)), b"message", LOCAL));
    let message = Indication::Data(Bytes::from_static(b"one message"));
    assert_eq!(subject.indications(), [message]);
    assert_eq!(subject.sent(), []);
}

/// RFC 3868, section 3.3.1: bounded reassembly
#[test]
fn endless_messages_release_the_connection() {
    let mut subject = Subject::active(Class2);
    for _ in 0..10 {
        subject.receive(&data(Some((0, true, 0)), &[7; 10], LOCAL));
    }
    assert_eq!(subject.state(), ConnectionState::Active);
    subject.receive(&data(Some((0, true, 0)), &[7], LOCAL));
    let cause = ReleaseCause::REMOTE_PROCEDURE_ERROR;
    assert_eq!(subject.sent(), [release(cause, TO_PEER)]);
    assert_eq!(
        subject.indications(),
        [disconnected(DisconnectReason::Released(cause))]
    );
}

/// RFC 3868, sections 3.3.1 and 3.3.2: DT2 and AK with the window of the COAK
#[test]
fn class_3_sends_within_the_window() {
    let mut subject = Subject::active(Class3);
    for octet in 0..5 {
        subject.send(&[octet]);
    }
    let dt2 = |received, sent| data(Some((received, false, sent)), &[sent], PEER);
    assert_eq!(subject.sent(), [dt2(0, 0), dt2(0, 1)]);
    subject.receive(&data_acknowledge(Some((1, 2)), LOCAL));
    assert_eq!(subject.sent(), [dt2(0, 2)]);
    // A smaller window, then a larger one.
    subject.receive(&data_acknowledge(Some((2, 0)), LOCAL));
    subject.receive(&data_acknowledge(Some((3, 0)), LOCAL));
    assert_eq!(subject.sent(), []);
    subject.receive(&data_acknowledge(Some((3, 3)), LOCAL));
    assert_eq!(subject.sent(), [dt2(0, 3), dt2(0, 4)]);
}

/// RFC 3868, section 3.10.7: P(R) of data acknowledges
#[test]
fn class_3_acknowledges_with_data() {
    let mut subject = Subject::active(Class3);
    subject.receive(&data(Some((0, false, 0)), b"a", LOCAL));
    assert_eq!(subject.sent(), [data_acknowledge(Some((1, 3)), PEER)]);
    for _ in 0..3 {
        subject.send(b"x");
    }
    assert_eq!(subject.sent().len(), 2);
    // The data that the P(R) admits acknowledge in their turn.
    subject.receive(&data(Some((1, false, 1)), b"b", LOCAL));
    assert_eq!(
        subject.sent(),
        [
            data(Some((1, false, 2)), b"x", PEER),
            data_acknowledge(Some((2, 3)), PEER)
        ]
    );
    assert_eq!(subject.indications().len(), 2);
}

/// RFC 3868, section 3.10.10: the window closes while the user takes nothing
#[test]
fn paused_users_close_the_window() {
    let mut subject = Subject::active(Class3);
    subject.connection.pause().expect("class 3");
    for sent in 0..3 {
        subject.receive(&data(Some((0, sent == 1, sent)), &[sent], LOCAL));
    }
    subject.send(b"x");
    assert_eq!(subject.sent(), [data(Some((0, false, 0)), b"x", PEER)]);
    assert_eq!(subject.indications(), []);
    subject.connection.resume(subject.now);
    assert_eq!(subject.sent(), [data_acknowledge(Some((3, 3)), PEER)]);
    let messages =
        [&[0][..], &[1, 2]].map(|octets| Indication::Data(Bytes::copy_from_slice(octets)));
    assert_eq!(subject.indications(), messages);
    // Beyond the window.
    subject.connection.pause().expect("class 3");
    for sent in 3..7 {
        subject.receive(&data(Some((0, false, sent)), &[sent], LOCAL));
    }
    assert_eq!(subject.sent(), [reset(ResetCause::OUT_OF_WINDOW, TO_PEER)]);
}

/// RFC 3868, section 3.3.1: ED; section 3.3.2: EA
#[test]
fn expedited_data_pass_the_window() {
    let mut subject = Subject::active(Class3);
    for octet in 0..3 {
        subject.send(&[octet]);
    }
    assert_eq!(subject.sent().len(), 2);
    let now = subject.now;
    for octets in [&b"first"[..], b"second"] {
        let octets = Bytes::copy_from_slice(octets);
        subject
            .connection
            .send_expedited(now, octets)
            .expect("class 3");
    }
    assert_eq!(subject.sent(), [data(None, b"first", PEER)]);
    subject.receive(&data_acknowledge(None, LOCAL));
    assert_eq!(subject.sent(), [data(None, b"second", PEER)]);
    subject.receive(&data_acknowledge(None, LOCAL));
    assert_eq!(subject.sent(), []);
    subject.receive(&data(None, b"urgent", LOCAL));
    assert_eq!(subject.sent(), [data_acknowledge(None, PEER)]);
    let indication = Indication::ExpeditedData(Bytes::from_static(b"urgent"));
    assert_eq!(subject.indications(), [indication]);
    let long = subject.connection.send_expedited(now, vec![0; 33].into());
    let error = ConnectionRequestError::TooLong {
        length: 33,
        limit: 32,
    };
    assert_eq!(long, Err(error));
    for _ in 0..17 {
        let _ = subject.connection.send_expedited(now, Bytes::new());
    }
    let full = subject.connection.send_expedited(now, Bytes::new());
    assert_eq!(full, Err(ConnectionRequestError::QueueFull));
}

/// RFC 3868, section 3.3.8: procedure errors of class 3
#[test]
fn wrong_sequence_numbers_reset_the_connection() {
    let first = data(Some((0, false, 0)), b"a", LOCAL);
    let ends: [(&[Message], Message, ResetCause); 6] = [
        (
            &[],
            data(Some((0, false, 1)), b"x", LOCAL),
            ResetCause::INCORRECT_FIRST_NUMBER,
        ),
        (
            std::slice::from_ref(&first),
            data(Some((0, false, 3)), b"x", LOCAL),
            ResetCause::INCORRECT_SENT_NUMBER,
        ),
        (
            std::slice::from_ref(&first),
            data(Some((0, false, 0)), b"x", LOCAL),
            ResetCause::OUT_OF_WINDOW,
        ),
        (
            &[],
            data(Some((1, false, 0)), b"x", LOCAL),
            ResetCause::INCORRECT_RECEIVED_NUMBER,
        ),
        (
            &[],
            data_acknowledge(Some((127, 3)), LOCAL),
            ResetCause::INCORRECT_RECEIVED_NUMBER,
        ),
        (
            &[],
            inactivity_test(Class3, 5, 3),
            ResetCause::INCORRECT_RECEIVED_NUMBER,
        ),
    ];
    for (before, wrong, cause) in ends {
        let mut subject = Subject::active(Class3);
        for message in before {
            subject.receive(message);
        }
        subject.sent();
        subject.indications();
        subject.receive(&wrong);
        assert_eq!(subject.sent(), [reset(cause, TO_PEER)], "{wrong:?}");
        assert_eq!(subject.indications(), [Indication::Reset(cause)]);
        assert_eq!(subject.state(), ConnectionState::ResetOutgoing);
        // Data are discarded until the confirmation, and begin with 0 then.
        subject.receive(&first);
        assert_eq!(subject.indications(), []);
        subject.receive(&reset_confirm(TO_LOCAL));
        subject.receive(&first);
        let message = Indication::Data(Bytes::from_static(b"a"));
        assert_eq!(subject.indications(), [Indication::ResetConfirmed, message]);
    }
}

/// RFC 3868, sections 3.3.8 and 3.3.9
#[test]
fn resets_are_answered_by_the_user() {
    let mut subject = Subject::active(Class3);
    for _ in 0..4 {
        subject.send(b"lost");
    }
    subject.sent();
    subject.receive(&reset(ResetCause::END_USER, TO_LOCAL));
    assert_eq!(
        subject.indications(),
        [Indication::Reset(ResetCause::END_USER)]
    );
    assert_eq!(subject.state(), ConnectionState::ResetIncoming);
    let error = subject.connection.send(subject.now, &Bytes::new());
    assert_eq!(
        error,
        Err(ConnectionRequestError::State(
            ConnectionState::ResetIncoming
        ))
    );
    assert_eq!(subject.sent(), []);
    subject
        .connection
        .reset_response(subject.now)
        .expect("a reset");
    subject.send(b"new");
    let sent = [
        reset_confirm(TO_PEER),
        data(Some((0, false, 0)), b"new", PEER),
    ];
    assert_eq!(subject.sent(), sent);
    assert!(subject.connection.reset_response(subject.now).is_err());
}

/// RFC 3868, section 3.3.8: both ends reset the connection
#[test]
fn simultaneous_resets_confirm_each_other() {
    let mut subject = Subject::active(Class3);
    subject
        .connection
        .reset(subject.now, ResetCause::SCCP_USER)
        .expect("class 3");
    assert_eq!(subject.sent(), [reset(ResetCause::SCCP_USER, TO_PEER)]);
    subject.receive(&reset(ResetCause::END_USER, TO_LOCAL));
    assert_eq!(subject.indications(), [Indication::ResetConfirmed]);
    assert_eq!(subject.state(), ConnectionState::Active);
    assert_eq!(subject.sent(), []);
}

/// RFC 3868, section 3.3.8: T(reset) of Q.714
#[test]
fn unanswered_resets_release_the_connection() {
    let mut subject = Subject::active(Class3);
    subject
        .connection
        .reset(subject.now, ResetCause::SCCP_USER)
        .expect("class 3");
    subject.sent();
    subject.wait(Duration::from_secs(10));
    let cause = ReleaseCause::RESET_TIMER;
    assert_eq!(subject.sent(), [release(cause, TO_PEER)]);
    assert_eq!(
        subject.indications(),
        [disconnected(DisconnectReason::Released(cause))]
    );
}

/// RFC 3868, section 3.3.10: messages of the other class
#[test]
fn class_3_messages_in_class_2_are_errors() {
    let messages = [
        data(None, b"expedited", LOCAL),
        data_acknowledge(Some((0, 3)), LOCAL),
        reset(ResetCause::END_USER, TO_LOCAL),
    ];
    for message in messages {
        let mut subject = Subject::active(Class2);
        subject.receive(&message);
        assert_eq!(
            subject.sent(),
            [error(ErrorCause::SERVICE_CLASS_MISMATCH, PEER)]
        );
        assert_eq!(subject.state(), ConnectionState::Active);
    }
    let mut subject = Subject::active(Class2);
    let class = Err(ConnectionRequestError::Class(Class2));
    let now = subject.now;
    assert_eq!(subject.connection.send_expedited(now, Bytes::new()), class);
    assert_eq!(subject.connection.reset(now, ResetCause::END_USER), class);
}

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
