//! Changes of protocol parameters while associations exist (SET PROTOCOL PARAMETERS, RFC 9260
//! section 11.1.13; RFC 6458 section 8.1).

use alloc::sync::Arc;
use core::time::Duration;

use super::{AssociationMut, Endpoint};
use crate::config::{AssociationConfig, Grants};
use crate::error::{ConfigError, OperationError};

/// Protocol parameters to be changed; those that are `None` keep their value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ParameterChanges {
    /// RTO.Initial, for paths that become known later.
    pub rto_initial: Option<Duration>,
    /// RTO.Min. A path's RTO follows with its next RTT measurement.
    pub rto_min: Option<Duration>,
    /// RTO.Max. A path's RTO follows with its next RTT measurement or timeout.
    pub rto_max: Option<Duration>,
    /// Association.Max.Retrans.
    pub association_max_retrans: Option<u32>,
    /// HB.interval, for heartbeats scheduled from now on. It replaces those of single paths
    /// ([`AssociationMut::set_heartbeat_interval`]).
    pub hb_interval: Option<Duration>,
    /// DSCP of packets on IPv4, 0 to 63. It replaces those of single paths ([`AssociationMut::set_dscp`]).
    pub dscp_v4: Option<u8>,
    /// DSCP of packets on IPv6, as the one on IPv4.
    pub dscp_v6: Option<u8>,
    /// Delay of SACKs, at most 500 ms. A SACK that is already delayed keeps its deadline.
    pub sack_delay: Option<Duration>,
    /// Packets with DATA per SACK, at least 1.
    pub sack_frequency: Option<u32>,
    /// Nagle algorithm.
    pub nagle: Option<bool>,
    /// Max.Burst, at least 1.
    pub max_burst: Option<u32>,
    /// Limit of the payload of a DATA chunk in bytes, at least 1; `Some(None)` means as much as the path
    /// MTU allows. For messages that are sent from now on.
    pub max_payload: Option<Option<usize>>,
    /// Fragments messages that do not fit into a packet.
    pub fragment: Option<bool>,
    /// Fixed size of the send buffer in bytes, at least 1. Messages beyond a smaller one remain in it.
    pub send_buffer: Option<usize>,
    /// Requests of the peer that are granted (RFC 6525, section 6.3.1), for requests that arrive from now on.
    pub grants: Option<Grants>,
}

impl ParameterChanges {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets RTO.Initial, RTO.Min and RTO.Max (`SCTP_RTOINFO`).
    #[must_use]
    pub fn rto(mut self, initial: Duration, min: Duration, max: Duration) -> Self {
        self.rto_initial = Some(initial);
        self.rto_min = Some(min);
        self.rto_max = Some(max);
        self
    }

    /// Sets Association.Max.Retrans (`SCTP_ASSOCINFO`).
    #[must_use]
    pub fn association_max_retrans(mut self, errors: u32) -> Self {
        self.association_max_retrans = Some(errors);
        self
    }

    /// Sets HB.interval (`SCTP_PEER_ADDR_PARAMS`).
    #[must_use]
    pub fn hb_interval(mut self, interval: Duration) -> Self {
        self.hb_interval = Some(interval);
        self
    }

    /// Sets the DSCP of packets on IPv4 and IPv6 (`SCTP_PEER_ADDR_PARAMS`).
    #[must_use]
    pub fn dscp(mut self, dscp: u8) -> Self {
        self.dscp_v4 = Some(dscp);
        self.dscp_v6 = Some(dscp);
        self
    }

    /// Sets the delay of SACKs and the packets with DATA per SACK (`SCTP_DELAYED_SACK`).
    #[must_use]
    pub fn sack(mut self, delay: Duration, frequency: u32) -> Self {
        self.sack_delay = Some(delay);
        self.sack_frequency = Some(frequency);
        self
    }

    /// Turns the Nagle algorithm on or off (`SCTP_NODELAY` is its negation).
    #[must_use]
    pub fn nagle(mut self, on: bool) -> Self {
        self.nagle = Some(on);
        self
    }

    /// Sets Max.Burst (`SCTP_MAX_BURST`).
    #[must_use]
    pub fn max_burst(mut self, packets: u32) -> Self {
        self.max_burst = Some(packets);
        self
    }

    /// Sets the limit of the payload of a DATA chunk (`SCTP_MAXSEG`).
    #[must_use]
    pub fn max_payload(mut self, bytes: Option<usize>) -> Self {
        self.max_payload = Some(bytes);
        self
    }

    /// Turns fragmentation of messages on or off (`SCTP_DISABLE_FRAGMENTS` is its negation).
    #[must_use]
    pub fn fragment(mut self, on: bool) -> Self {
        self.fragment = Some(on);
        self
    }

    /// Sets a fixed size of the send buffer (`SO_SNDBUF`).
    #[must_use]
    pub fn send_buffer(mut self, bytes: usize) -> Self {
        self.send_buffer = Some(bytes);
        self
    }

    /// Sets the requests of the peer that are granted (`SCTP_ENABLE_STREAM_RESET`).
    #[must_use]
    pub fn grants(mut self, grants: Grants) -> Self {
        self.grants = Some(grants);
        self
    }

    /// Returns a copy of a configuration with these changes, for associations that are set up later.
    ///
    /// # Errors
    /// A parameter would be out of its range.
    pub fn applied(&self, to: &AssociationConfig) -> Result<AssociationConfig, ConfigError> {
        fn set<T: Copy>(parameter: &mut T, change: Option<T>) {
            if let Some(value) = change {
                *parameter = value;
            }
        }
        let mut config = to.clone();
        set(&mut config.timers.rto_initial, self.rto_initial);
        set(&mut config.timers.rto_min, self.rto_min);
        set(&mut config.timers.rto_max, self.rto_max);
        set(
            &mut config.paths.association_max_retrans,
            self.association_max_retrans,
        );
        set(&mut config.paths.hb_interval, self.hb_interval);
        set(&mut config.paths.dscp_v4, self.dscp_v4);
        set(&mut config.paths.dscp_v6, self.dscp_v6);
        set(&mut config.timers.sack_delay, self.sack_delay);
        set(&mut config.timers.sack_frequency, self.sack_frequency);
        set(&mut config.transmission.nagle, self.nagle);
        set(&mut config.transmission.max_burst, self.max_burst);
        set(&mut config.mtu.max_payload, self.max_payload);
        set(&mut config.mtu.fragment, self.fragment);
        set(&mut config.streams.grants, self.grants);
        if let Some(bytes) = self.send_buffer {
            config.buffers.send_buffer = bytes;
            config.buffers.max_send_buffer = None;
        }
        config.validate()?;
        Ok(config)
    }
}

impl AssociationMut<'_> {
    /// Changes parameters: SET PROTOCOL PARAMETERS of RFC 9260, section 11.1.13.
    ///
    /// # Errors
    /// [`OperationError::InvalidConfig`] if a parameter would be out of its range; then none is changed.
    pub fn change_parameters(&mut self, changes: &ParameterChanges) -> Result<(), OperationError> {
        let (association, _) = self.parts()?;
        let config = changes.applied(association.config());
        association.set_config(config.map_err(OperationError::InvalidConfig)?);
        if changes.hb_interval.is_some() {
            association.unset_heartbeat_intervals();
        }
        if changes.dscp_v4.is_some() || changes.dscp_v6.is_some() {
            association.unset_dscps();
        }
        Ok(())
    }
}

impl Endpoint {
    /// Changes parameters of the associations that are set up from now on, by peers or with
    /// [`Self::default_config`]. Existing associations keep theirs.
    ///
    /// # Errors
    /// A parameter would be out of its range; then none is changed.
    pub fn change_default_parameters(
        &mut self,
        changes: &ParameterChanges,
    ) -> Result<(), ConfigError> {
        let config = changes.applied(&self.accepted)?;
        self.accepted = Arc::new(config.clone());
        self.config.association = config;
        Ok(())
    }

    /// Replaces the parameters of the associations that peers initiate from now on. Whether associations
    /// are found by their tags alone ([`PathConfig::wildcard_peers`](crate::PathConfig::wildcard_peers)) stays as the endpoint was created.
    ///
    /// # Errors
    /// A parameter is out of its range; then none is changed.
    pub fn set_default_config(
        &mut self,
        config: impl Into<Arc<AssociationConfig>>,
    ) -> Result<(), ConfigError> {
        let config = config.into();
        config.validate()?;
        self.uses_protection |= config.security.protection.is_some();
        self.config.association = AssociationConfig::clone(&config);
        self.accepted = config;
        Ok(())
    }
}
