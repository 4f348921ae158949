//! Limits in the configuration file.

use std::time::Duration;

use serde::Deserialize;

use super::{ConfigError, value};
use carrick_simco::middlebox::Limits;

/// Limits. Missing ones have the value of [`Limits::default`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LimitsEntry {
    /// Maximum number of rules without PDR.
    pub rules: Option<usize>,
    /// Maximum number of rules by PDR.
    pub disable_rules: Option<usize>,
    /// Maximum number of open sessions.
    pub sessions: Option<usize>,
    /// Maximum number of connections without an open session.
    pub half_open: Option<usize>,
    /// Maximum number of them from one address.
    pub half_open_per_address: Option<usize>,
    /// Time limit for opening a session in seconds.
    pub establishment: Option<u64>,
    /// Maximum number of messages queued in a session.
    pub queued_messages: Option<usize>,
    /// Maximum number of their octets.
    pub queued_octets: Option<usize>,
    /// Maximum number of ports of a request, each of which takes an element.
    pub exact_ports: Option<u16>,
}

impl LimitsEntry {
    pub(super) fn limits(&self) -> Result<Limits, ConfigError> {
        let base = Limits::default();
        if self.establishment == Some(0) {
            return Err(value(
                "limits.establishment",
                "0 is invalid; must be at least 1 second",
            ));
        }
        for (key, given) in [
            ("limits.rules", self.rules),
            ("limits.sessions", self.sessions),
            ("limits.exact-ports", self.exact_ports.map(usize::from)),
            ("limits.half-open", self.half_open),
            ("limits.half-open-per-address", self.half_open_per_address),
            ("limits.queued-messages", self.queued_messages),
            ("limits.queued-octets", self.queued_octets),
        ] {
            if given == Some(0) {
                return Err(value(key, "0 is invalid; must be at least 1"));
            }
        }
        Ok(Limits {
            rules: self.rules.unwrap_or(base.rules),
            disable_rules: self.disable_rules.unwrap_or(base.disable_rules),
            open_sessions: self.sessions.unwrap_or(base.open_sessions),
            half_open: self.half_open.unwrap_or(base.half_open),
            half_open_per_address: self
                .half_open_per_address
                .unwrap_or(base.half_open_per_address),
            establishment: self
                .establishment
                .map_or(base.establishment, Duration::from_secs),
            queued_messages: self.queued_messages.unwrap_or(base.queued_messages),
            queued_octets: self.queued_octets.unwrap_or(base.queued_octets),
            exact_ports: self.exact_ports.unwrap_or(base.exact_ports),
            ..base
        })
    }
}
