//! Parameters of a daemon, and how it ends.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use carrick::Transport;
use carrick::network::HostRoutes;
use carrick_proto::AssociationConfig;
use carrick_sockets::{PortObservers, ReservedPorts};

/// Maximum of [`Config::stored_listeners`]: the service manager passes the names of all to the next process in one string,
/// which Linux limits to 128 KiB.
pub const MAX_STORED_LISTENERS: usize = 1024;

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

/// Parameters of a [`Daemon`](crate::Daemon).
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
    /// Limit of the listening sockets, at most [`MAX_STORED_LISTENERS`], that a service manager holds, so that they outlast
    /// a daemon that is killed. A user may have as many as are still free: a single one half of them. Default: 1024.
    pub stored_listeners: usize,
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
            stored_listeners: MAX_STORED_LISTENERS,
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

    /// Returns the parameters of the sockets.
    pub(crate) fn of_sockets(
        &self,
        addresses: Vec<IpAddr>,
        seed: [u8; 32],
    ) -> carrick_sockets::Config {
        let mut parameters = carrick_sockets::Config::new(addresses, seed);
        parameters.association = self.association.clone();
        parameters.encapsulation = self.peer_port;
        parameters.has_plain_ip = self.transport.has_plain_ip();
        parameters.backlog_per_source = self.backlog_per_source;
        parameters.max_associations = self.max_associations;
        parameters.max_associations_per_source = self.max_associations_per_source;
        parameters.max_associations_per_owner = self.max_associations_per_user;
        parameters.receive_memory = self.receive_memory;
        parameters.receive_memory_per_owner = self.receive_memory_per_user;
        parameters.send_memory_per_owner = self.send_memory_per_user;
        parameters.reserved_ports.clone_from(&self.reserved_ports);
        parameters.first_unprivileged_port = self.first_unprivileged_port;
        parameters.observers.clone_from(&self.observers);
        parameters.source_selection = || Box::new(HostRoutes::default());
        parameters
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

/// How a daemon ends that is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopRequest {
    /// Shut down the associations within the time of [`Config::linger`], then abort the remaining ones.
    End,
    /// Let the service manager hold all sockets, for the next process of the service. Ends as with
    /// [`StopRequest::End`] if it does not.
    Hold,
}

/// End of [`Daemon::run`](crate::Daemon::run).
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
