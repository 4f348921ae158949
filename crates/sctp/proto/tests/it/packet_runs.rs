//! Packets that arrive together have the effects of packets that arrive one after the other.

use bytes::Bytes;
use carrick_proto::{
    AssociationId, Endpoint, EndpointConfig, Event, ImportConfig, Route, SendOptions, Time,
};
use carrick_wire::crc32c;

const NOW: Time = Time::from_millis(1000);
const PORT: u16 = 5001;

fn endpoint(host: u8, port: u16) -> Endpoint {
    let address = [10, 0, 0, host].into();
    Endpoint::new(EndpointConfig::new(port, vec![address], [host; 32])).expect("valid")
}

/// Route on which packets from this host arrive at the server.
fn route(host: u8) -> Route {
    Route {
        local: Some([10, 0, 0, 9].into()),
        remote: [10, 0, 0, host].into(),
        encapsulation: None,
        ecn: carrick_proto::Ecn::default(),
    }
}

/// Datagrams that an endpoint sends now.
fn output(endpoint: &mut Endpoint) -> Vec<Bytes> {
    let mut all = Vec::new();
    let mut buffer = Vec::new();
    while let Some(transmit) = endpoint.poll_transmit(NOW, &mut buffer) {
        let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
        all.extend(buffer.chunks(size).map(Bytes::copy_from_slice));
        buffer.clear();
    }
    all
}

/// A server with an established association of this client.
fn connect(client: &mut Endpoint, host: u8, server: &mut Endpoint) -> AssociationId {
    let peer = [10, 0, 0, 9].into();
    let config = client.default_config().as_ref().clone();
    let config = config.with(|c| c.transmission.nagle = false);
    let id = client
        .connect(NOW, &[peer], PORT, None, config)
        .expect("free");
    let back = Route {
        local: Some([10, 0, 0, host].into()),
        remote: peer,
        ..route(host)
    };
    for _ in 0..4 {
        for datagram in output(client) {
            server.handle_datagram(NOW, &route(host), datagram);
        }
        for datagram in output(server) {
            client.handle_datagram(NOW, &back, datagram);
        }
    }
    while client.poll_event().is_some() || server.poll_event().is_some() {}
    id
}

fn copy_of(server: &mut Endpoint) -> Endpoint {
    let state = server.export(NOW).expect("exportable");
    Endpoint::import(ImportConfig::default(), NOW, state.as_ref()).expect("its own state")
}

fn messages(client: &mut Endpoint, id: AssociationId, count: usize) -> Vec<Bytes> {
    for n in 0..count {
        let message = Bytes::from(vec![n as u8; 1000]);
        client
            .send(NOW, id, SendOptions::default(), message)
            .expect("room");
    }
    output(client)
}

/// Everything that a server shows after its input.
fn outcome(mut server: Endpoint) -> impl PartialEq + std::fmt::Debug {
    let events: Vec<(AssociationId, Event)> = std::iter::from_fn(|| server.poll_event()).collect();
    let ids: Vec<AssociationId> = server.associations().collect();
    let mut received = Vec::new();
    for id in ids {
        while let Some(message) = server.receive(id) {
            received.push((id, message.payload.into_bytes()));
        }
    }
    let sent = output(&mut server);
    let stats = server.stats();
    // Without a notification for each packet, there are fewer of them.
    let mut kinds: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
    kinds.dedup();
    (kinds, received, sent, stats, server.poll_timeout())
}

#[test]
fn a_run_has_the_effects_of_single_packets() {
    let mut server = endpoint(9, PORT);
    let (mut one, mut other) = (endpoint(1, 6000), endpoint(1, 6001));
    let first = connect(&mut one, 1, &mut server);
    let second = connect(&mut other, 1, &mut server);
    let mut packets = messages(&mut one, first, 3);
    // Too short, with a wrong checksum, with a wrong tag, and out of the blue.
    packets.push(Bytes::from_static(&[1, 2, 3]));
    let changed = |packet: &Bytes, at: usize, right: bool| {
        let mut bytes = packet.to_vec();
        bytes[at] ^= 1;
        if right {
            bytes[8..12].fill(0);
            let sum = crc32c(&bytes);
            bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        }
        Bytes::from(bytes)
    };
    let data = packets[0].clone();
    packets.extend([
        changed(&data, 30, false),
        changed(&data, 4, true),
        changed(&data, 0, true),
        data,
    ]);
    packets.extend(messages(&mut other, second, 4));
    // The first association ends in the middle of its packets.
    let late = messages(&mut one, first, 1);
    one.abort(NOW, first, b"enough").expect("open");
    packets.extend(output(&mut one));
    packets.extend(late);
    assert!(packets.len() >= 14, "{}", packets.len());

    let mut copy = copy_of(&mut server);
    for packet in packets.clone() {
        copy.handle_datagram(NOW, &route(1), packet);
    }
    server.handle_datagrams(NOW, &route(1), packets);
    let (single, run) = (outcome(copy), outcome(server));
    assert_eq!(run, single);
}

#[test]
fn the_state_is_up_to_date_after_a_run() {
    let mut server = endpoint(9, PORT);
    let mut client = endpoint(1, 6000);
    let id = connect(&mut client, 1, &mut server);
    let packets = messages(&mut client, id, 4);
    server.handle_datagrams(NOW, &route(1), packets);
    assert!(server.stats().receive_memory >= 4000, "accounted");
    let (receiver, event) = server.poll_event().expect("a message");
    assert_eq!(event, Event::MessageReceived);
    assert_eq!(std::iter::from_fn(|| server.receive(receiver)).count(), 4);
    assert!(!output(&mut server).is_empty(), "a SACK");
}
