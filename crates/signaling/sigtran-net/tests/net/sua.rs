//! SUA (RFC 3868).

use std::collections::VecDeque;

use bytes::Bytes;
use carrick::Endpoint;
use carrick_sigtran::aspm::sgp::GatewayEvent;
use carrick_sigtran::m3ua::route::DestinationEvent;
use carrick_sigtran::sua::asp::{AspApplicationServer, AspIndication};
use carrick_sigtran::sua::connection::{
    ConnectRequest, ConnectionIndication, ConnectionTableConfig, ConnectionTableIndication,
    DisconnectReason,
};
use carrick_sigtran::sua::sgp::{ApplicationServerConfig, AsState, Destinations, SgpIndication};
use carrick_sigtran::sua::*;
use carrick_sigtran_net::{
    ConnectError, EventKind, RequestError, Session, start_asp, start_sua_asp, start_sua_gateway,
};

use super::layers::{active_asp, asp_config, gateway_config, is_active, next, serve};
use super::support::{disconnected, endpoint, gateway, in_time, wait_for};

const CONTEXT: RoutingContext = RoutingContext(7);

pub(super) fn address(code: u32) -> Address {
    Address::point_code(PointCode::new(code).unwrap(), SubsystemNumber(8))
}

fn server() -> ApplicationServerConfig {
    ApplicationServerConfig::new(CONTEXT, Destinations::Unrouted)
}

/// Unitdata with a serial number as data.
pub(super) fn unitdata(routing_context: RoutingContext, number: u32) -> Message {
    Message::ConnectionlessDataTransfer(ConnectionlessDataTransfer {
        routing_context,
        protocol_class: ProtocolClass::new(ServiceClass::Class1),
        source: SourceAddress(address(1)),
        destination: DestinationAddress(address(2)),
        sequence_control: SequenceControl(5),
        hop_counter: None,
        importance: None,
        priority: None,
        correlation_id: None,
        segmentation: None,
        data: UserData(Bytes::copy_from_slice(&number.to_be_bytes())),
    })
}

pub(super) fn batch(count: u32) -> VecDeque<Message> {
    let message = |number| unitdata(CONTEXT, number);
    (0..count).map(message).collect()
}

async fn receive(session: &mut Session<Sua>) -> Message {
    match next(session).await {
        EventKind::Asp(AspIndication::Traffic(CONTEXT, message))
        | EventKind::Sgp(SgpIndication::Traffic(_, CONTEXT, message)) => *message,
        other => panic!("{other:?}"),
    }
}

/// RFC 3868, sections 1.5.4, 3.3.1 and 4.5
#[tokio::test]
async fn unitdata_pass_in_both_directions() {
    let endpoint = endpoint();
    let mut gateway = serve::<Sua>(&endpoint, server());
    let mut asp = active_asp::<Sua>(&endpoint, 1, AspApplicationServer::new(CONTEXT)).await;
    asp.sender.send_messages(&mut batch(1000)).await.unwrap();
    for number in 0..1000 {
        assert_eq!(receive(&mut gateway).await, unitdata(CONTEXT, number));
    }
    gateway
        .sender
        .send_messages(&mut batch(1000))
        .await
        .unwrap();
    for number in 0..1000 {
        assert_eq!(receive(&mut asp).await, unitdata(CONTEXT, number));
    }
    let unavailable =
        DestinationEvent::Unavailable(AffectedPointCodes(vec![AffectedPointCode::single(
            PointCode::new(2).unwrap(),
        )]));
    let report = gateway.sender.request_gateway(move |sgp, _| {
        // The gateway keeps no route state, which could be full.
        let _ = sgp.report_destinations(None, &unavailable);
    });
    report.await.unwrap();
    let state = next(&mut asp).await;
    let EventKind::Asp(AspIndication::State(message)) = state else {
        panic!("{state:?}");
    };
    assert!(matches!(*message, Message::DestinationUnavailable(_)));
    let refused = asp.sender.send_messages(&mut batch(1)).await;
    assert_eq!(refused, Err(RequestError::NotActive));
}

/// RFC 3868, section 4.3.2: AS-PENDING
#[tokio::test]
async fn a_second_asp_takes_over_unitdata() {
    let endpoint = endpoint();
    let mut gateway = serve::<Sua>(&endpoint, server());
    let first = active_asp::<Sua>(&endpoint, 1, AspApplicationServer::new(CONTEXT)).await;
    // The association is aborted.
    drop(first);
    disconnected(&mut gateway).await;
    gateway.sender.send_messages(&mut batch(100)).await.unwrap();
    let mut second = active_asp::<Sua>(&endpoint, 2, AspApplicationServer::new(CONTEXT)).await;
    for number in 0..100 {
        assert_eq!(receive(&mut second).await, unitdata(CONTEXT, number));
    }
    second.sender.send_messages(&mut batch(1)).await.unwrap();
    assert_eq!(receive(&mut gateway).await, unitdata(CONTEXT, 0));
    drop(gateway);
    disconnected(&mut second).await;
    let refused = second.sender.send_messages(&mut batch(1)).await;
    assert_eq!(refused, Err(RequestError::NotActive));
}

/// RFC 3868, section 1.4.7: sequence control selects the gateway, and another one follows a loss
#[tokio::test]
async fn unitdata_use_the_gateways_that_remain() {
    let endpoints = [endpoint(), endpoint()];
    let [mut one, mut two] = endpoints
        .each_ref()
        .map(|endpoint| serve::<Sua>(endpoint, server()));
    let gateways = endpoints
        .iter()
        .map(|endpoint| gateway(endpoint.port(), endpoint.encapsulation_port()));
    let config = asp_config::<Sua>(1, AspApplicationServer::new(CONTEXT));
    let local = super::support::endpoint();
    let mut asp = start_asp(local, gateways.collect(), &config).unwrap();
    is_active(&mut asp).await;
    is_active(&mut asp).await;
    let with_control = |number| match unitdata(CONTEXT, number) {
        Message::ConnectionlessDataTransfer(mut body) => {
            body.sequence_control = SequenceControl(number);
            Message::ConnectionlessDataTransfer(body)
        }
        other => other,
    };
    let batch = || (0..100).map(with_control).collect::<VecDeque<_>>();
    asp.sender.send_messages(&mut batch()).await.unwrap();
    for number in (0..100).step_by(2) {
        assert_eq!(receive(&mut one).await, with_control(number));
        assert_eq!(receive(&mut two).await, with_control(number + 1));
    }
    drop(one);
    disconnected(&mut asp).await;
    asp.sender.send_messages(&mut batch()).await.unwrap();
    for number in 0..100 {
        assert_eq!(receive(&mut two).await, with_control(number));
    }
}

pub(super) fn request() -> ConnectRequest {
    ConnectRequest {
        routing_context: CONTEXT,
        class: ServiceClass::Class2,
        local_reference: SourceReferenceNumber(0),
        destination: address(2),
        source: Some(address(1)),
        sequence_control: SequenceControl(0),
        hop_counter: None,
        data: None,
    }
}

pub(super) async fn indication(
    session: &mut Session<Sua>,
) -> (SourceReferenceNumber, ConnectionTableIndication) {
    match next(session).await {
        EventKind::Connection(reference, indication) => (reference, *indication),
        other => panic!("{other:?}"),
    }
}

/// Gateway and an ASP that keep connections.
async fn with_connections() -> (Endpoint, Session<Sua>, Session<Sua>) {
    let endpoint = endpoint();
    let table = ConnectionTableConfig::default;
    let config = gateway_config(server());
    let sg = start_sua_gateway(endpoint.clone(), config, Some(table()), None).unwrap();
    let remote = gateway(endpoint.port(), endpoint.encapsulation_port());
    let config = asp_config(1, AspApplicationServer::new(CONTEXT));
    let local = super::support::endpoint();
    let asp = start_sua_asp(local, vec![remote], &config, table()).unwrap();
    let refused = asp.sender.connect(request()).await;
    assert_eq!(refused, Err(ConnectError::NotActive));
    (endpoint, sg, asp)
}

/// Establishes a connection of the first session; returns both reference numbers.
async fn connect(ends: [&mut Session<Sua>; 2]) -> [SourceReferenceNumber; 2] {
    connect_with(ends, request()).await
}

/// Establishes a connection of the first session by this request; returns both reference numbers.
pub(super) async fn connect_with(
    [from, to]: [&mut Session<Sua>; 2],
    request: ConnectRequest,
) -> [SourceReferenceNumber; 2] {
    let local = from.sender.connect(request).await.unwrap();
    let (remote, requested) = indication(to).await;
    assert!(matches!(requested, ConnectionTableIndication::Requested(_)));
    let accept = to.sender.connection(remote, |connection, now| {
        connection.accept(now, ServiceClass::Class2, None, None)
    });
    accept.await.unwrap().unwrap().unwrap();
    let (reference, connected) = indication(from).await;
    assert_eq!(reference, local);
    assert!(matches!(
        connected,
        ConnectionTableIndication::Connection(ConnectionIndication::Connected { .. })
    ));
    [local, remote]
}

pub(super) async fn send_data(
    session: &Session<Sua>,
    reference: SourceReferenceNumber,
    text: &'static str,
) {
    let data = Bytes::from_static(text.as_bytes());
    let sent = session
        .sender
        .connection(reference, move |connection, now| {
            connection.send(now, &data)
        });
    sent.await.unwrap().unwrap().unwrap();
}

pub(super) fn data(text: &'static str) -> ConnectionTableIndication {
    let data = Bytes::from_static(text.as_bytes());
    ConnectionTableIndication::Connection(ConnectionIndication::Data(data))
}

/// RFC 3868, sections 3.10.4 and 4.7.3.2
#[tokio::test]
async fn connections_transfer_data_both_ways() {
    let (_endpoint, mut gateway, mut asp) = with_connections().await;
    is_active(&mut asp).await;
    for _ in 0..2 {
        let [local, remote] = connect([&mut asp, &mut gateway]).await;
        send_data(&asp, local, "request").await;
        assert_eq!(indication(&mut gateway).await, (remote, data("request")));
        send_data(&gateway, remote, "answer").await;
        assert_eq!(indication(&mut asp).await, (local, data("answer")));
        let release = asp.sender.connection(local, |connection, now| {
            connection.disconnect(now, ReleaseCause::END_USER, None)
        });
        release.await.unwrap().unwrap().unwrap();
        let (_, ended) = indication(&mut gateway).await;
        assert!(matches!(
            ended,
            ConnectionTableIndication::Connection(ConnectionIndication::Disconnected {
                reason: DisconnectReason::Released(ReleaseCause::END_USER),
                ..
            })
        ));
        let released = ConnectionIndication::Released { confirmed: true };
        let released = ConnectionTableIndication::Connection(released);
        assert_eq!(indication(&mut asp).await, (local, released));
    }
    // The gateway requests one, too.
    let [local, remote] = connect([&mut gateway, &mut asp]).await;
    send_data(&gateway, local, "request").await;
    assert_eq!(indication(&mut asp).await, (remote, data("request")));
}

/// Receives the report that all signalling points are unavailable.
pub(super) async fn unavailable(session: &mut Session<Sua>) {
    let state = next(session).await;
    assert!(
        matches!(state, EventKind::Asp(AspIndication::State(_))),
        "{state:?}"
    );
}

/// RFC 3868, section 4.3.3
#[tokio::test]
async fn connections_end_with_the_association() {
    let (endpoint, mut gateway, mut asp) = with_connections().await;
    is_active(&mut asp).await;
    let [local, _] = connect([&mut asp, &mut gateway]).await;
    drop(gateway);
    disconnected(&mut asp).await;
    unavailable(&mut asp).await;
    let (reference, ended) = indication(&mut asp).await;
    assert_eq!(reference, local);
    assert!(matches!(
        ended,
        ConnectionTableIndication::Connection(ConnectionIndication::Disconnected { .. })
    ));
    // Its gateway left it with messages.
    let _ = endpoint.close().await;
    // The ASP ends while its gateway is away.
    asp.close();
    in_time(asp.ended()).await;
}

/// RFC 3868, section 4.3.4
#[tokio::test]
async fn an_asp_leaves_before_its_session_ends() {
    let endpoint = endpoint();
    let mut gateway = serve::<Sua>(&endpoint, server());
    let asp = active_asp::<Sua>(&endpoint, 1, AspApplicationServer::new(CONTEXT)).await;
    asp.sender.send_messages(&mut batch(500)).await.unwrap();
    asp.close();
    for number in 0..500 {
        assert_eq!(receive(&mut gateway).await, unitdata(CONTEXT, number));
    }
    in_time(asp.ended()).await;
    let states = [AsState::Inactive, AsState::Active, AsState::Pending];
    for state in states {
        wait_for(&mut gateway, |kind| {
            let status = GatewayEvent::AsStatus(CONTEXT, state);
            *kind == EventKind::Sgp(SgpIndication::Gateway(status))
        })
        .await;
    }
    let end = wait_for(&mut gateway, |kind| {
        matches!(kind, EventKind::Disconnected(_))
    })
    .await;
    assert_eq!(end.to_string(), "asp1: disconnected: shut down");
}
