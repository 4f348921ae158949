//! Parameters of a host's sockets.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use carrick_proto::{AssociationConfig, Grants, MatchingAddress, Observer, SourceSelection};

/// Ports of one owner of sockets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReservedPorts {
    /// Owner ([`Sockets::set_owner`](crate::Sockets::set_owner)).
    pub owner: u32,
    /// Ports, from the first to the last one.
    pub ports: RangeInclusive<u16>,
}

/// Creates an observer for each port.
#[derive(Clone)]
pub struct PortObservers(Arc<dyn Fn() -> Arc<dyn Observer> + Send + Sync>);

impl PortObservers {
    /// Returns the function that creates them.
    pub fn new(create: impl Fn() -> Arc<dyn Observer> + Send + Sync + 'static) -> Self {
        Self(Arc::new(create))
    }

    pub(crate) fn create(&self) -> Arc<dyn Observer> {
        (self.0)()
    }
}

impl fmt::Debug for PortObservers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PortObservers")
    }
}

/// Parameters of [`Sockets`](crate::Sockets).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Seed of all randomness. On a real network it must come from the operating system's random number
    /// generator.
    pub seed: [u8; 32],
    /// Addresses of the host.
    pub addresses: Vec<IpAddr>,
    /// Parameters with which sockets are created; options change them. Default:
    /// [`Self::default_association`].
    pub association: AssociationConfig,
    /// UDP port of peers (RFC 6951) with which sockets are created; `None`, the default, for plain IP.
    pub encapsulation: Option<u16>,
    /// Packets can be sent on plain IP. If not, `SCTP_REMOTE_UDP_ENCAPS_PORT` 0 means the default port. Default: true.
    pub has_plain_ip: bool,
    /// Creates the selection of source addresses of a port. Default: [`MatchingAddress`].
    pub source_selection: fn() -> Box<dyn SourceSelection>,
    /// Creates the observer of the associations of a port. Default: none.
    pub observers: Option<PortObservers>,
    /// Ports of sockets that are bound to port 0, or not at all. Default: 32768 to 60999.
    pub ephemeral_ports: RangeInclusive<u16>,
    /// Lowest port that a socket without privileges may bind. Default: 1024.
    pub first_unprivileged_port: u16,
    /// Limit of sockets, those in accept queues included. Default: 65,536.
    pub max_sockets: usize,
    /// Limit of associations, at each port and of all ports. Default: 8,192.
    pub max_associations: usize,
    /// Limit of the associations that peers at one source have initiated, at all ports, as
    /// [`carrick_proto::EndpointConfig::max_associations_per_source`]. `None`, the default, means an eighth of
    /// `max_associations`, at least 16.
    pub max_associations_per_source: Option<usize>,
    /// Limit of the associations of the sockets of one owner ([`Sockets::set_owner`](crate::Sockets::set_owner)). `None`, the
    /// default, means half of `max_associations`.
    pub max_associations_per_owner: Option<usize>,
    /// Memory in bytes for the received data of all associations and the state of their inbound streams,
    /// as [`carrick_proto::EndpointConfig::receive_memory`], but of all ports together. What the sockets
    /// have taken over for `recvmsg` counts at each of them. Default: 64 MiB.
    pub receive_memory: usize,
    /// Part of `receive_memory` in bytes for the sockets of one owner. Every association may hold 4 KiB regardless.
    /// `None`, the default, means half of it.
    pub receive_memory_per_owner: Option<usize>,
    /// Limit of the bytes in the send buffers of all sockets of one owner. At the limit a message is refused with
    /// `EAGAIN`, as at `SO_SNDBUF`. Every association may hold 4 KiB regardless. Default: 256 MiB.
    pub send_memory_per_owner: usize,
    /// Ports that only sockets of their owners and those with privileges may bind; `first_unprivileged_port` does not
    /// apply to them. Default: none.
    pub reserved_ports: Vec<ReservedPorts>,
    /// Associations of one source that wait in the accept queue of a socket while others compete for it: once three
    /// quarters of the backlog are taken and several sources have associations there. `None`, the default, means a
    /// quarter of the backlog, at least 16.
    pub backlog_per_source: Option<usize>,
    /// Limit of the backlog of a listening socket (`net.core.somaxconn`). Default: 4096.
    pub max_backlog: usize,
}

impl Config {
    /// Returns the default parameters for a host with these addresses.
    pub fn new(addresses: Vec<IpAddr>, seed: [u8; 32]) -> Self {
        Self {
            seed,
            addresses,
            association: Self::default_association(),
            encapsulation: None,
            has_plain_ip: true,
            source_selection: || Box::new(MatchingAddress),
            observers: None,
            ephemeral_ports: 32_768..=60_999,
            first_unprivileged_port: 1024,
            max_sockets: 1 << 16,
            max_associations: 8192,
            max_associations_per_source: None,
            max_associations_per_owner: None,
            receive_memory: 64 << 20,
            receive_memory_per_owner: None,
            send_memory_per_owner: 256 << 20,
            reserved_ports: Vec::new(),
            backlog_per_source: None,
            max_backlog: 4096,
        }
    }

    /// Returns the parameters with which sockets are created by default: [`AssociationConfig::default`]
    /// [for programs](Self::for_programs).
    pub fn default_association() -> AssociationConfig {
        Self::for_programs(AssociationConfig::default())
    }

    /// Returns parameters with two differences, because programs for Linux expect them. The
    /// potentially failed state is not exposed (`net.sctp.pf_expose` is unset), since a program that does not
    /// know `SCTP_ADDR_POTENTIALLY_FAILED` would take it for a failure. No requests of the peer to
    /// change streams are granted until the program sets `SCTP_ENABLE_STREAM_RESET` (RFC 6525,
    /// section 6.3.1).
    pub fn for_programs(config: AssociationConfig) -> AssociationConfig {
        config.with(|c| {
            c.paths.expose_potentially_failed = false;
            c.streams.grants = Grants {
                reset_streams: false,
                reset_association: false,
                change_streams: false,
            };
        })
    }

    /// Returns the limit of associations that peers at one source may initiate.
    pub(crate) fn per_source(&self) -> usize {
        let fraction = (self.max_associations / 8).max(16);
        self.max_associations_per_source.unwrap_or(fraction)
    }

    /// Returns the limit of associations of one owner.
    pub(crate) fn per_owner(&self) -> usize {
        let half = self.max_associations.div_ceil(2);
        self.max_associations_per_owner.unwrap_or(half)
    }

    /// Returns the memory for received data of one owner.
    pub(crate) fn memory_per_owner(&self) -> usize {
        let half = self.receive_memory / 2;
        self.receive_memory_per_owner.unwrap_or(half)
    }
}
