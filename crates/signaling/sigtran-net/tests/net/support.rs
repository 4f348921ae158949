//! Endpoints and messages on loopback.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes;
use carrick::{Config, Endpoint};
use carrick_sigtran::m3ua::asp::{AspApplicationServer, AspConfig, AspIndication, AspState};
use carrick_sigtran::m3ua::{AspIdentifier, PointCode, ProtocolData, RoutingContext, TrafficMode};
use carrick_sigtran_net::{
    Event, EventKind, Outgoing, Received, RemoteGateway, SendError, Session, SocketLayer,
    endpoint_config, start_asp,
};

pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Far longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns an endpoint on ports that the system chooses.
pub(crate) fn endpoint() -> Endpoint {
    endpoint_at(LOOPBACK)
}

/// Returns an endpoint at an address, on ports that the system chooses.
pub(crate) fn endpoint_at(address: IpAddr) -> Endpoint {
    let config = Config::udp([address]).encapsulation_port(0);
    Endpoint::bind(endpoint_config(config, 5)).unwrap()
}

/// Returns an endpoint on an SCTP port.
pub(crate) fn endpoint_on(port: u16) -> Endpoint {
    let config = Config::udp([LOOPBACK]).encapsulation_port(0).port(port);
    Endpoint::bind(endpoint_config(config, 5)).unwrap()
}

pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("in time")
}

/// Returns the gateway at these ports.
pub(crate) fn gateway(port: u16, udp_port: Option<u16>) -> RemoteGateway {
    RemoteGateway {
        port,
        udp_port,
        min_backoff: Duration::from_millis(20),
        max_backoff: Duration::from_millis(100),
        ..RemoteGateway::new("gateway", vec![LOOPBACK])
    }
}

/// Starts an ASP of one application server.
pub(crate) fn asp(gateway: RemoteGateway, context: u32, identifier: Option<u32>) -> Session {
    asp_on(endpoint(), gateway, context, identifier)
}

/// Starts an ASP of one application server on an endpoint.
pub(crate) fn asp_on(
    endpoint: Endpoint,
    gateway: RemoteGateway,
    context: u32,
    identifier: Option<u32>,
) -> Session {
    let config = AspConfig {
        identifier: identifier.map(AspIdentifier),
        application_servers: vec![AspApplicationServer {
            traffic_mode: Some(TrafficMode::LOADSHARE),
            ..AspApplicationServer::new(RoutingContext(context))
        }],
        ..AspConfig::default()
    };
    start_asp(endpoint, vec![gateway], &config).unwrap()
}

/// Waits for an event.
pub(crate) async fn wait_for<L: SocketLayer>(
    session: &mut Session<L>,
    is_wanted: impl Fn(&EventKind<L>) -> bool,
) -> Event<L> {
    in_time(async {
        loop {
            let event = session.events.recv().await.expect("the session lives");
            if is_wanted(&event.kind) {
                return event;
            }
        }
    })
    .await
}

/// Waits for the loss of an association.
pub(crate) async fn disconnected<L: SocketLayer>(session: &mut Session<L>) {
    wait_for(session, |kind| matches!(kind, EventKind::Disconnected(_))).await;
}

/// Waits until the ASP is active.
pub(crate) async fn active(session: &mut Session) {
    wait_for(session, |kind| {
        matches!(
            kind,
            EventKind::Asp(AspIndication::AspStatus(_, AspState::Active))
        )
    })
    .await;
}

/// Returns messages with a serial number as data, on all SLS values in turn.
pub(crate) fn messages(context: u32, dpc: u32, count: u32) -> VecDeque<Outgoing> {
    let message = |number: u32| Outgoing {
        routing_context: Some(RoutingContext(context)),
        protocol_data: ProtocolData {
            opc: PointCode::new(1).unwrap(),
            dpc: PointCode::new(dpc).unwrap(),
            si: 3,
            ni: 2,
            mp: 1,
            sls: (number % 16) as u8,
            user_data: Bytes::copy_from_slice(&number.to_be_bytes()),
        },
    };
    (0..count).map(message).collect()
}

/// Receives this number of messages.
pub(crate) async fn receive(session: &mut Session, count: usize) -> Vec<Received> {
    let mut received = Vec::new();
    in_time(async {
        while received.len() < count {
            let more = session.receiver.recv_many(&mut received, 100).await;
            assert!(more > 0, "{} of {count}", received.len());
        }
    })
    .await;
    received
}

/// Sends all messages, as soon as the ASP knows that the destination is available.
pub(crate) async fn send(session: &Session, mut messages: VecDeque<Outgoing>) {
    in_time(async {
        loop {
            match session.sender.send_many(&mut messages).await {
                Ok(()) => return,
                Err(SendError::NotActive) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
}

/// Returns the serial number of a message.
pub(crate) fn number(message: &Received) -> u32 {
    let data = &message.protocol_data.user_data;
    u32::from_be_bytes(data[..].try_into().unwrap())
}

/// Checks that each number below `count` arrived once, in order within each SLS.
pub(crate) fn check_order(received: &[Received], count: u32) {
    let mut last = [None; 256];
    for message in received {
        let number = number(message);
        let last = &mut last[usize::from(message.protocol_data.sls)];
        assert!(last.is_none_or(|last| last < number), "{number}");
        *last = Some(number);
    }
    let mut numbers: Vec<_> = received.iter().map(number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..count).collect::<Vec<_>>());
}
