//! How a gateway finds out which ASP a peer is, and what peers that it does not know can cause.

use std::net::{IpAddr, Ipv4Addr};

use carrick::{Association, ConnectOptions};
use carrick_sigtran::m3ua::asp::{AspIndication, AspState};
use carrick_sigtran_net::stp::Stp;
use carrick_sigtran_net::{EventKind, RemoteGateway, Session};

use super::stp::{FILE, start};
use super::support::{LOOPBACK, asp, endpoint_at, in_time};

const OTHER_HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Sets up associations from an address and sends nothing. Returns those that are established at the peer's end.
async fn silent_peers(gateway: &RemoteGateway, from: IpAddr, count: usize) -> Vec<Association> {
    let mut associations = Vec::new();
    for _ in 0..count {
        let udp_port = gateway.udp_port.unwrap();
        let options = ConnectOptions::new().encapsulation_port(udp_port);
        let peer = (LOOPBACK, gateway.port);
        let connected = in_time(endpoint_at(from).connect_with(peer, options)).await;
        associations.push(connected.unwrap());
    }
    associations
}

/// Returns the events until the ASP is active.
async fn events_until_active(session: &mut Session) -> Vec<EventKind> {
    let mut events = Vec::new();
    in_time(async {
        loop {
            let event = session.events.recv().await.expect("the session lives");
            let is_active = matches!(
                &event.kind,
                EventKind::Asp(AspIndication::AspStatus(_, AspState::Active))
            );
            events.push(event.kind);
            if is_active {
                return;
            }
        }
    })
    .await;
    events
}

/// Checks that an ASP becomes active with its first association while others are set up from an address and are silent.
async fn is_not_locked_out(text: &str, from: IpAddr) {
    let (_stp, gateway): (Stp, _) = start(text).await;
    let _silent = silent_peers(&gateway, from, 100).await;
    let mut honest = asp(gateway, 1, Some(1));
    let events = events_until_active(&mut honest).await;
    let ended = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::Disconnected(_) | EventKind::ConnectFailed(..)
        )
    };
    assert!(!events.iter().any(ended), "{events:?}");
}

#[tokio::test]
async fn strangers_lock_no_asp_out() {
    is_not_locked_out(FILE, OTHER_HOST).await;
}

#[tokio::test]
async fn a_configured_host_locks_no_asp_out() {
    let text = FILE.replace(
        "identifier = 3",
        "identifier = 3\naddresses = [\"127.0.0.2\"]",
    );
    is_not_locked_out(&text, OTHER_HOST).await;
    // Nor do strangers lock out an ASP with a configured address.
    let text = FILE.replace(
        "identifier = 1",
        "identifier = 1\naddresses = [\"127.0.0.1\"]",
    );
    is_not_locked_out(&text, OTHER_HOST).await;
}
