//! Parameters of endpoints and associations (RFC 9260, section 16).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use carrick_wire::ParameterWriter;

use crate::association::zero_checksum::LowerLayer;
use crate::auth::AuthenticationConfig;
use crate::cc::Algorithm;
use crate::endpoint::Shard;
use crate::extensions::Extensions;
use crate::path::PathThresholds;
use crate::path::mtu_discovery::PathMtuDiscovery;
use crate::protection::{ChunkProtectionOffer, MAX_OFFER, MAX_OVERHEAD};
use crate::research::{Policies, SwsAvoidance};
use crate::route::{MatchingAddress, SourceSelection};
use crate::streams::Grants;
use crate::tx::scheduler::StreamScheduler;

/// Parameters of an endpoint.
#[derive(Debug)]
pub struct EndpointConfig {
    /// SCTP port of the endpoint, 1 to 65535.
    pub port: u16,
    /// Local addresses of the endpoint. INIT and INIT ACK advertise those that the peer can use:
    /// loopback addresses only to a loopback address, link-local ones only to a link-local or loopback
    /// address, and only families that the peer supports (RFC 9260, section 5.1.2). If that leaves the
    /// source address of the packet alone, no address is advertised, so that the association works
    /// through address translation; with several addresses, see [`PathConfig::wildcard_addresses`].
    pub local_addresses: Vec<IpAddr>,
    /// Seed of all randomness: tags, initial TSNs, nonces, secrets and jitter. On a real network it must
    /// come from the operating system's random number generator.
    pub seed: [u8; 32],
    /// Accepts associations that peers initiate. If `false`, INIT is answered with ABORT. Default: `true`.
    pub accept: bool,
    /// Limit of simultaneous associations. Further ones are refused with the error cause "Out of
    /// Resource". Default: 8,192.
    pub max_associations: usize,
    /// Limit of simultaneous associations that peers at one source have initiated; further ones are
    /// refused with the error cause "Out of Resource". A source is an IPv4 address or the /64 network of
    /// an IPv6 address, taken from the packet that returned the cookie. Raise it if many peers are
    /// behind one address, such as a translator or gateway. `None`, the default, means an eighth of
    /// `max_associations`, at least 16.
    pub max_associations_per_source: Option<usize>,
    /// Memory in bytes for the received data of all associations and the state of their inbound streams,
    /// counted as for [`BufferConfig::receive_buffer`]. A source, as in `max_associations_per_source`,
    /// may use as much of it as is still free, so a single source leaves half of it to others. Every
    /// association may hold 4 KiB regardless. Beyond these limits data is dropped without being
    /// acknowledged; the advertised window closes before. Default: 64 MiB.
    pub receive_memory: usize,
    /// Time after which the secret key of State Cookies is replaced. The previous key remains valid for
    /// one more period. Default: one hour.
    pub secret_lifetime: Duration,
    /// Parameters of associations that peers initiate. Default: [`AssociationConfig::rfc9260`].
    pub association: AssociationConfig,
    /// Source address selection. Default: [`MatchingAddress`].
    pub source_selection: Box<dyn SourceSelection>,
    /// Place among the endpoints that divide the associations of one port and its addresses among them.
    /// `max_associations` and `max_associations_per_source` are then limits of all shards, and `receive_memory`
    /// is that of this shard. An export has no shard. Default: `None`.
    pub shard: Option<Shard>,
}

impl EndpointConfig {
    /// Returns the default parameters for an endpoint on `port` with these local addresses.
    pub fn new(port: u16, local_addresses: Vec<IpAddr>, seed: [u8; 32]) -> Self {
        Self {
            port,
            local_addresses,
            seed,
            accept: true,
            max_associations: 1 << 13,
            max_associations_per_source: None,
            receive_memory: 64 << 20,
            secret_lifetime: Duration::from_secs(3600),
            association: AssociationConfig::rfc9260(),
            source_selection: Box::new(MatchingAddress),
            shard: None,
        }
    }

    /// Returns the limit of associations that peers at one source may initiate.
    pub(crate) fn per_source(&self) -> usize {
        let fraction = (self.max_associations / 8).max(16);
        self.max_associations_per_source.unwrap_or(fraction)
    }

    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// Returns the first parameter that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.port == 0 {
            return Err(ConfigError("port: must be 1 to 65535"));
        }
        self.shard.as_ref().map_or(Ok(()), Shard::validate)?;
        self.association.validate()
    }
}

/// Highest DSCP, of six bits (RFC 2474, section 3).
pub(crate) const MAX_DSCP: u8 = 63;

/// Parameters of one association, in groups.
///
/// [`Default`] is the recommended configuration for today's networks; [`AssociationConfig::rfc9260`]
/// follows RFC 9260, section 16, alone. Values are set field by field:
///
/// ```
/// # use carrick_proto::AssociationConfig;
/// let config = AssociationConfig::default().with(|c| {
///     c.paths.path_max_retrans = 3;
///     c.buffers.send_buffer = 4 << 20;
/// });
/// assert_eq!(config.validate(), Ok(()));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AssociationConfig {
    /// Retransmission, SACK and set-up timers.
    pub timers: TimerConfig,
    /// Paths: error thresholds, heartbeats, and which addresses are used.
    pub paths: PathConfig,
    /// Packet sizes.
    pub mtu: MtuConfig,
    /// Send and receive buffers.
    pub buffers: BufferConfig,
    /// Streams and their scheduler.
    pub streams: StreamConfig,
    /// Transmission of new data.
    pub transmission: TransmissionConfig,
    /// Extensions that are offered to peers; each is in force if both sides offer it.
    pub extensions: Extensions,
    /// Authentication and protection of packets.
    pub security: SecurityConfig,
    /// Adaptation Layer Indication that is sent to the peer, a number without meaning to SCTP (RFC 5061,
    /// section 4.2.6). [`AssociationStats::peer_adaptation_layer`](crate::AssociationStats::peer_adaptation_layer) has the peer's. `None`, the
    /// default, sends none.
    pub adaptation_layer: Option<u32>,
    /// Algorithms, and deviations from RFC 9260 for research.
    pub research: ResearchConfig,
}

portable_struct! {
    AssociationConfig {
        timers, paths, mtu, buffers, streams, transmission, extensions, security, adaptation_layer,
        research,
    }
}

/// Timers and counters of set-up, retransmission and acknowledgement (RFC 9260, section 16).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TimerConfig {
    /// RTO.Initial: RTO before the first RTT measurement, more than zero. Default: 1 s.
    pub rto_initial: Duration,
    /// RTO.Min, at most `rto_max`. Default: 1 s.
    pub rto_min: Duration,
    /// RTO.Max, more than zero. Default: 60 s.
    pub rto_max: Duration,
    /// SACK.Delay: longest delay of a SACK, at most 500 ms. Default: 200 ms.
    pub sack_delay: Duration,
    /// Number of packets with DATA after which a SACK is sent without delay, at least 1. Default: 2.
    pub sack_frequency: u32,
    /// Valid.Cookie.Life: lifespan of State Cookies. Default: 60 s.
    pub valid_cookie_life: Duration,
    /// Limit of the extension of the lifespan that a peer's Cookie Preservative parameter may request.
    /// Default: 60 s.
    pub max_cookie_life_increment: Duration,
    /// Max.Init.Retransmits: retransmissions of INIT or COOKIE ECHO before set-up fails. Default: 8.
    pub max_init_retransmits: u32,
    /// Limit of the timeout of INIT and COOKIE ECHO when it is doubled, besides RTO.Max (`SCTP_INITMSG` of
    /// RFC 6458, section 8.1.3). Default: `None`.
    pub max_init_timeout: Option<Duration>,
    /// T5-shutdown-guard: longest duration of a shutdown. `None`, the default, means five times RTO.Max
    /// (RFC 9260, section 9.2).
    pub shutdown_guard: Option<Duration>,
    /// RTOs without progress of the cumulative TSN before [`Event::NoProgress`](crate::Event::NoProgress) is emitted. `None`
    /// disables the event. Default: 20.
    pub no_progress_after: Option<u32>,
}

portable_struct! {
    TimerConfig {
        rto_initial, rto_min, rto_max, sack_delay, sack_frequency, valid_cookie_life,
        max_cookie_life_increment, max_init_retransmits, max_init_timeout, shutdown_guard,
        no_progress_after,
    }
}

/// Paths: failure detection, heartbeats and addresses.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathConfig {
    /// Limit of peer addresses, 1 to 255; further ones in INIT or INIT ACK are ignored. Default: 16.
    pub max_paths: usize,
    /// Association.Max.Retrans: consecutive transmissions without a response after which the association
    /// is closed. Default: 10.
    pub association_max_retrans: u32,
    /// Path.Max.Retrans: consecutive errors of a path after which it becomes inactive. Default: 5.
    pub path_max_retrans: u32,
    /// PotentiallyFailed.Max.Retrans of RFC 7829: consecutive errors above which data leaves a path; 0
    /// means after the first error. `None` means the failover of RFC 9260. Default: 0, which RFC 7829,
    /// section 3 recommends; `None` in [`AssociationConfig::rfc9260`].
    pub potentially_failed_max_retrans: Option<u32>,
    /// Primary.Switchover.Max.Retrans of RFC 7829: consecutive errors after which another path becomes
    /// the primary path permanently. `None`, the default, means that data returns to the primary path
    /// when it is active again.
    pub primary_switchover_max_retrans: Option<u32>,
    /// Exposes the potentially failed state to the program (RFC 7829, section 7.3). Otherwise
    /// [`Event::UnexposedPathChange`](crate::Event::UnexposedPathChange) takes the place of its events; statistics show the state in
    /// any case. Default: `true`.
    pub expose_potentially_failed: bool,
    /// Sends heartbeats on idle paths. Default: `true`.
    pub heartbeat: bool,
    /// HB.interval: added to the path's RTO with jitter between heartbeats. Default: 30 s.
    pub hb_interval: Duration,
    /// HB.Max.Burst: heartbeats per RTO for path verification, at least 1. Default: 1.
    pub hb_max_burst: u32,
    /// Uses and monitors a path for each pair of local and peer address instead of one for each peer
    /// address. Default: `false`.
    pub monitor_pairs: bool,
    /// Ignores the addresses that a peer advertises in INIT, INIT ACK and cookies: the peer has only the
    /// source address of the set-up. For lower layers whose connections have no addresses of their own
    /// (RFC 8261, section 6.1). Default: `false`.
    pub ignore_peer_addresses: bool,
    /// Sends no address parameters, as behind a NAT, where the host does not know its public addresses
    /// (RFC 6951, section 5.7). Default: `false`.
    ///
    /// The association is set up from one address. If dynamic addresses are in force, each further
    /// address is added by an ASCONF sent from it with the wildcard address; the peer takes the source
    /// address of the packet (RFC 5061, section 4.2.1). Removed addresses are deleted all at once when at
    /// most one is left (section 4.2.2); if several are left, the peer detects by heartbeats which are
    /// reachable. The source address is not authenticated, so an attacker on the path can replace it
    /// (section 6). The peer needs [`Self::wildcard_peers`].
    ///
    /// Until the first such ASCONF is acknowledged, the peer knows one address. If that address is
    /// removed before, the association ends by its retransmission limits. A repeated set-up from another
    /// address, or a simultaneous set-up by both sides with different addresses, creates a separate
    /// association at the peer (RFC 9260, section 5.2.2).
    pub wildcard_addresses: bool,
    /// Finds an association also by its verification tag alone, for an ASCONF from an unknown address
    /// with the wildcard address. [`Self::wildcard_addresses`] implies it. Takes some memory for each
    /// association. Default: `false`.
    pub wildcard_peers: bool,
    /// DSCP of packets on IPv4, 0 to 63 (RFC 2474). Default: 0.
    pub dscp_v4: u8,
    /// DSCP of packets on IPv6, 0 to 63. Default: 0.
    pub dscp_v6: u8,
}

impl PathConfig {
    fn validate_dscps(&self) -> Result<(), ConfigError> {
        if self.dscp_v4.max(self.dscp_v6) <= MAX_DSCP {
            Ok(())
        } else {
            Err(ConfigError("dscp_v4 and dscp_v6: must be 0 to 63"))
        }
    }

    /// Returns the DSCP of packets to an address.
    pub(crate) const fn dscp(&self, remote: IpAddr) -> u8 {
        match remote {
            IpAddr::V4(_) => self.dscp_v4,
            IpAddr::V6(_) => self.dscp_v6,
        }
    }
}

portable_struct! {
    PathConfig {
        max_paths, association_max_retrans, path_max_retrans, potentially_failed_max_retrans,
        primary_switchover_max_retrans, expose_potentially_failed, heartbeat, hb_interval,
        hb_max_burst, monitor_pairs, ignore_peer_addresses, wildcard_addresses, wildcard_peers,
        dscp_v4, dscp_v6,
    }
}

/// Packet sizes, path MTU discovery and fragmentation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MtuConfig {
    /// MTU of a new path in bytes, IP header included, 576 to 65535 (at least 1280 for IPv6). Default:
    /// 1500.
    pub path_mtu: usize,
    /// Path MTU discovery by probes (RFC 8899). A path then starts with its `base_mtu` instead of
    /// `path_mtu`. `None`, the default, disables it.
    pub path_mtu_discovery: Option<PathMtuDiscovery>,
    /// Detects that a path drops large packets without ICMP messages, also without path MTU discovery
    /// (RFC 9260, section 7.3; RFC 8899, section 4.3): if T3-rtx expires with packets above 1200 bytes (1280 on
    /// IPv6), and then a probe of the MTU is lost although a heartbeat is acknowledged, packets have that size, and
    /// sizes up to `path_mtu` are probed; again after 600 s and 3000 packets with data, so that at most 0.1 % of the
    /// packets are probes. Until a packet for data is acknowledged, new data avoids the path. No
    /// probe is sent before a timeout. Default: `true`; `false` in [`AssociationConfig::rfc9260`].
    pub black_hole_detection: bool,
    /// Bytes that a lower layer adds to each packet besides IP and UDP headers, such as the record layer
    /// of DTLS (RFC 8261), at most 256. Default: 0.
    pub lower_overhead: usize,
    /// Limit of the payload of a DATA chunk in bytes, at least 1. `None`, the default, means as much as
    /// the path MTU allows.
    pub max_payload: Option<usize>,
    /// Fragments messages that do not fit into a packet; if `false`, they are refused. A message that was
    /// accepted before the path MTU decreased is fragmented in any case. Default: `true`.
    pub fragment: bool,
}

portable_struct! {
    MtuConfig {
        path_mtu, path_mtu_discovery, black_hole_detection, lower_overhead, max_payload, fragment,
    }
}

/// Send and receive buffers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BufferConfig {
    /// Receive buffer in bytes, 1500 to 4 GiB: payload and [`Self::message_overhead`] of received
    /// chunks. The free part is advertised to the peer (`a_rwnd`). Default: 1 MiB.
    pub receive_buffer: usize,
    /// Size in bytes up to which the receive buffer grows while the user reads more than half of it in a
    /// round trip, less than 4 GiB. `None` means a fixed size. Default: 64 MiB; `None` in
    /// [`AssociationConfig::rfc9260`].
    pub max_receive_buffer: Option<usize>,
    /// Limit of DATA chunks in the receive buffer, of any size, at least 1. Default: 65,536.
    pub receive_buffer_chunks: usize,
    /// Memory of a DATA chunk in the receive buffer besides its payload, in bytes. Default: 128.
    pub message_overhead: usize,
    /// Send buffer in bytes, at least 1: messages that are queued or not yet acknowledged. A larger
    /// message is accepted while the buffer is empty. Default: 1 MiB.
    pub send_buffer: usize,
    /// Size in bytes up to which the send buffer grows to hold two congestion windows. `None` means a
    /// fixed size. Default: 64 MiB; `None` in [`AssociationConfig::rfc9260`].
    pub max_send_buffer: Option<usize>,
    /// Limit of messages in the send buffer, at least 1. Default: 65,536.
    pub send_buffer_messages: usize,
}

portable_struct! {
    BufferConfig {
        receive_buffer, max_receive_buffer, receive_buffer_chunks, message_overhead, send_buffer,
        max_send_buffer, send_buffer_messages,
    }
}

/// Streams, their scheduler, and reconfiguration by the peer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StreamConfig {
    /// Outbound streams requested in the set-up, 1 to 65535. Default: 10.
    pub outbound_streams: u16,
    /// Limit of inbound streams, 1 to 65535. Default: 65535.
    ///
    /// Streams take memory when they are used: 184 bytes for 64 streams with DATA, 312 with I-DATA and
    /// twice that if the peer abandons unordered messages on them. Beyond the first 64 streams this
    /// reduces the advertised window, by half of the receive buffer at most. All 65,535 streams take
    /// 188 KB, 319 KB or 638 KB, besides [`BufferConfig::receive_buffer`].
    pub max_inbound_streams: u16,
    /// Limit of outbound streams if the peer requests more of them (RFC 6525, section 5.2.6), 1 to 65535.
    /// Default: 65535.
    pub max_outbound_streams: u16,
    /// Stream scheduler (RFC 8260, section 3). Default: [`StreamScheduler::FirstCome`].
    pub scheduler: StreamScheduler,
    /// Reconfigurations that are granted to the peer if that extension is in force (RFC 6525).
    pub grants: Grants,
}

portable_struct! {
    StreamConfig {
        outbound_streams, max_inbound_streams, max_outbound_streams, scheduler, grants,
    }
}

/// Transmission of new data (RFC 9260, sections 6.1 and 7.2.1).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransmissionConfig {
    /// Max.Burst: limit of packets of new data sent per received SACK, at least 1. A SACK that covers n
    /// packets counts as n/2 SACKs. Default: 10; 4 in [`AssociationConfig::rfc9260`].
    pub max_burst: u32,
    /// Limit L of the growth of cwnd in slow start, in PMDCS per SACK, at least 1 (RFC 9260,
    /// section 7.2.1). Default: 1.
    pub slow_start_limit: u32,
    /// Delays small packets while data is outstanding (Nagle's algorithm). Default: `true`.
    pub nagle: bool,
}

portable_struct! { TransmissionConfig { max_burst, slow_start_limit, nagle } }

/// Authentication and protection of packets.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SecurityConfig {
    /// Authentication of chunks (RFC 4895): algorithms, chunk types and keys.
    pub authentication: AuthenticationConfig,
    /// Offers and accepts dynamic addresses without authentication. An attacker who guesses the
    /// verification tag can then redirect the association (RFC 5061, section 6). Default: `false`.
    pub dynamic_addresses_without_authentication: bool,
    /// Lower layer of the association. It determines whether [`Extensions::zero_checksum`] can be
    /// offered.
    pub lower_layer: LowerLayer,
    /// Protection of chunks that is offered to peers (see [`protection`](crate::protection)). `None`, the default,
    /// offers none.
    pub protection: Option<Arc<dyn ChunkProtectionOffer>>,
}

portable_struct! {
    SecurityConfig {
        authentication, dynamic_addresses_without_authentication, lower_layer, protection,
    }
}

/// Algorithms in which papers and implementations differ, and deviations from RFC 9260 for research.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResearchConfig {
    /// Congestion control, loss detection, and routes of SACKs and retransmissions.
    pub policies: Policies,
    /// Windows of the peer that are too small to be used. Default: [`SwsAvoidance::Packets`].
    pub sender_sws_avoidance: SwsAvoidance,
    /// Windows that are too small to be advertised. Default: [`SwsAvoidance::Packets`].
    pub receiver_sws_avoidance: SwsAvoidance,
    /// Memory in bytes that the peer needs for a DATA chunk beside its payload. Each chunk in flight reduces the
    /// tracked window of the peer by it (paper `overhead`, section 4.4). Default: 0.
    pub peer_chunk_overhead: usize,
}

portable_struct! {
    ResearchConfig {
        policies, sender_sws_avoidance, receiver_sws_avoidance, peer_chunk_overhead,
    }
}

impl Default for AssociationConfig {
    fn default() -> Self {
        Self::modern()
    }
}

impl Default for TimerConfig {
    fn default() -> Self {
        Self {
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_secs(1),
            rto_max: Duration::from_secs(60),
            sack_delay: Duration::from_millis(200),
            sack_frequency: 2,
            valid_cookie_life: Duration::from_secs(60),
            max_cookie_life_increment: Duration::from_secs(60),
            max_init_retransmits: 8,
            max_init_timeout: None,
            shutdown_guard: None,
            no_progress_after: Some(20),
        }
    }
}

impl Default for PathConfig {
    fn default() -> Self {
        Self {
            max_paths: 16,
            association_max_retrans: 10,
            path_max_retrans: 5,
            potentially_failed_max_retrans: Some(0),
            primary_switchover_max_retrans: None,
            expose_potentially_failed: true,
            heartbeat: true,
            hb_interval: Duration::from_secs(30),
            hb_max_burst: 1,
            monitor_pairs: false,
            ignore_peer_addresses: false,
            wildcard_addresses: false,
            wildcard_peers: false,
            dscp_v4: 0,
            dscp_v6: 0,
        }
    }
}

impl Default for MtuConfig {
    fn default() -> Self {
        Self {
            path_mtu: 1500,
            path_mtu_discovery: None,
            black_hole_detection: true,
            lower_overhead: 0,
            max_payload: None,
            fragment: true,
        }
    }
}

impl Default for BufferConfig {
    fn default() -> Self {
        Self {
            receive_buffer: 1 << 20,
            max_receive_buffer: Some(64 << 20),
            receive_buffer_chunks: 1 << 16,
            message_overhead: 128,
            send_buffer: 1 << 20,
            max_send_buffer: Some(64 << 20),
            send_buffer_messages: 1 << 16,
        }
    }
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            outbound_streams: 10,
            max_inbound_streams: u16::MAX,
            max_outbound_streams: u16::MAX,
            scheduler: StreamScheduler::FirstCome,
            grants: Grants::default(),
        }
    }
}

impl Default for TransmissionConfig {
    fn default() -> Self {
        Self {
            max_burst: 10,
            slow_start_limit: 1,
            nagle: true,
        }
    }
}

impl Default for ResearchConfig {
    fn default() -> Self {
        Self {
            policies: Policies::modern(),
            sender_sws_avoidance: SwsAvoidance::Packets,
            receiver_sws_avoidance: SwsAvoidance::Packets,
            peer_chunk_overhead: 0,
        }
    }
}

impl AssociationConfig {
    /// Returns the recommendations of RFC 9260, section 16, without extensions.
    pub fn rfc9260() -> Self {
        Self {
            timers: TimerConfig::default(),
            paths: PathConfig {
                potentially_failed_max_retrans: None,
                ..PathConfig::default()
            },
            mtu: MtuConfig {
                black_hole_detection: false,
                ..MtuConfig::default()
            },
            buffers: BufferConfig {
                max_receive_buffer: None,
                max_send_buffer: None,
                ..BufferConfig::default()
            },
            streams: StreamConfig::default(),
            transmission: TransmissionConfig {
                max_burst: 4,
                ..TransmissionConfig::default()
            },
            extensions: Extensions::NONE,
            security: SecurityConfig::default(),
            adaptation_layer: None,
            research: ResearchConfig {
                policies: Policies::default(),
                ..ResearchConfig::default()
            },
        }
    }

    /// Returns the recommended configuration, which is also the [`Default`]: [`Policies::modern`],
    /// quick failover (RFC 7829), detection of black holes for large packets, buffers that grow with the transfer up to 64 MiB, bursts of up to ten
    /// packets, and the extensions without cost. Everything else is as in [`Self::rfc9260`].
    pub fn modern() -> Self {
        Self {
            paths: PathConfig::default(),
            mtu: MtuConfig::default(),
            buffers: BufferConfig::default(),
            transmission: TransmissionConfig::default(),
            extensions: Extensions {
                partial_reliability: true,
                interleaved_partial_reliability: true,
                nr_sack: true,
                zero_checksum: true,
                ecn: true,
                reconfiguration: true,
                ..Extensions::NONE
            },
            research: ResearchConfig::default(),
            ..Self::rfc9260()
        }
    }

    /// Returns the configuration with changed values.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Returns whether associations are found by their verification tags alone.
    pub(crate) fn finds_by_tag(&self) -> bool {
        self.paths.wildcard_addresses || self.paths.wildcard_peers
    }

    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// Returns the first parameter that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        require(
            self.timers.rto_min <= self.timers.rto_max,
            "rto_min: must not exceed rto_max",
        )?;
        require(
            self.timers.rto_initial <= self.timers.rto_max,
            "rto_initial: must not exceed rto_max",
        )?;
        require(
            !self.timers.rto_initial.is_zero() && !self.timers.rto_max.is_zero(),
            "rto_initial and rto_max: must not be zero",
        )?;
        require(
            self.transmission.max_burst >= 1,
            "max_burst: must be at least 1",
        )?;
        require(
            self.transmission.slow_start_limit >= 1,
            "slow_start_limit: must be at least 1",
        )?;
        require(
            self.timers.sack_delay <= Duration::from_millis(500),
            "sack_delay: must not exceed 500 ms",
        )?;
        require(
            self.timers.sack_frequency >= 1,
            "sack_frequency: must be at least 1",
        )?;
        require(
            self.streams.outbound_streams >= 1,
            "outbound_streams: must be 1 to 65535",
        )?;
        require(
            self.streams.max_inbound_streams >= 1,
            "max_inbound_streams: must be 1 to 65535",
        )?;
        require(
            self.buffers.receive_buffer >= 1500
                && u32::try_from(self.buffers.receive_buffer).is_ok(),
            "receive_buffer: must be 1500 bytes to 4 GiB",
        )?;
        require(
            self.buffers
                .max_receive_buffer
                .is_none_or(|max| u32::try_from(max).is_ok()),
            "max_receive_buffer: must be less than 4 GiB",
        )?;
        require(
            self.buffers.receive_buffer_chunks >= 1,
            "receive_buffer_chunks: must be at least 1",
        )?;
        require(
            self.buffers.send_buffer >= 1 && self.buffers.send_buffer_messages >= 1,
            "send_buffer: must hold at least one message",
        )?;
        require(
            self.mtu.path_mtu >= 576 && self.mtu.path_mtu <= 65_535,
            "path_mtu: must be 576 to 65535",
        )?;
        require(
            self.mtu.lower_overhead <= 256,
            "lower_overhead: must not exceed 256",
        )?;
        require(
            self.mtu.max_payload.is_none_or(|p| p >= 1),
            "max_payload: must be at least 1",
        )?;
        require(
            self.paths.max_paths >= 1 && self.paths.max_paths <= 255,
            "max_paths: must be 1 to 255",
        )?;
        require(
            self.streams.max_outbound_streams >= 1,
            "max_outbound_streams: must be 1 to 65535",
        )?;
        require(
            self.paths.hb_max_burst >= 1,
            "hb_max_burst: must be at least 1",
        )?;
        require(
            self.research.policies.missing_reports >= 1,
            "missing_reports: must be at least 1",
        )?;
        self.security
            .authentication
            .fault()
            .map_or(Ok(()), |fault| Err(ConfigError(fault)))?;
        self.validate_paths()?;
        self.mtu
            .path_mtu_discovery
            .map_or(Ok(()), |discovery| discovery.validate())?;
        self.validate_protection()
    }

    fn validate_paths(&self) -> Result<(), ConfigError> {
        PathThresholds::of(self).validate()?;
        self.paths.validate_dscps()
    }

    fn validate_protection(&self) -> Result<(), ConfigError> {
        let Some(offer) = &self.security.protection else {
            return Ok(());
        };
        if offer.overhead() > MAX_OVERHEAD {
            let fault = "protection: the offer's overhead() must not exceed 200 bytes";
            return Err(ConfigError(fault));
        }
        if offer.value().len() > MAX_OFFER {
            let fault = "protection: the offer's value() must not exceed 64 bytes";
            return Err(ConfigError(fault));
        }
        Ok(())
    }

    /// Returns the extensions that are offered. Dynamic addresses need authentication unless it is waived
    /// (RFC 5061, section 6), I-FORWARD-TSN needs I-DATA, and a zero checksum needs a lower layer that
    /// detects errors (RFC 9653, section 5.1).
    pub(crate) fn offered(&self) -> Extensions {
        let authenticated = self.extensions.authentication
            || self.security.dynamic_addresses_without_authentication;
        Extensions {
            dynamic_addresses: self.extensions.dynamic_addresses && authenticated,
            interleaved_partial_reliability: self.extensions.interleaved_partial_reliability
                && self.extensions.interleaving,
            zero_checksum: self.extensions.zero_checksum
                && self.security.lower_layer.error_detection().is_some(),
            ..self.extensions
        }
    }

    /// Writes the parameter of the protection that is offered.
    pub(crate) fn write_protection(&self, parameters: &mut ParameterWriter<'_>) {
        if let Some(offer) = &self.security.protection {
            // `validate` refuses longer values.
            let value = offer.value();
            parameters.raw(offer.parameter_type(), &value[..value.len().min(MAX_OFFER)]);
        }
    }

    /// Returns the duration of T5-shutdown-guard.
    pub(crate) fn shutdown_guard(&self) -> Duration {
        self.timers
            .shutdown_guard
            .unwrap_or_else(|| self.timers.rto_max.saturating_mul(5))
    }
}

/// Returns this fault of the configuration unless the condition is met.
fn require(condition: bool, fault: &'static str) -> Result<(), ConfigError> {
    condition.then_some(()).ok_or(ConfigError(fault))
}

/// Parameter that is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigError(pub(crate) &'static str);

impl ConfigError {
    /// Name of the parameter, or of several with "and" between them.
    pub fn field(&self) -> &'static str {
        self.0.split_once(": ").map_or("", |(field, _)| field)
    }

    /// Condition that the parameter does not meet.
    pub fn reason(&self) -> &'static str {
        self.0.split_once(": ").map_or(self.0, |(_, reason)| reason)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration: {}", self.0)
    }
}

impl core::error::Error for ConfigError {}

/// Parts of a configuration that are code, which the export of an endpoint ([`Endpoint::export`](crate::Endpoint::export)) refers to
/// but does not contain.
#[derive(Debug)]
pub struct ImportConfig {
    /// Source address selection of the endpoint. Default: [`MatchingAddress`].
    pub source_selection: Box<dyn SourceSelection>,
    /// Algorithms of congestion control besides [`cc::algorithms`](crate::cc::algorithms), found by their names. Default: none.
    pub algorithms: Vec<Arc<dyn Algorithm>>,
    /// Chunk protections, found by the type of their parameter. Default: none.
    pub protections: Vec<Arc<dyn ChunkProtectionOffer>>,
}

impl Default for ImportConfig {
    fn default() -> Self {
        Self {
            source_selection: Box::new(MatchingAddress),
            algorithms: Vec::new(),
            protections: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9260_values_are_valid() {
        let config = AssociationConfig::rfc9260();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(
            (
                config.paths.association_max_retrans,
                config.paths.path_max_retrans,
                config.timers.max_init_retransmits
            ),
            (10, 5, 8)
        );
        assert_eq!(
            (config.transmission.max_burst, config.paths.hb_max_burst),
            (4, 1)
        );
    }

    #[test]
    fn recommended_values_are_valid() {
        let config = AssociationConfig::modern();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(config.research.policies.congestion.name(), "cubic");
        // RFC 7829, section 3.
        assert_eq!(config.paths.potentially_failed_max_retrans, Some(0));
        let rfc9260 = AssociationConfig::rfc9260().paths;
        assert_eq!(rfc9260.potentially_failed_max_retrans, None);
        let too_much = config.with(|c| c.buffers.max_receive_buffer = Some(1 << 32));
        assert!(too_much.validate().is_err());
        let mut no_reports = AssociationConfig::modern();
        no_reports.research.policies.missing_reports = 0;
        let error = no_reports.validate().unwrap_err();
        assert!(error.0.starts_with("missing_reports"), "{error}");
    }

    #[test]
    fn error_names_the_parameter() {
        let config =
            AssociationConfig::rfc9260().with(|c| c.timers.sack_delay = Duration::from_millis(501));
        assert_eq!(
            alloc::format!("{}", config.validate().unwrap_err()),
            "configuration: sack_delay: must not exceed 500 ms"
        );
        assert!(
            EndpointConfig::new(0, Vec::new(), [0; 32])
                .validate()
                .is_err()
        );
    }
}
