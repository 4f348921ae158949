//! IP server processes (RFC 4666, section 5.6; RFC 3868, section 4.3).

use std::time::Duration;

use carrick::Endpoint;
use carrick_sigtran::aspm::ipsp::{IpspExchange, IpspLayer};
use carrick_sigtran::aspm::sgp::{AsState, GatewayConfig, GatewayEvent};
use carrick_sigtran::m3ua::{self, M3ua, RoutingContext};
use carrick_sigtran::sua::asp::AspIndication;
use carrick_sigtran::sua::connection::{ConnectRequest, ConnectionTableConfig};
use carrick_sigtran::sua::sgp::Destinations;
use carrick_sigtran::sua::{self, Sua};
use carrick_sigtran_net::{
    ConnectError, EventKind, IpspConfig, IpspPeer, Session, SocketLayer, start_ipsp, start_sua_ipsp,
};

use super::layers::next;
use super::stp::{active_asp, config, start, status_with, with_one_asp};
use super::sua::{
    batch, connect_with, data, indication, request, send_data, unavailable, unitdata,
};
use super::support::{
    check_order, disconnected, endpoint, gateway, in_time, messages, receive, send, wait_for,
};

/// Models of the exchange, each with the routing contexts of both ends.
const EXCHANGES: [(IpspExchange, [u32; 2]); 3] = [
    (IpspExchange::Single, [7, 7]),
    (IpspExchange::Double, [7, 8]),
    (IpspExchange::DoubleWithSingleAspsm, [7, 8]),
];

/// Application servers of a layer, for the tests of IPSPs.
trait Servers: SocketLayer + IpspLayer {
    fn served(context: u32) -> Self::Served;
    fn server(context: u32) -> Self::Server;
}

impl Servers for M3ua {
    fn served(context: u32) -> m3ua::asp::AspApplicationServer {
        m3ua::asp::AspApplicationServer::new(RoutingContext(context))
    }

    fn server(context: u32) -> m3ua::sgp::ApplicationServerConfig {
        m3ua::sgp::ApplicationServerConfig::new(RoutingContext(context), Vec::new())
    }
}

impl Servers for Sua {
    fn served(context: u32) -> sua::asp::AspApplicationServer {
        sua::asp::AspApplicationServer::new(RoutingContext(context))
    }

    fn server(context: u32) -> sua::sgp::ApplicationServerConfig {
        sua::sgp::ApplicationServerConfig::new(RoutingContext(context), Destinations::Unrouted)
    }
}

/// Starts an IPSP with the peer at another endpoint, whose application server has the second context.
fn start_peer<L: Servers>(
    [here, there]: [&Endpoint; 2],
    exchange: IpspExchange,
    [local, remote]: [u32; 2],
    connects: bool,
) -> Session<L> {
    let config = ipsp_config(there, exchange, [local, remote], connects);
    start_ipsp(here.clone(), config, sgp()).unwrap()
}

/// Messages wait for the peer longer than any test takes.
fn sgp<L: Servers>() -> GatewayConfig<L> {
    GatewayConfig {
        t_recovery: Duration::from_secs(600),
        ..GatewayConfig::default()
    }
}

fn ipsp_config<L: Servers>(
    there: &Endpoint,
    exchange: IpspExchange,
    [local, remote]: [u32; 2],
    connects: bool,
) -> IpspConfig<L> {
    IpspConfig {
        exchange,
        remote: L::server(remote),
        local: L::served(local),
        identifier: None,
        peers: vec![IpspPeer {
            remote: gateway(there.port(), there.encapsulation_port()),
            connects,
        }],
    }
}

/// Starts two IPSPs, the first of which sets the association up, and waits until both are active. Returns their endpoints
/// as well.
async fn start_both<L: Servers>(
    exchange: IpspExchange,
    [own, other]: [u32; 2],
) -> ([Endpoint; 2], [Session<L>; 2]) {
    let (here, there) = (endpoint(), endpoint());
    let mut accepting = start_peer([&there, &here], exchange, [other, own], false);
    let mut connecting = start_peer([&here, &there], exchange, [own, other], true);
    peer_active(&mut connecting).await;
    peer_active(&mut accepting).await;
    ([here, there], [connecting, accepting])
}

/// Waits until the application server of the peer is active.
async fn peer_active<L: SocketLayer>(session: &mut Session<L>) {
    wait_for(session, |kind| {
        let EventKind::Sgp(indication) = kind else {
            return false;
        };
        let event = L::gateway_event(indication);
        matches!(event, Some(GatewayEvent::AsStatus(_, AsState::Active)))
    })
    .await;
}

/// Checks that this end of the association is shut down when the other one ends.
async fn end<L: SocketLayer>(mut session: Session<L>, ending: Session<L>) {
    ending.close();
    in_time(ending.ended()).await;
    disconnected(&mut session).await;
}

/// RFC 4666, sections 4.3 and 5.6
#[tokio::test]
async fn messages_pass_between_ipsps() {
    for (exchange, contexts) in EXCHANGES {
        let (_endpoints, [mut connecting, mut accepting]) = start_both(exchange, contexts).await;
        send(&connecting, messages(0, 9, 500)).await;
        send(&accepting, messages(0, 9, 500)).await;
        let received = receive(&mut accepting, 500).await;
        check_order(&received, 500);
        let context = RoutingContext(contexts[1]);
        assert_eq!(received[0].routing_context, Some(context));
        check_order(&receive(&mut connecting, 500).await, 500);
        end(connecting, accepting).await;
    }
}

/// Receives unitdata with these serial numbers, in the routing context of this end.
async fn receive_unitdata(session: &mut Session<Sua>, context: u32, count: u32) {
    let context = RoutingContext(context);
    for number in 0..count {
        let message = Box::new(unitdata(context, number));
        let expected = EventKind::Asp(AspIndication::Traffic(context, message));
        assert_eq!(next(session).await, expected);
    }
}

/// RFC 3868, sections 1.3.3 and 4.3
#[tokio::test]
async fn unitdata_pass_between_ipsps() {
    for (exchange, contexts) in EXCHANGES {
        let (_endpoints, [mut connecting, mut accepting]) = start_both(exchange, contexts).await;
        for session in [&connecting, &accepting] {
            session.sender.send_messages(&mut batch(500)).await.unwrap();
        }
        receive_unitdata(&mut connecting, contexts[0], 500).await;
        receive_unitdata(&mut accepting, contexts[1], 500).await;
        let refused = connecting.sender.connect(request()).await;
        assert_eq!(refused, Err(ConnectError::NoConnections));
        end(connecting, accepting).await;
    }
}

/// RFC 3868, sections 4.3.2 and 4.3.3: AS-PENDING
#[tokio::test]
async fn unitdata_wait_for_the_peer_to_return() {
    for (exchange, contexts) in EXCHANGES {
        let ([here, there], [mut connecting, accepting]) = start_both(exchange, contexts).await;
        // The association is aborted.
        drop(accepting);
        disconnected(&mut connecting).await;
        unavailable(&mut connecting).await;
        let waiting = connecting.sender.send_messages(&mut batch(100)).await;
        waiting.unwrap();
        let [own, other] = contexts;
        let mut accepting = start_peer([&there, &here], exchange, [other, own], false);
        peer_active(&mut accepting).await;
        receive_unitdata(&mut accepting, other, 100).await;
        let sent = accepting.sender.send_messages(&mut batch(100)).await;
        sent.unwrap();
        receive_unitdata(&mut connecting, own, 100).await;
    }
}

pub(crate) fn link_set(addresses: &str, peer: &str, contexts: &str) -> String {
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

/// RFC 3868, sections 1.3.3 and 3.3
#[tokio::test]
async fn connections_pass_between_ipsps() {
    for (exchange, contexts) in EXCHANGES {
        let (here, there) = (endpoint(), endpoint());
        let [own, other] = contexts;
        let start = |here: &Endpoint, there, contexts, connects| {
            let config = ipsp_config(there, exchange, contexts, connects);
            let connections = ConnectionTableConfig::default();
            start_sua_ipsp(here.clone(), config, sgp(), connections).unwrap()
        };
        let mut accepting = start(&there, &here, [other, own], false);
        let mut connecting = start(&here, &there, [own, other], true);
        peer_active(&mut connecting).await;
        peer_active(&mut accepting).await;
        let request = ConnectRequest {
            routing_context: RoutingContext(other),
            ..request()
        };
        let [local, remote] = connect_with([&mut connecting, &mut accepting], request).await;
        send_data(&connecting, local, "request").await;
        assert_eq!(indication(&mut accepting).await, (remote, data("request")));
        send_data(&accepting, remote, "answer").await;
        assert_eq!(indication(&mut connecting).await, (local, data("answer")));
        end(connecting, accepting).await;
    }
}
