//! Connection section, each procedure by itself. The peer is the test.

mod establishment;
mod release;
mod transfer;

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
