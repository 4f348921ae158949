//! ASPs and gateways.

use std::net::IpAddr;

use carrick::{Config, Endpoint};
use carrick_sigtran::m3ua::asp::{AspApplicationServer, AspConfig, AspIndication, AspState};
use carrick_sigtran::m3ua::sgp::{ApplicationServerConfig, AsState, SgpIndication};
use carrick_sigtran::m3ua::{AspIdentifier, RoutingContext};
use carrick_sigtran_net::{
    AspSettings, EventKind, GatewayConfig, RemoteGateway, SendError, Session, endpoint_config,
    start_asp, start_gateway,
};

use super::support::{
    LOOPBACK, active, asp, check_order, endpoint, gateway, in_time, messages, receive, send,
    wait_for,
};

const CONTEXT: RoutingContext = RoutingContext(7);

/// Gateway with one application server, whose ASPs have these identifiers, or whose only ASP has none.
pub(crate) fn serve(endpoint: Endpoint, identifiers: &[u32]) -> Session {
    let settings = |identifier: Option<u32>| AspSettings {
        name: identifier.map_or("asp".into(), |identifier| format!("asp{identifier}")),
        addresses: vec![LOOPBACK],
        port: None,
        identifier: identifier.map(AspIdentifier),
        application_servers: vec![CONTEXT],
    };
    let mut asps: Vec<_> = identifiers.iter().map(|i| settings(Some(*i))).collect();
    if asps.is_empty() {
        asps.push(settings(None));
    }
    let config = GatewayConfig {
        application_servers: vec![ApplicationServerConfig::new(CONTEXT, vec![])],
        asps,
        ..GatewayConfig::default()
    };
    start_gateway(endpoint, config).unwrap()
}

pub(crate) fn remote(endpoint: &Endpoint) -> RemoteGateway {
    gateway(endpoint.port(), endpoint.encapsulation_port())
}

/// RFC 4666, sections 1.4.7 and 3.3.1
#[tokio::test]
async fn messages_pass_in_both_directions() {
    let endpoint = endpoint();
    let mut asp = asp(remote(&endpoint), 7, None);
    let mut gateway = serve(endpoint, &[]);
    active(&mut asp).await;
    send(&asp, messages(7, 9, 3000)).await;
    let received = receive(&mut gateway, 3000).await;
    check_order(&received, 3000);
    assert_eq!(&*received[0].peer, "asp");
    assert_eq!(received[0].routing_context, Some(CONTEXT));
    let sent = messages(7, 9, 3000);
    assert_eq!(received[0].protocol_data, sent[0].protocol_data);
    send(&gateway, sent).await;
    let received = receive(&mut asp, 3000).await;
    check_order(&received, 3000);
    assert_eq!(&*received[0].peer, "gateway");
}

#[tokio::test]
async fn a_slow_receiver_loses_nothing() {
    let endpoint = endpoint();
    let mut asp = asp(remote(&endpoint), 7, None);
    let mut gateway = serve(endpoint, &[]);
    active(&mut asp).await;
    // More than all queues take.
    let sender = asp.sender.clone();
    let sending = tokio::spawn(async move {
        let mut messages = messages(7, 9, 60_000);
        sender.send_many(&mut messages).await
    });
    let mut received = Vec::new();
    while received.len() < 60_000 {
        tokio::task::yield_now().await;
        in_time(gateway.receiver.recv_many(&mut received, 10)).await;
    }
    check_order(&received, 60_000);
    assert_eq!(sending.await.unwrap(), Ok(()));
}

/// RFC 4666, sections 4.3.4.2 and 4.3.4.4
#[tokio::test]
async fn a_session_that_ends_delivers_its_messages() {
    let endpoint = endpoint();
    let mut asp = asp(remote(&endpoint), 7, None);
    let mut gateway = serve(endpoint, &[]);
    active(&mut asp).await;
    send(&asp, messages(7, 9, 2000)).await;
    asp.close();
    let received = receive(&mut gateway, 2000).await;
    check_order(&received, 2000);
    in_time(asp.ended()).await;
    wait_for(&mut gateway, |kind| {
        matches!(kind, EventKind::Sgp(SgpIndication::AspDown(_)))
    })
    .await;
    let end = wait_for(&mut gateway, |kind| {
        matches!(kind, EventKind::Disconnected(_))
    })
    .await;
    assert_eq!(end.to_string(), "asp: disconnected: shut down");
    gateway.close();
    in_time(gateway.ended()).await;
}

/// RFC 4666, section 4.3.3
#[tokio::test]
async fn an_asp_reconnects_and_is_active_again() {
    let first = endpoint();
    let (port, udp_port) = (first.port(), first.encapsulation_port().unwrap());
    let mut asp = asp(remote(&first), 7, None);
    let gateway = serve(first.clone(), &[]);
    active(&mut asp).await;
    drop(gateway);
    let report = first.close().await;
    assert_eq!(report.undelivered, 0, "{report}");
    drop(first);
    wait_for(&mut asp, |kind| matches!(kind, EventKind::Disconnected(_))).await;
    let mut sent = messages(7, 9, 1);
    let refused = asp.sender.send_many(&mut sent).await;
    assert_eq!((refused, sent.len()), (Err(SendError::NotActive), 1));
    wait_for(&mut asp, |kind| {
        matches!(kind, EventKind::ConnectFailed(..))
    })
    .await;
    let config = Config::udp([LOOPBACK]).port(port);
    let config = config.encapsulation_port(udp_port);
    let again = Endpoint::bind(endpoint_config(config, 5)).unwrap();
    let mut gateway = serve(again, &[]);
    active(&mut asp).await;
    send(&asp, sent).await;
    receive(&mut gateway, 1).await;
}

/// RFC 4666, section 3.5.1
#[tokio::test]
async fn an_asp_is_recognized_by_its_identifier() {
    let endpoint = endpoint();
    let mut first = asp(remote(&endpoint), 7, Some(1));
    let mut second = asp(remote(&endpoint), 7, Some(2));
    let mut gateway = serve(endpoint.clone(), &[1, 2]);
    active(&mut first).await;
    active(&mut second).await;
    send(&second, messages(7, 9, 1)).await;
    assert_eq!(&*receive(&mut gateway, 1).await[0].peer, "asp2");
    let mut unknown = asp(remote(&endpoint), 7, Some(3));
    wait_for(&mut unknown, |kind| {
        matches!(kind, EventKind::Asp(AspIndication::AspUp(Err(_))))
    })
    .await;
}

/// RFC 4666, section 4.3.4.3
#[tokio::test]
async fn an_overridden_asp_does_not_override() {
    let endpoint = endpoint();
    let start = |identifier| {
        let config = AspConfig {
            identifier: Some(AspIdentifier(identifier)),
            application_servers: vec![AspApplicationServer::new(CONTEXT)],
            ..AspConfig::default()
        };
        let remote = remote(&endpoint);
        start_asp(super::support::endpoint(), vec![remote], &config).unwrap()
    };
    let mut gateway = serve(endpoint.clone(), &[1, 2]);
    let mut first = start(1);
    active(&mut first).await;
    let mut second = start(2);
    active(&mut second).await;
    wait_for(&mut first, |kind| {
        let inactive = AspIndication::AspStatus(Some(CONTEXT), AspState::Inactive);
        *kind == EventKind::Asp(inactive)
    })
    .await;
    send(&second, messages(7, 9, 1)).await;
    receive(&mut gateway, 1).await;
    let refused = first.sender.send_many(&mut messages(7, 9, 1)).await;
    assert_eq!(refused, Err(SendError::NotActive));
}

/// RFC 4666, section 1.4.8
#[tokio::test]
async fn both_ends_are_multi_homed() {
    let bind = |last: [u8; 2]| {
        let addresses = last.map(|last| IpAddr::from([127, 0, 0, last]));
        let config = Config::udp(addresses).encapsulation_port(0);
        Endpoint::bind(endpoint_config(config, 5)).unwrap()
    };
    let endpoint = bind([1, 2]);
    let remote = remote(&endpoint);
    let mut gateway = serve(endpoint, &[]);
    let config = AspConfig {
        application_servers: vec![AspApplicationServer::new(CONTEXT)],
        ..AspConfig::default()
    };
    let mut asp = start_asp(bind([1, 3]), vec![remote], &config).unwrap();
    for (session, last) in [(&mut asp, [1, 2]), (&mut gateway, [1, 3])] {
        let addresses = last.map(|last| IpAddr::from([127, 0, 0, last]));
        wait_for(session, |kind| match kind {
            EventKind::Connected(peer) => addresses.iter().all(|a| peer.contains(a)),
            _ => false,
        })
        .await;
    }
}

#[tokio::test]
async fn an_unknown_peer_is_refused() {
    let endpoint = endpoint();
    let mut asp = asp(remote(&endpoint), 7, None);
    let config: GatewayConfig = GatewayConfig {
        asps: vec![AspSettings {
            name: "elsewhere".into(),
            addresses: vec![[192, 0, 2, 1].into()],
            port: None,
            identifier: None,
            application_servers: vec![],
        }],
        ..GatewayConfig::default()
    };
    let mut gateway = start_gateway(endpoint, config).unwrap();
    let refused = wait_for(&mut gateway, |kind| matches!(kind, EventKind::Refused(..))).await;
    assert!(
        refused.to_string().contains("refused 127.0.0.1"),
        "{refused}"
    );
    wait_for(&mut asp, |kind| {
        matches!(
            kind,
            EventKind::Disconnected(_) | EventKind::ConnectFailed(..)
        )
    })
    .await;
}

/// RFC 4666, section 4.3.2
#[tokio::test]
async fn the_state_of_an_application_server_is_an_event() {
    let endpoint = endpoint();
    let mut asp = asp(remote(&endpoint), 7, None);
    let mut gateway = serve(endpoint, &[]);
    active(&mut asp).await;
    let mut sent = messages(8, 9, 1);
    assert!(gateway.sender.send_many(&mut sent).await.is_err());
    asp.close();
    for state in [
        AsState::Inactive,
        AsState::Active,
        AsState::Pending,
        AsState::Down,
    ] {
        wait_for(&mut gateway, |kind| {
            *kind == EventKind::Sgp(SgpIndication::AsStatus(CONTEXT, state))
        })
        .await;
    }
}
