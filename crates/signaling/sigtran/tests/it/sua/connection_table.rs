//! Connections of a process by their reference numbers.

use std::time::Duration;

use carrick_proto::Time;
use carrick_sigtran::sua::connection::*;
use carrick_sigtran::sua::*;

use crate::states::address;

const NOW: Time = Time::ZERO;

fn request(local_reference: SourceReferenceNumber) -> ConnectRequest {
    ConnectRequest {
        routing_context: RoutingContext(1),
        class: ServiceClass::Class2,
        local_reference,
        destination: address(2),
        source: Some(address(1)),
        sequence_control: SequenceControl(0),
        hop_counter: None,
        data: None,
    }
}

/// Two processes with an association.
struct Peers([ConnectionTable<u8>; 2]);

impl Peers {
    fn new(config: &ConnectionTableConfig) -> Self {
        let table = || ConnectionTable::new(config.clone());
        Self([table(), table()])
    }

    fn run(&mut self, now: Time) {
        let mut idle = false;
        while !idle {
            idle = true;
            for from in [0, 1] {
                while let Some((association, message)) = self.0[from].poll_transmit() {
                    message.encode().expect("a message that fits");
                    self.0[1 - from].handle_message(now, &association, &message);
                    idle = false;
                }
            }
        }
    }

    fn indications(
        &mut self,
        process: usize,
    ) -> Vec<(SourceReferenceNumber, ConnectionTableIndication)> {
        let table = &mut self.0[process];
        std::iter::from_fn(|| table.poll_indication()).collect()
    }

    /// Establishes a connection; returns the reference numbers of both ends.
    fn connect(&mut self) -> [SourceReferenceNumber; 2] {
        let local = self.0[0].request(NOW, 7, request).expect("room");
        self.run(NOW);
        let requested = self.indications(1);
        let [(remote, ConnectionTableIndication::Requested(_))] = &requested[..] else {
            panic!("no request, but {requested:?}");
        };
        let accepted = self.0[1].change(NOW, *remote, |connection| {
            connection.accept(NOW, ServiceClass::Class2, None, None)
        });
        accepted.expect("a connection").expect("a request waits");
        self.run(NOW);
        assert_eq!(self.indications(0).len(), 1);
        [local, *remote]
    }
}

/// RFC 3868, sections 3.10.4 and 3.10.5
#[test]
fn messages_find_their_connection() {
    let mut peers = Peers::new(&ConnectionTableConfig::default());
    let connections: Vec<_> = (0..10).map(|_| peers.connect()).collect();
    for (number, [local, remote]) in connections.iter().enumerate() {
        let data = vec![number as u8];
        let sent = peers.0[0].change(NOW, *local, |connection| {
            connection.send(NOW, &data.clone().into())
        });
        sent.expect("a connection").expect("established");
        peers.run(NOW);
        let data = ConnectionIndication::Data(data.into());
        let expected = (*remote, ConnectionTableIndication::Connection(data));
        assert_eq!(peers.indications(1), [expected]);
    }
}

/// Q.714, section 3.3.2
#[test]
fn released_references_are_frozen() {
    let label = DrnLabel {
        position: LabelPosition { start: 22, end: 7 },
        label: 0x1234,
    };
    let mut peers = Peers::new(&ConnectionTableConfig {
        label: Some(label),
        ..ConnectionTableConfig::default()
    });
    let [local, _] = peers.connect();
    assert_eq!(local.0 >> 7 & 0xffff, 0x1234);
    let released = peers.0[0].change(NOW, local, |connection| {
        connection.disconnect(NOW, ReleaseCause::END_USER, None)
    });
    released.expect("a connection").expect("established");
    peers.run(NOW);
    assert!(peers.0.iter().all(ConnectionTable::is_empty));
    // 8 bits are free: of 256 numbers one is frozen, and one is kept free.
    let mut assigned = Vec::new();
    while let Ok(reference) = peers.0[0].request(NOW, 7, request) {
        assigned.push(reference);
    }
    assert_eq!(assigned.len(), 254);
    assert!(!assigned.contains(&local));
    let full = peers.0[0].request(NOW, 7, request);
    assert_eq!(full, Err(ConnectionTableError::Full(254)));
    let later = NOW + Duration::from_secs(60);
    assert!(peers.0[0].request(later, 7, request).is_ok());
}

/// RFC 3868, section 3.3.5 and Q.714, annex B
#[test]
fn messages_without_room_are_answered() {
    let config = ConnectionTableConfig {
        max_connections: 1,
        ..ConnectionTableConfig::default()
    };
    let mut peers = Peers::new(&config);
    let [local, remote] = peers.connect();
    let full = peers.0[0].request(NOW, 7, request);
    assert_eq!(full, Err(ConnectionTableError::Full(1)));
    let core = ConnectionRequest {
        routing_context: RoutingContext(1),
        protocol_class: ProtocolClass::new(ServiceClass::Class2),
        source_reference: SourceReferenceNumber(77),
        destination: DestinationAddress(address(2)),
        sequence_control: SequenceControl(0),
        sequence_numbers: None,
        source: None,
        hop_counter: None,
        importance: None,
        priority: None,
        credit: None,
        data: None,
    };
    peers.0[1].handle_message(NOW, &3, &Message::ConnectionRequest(core));
    let answer = peers.0[1].poll_transmit();
    let refused = matches!(
        &answer,
        Some((3, Message::ConnectionRefused(body)))
            if body.destination_reference == DestinationReferenceNumber(77)
    );
    assert!(refused, "{answer:?}");
    let test = InactivityTest {
        routing_context: RoutingContext(1),
        protocol_class: ProtocolClass::new(ServiceClass::Class2),
        source_reference: SourceReferenceNumber(78),
        destination_reference: DestinationReferenceNumber(remote.0 + 1),
        sequence_numbers: SequenceNumbers::default(),
        credit: Credit(0),
    };
    peers.0[1].handle_message(NOW, &4, &Message::InactivityTest(test));
    let answer = peers.0[1].poll_transmit();
    assert!(matches!(answer, Some((4, Message::ReleaseRequest(_)))));
    // The loss of an association ends its connections at this end.
    peers.0[0].handle_association_loss(NOW, &6);
    assert!(peers.0[0].get(local).is_some());
    peers.0[0].handle_association_loss(NOW, &7);
    assert!(peers.0[0].is_empty());
    assert_eq!(peers.0[0].poll_timeout(), None);
}
