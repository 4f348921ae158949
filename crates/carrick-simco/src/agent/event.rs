//! What an agent tells.

use core::fmt;
use std::time::Duration;

use crate::message::{
    Capabilities, Lifetime, NegativeReply, PolicyRuleId, Reply, RequestKind, TransactionId,
};
use crate::session::Identity;

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

/// Why a session is over. As text it says whose fault that is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// This side asked for it.
    Requested,
    /// AST: the middlebox ended it.
    Terminated,
    /// BFM: the middlebox says that what it got was no message.
    BadlyFormed,
    /// The middlebox refused the session.
    Refused(NegativeReply),
    /// The middlebox did not prove that it has the agent's key.
    MiddleboxNotAuthenticated,
    /// The middlebox has another name than the one that was asked for: this one, which it proved where
    /// a proof was asked for.
    OtherMiddlebox(Identity),
    /// The middlebox sent what is no message, or none that fits.
    Misbehaved,
    /// SE, SA or ST was not answered in time.
    NoAnswer,
    /// The connection is gone.
    Disconnected,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requested => "this side ended it",
            Self::Terminated => "the middlebox ended it",
            Self::BadlyFormed => "the middlebox could not read what was sent",
            Self::Refused(NegativeReply::AuthenticationFailed) => {
                "the middlebox does not take the agent's name and key, or wants them where none are given"
            }
            Self::Refused(reply) => {
                return write!(f, "the middlebox refused it: {}", reply.text());
            }
            Self::MiddleboxNotAuthenticated => {
                "the middlebox did not prove that it has the key of this agent: check the agent's name and key, and who answers there"
            }
            Self::OtherMiddlebox(name) => {
                return write!(
                    f,
                    "the middlebox that answers is \"{name}\", and another one was asked for: check its name, and who answers there"
                );
            }
            Self::Misbehaved => "the middlebox sent what is no answer",
            Self::NoAnswer => "the middlebox did not answer",
            Self::Disconnected => "the connection broke",
        })
    }
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
