//! State transitions of ASPs and application servers, with the same rows for all layers and the sections of each.

mod asp;
mod gateway;
mod layers;
mod limits;
mod pair;

pub(crate) use layers::{address, cldt, dlci};
pub(crate) use pair::Pair;

use std::time::Duration;

use carrick_proto::Time;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::aspm::asp::{Asp, AspConfig};
use carrick_sigtran::aspm::sgp::{AspKey, Gateway, GatewayConfig, SgpAspConfig};
use carrick_sigtran::aspm::{AsIds, Layer, Maintenance};
use carrick_sigtran::message::{AspUp, TrafficMode};

/// Layer under test.
pub(crate) trait Tested: Layer {
    /// Name of the RFC.
    const RFC: &'static str;
    /// Sections of ASP states, AS states, ASP Up, ASP Down, ASP Active, ASP Inactive, Notify and Heartbeat.
    const SECTIONS: [&'static str; 8];

    /// Returns the identifier of an application server.
    fn id(number: u32) -> Self::AsId;

    /// Returns the application server of an ASP.
    fn served(number: u32, mode: Option<TrafficMode>) -> Self::Served;

    /// Returns the application server of a gateway.
    fn server(number: u32, mode: Option<TrafficMode>, minimum: usize) -> Self::Server;

    /// Returns a message of the user for an ASP.
    fn payload(number: u32) -> Self::Payload;

    /// Returns a message of an ASP's user.
    fn traffic(number: u32) -> Self::Message;
}

pub(crate) const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 4,
};
pub(crate) const RESTARTED: SctpNotification = SctpNotification::Restarted {
    outbound_streams: 4,
};
pub(crate) const T_R: Duration = Duration::from_secs(2);

/// Returns a short name of a message.
pub(crate) fn name<L: Layer>(message: &L::Message) -> String {
    message.encode().expect("a message that fits");
    match L::read(message) {
        None => "traffic".to_owned(),
        Some(Maintenance::AspUp(_)) => "ASPUP".to_owned(),
        Some(Maintenance::AspUpAck(_)) => "ASPUP ACK".to_owned(),
        Some(Maintenance::AspDown(_)) => "ASPDN".to_owned(),
        Some(Maintenance::AspDownAck(_)) => "ASPDN ACK".to_owned(),
        Some(Maintenance::Heartbeat(_)) => "BEAT".to_owned(),
        Some(Maintenance::HeartbeatAck(_)) => "BEAT ACK".to_owned(),
        Some(Maintenance::AspActive(..)) => "ASPAC".to_owned(),
        Some(Maintenance::AspActiveAck(..)) => "ASPAC ACK".to_owned(),
        Some(Maintenance::AspInactive(_)) => "ASPIA".to_owned(),
        Some(Maintenance::AspInactiveAck(_)) => "ASPIA ACK".to_owned(),
        Some(Maintenance::Notify(notify)) => format!("NTFY {:?}", L::read_notify(&notify).0),
        Some(Maintenance::Error(error)) => {
            let code = L::read_error(&error).0;
            format!("ERR {}", code.name().unwrap_or("undefined"))
        }
    }
}

use carrick_sigtran::aspm::LayerMessage;

/// Returns ASP Active for application servers.
pub(crate) fn active<L: Layer>(mode: Option<TrafficMode>, ids: &[L::AsId]) -> L::Message {
    let activation = carrick_sigtran::aspm::Activation {
        traffic_mode: mode,
        label: L::Label::default(),
    };
    L::write(Maintenance::AspActive(
        activation,
        AsIds::new(ids.iter().cloned()),
    ))
}

/// Gateway with two ASPs of application server 1.
pub(crate) struct TestGateway<L: Tested> {
    pub(crate) now: Time,
    pub(crate) gateway: Gateway<L>,
    pub(crate) asps: [AspKey; 2],
}

impl<L: Tested> TestGateway<L> {
    pub(crate) fn new(config: GatewayConfig<L>, mode: Option<TrafficMode>, minimum: usize) -> Self {
        let mut gateway = Gateway::new(config);
        gateway
            .add_application_server(L::server(1, mode, minimum))
            .expect("a valid application server");
        let mut add = || {
            let asp = SgpAspConfig {
                identifier: None,
                application_servers: vec![L::id(1)],
            };
            gateway.add_asp(asp).expect("a valid ASP")
        };
        let asps = [add(), add()];
        Self {
            now: Time::from_millis(1),
            gateway,
            asps,
        }
    }

    pub(crate) fn send(&mut self, asp: usize, message: &L::Message) {
        self.gateway
            .handle_message(self.now, self.asps[asp], 1, message);
    }

    pub(crate) fn bring_up(&mut self, asp: usize) {
        self.gateway.handle_sctp(self.now, self.asps[asp], UP);
        self.send(asp, &L::write(Maintenance::AspUp(AspUp::default())));
    }

    /// Returns the names of the messages to an ASP; those to the other one are taken, too.
    pub(crate) fn sent(&mut self, asp: usize) -> Vec<String> {
        while self.gateway.poll_indication().is_some() {}
        let sent = std::iter::from_fn(|| self.gateway.poll_transmit());
        let own = sent.filter(|(to, _)| *to == self.asps[asp]);
        own.map(|(_, transmit)| name::<L>(&transmit.message))
            .collect()
    }
}

/// ASP of application server 1.
pub(crate) struct TestAsp<L: Tested> {
    pub(crate) now: Time,
    pub(crate) asp: Asp<L>,
}

impl<L: Tested> TestAsp<L> {
    pub(crate) fn new() -> Self {
        let config = AspConfig {
            application_servers: vec![L::served(1, Some(TrafficMode::OVERRIDE))],
            ..AspConfig::default()
        };
        Self {
            now: Time::from_millis(1),
            asp: Asp::new(config).expect("a valid configuration"),
        }
    }

    pub(crate) fn receive(&mut self, content: Maintenance<L>) {
        self.asp.handle_message(self.now, 0, &L::write(content));
    }

    /// Returns the names of the messages to the gateway.
    pub(crate) fn sent(&mut self) -> Vec<String> {
        while self.asp.poll_indication().is_some() {}
        let sent = std::iter::from_fn(|| self.asp.poll_transmit());
        sent.map(|transmit| name::<L>(&transmit.message)).collect()
    }
}

/// Declares a test of every layer for each generic function.
macro_rules! for_every_layer {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        mod $name {
            #[test]
            fn m3ua() {
                super::$name::<carrick_sigtran::m3ua::M3ua>();
            }

            #[test]
            fn sua() {
                super::$name::<carrick_sigtran::sua::Sua>();
            }

            #[test]
            fn m2ua() {
                super::$name::<carrick_sigtran::m2ua::M2ua>();
            }

            #[test]
            fn iua() {
                super::$name::<carrick_sigtran::iua::Iua>();
            }
        }
    )*};
}
pub(crate) use for_every_layer;
