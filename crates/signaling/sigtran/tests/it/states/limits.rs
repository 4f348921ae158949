//! Unknown application servers, wrong messages and floods of both, in every layer.

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::aspm::asp::{Asp, AspConfig};
use carrick_sigtran::aspm::sgp::GatewayConfig;
use carrick_sigtran::aspm::{AsIds, AspState, LayerMessage, Maintenance};
use carrick_sigtran::message::{AspUp, DecodeError, TrafficMode};

use super::{TestAsp, TestGateway, Tested, UP, active, for_every_layer};

/// RFC 4666, sections 3.8.1, 4.3.4.3 and 4.3.4.4
fn unknown_servers<L: Tested>() {
    let mut test = TestGateway::<L>::new(GatewayConfig::default(), None, 1);
    test.bring_up(0);
    test.sent(0);
    let over = Some(TrafficMode::OVERRIDE);
    let error = |code: carrick_sigtran::message::ErrorCode| {
        format!("ERR {}", code.name().unwrap_or_default())
    };
    // Those that are known are acknowledged nevertheless.
    test.send(0, &active::<L>(over, &[L::id(1), L::id(2), L::id(3)]));
    let expected = [
        error(L::UNDEFINED_AS),
        "ASPAC ACK".into(),
        "NTFY AsActive".into(),
    ];
    assert_eq!(test.sent(0), expected);
    let inactive = |ids: Vec<L::AsId>| L::write(Maintenance::AspInactive(AsIds::new(ids)));
    test.send(0, &inactive(vec![L::id(2)]));
    assert_eq!(test.sent(0), [error(L::INVALID_AS)]);
    // A flood has one answer for each of 32, and one for the rest.
    test.send(0, &inactive((2..5002).map(L::id).collect()));
    assert_eq!(test.sent(0).len(), 33);
    test.send(
        0,
        &active::<L>(over, &(2..5002).map(L::id).collect::<Vec<_>>()),
    );
    assert_eq!(test.sent(0), [error(L::UNDEFINED_AS)]);
    test.send(0, &L::traffic(2));
    assert_eq!(test.sent(0), [error(L::INVALID_AS)]);
    let state = test.gateway.asp_state(test.asps[0], L::id(1));
    assert_eq!(state, Some(AspState::Active));
}

/// RFC 4666, section 3.8.1: messages of the other side, and Error messages, which are not answered
fn unexpected_messages<L: Tested>() {
    let mut test = TestGateway::<L>::new(GatewayConfig::default(), None, 1);
    test.bring_up(0);
    test.sent(0);
    let ack = L::write(Maintenance::AspUpAck(AspUp::default()));
    test.send(0, &ack);
    assert_eq!(test.sent(0), ["ERR Unexpected Message"]);
    let error = L::error(L::INVALID_AS, None, b"junk");
    test.send(0, &L::write(Maintenance::Error(error)));
    assert_eq!(test.sent(0), [""; 0]);
    let mut asp = TestAsp::<L>::new();
    asp.asp.handle_sctp(asp.now, UP);
    asp.receive(Maintenance::AspUp(AspUp::default()));
    assert_eq!(asp.sent(), ["ERR Unexpected Message"]);
}

/// RFC 4666, section 3.8.1: messages that can't be decoded
fn malformed_messages<L: Tested>() {
    let mut test = TestGateway::<L>::new(GatewayConfig::default(), None, 1);
    test.bring_up(0);
    test.sent(0);
    let octets = Bytes::from_static(&[1, 0, 99, 1, 0, 0, 0, 8]);
    let error = carrick_sigtran::m3ua::Message::decode(&octets);
    let error: DecodeError = error.expect_err("an unsupported class");
    let (now, key) = (test.now, test.asps[0]);
    test.gateway.handle_malformed(now, key, &error, &octets);
    assert_eq!(test.sent(0), ["ERR Unsupported Message Class"]);
}

/// A list of all application servers takes a step for each, whatever the number of ranges and repetitions; messages fit.
fn many_servers<L: Tested>() {
    const COUNT: u32 = 10_000;
    let config = AspConfig {
        application_servers: (1..=COUNT).map(|number| L::served(number, None)).collect(),
        max_application_servers: COUNT as usize,
        ..AspConfig::default()
    };
    let mut asp = Asp::<L>::new(config).expect("a valid configuration");
    let now = Time::from_millis(1);
    asp.handle_sctp(now, UP);
    asp.asp_up(now).expect("an association");
    let ack = L::write(Maintenance::AspUpAck(AspUp::default()));
    asp.handle_message(now, 0, &ack);
    asp.asp_active(now, &[]).expect("up");
    while asp.poll_indication().is_some() {}
    let sent: Vec<_> = std::iter::from_fn(|| asp.poll_transmit()).collect();
    assert_eq!(sent.len(), 3, "ASP Up, and ASP Active in two lists");
    let mut listed = 0;
    for transmit in &sent[1..] {
        transmit.message.encode().expect("a message that fits");
        let ids = L::ids(&transmit.message).expect("a list");
        listed += ids.ranges().len();
        let acknowledged = Maintenance::AspActiveAck(Some(TrafficMode::OVERRIDE), Some(ids));
        asp.handle_message(now, 0, &L::write(acknowledged));
    }
    assert_eq!(listed, COUNT as usize);
    let active = |number| asp.state(Some(L::id(number))) == Some(AspState::Active);
    assert!((1..=COUNT).all(active));
    assert_eq!(asp.poll_timeout(), None, "every T(ack) has stopped");
}

/// RFC 4666, section 4.4.1: a flood of registrations beside 10,000 routing keys has a result for each key, and adds no more
/// than the limit of application servers
#[test]
fn registrations_are_bounded() {
    use carrick_sigtran::m3ua::{self, M3ua, RegistrationStatus, RoutingContext};
    const CONFIGURED: u32 = 10_000;
    const LIMIT: u32 = 12_000;
    let config = m3ua::sgp::SgpConfig {
        registration: m3ua::sgp::RegistrationPolicy::NewKeys,
        max_application_servers: LIMIT as usize,
        ..m3ua::sgp::SgpConfig::default()
    };
    let servers = (1..=CONFIGURED).map(|number| M3ua::server(number, None, 1));
    let mut gateway = super::Pair::<M3ua>::new(config, servers.collect()).gateway;
    let now = Time::from_millis(1);
    let asp = gateway.add_asp(m3ua::sgp::SgpAspConfig::default());
    let asp = asp.expect("room");
    gateway.handle_sctp(now, asp, UP);
    let up = m3ua::Message::AspUp(AspUp::default());
    gateway.handle_message(now, asp, 0, &up);
    let key = |number: u32| m3ua::RoutingKey {
        local_id: m3ua::LocalRoutingKeyIdentifier(number),
        routing_context: None,
        traffic_mode: None,
        network_appearance: None,
        destinations: M3ua::server(number, None, 1).destinations,
    };
    // Each message has keys that are configured, new, or above the limit; every message is repeated.
    let mut counts = std::collections::BTreeMap::new();
    for message in 0..16_u32 {
        let first = 9_000 + message / 2 * 1000;
        let routing_keys = (first..first + 1000).map(key).collect();
        let request = m3ua::RegistrationRequest { routing_keys };
        let request = m3ua::Message::RegistrationRequest(request);
        gateway.handle_message(now, asp, 0, &request);
        while gateway.poll_indication().is_some() {}
        while let Some((_, transmit)) = gateway.poll_transmit() {
            if let m3ua::Message::RegistrationResponse(response) = transmit.message {
                for result in response.results {
                    *counts.entry(result.status.0).or_insert(0) += 1;
                }
            }
        }
    }
    let expected = [
        (RegistrationStatus::SUCCESS.0, 1001 + 2000),
        (RegistrationStatus::INSUFFICIENT_RESOURCES.0, 9998),
        (RegistrationStatus::ALREADY_REGISTERED.0, 3001),
    ];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected);
    let exists = |number| gateway.as_state(RoutingContext(number)).is_some();
    assert_eq!(
        (1..=2 * LIMIT).filter(|number| exists(*number)).count(),
        12_000
    );
    // The registrations end with the association.
    gateway.handle_sctp(now, asp, carrick_sigtran::SctpNotification::Down);
    let exists = |number| gateway.as_state(RoutingContext(number)).is_some();
    assert_eq!(
        (1..=2 * LIMIT).filter(|number| exists(*number)).count(),
        10_000
    );
}

for_every_layer! {
    unknown_servers
    unexpected_messages
    malformed_messages
    many_servers
}
