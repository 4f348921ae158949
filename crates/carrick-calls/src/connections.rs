//! Limits of TCP connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carrick_simco::middlebox::Source;
use carrick_simco_net::daemon::AcceptFailures;
use rsipstack::sip::Transport;
use rsipstack::transaction::endpoint::EndpointInner;
use rsipstack::transport::tcp::TcpConnection;
use rsipstack::transport::{SipAddr, SipConnection};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
use crate::config::B2buaConfig;

/// Denominator of the share of connections reserved for the configured SIP servers.
const SERVER_SHARE: usize = 16;

/// Connections by their remote address.
pub(crate) struct Connections {
    /// Maximum number of connections from addresses other than the SIP servers.
    most: usize,
    /// Maximum number of them from one address.
    per_address: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    strangers: BTreeMap<SocketAddr, Source>,
    of: BTreeMap<Source, usize>,
}

impl Connections {
    pub(crate) fn new(config: &B2buaConfig) -> Self {
        Self {
            most: config.max_connections - config.max_connections / SERVER_SHARE,
            per_address: config.max_connections_per_address,
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic can leave a count too high, not more.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection if the limits allow it. SIP servers are not limited.
    pub(crate) fn add(&self, from: SocketAddr, is_hop: bool) -> bool {
        if is_hop {
            return true;
        }
        let source = Source::of(from.ip());
        let mut known = self.known();
        let of_source = known.of.get(&source).copied().unwrap_or_default();
        let room = known.strangers.len() < self.most && of_source < self.per_address;
        if room && known.strangers.insert(from, source).is_none() {
            known.of.insert(source, of_source + 1);
        }
        room
    }

    /// Removes a connection.
    pub(crate) fn remove(&self, from: SocketAddr) {
        let mut known = self.known();
        let Some(source) = known.strangers.remove(&from) else {
            return;
        };
        if let Some(count) = known.of.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                known.of.remove(&source);
            }
        }
    }
}

/// Accepts TCP connections until stopped. Connections above the limits are closed.
pub(crate) async fn take_connections(
    listener: TcpListener,
    failures: AcceptFailures,
    admission: Arc<Admission>,
    endpoint: Arc<EndpointInner>,
    stop: CancellationToken,
) {
    let config = &admission.config;
    let local = SipAddr {
        r#type: Some(Transport::Tcp),
        ..SipAddr::from(config.listen)
    };
    loop {
        let accepted = tokio::select! {
            accepted = failures.accept(&listener) => accepted,
            () = stop.cancelled() => return,
        };
        let (stream, from) = accepted;
        let transports = &endpoint.transport_layer;
        if transports.connections_count() >= config.max_connections {
            continue;
        }
        if !admission.connections.add(from, config.is_hop(from.ip())) {
            continue;
        }
        let token = Some(stop.child_token());
        match TcpConnection::from_stream(stream, local.clone(), token) {
            Ok(connection) => transports.add_connection(SipConnection::Tcp(connection)),
            Err(_) => admission.connections.remove(from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn connections_are_reserved_for_sip_servers() {
        let mut config = B2buaConfig::new(at("10.0.0.1:5060"), Vec::new());
        (config.max_connections, config.max_connections_per_address) = (32, 2);
        let connections = Connections::new(&config);
        let six = |n: u16| at(&format!("[2001:db8::{n:x}]:{n}"));
        assert!(connections.add(six(1), false) && connections.add(six(2), false));
        assert!(!connections.add(six(3), false), "one host has all of that");
        connections.remove(six(1));
        assert!(connections.add(six(3), false));
        let four = |n: u16| at(&format!("192.0.2.{n}:{n}"));
        let taken = (1..100).filter(|n| connections.add(four(*n), false));
        assert_eq!(taken.count(), 28, "all but two, and those of the network");
        assert!(connections.add(at("192.0.2.200:5060"), true), "a server");
        for n in 1..100 {
            connections.remove(four(n));
        }
        connections.remove(six(2));
        connections.remove(six(3));
        assert!(connections.known().of.is_empty() && connections.known().strangers.is_empty());
    }
}
