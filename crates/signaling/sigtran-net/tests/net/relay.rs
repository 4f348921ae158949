//! Relay function of SUA (RFC 3868, sections 1.4.6 and 1.5.3).

use std::collections::VecDeque;

use carrick::Endpoint;
use carrick_proto::Time;
use carrick_sigtran::aspm::asp::AspEvent;
use carrick_sigtran::sua::asp::{AspApplicationServer, AspIndication};
use carrick_sigtran::sua::connection::{
    ConnectRequest, Connection, ConnectionConfig, ConnectionIndication, ConnectionTableConfig,
    ConnectionTableIndication, DisconnectReason,
};
use carrick_sigtran::sua::sgp::{
    ApplicationServerConfig, Destinations, RelayError, SgpIndication, SignallingGatewayProcess,
};
use carrick_sigtran::sua::translation::*;
use carrick_sigtran::sua::*;
use carrick_sigtran_net::{EventKind, Session, start_sua_asp, start_sua_gateway};

use super::layers::{active_asp, asp_config, gateway_config, is_active, next};
use super::sua::{address, connect_with, data, indication, request, send_data, unitdata};
use super::support::{self, endpoint, wait_for};

/// Routing contexts of both application servers.
const ONE: RoutingContext = RoutingContext(1);
const TWO: RoutingContext = RoutingContext(2);

fn title(digits: &str) -> GlobalTitle {
    GlobalTitle {
        indicator: 4,
        translation_type: 0,
        numbering_plan: 1,
        nature_of_address: 4,
        digits: AddressSignals::new(digits).unwrap(),
    }
}

fn gt(digits: &str) -> Address {
    Address::global_title(title(digits), SubsystemNumber(8))
}

fn rule(digits: &str, code: u32) -> TranslationRule {
    TranslationRule {
        network: None,
        title: title(digits),
        target: TranslationTarget::PointCode {
            point_code: PointCode::new(code).unwrap(),
            ssn: None,
        },
    }
}

/// Returns the address in which the rule of a point code results.
fn translated(digits: &str, code: u32) -> Address {
    let route = Route::PointCode {
        ssn: SubsystemNumber(8),
        point_code: PointCode::new(code),
        global_title: Some(title(digits)),
    };
    Address {
        route,
        ..gt(digits)
    }
}

/// Returns unitdata of the first application server, with the return option.
fn to(destination: Address) -> ConnectionlessDataTransfer {
    match unitdata(ONE, 0) {
        Message::ConnectionlessDataTransfer(body) => ConnectionlessDataTransfer {
            destination: DestinationAddress(destination),
            protocol_class: ProtocolClass {
                return_on_error: true,
                ..body.protocol_class
            },
            ..body
        },
        other => panic!("{other:?}"),
    }
}

/// Returns the CORE of a connection of the first application server.
fn core(destination: Address) -> ConnectionRequest {
    let request = ConnectRequest {
        routing_context: ONE,
        local_reference: SourceReferenceNumber(5),
        destination,
        ..request()
    };
    let connection = Connection::request(Time::ZERO, ConnectionConfig::default(), request);
    match connection.unwrap().poll_transmit() {
        Some(Message::ConnectionRequest(body)) => body,
        other => panic!("{other:?}"),
    }
}

/// Starts a gateway with the application servers of point codes 1 and 2, each with an ASP, and rules: 49 is the second
/// one, and 1 a node of the network.
async fn start(
    connections: Option<ConnectionTableConfig>,
) -> (Endpoint, Session<Sua>, [Session<Sua>; 2]) {
    let server = |context: RoutingContext| {
        let destination = Destinations::Address(address(context.0));
        ApplicationServerConfig::new(context, destination)
    };
    let mut config = gateway_config::<Sua>(server(ONE));
    config.application_servers.push(server(TWO));
    config.asps[1].application_servers = vec![TWO];
    let mut rules = TranslationTable::default();
    rules.add(rule("49", 2)).unwrap();
    rules.add(rule("1", 99)).unwrap();
    let endpoint = endpoint();
    let gateway =
        start_sua_gateway(endpoint.clone(), config, connections.clone(), Some(rules)).unwrap();
    let start_asp = async |identifier, context| {
        let served = AspApplicationServer::new(context);
        let Some(connections) = connections.clone() else {
            return active_asp(&endpoint, identifier, served).await;
        };
        let config = asp_config(identifier, served);
        let remote = support::gateway(endpoint.port(), endpoint.encapsulation_port());
        let local = support::endpoint();
        let mut asp = start_sua_asp(local, vec![remote], &config, connections).unwrap();
        is_active(&mut asp).await;
        asp
    };
    let asps = [start_asp(1, ONE).await, start_asp(2, TWO).await];
    (endpoint, gateway, asps)
}

async fn send(session: &Session<Sua>, message: Message) {
    let mut messages = VecDeque::from([message]);
    session.sender.send_messages(&mut messages).await.unwrap();
}

async fn send_unitdata(session: &Session<Sua>, message: ConnectionlessDataTransfer) {
    send(session, Message::ConnectionlessDataTransfer(message)).await;
}

/// Receives a message at an ASP.
async fn receive(session: &mut Session<Sua>) -> Message {
    match next(session).await {
        EventKind::Asp(AspIndication::Traffic(_, message)) => *message,
        other => panic!("{other:?}"),
    }
}

/// Returns the CLDR that returns unitdata to the first application server.
fn returned(message: ConnectionlessDataTransfer, cause: ReturnCause) -> ConnectionlessDataResponse {
    ConnectionlessDataResponse {
        routing_context: ONE,
        cause,
        source: SourceAddress(message.destination.0),
        destination: DestinationAddress(message.source.0),
        hop_counter: None,
        importance: None,
        priority: None,
        correlation_id: None,
        segmentation: None,
        data: Some(message.data),
    }
}

/// Receives the CLDR of unitdata that are not relayed.
async fn receive_returned(
    session: &mut Session<Sua>,
    message: ConnectionlessDataTransfer,
    cause: ReturnCause,
) {
    let expected = Message::ConnectionlessDataResponse(returned(message, cause));
    assert_eq!(receive(session).await, expected);
}

/// RFC 3868, section 1.5.3
#[tokio::test]
async fn global_titles_are_relayed_between_asps() {
    let (_endpoint, mut gateway, [mut one, mut two]) = start(None).await;
    send_unitdata(&one, to(gt("4917"))).await;
    let expected = ConnectionlessDataTransfer {
        routing_context: TWO,
        hop_counter: HopCounter::new(15),
        ..to(translated("4917", 2))
    };
    let expected = Message::ConnectionlessDataTransfer(expected);
    assert_eq!(receive(&mut two).await, expected);
    // Its user returns the message, which is relayed by the address of the sender.
    let cause = ReturnCause::SUBSYSTEM_FAILURE;
    let answer = |routing_context, hops| {
        Message::ConnectionlessDataResponse(ConnectionlessDataResponse {
            routing_context,
            hop_counter: HopCounter::new(hops),
            ..returned(to(translated("4917", 2)), cause)
        })
    };
    send(&two, answer(TWO, 9)).await;
    assert_eq!(receive(&mut one).await, answer(ONE, 8));
    send(&one, Message::ConnectionRequest(core(gt("4917")))).await;
    let expected = ConnectionRequest {
        routing_context: TWO,
        hop_counter: HopCounter::new(15),
        ..core(translated("4917", 2))
    };
    let expected = Message::ConnectionRequest(expected);
    assert_eq!(receive(&mut two).await, expected);
    // The answer has no address.
    let refused = Message::ConnectionRefused(ConnectionRefused {
        routing_context: TWO,
        destination_reference: DestinationReferenceNumber(5),
        cause: RefusalCause::END_USER,
        source: None,
        destination: None,
        importance: None,
        data: None,
    });
    send(&two, refused.clone()).await;
    let event = next(&mut gateway).await;
    assert!(
        matches!(&event, EventKind::Sgp(SgpIndication::Traffic(_, TWO, message)) if **message == refused),
        "{event:?}"
    );
}

/// RFC 3868, sections 1.5.3 and 3.10.6
#[tokio::test]
async fn messages_that_are_not_relayed_return() {
    let (_endpoint, mut gateway, [mut one, mut two]) = start(None).await;
    let unknown = || to(gt("7"));
    send_unitdata(&one, unknown()).await;
    receive_returned(&mut one, unknown(), ReturnCause::NO_TRANSLATION).await;
    let event = wait_for(&mut gateway, |kind| {
        matches!(kind, EventKind::NotRelayed(_))
    })
    .await;
    let error = RelayError::Translation(TranslationError::Address);
    assert_eq!(event.kind, EventKind::NotRelayed(error));
    let text =
        "asp1: message not relayed: no rule has the first digits of the global title: add one";
    assert_eq!(event.to_string(), text);
    let mut looped = to(gt("49"));
    looped.hop_counter = HopCounter::new(1);
    send_unitdata(&one, looped.clone()).await;
    receive_returned(&mut one, looped, ReturnCause::HOP_COUNTER_VIOLATION).await;
    send(&one, Message::ConnectionRequest(core(gt("7")))).await;
    let refused = receive(&mut one).await;
    let Message::ConnectionRefused(refused) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(refused.cause, RefusalCause::DESTINATION_UNKNOWN);
    assert_eq!(refused.destination_reference, DestinationReferenceNumber(5));
    // Without the return option nothing returns, the next answer is that of the next message.
    let mut silent = unknown();
    silent.protocol_class.return_on_error = false;
    send_unitdata(&one, silent).await;
    // The rules change while the gateway runs.
    let added = gateway.sender.translations(|rules| rules.add(rule("7", 2)));
    assert_eq!(added.await, Ok(Some(Ok(()))));
    send_unitdata(&one, unknown()).await;
    let Message::ConnectionlessDataTransfer(relayed) = receive(&mut two).await else {
        panic!("unitdata");
    };
    assert_eq!(relayed.destination.0, translated("7", 2));
    let removed = gateway
        .sender
        .translations(|rules| rules.remove(None, &title("7")));
    assert!(matches!(removed.await, Ok(Some(Some(_)))));
    send_unitdata(&one, unknown()).await;
    receive_returned(&mut one, unknown(), ReturnCause::NO_TRANSLATION).await;
}

/// RFC 3868, section 3.10.6: network congestion
#[tokio::test]
async fn full_queues_return_messages() {
    let (_endpoint, mut gateway, [mut one, two]) = start(None).await;
    // The ASP of the destination does not read.
    let sender = one.sender.clone();
    let send = async {
        loop {
            let message = Message::ConnectionlessDataTransfer(to(address(2)));
            let mut messages: VecDeque<_> = std::iter::repeat_n(message, 100).collect();
            sender.send_messages(&mut messages).await.unwrap();
        }
    };
    tokio::select! {
        () = send => {}
        answer = receive(&mut one) => {
            let answered = returned(to(address(2)), ReturnCause::NETWORK_CONGESTION);
            assert_eq!(answer, Message::ConnectionlessDataResponse(answered));
        }
    }
    let event = wait_for(&mut gateway, |kind| {
        matches!(kind, EventKind::NotRelayed(_))
    })
    .await;
    assert_eq!(event.kind, EventKind::NotRelayed(RelayError::Congestion));
    drop(two);
}

/// RFC 3868, section 1.5.1: messages that waited in AS-PENDING
#[tokio::test]
async fn removed_servers_return_what_waits() {
    let (_endpoint, gateway, [mut one, mut two]) = start(None).await;
    let inactive = two
        .sender
        .request(Some(TWO), |asp, now| asp.asp_inactive(now, &[]));
    inactive.await.unwrap().unwrap();
    wait_for(&mut two, |kind| {
        let EventKind::Asp(AspIndication::Asp(event)) = kind else {
            return false;
        };
        matches!(event, AspEvent::AspInactive(_, Ok(())))
    })
    .await;
    send_unitdata(&one, to(address(2))).await;
    // The message waits before the application server is removed.
    let waiting = || {
        let buffered = |sgp: &mut SignallingGatewayProcess, _| sgp.buffered(TWO);
        gateway.sender.request_gateway(buffered)
    };
    while waiting()
        .await
        .unwrap()
        .is_some_and(|(count, _)| count == 0)
    {
        tokio::task::yield_now().await;
    }
    let removed = gateway
        .sender
        .request_gateway(|sgp, now| sgp.remove_application_server(now, TWO));
    removed.await.unwrap().unwrap();
    let cause = ReturnCause::SCCP_FAILURE;
    receive_returned(&mut one, to(address(2)), cause).await;
}

/// RFC 3868, section 4.3.2: load sharing
#[tokio::test]
async fn answers_go_to_the_asp_that_sent() {
    let endpoint = endpoint();
    let mut server = ApplicationServerConfig::new(ONE, Destinations::Unrouted);
    server.traffic_mode = Some(TrafficMode::LOADSHARE);
    let (config, rules) = (gateway_config(server), TranslationTable::default());
    let gateway = start_sua_gateway(endpoint.clone(), config, None, Some(rules)).unwrap();
    let served = || AspApplicationServer {
        traffic_mode: Some(TrafficMode::LOADSHARE),
        ..AspApplicationServer::new(ONE)
    };
    let mut asps = [
        active_asp(&endpoint, 1, served()).await,
        active_asp(&endpoint, 2, served()).await,
    ];
    for asp in &mut asps {
        send_unitdata(asp, to(gt("7"))).await;
        receive_returned(asp, to(gt("7")), ReturnCause::NO_TRANSLATION_FOR_NATURE).await;
    }
    drop(gateway);
}

/// RFC 3868, section 1.4.6
#[tokio::test]
async fn messages_for_the_network_reach_the_user() {
    let (_endpoint, mut gateway, [one, mut two]) =
        start(Some(ConnectionTableConfig::default())).await;
    let in_network = [
        (gt("155"), translated("155", 99), HopCounter::new(15)),
        (address(98), address(98), None),
    ];
    for (destination, expected, hop_counter) in in_network {
        send_unitdata(&one, to(destination)).await;
        let event = next(&mut gateway).await;
        let EventKind::Sgp(SgpIndication::Traffic(_, ONE, message)) = event else {
            panic!("{event:?}");
        };
        let expected = ConnectionlessDataTransfer {
            hop_counter,
            ..to(expected)
        };
        assert_eq!(*message, Message::ConnectionlessDataTransfer(expected));
    }
    // The gateway is the end of a connection to the network.
    send(&one, Message::ConnectionRequest(core(gt("155")))).await;
    let event = next(&mut gateway).await;
    let EventKind::Connection(_, indication) = event else {
        panic!("{event:?}");
    };
    let ConnectionTableIndication::Requested(request) = *indication else {
        panic!("{indication:?}");
    };
    assert_eq!(request.destination.0, translated("155", 99));
    send_unitdata(&one, to(gt("49"))).await;
    let relayed = receive(&mut two).await;
    assert!(matches!(relayed, Message::ConnectionlessDataTransfer(_)));
}

/// RFC 3868, sections 1.3.2 and 1.5.3: both connection sections
#[tokio::test]
async fn connections_pass_the_relay() {
    let (_endpoint, gateway, [mut one, mut two]) =
        start(Some(ConnectionTableConfig::default())).await;
    let request = |digits| ConnectRequest {
        routing_context: ONE,
        destination: gt(digits),
        ..request()
    };
    let [local, remote] = connect_with([&mut one, &mut two], request("4917")).await;
    send_data(&one, local, "to the second").await;
    assert_eq!(indication(&mut two).await, (remote, data("to the second")));
    send_data(&two, remote, "to the first").await;
    assert_eq!(indication(&mut one).await, (local, data("to the first")));
    // The second ASP is lost: its connections end at the gateway.
    drop(two);
    let removed = gateway
        .sender
        .request_gateway(|sgp, now| sgp.remove_application_server(now, TWO));
    removed.await.unwrap().unwrap();
    let (reference, ended) = indication(&mut one).await;
    assert_eq!(reference, local);
    let reason = DisconnectReason::Released(ReleaseCause::MTP_FAILURE);
    let expected = ConnectionIndication::Disconnected { reason, data: None };
    assert_eq!(ended, ConnectionTableIndication::Connection(expected));
    // A request that is not relayed is refused.
    let local = one.sender.connect(request("7")).await.unwrap();
    let reason = DisconnectReason::Refused(RefusalCause::DESTINATION_UNKNOWN);
    let refused = ConnectionIndication::Disconnected { reason, data: None };
    let refused = ConnectionTableIndication::Connection(refused);
    assert_eq!(indication(&mut one).await, (local, refused));
}
