//! Stored policy rules, so that a middlebox that stopped at any moment restores what it had granted
//! (RFC 5189, section 2.3.1: rules end with their lifetime only).
//!
//! A [`Journal`] records each change of a rule and makes a batch of changes durable before a reply
//! that reports them is sent:
//!
//! ```text
//! handle_message -> poll_event: record(RuleChange::of(event)) -> commit() -> poll_output: send
//! ```
//!
//! After an error of [`Journal::commit`] no reply of the batch may be sent: the middlebox has to stop.
//! At the next start [`FileJournal::open`] returns the granted rules, and
//! [`middlebox::Middlebox::restore`](crate::middlebox::Middlebox::restore) restores them.
//!
//! Of the state machines, only this module accesses files. The time is an argument, as in all state
//! machines.

mod file;
mod frame;
mod log;
mod record;
mod storage;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::Time;
use crate::backend::{Backend, Reservation};
use crate::message::{AddressTuple, GroupId, PerParameters, PolicyRuleId};
use crate::middlebox::{Middlebox, MiddleboxEvent};
use crate::rules::Rule;
use crate::session::Identity;

pub use file::FileJournal;

/// Current time by the available clocks. Lifetimes are counted by the middlebox's clock while it runs,
/// by the host's clock across its restart, and by the wall clock across a reboot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReadings {
    /// Time of the state machines.
    pub time: Time,
    /// Wall clock.
    pub wall: SystemTime,
    /// Clock of the host, if available.
    pub boot: Option<BootTime>,
}

/// Time since boot, by a clock that is never set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BootTime {
    /// Boot identifier.
    pub boot: [u8; 16],
    /// Time since boot.
    pub since: Duration,
}

/// Stored end of a lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredEnd {
    /// Wall clock, since 1970.
    pub wall: Duration,
    /// Clock of the host.
    pub boot: Option<BootTime>,
    /// Remaining time when it was stored, an upper bound whatever the clocks show.
    pub left: Duration,
}

impl ClockReadings {
    /// Returns the wall clock at `time`, since 1970; 1970 for earlier times.
    pub fn wall_at(&self, time: Time) -> Duration {
        let now = self.wall.duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default();
        if time >= self.time {
            now.saturating_add(time.since(self.time))
        } else {
            now.saturating_sub(self.time.since(time))
        }
    }

    /// Converts the end of a lifetime for storage.
    pub fn end(&self, time: Time) -> StoredEnd {
        let left = time.since(self.time);
        let since = |now: BootTime| now.since.saturating_add(left);
        let boot = self.boot.map(|now| BootTime {
            since: since(now),
            ..now
        });
        StoredEnd {
            wall: self.wall_at(time),
            boot,
            left,
        }
    }

    /// Returns the remaining time of a stored end; zero if it is over. Setting the wall clock has no
    /// effect while the host runs, and never extends a lifetime.
    pub fn left(&self, end: &StoredEnd) -> Duration {
        let now = self.wall.duration_since(SystemTime::UNIX_EPOCH);
        let left = match (self.boot, end.boot) {
            (Some(now), Some(end)) if now.boot == end.boot => end.since.saturating_sub(now.since),
            _ => end.wall.saturating_sub(now.unwrap_or_default()),
        };
        left.min(end.left)
    }

    /// Returns whether the host has been running since the end was stored.
    pub fn same_boot(&self, end: &StoredEnd) -> bool {
        let boot = |time: Option<BootTime>| time.map(|time| time.boot);
        self.boot.is_some() && boot(self.boot) == boot(end.boot)
    }
}

/// Change of the stored rules.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RuleChange<'a> {
    /// A rule was granted, or a reservation was enabled (PEA).
    Granted {
        /// The rule.
        rule: &'a Rule,
        /// Owner by name: indices depend on the configuration.
        owner: &'a Identity,
    },
    /// The lifetime of a rule was changed.
    LifetimeChanged {
        /// Identifier of the rule.
        rule: PolicyRuleId,
        /// New end of its lifetime.
        expires: Time,
    },
    /// A rule has ended.
    Ended(PolicyRuleId),
}

impl<'a> RuleChange<'a> {
    /// Returns the change of an event; `None` if it does not concern rules.
    pub fn of<B: Backend>(middlebox: &'a Middlebox<B>, event: &'a MiddleboxEvent) -> Option<Self> {
        match event {
            MiddleboxEvent::RuleCreated { rule, .. } => Some(Self::Granted {
                rule,
                owner: middlebox.owner(rule),
            }),
            MiddleboxEvent::LifetimeChanged { rule, .. } => Some(Self::LifetimeChanged {
                rule: rule.id,
                expires: rule.expires,
            }),
            MiddleboxEvent::RuleEnded { rule, .. } => Some(Self::Ended(rule.id)),
            MiddleboxEvent::SessionOpened { .. }
            | MiddleboxEvent::AuthenticationFailed { .. }
            | MiddleboxEvent::SessionClosed { .. }
            | MiddleboxEvent::Refused { .. }
            | MiddleboxEvent::BackendFailed { .. } => None,
        }
    }
}

/// Storage for changes of rules.
pub trait Journal {
    /// Adds a change to the batch.
    fn record(&mut self, at: &ClockReadings, change: &RuleChange<'_>);

    /// Makes the batch durable: afterwards it survives a crash and a power failure. Does nothing for
    /// an empty batch.
    ///
    /// # Errors
    /// The write failed. The batch may or may not be stored; every later call fails as well.
    fn commit(&mut self) -> Result<(), StateError>;
}

/// Stores nothing.
impl Journal for () {
    fn record(&mut self, _: &ClockReadings, _: &RuleChange<'_>) {}

    fn commit(&mut self) -> Result<(), StateError> {
        Ok(())
    }
}

/// Stored rule, without its values that follow from the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredRule {
    /// Policy rule identifier.
    pub id: PolicyRuleId,
    /// Group identifier.
    pub group: GroupId,
    /// Name of its owner.
    pub owner: Identity,
    /// End of its lifetime.
    pub expires: StoredEnd,
    /// Kind of rule.
    pub kind: StoredKind,
}

/// Kind of a stored rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoredKind {
    /// RESERVED, by PRR.
    Reserved {
        /// Reserved addresses.
        reservation: Reservation,
    },
    /// ENABLED, by PER or PEA.
    Enabled {
        /// As requested.
        parameters: PerParameters,
        /// A0 as requested.
        internal: AddressTuple,
        /// A3 as requested.
        external: AddressTuple,
        /// Reservation, on a translator.
        reservation: Option<Reservation>,
    },
    /// ENABLED, by PDR.
    Disabled {
        /// A0 as requested.
        internal: AddressTuple,
        /// A3 as requested.
        external: AddressTuple,
    },
}

/// State left by an earlier run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveredState {
    /// Rules in the order of their identifiers. Some may have expired.
    pub rules: Vec<StoredRule>,
    /// Last rule identifier used.
    pub last_rule: PolicyRuleId,
    /// Last group identifier used.
    pub last_group: GroupId,
    /// Octets of an incomplete batch at the end, as left by a crash during a write. No reply reported
    /// its changes.
    pub dropped: u64,
}

/// Error of storing or reading rules.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Error of the system.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// File or folder.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Another middlebox uses the folder.
    #[error("{} is in use by another middlebox: stop it, or give each middlebox its own folder", .0.display())]
    InUse(PathBuf),
    /// The file has another format or version.
    #[error("{} is not a rule file of this version: use another folder, or move the file away", .0.display())]
    OtherFormat(PathBuf),
    /// The file is damaged in a way that a crash does not cause.
    #[error(
        "{} is damaged at octet {offset}, before intact records: check the disk, then restore the file from a copy or move it away to start without rules", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Position of the damage.
        offset: u64,
    },
    /// An earlier error prevents further writes.
    #[error("an earlier write to the rule file failed: restart the middlebox")]
    Failed,
}
