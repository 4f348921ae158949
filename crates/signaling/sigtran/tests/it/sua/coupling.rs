//! Connection sections that a relay couples.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::sua::connection::*;
use carrick_sigtran::sua::*;
use proptest::collection::vec;
use proptest::prelude::*;

use super::connection::{START, request};
use super::connection_peers::set_sequence_numbers;
use super::samples;
use crate::states::address;

use ConnectionIndication as Indication;
use ConnectionTableIndication as TableIndication;

/// Both ends, and the relay between them: a CORE of an end is relayed to the other one.
struct Relayed {
    ends: [ConnectionTable<()>; 2],
    relay: ConnectionTable<usize>,
    now: Time,
    /// CORE messages that reached the second end.
    requests: Vec<ConnectionRequest>,
}

impl Relayed {
    fn new(relay: ConnectionTableConfig) -> Self {
        let table = || ConnectionTable::new(ConnectionTableConfig::default());
        Self {
            ends: [table(), table()],
            relay: ConnectionTable::new(relay),
            now: START,
            requests: Vec::new(),
        }
    }

    /// Exchanges messages until there are none.
    fn run(&mut self) {
        let mut is_idle = false;
        while !is_idle {
            is_idle = true;
            for end in 0..2 {
                while let Some(((), message)) = self.ends[end].poll_transmit() {
                    self.receive(end, &message);
                    is_idle = false;
                }
            }
            while let Some((end, message)) = self.relay.poll_transmit() {
                message.encode().expect("a message that fits");
                if let Message::ConnectionRequest(request) = &message {
                    self.requests.push(request.clone());
                }
                self.ends[end].handle_message(self.now, &(), &message);
                is_idle = false;
            }
        }
        assert_eq!(self.relay.poll_indication(), None, "a relay has no user");
    }

    /// The relay gets a message of an end.
    fn receive(&mut self, end: usize, message: &Message) {
        message.encode().expect("a message that fits");
        let Message::ConnectionRequest(request) = message else {
            self.relay.handle_message(self.now, &end, message);
            return;
        };
        let relayed = ConnectionRequest {
            routing_context: RoutingContext(2),
            destination: DestinationAddress(address(9)),
            ..request.clone()
        };
        self.relay.relay(self.now, &end, request, 1 - end, relayed);
    }

    fn request(&mut self, class: ServiceClass) -> SourceReferenceNumber {
        let requested = self.ends[0].request(self.now, (), |local_reference| ConnectRequest {
            local_reference,
            data: Some(Bytes::from_static(b"hello")),
            ..request(class)
        });
        requested.expect("room")
    }

    fn indications(&mut self, end: usize) -> Vec<TableIndication> {
        let table = &mut self.ends[end];
        std::iter::from_fn(|| table.poll_indication())
            .map(|(_, indication)| indication)
            .collect()
    }

    /// Returns the reference number of the connection that the second end is asked for.
    fn requested(&mut self) -> SourceReferenceNumber {
        match self.ends[1].poll_indication() {
            Some((reference, TableIndication::Requested(_))) => reference,
            other => panic!("{other:?}"),
        }
    }

    /// Makes a request of a user.
    fn change(
        &mut self,
        end: usize,
        reference: SourceReferenceNumber,
        change: impl FnOnce(&mut Connection) -> Result<(), ConnectionRequestError>,
    ) {
        let changed = self.ends[end].change(self.now, reference, change);
        changed.expect("a connection").expect("the request");
        self.run();
    }

    /// Establishes a connection.
    fn connect(class: ServiceClass) -> (Self, [SourceReferenceNumber; 2]) {
        let mut relayed = Self::new(ConnectionTableConfig::default());
        let one = relayed.request(class);
        relayed.run();
        let two = relayed.requested();
        let now = relayed.now;
        relayed.change(1, two, |end| end.accept(now, class, None, None));
        assert_eq!(relayed.indications(0).len(), 1);
        (relayed, [one, two])
    }

    fn is_empty(&self) -> bool {
        self.relay.is_empty() && self.ends.iter().all(ConnectionTable::is_empty)
    }
}

fn disconnected(reason: DisconnectReason, data: Option<&'static [u8]>) -> TableIndication {
    TableIndication::Connection(Indication::Disconnected {
        reason,
        data: data.map(Bytes::from_static),
    })
}

/// RFC 3868, section 1.5.3: the CORE has the new address; section A.3.2: each section has its own references
#[test]
fn accepted_connections_are_coupled() {
    let mut relayed = Relayed::new(ConnectionTableConfig::default());
    let one = relayed.request(ServiceClass::Class3);
    relayed.run();
    let core = &relayed.requests[0];
    assert_eq!(core.destination, DestinationAddress(address(9)));
    assert_eq!(core.routing_context, RoutingContext(2));
    let source = request(ServiceClass::Class3).source.map(SourceAddress);
    assert_eq!(core.source, source);
    let hello = UserData(Bytes::from_static(b"hello"));
    assert_eq!(core.data, Some(hello));
    let two = relayed.requested();
    let now = relayed.now;
    // The lower class is that of both sections.
    relayed.change(1, two, |end| {
        let data = Some(Bytes::from_static(b"welcome"));
        end.accept(now, ServiceClass::Class2, Some(address(9)), data)
    });
    let connected = Indication::Connected {
        class: ServiceClass::Class2,
        responding: Some(address(9)),
        data: Some(Bytes::from_static(b"welcome")),
    };
    let connected = TableIndication::Connection(connected);
    assert_eq!(relayed.indications(0), [connected]);
    let data = Bytes::from_static(b"data");
    relayed.change(0, one, |end| end.send(now, &data));
    relayed.change(1, two, |end| end.send(now, &data));
    for end in 0..2 {
        let received = TableIndication::Connection(Indication::Data(data.clone()));
        assert_eq!(relayed.indications(end), [received]);
    }
    let bye = Some(Bytes::from_static(b"bye"));
    relayed.change(1, two, |end| {
        end.disconnect(now, ReleaseCause::SCCP_USER, bye)
    });
    let reason = DisconnectReason::Released(ReleaseCause::SCCP_USER);
    assert_eq!(relayed.indications(0), [disconnected(reason, Some(b"bye"))]);
    assert!(relayed.is_empty());
}

/// RFC 3868, sections 1.5.3 and 3.3.3
#[test]
fn refusals_pass_the_relay() {
    let mut relayed = Relayed::new(ConnectionTableConfig::default());
    relayed.request(ServiceClass::Class2);
    relayed.run();
    let (two, now) = (relayed.requested(), relayed.now);
    let data = Some(Bytes::from_static(b"busy"));
    let cause = RefusalCause::END_USER_CONGESTION;
    relayed.change(1, two, |end| end.refuse(now, cause, data));
    let refused = disconnected(DisconnectReason::Refused(cause), Some(b"busy"));
    assert_eq!(relayed.indications(0), [refused]);
    assert!(relayed.is_empty());
}

/// RFC 3868, section 1.4.2.2: T(conn est) of the second section
#[test]
fn requests_without_an_answer_are_refused() {
    let establishment = Duration::from_secs(5);
    let mut relayed = Relayed::new(ConnectionTableConfig {
        connection: ConnectionConfig {
            establishment,
            ..ConnectionConfig::default()
        },
        ..ConnectionTableConfig::default()
    });
    relayed.request(ServiceClass::Class2);
    relayed.run();
    relayed.requested();
    assert_eq!(relayed.relay.poll_timeout(), Some(START + establishment));
    relayed.now += establishment;
    relayed.relay.handle_timeout(relayed.now);
    relayed.run();
    let reason = DisconnectReason::Refused(RefusalCause::ESTABLISHMENT_TIMER);
    assert_eq!(relayed.indications(0), [disconnected(reason, None)]);
    assert!(relayed.relay.is_empty());
}

/// A relayed connection takes two of the connections of the table
#[test]
fn full_relays_refuse() {
    for max_connections in [0, 1] {
        let mut relayed = Relayed::new(ConnectionTableConfig {
            max_connections,
            ..ConnectionTableConfig::default()
        });
        relayed.request(ServiceClass::Class2);
        relayed.run();
        assert_eq!(relayed.requests, []);
        let reason = DisconnectReason::Refused(RefusalCause::QOS_UNAVAILABLE_TRANSIENT);
        assert_eq!(relayed.indications(0), [disconnected(reason, None)]);
        assert!(relayed.is_empty());
    }
}

/// RFC 3868, section 1.3.2: the loss of the association of one section ends both
#[test]
fn lost_sections_release_the_coupled() {
    for lost in 0..2 {
        let (mut relayed, _) = Relayed::connect(ServiceClass::Class3);
        relayed.relay.handle_association_loss(relayed.now, &lost);
        relayed.run();
        let reason = DisconnectReason::Released(ReleaseCause::MTP_FAILURE);
        let expected = disconnected(reason, None);
        assert_eq!(relayed.indications(1 - lost), [expected]);
        assert_eq!(relayed.indications(lost), []);
        assert!(relayed.relay.is_empty());
    }
}

/// RFC 3868, section 1.3.2: the association is lost before the connection is accepted
#[test]
fn lost_destinations_refuse() {
    let mut relayed = Relayed::new(ConnectionTableConfig::default());
    relayed.request(ServiceClass::Class2);
    relayed.run();
    relayed.relay.handle_association_loss(relayed.now, &1);
    relayed.run();
    let reason = DisconnectReason::Refused(RefusalCause::DESTINATION_INACCESSIBLE);
    assert_eq!(relayed.indications(0), [disconnected(reason, None)]);
    assert!(relayed.relay.is_empty());
}

/// RFC 3868, section 1.4.2.3: a receiver that takes no data stops the sender behind the relay
#[test]
fn closed_windows_reach_the_sender() {
    let (mut relayed, [one, two]) = Relayed::connect(ServiceClass::Class3);
    relayed.change(1, two, Connection::pause);
    let now = relayed.now;
    let octets = Bytes::from(vec![1; 10_000]);
    let mut sent = 0;
    let is_sent = |relayed: &mut Relayed| {
        let sent = relayed.ends[0].change(now, one, |end| end.send(now, &octets));
        relayed.run();
        sent == Some(Ok(()))
    };
    while is_sent(&mut relayed) {
        sent += 1;
    }
    // Half of the queue of the relay, the whole queue of the sender, and three windows of 16 messages.
    let queue = (4 << 20) / octets.len();
    let expected = queue / 2 + queue..=queue / 2 + queue + 3 * 16;
    assert!(expected.contains(&sent), "{sent} of {expected:?}");
    relayed.change(1, two, |end| {
        end.resume(now);
        Ok(())
    });
    assert_eq!(relayed.indications(1).len(), sent);
}

/// RFC 3868, section 3.3.5: expedited data pass those that wait; a receiver that acknowledges none ends the connection
#[test]
fn expedited_data_are_bounded() {
    let (mut relayed, [one, two]) = Relayed::connect(ServiceClass::Class3);
    let (now, data) = (relayed.now, Bytes::from_static(b"now"));
    relayed.change(1, two, Connection::pause);
    relayed.change(0, one, |end| end.send(now, &data));
    relayed.change(0, one, |end| end.send_expedited(now, data.clone()));
    let expedited = TableIndication::Connection(Indication::ExpeditedData(data.clone()));
    assert_eq!(relayed.indications(1), [expedited]);
    // What the relay sends from here on does not arrive.
    let mut sent = 0;
    let ended = loop {
        let result = relayed.ends[0].change(now, one, |end| end.send_expedited(now, data.clone()));
        sent += usize::from(result == Some(Ok(())));
        while let Some(((), message)) = relayed.ends[0].poll_transmit() {
            relayed.receive(0, &message);
        }
        while let Some((end, message)) = relayed.relay.poll_transmit() {
            if end == 0 {
                relayed.ends[0].handle_message(now, &(), &message);
            }
        }
        let indications = relayed.indications(0);
        if !indications.is_empty() {
            break indications;
        }
        assert!(sent < 100, "unbounded");
    };
    let reason = DisconnectReason::Released(ReleaseCause::NETWORK_CONGESTION);
    assert_eq!(ended, [disconnected(reason, None)]);
    assert!(sent > 16, "{sent}");
}

/// RFC 3868, section 3.3.9: a reset is confirmed when the other section is
#[test]
fn resets_pass_the_relay() {
    let (mut relayed, [one, two]) = Relayed::connect(ServiceClass::Class3);
    let now = relayed.now;
    let cause = ResetCause::END_USER;
    relayed.change(0, one, |end| end.reset(now, cause));
    let reset = TableIndication::Connection(Indication::Reset(cause));
    assert_eq!(relayed.indications(1), [reset]);
    assert_eq!(relayed.indications(0), [], "the peer did not answer yet");
    relayed.change(1, two, |end| end.reset_response(now));
    let confirmed = TableIndication::Connection(Indication::ResetConfirmed);
    assert_eq!(relayed.indications(0), [confirmed]);
    let data = Bytes::from_static(b"data");
    relayed.change(1, two, |end| end.send(now, &data));
    let data = TableIndication::Connection(Indication::Data(data));
    assert_eq!(relayed.indications(0), [data]);
}

/// Returns a connection-oriented message with these reference numbers.
fn addressed(mut message: Message, destination: u32, source: u32) -> Message {
    let to = DestinationReferenceNumber(destination);
    let from = SourceReferenceNumber(source);
    match &mut message {
        Message::ConnectionOrientedDataTransfer(body) => body.destination_reference = to,
        Message::ConnectionOrientedDataAcknowledge(body) => body.destination_reference = to,
        Message::ConnectionOrientedError(body) => body.destination_reference = to,
        Message::ConnectionRefused(body) => body.destination_reference = to,
        Message::ConnectionRequest(body) => body.source_reference = from,
        Message::ConnectionAcknowledge(body) => {
            (body.destination_reference, body.source_reference) = (to, from);
        }
        Message::ReleaseRequest(body) => {
            (body.destination_reference, body.source_reference) = (to, from);
        }
        Message::ReleaseComplete(body) => {
            (body.destination_reference, body.source_reference) = (to, from);
        }
        Message::ResetRequest(body) => {
            (body.destination_reference, body.source_reference) = (to, from);
        }
        Message::ResetConfirm(body) => {
            (body.destination_reference, body.source_reference) = (to, from);
        }
        Message::InactivityTest(body) => {
            (body.destination_reference, body.source_reference) = (to, from);
        }
        _ => {}
    }
    message
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// RFC 3868, section 3.3: any messages of both ends have bounded answers, and without peers all sections end
    #[test]
    fn relays_handle_any_messages(
        inputs in vec((0..2_usize, 0..35_usize, 0..5_u32, any::<[u8; 3]>(), 0..700_u64), 0..60),
    ) {
        let mut relay = ConnectionTable::new(ConnectionTableConfig::default());
        let (mut now, full) = (START, samples::full());
        for (end, index, reference, [sent, received, other], seconds) in inputs {
            let mut message = addressed(full[index].clone(), reference, u32::from(other % 2));
            set_sequence_numbers(&mut message, [sent, received, other]);
            if let Message::ConnectionRequest(request) = &message {
                relay.relay(now, &end, request, 1 - end, request.clone());
            } else {
                relay.handle_message(now, &end, &message);
            }
            now += Duration::from_secs(seconds);
            relay.handle_timeout(now);
            prop_assert!(relay.poll_timeout().is_none_or(|next| next > now));
            let sent: Vec<_> = std::iter::from_fn(|| relay.poll_transmit()).collect();
            prop_assert!(sent.len() < 100);
            for (_, message) in sent {
                message.encode().expect("a valid message");
            }
            prop_assert_eq!(relay.poll_indication(), None);
        }
        for _ in 0..500 {
            if let Some(next) = relay.poll_timeout() {
                relay.handle_timeout(next);
            }
        }
        prop_assert!(relay.is_empty());
    }
}
