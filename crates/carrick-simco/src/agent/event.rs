//! What an agent tells.

use std::time::Duration;

use crate::message::{
    Capabilities, Lifetime, NegativeReply, PolicyRuleId, Reply, RequestKind, TransactionId,
};

/// Something that happened in a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentEvent {
    /// The session is open; this is what the middlebox can do.
    Opened(Capabilities),
    /// A request was answered.
    Reply {
        /// Which request.
        transaction: TransactionId,
        /// Its kind.
        request: RequestKind,
        /// The rule that it was about.
        rule: Option<PolicyRuleId>,
        /// The answer.
        reply: Reply,
        /// From [`super::Agent::submit`] to the answer.
        elapsed: Duration,
    },
    /// A request was not answered in time. What became of it is not known.
    TimedOut {
        /// Which request.
        transaction: TransactionId,
        /// Its kind.
        request: RequestKind,
        /// The rule that it was about.
        rule: Option<PolicyRuleId>,
    },
    /// An answer to a request that had been given up, or to none.
    LateReply {
        /// Which request.
        transaction: TransactionId,
        /// The answer.
        reply: Reply,
    },
    /// The session ended before this request was answered. What became of it is not known.
    Lost {
        /// Which request.
        transaction: TransactionId,
        /// Its kind.
        request: RequestKind,
        /// The rule that it was about.
        rule: Option<PolicyRuleId>,
    },
    /// ARE: a rule was created, changed or, with a lifetime of zero, has ended. It may overtake a
    /// reply that tells of the rule: then the end is told again after that reply. One with a lifetime
    /// may come after the reply with which the agent ended the rule, and says nothing then.
    Rule {
        /// Which rule.
        rule: PolicyRuleId,
        /// What is left of its life.
        lifetime: Lifetime,
    },
    /// The session is over; the connection is to be closed.
    Closed(CloseReason),
}

/// Why a session is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// This side asked for it.
    Requested,
    /// AST: the middlebox ended it.
    Terminated,
    /// BFM: the middlebox says that what it got was no message.
    BadlyFormed,
    /// The middlebox refused the session.
    Refused(NegativeReply),
    /// The middlebox could not prove that it is the right one.
    MiddleboxNotAuthenticated,
    /// The middlebox sent what is no message, or none that fits.
    Misbehaved,
    /// SE, SA or ST was not answered in time.
    NoAnswer,
    /// The connection is gone.
    Disconnected,
}

/// Why a request was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubmitError {
    /// The session is not open.
    #[error("the session is not open")]
    NotOpen,
    /// As many requests as may be have no answer yet.
    #[error("too many requests have no answer yet")]
    TooMany,
    /// SE, SA and ST are made by the agent itself.
    #[error("session control is the agent's own")]
    SessionControl,
}
