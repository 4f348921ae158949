//! Protocol parameters (RFC 9260 section 16) and limits of an endpoint and its associations.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use carrick_wire::ParameterWriter;

use crate::association::zero_checksum::LowerLayer;
use crate::auth::AuthenticationConfig;
use crate::extensions::Extensions;
use crate::path::PathThresholds;
use crate::path::mtu_discovery::PathMtuDiscovery;
use crate::policy::Policies;
use crate::protection::{ChunkProtectionOffer, MAX_OFFER, MAX_OVERHEAD};
use crate::reconfig::Grants;
use crate::route::{MatchingAddress, SourceSelection};
use crate::send::scheduler::StreamScheduler;

/// Everything an endpoint is made of.
#[derive(Debug)]
pub struct EndpointConfig {
    /// The SCTP port of this endpoint, 1 to 65535.
    pub port: u16,
    /// The local addresses this endpoint is bound to. INIT and INIT ACK advertise those that the peer
    /// can use: loopback addresses only to a loopback address, link-local ones only to a link-local
    /// or loopback address, and families that the peer supports (RFC 9260 section 5.1.2). If that is
    /// the source address of the packet alone, none is advertised, so that the association works
    /// through address translation; with several, see [`AssociationConfig::wildcard_addresses`].
    pub local_addresses: Vec<IpAddr>,
    /// The seed of all randomness: tags, initial TSNs, nonces, secrets, jitter. On a real network
    /// it must come from the operating system's generator.
    pub seed: [u8; 32],
    /// Whether INITs of peers are answered; an endpoint that only connects sets this to `false`
    /// and answers them with ABORT.
    pub accept: bool,
    /// Most associations at a time; further ones are refused with "Out of Resource".
    pub max_associations: usize,
    /// Most associations at a time that peers have set up from one source, an IPv4 address or the /64
    /// network of an IPv6 address; further ones are refused with "Out of Resource". The source is the
    /// address that returned the cookie. `None` for an eighth of `max_associations`, at least 16: one
    /// source leaves room for others. To be raised where many peers are behind one address, such as a
    /// translator or a gateway. Associations that this side sets up are not counted.
    pub max_associations_per_source: Option<usize>,
    /// Bytes that received data of all associations and the state of their inbound streams may take
    /// together, counted as for [`AssociationConfig::receive_buffer`]. A source, see `max_associations_per_source`, may take as
    /// much of it as is still free, so that one leaves half of it to others. An association may always
    /// hold 4 KiB of either. What comes beyond is dropped and not acknowledged, and the window that is advertised
    /// closes before.
    pub receive_memory: usize,
    /// Lifetime of a cookie secret; the one before stays valid for as long as cookies live.
    pub secret_lifetime: Duration,
    /// Parameters for associations that peers set up.
    pub association: AssociationConfig,
    /// How a local address is chosen for a peer address.
    pub source_selection: Box<dyn SourceSelection>,
}

impl EndpointConfig {
    /// The defaults of RFC 9260 for an endpoint on `port` with these local addresses.
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
            association: AssociationConfig::default(),
            source_selection: Box::new(MatchingAddress),
        }
    }

    /// Returns the limit of associations that peers at one source may set up.
    pub(crate) fn per_source(&self) -> usize {
        let fraction = (self.max_associations / 8).max(16);
        self.max_associations_per_source.unwrap_or(fraction)
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first parameter that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.port == 0 {
            return Err(ConfigError("port: must be 1 to 65535"));
        }
        self.association.validate()
    }
}

/// Parameters of one association. The defaults are RFC 9260's recommendations.
#[derive(Clone, Debug)]
pub struct AssociationConfig {
    /// RTO.Initial.
    pub rto_initial: Duration,
    /// RTO.Min.
    pub rto_min: Duration,
    /// RTO.Max.
    pub rto_max: Duration,
    /// Max.Burst: packets of new data that one SACK may release. A SACK that covers n packets
    /// counts as the n/2 SACKs that it stands for.
    pub max_burst: u32,
    /// L of section 7.2.1: the growth of cwnd in slow start, in PMDCS per SACK, at most.
    pub slow_start_limit: u32,
    /// Valid.Cookie.Life.
    pub valid_cookie_life: Duration,
    /// Most that a peer's Cookie Preservative may add to the cookie's life.
    pub max_cookie_life_increment: Duration,
    /// Association.Max.Retrans: consecutive unanswered transmissions before the peer counts as lost.
    pub association_max_retrans: u32,
    /// Path.Max.Retrans: the same for one path before it becomes inactive.
    pub path_max_retrans: u32,
    /// PotentiallyFailed.Max.Retrans of RFC 7829: with more consecutive errors, data leaves a path,
    /// 0 after the first. `None` for the failover of RFC 9260.
    pub potentially_failed_max_retrans: Option<u32>,
    /// Primary.Switchover.Max.Retrans of RFC 7829: with more consecutive errors, the primary is
    /// replaced for good. `None` to return to it when it works again.
    pub primary_switchover_max_retrans: Option<u32>,
    /// Whether events and statistics show that paths are potentially failed.
    pub expose_potentially_failed: bool,
    /// Max.Init.Retransmits.
    pub max_init_retransmits: u32,
    /// Heartbeats are sent on idle paths.
    pub heartbeat: bool,
    /// HB.interval; the path's RTO (with jitter) is added to it.
    pub hb_interval: Duration,
    /// HB.Max.Burst: heartbeats per RTO for the verification of addresses.
    pub hb_max_burst: u32,
    /// SACK.Delay, at most 500 ms.
    pub sack_delay: Duration,
    /// A SACK is sent at least for every this many packets.
    pub sack_frequency: u32,
    /// T5-shutdown-guard; `None` for the recommended five times RTO.Max.
    pub shutdown_guard: Option<Duration>,
    /// Outbound streams to ask for, 1 to 65535.
    pub outbound_streams: u16,
    /// How outbound streams share the association (RFC 8260 section 3).
    pub scheduler: StreamScheduler,
    /// Inbound streams to accept at most, 1 to 65535.
    ///
    /// The state of streams takes memory when they are used: 184 bytes for 64 streams with DATA, 312
    /// with I-DATA and as many again if the peer abandons unordered messages on them. Beyond the first
    /// 64 streams it makes the advertised window smaller, by half of the receive buffer at most. All
    /// 65,535 streams take 188 KB, 319 KB or 638 KB, besides [`Self::receive_buffer`].
    pub max_inbound_streams: u16,
    /// Outbound streams at most where the peer asks for more of them (RFC 6525 section 5.2.6), 1 to
    /// 65535.
    pub max_outbound_streams: u16,
    /// Receive buffer in bytes, at least 1500: payload and what each message costs besides
    /// (see [`AssociationConfig::message_overhead`]). The peer is told what is left of it.
    pub receive_buffer: usize,
    /// Where the receive buffer may grow to, if the user takes more in a round trip than half of it;
    /// `None` for a buffer that stays as it is.
    pub max_receive_buffer: Option<usize>,
    /// DATA chunks in the receive buffer at most, whatever their size.
    pub receive_buffer_chunks: usize,
    /// Memory that a DATA chunk in the receive buffer costs besides its payload, in bytes.
    pub message_overhead: usize,
    /// Send buffer in bytes: messages that wait or are not acknowledged. A message larger than it
    /// is taken when the buffer is empty.
    pub send_buffer: usize,
    /// Where the send buffer may grow to, by two congestion windows; `None` for a buffer that stays as
    /// it is.
    pub max_send_buffer: Option<usize>,
    /// Messages in the send buffer at most.
    pub send_buffer_messages: usize,
    /// The MTU of a new path in bytes, IP header included. At least 576 for IPv4, 1280 for IPv6.
    pub path_mtu: usize,
    /// How the largest packet that a path takes is looked for (RFC 8899). A path then begins with
    /// `base_mtu` instead of `path_mtu`. `None` for no search.
    pub path_mtu_discovery: Option<PathMtuDiscovery>,
    /// Messages that don't fit into a packet are fragmented; otherwise they are refused. One that
    /// was taken before the path MTU shrank is fragmented in any case.
    pub fragment: bool,
    /// Bytes of each packet, below SCTP, besides IP and UDP headers: what a lower layer that protects
    /// packets adds (RFC 8261). At most 256.
    pub lower_overhead: usize,
    /// Payload of a DATA chunk at most, in bytes, if smaller than what the path MTU allows.
    pub max_payload: Option<usize>,
    /// Small packets wait while data is outstanding (Nagle's algorithm).
    pub nagle: bool,
    /// The sender avoids the silly window syndrome (section 6.1 A).
    pub sender_sws_avoidance: bool,
    /// The receiver avoids the silly window syndrome (section 6.2).
    pub receiver_sws_avoidance: bool,
    /// Peer addresses at most; further ones in INIT or INIT ACK are ignored.
    pub max_paths: usize,
    /// Addresses that peers tell in INIT, INIT ACK and cookies mean nothing: an association is known at
    /// the address that its set-up came from, and nowhere else. For a lower layer whose connections
    /// have no addresses of their own (RFC 8261 section 6.1).
    pub ignore_peer_addresses: bool,
    /// A path for every pair of local and peer address, each monitored, instead of one per
    /// peer address.
    pub monitor_pairs: bool,
    /// Whether [`crate::Event::NoProgress`] is told, and after how many RTOs without progress.
    pub no_progress_after: Option<u32>,
    /// What carries the packets of the association. It says whether [`Extensions::zero_checksum`] can
    /// be offered.
    pub lower_layer: LowerLayer,
    /// The extensions that are offered to peers; each is in force when both sides offer it.
    pub extensions: Extensions,
    /// Which re-configurations are granted to the peer, where that extension is in force.
    pub grants: Grants,
    /// What is authenticated, and with which keys.
    pub authentication: AuthenticationConfig,
    /// Dynamic addresses are offered to, and taken from, peers that can't authenticate. Whoever can
    /// guess the verification tag can then move the association (RFC 5061 section 6).
    pub dynamic_addresses_without_authentication: bool,
    /// No packet holds an address of this side, as is wanted behind a NAT, whose addresses this side
    /// doesn't know (RFC 6951 section 5.7). An association is set up from one address. Each further
    /// one is told by an ASCONF that leaves from it, where dynamic addresses are in force: the source
    /// address that arrives stands for it (RFC 5061 section 4.2.1). Addresses that are gone are
    /// deleted, all at once, when one at most stays (section 4.2.2); of several that stay, the peer
    /// finds out by its heartbeats which work. The source address is not authenticated: whoever is
    /// on the path can change it (section 6). The peer needs [`Self::wildcard_peers`].
    ///
    /// Until the first such ASCONF is answered the peer knows one address: an association whose
    /// address goes before ends by its limits, and one that is set up again from another address,
    /// or by both sides at once between different ones, is another association to the peer
    /// (RFC 9260 section 5.2.2).
    pub wildcard_addresses: bool,
    /// An association is also found by its verification tag, where an ASCONF comes from an address
    /// that is not known and names none. [`Self::wildcard_addresses`] has this in it. Costs some
    /// memory for each association.
    pub wildcard_peers: bool,
    /// What is told the peer of what is above SCTP, a number that means nothing to SCTP (Adaptation
    /// Layer Indication, RFC 5061 section 4.2.6). The peer's is in
    /// [`crate::AssociationStats::peer_adaptation_layer`].
    pub adaptation_layer: Option<u32>,
    /// The protection of chunks that is offered to peers (see [`crate::protection`]).
    pub protection: Option<Arc<dyn ChunkProtectionOffer>>,
    /// Records every transmission and acknowledgement for [`crate::Endpoint::poll_trace`].
    pub trace: bool,
    /// The choices that papers and implementations differ in.
    pub policies: Policies,
}

impl Default for AssociationConfig {
    fn default() -> Self {
        Self {
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_secs(1),
            rto_max: Duration::from_secs(60),
            max_burst: 4,
            slow_start_limit: 1,
            valid_cookie_life: Duration::from_secs(60),
            max_cookie_life_increment: Duration::from_secs(60),
            association_max_retrans: 10,
            path_max_retrans: 5,
            potentially_failed_max_retrans: None,
            primary_switchover_max_retrans: None,
            expose_potentially_failed: true,
            max_init_retransmits: 8,
            heartbeat: true,
            hb_interval: Duration::from_secs(30),
            hb_max_burst: 1,
            sack_delay: Duration::from_millis(200),
            sack_frequency: 2,
            shutdown_guard: None,
            outbound_streams: 10,
            scheduler: StreamScheduler::FirstCome,
            max_inbound_streams: u16::MAX,
            max_outbound_streams: u16::MAX,
            receive_buffer: 1 << 20,
            max_receive_buffer: None,
            receive_buffer_chunks: 1 << 16,
            message_overhead: 128,
            send_buffer: 1 << 20,
            max_send_buffer: None,
            send_buffer_messages: 1 << 16,
            path_mtu: 1500,
            path_mtu_discovery: None,
            fragment: true,
            lower_overhead: 0,
            max_payload: None,
            nagle: true,
            sender_sws_avoidance: true,
            receiver_sws_avoidance: true,
            max_paths: 16,
            ignore_peer_addresses: false,
            monitor_pairs: false,
            no_progress_after: Some(20),
            lower_layer: LowerLayer::Plain,
            extensions: Extensions::default(),
            grants: Grants::default(),
            authentication: AuthenticationConfig::default(),
            dynamic_addresses_without_authentication: false,
            wildcard_addresses: false,
            wildcard_peers: false,
            adaptation_layer: None,
            protection: None,
            trace: false,
            policies: Policies::default(),
        }
    }
}

impl AssociationConfig {
    /// Whether associations are found by their verification tags.
    pub(crate) fn finds_by_tag(&self) -> bool {
        self.wildcard_addresses || self.wildcard_peers
    }

    /// What programs on the networks of today want: [`Policies::modern`], buffers that start as by
    /// default and grow with the transfer to 64 MiB, bursts of up to ten packets, and the extensions
    /// offered that cost nothing. Everything else is as RFC 9260 recommends.
    pub fn modern() -> Self {
        Self {
            max_receive_buffer: Some(64 << 20),
            max_send_buffer: Some(64 << 20),
            max_burst: 10,
            extensions: Extensions {
                partial_reliability: true,
                interleaved_partial_reliability: true,
                nr_sack: true,
                zero_checksum: true,
                ecn: true,
                reconfiguration: true,
                ..Extensions::NONE
            },
            policies: Policies::modern(),
            ..Self::default()
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first parameter that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let checks = [
            (
                self.rto_min <= self.rto_max,
                "rto_min: must not exceed rto_max",
            ),
            (
                self.rto_initial <= self.rto_max,
                "rto_initial: must not exceed rto_max",
            ),
            (
                !self.rto_initial.is_zero() && !self.rto_max.is_zero(),
                "rto_initial and rto_max: must not be zero",
            ),
            (self.max_burst >= 1, "max_burst: must be at least 1"),
            (
                self.slow_start_limit >= 1,
                "slow_start_limit: must be at least 1",
            ),
            (
                self.sack_delay <= Duration::from_millis(500),
                "sack_delay: must not exceed 500 ms",
            ),
            (
                self.sack_frequency >= 1,
                "sack_frequency: must be at least 1",
            ),
            (
                self.outbound_streams >= 1,
                "outbound_streams: must be 1 to 65535",
            ),
            (
                self.max_inbound_streams >= 1,
                "max_inbound_streams: must be 1 to 65535",
            ),
            (
                self.receive_buffer >= 1500 && u32::try_from(self.receive_buffer).is_ok(),
                "receive_buffer: must be 1500 bytes to 4 GiB",
            ),
            (
                self.max_receive_buffer
                    .is_none_or(|max| u32::try_from(max).is_ok()),
                "max_receive_buffer: must be less than 4 GiB",
            ),
            (
                self.receive_buffer_chunks >= 1,
                "receive_buffer_chunks: must be at least 1",
            ),
            (
                self.send_buffer >= 1 && self.send_buffer_messages >= 1,
                "send_buffer: must hold at least one message",
            ),
            (
                self.path_mtu >= 576 && self.path_mtu <= 65_535,
                "path_mtu: must be 576 to 65535",
            ),
            (
                self.lower_overhead <= 256,
                "lower_overhead: must not exceed 256",
            ),
            (
                self.max_payload.is_none_or(|p| p >= 1),
                "max_payload: must be at least 1",
            ),
            (
                self.max_paths >= 1 && self.max_paths <= 255,
                "max_paths: must be 1 to 255",
            ),
            (
                self.max_outbound_streams >= 1,
                "max_outbound_streams: must be 1 to 65535",
            ),
            (self.hb_max_burst >= 1, "hb_max_burst: must be at least 1"),
            (
                self.policies.missing_reports >= 1,
                "missing_reports: must be at least 1",
            ),
        ];
        match checks.iter().find(|(ok, _)| !ok) {
            Some((_, what)) => Err(ConfigError(what)),
            None => self
                .authentication
                .fault()
                .map_or(Ok(()), |f| Err(ConfigError(f)))
                .and_then(|()| PathThresholds::of(self).validate())
                .and_then(|()| {
                    self.path_mtu_discovery
                        .map_or(Ok(()), |discovery| discovery.validate())
                })
                .and_then(|()| self.validate_protection()),
        }
    }

    fn validate_protection(&self) -> Result<(), ConfigError> {
        let Some(offer) = &self.protection else {
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

    /// The extensions that are offered: dynamic addresses need authentication (RFC 5061 section 6),
    /// unless the user does without, I-FORWARD-TSN needs I-DATA, and a checksum of zero a lower layer
    /// that protects packets (RFC 9653 section 5.1).
    pub(crate) fn offered(&self) -> Extensions {
        let authenticated =
            self.extensions.authentication || self.dynamic_addresses_without_authentication;
        Extensions {
            dynamic_addresses: self.extensions.dynamic_addresses && authenticated,
            interleaved_partial_reliability: self.extensions.interleaved_partial_reliability
                && self.extensions.interleaving,
            zero_checksum: self.extensions.zero_checksum
                && self.lower_layer.error_detection().is_some(),
            ..self.extensions
        }
    }

    /// Tells the peer of the protection that is offered.
    pub(crate) fn write_protection(&self, parameters: &mut ParameterWriter<'_>) {
        if let Some(offer) = &self.protection {
            // Longer ones are refused with the configuration.
            let value = offer.value();
            parameters.raw(offer.parameter_type(), &value[..value.len().min(MAX_OFFER)]);
        }
    }

    pub(crate) fn shutdown_guard(&self) -> Duration {
        self.shutdown_guard
            .unwrap_or_else(|| self.rto_max.saturating_mul(5))
    }
}

/// A parameter is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigError(pub(crate) &'static str);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration: {}", self.0)
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_rfcs_and_valid() {
        let config = AssociationConfig::default();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(
            (
                config.association_max_retrans,
                config.path_max_retrans,
                config.max_init_retransmits
            ),
            (10, 5, 8)
        );
        assert_eq!((config.max_burst, config.hb_max_burst), (4, 1));
    }

    #[test]
    fn modern_is_valid_and_bounded() {
        let config = AssociationConfig::modern();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(config.policies.congestion.name(), "cubic");
        let too_much = AssociationConfig {
            max_receive_buffer: Some(1 << 32),
            ..config
        };
        assert!(too_much.validate().is_err());
        let mut no_reports = AssociationConfig::modern();
        no_reports.policies.missing_reports = 0;
        let error = no_reports.validate().unwrap_err();
        assert!(error.0.starts_with("missing_reports"), "{error}");
    }

    #[test]
    fn an_error_names_the_parameter() {
        let config = AssociationConfig {
            sack_delay: Duration::from_millis(501),
            ..Default::default()
        };
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
