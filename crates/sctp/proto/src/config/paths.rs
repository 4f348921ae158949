//! Parameters of paths, and the numbers of errors that change the state of one (RFC 9260, section 8.2; RFC 7829, sections 3
//! and 5).

use core::net::IpAddr;
use core::time::Duration;

use crate::error::ConfigError;

/// Highest DSCP, of six bits (RFC 2474, section 3).
pub(crate) const MAX_DSCP: u8 = 63;

/// Paths: failure detection, heartbeats and addresses.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields, rename_all = "kebab-case")
)]
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
    /// section 3 recommends; `None` in [`AssociationConfig::rfc9260`](crate::AssociationConfig::rfc9260).
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
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
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
    pub(super) fn validate_dscps(&self) -> Result<(), ConfigError> {
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

/// The error counts at which a path changes its state, what the socket API calls
/// `SCTP_PEER_ADDR_THLDS` (RFC 7829 section 7.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathThresholds {
    /// Path.Max.Retrans: with more consecutive errors the path is inactive.
    pub path_max_retrans: u32,
    /// PotentiallyFailed.Max.Retrans: with more consecutive errors the path is potentially failed,
    /// 0 after the first. `None` for paths that fail as RFC 9260 has it. A value that is not below
    /// `path_max_retrans` has no effect.
    pub potentially_failed_max_retrans: Option<u32>,
    /// Primary.Switchover.Max.Retrans: with more consecutive errors of the primary, the path that
    /// carries the data becomes the primary. At least `potentially_failed_max_retrans`, or
    /// `path_max_retrans` without that. `None` for a primary that is returned to when it works again.
    pub primary_switchover_max_retrans: Option<u32>,
}

portable_struct! {
    PathThresholds {
        path_max_retrans, potentially_failed_max_retrans, primary_switchover_max_retrans,
    }
}

impl PathThresholds {
    /// The values that paths of an association start with.
    pub(crate) fn of(config: &PathConfig) -> Self {
        Self {
            path_max_retrans: config.path_max_retrans,
            potentially_failed_max_retrans: config.potentially_failed_max_retrans,
            primary_switchover_max_retrans: config.primary_switchover_max_retrans,
        }
    }

    /// Checks rule 1 of RFC 7829 section 5.
    ///
    /// # Errors
    /// Primary.Switchover.Max.Retrans is too small.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let least = self
            .potentially_failed_max_retrans
            .unwrap_or(self.path_max_retrans);
        match self.primary_switchover_max_retrans {
            Some(switchover) if switchover < least => Err(ConfigError(
                "primary_switchover_max_retrans: must not be below potentially_failed_max_retrans, \
                 or path_max_retrans without that",
            )),
            _ => Ok(()),
        }
    }

    /// Number of errors at which the error counter stops. In RFC 9260 it stops when the path is inactive.
    /// RFC 7829 keeps sending to inactive paths and compares their error counters, which therefore
    /// run up to ten times that number (section 4.1). Primary.Switchover.Max.Retrans, too, may be
    /// larger than Path.Max.Retrans.
    pub(crate) fn most_errors(&self) -> u32 {
        let inactive = self.path_max_retrans.saturating_add(1);
        let compared = match self.potentially_failed_max_retrans {
            Some(_) => inactive.saturating_mul(10),
            None => inactive,
        };
        let switchover = self
            .primary_switchover_max_retrans
            .map_or(0, |s| s.saturating_add(1));
        compared.max(switchover)
    }

    /// An active path with this many errors is potentially failed.
    pub(crate) fn is_potentially_failed(&self, errors: u32) -> bool {
        self.potentially_failed_max_retrans
            .is_some_and(|limit| errors > limit)
    }

    /// Returns whether the primary path is replaced at this error count.
    pub(crate) fn replaces_primary(&self, errors: u32) -> bool {
        self.primary_switchover_max_retrans
            .is_some_and(|limit| errors > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thresholds(
        failed: u32,
        potentially: Option<u32>,
        switchover: Option<u32>,
    ) -> PathThresholds {
        PathThresholds {
            path_max_retrans: failed,
            potentially_failed_max_retrans: potentially,
            primary_switchover_max_retrans: switchover,
        }
    }

    #[test]
    fn a_switchover_limit_below_failover_is_invalid() {
        for (good, t) in [
            (true, thresholds(5, None, None)),
            (true, thresholds(5, None, Some(5))),
            (true, thresholds(5, None, Some(9))),
            (false, thresholds(5, None, Some(4))),
            (true, thresholds(5, Some(0), Some(0))),
            (true, thresholds(5, Some(2), Some(2))),
            (false, thresholds(5, Some(2), Some(1))),
        ] {
            assert_eq!(t.validate().is_ok(), good, "{t:?}");
        }
    }

    #[test]
    fn the_error_counter_saturates_above_all_thresholds() {
        assert_eq!(thresholds(5, None, None).most_errors(), 6);
        assert_eq!(thresholds(5, None, Some(9)).most_errors(), 10);
        assert_eq!(thresholds(5, Some(0), None).most_errors(), 60);
        assert_eq!(
            thresholds(u32::MAX, Some(0), None).most_errors(),
            u32::MAX,
            "no overflow"
        );
    }
}
