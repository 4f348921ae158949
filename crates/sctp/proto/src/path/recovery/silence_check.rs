//! Check of a path on which nothing is acknowledged, before T3-rtx expires.
//!
//! RFC 9260 detects a failed path by T3-rtx, whose timeout is at least RTO.Min. While other paths exist, an
//! earlier decision needs no timeout below RTO.Min:
//!
//! 1. Data is outstanding on the path, and nothing was acknowledged there for the silence limit below.
//! 2. A HEARTBEAT leaves on this path and on each other confirmed path (RFC 9260, sections 8.3 and 11.1.10).
//! 3. The path fails the check if its HEARTBEAT ACK is missing after two undelayed round trips and another
//!    path's HEARTBEAT ACK has arrived. That is an error of the path (section 8.2). If another path's HEARTBEAT
//!    ACK arrives later, this path gets that time again.
//! 4. The path passes the check if its HEARTBEAT ACK arrives. It works now, but the data and its tail loss probe may
//!    have been lost while it did not: another probe leaves at once.
//!
//! If no other path is confirmed or acknowledges its HEARTBEAT, T3-rtx decides.
//!
//! The undelayed round trip is the least of that of the last HEARTBEAT, or of the set-up before the first, the minimum
//! of RACK, and SRTT, which contains delays of SACKs. The silence limit is two undelayed round trips and one and a
//! quarter SACK delays, but never below twice the part of SRTT that no SACK delay explains, plus the SACK delay.

use core::time::Duration;

use crate::config::AssociationConfig;
use crate::path::{Path, PathId, Paths};
use crate::time::Time;

/// Least time for a HEARTBEAT ACK, and for a SACK beyond its delay: timers of hosts are not finer.
const MIN_ANSWER_TIME: Duration = Duration::from_millis(10);

/// State of the check of one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SilenceCheck {
    /// No data is outstanding, or the check is over until data is acknowledged or T3-rtx expires.
    Idle { over: bool },
    /// Data is outstanding; step 2 follows at this time.
    Armed(Time),
    /// Heartbeats have been requested at `since`. At `until` this path has had time for its HEARTBEAT ACK.
    /// `elsewhere` if another path's HEARTBEAT ACK has arrived.
    Asked {
        since: Time,
        until: Time,
        elsewhere: bool,
    },
    /// No HEARTBEAT ACK has arrived in time on any path.
    Overdue { since: Time },
}

/// Result of the expiry of the timer of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SilenceExpiry {
    /// Heartbeats are requested on all paths (step 2).
    Begun,
    /// The path fails the check (step 3).
    Failed,
}

portable_enum! {
    SilenceCheck {
        0: Idle { over },
        1: Armed(value),
        2: Asked { since, until, elsewhere },
        3: Overdue { since },
    }
}

impl SilenceCheck {
    /// State of a path without outstanding data.
    pub(super) const IDLE: Self = Self::Idle { over: false };

    /// State after the check, until data is acknowledged.
    const OVER: Self = Self::Idle { over: true };

    /// Expiry of the timer.
    pub(super) fn timer(self) -> Option<Time> {
        match self {
            Self::Armed(at) | Self::Asked { until: at, .. } => Some(at),
            Self::Idle { .. } | Self::Overdue { .. } => None,
        }
    }

    /// Records that data is sent; `at` is the time of step 2 if it is the first outstanding data.
    pub(super) fn on_data_sent(&mut self, at: Time) {
        if *self == Self::IDLE {
            *self = Self::Armed(at);
        }
    }

    /// Records that data was acknowledged `now`, with the round trip of the last of it that was sent once; `at` is the
    /// time of step 2 if data remains outstanding. A check that has begun continues if that data was sent before it: its
    /// SACK may have arrived by another path, after this one has failed.
    pub(super) fn on_acknowledged(&mut self, now: Time, rtt: Option<Duration>, at: Option<Time>) {
        match (*self, at) {
            (_, None) => *self = Self::IDLE,
            (Self::Asked { since, .. } | Self::Overdue { since }, Some(_))
                if rtt.is_none_or(|rtt| now < since + rtt) => {}
            (_, Some(at)) => *self = Self::Armed(at),
        }
    }

    /// Records that the heartbeats of step 2 are requested.
    pub(super) fn ask(&mut self, since: Time, until: Time) {
        *self = Self::Asked {
            since,
            until,
            elsewhere: false,
        };
    }

    /// Ends the check without a result.
    pub(super) fn end(&mut self) {
        *self = Self::OVER;
    }

    /// Handles the end of the time for the HEARTBEAT ACK of this path; returns whether the path fails the
    /// check.
    pub(super) fn expire(&mut self) -> bool {
        let Self::Asked {
            since, elsewhere, ..
        } = *self
        else {
            return false;
        };
        *self = if elsewhere {
            Self::OVER
        } else {
            Self::Overdue { since }
        };
        elsewhere
    }

    /// Records a HEARTBEAT ACK of this path, whose HEARTBEAT was sent at `sent`. Returns whether the path passes the
    /// check.
    pub(super) fn on_heartbeat_ack(&mut self, sent: Time) -> bool {
        let passes = self.is_answered_by(sent);
        if passes {
            *self = Self::OVER;
        }
        passes
    }

    /// Records a HEARTBEAT ACK of another path, whose HEARTBEAT was sent at `sent`; `until` ends the time that
    /// this path gets if it has had none since.
    pub(super) fn on_heartbeat_ack_elsewhere(&mut self, sent: Time, until: Time) {
        if !self.is_answered_by(sent) {
            return;
        }
        match self {
            Self::Asked { elsewhere, .. } => *elsewhere = true,
            Self::Overdue { since } => {
                *self = Self::Asked {
                    since: *since,
                    until,
                    elsewhere: true,
                }
            }
            Self::Idle { .. } | Self::Armed(_) => {}
        }
    }

    /// Returns whether a HEARTBEAT that was sent at this time belongs to the check or is later.
    fn is_answered_by(self, sent: Time) -> bool {
        match self {
            Self::Asked { since, .. } | Self::Overdue { since } => sent >= since,
            Self::Idle { .. } | Self::Armed(_) => false,
        }
    }
}

impl Path {
    /// Returns the time that a HEARTBEAT ACK of this path takes at most, unless it is lost: two undelayed round
    /// trips. `None` before the first measurement.
    fn answer_time(&self) -> Option<Duration> {
        let minimum = self.data.recovery.rack.min_rtt();
        let heartbeat = self.heartbeat.rtt();
        let undelayed = [minimum, heartbeat, self.rto.srtt()];
        let undelayed = undelayed.into_iter().flatten().min()?;
        Some((2 * undelayed).max(MIN_ANSWER_TIME))
    }

    /// Returns the time of step 2 of the check, if nothing is acknowledged before.
    fn silent_at(&self, now: Time, config: &AssociationConfig) -> Option<Time> {
        let delay = config.timers.sack_delay;
        let late = (delay / 4).max(MIN_ANSWER_TIME);
        let undelayed = 2 * self.rto.srtt()?.saturating_sub(delay);
        let limit = delay + undelayed.max(self.answer_time()? + late);
        Some(now + limit)
    }

    /// Records that data is sent on this path, one of several: what is acknowledged is watched.
    pub(crate) fn watch_silence(&mut self, now: Time, config: &AssociationConfig) {
        if self.data.recovery.silence == SilenceCheck::IDLE
            && let Some(at) = self.silent_at(now, config)
        {
            self.data.recovery.silence.on_data_sent(at);
        }
    }

    /// Records that data was acknowledged on this path, one of several.
    pub(crate) fn end_silence(&mut self, now: Time, config: &AssociationConfig) {
        let outstanding = self.flight.size() > 0;
        let at = if outstanding {
            self.silent_at(now, config)
        } else {
            None
        };
        let rtt = self.newly_acked().rtt;
        if let Some(recovery) = self.used_recovery() {
            recovery.silence.on_acknowledged(now, rtt, at);
        }
    }
}

impl Paths {
    /// Handles the timer of the check of a path (steps 2 and 3); `None` if the check continues or ends without a
    /// result.
    pub(crate) fn expire_silence_check(&mut self, id: PathId, now: Time) -> Option<SilenceExpiry> {
        let check = self[id].recovery().silence;
        if check.timer().is_none_or(|at| at > now) {
            return None;
        }
        if !matches!(check, SilenceCheck::Armed(_)) {
            let failed = self[id].recovery_mut().silence.expire();
            return failed.then_some(SilenceExpiry::Failed);
        }
        let wait = self[id].answer_time();
        let checks = self[id].is_usable() && self[id].flight.size() > 0;
        let others = self.iter().any(|p| p.id != id && p.confirmed);
        let Some(wait) = wait.filter(|_| checks && others) else {
            self[id].recovery_mut().silence.end();
            return None;
        };
        let silence = &mut self[id].recovery_mut().silence;
        silence.ask(now, now + wait);
        for path in self.iter_mut().filter(|p| p.confirmed) {
            path.request_heartbeat_at_once(now);
        }
        Some(SilenceExpiry::Begun)
    }

    /// Records a HEARTBEAT ACK of a path, whose HEARTBEAT was sent at `sent`, in the checks of all paths. Returns
    /// whether the path passes its check (step 4).
    pub(crate) fn answer_silence_checks(&mut self, id: PathId, sent: Time, now: Time) -> bool {
        let mut passes = false;
        for path in self.iter_mut() {
            let wait = path.answer_time();
            let Some(recovery) = path.data.changed().map(|data| &mut data.recovery) else {
                continue;
            };
            if path.id == id {
                passes = recovery.silence.on_heartbeat_ack(sent);
            } else if let Some(wait) = wait {
                recovery
                    .silence
                    .on_heartbeat_ack_elsewhere(sent, now + wait);
            }
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn a_path_fails_if_only_another_one_answers() {
        let mut check = SilenceCheck::IDLE;
        check.on_data_sent(at(240));
        check.on_data_sent(at(260));
        assert_eq!(check.timer(), Some(at(240)), "the oldest data decides");
        check.ask(at(240), at(280));
        check.on_heartbeat_ack_elsewhere(at(239), at(300));
        let mut earlier = check;
        assert!(!earlier.expire(), "an earlier HEARTBEAT");
        check.on_heartbeat_ack_elsewhere(at(240), at(300));
        assert!(check.expire());
        assert_eq!(check.timer(), None);
        check.on_data_sent(at(500));
        assert_eq!(check.timer(), None, "one check until data is acknowledged");
        check.on_acknowledged(at(520), Some(Duration::from_millis(20)), Some(at(700)));
        assert_eq!(check.timer(), Some(at(700)));
    }

    #[test]
    fn a_path_that_answers_passes() {
        let mut check = SilenceCheck::IDLE;
        check.on_data_sent(at(240));
        check.ask(at(240), at(280));
        check.on_heartbeat_ack(at(240));
        check.on_heartbeat_ack_elsewhere(at(241), at(300));
        assert!(!check.expire());
    }

    #[test]
    fn an_acknowledgement_of_older_data_ends_no_check() {
        for (rtt, timer) in [(Some(21), 280), (None, 280), (Some(20), 700)] {
            let mut check = SilenceCheck::IDLE;
            check.on_data_sent(at(240));
            check.ask(at(240), at(280));
            let rtt = rtt.map(Duration::from_millis);
            check.on_acknowledged(at(260), rtt, Some(at(700)));
            assert_eq!(check.timer(), Some(at(timer)), "{rtt:?}");
            check.on_acknowledged(at(270), None, None);
            assert_eq!(check, SilenceCheck::IDLE, "no data is outstanding");
        }
    }

    #[test]
    fn another_path_may_answer_late() {
        let mut check = SilenceCheck::IDLE;
        check.on_data_sent(at(240));
        check.ask(at(240), at(280));
        assert!(!check.expire(), "no path has answered");
        check.on_heartbeat_ack_elsewhere(at(5000), at(5060));
        assert_eq!(check.timer(), Some(at(5060)));
        assert!(check.expire());
    }
}
