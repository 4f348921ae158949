//! Parameters of associations (RFC 9260, section 16).
//!
//! This module is below the parts of the core, which read the parameters that concern them. It assembles its own groups with
//! the parameters of authentication (`auth`), the algorithms of congestion control (`cc`) and the rules of
//! [`research`](crate::research). The parameters of an endpoint are in `endpoint::config`.

#[cfg(feature = "serde")]
mod duration;
mod mtu;
mod paths;
mod security;
mod streams;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use carrick_wire::{ParameterWriter, Tsn};

use crate::error::ConfigError;
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::extensions::Extensions;
use crate::protection::{ChunkProtectionOffer, MAX_OFFER, MAX_OVERHEAD};
use crate::research::{Policies, SwsAvoidance};

pub(crate) use mtu::BASE_MTU;
pub use mtu::{MtuConfig, PathMtuDiscovery};
pub(crate) use paths::MAX_DSCP;
pub use paths::{PathConfig, PathThresholds};
pub use security::{LowerLayer, SecurityConfig};
pub use streams::{Grants, StreamConfig, StreamScheduler};

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
///
/// With the feature `serde` it is read from configuration files: the names of the fields in kebab case, and times with
/// their unit, such as `"250ms"`. It is written in the same form, but for [`Extensions`], which have the names of statistics. What a file does not have is as recommended; keys of authentication,
/// [`SecurityConfig::protection`] and [`Self::research`] are set by the program.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields, rename_all = "kebab-case")
)]
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
    #[cfg_attr(feature = "serde", serde(skip))]
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
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields, rename_all = "kebab-case")
)]
pub struct TimerConfig {
    /// RTO.Initial: RTO before the first RTT measurement, more than zero. Default: 1 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub rto_initial: Duration,
    /// RTO.Min, at most `rto_max`. Default: 1 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub rto_min: Duration,
    /// RTO.Max, more than zero. Default: 60 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub rto_max: Duration,
    /// SACK.Delay: longest delay of a SACK, at most 500 ms. Default: 200 ms.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub sack_delay: Duration,
    /// Number of packets with DATA after which a SACK is sent without delay, at least 1. Default: 2.
    pub sack_frequency: u32,
    /// Valid.Cookie.Life: lifespan of State Cookies. Default: 60 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub valid_cookie_life: Duration,
    /// Limit of the extension of the lifespan that a peer's Cookie Preservative parameter may request.
    /// Default: 60 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub max_cookie_life_increment: Duration,
    /// Max.Init.Retransmits: retransmissions of INIT or COOKIE ECHO before set-up fails. Default: 8.
    pub max_init_retransmits: u32,
    /// Limit of the timeout of INIT and COOKIE ECHO when it is doubled, besides RTO.Max (`SCTP_INITMSG` of
    /// RFC 6458, section 8.1.3). Default: `None`.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration::optional"))]
    pub max_init_timeout: Option<Duration>,
    /// T5-shutdown-guard: longest duration of a shutdown. `None`, the default, means five times RTO.Max
    /// (RFC 9260, section 9.2).
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration::optional"))]
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

/// Send and receive buffers.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields, rename_all = "kebab-case")
)]
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

/// Transmission of new data (RFC 9260, sections 6.1 and 7.2.1).
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields, rename_all = "kebab-case")
)]
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
            extensions: Extensions::RECOMMENDED,
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
        PathThresholds::of(&self.paths).validate()?;
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
        if offer.value(0).len() > MAX_OFFER {
            let fault = "protection: the offer's value() must not exceed 64 bytes";
            return Err(ConfigError(fault));
        }
        Ok(())
    }

    /// Returns the extensions that are offered. Dynamic addresses need authentication, by AUTH or by a chunk
    /// protection that is required, which exclude each other, unless it is waived (RFC 5061, section 6). I-FORWARD-TSN needs I-DATA, and a zero checksum needs a lower layer that
    /// detects errors (RFC 9653, section 5.1).
    pub(crate) fn offered(&self) -> Extensions {
        let protection = self.security.protection.as_deref();
        let protected = protection.is_some_and(ChunkProtectionOffer::is_required);
        // A protection that is not required does not count: a peer without it would refuse addresses without AUTH.
        let authenticated = self.extensions.authentication
            || protected
            || self.security.dynamic_addresses_without_authentication;
        Extensions {
            authentication: self.extensions.authentication && !protected,
            dynamic_addresses: self.extensions.dynamic_addresses && authenticated,
            interleaved_partial_reliability: self.extensions.interleaved_partial_reliability
                && self.extensions.interleaving,
            zero_checksum: self.extensions.zero_checksum
                && self.security.lower_layer.error_detection().is_some(),
            ..self.extensions
        }
    }

    /// Writes the parameter of the protection that is offered; `initial_tsn` of this side is the random number of
    /// the association for it.
    pub(crate) fn write_protection(&self, initial_tsn: Tsn, parameters: &mut ParameterWriter<'_>) {
        if let Some(offer) = &self.security.protection {
            // `validate` refuses longer values.
            let value = offer.value(initial_tsn.value());
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

/// Parameters that associations share: written once, then referred to by their number. The parts that are read behind them
/// continue with the algorithm and the protection in them.
impl Portable for Arc<AssociationConfig> {
    fn write(&self, out: &mut ExportWriter) {
        let mut known: Vec<Self> = out.shared.take();
        let number = known.iter().position(|known| Self::ptr_eq(known, self));
        number.unwrap_or(known.len()).write(out);
        if number.is_none() {
            known.push(Self::clone(self));
            AssociationConfig::write(self, out);
        }
        out.shared.set(known);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let mut known: Vec<Self> = input.shared.take();
        let number = usize::read(input)?;
        if number == known.len() {
            let config = AssociationConfig::read(input)?;
            config.validate().map_err(ImportError::InvalidConfig)?;
            known.push(Self::new(config));
        }
        let malformed = ImportError::Malformed("number of a configuration");
        let config = known.get(number).cloned().ok_or(malformed)?;
        input.shared.set(known);
        let algorithm = Arc::clone(&config.research.policies.congestion);
        input.shared.set(algorithm);
        input.shared.set(config.security.protection.clone());
        Ok(config)
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
    }
}
