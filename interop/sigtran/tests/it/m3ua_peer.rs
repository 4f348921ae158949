//! M3UA: messages in both directions, and the states of an ASP at the other's gateway.

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::m3ua::asp::{Asp, AspApplicationServer, AspConfig, AspIndication, AspState};
use carrick_sigtran::m3ua::sgp::{
    ApplicationServerConfig, SgpAspConfig, SgpConfig, SgpIndication, SignallingGatewayProcess,
};
use carrick_sigtran::m3ua::*;
use m3ua::{AspAction, M3uaMessage, ProtocolData as TheirData};

use crate::samples::{code, data, full, minimal};

const NOW: Time = Time::ZERO;
const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 4,
};
const CONTEXT: RoutingContext = RoutingContext(1);

fn to_theirs(message: &Message) -> M3uaMessage {
    let octets = message.encode().expect("a valid message");
    M3uaMessage::decode(&octets).unwrap_or_else(|error| panic!("{message:?}: {error}"))
}

fn to_ours(message: &M3uaMessage) -> Message {
    let octets = Bytes::from(message.encode());
    Message::decode(&octets).unwrap_or_else(|error| panic!("{message:?}: {error}"))
}

/// RFC 4666, section 3
#[test]
fn each_message_is_the_same_in_both() {
    let messages = [full(), minimal()].concat();
    assert!(messages.len() > 40);
    for message in messages {
        let theirs = to_theirs(&message);
        let kind = message.kind();
        let header = theirs.encode();
        assert_eq!([header[2], header[3]], [kind.class, kind.message_type]);
        assert_eq!(to_ours(&theirs), message);
    }
}

/// RFC 4666, section 3.3.1
#[test]
fn data_have_the_same_fields_in_both() {
    let ours = data(5, b"user data");
    let theirs = to_theirs(&Message::Data(ours.clone()));
    assert_eq!(theirs.routing_context(), Some(1));
    let label = TheirData::new(0x0818, 0x13a5, 3, 2, 0, 5, b"user data".to_vec());
    assert_eq!(theirs.protocol_data().expect("protocol data"), label);
    let theirs = M3uaMessage::data(None, Some(1), label, None);
    assert_eq!(to_ours(&theirs), Message::Data(ours));
}

#[test]
fn what_they_build_is_understood() {
    let pc = vec![0x0818, 0x13a5];
    let messages = [
        (M3uaMessage::asp_up(Some(7), Some("info")), "AspUp("),
        (M3uaMessage::asp_up_ack(None), "AspUpAck"),
        (M3uaMessage::asp_down(None), "AspDown("),
        (M3uaMessage::asp_down_ack(Some("info")), "AspDownAck"),
        (M3uaMessage::asp_active(Some(2), Some(1)), "AspActive("),
        (
            M3uaMessage::asp_active_ack(Some(2), Some(1)),
            "AspActiveAck",
        ),
        (M3uaMessage::asp_inactive(Some(1)), "AspInactive("),
        (M3uaMessage::asp_inactive_ack(None), "AspInactiveAck"),
        (M3uaMessage::heartbeat(Some(b"beat".to_vec())), "Heartbeat("),
        (
            M3uaMessage::heartbeat_ack(Some(b"beat".to_vec())),
            "HeartbeatAck",
        ),
        (
            M3uaMessage::duna(Some(1), pc.clone()),
            "DestinationUnavailable",
        ),
        (
            M3uaMessage::dava(Some(1), pc.clone()),
            "DestinationAvailable",
        ),
        (M3uaMessage::daud(None, pc.clone()), "DestinationStateAudit"),
        (M3uaMessage::drst(None, pc), "DestinationRestricted"),
        (
            M3uaMessage::dupu(Some(1), 0x0818, 1, 3),
            "UserPartUnavailable",
        ),
        (M3uaMessage::error(1, None, None), "Error"),
        (M3uaMessage::notify(0x0001_0003, Some(7), Some(1)), "Notify"),
    ];
    for (theirs, name) in messages {
        let ours = to_ours(&theirs);
        assert!(format!("{ours:?}").starts_with(name), "{ours:?}");
        assert_eq!(to_theirs(&ours), theirs);
    }
}

/// Hands the messages of our ASP to their gateway, and the answers back; returns the number of messages delivered.
fn exchange(asp: &mut Asp, gateway: &mut m3ua::Asp) -> usize {
    let mut delivered = 0;
    while let Some(transmit) = asp.poll_transmit() {
        match gateway.handle(&to_theirs(&transmit.message)) {
            AspAction::Reply(answer) => asp.handle_message(NOW, 0, &to_ours(&answer)),
            AspAction::Deliver => delivered += 1,
            AspAction::Ignore => panic!("{:?} was ignored", transmit.message),
        }
    }
    delivered
}

/// RFC 4666, section 4.3
#[test]
fn our_asp_is_served_by_their_gateway() {
    let config = AspConfig {
        application_servers: vec![AspApplicationServer::new(CONTEXT)],
        ..AspConfig::default()
    };
    let (mut asp, mut gateway) = (Asp::new(config).expect("a configuration"), m3ua::Asp::new());
    asp.handle_sctp(NOW, UP);
    asp.asp_up(NOW).expect("an association");
    assert_eq!(exchange(&mut asp, &mut gateway), 0);
    assert_eq!(gateway.state(), m3ua::AspState::Inactive);
    for _ in 0..2 {
        asp.asp_active(NOW, &[]).expect("the ASP is up");
        exchange(&mut asp, &mut gateway);
        assert_eq!(asp.state(Some(CONTEXT)), Some(AspState::Active));
        assert_eq!(gateway.state(), m3ua::AspState::Active);
        for sls in 0..5 {
            let protocol_data = data(sls, b"user data").protocol_data;
            asp.transfer(Some(CONTEXT), protocol_data)
                .expect("the ASP is active");
        }
        assert_eq!(exchange(&mut asp, &mut gateway), 5);
        let label = TheirData::new(0x13a5, 0x0818, 3, 2, 0, 5, b"answer".to_vec());
        let answer = M3uaMessage::data(None, Some(1), label, None);
        asp.handle_message(NOW, 1, &to_ours(&answer));
        let received = std::iter::from_fn(|| asp.poll_indication())
            .filter(|indication| matches!(indication, AspIndication::Transfer(_)));
        assert_eq!(received.count(), 1);
        asp.asp_inactive(NOW, &[]).expect("the ASP is active");
        exchange(&mut asp, &mut gateway);
        assert_eq!(gateway.state(), m3ua::AspState::Inactive);
    }
    asp.asp_down(NOW).expect("the ASP is up");
    exchange(&mut asp, &mut gateway);
    assert_eq!(gateway.state(), m3ua::AspState::Down);
    assert!(!asp.is_up());
}

/// RFC 4666, section 4.3
#[test]
fn their_requests_are_served_by_our_gateway() {
    let mut sgp = SignallingGatewayProcess::new(SgpConfig::default());
    let destinations = vec![RoutingKeyDestination::all(code(0x0818))];
    let server = ApplicationServerConfig::new(CONTEXT, destinations);
    sgp.add_application_server(server)
        .expect("a valid application server");
    let asp = SgpAspConfig {
        identifier: Some(AspIdentifier(7)),
        application_servers: vec![CONTEXT],
    };
    let key = sgp.add_asp(asp).expect("a valid ASP");
    sgp.handle_sctp(NOW, key, UP);
    let mut ask = |message: M3uaMessage, stream| {
        sgp.handle_message(NOW, key, stream, &to_ours(&message));
        let answers = std::iter::from_fn(|| sgp.poll_transmit());
        let answers: Vec<_> = answers
            .map(|(_, own)| to_theirs(&own.message).message_type)
            .collect();
        let indications = std::iter::from_fn(|| sgp.poll_indication());
        let received = indications
            .filter(|own| matches!(own, SgpIndication::Transfer(..)))
            .count();
        (answers, received)
    };
    use m3ua::MessageType as Type;
    let (answers, _) = ask(M3uaMessage::asp_up(Some(7), None), 0);
    assert_eq!(answers[0], Type::AspUpAck);
    let (answers, _) = ask(M3uaMessage::asp_active(None, Some(1)), 0);
    assert_eq!(answers[0], Type::AspActiveAck);
    let label = TheirData::new(0x0818, 0x13a5, 3, 2, 0, 5, b"user data".to_vec());
    assert_eq!(
        ask(M3uaMessage::data(None, Some(1), label, None), 1),
        (vec![], 1)
    );
    let (answers, _) = ask(M3uaMessage::heartbeat(Some(b"beat".to_vec())), 0);
    assert_eq!(answers, [Type::HeartbeatAck]);
    let (answers, _) = ask(M3uaMessage::asp_inactive(Some(1)), 0);
    assert_eq!(answers[0], Type::AspInactiveAck);
    let (answers, _) = ask(M3uaMessage::asp_down(None), 0);
    assert_eq!(answers[0], Type::AspDownAck);
}
