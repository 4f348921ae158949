//! Policy rules on disk, so that a middlebox that died at any moment takes up what it had granted
//! (RFC 5189 section 2.3.1: rules end with their lifetime and with nothing else).
//!
//! A [`Journal`] is told of each change of a rule, and makes the changes of a batch durable in one
//! go, before a reply that speaks of them leaves:
//!
//! ```text
//! handle what came -> poll_event: record(RuleChange::of(event)) -> commit() -> poll_output: send
//! ```
//!
//! After an error of [`Journal::commit`] none of the batch's replies may leave: the middlebox has to
//! stop. At the next start [`FileJournal::open`] gives what was granted, and
//! [`crate::middlebox::Middlebox::restore`] takes it up.
//!
//! This module alone in the crate's state machines touches files; it takes the time as an argument
//! like the others.

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

/// Now, by the clocks that there are. Lifetimes are counted by the middlebox's own while it runs, by
/// the host's across a restart of the middlebox, and by the wall's across one of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// The time that the state machines are told.
    pub time: Time,
    /// The same moment by the wall clock.
    pub wall: SystemTime,
    /// The same moment by the host's clock, if it has one.
    pub boot: Option<BootTime>,
}

/// A time by a clock that begins with the host, and that nobody sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BootTime {
    /// Tells one run of the host from another.
    pub boot: [u8; 16],
    /// Since it began.
    pub since: Duration,
}

/// The end of a life, as it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredEnd {
    /// By the wall clock, since 1970.
    pub wall: Duration,
    /// By the host's clock.
    pub boot: Option<BootTime>,
    /// What was left when it was kept. No clock makes more of it.
    pub left: Duration,
}

impl Moment {
    /// What the wall clock will show at `time`, since 1970; 1970 for what is before.
    pub fn wall_at(&self, time: Time) -> Duration {
        let now = self.wall.duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default();
        if time >= self.time {
            now.saturating_add(time.since(self.time))
        } else {
            now.saturating_sub(self.time.since(time))
        }
    }

    /// A life that ends at `time`, to be kept.
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

    /// How long a life lasts that was kept; zero for one that is over. Setting the wall clock
    /// changes nothing as long as the host runs, and never makes more of it than there was.
    pub fn left(&self, end: &StoredEnd) -> Duration {
        let now = self.wall.duration_since(SystemTime::UNIX_EPOCH);
        let left = match (self.boot, end.boot) {
            (Some(now), Some(end)) if now.boot == end.boot => end.since.saturating_sub(now.since),
            _ => end.wall.saturating_sub(now.unwrap_or_default()),
        };
        left.min(end.left)
    }

    /// Whether the host has been running since the end was kept, so that its clock counts.
    pub fn same_boot(&self, end: &StoredEnd) -> bool {
        let boot = |time: Option<BootTime>| time.map(|time| time.boot);
        self.boot.is_some() && boot(self.boot) == boot(end.boot)
    }
}

/// What changes on disk when something happens at a middlebox.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RuleChange<'a> {
    /// A rule was granted, or became another (PEA).
    Granted {
        /// The rule.
        rule: &'a Rule,
        /// Whose. On disk rules have names of owners: the order of agents in a configuration changes.
        owner: &'a Identity,
    },
    /// The end of a rule's life was moved.
    LifetimeChanged {
        /// Which rule.
        rule: PolicyRuleId,
        /// When it ends now.
        expires: Time,
    },
    /// A rule is over.
    Ended(PolicyRuleId),
}

impl<'a> RuleChange<'a> {
    /// What an event changes on disk; `None` for those that don't concern rules.
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

/// Where changes of rules are kept.
pub trait Journal {
    /// Takes a change into the batch.
    fn record(&mut self, at: &Moment, change: &RuleChange<'_>);

    /// Makes the batch durable: when this returns, it survives the process and the machine's power.
    /// Does nothing if nothing was recorded.
    ///
    /// # Errors
    /// When that failed. What is on disk is then what an earlier commit left, or the batch too;
    /// every later call fails as well.
    fn commit(&mut self) -> Result<(), StateError>;
}

/// Keeps nothing: for a middlebox without a state on disk.
impl Journal for () {
    fn record(&mut self, _: &Moment, _: &RuleChange<'_>) {}

    fn commit(&mut self) -> Result<(), StateError> {
        Ok(())
    }
}

/// A rule as it is kept: without what follows from the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredRule {
    /// Its PID.
    pub id: PolicyRuleId,
    /// Its group.
    pub group: GroupId,
    /// The name of its owner.
    pub owner: Identity,
    /// When its life ends.
    pub expires: StoredEnd,
    /// What it does.
    pub kind: StoredKind,
}

/// What a stored rule does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoredKind {
    /// RESERVED.
    Reserved {
        /// What is reserved.
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
        /// The reservation behind it, on a translator.
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

/// What an earlier life left.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// The rules, in the order of their identifiers. Some may have expired meanwhile.
    pub rules: Vec<StoredRule>,
    /// The last PID that was given.
    pub last_rule: PolicyRuleId,
    /// The last GID that was given.
    pub last_group: GroupId,
    /// Octets at the end that were no whole batch. A crash while a batch was written leaves such,
    /// and no reply has told of it.
    pub dropped: u64,
}

/// Why rules can't be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The system's.
    #[error("can't {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Another middlebox has the folder.
    #[error("{} is in use by another middlebox: stop that, or give each a folder of its own", .0.display())]
    InUse(PathBuf),
    /// The file is something else, or of another version.
    #[error("{} is no rule file of this version: give a folder of its own, or move the file away", .0.display())]
    NotOurs(PathBuf),
    /// The file is damaged other than by a crash.
    #[error(
        "{} is damaged at octet {offset}, and what follows was granted too: check the disk, and restore the file from a copy, or move it away to begin without rules", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
    },
    /// An earlier error, after which nothing can be kept any more.
    #[error("the rule file could not be written before: start the middlebox again")]
    Failed,
}
