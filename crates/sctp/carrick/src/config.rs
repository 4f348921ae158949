//! Configuration of endpoints and connections.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick_proto::cc::Olia;
use carrick_proto::protection::ChunkProtectionOffer;
use carrick_proto::research::Multipath;
use carrick_proto::{AssociationConfig, Observer, PeerAddress};

use crate::error::{ConfigError, ConnectError};
use crate::packets::PacketObserver;

/// The UDP port that IANA assigned to SCTP in UDP (RFC 6951 section 7).
pub const DEFAULT_ENCAPSULATION_PORT: u16 = 9899;

/// Maximum number of shards.
const MAX_SHARDS: usize = 64;

/// Transport of the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// SCTP in UDP (RFC 6951). No privileges needed.
    Udp {
        /// The local UDP port, the same on all addresses; 0 lets the system choose one.
        port: u16,
    },
    /// SCTP on IP, protocol 132. Needs `CAP_NET_RAW`.
    Raw,
    /// Both at once: replies use the transport of the peer's packets, and an association may have paths
    /// of both kinds. Needs `CAP_NET_RAW`.
    Both {
        /// The local UDP port, the same on all addresses; 0 lets the system choose one.
        port: u16,
    },
}

impl Transport {
    /// Returns the local UDP port; `None` without UDP.
    pub const fn encapsulation_port(self) -> Option<u16> {
        match self {
            Self::Udp { port } | Self::Both { port } => Some(port),
            Self::Raw => None,
        }
    }

    /// Returns whether packets are sent on plain IP.
    pub const fn has_plain_ip(self) -> bool {
        matches!(self, Self::Raw | Self::Both { .. })
    }

    fn with_port(self, port: u16) -> Option<Self> {
        match self {
            Self::Udp { .. } => Some(Self::Udp { port }),
            Self::Both { .. } => Some(Self::Both { port }),
            Self::Raw => None,
        }
    }
}

/// Configuration of an [`Endpoint`](crate::Endpoint).
///
/// [`Self::udp`] and [`Self::raw`] make one; its methods may be called in any order, and its fields can
/// be assigned. Parameters of the protocol are fields of [`Self::association`]: timers, thresholds of failover, buffers and
/// extensions.
///
/// Two local addresses, and the preset for signaling networks with another RTO.Max and other limits of errors:
///
/// ```
/// use std::time::Duration;
///
/// use carrick::{AssociationConfig, Config};
///
/// let association = AssociationConfig::signaling().with(|c| {
///     c.timers.rto_max = Duration::from_secs(1);
///     c.paths.path_max_retrans = 2;
///     c.paths.association_max_retrans = 4;
/// });
/// let config = Config::udp([[192, 0, 2, 1].into(), [198, 51, 100, 1].into()])
///     .port(2905)
///     .association(association);
/// assert_eq!(config.addresses.len(), 2);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
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
    /// Follows the addresses of the host: a new one is bound and advertised to peers, one that was
    /// removed is deleted (RFC 5061, where the association has dynamic addresses). If `addresses` names
    /// some, only those are followed. Loopback addresses are not.
    ///
    /// The source address of every path is selected again after a change of the host's addresses or
    /// routes, at most once per second for routes.
    pub auto_addresses: bool,
    /// Transport of the packets.
    pub transport: Transport,
    /// Local UDP port instead of the one in `transport`; 0 lets the system choose one. An error on an
    /// endpoint on plain IP alone.
    pub encapsulation_port: Option<u16>,
    /// Path of the control socket of a `carrick daemon`, whose UDP port the endpoint shares instead of opening
    /// sockets: the daemon leases it the SCTP port, with the checks that a socket of a program gets, and passes
    /// the packets on. `transport` is then the daemon's, and `addresses` are among its addresses. The endpoint
    /// and the daemon are in one network namespace.
    ///
    /// If the daemon is restarted, or hands over, the endpoint renews the lease, and its associations continue; if
    /// no daemon answers for 10 s, they end ([`Endpoint::failure`](crate::Endpoint::failure)).
    #[cfg(target_os = "linux")]
    pub daemon: Option<std::path::PathBuf>,
    /// SCTP over DTLS (RFC 8261): packets are records of a session with each peer, on UDP. `None` for
    /// packets in the clear. Associations then have one path; its address in [`PathStats`](crate::PathStats)
    /// represents the session.
    #[cfg(feature = "dtls")]
    pub dtls: Option<carrick_dtls::DtlsConfig>,
    /// Limits of DTLS sessions: their number, and the time without traffic after which they end.
    #[cfg(feature = "dtls")]
    pub sessions: carrick_proto::sessions::SessionLayerConfig,
    /// Number of tasks that divide the associations of the endpoint among them, 1 to 64: shards. On a runtime
    /// with several threads they run on several cores. Each has a socket of the same UDP port for each
    /// address. `receive_memory` is divided among them; other limits are those of the endpoint. An endpoint
    /// on plain IP, with DTLS or at a daemon has one shard, and so has every endpoint on systems other than
    /// Linux. Default: 1.
    pub shards: usize,
    /// Accepts associations from peers.
    pub accept: bool,
    /// Limit of associations that peers have set up and [`Endpoint::accept`](crate::Endpoint::accept) has not returned
    /// yet, at least 1; further ones are aborted. Those of one source may take a quarter of it, at least
    /// 16: an IPv4 address or /64 network of IPv6.
    pub backlog: usize,
    /// Limit of associations.
    pub max_associations: usize,
    /// Limit of associations that peers have set up from one IPv4 address or /64 network of IPv6; `None`
    /// for an eighth of `max_associations`, at least 16. To be raised where many peers are behind one
    /// address. See [`carrick_proto::EndpointConfig::max_associations_per_source`].
    pub max_associations_per_source: Option<usize>,
    /// Limit of the memory for received data of all associations in the protocol, in bytes, shared by
    /// the addresses it comes from. See [`carrick_proto::EndpointConfig::receive_memory`].
    pub receive_memory: usize,
    /// Parameters for associations that peers set up, and the default for [`ConnectOptions`]:
    /// [`AssociationConfig::modern`], unless another one is set.
    ///
    /// `path_mtu` is an upper limit: a smaller MTU of the route to a peer address is used instead.
    pub association: AssociationConfig,
    /// Protection of chunks offered to peers ([`protection`](crate::protection)), instead of that in `association`.
    /// A connection with its own parameters ([`ConnectOptions::association`]) has the protection in
    /// those.
    pub chunk_protection: Option<Arc<dyn ChunkProtectionOffer>>,
    /// Sends new data over all paths of an association at once, with windows that together take no more
    /// of a shared bottleneck than one flow would ([`Multipath::concurrent`], [`Olia`]), instead of the
    /// policies in `association`. Each side chooses for the data that it sends.
    pub multipath: bool,
    /// Length of the queue in front of `BufferConfig::send_buffer`, for each association: bytes of
    /// messages, with a cost of 64 for each. At least 1.
    pub send_queue: usize,
    /// Length of the queue of received messages for [`Association::recv`](crate::Association::recv), for each association:
    /// bytes, with a cost of 128 for each DATA chunk of a message; one message may exceed it. Messages
    /// that do not fit stay in the protocol, whose receive window then closes. At least 1.
    pub receive_queue: usize,
    /// Length of the same queue in messages. At least 1.
    pub receive_queue_messages: usize,
    /// Limit of the memory for what programs cannot receive yet or have not received, of all associations
    /// in bytes: parts of messages that are larger than the receive buffer, and notifications beyond 1 KiB
    /// of each association. The sources of the associations share it as `receive_memory`: each may use as
    /// much as is still free, so a single source leaves half of it to others. A message that would
    /// exceed it is delivered in parts; a notification is discarded.
    pub unread_memory: usize,
    /// Length of the queue of notifications, for each association, at least 1; further notifications
    /// are discarded, as those beyond `unread_memory`, and counted in [`Notification::Lagged`](crate::Notification::Lagged).
    pub notifications: usize,
    /// Time that an association has for its shutdown after its last handle was dropped; then it is
    /// aborted. Default: 15 minutes, more than the protocol waits for a peer that does not respond: about 6
    /// minutes for Association.Max.Retrans and 5 minutes for T5-shutdown-guard (RFC 9260 sections 8.1 and
    /// 9.2). It frees the memory of associations whose peers respond and never read.
    pub linger: Duration,
    /// Observer of all associations: what the endpoint decides, and why. With several shards, identifiers of
    /// associations are those of a shard.
    pub observer: Option<Arc<dyn Observer>>,
    /// Log of what the endpoint decides.
    #[cfg(feature = "event-log")]
    pub event_log: Option<crate::EventLog>,
    /// Observer of the packets that the endpoint receives and sends.
    pub packets: Option<Arc<dyn PacketObserver>>,
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
            encapsulation_port: None,
            #[cfg(target_os = "linux")]
            daemon: None,
            #[cfg(feature = "dtls")]
            dtls: None,
            #[cfg(feature = "dtls")]
            sessions: carrick_proto::sessions::SessionLayerConfig::default(),
            shards: 1,
            accept: true,
            backlog: 1024,
            max_associations: 1 << 13,
            max_associations_per_source: None,
            receive_memory: 64 << 20,
            association: AssociationConfig::modern(),
            chunk_protection: None,
            multipath: false,
            send_queue: 256 << 10,
            receive_queue: 256 << 10,
            receive_queue_messages: 1024,
            unread_memory: 32 << 20,
            notifications: 256,
            linger: Duration::from_secs(15 * 60),
            observer: None,
            #[cfg(feature = "event-log")]
            event_log: None,
            packets: None,
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

    /// Sets the SCTP port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the transport.
    #[must_use]
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Sets the local UDP port; 0 lets the system choose one.
    #[must_use]
    pub fn encapsulation_port(mut self, port: u16) -> Self {
        self.encapsulation_port = Some(port);
        self
    }

    /// Shares the UDP port of a daemon, by the path of its control socket.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn daemon(mut self, socket: impl Into<std::path::PathBuf>) -> Self {
        self.daemon = Some(socket.into());
        self
    }

    /// Uses plain IP as well as UDP.
    #[must_use]
    pub fn and_plain_ip(mut self) -> Self {
        let port = self.transport.encapsulation_port();
        let port = port.unwrap_or(DEFAULT_ENCAPSULATION_PORT);
        self.transport = Transport::Both { port };
        self
    }

    /// Sets the number of shards.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    /// Accepts associations from peers, or not.
    #[must_use]
    pub fn accept(mut self, accept: bool) -> Self {
        self.accept = accept;
        self
    }

    /// Follows the addresses of the host, or not.
    #[must_use]
    pub fn auto_addresses(mut self, follow: bool) -> Self {
        self.auto_addresses = follow;
        self
    }

    /// Sets the time for a shutdown after the last handle was dropped.
    #[must_use]
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
        self
    }

    /// Sets the observer of all associations.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Logs what the endpoint decides.
    #[cfg(feature = "event-log")]
    #[must_use]
    pub fn event_log(mut self, log: crate::EventLog) -> Self {
        self.event_log = Some(log);
        self
    }

    /// Passes all packets that the endpoint receives and sends to an observer, such as a writer of capture files.
    #[must_use]
    pub fn packets(mut self, observer: Arc<dyn PacketObserver>) -> Self {
        self.packets = Some(observer);
        self
    }

    /// Uses SCTP over DTLS, with this configuration of sessions.
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn dtls(mut self, dtls: carrick_dtls::DtlsConfig) -> Self {
        self.dtls = Some(dtls);
        self
    }

    /// Sets the limits of DTLS sessions.
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn sessions(mut self, limits: carrick_proto::sessions::SessionLayerConfig) -> Self {
        self.sessions = limits;
        self
    }

    /// Encrypts and authenticates all packets of associations, on all of their paths, by the DTLS chunk
    /// ([`dtls_chunk`](crate::dtls_chunk)), with TLS 1.3 handshakes in which both sides prove their identity. Peers that do
    /// not have the DTLS chunk, or that are not trusted, are refused: the reason is in the error of
    /// [`Endpoint::connect`](crate::Endpoint::connect). Other settings of the DTLS chunk:
    /// [`Self::chunk_protection`] with a [`DtlsChunk`](carrick_dtls_chunk::DtlsChunk).
    ///
    /// # Errors
    /// The certificate or key of this side, or a certificate of an authority, can't be used.
    ///
    /// ```
    /// use carrick::Config;
    /// use carrick::dtls::Certificate;
    /// use carrick::dtls_chunk::{Identity, Trust};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let fingerprint_of_peer = Certificate::generate()?.fingerprint();
    /// let identity = Identity::try_from(Certificate::generate()?)?;
    /// println!("the peer trusts {}", identity.fingerprint());
    /// let config = Config::udp([]).secure(identity, Trust::fingerprint(fingerprint_of_peer))?;
    /// # let _ = config;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "dtls")]
    pub fn secure(
        self,
        identity: carrick_dtls_chunk::Identity,
        trust: carrick_dtls_chunk::Trust,
    ) -> Result<Self, carrick_dtls_chunk::ConfigError> {
        use carrick_dtls_chunk::{DtlsChunk, DtlsChunkConfig};
        let offer = DtlsChunk::new(DtlsChunkConfig::tls(identity, trust))?;
        Ok(self.chunk_protection(Arc::new(offer)))
    }

    /// Offers this protection of chunks to peers.
    #[must_use]
    pub fn chunk_protection(mut self, offer: Arc<dyn ChunkProtectionOffer>) -> Self {
        self.chunk_protection = Some(offer);
        self
    }

    /// Sends new data over all paths of an association at once.
    #[must_use]
    pub fn multipath(mut self) -> Self {
        self.multipath = true;
        self
    }

    /// Sets the parameters of associations.
    #[must_use]
    pub fn association(mut self, association: AssociationConfig) -> Self {
        self.association = association;
        self
    }

    /// Returns the number of shards that the endpoint can have.
    pub(crate) fn shard_count(&self) -> usize {
        let can_share = cfg!(target_os = "linux") && !self.transport.has_plain_ip();
        #[cfg(target_os = "linux")]
        let can_share = can_share && self.daemon.is_none();
        #[cfg(feature = "dtls")]
        let can_share = can_share && self.dtls.is_none();
        if can_share { self.shards } else { 1 }
    }

    /// Merges the fields that replace parts of others, and validates.
    pub(crate) fn merge(&mut self) -> Result<(), ConfigError> {
        #[cfg(target_os = "linux")]
        if self.daemon.is_some() {
            let fits = self.encapsulation_port.is_none();
            #[cfg(feature = "dtls")]
            let fits = fits && self.dtls.is_none();
            let why = "the daemon's UDP port carries SCTP packets: set neither encapsulation_port nor dtls";
            fits.then_some(()).ok_or(ConfigError::new("daemon", why))?;
        }
        if let Some(port) = self.encapsulation_port.take() {
            let error = ConfigError::new("encapsulation_port", "plain IP has no UDP port");
            self.transport = self.transport.with_port(port).ok_or(error)?;
        }
        if let Some(offer) = self.chunk_protection.take() {
            self.association.security.protection = Some(offer);
        }
        if self.multipath {
            self.association.research.policies.multipath = Multipath::concurrent();
            self.association.research.policies.congestion = Arc::new(Olia);
        }
        for (field, value) in [
            ("backlog", self.backlog),
            ("send_queue", self.send_queue),
            ("receive_queue", self.receive_queue),
            ("receive_queue_messages", self.receive_queue_messages),
            ("notifications", self.notifications),
        ] {
            if value == 0 {
                return Err(ConfigError::new(field, "must be at least 1"));
            }
        }
        if !(1..=MAX_SHARDS).contains(&self.shards) {
            return Err(ConfigError::new("shards", "must be 1 to 64"));
        }
        Ok(())
    }
}

/// Options of [`Endpoint::connect_with`](crate::Endpoint::connect_with).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The peer's UDP port if the endpoint uses UDP; `None` for the default, 9899.
    pub encapsulation_port: Option<u16>,
    /// Addresses of the peer with another UDP port, or on plain IP (`None`). Of several entries for an
    /// address, the last one counts. Ports that change later are learned from the peer's packets
    /// (RFC 6951 section 5.4).
    pub encapsulation_overrides: Vec<(IpAddr, Option<u16>)>,
    /// Parameters of this association; `None` for the endpoint's.
    pub association: Option<AssociationConfig>,
    /// Trusted peers where the endpoint uses DTLS; `None` for the endpoint's.
    #[cfg(feature = "dtls")]
    pub trust: Option<carrick_dtls::Trust>,
}

impl ConnectOptions {
    /// The endpoint's parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the peer's UDP port.
    #[must_use]
    pub fn encapsulation_port(mut self, port: u16) -> Self {
        self.encapsulation_port = Some(port);
        self
    }

    /// Sets the UDP port of one address of the peer.
    #[must_use]
    pub fn encapsulated(mut self, address: IpAddr, port: u16) -> Self {
        self.encapsulation_overrides.push((address, Some(port)));
        self
    }

    /// Reaches one address of the peer on plain IP.
    #[must_use]
    pub fn plain_ip(mut self, address: IpAddr) -> Self {
        self.encapsulation_overrides.push((address, None));
        self
    }

    /// Sets the trusted peers.
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn trust(mut self, trust: carrick_dtls::Trust) -> Self {
        self.trust = Some(trust);
        self
    }

    /// Sets the parameters of the association.
    #[must_use]
    pub fn association(mut self, association: AssociationConfig) -> Self {
        self.association = Some(association);
        self
    }

    /// Returns an address with its encapsulation, for an endpoint with this transport.
    pub(crate) fn peer_address(
        &self,
        address: IpAddr,
        transport: Transport,
    ) -> Result<PeerAddress, ConnectError> {
        let overrides = self.encapsulation_overrides.iter();
        let own = overrides.rev().find(|(of, _)| *of == address);
        let udp = transport.encapsulation_port().is_some();
        let encapsulation = match (own, self.encapsulation_port) {
            (Some(&(_, encapsulation)), _) => encapsulation,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builders_work_in_any_order() {
        let merged = |mut config: Config| config.merge().map(|()| config.transport);
        let both = Ok(Transport::Both { port: 5 });
        let config = Config::udp([]).encapsulation_port(5).and_plain_ip();
        assert_eq!(merged(config), both);
        let config = Config::udp([]).and_plain_ip().encapsulation_port(5);
        assert_eq!(merged(config), both);
        let error = merged(Config::raw([]).encapsulation_port(5)).unwrap_err();
        assert_eq!(error.field, "encapsulation_port");
        let plain = || AssociationConfig::rfc9260();
        for mut config in [
            Config::udp([]).multipath().association(plain()),
            Config::udp([]).association(plain()).multipath(),
        ] {
            config.merge().unwrap();
            let multipath = &config.association.research.policies.multipath;
            assert_eq!(
                format!("{multipath:?}"),
                format!("{:?}", Multipath::concurrent())
            );
        }
    }

    /// RFC 6951, section 5.1
    #[test]
    fn encapsulation_is_selected_for_each_address() {
        let [a, b]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let both = Transport::Both { port: 5 };
        let options = ConnectOptions::new();
        let of = |options: &ConnectOptions, address, transport| {
            let peer = options.peer_address(address, transport);
            peer.map(|peer| peer.encapsulation)
        };
        assert_eq!(of(&options, a, both), Ok(Some(9899)));
        assert_eq!(of(&options, a, Transport::Raw), Ok(None));
        let options = options.plain_ip(a).encapsulated(b, 7).encapsulation_port(8);
        assert_eq!(of(&options, a, both), Ok(None));
        assert_eq!(of(&options, b, both), Ok(Some(7)));
        assert_eq!(of(&options, [10, 0, 0, 3].into(), both), Ok(Some(8)));
        let udp = Transport::Udp { port: 1 };
        assert_eq!(of(&options, a, udp), Err(ConnectError::NotPlainIp));
        let raw = Transport::Raw;
        assert_eq!(of(&options, b, raw), Err(ConnectError::NotEncapsulated));
        assert_eq!(of(&options.encapsulated(a, 9), a, udp), Ok(Some(9)));
    }
}
