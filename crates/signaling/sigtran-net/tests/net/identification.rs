//! How a gateway finds out which ASP a peer is, and what peers that it does not know can cause.

use std::net::{IpAddr, Ipv4Addr};

use carrick::{Association, ConnectOptions};
use carrick_sigtran::m3ua::asp::{AspIndication, AspState};
use carrick_sigtran_net::stp::Stp;
use carrick_sigtran_net::{EventKind, RemoteGateway, Session};

use super::stp::{FILE, config, start, status_with};
use super::support::{
    LOOPBACK, active, asp, asp_on, check_order, endpoint_at, endpoint_on, in_time, messages,
    receive, send,
};

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

/// Returns the configuration with ASPs that have only an address, and further keys for some.
fn by_address(keys: [&str; 3]) -> String {
    let mut text = FILE.to_owned();
    for (number, keys) in (1..).zip(keys) {
        let identifier = format!("identifier = {number}");
        text = text.replace(&identifier, &format!("addresses = [\"127.0.0.1\"]\n{keys}"));
    }
    text
}

/// RFC 4666, section 4.3.4.3: the routing contexts of the ASP Active
#[tokio::test]
async fn routing_contexts_identify_asps_of_a_host() {
    let (stp, gateway) = start(&by_address([""; 3])).await;
    let mut sessions = Vec::new();
    for context in [2, 1, 1] {
        let mut session = asp(gateway.clone(), context, None);
        active(&mut session).await;
        sessions.push(session);
    }
    status_with(
        &stp,
        "routing context 1: Active, ASP asp1 Active, ASP asp2 Active",
    )
    .await;
    let two = sessions.remove(0);
    send(&two, messages(2, 1, 100)).await;
    let mut received = receive(&mut sessions[0], 50).await;
    received.extend(receive(&mut sessions[1], 50).await);
    check_order(&received, 100);
    // The only ASP of an application server may have lost its association without a trace.
    let mut again = asp(gateway.clone(), 2, None);
    active(&mut again).await;
    // An ASP that has ended gives its place to another process.
    let last = sessions.remove(1);
    last.close();
    in_time(last.ended()).await;
    let mut next = asp(gateway, 1, None);
    active(&mut next).await;
}

#[tokio::test]
async fn ports_identify_asps_of_a_host() {
    let text = by_address(["port = 4001", "port = 4002", ""]);
    let (stp, gateway) = start(&text).await;
    let mut second = asp_on(endpoint_on(4002), gateway.clone(), 1, None);
    active(&mut second).await;
    status_with(
        &stp,
        "routing context 1: Active, ASP asp1 Down, ASP asp2 Active",
    )
    .await;
    let mut third = asp_on(endpoint_on(4003), gateway.clone(), 2, None);
    active(&mut third).await;
    let mut first = asp_on(endpoint_on(4001), gateway, 1, None);
    active(&mut first).await;
}

#[test]
fn equal_addresses_and_ports_are_an_error() {
    let text = by_address(["port = 4001", "port = 4001", ""]);
    let error = carrick_sigtran_net::stp::StpConfig::parse("f", &text).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("\"asp1\" has the same address and port"),
        "{error}"
    );
    config(&by_address([
        "port = 4001",
        "port = 4001\nidentifier = 2",
        "",
    ]));
}

/// RFC 4666, section 3.8.1
#[tokio::test]
async fn refusals_of_unidentified_peers_have_reasons() {
    for (identifier, reason) in [
        (None, "ASP Up without ASP Identifier"),
        (Some(9), "ASP Up with an ASP Identifier that no ASP"),
    ] {
        let (mut stp, gateway) = start(FILE).await;
        let mut refused = asp(gateway, 1, identifier);
        super::support::wait_for(&mut refused, |kind| {
            matches!(kind, EventKind::Asp(AspIndication::Error(_)))
        })
        .await;
        drop(refused);
        let event = in_time(async {
            loop {
                let event = stp.event().await.expect("it runs");
                if matches!(event.kind, EventKind::Refused(..)) {
                    return event.to_string();
                }
            }
        });
        let event = event.await;
        assert!(event.contains(reason), "{event}");
    }
}
