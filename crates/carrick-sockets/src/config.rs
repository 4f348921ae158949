//! Parameters of a host's sockets.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use carrick_proto::{AssociationConfig, Grants, MatchingAddress, SourceSelection};

/// Parameters of [`crate::Sockets`].
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
    /// Creates the selection of source addresses of a port. Default: [`MatchingAddress`].
    pub source_selection: fn() -> Box<dyn SourceSelection>,
    /// Ports of sockets that are bound to port 0, or not at all. Default: 32768 to 60999.
    pub ephemeral_ports: RangeInclusive<u16>,
    /// Lowest port that a socket without privileges may bind. Default: 1024.
    pub first_unprivileged_port: u16,
    /// Limit of sockets, those in accept queues included. Default: 65,536.
    pub max_sockets: usize,
    /// Limit of associations, at each port and of all ports. Default: 8,192.
    pub max_associations: usize,
    /// Memory in bytes for the received data of all associations and the state of their inbound streams,
    /// as [`carrick_proto::EndpointConfig::receive_memory`], but of all ports together. What the sockets
    /// have taken over for `recvmsg` counts at each of them. Default: 64 MiB.
    pub receive_memory: usize,
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
            source_selection: || Box::new(MatchingAddress),
            ephemeral_ports: 32_768..=60_999,
            first_unprivileged_port: 1024,
            max_sockets: 1 << 16,
            max_associations: 8192,
            receive_memory: 64 << 20,
            max_backlog: 4096,
        }
    }

    /// Returns the parameters with which sockets are created by default: those of
    /// [`AssociationConfig::default`], but as on Linux a path is potentially failed after one timeout,
    /// which RFC 7829, section 3 recommends, this state is not exposed, and no requests of the peer to change
    /// streams are granted (RFC 6525, section 6.3.1).
    pub fn default_association() -> AssociationConfig {
        AssociationConfig::default().with(|c| {
            c.paths.potentially_failed_max_retrans = Some(0);
            c.paths.expose_potentially_failed = false;
            c.streams.grants = Grants {
                reset_streams: false,
                reset_association: false,
                change_streams: false,
            };
        })
    }
}
