//! Sessions of SUA, M2UA and IUA, for the tests of each.

use carrick::Endpoint;
use carrick_sigtran::aspm::asp::{AspConfig, AspEvent, AspState};
use carrick_sigtran::aspm::sgp::GatewayConfig as GatewayMachineConfig;
use carrick_sigtran::message::AspIdentifier;
use carrick_sigtran_net::{
    AspSettings, Event, EventKind, GatewayConfig, Session, SocketLayer, start_asp, start_gateway,
};

use super::support::{LOOPBACK, endpoint, gateway, in_time, wait_for};

/// Returns the configuration of a gateway with one application server of two ASPs. Messages wait for the second ASP longer
/// than any test takes.
pub(crate) fn gateway_config<L: SocketLayer>(server: L::Server) -> GatewayConfig<L> {
    let asp = |identifier: u32| AspSettings {
        name: format!("asp{identifier}"),
        addresses: vec![LOOPBACK],
        port: None,
        identifier: Some(AspIdentifier(identifier)),
        application_servers: vec![L::server_id(&server)],
    };
    GatewayConfig {
        sgp: GatewayMachineConfig {
            t_recovery: std::time::Duration::from_secs(600),
            ..GatewayMachineConfig::default()
        },
        asps: vec![asp(1), asp(2)],
        application_servers: vec![server],
    }
}

/// Returns the configuration of an ASP of one application server.
pub(crate) fn asp_config<L: SocketLayer>(identifier: u32, served: L::Served) -> AspConfig<L> {
    AspConfig {
        identifier: Some(AspIdentifier(identifier)),
        application_servers: vec![served],
        ..AspConfig::default()
    }
}

/// Starts a gateway.
pub(crate) fn serve<L: SocketLayer>(endpoint: &Endpoint, server: L::Server) -> Session<L> {
    start_gateway(endpoint.clone(), gateway_config(server)).unwrap()
}

/// Starts an ASP at a gateway and waits until it is active.
pub(crate) async fn active_asp<L: SocketLayer>(
    gateway_endpoint: &Endpoint,
    identifier: u32,
    served: L::Served,
) -> Session<L> {
    let config = asp_config(identifier, served);
    let port = gateway_endpoint.encapsulation_port();
    let gateways = vec![gateway(gateway_endpoint.port(), port)];
    let mut session = start_asp(endpoint(), gateways, &config).unwrap();
    is_active(&mut session).await;
    session
}

/// Waits until the ASP is active.
pub(crate) async fn is_active<L: SocketLayer>(session: &mut Session<L>) {
    wait_for(session, |kind| {
        let EventKind::Asp(indication) = kind else {
            return false;
        };
        let event = L::asp_event(indication);
        matches!(event, Some(AspEvent::AspStatus(_, AspState::Active)))
    })
    .await;
}

/// Receives the next indication to the user.
pub(crate) async fn next<L: SocketLayer<Received = Event<L>>>(
    session: &mut Session<L>,
) -> EventKind<L> {
    let mut received = Vec::new();
    let count = in_time(session.receiver.recv_many(&mut received, 1)).await;
    assert_eq!(count, 1, "the session lives");
    received.remove(0).kind
}
