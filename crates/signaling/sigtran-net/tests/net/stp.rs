//! Signal transfer point.

use carrick_sigtran::m3ua::asp::{AspConfig, AspIndication};
use carrick_sigtran::m3ua::{
    AspIdentifier, LocalRoutingKeyIdentifier, PointCode, RegistrationStatus, RoutingContext,
    RoutingKey, RoutingKeyDestination, TrafficMode, UnavailabilityCause, UserCause, UserIdentity,
};
use carrick_sigtran_net::stp::{Stp, StpConfig};
use carrick_sigtran_net::{EventKind, RemoteGateway, Session, start_asp};

use super::reports::{congestion, congestion_end, user_part};
use super::support::{
    active, asp, check_order, endpoint, gateway, in_time, messages, number, receive, send, wait_for,
};

/// ASPs 1 and 2 serve point code 1 in application server `one`, ASP 3 serves point code 2 in `two`.
pub(crate) const FILE: &str = r#"
[listen]
addresses = ["127.0.0.1"]
port = 0
udp-port = 0
[[asp]]
name = "asp1"
identifier = 1
[[asp]]
name = "asp2"
identifier = 2
[[asp]]
name = "asp3"
identifier = 3
[[application-server]]
name = "one"
routing-context = 1
traffic-mode = "loadshare"
asps = ["asp1", "asp2"]
keys = [{ dpc = 1 }]
[[application-server]]
name = "two"
routing-context = 2
traffic-mode = "loadshare"
asps = ["asp3"]
keys = [{ dpc = 2 }]
"#;

/// Configuration of a signal transfer point on these addresses, with one ASP for a point code.
pub(crate) fn with_one_asp(dpc: u32, addresses: &str) -> String {
    format!(
        "[listen]
addresses = [{addresses}]
port = 0
udp-port = 0
[[asp]]
name = \"asp\"
identifier = 1
[[application-server]]
name = \"own\"
routing-context = {dpc}
traffic-mode = \"loadshare\"
asps = [\"asp\"]
keys = [{{ dpc = {dpc} }}]
"
    )
}

pub(crate) fn config(text: &str) -> StpConfig {
    StpConfig::parse("stp.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) async fn start(text: &str) -> (Stp, RemoteGateway) {
    let stp = Stp::start(config(text)).await.unwrap();
    let (port, udp_port) = stp.ports();
    (stp, gateway(port, udp_port))
}

pub(crate) async fn active_asp(gateway: &RemoteGateway, context: u32, identifier: u32) -> Session {
    let mut asp = asp(gateway.clone(), context, Some(identifier));
    active(&mut asp).await;
    asp
}

#[tokio::test]
async fn messages_pass_between_application_servers() {
    let (stp, gateway) = start(FILE).await;
    let mut one = active_asp(&gateway, 1, 1).await;
    let mut two = active_asp(&gateway, 2, 3).await;
    send(&one, messages(1, 2, 2000)).await;
    check_order(&receive(&mut two, 2000).await, 2000);
    send(&two, messages(2, 1, 2000)).await;
    check_order(&receive(&mut one, 2000).await, 2000);
    let status = stp.status().await.unwrap();
    assert!(
        status.contains("traffic of two: 2000 received, 2000 sent"),
        "{status}"
    );
    assert!(
        status.contains("routing context 1: Active, ASP asp1 Active"),
        "{status}"
    );
}

/// RFC 4666, section 4.3.4.4
#[tokio::test]
async fn an_asp_that_ends_loses_no_message() {
    let (_stp, gateway) = start(FILE).await;
    let mut first = active_asp(&gateway, 1, 1).await;
    let mut second = active_asp(&gateway, 1, 2).await;
    let two = active_asp(&gateway, 2, 3).await;
    let sending = tokio::spawn(async move {
        send(&two, messages(2, 1, 20_000)).await;
        two
    });
    let mut received = receive(&mut first, 500).await;
    first.close();
    in_time(async {
        // Messages that are on their way are received until the session has ended.
        while first.receiver.recv_many(&mut received, 100).await > 0 {}
    })
    .await;
    let rest = 20_000 - received.len();
    received.extend(receive(&mut second, rest).await);
    let mut numbers: Vec<_> = received.iter().map(number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20_000).collect::<Vec<_>>());
    sending.await.unwrap();
}

/// RFC 4666, sections 4.5.1 and 4.5.3
#[tokio::test]
async fn unavailable_destinations_are_reported() {
    let (stp, gateway) = start(FILE).await;
    let two = active_asp(&gateway, 2, 3).await;
    let mut one = active_asp(&gateway, 1, 1).await;
    let code = |kind: &EventKind| match kind {
        EventKind::Asp(AspIndication::MtpPause(state) | AspIndication::MtpResume(state)) => {
            state.affected.0[0].point_code.value()
        }
        _ => 0,
    };
    two.close();
    let pause = wait_for(&mut one, |kind| {
        matches!(kind, EventKind::Asp(AspIndication::MtpPause(_)))
    })
    .await;
    assert_eq!(code(&pause.kind), 2);
    let mut sent = messages(1, 2, 1);
    assert!(one.sender.send_many(&mut sent).await.is_err());
    let _two = active_asp(&gateway, 2, 3).await;
    let resume = wait_for(&mut one, |kind| {
        matches!(kind, EventKind::Asp(AspIndication::MtpResume(_)))
    })
    .await;
    assert_eq!(code(&resume.kind), 2);
    send(&one, messages(1, 5, 3)).await;
    status_with(&stp, "discarded, no_route: 3").await;
}

#[tokio::test]
async fn a_reload_keeps_what_did_not_change() {
    let (stp, gateway) = start(FILE).await;
    let mut one = active_asp(&gateway, 1, 1).await;
    let mut two = active_asp(&gateway, 2, 3).await;
    let denied = format!("{FILE}\n[[screening]]\naction = \"deny\"\nopc = 1\ndpc = 1\n");
    assert!(stp.reload(config(&denied)).await.unwrap().is_empty());
    send(&two, messages(2, 1, 5)).await;
    send(&one, messages(1, 2, 5)).await;
    check_order(&receive(&mut two, 5).await, 5);
    let status = stp.status().await.unwrap();
    assert!(status.contains("discarded, screened: 5"), "{status}");
    // Application server "two" changes: its ASP reconnects, that of "one" does not.
    let changed = FILE.replace("{ dpc = 2 }", "{ dpc = 3 }");
    let changed = changed.replace("udp-port = 0", "udp-port = 1");
    assert_eq!(stp.reload(config(&changed)).await.unwrap(), ["listen"]);
    wait_for(&mut two, |kind| matches!(kind, EventKind::Disconnected(_))).await;
    active(&mut two).await;
    send(&one, messages(1, 3, 5)).await;
    check_order(&receive(&mut two, 5).await, 5);
    // A new name is a change as well.
    let renamed = changed.replace("name = \"two\"", "name = \"three\"");
    assert!(stp.reload(config(&renamed)).await.unwrap().is_empty());
    active(&mut two).await;
    send(&one, messages(1, 3, 5)).await;
    check_order(&receive(&mut two, 5).await, 5);
    let mut events = Vec::new();
    while let Ok(event) = one.events.try_recv() {
        events.push(event);
    }
    let is_lost = |kind: &EventKind| matches!(kind, EventKind::Disconnected(_));
    assert!(
        !events.iter().any(|event| is_lost(&event.kind)),
        "{events:?}"
    );
}

/// Two gateways, each with a link set to the other and one ASP of an application server that both serve.
#[tokio::test]
async fn a_mated_pair_carries_traffic_over_its_mate() {
    let side = |mate: Option<(u16, u16)>, context: u32| {
        let (port, udp_port) = mate.unwrap_or((1, 1));
        format!(
            "{FILE}
[[asp]]
name = \"mate\"
identifier = 9
[[application-server]]
name = \"from-mate\"
routing-context = {context}
asps = [\"mate\"]
[[link-set]]
name = \"mate\"
routing-context = {context}
identifier = 9
application-server = \"from-mate\"
gateways = [{{ addresses = [\"127.0.0.1\"], port = {port}, udp-port = {udp_port} }}]
[[route]]
dpc = 1
link-set = \"mate\"
priority = 2
[[route]]
dpc = 0
mask = 14
link-set = \"mate\"
"
        )
    };
    let (a, gateway_a) = start(FILE).await;
    let (port, udp_port) = a.ports();
    let (b, gateway_b) = start(&side(Some((port, udp_port.unwrap())), 9)).await;
    let (port, udp_port) = b.ports();
    a.reload(config(&side(Some((port, udp_port.unwrap())), 9)))
        .await
        .unwrap();
    let mut one = active_asp(&gateway_b, 1, 1).await;
    let two = active_asp(&gateway_a, 2, 3).await;
    send(&two, messages(2, 1, 1000)).await;
    check_order(&receive(&mut one, 1000).await, 1000);
    // The own application server is the better route (DRST).
    status_with(&a, "destination 0-0-1: restricted").await;
    // Neither reaches other destinations, and each reports that to the other.
    status_with(&a, "destination 0-0-0 mask 14: unavailable").await;
    status_with(&b, "destination 0-0-0 mask 14: unavailable").await;
    // Without ASPs of the application server, no gateway considers the other one as its route.
    one.close();
    status_with(&a, "destination 0-0-1: unavailable").await;
    status_with(&b, "destination 0-0-1: unavailable").await;
}

/// RFC 4666, sections 3.4.4 and 4.5.1
#[tokio::test]
async fn congestion_is_reported_until_it_ends() {
    let text = FILE.replace("[\"asp3\"]", "[\"asp3\", \"asp4\"]");
    let text = format!("{text}[[asp]]\nname = \"asp4\"\nidentifier = 4\n");
    let (stp, gateway) = start(&text).await;
    let mut one = active_asp(&gateway, 1, 1).await;
    let mut two = active_asp(&gateway, 2, 3).await;
    // More than all queues to an ASP that does not read take.
    send(&two, messages(2, 1, 120_000)).await;
    assert_eq!(congestion(&mut two).await, (1, Some(1)));
    status_with(&stp, "120000 received, 0 sent").await;
    // An ASP of another application server that becomes active later gets the report, too.
    let mut late = active_asp(&gateway, 2, 4).await;
    assert_eq!(congestion(&mut late).await, (1, Some(1)));
    let mut received = Vec::new();
    let ended = in_time(async {
        loop {
            tokio::select! {
                code = congestion_end(&mut two) => return code,
                _ = one.receiver.recv_many(&mut received, 1000) => {}
            }
        }
    });
    assert_eq!(ended.await, 1);
}

/// RFC 4666, section 3.4.5
#[tokio::test]
async fn an_unavailable_user_part_is_reported() {
    let text = FILE.replace("keys = [{ dpc = 1 }]", "keys = [{ dpc = 1, si = [5] }]");
    let (_stp, gateway) = start(&text).await;
    let _one = active_asp(&gateway, 1, 1).await;
    let mut two = active_asp(&gateway, 2, 3).await;
    send(&two, messages(2, 1, 3)).await;
    let cause = UserCause {
        cause: UnavailabilityCause::UNEQUIPPED,
        user: UserIdentity::SCCP,
    };
    assert_eq!(user_part(&mut two).await, (1, cause));
}

/// Starts an ASP that registers a routing key.
fn registering(gateway: &RemoteGateway, identifier: u32, key: RoutingKey) -> Session {
    let config = AspConfig {
        identifier: Some(AspIdentifier(identifier)),
        ..AspConfig::default()
    };
    let gateway = RemoteGateway {
        routing_keys: vec![key],
        ..gateway.clone()
    };
    start_asp(endpoint(), vec![gateway], &config).unwrap()
}

fn key(dpc: u32, mode: TrafficMode) -> RoutingKey {
    RoutingKey {
        local_id: LocalRoutingKeyIdentifier(1),
        routing_context: None,
        traffic_mode: Some(mode),
        network_appearance: None,
        destinations: vec![RoutingKeyDestination::all(PointCode::new(dpc).unwrap())],
    }
}

/// RFC 4666, section 4.4
#[tokio::test]
async fn asps_register_routing_keys() {
    let text = format!("registration = \"new-keys\"\n{FILE}");
    let (stp, gateway) = start(&text).await;
    let two = active_asp(&gateway, 2, 3).await;
    // A new key is a new application server, with the same key another ASP of it.
    let mut first = registering(&gateway, 1, key(7, TrafficMode::LOADSHARE));
    let mut second = registering(&gateway, 2, key(7, TrafficMode::LOADSHARE));
    active(&mut first).await;
    active(&mut second).await;
    send(&two, messages(2, 7, 1000)).await;
    let mut received = receive(&mut first, 500).await;
    received.extend(receive(&mut second, 500).await);
    check_order(&received, 1000);
    // Without a routing context, a message is one of the only application server.
    let mut sent = messages(0, 2, 1);
    sent[0].routing_context = None;
    send(&first, sent).await;
    status_with(&stp, "traffic of two: 1000 received, 1 sent").await;
    // The application server ends with its last ASP.
    first.close();
    second.close();
    in_time(first.ended()).await;
    in_time(second.ended()).await;
    in_time(async {
        while stp.status().await.unwrap().contains("registered-") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // A DUNA reports that its destination has no route any more.
    in_time(async {
        while two.sender.send_many(&mut messages(2, 7, 1)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// RFC 4666, section 3.6.2
#[tokio::test]
async fn registrations_have_their_results() {
    let all = |code| RoutingKeyDestination::all(PointCode::new(code).unwrap());
    for (policy, key, expected) in [
        (
            "configured-keys",
            key(1, TrafficMode::LOADSHARE),
            Ok(RoutingContext(1)),
        ),
        // The ASP is configured for it.
        (
            "configured-keys",
            key(3, TrafficMode::LOADSHARE),
            Err(Some(RegistrationStatus::ALREADY_REGISTERED)),
        ),
        (
            "new-keys",
            RoutingKey {
                destinations: (1000..1257).map(all).collect(),
                ..key(1, TrafficMode::LOADSHARE)
            },
            Err(Some(RegistrationStatus::INSUFFICIENT_RESOURCES)),
        ),
        (
            "configured-keys",
            key(1, TrafficMode::OVERRIDE),
            Err(Some(RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE)),
        ),
        (
            "configured-keys",
            key(7, TrafficMode::LOADSHARE),
            Err(Some(RegistrationStatus::NOT_PROVISIONED)),
        ),
        (
            "new-keys",
            RoutingKey {
                destinations: vec![RoutingKeyDestination {
                    service_indicators: vec![3],
                    ..key(1, TrafficMode::LOADSHARE).destinations.remove(0)
                }],
                ..key(1, TrafficMode::LOADSHARE)
            },
            Err(Some(RegistrationStatus::NO_UNIQUE_ROUTING)),
        ),
        (
            "new-keys",
            RoutingKey {
                routing_context: Some(RoutingContext(1)),
                ..key(1, TrafficMode::LOADSHARE)
            },
            Err(Some(RegistrationStatus::CHANGE_REFUSED)),
        ),
    ] {
        let text = format!(
            "registration = \"{policy}\"
{FILE}
[[asp]]
name = \"x\"
identifier = 9
[[application-server]]
name = \"three\"
routing-context = 3
traffic-mode = \"loadshare\"
asps = [\"x\"]
keys = [{{ dpc = 3 }}]
"
        );
        let (_stp, gateway) = start(&text).await;
        let mut asp = registering(&gateway, 9, key);
        let result = wait_for(&mut asp, |kind| {
            matches!(kind, EventKind::Asp(AspIndication::Registered(..)))
        });
        let expected = AspIndication::Registered(LocalRoutingKeyIdentifier(1), expected);
        assert_eq!(result.await.kind, EventKind::Asp(expected));
    }
    let (_stp, gateway) = start(FILE).await;
    let mut asp = registering(&gateway, 1, key(7, TrafficMode::LOADSHARE));
    let error = wait_for(&mut asp, |kind| {
        matches!(kind, EventKind::Asp(AspIndication::Error(_)))
    });
    let error = error.await.to_string();
    assert!(error.contains("Unsupported Message Class"), "{error}");
}

/// Waits until the status has these words.
pub(crate) async fn status_with(stp: &Stp, words: &str) {
    in_time(async {
        while !stp.status().await.unwrap().contains(words) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
