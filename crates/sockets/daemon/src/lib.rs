//! SCTP sockets of a host for unmodified programs: the daemon below the preload library.
//!
//! A program's descriptor is one end of an `AF_UNIX` `SOCK_SEQPACKET` pair; the daemon has the other end.
//! Messages pass on the pair, and all other calls of the sockets API are requests on a control socket
//! with the descriptor attached (`carrick_ipc` has the layouts). Possession of the descriptor is the
//! authority for requests, so that `fork`, `exec` and passing descriptors work without the daemon.
//!
//! One task owns [`carrick_sockets::Sockets`], the sockets of the network ([`carrick::network`]) and all
//! descriptors; it never blocks. Backpressure:
//!
//! - Received messages are read from the protocol only while the pair has room, and then at most one batch, so that the
//!   receive window closes when the program does not read.
//! - The daemon reads no more from the pair while the send buffer of the association is full, so that the
//!   descriptor becomes not writable. Messages of a batch that it has read before wait in order.
//! - While an association is being set up, a plug frame makes the descriptor not writable.
//!
//! A process with its own protocol stack ([`carrick::Config::daemon`]) leases an SCTP port, and gets its packets instead of
//! messages.
//!
//! A successor continues all sockets in another process ([`Daemon::take_over`]). Listening sockets outlast a daemon that is
//! killed, if a service manager holds them ([`Daemon::bind_on`]).
//!
//! Users are served in turn, and the files that they pass to the daemon are closed by threads of their own, because that
//! may block. Clients are limited by their user ([`Limits`]); bytes that are no frame end the descriptor with
//! `ECONNABORTED`.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod association_ids;
mod association_log;
mod capture;
mod clients;
mod closing;
mod config;
mod connection;
mod control;
mod descriptor;
mod descriptors;
mod driver;
mod ends;
mod error;
mod followers;
mod handover;
mod leases;
mod linger;
mod listeners;
mod memory_file;
mod metrics;
mod pair;
mod parts;
mod poller;
mod requests;
mod restored;
mod serve;
pub mod service;
mod setups;
mod statistics;
mod stopping;
mod successor;
mod timer;
mod turns;
mod users;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::time::Instant;

use carrick::Transport;
use carrick::network::{Network, NetworkConfig};
use carrick_proto::AssociationConfig;
use carrick_sockets::Sockets;
use tokio::sync::mpsc;

pub use capture::{Capture, CaptureFilter};
pub use carrick_ipc::CapturedPacket;
pub use carrick_sockets::{Config as SocketsConfig, PortObservers, ReservedPorts};
pub use config::{Config, DaemonEnd, Limits, MAX_STORED_LISTENERS, StopRequest, default_socket};
pub use connection::{DaemonWatch, answers, counters, kill, list};
pub use error::DaemonError;
pub use followers::Events;

use control::{open_control, path_of, remove_socket};
use driver::Driver;
use metrics::MetricsServer;
use parts::Parts;
use successor::Successor;

/// Changes the parameters of later associations of a daemon ([`Daemon::defaults`]).
#[derive(Clone, Debug)]
pub struct Defaults(mpsc::Sender<AssociationConfig>);

impl Defaults {
    /// Changes the parameters, as [`carrick_sockets::Sockets::set_default_association`] does.
    ///
    /// # Errors
    /// Returns the first parameter that is out of its range; nothing changes.
    pub async fn set(&self, config: AssociationConfig) -> Result<(), carrick_proto::ConfigError> {
        config.validate()?;
        // Without a receiver the daemon has ended.
        let _ = self.0.send(config).await;
        Ok(())
    }
}

/// A daemon whose sockets are open.
#[derive(Debug)]
pub struct Daemon {
    driver: Box<Driver>,
    defaults: (Defaults, mpsc::Receiver<AssociationConfig>),
    socket: PathBuf,
    metrics: Option<MetricsServer>,
    is_successor: bool,
}

impl Daemon {
    /// Opens the control socket and the sockets of the network. Must be called in a tokio runtime with I/O
    /// and time.
    ///
    /// # Errors
    /// See [`DaemonError`].
    pub fn bind(config: Config) -> Result<Self, DaemonError> {
        Self::open(config, None)
    }

    /// Opens the sockets of the network, and the control socket unless the service manager has passed one
    /// ([`service::passed`]). The path of such a socket remains when the daemon stops. If the manager has passed the
    /// sockets of a predecessor ([`StopRequest::Hold`]), they are continued; where that is impossible, for example
    /// with another UDP port, the reason is logged, and their programs get errors. Then, and after a predecessor that was
    /// killed, the listening sockets that the manager held meanwhile are restored, as far as their ports and addresses are free.
    /// The manager holds those of this daemon, if it has a descriptor store. Must be called in a tokio runtime with I/O
    /// and time.
    ///
    /// # Errors
    /// See [`DaemonError`].
    pub fn bind_on(config: Config, passed: service::Passed) -> Result<Self, DaemonError> {
        let service::Passed {
            control,
            held,
            listeners,
            associations,
        } = passed;
        if held.is_empty() {
            let mut daemon = Self::open(config, control)?;
            daemon.driver.restore_listeners(listeners, associations);
            return Ok(daemon);
        }
        let log = config.log;
        let socket = config.socket.clone();
        let continued = successor::continue_held(config.clone(), held, &listeners);
        // What the manager keeps open would have no end for programs.
        if let Err(error) = service::release() {
            log(&format!(
                "the service manager still holds the sockets of the previous process: {error}"
            ));
        }
        match continued {
            Ok(successor) => {
                let mut daemon = Self::succeeding(successor, socket);
                daemon.driver.keep_listeners(&listeners, associations);
                Ok(daemon)
            }
            Err(reason) => {
                log(&format!(
                    "the sockets of the previous process are not continued: {reason}"
                ));
                let mut daemon = Self::open(config, control)?;
                daemon.driver.restore_listeners(listeners, associations);
                Ok(daemon)
            }
        }
    }

    fn open(mut config: Config, control: Option<OwnedFd>) -> Result<Self, DaemonError> {
        let owns_path = control.is_none();
        if let Some(path) = control.as_ref().and_then(path_of) {
            config.socket = path;
        }
        let mut network = NetworkConfig::new(config.transport);
        network.addresses.clone_from(&config.addresses);
        let network = Network::bind(network)?;
        let mut seed = [0; 32];
        let system = |error: getrandom::Error| DaemonError::System(io::Error::other(error));
        getrandom::fill(&mut seed).map_err(system)?;
        let parameters = config.of_sockets(network.addresses(), seed);
        let sockets = Sockets::new(parameters).map_err(DaemonError::Association)?;
        if owns_path && answers(&config.socket) {
            return Err(DaemonError::Running(config.socket));
        }
        let listener = config.metrics.map(MetricsServer::bind).transpose()?;
        let control = control.map_or_else(|| open_control(&config.socket), Ok)?;
        let socket = config.socket.clone();
        let parts = Parts::new(config, network, sockets, (control, owns_path));
        let parts = parts.map_err(|error| DaemonError::System(error.into()))?;
        let driver = Driver::new(parts, Instant::now());
        Ok(Self::new(driver, socket, listener, false))
    }

    fn succeeding(successor: Successor, socket: PathBuf) -> Self {
        Self::new(successor.driver, socket, successor.metrics, true)
    }

    fn new(
        driver: Driver,
        socket: PathBuf,
        metrics: Option<MetricsServer>,
        is_successor: bool,
    ) -> Self {
        let (changes, changed) = mpsc::channel(1);
        Self {
            driver: Box::new(driver),
            defaults: (Defaults(changes), changed),
            socket,
            metrics,
            is_successor,
        }
    }

    /// Returns a handle that changes the parameters of later associations while the daemon runs.
    pub fn defaults(&self) -> Defaults {
        self.defaults.0.clone()
    }

    /// Continues the sockets of all programs from the daemon on the control socket, which then ends: no association
    /// and no message is lost, and programs are not notified. That daemon must have the same user or be that of the
    /// superuser, and the same transport; other settings of `config` apply from now on. Blocks for some
    /// milliseconds, 10 s at most if the daemon does not answer. Must be called in a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// [`DaemonError::NotTakenOver`]; the running daemon continues.
    pub fn take_over(config: Config) -> Result<Self, DaemonError> {
        let socket = config.socket.clone();
        match successor::take_over(config) {
            Ok(successor) => {
                let mut daemon = Self::succeeding(successor, socket);
                daemon.driver.store_listeners();
                Ok(daemon)
            }
            Err(reason) => Err(DaemonError::NotTakenOver {
                path: socket,
                reason,
            }),
        }
    }

    /// Returns whether the daemon continues the sockets of another one.
    pub fn is_successor(&self) -> bool {
        self.is_successor
    }

    /// Returns the number of associations that have not ended.
    pub fn association_count(&self) -> usize {
        self.driver.association_count()
    }

    /// Returns the path of the control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the transport, with the UDP port that was chosen.
    pub fn transport(&self) -> Transport {
        self.driver.transport()
    }

    /// Returns the address of the metrics, with the port that was chosen.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::address)
    }

    /// Serves programs until `stop` is ready, and ends as with [`StopRequest::End`]. Also ends when a successor has
    /// taken over ([`Self::take_over`]).
    pub async fn run(self, stop: impl Future<Output = ()>) -> DaemonEnd {
        let stop = async {
            stop.await;
            StopRequest::End
        };
        self.run_until(stop).await
    }

    /// Serves programs as [`Self::run`] until `stop` is ready, and ends as it requests.
    pub async fn run_until(mut self, stop: impl Future<Output = StopRequest>) -> DaemonEnd {
        let server = self.metrics.take();
        let server = server.map(|server| self.driver.start_metrics(server));
        let mut stop = std::pin::pin!(stop);
        let mut stopped = false;
        let end = std::future::poll_fn(|cx| {
            if !stopped && let Poll::Ready(request) = stop.as_mut().poll(cx) {
                stopped = true;
                self.driver.stop(request);
            }
            while let Poll::Ready(Some(association)) = self.defaults.1.poll_recv(cx) {
                self.driver.set_default_association(association);
            }
            self.driver.poll(cx)
        })
        .await;
        self.driver.close_clients();
        if let Some(mut server) = server {
            server.shutdown().await;
        }
        if self.driver.owns_path() && end == DaemonEnd::Stopped {
            // The path may have been taken by another daemon only after it did not answer.
            let _ = remove_socket(&self.socket);
        }
        end
    }
}
