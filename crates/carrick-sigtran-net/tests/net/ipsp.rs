//! IP server processes (RFC 4666, section 5.6).

use carrick::Endpoint;
use carrick_sigtran::m3ua::RoutingContext;
use carrick_sigtran::m3ua::asp::AspApplicationServer;
use carrick_sigtran::m3ua::ipsp::IpspExchange;
use carrick_sigtran::m3ua::sgp::{ApplicationServerConfig, AsState, SgpConfig, SgpIndication};
use carrick_sigtran_net::{EventKind, IpspConfig, IpspPeer, RemoteGateway, Session, start_ipsp};

use super::stp::{active_asp, config, start, status_with, with_one_asp};
use super::support::{check_order, endpoint, gateway, in_time, messages, receive, send, wait_for};

/// Starts an IPSP with one peer, whose application server has the second context.
fn start_peer(
    endpoint: Endpoint,
    exchange: IpspExchange,
    [local, remote]: [u32; 2],
    peer: RemoteGateway,
    connects: bool,
) -> Session {
    let config = IpspConfig {
        exchange,
        remote: ApplicationServerConfig::new(RoutingContext(remote), Vec::new()),
        local: AspApplicationServer::new(RoutingContext(local)),
        identifier: None,
        peers: vec![IpspPeer {
            remote: peer,
            connects,
        }],
    };
    start_ipsp(endpoint, config, SgpConfig::default()).unwrap()
}

/// Waits until the application server of the peer is active.
async fn peer_active(session: &mut Session) {
    wait_for(session, |kind| {
        matches!(
            kind,
            EventKind::Sgp(SgpIndication::AsStatus(_, AsState::Active))
        )
    })
    .await;
}

/// RFC 4666, sections 4.3 and 5.6
#[tokio::test]
async fn messages_pass_between_ipsps() {
    for (exchange, contexts) in [
        (IpspExchange::Single, [7, 7]),
        (IpspExchange::Double, [7, 8]),
        (IpspExchange::DoubleWithSingleAspsm, [7, 8]),
    ] {
        let (here, there) = (endpoint(), endpoint());
        let [to_here, to_there] =
            [&here, &there].map(|e| gateway(e.port(), e.encapsulation_port()));
        let [own, other] = contexts;
        let mut accepting = start_peer(there, exchange, [other, own], to_here, false);
        let mut connecting = start_peer(here, exchange, contexts, to_there, true);
        peer_active(&mut connecting).await;
        peer_active(&mut accepting).await;
        send(&connecting, messages(0, 9, 500)).await;
        send(&accepting, messages(0, 9, 500)).await;
        let received = receive(&mut accepting, 500).await;
        check_order(&received, 500);
        assert_eq!(received[0].routing_context, Some(RoutingContext(other)));
        check_order(&receive(&mut connecting, 500).await, 500);
        // The end that accepted ends the association; the other one returns to it.
        accepting.close();
        in_time(accepting.ended()).await;
        wait_for(&mut connecting, |kind| {
            matches!(kind, EventKind::Disconnected(_))
        })
        .await;
    }
}

fn link_set(addresses: &str, peer: &str, contexts: &str) -> String {
    format!(
        "[[link-set]]
name = \"east\"
{contexts}
peers = [{{ addresses = [{addresses}], {peer} }}]
[[route]]
dpc = 0
mask = 14
link-set = \"east\"
"
    )
}

/// RFC 4666, sections 1.4.8 and 4.3
#[tokio::test]
async fn signal_transfer_points_are_linked_as_ipsps() {
    for contexts in [
        ["ipsp = \"single\"\nrouting-context = 9"; 2],
        [
            "ipsp = \"double\"\nrouting-context = 9\nlocal-routing-context = 8",
            "ipsp = \"double\"\nrouting-context = 8\nlocal-routing-context = 9",
        ],
    ] {
        let [of_a, of_b] = contexts;
        let (at_a, at_b) = (r#""127.0.0.1", "127.0.0.2""#, r#""127.0.0.3", "127.0.0.4""#);
        let (a, gateway_a) =
            start(&(with_one_asp(1, at_a) + &link_set(at_b, "accept = true", of_a))).await;
        let (port, udp_port) = a.ports();
        let ports = format!("port = {port}, udp-port = {}", udp_port.unwrap());
        let (mut b, mut gateway_b) =
            start(&(with_one_asp(2, at_b) + &link_set(at_a, &ports, of_b))).await;
        gateway_b.addresses = vec![[127, 0, 0, 3].into()];
        let mut one = active_asp(&gateway_a, 1, 1).await;
        let mut two = active_asp(&gateway_b, 2, 1).await;
        for stp in [&a, &b] {
            status_with(stp, "link set east, gateway east: active").await;
        }
        send(&one, messages(1, 2, 1000)).await;
        check_order(&receive(&mut two, 1000).await, 1000);
        send(&two, messages(2, 1, 1000)).await;
        check_order(&receive(&mut one, 1000).await, 1000);
        // A changed link set ends its association; the peer sets up another one.
        let changed = format!("identifier = 4\n{of_a}");
        let changed = with_one_asp(1, at_a) + &link_set(at_b, "accept = true", &changed);
        a.reload(config(&changed)).await.unwrap();
        in_time(async {
            while !matches!(b.event().await.unwrap().kind, EventKind::Disconnected(_)) {}
        })
        .await;
        status_with(&b, "link set east, gateway east: active").await;
        send(&two, messages(2, 1, 100)).await;
        check_order(&receive(&mut one, 100).await, 100);
    }
}
