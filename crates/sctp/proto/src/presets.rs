//! Configurations by name, for options and configuration files.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::config::AssociationConfig;

/// Named configuration of associations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preset {
    /// [`AssociationConfig::modern`].
    #[default]
    Recommended,
    /// [`AssociationConfig::signaling`].
    Signaling,
    /// [`AssociationConfig::rfc9260`].
    Rfc9260,
}

/// Error of a name that no [`Preset`] has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownPreset;

impl fmt::Display for UnknownPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected recommended, signaling or rfc9260")
    }
}

impl core::error::Error for UnknownPreset {}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 3] = [Self::Recommended, Self::Signaling, Self::Rfc9260];

    /// Returns the name of the preset in options and configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recommended => "recommended",
            Self::Signaling => "signaling",
            Self::Rfc9260 => "rfc9260",
        }
    }

    /// Returns the configuration.
    pub fn config(self) -> AssociationConfig {
        match self {
            Self::Recommended => AssociationConfig::modern(),
            Self::Signaling => AssociationConfig::signaling(),
            Self::Rfc9260 => AssociationConfig::rfc9260(),
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(name: &str) -> Result<Self, UnknownPreset> {
        let mut all = Self::ALL.into_iter();
        all.find(|preset| preset.name() == name)
            .ok_or(UnknownPreset)
    }
}

impl AssociationConfig {
    /// Returns the configuration for signaling in private networks with round trips below 50 ms:
    /// [`Self::modern`] with shorter timers, so that a failure of a path delays no message by more than
    /// 0.3 s while another path works.
    ///
    /// RFC 9260, section 16 recommends an RTO.Min of one second, against spurious timeouts on paths
    /// with unknown round trips; RFC 4166, section 3.2 and RFC 7829, appendix A.2 describe shorter timers
    /// for known ones.
    pub fn signaling() -> Self {
        Self::modern().with(|c| {
            // Four round trips of 50 ms. A set-up past a silent address takes this time longer.
            c.timers.rto_initial = Duration::from_millis(200);
            // Two round trips of 50 ms and the delay of a SACK, with as much again for jitter.
            c.timers.rto_min = Duration::from_millis(150);
            // A path in an outage is tried at least once a second, and used soon after it.
            c.timers.rto_max = Duration::from_secs(1);
            // Below RTO.Min by more than a round trip, also of a lone packet.
            c.timers.sack_delay = Duration::from_millis(20);
            // Errors of an idle path are known within HB.interval and an RTO.
            c.paths.hb_interval = Duration::from_secs(2);
            // 150, 300, 600, 1000 and 1000 ms: an inactive path after 3 s.
            c.paths.path_max_retrans = 4;
            // Not above the sum over two paths (RFC 9260, section 8.2): a dead peer after 7 to 8 s.
            c.paths.association_max_retrans = 8;
            // Signaling messages are small and independent of each other.
            c.transmission.nagle = false;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_are_read_back() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
            assert_eq!(preset.config().validate(), Ok(()));
        }
        assert_eq!("modern".parse::<Preset>(), Err(UnknownPreset));
    }

    /// RFC 9260, sections 6.2 and 8.2
    #[test]
    fn values_for_signaling_agree_with_each_other() {
        let config = AssociationConfig::signaling();
        let (timers, paths) = (&config.timers, &config.paths);
        let round_trip = Duration::from_millis(50);
        assert!(timers.rto_min >= 2 * round_trip + timers.sack_delay);
        assert!(timers.rto_initial >= timers.rto_min);
        // A message after the last SACK, its timeout, and half of a round trip on another path.
        assert!(timers.rto_min + 2 * round_trip <= Duration::from_millis(300));
        assert!(paths.association_max_retrans <= 2 * paths.path_max_retrans);
        assert_eq!(paths.potentially_failed_max_retrans, Some(0));
    }
}
