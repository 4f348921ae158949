//! SGP's side of the procedures, in virtual time.

mod destinations;
mod registration;
mod states;
mod traffic;

use std::collections::BTreeSet;
use std::time::Duration;

use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::AspState;
use carrick_sigtran::m3ua::route::RouteStateFull;
use carrick_sigtran::m3ua::sgp::*;
use carrick_sigtran::m3ua::*;

use crate::samples::{affected, code, contexts, data};

const T_RECOVERY: Duration = Duration::from_secs(2);
const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 5,
};

pub(crate) fn rc(value: u32) -> RoutingContext {
    RoutingContext(value)
}

fn server(context: u32, mode: Option<TrafficMode>, minimum_asps: usize) -> ApplicationServerConfig {
    let destinations = vec![RoutingKeyDestination::all(code(1000 + context))];
    ApplicationServerConfig {
        traffic_mode: mode,
        minimum_asps,
        ..ApplicationServerConfig::new(rc(context), destinations)
    }
}

/// SGP with ASPs whose associations are established.
struct Bench {
    sgp: SignallingGatewayProcess,
    asps: Vec<AspKey>,
    now: Time,
}

impl Bench {
    /// ASPs 0 to `asps` - 1 are members of these application servers and have the identifiers 100 and above.
    fn with(config: SgpConfig, servers: Vec<ApplicationServerConfig>, asps: usize) -> Self {
        let now = Time::from_millis(1000);
        let mut sgp = SignallingGatewayProcess::new(config);
        let application_servers: Vec<_> = servers.iter().map(|s| s.routing_context).collect();
        for server in servers {
            sgp.add_application_server(server)
                .expect("a valid application server");
        }
        let mut keys = Vec::new();
        for _ in 0..asps {
            let asp = SgpAspConfig {
                identifier: None,
                application_servers: application_servers.clone(),
            };
            let key = sgp.add_asp(asp).expect("a valid ASP");
            sgp.handle_sctp(now, key, UP);
            keys.push(key);
        }
        let asps = keys;
        let mut bench = Self { sgp, asps, now };
        bench.drain();
        bench
    }

    /// One application server, routing context 1.
    fn new(mode: TrafficMode, minimum_asps: usize, asps: usize) -> Self {
        let servers = vec![server(1, Some(mode), minimum_asps)];
        Self::with(SgpConfig::default(), servers, asps)
    }

    fn receive(&mut self, asp: usize, message: &Message) {
        self.sgp
            .handle_message(self.now, self.asps[asp], 1, message);
    }

    fn up(&mut self, asp: usize) {
        self.receive(asp, &up(asp));
    }

    fn activate(&mut self, asp: usize) {
        self.receive(asp, &active(None, &[1]));
    }

    fn lose(&mut self, asp: usize) {
        let asp = self.asps[asp];
        self.sgp.handle_sctp(self.now, asp, SctpNotification::Down);
    }

    fn advance(&mut self, duration: Duration) {
        self.now += duration;
        self.sgp.handle_timeout(self.now);
    }

    fn as_state(&self) -> AsState {
        self.sgp.as_state(rc(1)).expect("an application server")
    }

    fn asp_states(&self) -> Vec<AspState> {
        let state = |asp: &AspKey| self.sgp.asp_state(*asp, rc(1)).expect("a member");
        self.asps.iter().map(state).collect()
    }

    /// Returns what was sent, with the ASP's number.
    fn sent(&mut self) -> Vec<(usize, Message)> {
        let transmits = std::iter::from_fn(|| self.sgp.poll_transmit());
        let asps = &self.asps;
        let number = |key: AspKey| asps.iter().position(|asp| *asp == key).expect("an ASP");
        transmits
            .map(|(asp, transmit)| (number(asp), transmit.message))
            .collect()
    }

    fn indications(&mut self) -> Vec<SgpIndication> {
        std::iter::from_fn(|| self.sgp.poll_indication()).collect()
    }

    fn drain(&mut self) {
        self.sent();
        self.indications();
    }

    /// Expects one Error message to an ASP with this code; returns it.
    fn sent_error(&mut self, asp: usize, code: ErrorCode) -> ErrorMessage {
        let sent = self.sent();
        let [(recipient, Message::Error(error))] = &sent[..] else {
            panic!("not one Error message: {sent:?}");
        };
        assert_eq!((*recipient, error.code), (asp, code));
        error.clone()
    }

    fn transfer(&mut self, sls: u8) -> Result<(), TransferError> {
        let mut data = data(sls, &[sls]).protocol_data;
        data.dpc = code(1001);
        self.sgp.transfer(None, data).map(drop)
    }

    /// Returns the ASPs that got DATA, with the SLS.
    fn sent_data(&mut self) -> Vec<(usize, u8)> {
        self.sent()
            .into_iter()
            .filter_map(|(asp, message)| match message {
                Message::Data(data) => Some((asp, data.protocol_data.sls)),
                _ => None,
            })
            .collect()
    }
}

fn up(asp: usize) -> Message {
    Message::AspUp(AspUp {
        asp_identifier: Some(identifier(asp)),
        info: None,
    })
}

fn identifier(asp: usize) -> AspIdentifier {
    AspIdentifier(100 + asp as u32)
}

fn up_ack() -> Message {
    Message::AspUpAck(AspUp::default())
}

fn active(traffic_mode: Option<TrafficMode>, list: &[u32]) -> Message {
    Message::AspActive(active_body(traffic_mode, list))
}

fn active_ack(traffic_mode: Option<TrafficMode>, list: &[u32]) -> Message {
    Message::AspActiveAck(active_body(traffic_mode, list))
}

fn active_body(traffic_mode: Option<TrafficMode>, list: &[u32]) -> AspActive {
    AspActive {
        traffic_mode,
        routing_contexts: contexts(list),
        info: None,
    }
}

fn inactive(list: &[u32]) -> Message {
    Message::AspInactive(AspInactive {
        routing_contexts: contexts(list),
        info: None,
    })
}

fn inactive_ack(list: &[u32]) -> Message {
    Message::AspInactiveAck(AspInactive {
        routing_contexts: contexts(list),
        info: None,
    })
}

fn notify(status: Status, asp: Option<usize>) -> Message {
    Message::Notify(Notify {
        status,
        asp_identifier: asp.map(identifier),
        routing_contexts: contexts(&[1]),
        info: None,
    })
}
