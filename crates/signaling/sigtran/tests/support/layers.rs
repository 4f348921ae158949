//! Arbitrary octets as a message of SUA, M2UA or IUA to both machines of the layer, for tests and the fuzz target.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::aspm::asp::{Asp, AspConfig};
use carrick_sigtran::aspm::sgp::{
    AspKey, Gateway, GatewayConfig, RegistrationPolicy, SgpAspConfig,
};
use carrick_sigtran::aspm::{Layer, LayerMessage};
use carrick_sigtran::message::DecodeError;
use carrick_sigtran::{iua, m2ua, sua};
use m2ua::InterfaceIdentifier;
use sua::RoutingContext;

/// Gateway and ASP of a layer that are connected.
struct Machines<L: Layer> {
    now: Time,
    gateway: Gateway<L>,
    key: AspKey,
    asp: Asp<L>,
}

impl<L: Layer> Machines<L> {
    fn new(server: L::Server, served: L::Served) -> Self {
        let mut gateway = Gateway::<L>::new(GatewayConfig {
            registration: RegistrationPolicy::NewKeys,
            max_route_ranges: 100,
            ..GatewayConfig::default()
        });
        let added = gateway.add_application_server(server);
        added.expect("a valid application server");
        let key = gateway.add_asp(SgpAspConfig {
            identifier: None,
            application_servers: L::served_id(&served).into_iter().collect(),
        });
        let asp = Asp::new(AspConfig {
            application_servers: vec![served],
            ..AspConfig::default()
        });
        let mut machines = Self {
            now: Time::from_millis(1),
            gateway,
            key: key.expect("a valid ASP"),
            asp: asp.expect("a valid configuration"),
        };
        let up = SctpNotification::Up {
            outbound_streams: 4,
        };
        let (now, key) = (machines.now, machines.key);
        machines.gateway.handle_sctp(now, key, up);
        machines.asp.handle_sctp(now, up);
        machines
    }

    /// Takes the outputs, which can all be encoded; `connected`, they reach the other machine.
    fn drain(&mut self, connected: bool) {
        let mut outputs = 0;
        let mut idle = false;
        while !idle {
            idle = true;
            while let Some(transmit) = self.asp.poll_transmit() {
                transmit.message.encode().expect("a message that fits");
                if connected {
                    let (stream, message) = (transmit.stream, &transmit.message);
                    self.gateway
                        .handle_message(self.now, self.key, stream, message);
                    idle = false;
                }
            }
            while let Some((_, transmit)) = self.gateway.poll_transmit() {
                transmit.message.encode().expect("a message that fits");
                if connected {
                    self.asp
                        .handle_message(self.now, transmit.stream, &transmit.message);
                    idle = false;
                }
            }
            while self.asp.poll_indication().is_some() || self.gateway.poll_indication().is_some() {
                outputs += 1;
            }
        }
        assert!(
            outputs < 100_000,
            "an input has a bounded number of outputs"
        );
    }

    /// Gives a message to both machines, in each state of the ASP, and lets their timers expire.
    fn check(&mut self, message: &L::Message) {
        for state in 0..3 {
            match state {
                0 => {}
                1 => self.asp.asp_up(self.now).expect("an association"),
                // Not possible, if the message led to ASP-DOWN.
                _ => drop(self.asp.asp_active(self.now, &[])),
            }
            self.drain(true);
            for stream in [0, 1] {
                self.gateway
                    .handle_message(self.now, self.key, stream, message);
                self.asp.handle_message(self.now, stream, message);
                self.drain(false);
            }
            self.now += Duration::from_secs(3);
            self.gateway.handle_timeout(self.now);
            self.asp.handle_timeout(self.now);
            self.drain(true);
        }
    }

    fn check_malformed(&mut self, error: &DecodeError, octets: &Bytes) {
        self.gateway
            .handle_malformed(self.now, self.key, error, octets);
        self.asp.handle_malformed(self.now, error, octets);
        self.drain(false);
    }
}

/// Decodes octets behind an octet that selects the layer. A message that decodes is equal after a round trip; what is
/// rejected is answered with a message that can be encoded, if it is no Error message. The machines of the layer handle both.
pub(crate) fn run(octets: &[u8]) {
    let Some((layer, octets)) = octets.split_first() else {
        return;
    };
    let octets = Bytes::copy_from_slice(octets);
    macro_rules! check {
        ($layer:ident, $machines:expr) => {
            match $layer::Message::decode(&octets) {
                Ok(message) => {
                    let encoded = message.encode().expect("a message that was received");
                    assert_eq!($layer::Message::decode(&encoded).as_ref(), Ok(&message));
                    $machines.check(&message);
                }
                Err(error) => {
                    let answer = $layer::ErrorMessage::answering(&error, &octets);
                    check_error(&error, &octets, answer.is_some());
                    if let Some(answer) = answer {
                        let answer = $layer::Message::Error(answer);
                        answer.encode().expect("an answer that fits");
                    }
                    $machines.check_malformed(&error, &octets);
                }
            }
        };
    }
    let interface = InterfaceIdentifier::Integer(1);
    match layer % 3 {
        0 => {
            let context = RoutingContext(1);
            let server =
                sua::sgp::ApplicationServerConfig::new(context, sua::sgp::Destinations::Unrouted);
            let served = sua::asp::AspApplicationServer::new(context);
            check!(sua, Machines::<sua::Sua>::new(server, served));
        }
        1 => {
            let server = m2ua::sgp::SgpInterface::new(interface.clone());
            let served = m2ua::asp::Interface::new(interface);
            check!(m2ua, Machines::<m2ua::M2ua>::new(server, served));
        }
        _ => {
            let server = iua::sg::SgInterface::new(interface.clone());
            let served = iua::asp::Interface::new(interface);
            check!(iua, Machines::<iua::Iua>::new(server, served));
        }
    }
}

fn check_error(error: &DecodeError, octets: &[u8], has_answer: bool) {
    assert!(error.offset <= octets.len());
    let is_error_message = octets.get(2..4) == Some(&[0, 0]);
    assert_eq!(has_answer, !is_error_message);
}
