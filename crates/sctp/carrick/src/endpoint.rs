//! The handle of an endpoint.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use carrick_proto::{
    AssociationConfig, EndpointConfig, EndpointMetrics, EndpointStats, ParameterChanges,
    PeerAddress, Time,
};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::association::Association;
use crate::close_report::{CloseReport, PublishedReport, ReportedEnds};
use crate::command::{Command, Commands, ConnectRequest, EndpointCall};
use crate::config::{Config, ConnectOptions, Transport};
use crate::driver::{Driver, Limits, LowerLayer, ShardLink, WaitingAssociation, backlog};
use crate::error::{BindError, ConfigError, ConnectError, OperationError};
use crate::incoming::Incoming;
#[cfg(target_os = "linux")]
use crate::network::LeasedPort;
use crate::network::{HostRoutes, Network, NetworkWatch};
use crate::packets::PacketTap;
use crate::peer::Peer;
use crate::port::PortClaim;
use crate::socket::{Socket, SocketSet, addresses};
use crate::unread_memory::UnreadMemory;

/// Returns the tokio runtime of the caller, which has I/O and time.
pub(crate) fn current_runtime() -> Result<Handle, BindError> {
    let runtime = Handle::try_current().map_err(|_| BindError::NoRuntime)?;
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok();
    // A runtime without a driver panics at its first use; there is no other way to ask for it.
    let has_drivers = std::panic::catch_unwind(|| {
        drop(tokio::time::sleep(Duration::ZERO));
        if let Some(socket) = socket
            && socket.set_nonblocking(true).is_ok()
        {
            drop(tokio::net::UdpSocket::from_std(socket));
        }
    });
    has_drivers.map_err(|_| BindError::NoRuntime)?;
    Ok(runtime)
}

/// An SCTP endpoint on this host's addresses. Clones are handles of the same endpoint.
///
/// Its task is one of the runtime that [`Self::bind`] is called on, and ends with it; with
/// [`Config::shards`] there are several. Await [`Self::close`] before `main` returns, or messages that were
/// accepted may be lost and peers get an ABORT. See the crate's documentation for this, and for what ends
/// when the last handle is dropped.
///
/// A server that serves each association in a task, with a limit of 100, until Ctrl-C:
///
/// ```no_run
/// use carrick::{Association, Config, Endpoint};
///
/// async fn serve(mut association: Association) {
///     while let Ok(Some(message)) = association.recv().await {
///         println!("{} bytes on stream {}", message.payload.len(), message.stream.0);
///     }
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     // All addresses of the host, in UDP port 9899.
///     let endpoint = Endpoint::bind(Config::udp([]).port(5000))?;
///     loop {
///         let incoming = tokio::select! {
///             incoming = endpoint.accept() => incoming.ok_or("the endpoint has closed")?,
///             _ = tokio::signal::ctrl_c() => break,
///         };
///         if endpoint.associations().await? > 100 {
///             incoming.refuse(b"busy");
///         } else {
///             tokio::spawn(serve(incoming.accept()));
///         }
///     }
///     let report = endpoint.close().await;
///     println!("{report}");
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

struct Inner {
    /// Commands to the tasks: one, or those of the shards.
    shards: Vec<Commands>,
    /// Number of associations that were requested, for the choice of their shards.
    requested: AtomicUsize,
    accepted: Mutex<mpsc::Receiver<WaitingAssociation>>,
    port: u16,
    /// With the UDP port that it has.
    transport: Transport,
    failure: Arc<OnceLock<String>>,
    /// Reports of the tasks.
    reports: Vec<PublishedReport>,
}

/// Parts of the handle of an endpoint.
pub(crate) struct EndpointParts {
    pub(crate) shards: Vec<Commands>,
    pub(crate) accepted: mpsc::Receiver<WaitingAssociation>,
    pub(crate) port: u16,
    pub(crate) transport: Transport,
    pub(crate) failure: Arc<OnceLock<String>>,
    pub(crate) reports: Vec<PublishedReport>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for commands in &self.shards {
            // Without a task there is nothing to stop.
            let _ = commands.send(Command::StopAccepting);
        }
    }
}

impl Endpoint {
    /// Opens an endpoint and starts its task on the current runtime.
    ///
    /// # Errors
    /// A parameter is out of its range, or a socket could not be opened.
    pub fn bind(mut config: Config) -> Result<Self, BindError> {
        let runtime = current_runtime()?;
        config.merge()?;
        let limits = Limits::new(&config);
        let OpenNetwork {
            networks,
            bound,
            port: number,
        } = OpenNetwork::open(&mut config)?;
        let transport = networks[0].transport();
        let count = networks.len();
        let channels = (0..count).map(|_| mpsc::unbounded_channel());
        let (shards, orders): (Vec<Commands>, Vec<_>) = channels.unzip();
        let mut links = Vec::new();
        if count > 1 {
            links = ShardLink::group(&shards);
        }
        let mut links = links.into_iter();
        let (accepted, to_accept) = backlog(config.backlog);
        let unread = Arc::new(UnreadMemory::new(config.unread_memory));
        let failure = Arc::new(OnceLock::new());
        let mut drivers = Vec::with_capacity(count);
        let mut reports = Vec::with_capacity(count);
        for ((network, commands), orders) in networks.into_iter().zip(&shards).zip(orders) {
            let link = links.next();
            let mut seed = [0; 32];
            getrandom::fill(&mut seed).map_err(BindError::Random)?;
            let mut parameters = EndpointConfig {
                accept: config.accept,
                max_associations: config.max_associations,
                max_associations_per_source: config.max_associations_per_source,
                receive_memory: config.receive_memory / count,
                association: config.association.clone(),
                source_selection: Box::new(HostRoutes::default()),
                shard: link.as_ref().map(|link| link.shard().clone()),
                ..EndpointConfig::new(number, bound.clone(), seed)
            };
            let below = LowerLayer::new(&mut config, &mut parameters)?;
            let mut core = carrick_proto::Endpoint::new(parameters).map_err(ConfigError::from)?;
            core.set_observer(Time::ZERO, crate::observers::observer(&config));
            let queues = (commands, orders, accepted.clone());
            let memory = (limits, Arc::clone(&unread));
            let packets = config.packets.clone();
            let packets = packets.map(|p| PacketTap::new(p, transport.encapsulation_port()));
            let (ends, report) = ReportedEnds::new();
            reports.push(report);
            let end = (Arc::clone(&failure), ends);
            drivers.push(Driver::new(
                (core, below),
                (network, packets, link),
                memory,
                queues,
                end,
            ));
        }
        for driver in drivers {
            runtime.spawn(driver);
        }
        Ok(Self::from_parts(EndpointParts {
            shards,
            accepted: to_accept,
            port: number,
            transport,
            failure,
            reports,
        }))
    }

    /// Returns the handle of an endpoint whose tasks run.
    pub(crate) fn from_parts(parts: EndpointParts) -> Self {
        let EndpointParts {
            shards,
            accepted,
            port,
            transport,
            failure,
            reports,
        } = parts;
        let inner = Inner {
            shards,
            requested: AtomicUsize::new(0),
            accepted: Mutex::new(accepted),
            port,
            transport,
            failure,
            reports,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns the commands to the tasks: one, or those of the shards.
    #[cfg(target_os = "linux")]
    pub(crate) fn tasks(&self) -> &[Commands] {
        &self.inner.shards
    }

    /// Returns the reports of the tasks.
    #[cfg(target_os = "linux")]
    pub(crate) fn reports(&self) -> &[PublishedReport] {
        &self.inner.reports
    }

    /// Sets up an association with a peer, with the endpoint's parameters. Ready when messages can be
    /// sent. There is one association for each pair of endpoints (RFC 9260 section 1.3).
    ///
    /// Dropping this future aborts the set-up.
    ///
    /// # Errors
    /// The arguments do not fit the endpoint, or the set-up failed.
    pub async fn connect(&self, peer: impl Into<Peer>) -> Result<Association, ConnectError> {
        self.connect_with(peer, ConnectOptions::new()).await
    }

    /// Sets up an association with a peer, as [`Self::connect`], with these options.
    ///
    /// # Errors
    /// See [`Self::connect`]; or a parameter is out of its range.
    pub async fn connect_with(
        &self,
        peer: impl Into<Peer>,
        options: ConnectOptions,
    ) -> Result<Association, ConnectError> {
        let peer = peer.into();
        let mut local = Vec::new();
        if peer.has_names() {
            let addresses = self.local_addresses().await;
            local = addresses.map_err(|_| ConnectError::EndpointClosed)?;
        }
        let usable = |of: IpAddr| local.iter().any(|own| own.is_ipv4() == of.is_ipv4());
        let (addresses, port) = peer.resolve(usable).await?;
        let transport = self.inner.transport;
        let peers = addresses
            .iter()
            .map(|a| options.peer_address(*a, transport));
        let peers = peers.collect::<Result<Vec<PeerAddress>, _>>()?;
        if let Some(config) = &options.association {
            config.validate().map_err(ConfigError::from)?;
        }
        let (answer, answered) = oneshot::channel();
        let connect = ConnectRequest {
            peers,
            port,
            config: options.association.map(Arc::new),
            #[cfg(feature = "dtls")]
            trust: options.trust,
            answer,
        };
        let shards = &self.inner.shards;
        let number = self.inner.requested.fetch_add(1, Ordering::Relaxed);
        let commands = &shards[number % shards.len()];
        let waiting = ConnectGuard {
            commands,
            done: false,
        };
        // If the task has ended, the answer's channel closes.
        let _ = commands.send(Command::Connect(connect));
        let result = answered.await.unwrap_or(Err(ConnectError::EndpointClosed));
        waiting.done();
        result
    }

    /// Returns the next association that a peer has set up; `None` after [`Self::close`] and `hand_over`.
    ///
    /// Cancel-safe.
    pub async fn accept(&self) -> Option<Incoming> {
        let waiting = self.inner.accepted.lock().await.recv().await?;
        let association = waiting.into_association();
        (!association.is_handed_over()).then(|| Incoming::new(association))
    }

    /// Changes parameters of the associations that are set up from now on, by peers or with
    /// [`Self::connect`]. Existing associations keep theirs
    /// ([`AssociationControl::change_parameters`](crate::AssociationControl::change_parameters) changes them).
    ///
    /// # Errors
    /// A parameter would be out of its range, or the endpoint is closed.
    pub async fn change_parameters(&self, changes: ParameterChanges) -> Result<(), OperationError> {
        self.change(move |core| core.change_default_parameters(&changes))
            .await
    }

    /// Returns the parameters of the associations that are set up from now on.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub async fn default_config(&self) -> Result<Arc<AssociationConfig>, OperationError> {
        self.look(|core| core.default_config()).await
    }

    /// Changes any parameters of the associations that are set up from now on, by peers or with
    /// [`Self::connect`], among them those without a field in [`ParameterChanges`]: streams and attempts
    /// of the set-up (`SCTP_INITMSG`, RFC 6458 section 8.1.3), and the lifetime of cookies
    /// (`SCTP_ASSOCINFO`, section 8.1.2). Existing associations keep theirs.
    /// [`PathConfig::wildcard_peers`](carrick_proto::PathConfig::wildcard_peers) stays as it was bound.
    ///
    /// # Errors
    /// A parameter would be out of its range, or the endpoint is closed; then none is changed.
    pub async fn change_default_config(
        &self,
        change: impl FnOnce(&mut AssociationConfig) + Send + 'static,
    ) -> Result<(), OperationError> {
        self.change(move |core| {
            let mut config = AssociationConfig::clone(&core.default_config());
            change(&mut config);
            core.set_default_config(config)
        })
        .await
    }

    /// Changes the parameters of new associations at the first shard, which passes them on: all
    /// changes have the same order there.
    async fn change(
        &self,
        change: impl FnOnce(&mut carrick_proto::Endpoint) -> Result<(), carrick_proto::ConfigError>
        + Send
        + 'static,
    ) -> Result<(), OperationError> {
        let others = self.inner.shards[1..].to_vec();
        let changed = self.look(move |core| {
            change(core)?;
            let config = core.default_config();
            for shard in others {
                let config = Arc::clone(&config);
                let set = move |core: &mut carrick_proto::Endpoint, _| {
                    // The first shard has accepted it.
                    let _ = core.set_default_config(config);
                };
                // Without a task no association is set up there.
                let _ = shard.send(Command::Work(Box::new(set)));
            }
            Ok(())
        });
        changed
            .await?
            .map_err(|error: carrick_proto::ConfigError| ConfigError::from(error).into())
    }

    /// Returns the endpoint's counters.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub async fn stats(&self) -> Result<Stats, OperationError> {
        let mut sum = Stats::default();
        for shard in &self.inner.shards {
            let (answer, answered) = oneshot::channel();
            // If the task has ended, the answer's channel closes.
            let _ = shard.send(Command::Stats(answer));
            let stats = answered.await.map_err(|_| OperationError::EndpointClosed)?;
            sum.protocol += stats.protocol;
            sum.unsendable += stats.unsendable;
            sum.passed_on += stats.passed_on;
            sum.not_passed_on += stats.not_passed_on;
            #[cfg(feature = "dtls")]
            {
                // With DTLS there is one shard.
                sum.sessions = stats.sessions;
            }
        }
        Ok(sum)
    }

    /// Returns the endpoint's counters, and the numbers of associations and paths by state. Takes time in
    /// proportion to the number of associations.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub async fn metrics(&self) -> Result<EndpointMetrics, OperationError> {
        let mut sum = EndpointMetrics::default();
        for shard in &self.inner.shards {
            sum += look(shard, |core| core.metrics()).await?;
        }
        Ok(sum)
    }

    /// Returns the number of associations, those being set up and shut down included.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub async fn associations(&self) -> Result<usize, OperationError> {
        let mut count = 0;
        for shard in &self.inner.shards {
            count += look(shard, |core| core.associations().count()).await?;
        }
        Ok(count)
    }

    /// Returns the addresses that the endpoint is bound to.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub async fn local_addresses(&self) -> Result<Vec<IpAddr>, OperationError> {
        self.look(|core| core.local_addresses().to_vec()).await
    }

    /// Calls a function with the protocol of the first shard.
    async fn look<R: Send + 'static>(
        &self,
        at: impl FnOnce(&mut carrick_proto::Endpoint) -> R + Send + 'static,
    ) -> Result<R, OperationError> {
        look(&self.inner.shards[0], at).await
    }

    /// Changes the association limits, [`Config::max_associations`] and
    /// [`Config::max_associations_per_source`]. Existing associations are kept even if they exceed them.
    pub fn set_max_associations(&self, most: usize, per_source: Option<usize>) {
        for shard in &self.inner.shards {
            let set = move |core: &mut carrick_proto::Endpoint, _| {
                core.set_max_associations(most, per_source)
            };
            // Without a task there is nothing to limit.
            let _ = shard.send(Command::Work(Box::new(set)));
        }
    }

    /// Returns the SCTP port.
    pub fn port(&self) -> u16 {
        self.inner.port
    }

    /// Returns the local UDP port; `None` on plain IP.
    pub fn encapsulation_port(&self) -> Option<u16> {
        self.inner.transport.encapsulation_port()
    }

    /// Returns why the endpoint has ended before it was closed: the daemon that carried its packets
    /// ([`Config::daemon`]) has ended and no other one has answered. Its associations have then ended with
    /// [`CloseReason::LowerLayerLost`](crate::CloseReason::LowerLayerLost).
    pub fn failure(&self) -> Option<&str> {
        self.inner.failure.get().map(String::as_str)
    }

    /// Adds a local address: opens a socket for it. Associations that are set up from now on use it, and
    /// those with dynamic addresses (RFC 5061) advertise it to their peers. With
    /// [`Config::auto_addresses`] no call is needed.
    ///
    /// The source address of every path is selected again among the addresses that the peer knows, so
    /// paths return to an address that was removed and is added again (RFC 9260 section 6.4).
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn local_address_added(&self, address: IpAddr) -> Result<(), BindError> {
        let (answer, answered) = oneshot::channel();
        self.command(Command::AddAddress(address, answer));
        answered.await.unwrap_or(Err(BindError::EndpointClosed))
    }

    /// Removes a local address: its paths change to another source address, and associations with
    /// dynamic addresses (RFC 5061) delete it at their peers. With [`Config::auto_addresses`] no call is
    /// needed.
    pub fn local_address_removed(&self, address: IpAddr) {
        self.command(Command::RemoveAddress(address));
    }

    /// Closes the endpoint: refuses new associations and shuts the existing ones down gracefully. Ready
    /// when the last one has ended and the sockets are closed. Returns which associations did not end
    /// gracefully and which messages were not delivered.
    ///
    /// To be awaited before the runtime ends: only then every message that [`SendHalf::send`](crate::SendHalf::send)
    /// accepted is acknowledged by its peer, or counted in the report.
    ///
    /// It lasts as long as the protocol lets it (RFC 9260 section 9.2):
    ///
    /// - while data is outstanding, until all of it is acknowledged, or retransmissions have failed more than
    ///   Association.Max.Retrans times in succession, which takes about six minutes by default. A peer that
    ///   acknowledges window probes and has no room has no limit: its program does not read.
    /// - after that, at most T5-shutdown-guard, five times RTO.Max by default. This also limits the wait for
    ///   a peer that cannot send its data because the receive buffer is full of unread messages; so they
    ///   have to be received meanwhile, by another task.
    ///
    /// [`Self::close_within`] has a limit of time, and [`Config::linger`](crate::Config::linger) limits the associations
    /// without handles. Received messages that fit into the receive buffer are not waited for: their handle
    /// returns them afterwards.
    ///
    /// Dropping this future, as `tokio::time::timeout` does, does not stop the closing, and aborts nothing;
    /// another call returns the report, also for several callers. Messages that are not delivered when
    /// the runtime ends are lost then.
    pub async fn close(&self) -> CloseReport {
        self.close_all(None).await
    }

    /// Closes the endpoint as [`Self::close`], and aborts the associations that have not ended after this
    /// time: their peers get an ABORT, and the report has what was not delivered
    /// ([`AssociationEnd::timed_out`](crate::AssociationEnd::timed_out)). A zero duration aborts all.
    ///
    /// If the endpoint is being closed already, the earlier limit counts. Dropping this future stops neither
    /// the closing nor the limit.
    pub async fn close_within(&self, limit: Duration) -> CloseReport {
        self.close_all(Some(limit)).await
    }

    async fn close_all(&self, limit: Option<Duration>) -> CloseReport {
        for shard in &self.inner.shards {
            // A task that has ended is closed.
            let _ = shard.send(Command::Close(limit));
        }
        let mut all = CloseReport::default();
        for report in &self.inner.reports {
            let mut report = report.clone();
            // A task that ended publishes its report.
            if let Ok(report) = report.wait_for(Option::is_some).await
                && let Some(report) = &*report
            {
                all.merge(report.clone());
            }
        }
        all
    }

    /// Sends a command to the first task. If the task has ended, the answer's channel closes.
    fn command(&self, command: Command) {
        let _ = self.inner.shards[0].send(command);
    }
}

/// Calls a function with the protocol of a task.
async fn look<R: Send + 'static>(
    commands: &Commands,
    at: impl FnOnce(&mut carrick_proto::Endpoint) -> R + Send + 'static,
) -> Result<R, OperationError> {
    let (answer, answered) = oneshot::channel();
    let work: EndpointCall = Box::new(|core, _| {
        // The caller may have dropped its future.
        let _ = answer.send(at(core));
    });
    // If the task has ended, the answer's channel closes.
    let _ = commands.send(Command::Work(work));
    answered.await.map_err(|_| OperationError::EndpointClosed)
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("port", &self.inner.port)
            .field("transport", &self.inner.transport)
            .finish_non_exhaustive()
    }
}

/// Networks of the shards of an endpoint, with its addresses and SCTP port.
struct OpenNetwork {
    networks: Vec<Network>,
    bound: Vec<IpAddr>,
    port: u16,
}

impl OpenNetwork {
    /// Opens sockets, or shares those of a daemon, whose transport the configuration then has.
    fn open(config: &mut Config) -> Result<Self, BindError> {
        let mut watch = None;
        if config.auto_addresses {
            let watched = NetworkWatch::new(config.addresses.clone());
            watch = Some(watched.map_err(BindError::WatchAddresses)?);
        }
        #[cfg(target_os = "linux")]
        if let Some(daemon) = &config.daemon {
            let lease = LeasedPort::request(daemon, &config.addresses, config.port)?;
            config.transport = lease.transport();
            return Ok(Self {
                bound: lease.addresses().to_vec(),
                port: lease.port(),
                networks: vec![Network::leased(lease, watch)],
            });
        }
        let bound = addresses::resolve(&config.addresses)?;
        let shards = config.shard_count();
        let (transport, buffer) = (config.transport, config.socket_buffer);
        let mut sockets = SocketSet::bind(&bound, transport, buffer, shards)?;
        let claim = PortClaim::new(config, sockets.transport().encapsulation_port(), &bound)?;
        let port = claim.port();
        sockets.hold(claim);
        let mut of_others: Vec<Vec<Socket>> = (1..shards).map(|_| Vec::new()).collect();
        for of_address in sockets.take_sockets_of_others() {
            for (socket, shard) in of_address.into_iter().zip(&mut of_others) {
                shard.push(socket);
            }
        }
        let transport = sockets.transport();
        let mut networks = vec![Network::new(sockets, watch)];
        let others = of_others.into_iter();
        networks.extend(
            others.map(|sockets| Network::new(SocketSet::of_shard(transport, sockets), None)),
        );
        Ok(Self {
            networks,
            bound,
            port,
        })
    }
}

/// Counters of an endpoint, since it was bound.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Stats {
    /// Counters of the protocol.
    pub protocol: EndpointStats,
    /// Datagrams that the system did not send: no route, larger than the route's MTU, filtered, or no
    /// buffer while a neighbour was resolved. The protocol retransmits lost data.
    pub unsendable: u64,
    /// Packets and ICMP messages that arrived at another shard than that of their association
    /// ([`Config::shards`]), and were passed on.
    pub passed_on: u64,
    /// Packets and ICMP messages for another shard that were dropped, because too many waited there. The
    /// protocol retransmits lost data.
    pub not_passed_on: u64,
    /// Counters of DTLS sessions.
    #[cfg(feature = "dtls")]
    pub sessions: carrick_proto::sessions::SessionStats,
}

/// Cancels a set-up when its future is dropped.
struct ConnectGuard<'a> {
    commands: &'a Commands,
    done: bool,
}

impl ConnectGuard<'_> {
    fn done(mut self) {
        self.done = true;
    }
}

impl Drop for ConnectGuard<'_> {
    fn drop(&mut self) {
        if !self.done {
            // Without a task there is no set-up.
            let _ = self.commands.send(Command::ConnectCancelled);
        }
    }
}
