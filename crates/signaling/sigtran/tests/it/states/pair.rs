//! A gateway and its ASPs, connected without loss.

use carrick_proto::Time;
use carrick_sigtran::aspm::asp::{Asp, AspConfig};
use carrick_sigtran::aspm::sgp::{AspKey, Gateway, GatewayConfig, SgpAspConfig};
use carrick_sigtran::aspm::{Layer, LayerMessage};

use super::UP;

/// Gateway with its ASPs.
pub(crate) struct Pair<L: Layer> {
    pub(crate) now: Time,
    pub(crate) gateway: Gateway<L>,
    pub(crate) asps: Vec<(AspKey, Asp<L>)>,
}

impl<L: Layer> Pair<L> {
    /// Gateway with application servers.
    pub(crate) fn new(config: GatewayConfig<L>, servers: Vec<L::Server>) -> Self {
        let mut gateway = Gateway::new(config);
        for server in servers {
            gateway.add_application_server(server).expect("valid");
        }
        Self {
            now: Time::from_millis(1),
            gateway,
            asps: Vec::new(),
        }
    }

    /// Adds an ASP that requests to be active in application servers.
    pub(crate) fn add(&mut self, served: Vec<L::Served>) -> usize {
        let key = self.gateway.add_asp(SgpAspConfig {
            identifier: None,
            application_servers: served.iter().filter_map(L::served_id).collect(),
        });
        let key = key.expect("a valid ASP");
        let mut asp = Asp::new(AspConfig {
            application_servers: served,
            ..AspConfig::default()
        })
        .expect("a valid configuration");
        self.gateway.handle_sctp(self.now, key, UP);
        asp.handle_sctp(self.now, UP);
        asp.asp_up(self.now).expect("an association");
        self.asps.push((key, asp));
        self.run();
        let index = self.asps.len() - 1;
        let asp = &mut self.asps[index].1;
        if asp.application_servers().next().is_some() {
            asp.asp_active(self.now, &[]).expect("up");
            self.run();
        }
        index
    }

    /// Exchanges messages until there are none.
    pub(crate) fn run(&mut self) {
        let mut idle = false;
        while !idle {
            idle = true;
            for (key, asp) in &mut self.asps {
                while let Some(transmit) = asp.poll_transmit() {
                    let (stream, message) = (transmit.stream, &transmit.message);
                    message.encode().expect("a message that fits");
                    self.gateway.handle_message(self.now, *key, stream, message);
                    idle = false;
                }
            }
            while let Some((key, transmit)) = self.gateway.poll_transmit() {
                transmit.message.encode().expect("a message that fits");
                let asp = self.asps.iter_mut().find(|(other, _)| *other == key);
                let (_, asp) = asp.expect("an ASP");
                asp.handle_message(self.now, transmit.stream, &transmit.message);
                idle = false;
            }
        }
    }

    /// Takes the indications of an ASP.
    pub(crate) fn indications(&mut self, asp: usize) -> Vec<L::AspIndication> {
        let asp = &mut self.asps[asp].1;
        std::iter::from_fn(|| asp.poll_indication()).collect()
    }

    /// Takes the indications of the gateway.
    pub(crate) fn requests(&mut self) -> Vec<L::SgpIndication> {
        std::iter::from_fn(|| self.gateway.poll_indication()).collect()
    }
}
