//! Error counter of a path and the states that follow from it: inactive (RFC 9260 section 8.2) and
//! potentially failed (RFC 7829 section 3.2); switchover of the primary path (RFC 7829 section 5).

use core::fmt;

use super::{Path, PathId, Paths};
use crate::config::{AssociationConfig, PathThresholds};
use crate::random::Random;
use crate::time::Time;

/// Reason why an error of a path was counted (RFC 9260, section 8.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "kebab-case")
)]
pub enum PathErrorCause {
    /// T3-rtx expired: data was not acknowledged (section 6.3.3).
    T3Expired,
    /// A HEARTBEAT was not acknowledged (section 8.3).
    HeartbeatUnanswered,
    /// Data was not acknowledged, and HEARTBEATs on all paths were acknowledged on other ones only.
    OthersAnswer,
    /// SHUTDOWN, SHUTDOWN ACK, ASCONF or RE-CONFIG was not acknowledged (section 9.2, RFC 5061, RFC 6525).
    ControlUnanswered,
    /// The host has no route to the address, or ICMP reports that it is not reachable.
    Unreachable,
}

portable_enum! {
    PathErrorCause {
        0: T3Expired,
        1: HeartbeatUnanswered,
        2: OthersAnswer,
        3: ControlUnanswered,
        4: Unreachable,
    }
}

impl fmt::Display for PathErrorCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::T3Expired => "T3-rtx expired",
            Self::HeartbeatUnanswered => "no HEARTBEAT ACK",
            Self::OthersAnswer => "HEARTBEAT ACKs arrive on other paths only",
            Self::ControlUnanswered => "a control chunk is not acknowledged",
            Self::Unreachable => "destination unreachable",
        })
    }
}

/// Change of a path's state of which the user is notified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathChange {
    /// A path that is not confirmed has its first error.
    Unconfirmed,
    /// The path became inactive.
    Failed,
    /// The path became potentially failed.
    PotentiallyFailed,
    /// The path is active and not potentially failed again.
    Recovered,
    /// The path became potentially failed, or is no longer, in an association that does not expose that
    /// state to the program.
    Unexposed { potentially_failed: bool },
}

impl Path {
    /// Number of consecutive errors (RFC 9260 section 8.2).
    pub(crate) fn error_count(&self) -> u32 {
        self.error_count
    }

    /// Thresholds of the error counter.
    pub(crate) fn thresholds(&self) -> PathThresholds {
        self.thresholds
    }

    /// Sets the thresholds (RFC 7829 section 7.2).
    pub(crate) fn set_thresholds(
        &mut self,
        thresholds: PathThresholds,
        config: &AssociationConfig,
    ) -> Option<PathChange> {
        self.thresholds = thresholds;
        self.update_potentially_failed(config)
    }

    /// Counts an error: a packet sent here was not acknowledged in time. The path becomes potentially
    /// failed or inactive by its thresholds (RFC 9260 section 8.2, RFC 7829 section 3.2 rules 2 and 8).
    pub(crate) fn count_error(
        &mut self,
        cause: PathErrorCause,
        now: Time,
        config: &AssociationConfig,
        random: &mut Random,
    ) -> Option<PathChange> {
        self.encapsulation_unverified = false;
        self.last_error = Some(cause);
        let is_first = self.active && self.error_count == 0;
        if self.error_count < self.thresholds.most_errors() {
            self.error_count += 1;
        }
        if !self.active || self.error_count <= self.thresholds.path_max_retrans {
            if !self.confirmed {
                return is_first.then_some(PathChange::Unconfirmed);
            }
            return self.update_potentially_failed(config);
        }
        self.active = false;
        if core::mem::take(&mut self.potentially_failed) && self.heartbeat.enabled {
            self.schedule_heartbeat(now, config, random);
        }
        self.restart_mtu_discovery();
        Some(PathChange::Failed)
    }

    /// Updates the potentially failed state. While it is set, a heartbeat is sent per RTO, whatever
    /// HB.interval is (RFC 7829 section 3.2, rules 5 and 6).
    fn update_potentially_failed(&mut self, config: &AssociationConfig) -> Option<PathChange> {
        // An address that is not verified gets a heartbeat per RTO anyway, and no data.
        let suspected = self.active
            && self.confirmed
            && self.thresholds.is_potentially_failed(self.error_count);
        let changed = core::mem::replace(&mut self.potentially_failed, suspected) != suspected;
        if suspected {
            self.heartbeat.request_unless_awaited();
        }
        if !changed {
            None
        } else if !config.paths.expose_potentially_failed {
            (suspected || self.active).then_some(PathChange::Unexposed {
                potentially_failed: suspected,
            })
        } else if suspected {
            Some(PathChange::PotentiallyFailed)
        } else {
            self.active.then_some(PathChange::Recovered)
        }
    }

    /// Clears the error counter: a packet sent here was acknowledged.
    pub(crate) fn clear_errors(
        &mut self,
        now: Time,
        config: &AssociationConfig,
        random: &mut Random,
    ) -> Option<PathChange> {
        self.error_count = 0;
        if self.potentially_failed {
            self.leave_potentially_failed(now, config, random);
            Some(if config.paths.expose_potentially_failed {
                PathChange::Recovered
            } else {
                PathChange::Unexposed {
                    potentially_failed: false,
                }
            })
        } else if !self.active {
            self.active = true;
            self.restart_mtu_discovery();
            Some(PathChange::Recovered)
        } else {
            None
        }
    }

    /// Ends the potentially failed state: heartbeats have their interval again, and an outstanding one
    /// need not be acknowledged in time.
    fn leave_potentially_failed(
        &mut self,
        now: Time,
        config: &AssociationConfig,
        random: &mut Random,
    ) {
        self.potentially_failed = false;
        self.heartbeat.stop_waiting();
        self.heartbeat.cancel_request();
        if self.heartbeat.enabled {
            self.schedule_heartbeat(now, config, random);
        }
    }

    /// Records that T3-rtx expired. On a potentially failed path, an outstanding heartbeat does not count
    /// as another error (RFC 7829 section 3.2, rule 6).
    pub(crate) fn leave_errors_to_t3(&mut self) {
        if self.potentially_failed {
            self.heartbeat.stop_waiting();
        }
    }
}

impl Paths {
    /// Primary Path Switchover: replaces a primary path with too many errors by the path that carries
    /// the data (RFC 7829 section 5). Returns the new primary path.
    pub(crate) fn switch_over_primary(&mut self) -> Option<PathId> {
        let (primary, current) = (self.primary(), self.current());
        if primary == current || !self.contains(primary) || !self[current].is_usable() {
            return None;
        }
        let path = &self[primary];
        if !path.thresholds.replaces_primary(path.error_count) {
            return None;
        }
        self.set_primary(current);
        Some(current)
    }

    /// Returns whether a path has outstanding data and is not usable, while another path is, with quick
    /// failover.
    pub(crate) fn is_to_be_left(&self, path: &Path) -> bool {
        path.flight.size() > 0
            && !path.is_usable()
            && self.any_usable()
            && self.fails_over_quickly()
    }

    /// Returns whether no path is active, and none may become so by its verification: the association is
    /// dormant.
    pub(crate) fn are_dormant(&self) -> bool {
        let untried = self.iter().any(|p| p.active && !p.confirmed);
        self.all_inactive() && !untried
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Route;

    /// RFC 7829, section 3.2
    #[test]
    fn states_follow_the_thresholds() {
        let config = AssociationConfig::rfc9260().with(|c| {
            c.paths.path_max_retrans = 2;
            c.paths.potentially_failed_max_retrans = Some(0);
            c.paths.expose_potentially_failed = true;
        });
        let route = Route::plain([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut path = Path::new(PathId(0), route, true, &config);
        let mut random = Random::new([1; 32]);
        let changes = [(); 4].map(|()| {
            path.count_error(PathErrorCause::T3Expired, Time::ZERO, &config, &mut random)
        });
        let (suspected, failed) = (PathChange::PotentiallyFailed, PathChange::Failed);
        assert_eq!(changes, [Some(suspected), None, Some(failed), None]);
        let mut clear = || path.clear_errors(Time::ZERO, &config, &mut random);
        assert_eq!([clear(), clear()], [Some(PathChange::Recovered), None]);
    }
}
