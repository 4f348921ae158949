//! Arbitrary octets as messages to an ASP and an SGP, for tests and the fuzz target.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::{Asp, AspApplicationServer, AspConfig};
use carrick_sigtran::m3ua::sgp::{
    ApplicationServerConfig, RegistrationPolicy, SgpAspConfig, SgpConfig, SignallingGatewayProcess,
};
use carrick_sigtran::m3ua::{
    Message, PointCode, RoutingContext, RoutingKeyDestination, SctpNotification,
};

const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 4,
};

/// Splits octets into messages, each behind an octet with its length, and gives them to both machines. Every message
/// that decodes is equal after a round trip, and every output can be encoded.
pub(crate) fn run(octets: &[u8]) {
    let context = RoutingContext(1);
    let mut now = Time::from_millis(1);
    let mut sgp = SignallingGatewayProcess::new(SgpConfig {
        registration: RegistrationPolicy::NewKeys,
        max_route_ranges: 100,
        ..SgpConfig::default()
    });
    let destinations = PointCode::new(5029).map(RoutingKeyDestination::all);
    let server = ApplicationServerConfig::new(context, destinations.into_iter().collect());
    sgp.add_application_server(server)
        .expect("a valid application server");
    let key = sgp.add_asp(SgpAspConfig {
        identifier: None,
        application_servers: vec![context],
    });
    let key = key.expect("a valid ASP");
    let mut asp = Asp::new(AspConfig {
        application_servers: vec![AspApplicationServer::new(context)],
        ..AspConfig::default()
    })
    .expect("a valid configuration");
    sgp.handle_sctp(now, key, UP);
    asp.handle_sctp(now, UP);
    asp.asp_up(now).expect("an association");

    let mut rest = octets;
    while let Some((&length, tail)) = rest.split_first() {
        let (message, tail) = tail.split_at(usize::from(length).min(tail.len()));
        rest = tail;
        let message = Bytes::copy_from_slice(message);
        match Message::decode(&message) {
            Ok(decoded) => {
                let encoded = decoded.encode().expect("a message that was received");
                assert_eq!(Message::decode(&encoded).as_ref(), Ok(&decoded));
                sgp.handle_message(now, key, 1, &decoded);
                asp.handle_message(now, 1, &decoded);
            }
            Err(error) => {
                sgp.handle_malformed(now, key, &error, &message);
                asp.handle_malformed(now, &error, &message);
            }
        }
        // Fails where the ASP is in ASP-DOWN.
        let _ = asp.asp_active(now, &[]);
        now += Duration::from_millis(300);
        sgp.handle_timeout(now);
        asp.handle_timeout(now);
        let sent = std::iter::from_fn(|| asp.poll_transmit());
        let sent = sent.chain(std::iter::from_fn(|| sgp.poll_transmit()).map(|(_, sent)| sent));
        for transmit in sent {
            transmit.message.encode().expect("a message that fits");
        }
        while asp.poll_indication().is_some() || sgp.poll_indication().is_some() {}
    }
}
