//! How long a message is tried to be delivered (RFC 3758 section 4, RFC 7496 section 3), and the
//! counters of those that were given up (RFC 7496 sections 4.3 and 4.4).

use core::time::Duration;

/// When a message is given up, though it was sent. A message that was not begun is given up
/// whatever the peer knows; one that was, only where [`crate::Extensions::partial_reliability`] is
/// in force: elsewhere it is delivered like a [`Reliability::Full`] one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reliability {
    /// Never.
    #[default]
    Full,
    /// When it would be sent, or sent again, later than this after it was given to
    /// [`crate::Endpoint::send`] (RFC 3758 section 4.1).
    Timed(Duration),
    /// When a part of it would be sent again more often than this; 0 sends each part once
    /// (RFC 7496 section 3.1).
    Retransmissions(u32),
    /// When the send buffer has no room for a message of higher priority. 0 is the highest, and
    /// messages without a priority are above it (RFC 7496 section 3.2).
    Priority(u32),
}

/// The rule by which a message was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AbandonmentPolicy {
    /// [`Reliability::Timed`].
    Timed,
    /// [`Reliability::Retransmissions`].
    Retransmissions,
    /// [`Reliability::Priority`].
    Priority,
}

/// Messages that were given up: each counts once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AbandonedCount {
    /// Before any part of them was sent.
    pub unsent: u64,
    /// After at least a part of them was sent.
    pub sent: u64,
}

/// Messages that were given up, by the rule that did it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Abandoned {
    /// Their time was over.
    pub timed: AbandonedCount,
    /// They were sent too often.
    pub retransmissions: AbandonedCount,
    /// They made room for others.
    pub priority: AbandonedCount,
}

impl Abandoned {
    /// All policies together.
    pub fn total(&self) -> AbandonedCount {
        let all = [self.timed, self.retransmissions, self.priority];
        AbandonedCount {
            unsent: all.iter().map(|c| c.unsent).sum(),
            sent: all.iter().map(|c| c.sent).sum(),
        }
    }

    /// Those of one policy.
    pub fn by(&self, policy: AbandonmentPolicy) -> AbandonedCount {
        match policy {
            AbandonmentPolicy::Timed => self.timed,
            AbandonmentPolicy::Retransmissions => self.retransmissions,
            AbandonmentPolicy::Priority => self.priority,
        }
    }

    pub(crate) fn count(&mut self, policy: AbandonmentPolicy, sent: bool) {
        let count = match policy {
            AbandonmentPolicy::Timed => &mut self.timed,
            AbandonmentPolicy::Retransmissions => &mut self.retransmissions,
            AbandonmentPolicy::Priority => &mut self.priority,
        };
        let count = if sent {
            &mut count.sent
        } else {
            &mut count.unsent
        };
        *count += 1;
    }
}
