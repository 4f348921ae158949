//! How many errors of a path change its state (RFC 9260 section 8.2, RFC 7829 sections 3 and 5).

use crate::config::{AssociationConfig, ConfigError};

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
    pub(crate) fn of(config: &AssociationConfig) -> Self {
        Self {
            path_max_retrans: config.paths.path_max_retrans,
            potentially_failed_max_retrans: config.paths.potentially_failed_max_retrans,
            primary_switchover_max_retrans: config.paths.primary_switchover_max_retrans,
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
