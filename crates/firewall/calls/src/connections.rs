//! Limits of TCP connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carrick_metrics::AcceptFailures;
use carrick_simco::middlebox::SourceNetwork;
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
    max_limited: usize,
    /// Maximum number of them from one address.
    per_address: usize,
    limited: Mutex<LimitedConnections>,
}

/// Connections from addresses other than the SIP servers.
#[derive(Default)]
struct LimitedConnections {
    by_address: BTreeMap<SocketAddr, SourceNetwork>,
    per_source: BTreeMap<SourceNetwork, usize>,
}

impl Connections {
    pub(crate) fn new(config: &B2buaConfig) -> Self {
        Self {
            max_limited: config.max_connections - config.max_connections / SERVER_SHARE,
            per_address: config.max_connections_per_address,
            limited: Mutex::default(),
        }
    }

    fn limited(&self) -> MutexGuard<'_, LimitedConnections> {
        // A panic can leave a count too high, not more.
        self.limited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection if the limits allow it. SIP servers are not limited.
    pub(crate) fn add(&self, from: SocketAddr, is_hop: bool) -> bool {
        if is_hop {
            return true;
        }
        let source = SourceNetwork::of(from.ip());
        let mut limited = self.limited();
        let of_source = limited.per_source.get(&source).copied().unwrap_or_default();
        let room = limited.by_address.len() < self.max_limited && of_source < self.per_address;
        if room && limited.by_address.insert(from, source).is_none() {
            limited.per_source.insert(source, of_source + 1);
        }
        room
    }

    /// Removes a connection.
    pub(crate) fn remove(&self, from: SocketAddr) {
        let mut limited = self.limited();
        let Some(source) = limited.by_address.remove(&from) else {
            return;
        };
        if let Some(count) = limited.per_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                limited.per_source.remove(&source);
            }
        }
    }
}

/// Accepts TCP connections until stopped. Connections above the limits are closed.
pub(crate) async fn accept_connections(
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
        assert!(
            !connections.add(six(3), false),
            "both of the network's share are taken"
        );
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
        assert!(
            connections.limited().per_source.is_empty()
                && connections.limited().by_address.is_empty()
        );
    }
}
