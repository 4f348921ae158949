//! Reports about destinations: audits, and what gateways report to a signal transfer point that is their ASP.

use std::net::IpAddr;

use carrick::{Association, ConnectOptions, Endpoint, Ppid, SendOptions, StreamId};
use carrick_sigtran::aspm::{Layer, Maintenance};
use carrick_sigtran::m3ua::asp::AspIndication;
use carrick_sigtran::m3ua::{
    self, AffectedPointCode, AffectedPointCodes, AspIdentifier, AspUp, Data, DestinationState,
    Heartbeat, M3ua, Message, PointCode, RoutingContext, RoutingContexts, UnavailabilityCause,
    UserCause, UserIdentity,
};
use carrick_sigtran_net::{EventKind, RemoteGateway, Session};

use super::ipsp::link_set;
use super::session::{remote, serve};
use super::stp::{FILE, active_asp, config, start, status_with, with_one_asp};
use super::support::{endpoint, endpoint_at, in_time, messages, send, wait_for};

/// Waits for a DUPU; returns its point code and cause.
pub(crate) async fn user_part(session: &mut Session) -> (u32, UserCause) {
    let event = wait_for(session, |kind| {
        matches!(kind, EventKind::Asp(AspIndication::UserPartUnavailable(_)))
    });
    match event.await.kind {
        EventKind::Asp(AspIndication::UserPartUnavailable(dupu)) => {
            (dupu.affected.0.value(), dupu.user_cause)
        }
        other => panic!("{other:?}"),
    }
}

/// Waits for an SCON; returns its point code and level.
pub(crate) async fn congestion(session: &mut Session) -> (u32, Option<u8>) {
    let event = wait_for(session, |kind| {
        matches!(kind, EventKind::Asp(AspIndication::Congestion(_)))
    });
    match event.await.kind {
        EventKind::Asp(AspIndication::Congestion(scon)) => {
            let code = scon.affected.0[0].point_code.value();
            (code, scon.level.map(|level| level.level()))
        }
        other => panic!("{other:?}"),
    }
}

/// Waits for the SCON that reports the end of a congestion; returns its point code. Messages are answered until then.
pub(crate) async fn congestion_end(session: &mut Session) -> u32 {
    loop {
        if let (code, Some(0)) = congestion(session).await {
            return code;
        }
    }
}

/// RFC 4666, section 3.4.5: the user part is equipped, but not in service
#[tokio::test]
async fn an_inaccessible_user_part_is_reported() {
    let text = FILE.replace("keys = [{ dpc = 1 }]", "keys = [{ dpc = 1, si = [5] }]");
    let text = format!(
        "{text}
[[application-server]]
name = \"three\"
routing-context = 3
asps = [\"asp2\"]
keys = [{{ dpc = 1, si = [3] }}]
"
    );
    let (_stp, gateway) = start(&text).await;
    let _one = active_asp(&gateway, 1, 1).await;
    let mut two = active_asp(&gateway, 2, 3).await;
    send(&two, messages(2, 1, 1)).await;
    let cause = UserCause {
        cause: UnavailabilityCause::INACCESSIBLE,
        user: UserIdentity::SCCP,
    };
    assert_eq!(user_part(&mut two).await, (1, cause));
}

/// Returns the configuration of a signal transfer point with one ASP for point code 5, and a link set to this gateway.
fn behind(gateway: &RemoteGateway, context: u32, identifier: u32) -> String {
    let (port, udp_port) = (gateway.port, gateway.udp_port.unwrap());
    format!(
        "{}
[[link-set]]
name = \"up\"
routing-context = {context}
identifier = {identifier}
gateways = [{{ addresses = [\"127.0.0.1\"], port = {port}, udp-port = {udp_port} }}]
[[route]]
dpc = 1
link-set = \"up\"
",
        super::stp::with_one_asp(5, "\"127.0.0.1\"")
    )
}

/// RFC 4666, sections 3.4.4 and 3.4.5: DUPU and SCON of a gateway
#[tokio::test]
async fn reports_of_a_gateway_are_passed_on() {
    let text = FILE.replace("keys = [{ dpc = 1 }]", "keys = [{ dpc = 1, si = [5] }]");
    let (upper, upper_gateway) = start(&text).await;
    let mut one = active_asp(&upper_gateway, 1, 1).await;
    let (_lower, gateway) = start(&behind(&upper_gateway, 2, 3)).await;
    let mut five = active_asp(&gateway, 5, 1).await;
    send(&five, messages(5, 1, 1)).await;
    let cause = UserCause {
        cause: UnavailabilityCause::UNEQUIPPED,
        user: UserIdentity::SCCP,
    };
    assert_eq!(user_part(&mut five).await, (1, cause));
    // With all service indicators, more messages than the ASP that does not read can get.
    upper.reload(config(FILE)).await.unwrap();
    super::support::active(&mut one).await;
    send(&five, messages(5, 1, 120_000)).await;
    assert_eq!(congestion(&mut five).await, (1, Some(1)));
    let mut received = Vec::new();
    let ended = in_time(async {
        loop {
            tokio::select! {
                code = congestion_end(&mut five) => return code,
                _ = one.receiver.recv_many(&mut received, 1000) => {}
            }
        }
    });
    assert_eq!(ended.await, 1);
}

/// ASP whose messages the test writes itself.
struct RawAsp(Association);

impl RawAsp {
    async fn active(gateway: &RemoteGateway, context: RoutingContext, identifier: u32) -> Self {
        Self::active_from(&endpoint(), gateway, context, identifier).await
    }

    /// Returns an active ASP at an endpoint.
    async fn active_from(
        endpoint: &Endpoint,
        gateway: &RemoteGateway,
        context: RoutingContext,
        identifier: u32,
    ) -> Self {
        let udp_port = gateway.udp_port.unwrap();
        let options = ConnectOptions::new().encapsulation_port(udp_port);
        let peer = (gateway.addresses[0], gateway.port);
        let connected = endpoint.connect_with(peer, options).await;
        let mut asp = Self(connected.unwrap());
        let up = AspUp {
            asp_identifier: Some(AspIdentifier(identifier)),
            info: None,
        };
        asp.send(&M3ua::write(Maintenance::AspUp(up))).await;
        let active = Message::AspActive(m3ua::AspActive {
            traffic_mode: None,
            routing_contexts: RoutingContexts::new([context]),
            info: None,
        });
        asp.next(|message| matches!(message, Message::AspUpAck(_)))
            .await;
        asp.send(&active).await;
        asp.next(|message| matches!(message, Message::AspActiveAck(_)))
            .await;
        asp
    }

    async fn send(&self, message: &Message) {
        let octets = message.encode().unwrap();
        let options = SendOptions {
            ppid: Ppid(m3ua::PAYLOAD_PROTOCOL_ID),
            stream: StreamId(matches!(message, Message::Data(_)).into()),
            ..SendOptions::default()
        };
        self.0.send(octets, options).await.unwrap();
    }

    /// Returns the next message that is wanted, and those before it.
    async fn next(&mut self, is_wanted: impl Fn(&Message) -> bool) -> Vec<Message> {
        let mut messages = Vec::new();
        in_time(async {
            loop {
                let received = self.0.recv().await.unwrap().expect("an association");
                let message = Message::decode(&received.payload.into_bytes()).unwrap();
                messages.push(message);
                if messages.last().is_some_and(&is_wanted) {
                    return messages;
                }
            }
        })
        .await
    }
}

/// Returns DATA of routing context 2 for a point code.
fn data(dpc: u32) -> Message {
    let outgoing = messages(2, dpc, 1).remove(0).unwrap();
    Message::Data(Data {
        network_appearance: None,
        routing_context: outgoing.routing_context,
        protocol_data: outgoing.protocol_data,
        correlation_id: None,
    })
}

/// Returns the messages that list a point code, alone or in a range.
fn about(code: u32) -> impl Fn(&Message) -> bool {
    let code = PointCode::new(code).unwrap();
    move |message| match message {
        Message::DestinationUnavailable(body) | Message::DestinationAvailable(body) => {
            body.affected.0.iter().any(|range| range.contains(code))
        }
        _ => false,
    }
}

/// Returns whether the last of some messages is a DUNA.
fn ends_with_duna(messages: &[Message]) -> bool {
    matches!(messages.last(), Some(Message::DestinationUnavailable(_)))
}

/// RFC 4666, section 3.4.1
#[tokio::test]
async fn messages_without_a_target_are_answered() {
    let (stp, gateway) = start(FILE).await;
    let mut two = RawAsp::active(&gateway, RoutingContext(2), 3).await;
    // Point code 1 has no active ASP; the ASP got that report when it became active.
    two.next(about(1)).await;
    for _ in 0..10 {
        two.send(&data(1)).await;
        two.send(&data(77)).await;
    }
    assert!(ends_with_duna(&two.next(about(1)).await));
    assert!(ends_with_duna(&two.next(about(77)).await));
    // A route that comes later is reported, though the destination was not configured when the ASP became active.
    let later = format!(
        "{FILE}
[[application-server]]
name = \"later\"
routing-context = 3
asps = [\"asp2\"]
keys = [{{ dpc = 77 }}]
"
    );
    stp.reload(config(&later)).await.unwrap();
    let _later = active_asp(&gateway, 3, 2).await;
    in_time(async { while ends_with_duna(&two.next(about(77)).await) {} }).await;
}

/// RFC 4666, section 4.5.1: reports are for ASPs that send messages to the destination
#[tokio::test]
async fn no_asp_gets_reports_about_itself() {
    let (stp, gateway) = start(FILE).await;
    let mut two = RawAsp::active(&gateway, RoutingContext(2), 3).await;
    // Its application server is active since. The next change is that of another destination.
    status_with(&stp, "destination 0-0-2: available").await;
    let _one = active_asp(&gateway, 1, 1).await;
    let is_available = |message: &Message| matches!(message, Message::DestinationAvailable(_));
    let before = two.next(is_available).await;
    assert!(before.last().is_some_and(about(1)), "{before:?}");
    assert!(!before.iter().any(about(2)), "{before:?}");
}

/// RFC 4666, section 4.5.3: a DAUD about an unknown point code
#[tokio::test]
async fn unknown_point_codes_are_unavailable() {
    let (_stp, gateway) = start(FILE).await;
    let mut two = RawAsp::active(&gateway, RoutingContext(2), 3).await;
    two.send(&audit(Some(2), 77)).await;
    assert!(ends_with_duna(&two.next(about(77)).await));
}

/// Returns a DAUD about a point code.
fn audit(context: Option<u32>, code: u32) -> Message {
    let affected = AffectedPointCode::single(PointCode::new(code).unwrap());
    Message::DestinationStateAudit(DestinationState {
        network_appearance: None,
        routing_contexts: RoutingContexts::new(context.map(RoutingContext)),
        affected: AffectedPointCodes(vec![affected]),
        info: None,
    })
}

/// Returns the answers to a DAUD about a point code: no range, of which others report changes.
fn answers(code: u32) -> impl Fn(&Message) -> bool {
    let affected = AffectedPointCode::single(PointCode::new(code).unwrap());
    move |message| match message {
        Message::DestinationUnavailable(body) | Message::DestinationAvailable(body) => {
            body.affected.0 == [affected]
        }
        _ => false,
    }
}

/// An ASP and an IPSP that have the same key, each in its state machine.
#[tokio::test]
async fn no_asp_gets_reports_for_an_ipsp() {
    let ipsp_address = IpAddr::from([127, 0, 0, 3]);
    let east = link_set(
        r#""127.0.0.3""#,
        "accept = true",
        "ipsp = \"single\"\nrouting-context = 9",
    );
    let (_stp, gateway) = start(&(with_one_asp(1, r#""127.0.0.1""#) + &east)).await;
    let mut one = RawAsp::active(&gateway, RoutingContext(1), 1).await;
    // The state of each destination has been reported.
    one.send(&audit(Some(1), 78)).await;
    one.next(answers(78)).await;
    let at_ipsp = endpoint_at(ipsp_address);
    let mut ipsp = RawAsp::active_from(&at_ipsp, &gateway, RoutingContext(9), 4).await;
    ipsp.send(&audit(None, 77)).await;
    // Answered after the DAUD.
    ipsp.send(&Message::Heartbeat(Heartbeat::default())).await;
    ipsp.next(|message| matches!(message, Message::HeartbeatAck(_)))
        .await;
    one.send(&audit(Some(1), 79)).await;
    let received = one.next(answers(79)).await;
    assert!(!received.iter().any(answers(77)), "{received:?}");
}

/// RFC 4666, section 3.4.4
#[tokio::test]
async fn messages_to_a_congested_target_are_answered() {
    let (stp, gateway) = start(FILE).await;
    let _silent = active_asp(&gateway, 1, 1).await;
    let mut two = RawAsp::active(&gateway, RoutingContext(2), 3).await;
    for _ in 0..120_000 {
        two.send(&data(1)).await;
    }
    status_with(&stp, "sent, congested").await;
    let is_congestion = |message: &Message| matches!(message, Message::SignallingCongestion(_));
    two.next(is_congestion).await;
    // The next message is answered, whether or not the ASP got the report of the onset.
    in_time(async {
        loop {
            two.send(&data(1)).await;
            tokio::select! {
                _ = two.next(is_congestion) => return,
                () = tokio::time::sleep(std::time::Duration::from_millis(200)) => {}
            }
        }
    })
    .await;
}

/// RFC 4666, section 4.5.3
#[tokio::test]
async fn audits_find_congestion_and_restrictions() {
    // A gateway that does not read.
    let upper = endpoint();
    let upper_gateway = remote(&upper);
    let mut upper = serve(upper, &[]);
    // Point code 1 has its own application server, which is preferred to the gateway but not active.
    let text = format!(
        "{}
[[asp]]
name = \"asp6\"
identifier = 6
[[application-server]]
name = \"preferred\"
routing-context = 1
asps = [\"asp6\"]
keys = [{{ dpc = 1 }}]
",
        behind(&upper_gateway, 7, 3)
    );
    let text = text.replace("asps = [\"asp\"]", "asps = [\"asp\", \"asp7\"]");
    let text = format!("{text}[[asp]]\nname = \"asp7\"\nidentifier = 7\n");
    let (stp, gateway) = start(&text).await;
    let five = active_asp(&gateway, 5, 1).await;
    status_with(&stp, "destination 0-0-1: restricted").await;
    let mut auditing = RawAsp::active(&gateway, RoutingContext(5), 7).await;
    let affected = AffectedPointCodes(vec![AffectedPointCode::single(PointCode::new(1).unwrap())]);
    let audit = Message::DestinationStateAudit(DestinationState {
        network_appearance: None,
        routing_contexts: RoutingContexts::new([RoutingContext(5)]),
        affected: affected.clone(),
        info: None,
    });
    let is_restricted = |message: &Message| match message {
        Message::DestinationRestricted(body) => body.affected == affected,
        _ => false,
    };
    auditing.send(&audit).await;
    let answers = auditing.next(is_restricted).await;
    let is_congested = |message: &Message| matches!(message, Message::SignallingCongestion(_));
    assert!(!answers.iter().any(is_congested), "{answers:?}");
    // More than all queues take.
    send(&five, messages(5, 1, 120_000)).await;
    auditing.next(is_congested).await;
    auditing.send(&audit).await;
    let answers = auditing.next(is_restricted).await;
    assert!(is_congested(&answers[answers.len() - 2]), "{answers:?}");
    // The congestion ends when the gateway reads.
    in_time(async {
        let mut received = Vec::new();
        loop {
            tokio::select! {
                _ = auditing.next(is_congested) => return,
                _ = upper.receiver.recv_many(&mut received, 1000) => {}
            }
        }
    })
    .await;
}
