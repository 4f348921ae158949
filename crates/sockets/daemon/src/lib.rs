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
//! A successor continues all sockets in another process ([`Daemon::take_over`]).
//!
//! Users are served in turn, and the files that they pass to the daemon are closed by threads of their own, because that
//! may block. Clients are limited by their user ([`Limits`]); bytes that are no frame end the descriptor with
//! `ECONNABORTED`.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod association_log;
mod capture;
mod closing;
mod control;
mod descriptor;
mod driver;
mod ended;
mod handover;
mod lease;
mod linger;
mod list;
mod metrics;
mod metrics_of_associations;
mod requests;
mod serve;
pub mod service;
mod statistics;
mod stop;
mod turns;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::time::Duration;

use carrick::Transport;
use carrick::network::{HostRoutes, Network, NetworkConfig};
use carrick_ipc::{MAX_REPLY, Reply, Request};
use carrick_proto::AssociationConfig;
use carrick_sockets::{Errno, Sockets};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    getsockname, listen, recv, send, socket_with,
};
use serde_json::Value;
use tokio::net::UnixDatagram;
use tokio::sync::mpsc;

pub use capture::{Capture, CaptureFilter};
pub use carrick_ipc::CapturedPacket;
pub use carrick_sockets::{Config as SocketsConfig, PortObservers, ReservedPorts};
use driver::Driver;
use statistics::MetricsServer;

/// Pending connections of the control socket.
pub(crate) const BACKLOG: i32 = 128;

/// Limits of the processes of one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of connections of the control socket. Default: 1024.
    pub clients: usize,
    /// Maximum number of descriptors, also those of associations that are to be accepted. Default: 8192.
    pub descriptors: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 1024,
            descriptors: 8192,
        }
    }
}

/// Parameters of a [`Daemon`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Path of the control socket. Default: [`default_socket`].
    pub socket: PathBuf,
    /// Transport of the packets.
    pub transport: Transport,
    /// UDP port of peers (RFC 6951) for which no socket has another one
    /// (`SCTP_REMOTE_UDP_ENCAPS_PORT`); `None` for plain IP.
    pub peer_port: Option<u16>,
    /// Local addresses; all addresses of the host if empty. Default: empty.
    pub addresses: Vec<IpAddr>,
    /// Parameters with which sockets are created. Default:
    /// [`carrick_sockets::Config::default_association`].
    pub association: AssociationConfig,
    /// Limits of the processes of one user.
    pub limits: Limits,
    /// Limit of associations of all programs. Default: 8,192.
    pub max_associations: usize,
    /// Limit of the associations that peers at one source, an IPv4 address or IPv6 /64, have initiated. `None`, the
    /// default, means an eighth of `max_associations`, at least 16.
    pub max_associations_per_source: Option<usize>,
    /// Associations of one source that wait in a backlog while others compete for it, as
    /// [`carrick_sockets::Config::backlog_per_source`]. `None`, the default, means a quarter, at least 16.
    pub backlog_per_source: Option<usize>,
    /// Limit of the associations of one user. `None`, the default, means half of `max_associations`.
    pub max_associations_per_user: Option<usize>,
    /// Limit of the received data of all associations in bytes. Default: 64 MiB.
    pub receive_memory: usize,
    /// Limit of the received data of the associations of one user in bytes. `None`, the default, means half of
    /// `receive_memory`.
    pub receive_memory_per_user: Option<usize>,
    /// Limit of the bytes in the send buffers of all sockets of one user; at the limit they are as with a full
    /// `SO_SNDBUF`. Default: 256 MiB.
    pub send_memory_per_user: usize,
    /// SCTP ports that only their users, the owners, and the superuser may bind. Default: none.
    pub reserved_ports: Vec<ReservedPorts>,
    /// Lowest SCTP port that programs of users other than the superuser may bind. Default: 1024.
    pub first_unprivileged_port: u16,
    /// TCP address for metrics over HTTP; no metrics are served without it. Default: `None`.
    pub metrics: Option<SocketAddr>,
    /// Time for the shutdown of associations when the daemon stops; then they are aborted. Default: 0.
    pub linger: Duration,
    /// Receives a line for each descriptor that the daemon ended, of one user at most 20 lines at once and one in 10 s.
    /// Default: standard error.
    pub log: fn(&str),
    /// Receives a line for each association that is established or ends, with the reason, and for each event of
    /// its paths, also of those that its program does not see; of one peer at most 60 lines at once and one each second.
    /// Default: `None`.
    pub association_log: Option<fn(&str)>,
    /// Number of associations with metrics of their own and of their paths. Default: 0.
    pub metrics_associations: usize,
    /// Creates the observers of the associations. Default: none.
    pub observers: Option<PortObservers>,
}

impl Config {
    /// Returns the default parameters for a transport; the UDP port of peers is the local one.
    pub fn new(transport: Transport) -> Self {
        let udp = matches!(transport, Transport::Udp { .. });
        Self {
            socket: default_socket(),
            transport,
            peer_port: transport
                .encapsulation_port()
                .filter(|port| udp && *port != 0),
            addresses: Vec::new(),
            association: carrick_sockets::Config::default_association(),
            limits: Limits::default(),
            max_associations: 8192,
            max_associations_per_source: None,
            backlog_per_source: None,
            max_associations_per_user: None,
            receive_memory: 64 << 20,
            receive_memory_per_user: None,
            send_memory_per_user: 256 << 20,
            reserved_ports: Vec::new(),
            first_unprivileged_port: 1024,
            metrics: None,
            linger: Duration::ZERO,
            log: |line| eprintln!("carrick: {line}"),
            association_log: None,
            metrics_associations: 0,
            observers: None,
        }
    }
}

/// Returns the path of the control socket if no option names it: that of the environment variable
/// `CARRICK_DAEMON`, the one in the user's runtime directory, or `/run/carrick/socket`.
pub fn default_socket() -> PathBuf {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(path) = variable(carrick_ipc::DAEMON_VARIABLE) {
        return path.into();
    }
    let runtime = variable("XDG_RUNTIME_DIR");
    runtime.map_or(carrick_ipc::SYSTEM_SOCKET.into(), |directory| {
        carrick_ipc::user_socket(&directory).into()
    })
}

/// Returns whether a daemon answers on a control socket.
pub fn answers(path: &Path) -> bool {
    connection(path).is_ok()
}

/// Passes the sockets and associations of a daemon to `row`, each as a JSON object. Rows of sockets have the
/// members `socket`, `user`, `process` (of the process that opened it), `inode`, `local`, `bound` (as `local`, but the
/// wildcard address if the socket has all addresses of the host), `style`, `backlog`, `waiting` and `associations`;
/// those of associations, which have an `association` other than 0, `socket`, `user`, `process`, `inode`, `local`,
/// `bound`, `peer`, `state`, `stats`, `settings` and `paths`. Stops when `row` returns an error, and returns it.
///
/// # Errors
/// No daemon answers, or it sends something else; or that of `row`.
pub fn list(path: &Path, mut row: impl FnMut(Value) -> io::Result<()>) -> io::Result<()> {
    let connection = connection(path)?;
    let mut buffer = vec![0; MAX_REPLY];
    let (mut socket, mut association) = (-1, 0);
    loop {
        let request = Request::List {
            socket,
            association,
        };
        let (bytes, _) = request.encode();
        send(&connection, &bytes, SendFlags::NOSIGNAL)?;
        let (len, _) = recv(&connection, &mut buffer, RecvFlags::empty())?;
        let reply = Reply::decode(&buffer[..len]).map_err(io::Error::other)?;
        let before = (socket, association);
        for line in reply
            .value
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let value: Value = serde_json::from_slice(line)?;
            socket = value["socket"].as_i64().unwrap_or(i64::MAX);
            association = value["association"].as_i64().unwrap_or(0) as i32;
            row(value)?;
        }
        if reply.result == 0 {
            return Ok(());
        }
        if (socket, association) <= before {
            return Err(io::Error::other("the daemon repeats itself"));
        }
    }
}

/// Returns the counters of a daemon as a JSON object: `established` is the current number of established
/// associations (`sctpCurrEstab` of RFC 3873); `endpoints` has the members of
/// [`carrick_proto::EndpointStats`], and `associations` those of [`carrick_proto::AssociationCounters`].
///
/// # Errors
/// No daemon answers, or it sends something else.
pub fn counters(path: &Path) -> io::Result<Value> {
    let connection = connection(path)?;
    let (bytes, _) = Request::Statistics.encode();
    send(&connection, &bytes, SendFlags::NOSIGNAL)?;
    let mut buffer = vec![0; MAX_REPLY];
    let (len, _) = recv(&connection, &mut buffer, RecvFlags::empty())?;
    let reply = Reply::decode(&buffer[..len]).map_err(io::Error::other)?;
    Ok(serde_json::from_slice(reply.value)?)
}

/// Returns a connection to the control socket of a daemon.
fn connection(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &address)?;
    Ok(socket)
}

/// Watches a running daemon. A handover is not its end: the successor continues the connection.
#[derive(Debug)]
pub struct DaemonWatch(UnixDatagram);

impl DaemonWatch {
    /// Connects to the daemon on a control socket. Must be called in a runtime with I/O.
    ///
    /// # Errors
    /// No daemon answers, or it has too many connections of this user.
    pub fn start(path: &Path) -> io::Result<Self> {
        let connection = connection(path)?;
        // The reply shows that the connection was accepted.
        send(
            &connection,
            &Request::Describe.encode().0,
            SendFlags::NOSIGNAL,
        )?;
        let mut buffer = vec![0; MAX_REPLY];
        let (len, _) = recv(&connection, &mut buffer, RecvFlags::empty())?;
        let reply = Reply::decode(&buffer[..len]).map_err(io::Error::other)?;
        if reply.error == Errno::EMFILE.number() {
            return Err(io::Error::from_raw_os_error(reply.error));
        }
        rustix::io::ioctl_fionbio(&connection, true)?;
        Ok(Self(UnixDatagram::from_std(connection.into())?))
    }

    /// Waits for the end of the daemon.
    pub async fn ended(&self) {
        // The daemon sends nothing without a request.
        while self.0.recv(&mut [0]).await.is_ok_and(|len| len > 0) {}
    }
}

/// Error of [`Daemon::bind`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// A socket of the network could not be opened.
    #[error("{0}")]
    Network(#[from] carrick::BindError),
    /// A parameter of associations is out of its range.
    #[error("association parameters: {0}")]
    Association(#[source] carrick_proto::ConfigError),
    /// Another daemon has the control socket.
    #[error("a daemon answers on {0}: use it, or choose another path with --socket")]
    Running(PathBuf),
    /// The path of the control socket has a file that is no socket.
    #[error("{0} exists and is no socket: remove it, or choose another path with --socket")]
    NotASocket(PathBuf),
    /// The control socket could not be opened.
    #[error("cannot open the control socket {path}: {source}")]
    Control {
        /// Its path.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The address of the metrics cannot be bound.
    #[error("cannot serve metrics on {address}: {source}")]
    Metrics {
        /// Its address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The daemon on the control socket has not handed over.
    #[error("cannot take over from the daemon on {path}: {reason}")]
    NotTakenOver {
        /// Path of the control socket.
        path: PathBuf,
        /// Reason of the predecessor or of this process.
        reason: String,
    },
    /// The system has no random numbers, or no epoll instance.
    #[error("cannot start: {0}")]
    System(io::Error),
}

/// How a daemon ends that is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopRequest {
    /// Shut down the associations within the time of [`Config::linger`], then abort the remaining ones.
    End,
    /// Let the service manager hold all sockets, for the next process of the service. Ends as with
    /// [`StopRequest::End`] if it does not.
    Hold,
}

/// End of [`Daemon::run`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DaemonEnd {
    /// The daemon was stopped.
    Stopped,
    /// The service manager holds all sockets.
    Held,
    /// A successor serves all programs.
    HandedOver {
        /// Process id of the successor.
        process: u32,
    },
}

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
    /// with another UDP port, the reason is logged, and their programs get errors. Must be called in a tokio runtime
    /// with I/O and time.
    ///
    /// # Errors
    /// See [`DaemonError`].
    pub fn bind_on(config: Config, passed: service::Passed) -> Result<Self, DaemonError> {
        let service::Passed { control, held } = passed;
        if held.is_empty() {
            return Self::open(config, control);
        }
        let log = config.log;
        let continued = handover::continue_held(config.clone(), held);
        // What the manager keeps open would have no end for programs.
        if let Err(error) = service::release() {
            log(&format!(
                "the service manager still holds the sockets of the previous process: {error}"
            ));
        }
        continued.or_else(|reason| {
            log(&format!(
                "the sockets of the previous process are not continued: {reason}"
            ));
            Self::open(config, control)
        })
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
        let parameters = parameters(&config, network.addresses(), seed);
        let sockets = Sockets::new(parameters).map_err(DaemonError::Association)?;
        if owns_path && answers(&config.socket) {
            return Err(DaemonError::Running(config.socket));
        }
        let listener = config.metrics.map(MetricsServer::bind).transpose()?;
        let control = control.map_or_else(|| open_control(&config.socket), Ok)?;
        let socket = config.socket.clone();
        let driver = Driver::new(config, network, sockets, control);
        let mut driver = Box::new(driver.map_err(|error| DaemonError::System(error.into()))?);
        driver.owns_path = owns_path;
        Ok(Self::new(driver, socket, listener, false))
    }

    fn new(
        driver: Box<Driver>,
        socket: PathBuf,
        metrics: Option<MetricsServer>,
        is_successor: bool,
    ) -> Self {
        let (changes, changed) = mpsc::channel(1);
        Self {
            driver,
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
        handover::take_over(config)
    }

    /// Returns whether the daemon continues the sockets of another one.
    pub fn is_successor(&self) -> bool {
        self.is_successor
    }

    /// Returns the number of associations that have not ended.
    pub fn association_count(&self) -> usize {
        self.driver.sockets.open_association_count()
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
        let log = self.driver.config.log;
        let server = self.metrics.take().map(|metrics| {
            // Without a free descriptor, a successor opens the socket again.
            let listener = metrics.duplicate().ok();
            self.driver.metrics = listener.map(|listener| (metrics.address(), listener));
            let (tasks, scrapes) = metrics.start(self.driver.failures.clone(), log);
            self.driver.answer_scrapes(scrapes);
            tasks
        });
        let mut stop = std::pin::pin!(stop);
        let mut stopped = false;
        let end = std::future::poll_fn(|cx| {
            if !stopped && let Poll::Ready(request) = stop.as_mut().poll(cx) {
                stopped = true;
                self.driver.stop(request);
            }
            while let Poll::Ready(Some(association)) = self.defaults.1.poll_recv(cx) {
                // Checked by `Defaults::set`.
                let _ = self.driver.sockets.set_default_association(association);
            }
            self.driver.poll(cx)
        })
        .await;
        self.driver.close_clients();
        if let Some(mut server) = server {
            server.shutdown().await;
        }
        if self.driver.owns_path && end == DaemonEnd::Stopped {
            // The path may have been taken by another daemon only after it did not answer.
            let _ = remove_socket(&self.socket);
        }
        end
    }
}

/// Returns the parameters of the sockets.
fn parameters(config: &Config, addresses: Vec<IpAddr>, seed: [u8; 32]) -> carrick_sockets::Config {
    let mut parameters = carrick_sockets::Config::new(addresses, seed);
    parameters.association = config.association.clone();
    parameters.encapsulation = config.peer_port;
    parameters.has_plain_ip = config.transport.has_plain_ip();
    parameters.backlog_per_source = config.backlog_per_source;
    parameters.max_associations = config.max_associations;
    parameters.max_associations_per_source = config.max_associations_per_source;
    parameters.max_associations_per_owner = config.max_associations_per_user;
    parameters.receive_memory = config.receive_memory;
    parameters.receive_memory_per_owner = config.receive_memory_per_user;
    parameters.send_memory_per_owner = config.send_memory_per_user;
    parameters.reserved_ports.clone_from(&config.reserved_ports);
    parameters.first_unprivileged_port = config.first_unprivileged_port;
    parameters.observers.clone_from(&config.observers);
    parameters.source_selection = || Box::new(HostRoutes::default());
    parameters
}

/// Returns the path of a socket.
fn path_of(socket: &OwnedFd) -> Option<PathBuf> {
    let address = SocketAddrUnix::try_from(getsockname(socket).ok()?).ok()?;
    let path = address.path_bytes()?;
    Some(std::ffi::OsStr::from_bytes(path).into())
}

/// Opens the control socket. A socket whose daemon does not answer is replaced. With the privileges of the
/// superuser every user may connect.
fn open_control(path: &Path) -> Result<OwnedFd, DaemonError> {
    let failed = |source| DaemonError::Control {
        path: path.to_owned(),
        source,
    };
    // A path without a directory is in the current one.
    let directory = path.parent().filter(|own| !own.as_os_str().is_empty());
    if let Some(directory) = directory.filter(|directory| !directory.exists()) {
        if !has_own_directory(path) {
            let reason = format!(
                "directory {} does not exist: create it, or choose another path with --socket",
                directory.display()
            );
            return Err(failed(io::Error::new(io::ErrorKind::NotFound, reason)));
        }
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    if !remove_socket(path).map_err(failed)? {
        return Err(DaemonError::NotASocket(path.to_owned()));
    }
    listen_at(path).map_err(failed)
}

/// Returns whether the directory of a socket is Carrick's own, as that of a default path is.
fn has_own_directory(path: &Path) -> bool {
    let runtime = std::env::var("XDG_RUNTIME_DIR").unwrap_or_default();
    path == Path::new(carrick_ipc::SYSTEM_SOCKET)
        || !runtime.is_empty() && path == Path::new(&carrick_ipc::user_socket(&runtime))
}

/// Removes a socket. Returns false for another file, which remains; a symbolic link is one.
fn remove_socket(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Ok(false),
        Ok(_) => std::fs::remove_file(path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let mode = if rustix::process::geteuid().is_root() {
        0o666
    } else {
        0o600
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}
