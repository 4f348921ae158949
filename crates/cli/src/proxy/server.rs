//! Accepting connections on one side, and opening one on the other side for each.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick::{Association, Endpoint, Incoming};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::address::ProxyAddress;
use super::connection::{self, ConnectionOptions, Counts};
use super::listener::{self, LocalListener};
use super::local::{LocalConnection, MessageLimits};
use super::log::ProxyLog;
use crate::endpoint::{self, EndpointArguments, PeerArguments};
use crate::failure::Failure;
use crate::runtime;
use crate::security::Security;

/// Time after which a failed `accept` is repeated, e.g. for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// State and options that all connections of a proxy share.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) connection: ConnectionOptions,
    pub(super) limits: MessageLimits,
    pub(super) max_connections: usize,
    pub(super) log: ProxyLog,
    pub(super) security: Security,
    pub(super) endpoint: EndpointArguments,
    pub(super) to: PeerArguments,
    pub(super) streams: u16,
    /// Signal that ends the connections.
    pub(super) stopping: watch::Sender<bool>,
}

/// SCTP peer of each connection.
#[derive(Clone, Debug)]
pub(super) struct SctpTarget {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
}

type Connections = JoinSet<Result<(), String>>;

impl Proxy {
    /// Serves associations of peers, each with a connection to the local target. `only_one`: ends after the first one.
    pub(super) async fn serve_sctp(
        self: Arc<Self>,
        endpoint: Endpoint,
        target: ProxyAddress,
        only_one: bool,
    ) -> Result<(), Failure> {
        let mut connections = Connections::new();
        let mut number = 0;
        let work = async {
            loop {
                tokio::select! {
                    incoming = endpoint.accept() => match incoming {
                        None => return Err(Failure::Run("the endpoint has closed".into())),
                        Some(incoming) if only_one && number > 0 => incoming.refuse(b"busy"),
                        Some(incoming) if connections.len() >= self.max_connections => {
                            incoming.refuse(b"too many connections");
                        }
                        Some(incoming) => {
                            number += 1;
                            let proxy = Arc::clone(&self);
                            let target = target.clone();
                            connections.spawn(async move {
                                proxy.serve_association(number, incoming, &target).await
                            });
                        }
                    },
                    Some(ended) = connections.join_next() => {
                        if only_one {
                            // A task that panics has printed its reason.
                            let done = ended.unwrap_or_else(|error| Err(error.to_string()));
                            return done.map_err(Failure::Run);
                        }
                    }
                }
            }
        };
        endpoint::until_stopped(endpoint.clone(), work).await
    }

    async fn serve_association(
        &self,
        number: u64,
        incoming: Incoming,
        target: &ProxyAddress,
    ) -> Result<(), String> {
        let counts = Counts::default();
        let association = incoming.accept();
        let peer = sctp_name(&association);
        let done = async {
            self.check(&association)?;
            let timeout = self.to.connect_timeout;
            let local = match listener::connect(target, self.limits, timeout).await {
                Ok(local) => local,
                Err(failure) => {
                    association.abort(failure.line().as_bytes());
                    return Err(failure.line());
                }
            };
            let text = format!("{peer} is connected with {}", local.name);
            self.log.connected(number, &text);
            connection::relay(local, association, &self.connection, &counts).await
        };
        let done = done.await;
        let error = done.as_ref().err().map(|why| format!("{peer}: {why}"));
        self.log.ended(number, &counts, error.as_deref());
        done
    }

    fn check(&self, association: &Association) -> Result<(), String> {
        let checked = self.security.check(association.control());
        checked.map_err(|failure| {
            association.abort(b"the association lacks what this side requires");
            failure.line()
        })
    }

    /// Serves local connections, each with an association to the SCTP target.
    pub(super) async fn serve_local(
        self: Arc<Self>,
        mut listener: LocalListener,
        target: SctpTarget,
    ) -> Result<(), Failure> {
        let mut connections = Connections::new();
        let mut number = 0;
        let target = Arc::new(target);
        let mut signal = std::pin::pin!(runtime::signal_received());
        loop {
            let has_room = connections.len() < self.max_connections;
            tokio::select! {
                _ = &mut signal => break,
                // Connections without room wait in the backlog.
                accepted = listener.accept(self.limits, has_room), if has_room || listener.is_shared() => {
                    match accepted {
                        Ok(local) => {
                            number += 1;
                            let (proxy, target) = (Arc::clone(&self), Arc::clone(&target));
                            connections.spawn(async move {
                                proxy.serve_connection(number, local, &target).await
                            });
                        }
                        Err(error) => {
                            self.log.line("error", &format!("cannot accept a connection: {error}"));
                            tokio::time::sleep(ACCEPT_PAUSE).await;
                        }
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
        // No further connections, and the file of a socket is removed.
        listener.close();
        self.stopping.send_replace(true);
        while connections.join_next().await.is_some() {}
        Ok(())
    }

    /// Serves one connection of the local side until its end or a signal.
    pub(super) async fn serve_one(
        &self,
        local: LocalConnection,
        target: &SctpTarget,
    ) -> Result<(), Failure> {
        let served = self.serve_connection(1, local, target);
        let stop = async {
            runtime::signal_received().await;
            self.stopping.send_replace(true);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            done = served => done.map_err(Failure::Run),
            () = stop => Ok(()),
        }
    }

    /// Connects a local connection with the SCTP target. Each association has its own endpoint: between two
    /// endpoints there is at most one (RFC 9260, section 1.3).
    async fn serve_connection(
        &self,
        number: u64,
        local: LocalConnection,
        target: &SctpTarget,
    ) -> Result<(), String> {
        let counts = Counts::default();
        let name = local.name.clone();
        let opened = self
            .security
            .open_towards(&self.endpoint, &target.addresses, self.streams);
        let done = match opened {
            Ok(own) => {
                let done = self.connected(number, &own, local, target, &counts).await;
                let report = own.close_within(endpoint::STOP_TIMEOUT).await;
                match done {
                    Ok(()) if report.undelivered > 0 => Err(report.to_string()),
                    done => done,
                }
            }
            Err(failure) => {
                local.writer.reset();
                Err(failure.line())
            }
        };
        let error = done.as_ref().err().map(|why| {
            if why.starts_with(&name) {
                why.clone()
            } else {
                format!("{name}: {why}")
            }
        });
        self.log.ended(number, &counts, error.as_deref());
        done
    }

    async fn connected(
        &self,
        number: u64,
        endpoint: &Endpoint,
        local: LocalConnection,
        target: &SctpTarget,
        counts: &Counts,
    ) -> Result<(), String> {
        let mut stopping = self.stopping.subscribe();
        let mut stopped = std::pin::pin!(stopping.wait_for(|stopping| *stopping));
        let connected = tokio::select! {
            connected = self.to.connect(endpoint, &target.addresses, target.port) => connected,
            _ = &mut stopped => Err(Failure::Run("the proxy ends before the association is set up".into())),
        };
        let association = match connected {
            Ok(association) => association,
            Err(failure) => {
                local.writer.reset();
                return Err(failure.line());
            }
        };
        if let Err(why) = self.check(&association) {
            local.writer.reset();
            return Err(why);
        }
        let peer = sctp_name(&association);
        let text = format!("{} is connected with {peer}", local.name);
        self.log.connected(number, &text);
        tokio::select! {
            done = connection::relay(local, association, &self.connection, counts) => done,
            _ = stopped => match counts.unsent() {
                0 => Ok(()),
                lost => Err(format!("{lost} messages were read and not sent: the proxy ends")),
            },
        }
    }
}

fn sctp_name(association: &Association) -> String {
    let peer = association.control();
    let addresses = endpoint::list(peer.peer_addresses());
    format!("sctp {addresses} port {}", peer.peer_port())
}
