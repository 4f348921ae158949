//! Packet sizes and path MTU discovery (RFC 8899).

use core::time::Duration;

use crate::error::ConfigError;

/// Default of `BASE_PLPMTU` (RFC 8899, section 5.1.2).
pub(crate) const BASE_MTU: usize = 1200;

/// Packet sizes, path MTU discovery and fragmentation.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields, rename_all = "kebab-case")
)]
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
    /// probe is sent before a timeout. Default: `true`; `false` in [`AssociationConfig::rfc9260`](crate::AssociationConfig::rfc9260).
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

/// Parameters of path MTU discovery (RFC 8899 sections 5.1.1 and 5.1.2). Sizes are those of IP packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields, rename_all = "kebab-case")
)]
pub struct PathMtuDiscovery {
    /// `BASE_PLPMTU` in bytes, 576 to 9000: what most paths take. On IPv6 it is at least 1280.
    pub base_mtu: usize,
    /// `MAX_PLPMTU` in bytes, up to 65535: the largest size of the search.
    pub max_probed_mtu: usize,
    /// `MAX_PROBES`: number of consecutive lost probes after which a size counts as too large.
    pub max_probes: u32,
    /// `PROBE_TIMER`, at least a second; the path's RTO if that is longer.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub probe_timer: Duration,
    /// `PMTU_RAISE_TIMER`: interval after which discovery searches for a larger size again, if data was
    /// sent since.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub raise_timer: Duration,
}

portable_struct! {
    PathMtuDiscovery {
        base_mtu, max_probed_mtu, max_probes, probe_timer, raise_timer,
    }
}

impl Default for PathMtuDiscovery {
    fn default() -> Self {
        Self {
            base_mtu: BASE_MTU,
            max_probed_mtu: 9000,
            max_probes: 3,
            probe_timer: Duration::from_secs(1),
            raise_timer: Duration::from_secs(600),
        }
    }
}

impl PathMtuDiscovery {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first parameter that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let what = if !(576..=9000).contains(&self.base_mtu) {
            "base_mtu: must be 576 to 9000"
        } else if self.max_probed_mtu < self.base_mtu.max(1280) || self.max_probed_mtu > 65_535 {
            "max_probed_mtu: must be at least 1280 and base_mtu, at most 65535"
        } else if self.max_probes == 0 {
            "max_probes: must be at least 1"
        } else if self.probe_timer < Duration::from_secs(1) {
            "probe_timer: must be at least 1 s"
        } else if self.raise_timer < self.probe_timer {
            "raise_timer: must not be below probe_timer"
        } else {
            return Ok(());
        };
        Err(ConfigError(what))
    }
}
