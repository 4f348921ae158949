//! Reliability policies of messages (RFC 3758, section 4; RFC 7496, section 3), and counters of abandoned
//! messages (RFC 7496, sections 4.3 and 4.4).

use core::time::Duration;

/// Condition on which a message is abandoned. A message of which no part was sent is abandoned with any
/// peer. Other messages are abandoned only if [`Extensions::partial_reliability`](crate::Extensions::partial_reliability) is in force;
/// otherwise they are delivered like [`Reliability::Full`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reliability {
    /// The message is never abandoned.
    #[default]
    Full,
    /// Abandons the message if it would be sent or retransmitted later than this after the call of
    /// [`Endpoint::send`](crate::Endpoint::send) (RFC 3758, section 4.1).
    Timed(Duration),
    /// Abandons the message if a fragment would be retransmitted more often than this; 0 means no
    /// retransmission (RFC 7496, section 3.1).
    Retransmissions(u32),
    /// Abandons the message if the send buffer has no room for a message of higher priority. 0 is the
    /// highest priority; messages without this policy rank above it (RFC 7496, section 3.2).
    Priority(u32),
}

portable_enum! {
    Reliability {
        0: Full,
        1: Timed(value),
        2: Retransmissions(value),
        3: Priority(value),
    }
}

/// Policy by which a message was abandoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AbandonmentPolicy {
    /// [`Reliability::Timed`].
    Timed,
    /// [`Reliability::Retransmissions`].
    Retransmissions,
    /// [`Reliability::Priority`].
    Priority,
}

portable_enum! { AbandonmentPolicy { 0: Timed, 1: Retransmissions, 2: Priority } }

/// Number of abandoned messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AbandonedCount {
    /// Messages of which no part was sent.
    pub unsent: u64,
    /// Messages of which at least a part was sent.
    pub sent: u64,
}

portable_struct! { AbandonedCount { unsent, sent } }

/// Abandoned messages by policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Abandoned {
    /// Abandoned by [`Reliability::Timed`].
    pub timed: AbandonedCount,
    /// Abandoned by [`Reliability::Retransmissions`].
    pub retransmissions: AbandonedCount,
    /// Abandoned by [`Reliability::Priority`].
    pub priority: AbandonedCount,
}

portable_struct! { Abandoned { timed, retransmissions, priority } }

impl Abandoned {
    /// Returns the sum over all policies.
    pub fn total(&self) -> AbandonedCount {
        let all = [self.timed, self.retransmissions, self.priority];
        AbandonedCount {
            unsent: all.iter().map(|c| c.unsent).sum(),
            sent: all.iter().map(|c| c.sent).sum(),
        }
    }

    /// Returns the counters of a policy.
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
