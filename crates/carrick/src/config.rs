//! What an endpoint and its associations are made of.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick_proto::congestion::Olia;
use carrick_proto::policy::Multipath;
use carrick_proto::protection::ChunkProtectionOffer;
use carrick_proto::{AssociationConfig, PeerAddress};

use crate::error::ConnectError;
use crate::socket::addresses::is_link_local;

/// The UDP port that IANA assigned to SCTP in UDP (RFC 6951 section 7).
pub const DEFAULT_ENCAPSULATION_PORT: u16 = 9899;

/// What carries the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// SCTP in UDP (RFC 6951). No privileges needed.
    Udp {
        /// The local UDP port, the same on all addresses; 0 lets the system choose one.
        port: u16,
    },
    /// SCTP on IP, protocol 132. Needs `CAP_NET_RAW`.
    Raw,
    /// Both at once: peers are answered as they come, and one association may have paths of both
    /// kinds. Needs `CAP_NET_RAW`.
    Both {
        /// The local UDP port, as above.
        port: u16,
    },
}

impl Transport {
    /// The local UDP port; `None` without UDP.
    pub const fn encapsulation_port(self) -> Option<u16> {
        match self {
            Self::Udp { port } | Self::Both { port } => Some(port),
            Self::Raw => None,
        }
    }

    /// Whether there are sockets on plain IP.
    pub const fn has_plain_ip(self) -> bool {
        matches!(self, Self::Raw | Self::Both { .. })
    }
}

/// Everything an [`crate::Endpoint`] is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// The SCTP port, 1 to 65535. On plain IP one endpoint of a network namespace can have it with an
    /// address; in UDP several can, at different UDP ports. 0 chooses one that no other endpoint of
    /// this library has on this host: the number of the UDP port if the system chooses that, or one
    /// of 49152 to 65535.
    pub port: u16,
    /// The local addresses; IPv6 link-local ones are refused. None, or an unspecified one (`0.0.0.0`,
    /// `::`), means all addresses of the host (of that family) that are not link-local. Loopback
    /// addresses are advertised to peers on this host only.
    pub addresses: Vec<IpAddr>,
    /// The endpoint follows the addresses of the host: one that comes is bound and told to peers, one
    /// that goes is forgotten (RFC 5061, where the association has dynamic addresses). Of `addresses`
    /// that are named, only those are followed. Loopback addresses are not.
    ///
    /// The source address of every path is selected again when an address of the host came or went or
    /// its routes changed, at most once per second for routes.
    pub auto_addresses: bool,
    /// What carries the packets.
    pub transport: Transport,
    /// SCTP over DTLS (RFC 8261): packets are records of a session with each peer, on UDP. `None` for
    /// packets in the clear. Associations then have one path, whose address in
    /// [`crate::PathStats`] stands for the session.
    #[cfg(feature = "dtls")]
    pub dtls: Option<carrick_dtls::DtlsConfig>,
    /// How many of these sessions there may be, finished or not, and for how long.
    #[cfg(feature = "dtls")]
    pub sessions: carrick_proto::protection::SessionLayerConfig,
    /// Whether peers may set up associations.
    pub accept: bool,
    /// Associations that peers have set up and nobody has accepted yet, at most, at least 1; further
    /// ones are aborted.
    pub backlog: usize,
    /// Associations at most.
    pub max_associations: usize,
    /// Associations at most that peers have set up from one IPv4 address or /64 network of IPv6; `None`
    /// for an eighth of `max_associations`, at least 16. To be raised where many peers are behind one
    /// address. See [`carrick_proto::EndpointConfig::max_associations_per_source`].
    pub max_associations_per_source: Option<usize>,
    /// Bytes that received data of all associations may take together in the protocol, shared by the
    /// addresses it comes from. See [`carrick_proto::EndpointConfig::receive_memory`].
    pub receive_memory: usize,
    /// Parameters for associations that peers set up, and the default for [`ConnectOptions`]:
    /// [`AssociationConfig::modern`], unless something else is set.
    ///
    /// `path_mtu` is an upper limit: a smaller MTU of the route to a peer address is used instead.
    pub association: AssociationConfig,
    /// Bytes of messages, with a cost of 64 for each, that wait for the endpoint's task per
    /// association, before `AssociationConfig::send_buffer` counts them. At least 1.
    pub send_queue: usize,
    /// Bytes of messages per association that were taken from the protocol and not yet by
    /// [`crate::Association::recv`], with a cost of 128 for each piece that they came in (one a
    /// DATA chunk); one message may exceed it. What does not fit stays in the protocol, whose window
    /// to the peer then closes.
    pub receive_queue: usize,
    /// The same in messages. At least 1.
    pub receive_queue_messages: usize,
    /// Parts of a message larger than the receive buffer are put together up to this many bytes, with a
    /// cost of 128 for each piece that they came in (one a DATA chunk); what would take more is
    /// delivered in parts. With interleaving the limit is for all messages of an association that come
    /// by turns.
    pub assembly_limit: usize,
    /// Notifications per association that nobody has read, at most, at least 1; what exceeds them is
    /// counted in [`crate::Notification::Lagged`].
    pub notifications: usize,
    /// How long an association may take to shut down after its last handle was dropped.
    pub linger: Duration,
    /// Send and receive buffer of each socket in bytes, as far as the system allows it.
    pub socket_buffer: usize,
}

impl Config {
    /// SCTP in UDP on the default port, on these addresses (none for all), on a chosen SCTP port.
    pub fn udp(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self {
            port: 0,
            addresses: addresses.into_iter().collect(),
            auto_addresses: false,
            transport: Transport::Udp {
                port: DEFAULT_ENCAPSULATION_PORT,
            },
            #[cfg(feature = "dtls")]
            dtls: None,
            #[cfg(feature = "dtls")]
            sessions: carrick_proto::protection::SessionLayerConfig::default(),
            accept: true,
            backlog: 1024,
            max_associations: 1 << 13,
            max_associations_per_source: None,
            receive_memory: 64 << 20,
            association: AssociationConfig::modern(),
            send_queue: 256 << 10,
            receive_queue: 256 << 10,
            receive_queue_messages: 1024,
            assembly_limit: 64 << 20,
            notifications: 256,
            linger: Duration::from_secs(30),
            socket_buffer: 4 << 20,
        }
    }

    /// SCTP on IP, on these addresses (none for all), on a chosen SCTP port.
    pub fn raw(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self {
            transport: Transport::Raw,
            ..Self::udp(addresses)
        }
    }

    /// The same with this SCTP port.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// The same with this local UDP port, and carried in UDP (also in UDP, after
    /// [`Self::and_plain_ip`]).
    #[must_use]
    pub fn encapsulation_port(self, port: u16) -> Self {
        let transport = match self.transport {
            Transport::Both { .. } => Transport::Both { port },
            _ => Transport::Udp { port },
        };
        Self { transport, ..self }
    }

    /// The same on plain IP as well as in UDP.
    #[must_use]
    pub fn and_plain_ip(self) -> Self {
        let port = self.transport.encapsulation_port();
        Self {
            transport: Transport::Both {
                port: port.unwrap_or(DEFAULT_ENCAPSULATION_PORT),
            },
            ..self
        }
    }

    /// The same over DTLS (RFC 8261).
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn dtls(self, dtls: carrick_dtls::DtlsConfig) -> Self {
        Self {
            dtls: Some(dtls),
            ..self
        }
    }

    /// The same with these limits of sessions of DTLS.
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn sessions(self, sessions: carrick_proto::protection::SessionLayerConfig) -> Self {
        Self { sessions, ..self }
    }

    /// The same with this protection of chunks offered to peers ([`crate::protection`]).
    ///
    /// To be called after [`Self::association`], which sets the same parameters. A connection with
    /// parameters of its own ([`ConnectOptions::association`]) has the protection that they say.
    #[must_use]
    pub fn chunk_protection(mut self, offer: Arc<dyn ChunkProtectionOffer>) -> Self {
        self.association.protection = Some(offer);
        self
    }

    /// The same with new data over all paths of an association at once, and windows that together
    /// take no more of a shared bottleneck than one flow would ([`Multipath::concurrent`], [`Olia`]).
    /// Each side chooses for what it sends; a peer needs nothing for it.
    ///
    /// To be called after [`Self::association`], which sets the same parameters.
    #[must_use]
    pub fn multipath(mut self) -> Self {
        self.association.policies.multipath = Multipath::concurrent();
        self.association.policies.congestion = &Olia;
        self
    }

    /// The same with these parameters for associations.
    #[must_use]
    pub fn association(self, association: AssociationConfig) -> Self {
        Self {
            association,
            ..self
        }
    }
}

/// How to connect.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The peer's SCTP port.
    pub port: u16,
    /// The peer's UDP port if the endpoint uses UDP; `None` for the default, 9899.
    pub encapsulation_port: Option<u16>,
    /// Addresses of the peer that are reached otherwise: at another UDP port, or on plain IP
    /// (`None`). The last word about an address counts. Ports that change later are learned from the
    /// peer's packets (RFC 6951 section 5.4).
    pub ways: Vec<(IpAddr, Option<u16>)>,
    /// Parameters of this association; `None` for the endpoint's.
    pub association: Option<AssociationConfig>,
    /// Which peer is expected where the endpoint uses DTLS; `None` for the endpoint's trust.
    #[cfg(feature = "dtls")]
    pub trust: Option<carrick_dtls::Trust>,
}

impl ConnectOptions {
    /// To this SCTP port, with the endpoint's parameters.
    pub fn to_port(port: u16) -> Self {
        Self {
            port,
            encapsulation_port: None,
            ways: Vec::new(),
            association: None,
            #[cfg(feature = "dtls")]
            trust: None,
        }
    }

    /// The same with this UDP port of the peer.
    #[must_use]
    pub fn encapsulation_port(self, port: u16) -> Self {
        Self {
            encapsulation_port: Some(port),
            ..self
        }
    }

    /// The same, with this address of the peer at a UDP port of its own.
    #[must_use]
    pub fn encapsulated(mut self, address: IpAddr, port: u16) -> Self {
        self.ways.push((address, Some(port)));
        self
    }

    /// The same, with this address of the peer reached on plain IP.
    #[must_use]
    pub fn plain_ip(mut self, address: IpAddr) -> Self {
        self.ways.push((address, None));
        self
    }

    /// How an address is reached from an endpoint with this transport.
    pub(crate) fn way(
        &self,
        address: IpAddr,
        transport: Transport,
    ) -> Result<PeerAddress, ConnectError> {
        if is_link_local(address) {
            return Err(ConnectError::LinkLocal(address));
        }
        let own = self.ways.iter().rfind(|(of, _)| *of == address);
        let udp = transport.encapsulation_port().is_some();
        let encapsulation = match (own, self.encapsulation_port) {
            (Some(&(_, way)), _) => way,
            (None, Some(port)) => Some(port),
            (None, None) => udp.then_some(DEFAULT_ENCAPSULATION_PORT),
        };
        match encapsulation {
            Some(_) if !udp => Err(ConnectError::NotEncapsulated),
            None if !transport.has_plain_ip() => Err(ConnectError::NotPlainIp),
            _ => Ok(PeerAddress {
                address,
                encapsulation,
            }),
        }
    }

    /// The same, to a peer that this trust lets in.
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn trust(self, trust: carrick_dtls::Trust) -> Self {
        Self {
            trust: Some(trust),
            ..self
        }
    }

    /// The same with these parameters.
    #[must_use]
    pub fn association(self, association: AssociationConfig) -> Self {
        Self {
            association: Some(association),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_reached_the_way_that_was_given_rfc_6951_5_1() {
        let [a, b]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let both = Config::udp([])
            .encapsulation_port(5)
            .and_plain_ip()
            .transport;
        assert_eq!(both, Transport::Both { port: 5 });
        let options = ConnectOptions::to_port(1);
        let way = |options: &ConnectOptions, address, transport| {
            let way = options.way(address, transport);
            way.map(|peer| peer.encapsulation)
        };
        assert_eq!(way(&options, a, both), Ok(Some(9899)));
        assert_eq!(way(&options, a, Transport::Raw), Ok(None));
        let options = options.plain_ip(a).encapsulated(b, 7).encapsulation_port(8);
        assert_eq!(way(&options, a, both), Ok(None));
        assert_eq!(way(&options, b, both), Ok(Some(7)));
        assert_eq!(way(&options, [10, 0, 0, 3].into(), both), Ok(Some(8)));
        let udp = Transport::Udp { port: 1 };
        assert_eq!(way(&options, a, udp), Err(ConnectError::NotPlainIp));
        let raw = Transport::Raw;
        assert_eq!(way(&options, b, raw), Err(ConnectError::NotEncapsulated));
        assert_eq!(way(&options.encapsulated(a, 9), a, udp), Ok(Some(9)));
    }
}
