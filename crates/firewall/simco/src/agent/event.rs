//! Events of an agent.

use core::fmt;
use std::time::Duration;

use crate::message::{
    Capabilities, Lifetime, NegativeReply, PolicyRuleId, Reply, RequestKind, TransactionId,
};
use crate::session::Identity;

/// Event of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentEvent {
    /// The session is open, with these capabilities of the middlebox.
    Opened(Capabilities),
    /// A request was answered.
    Reply {
        /// Transaction of the request.
        transaction: TransactionId,
        /// Kind of request.
        request: RequestKind,
        /// Rule that the request concerns.
        rule: Option<PolicyRuleId>,
        /// The reply.
        reply: Reply,
        /// Time from [`super::Agent::submit`] to the reply.
        elapsed: Duration,
    },
    /// A request was not answered in time. Its outcome is unknown.
    TimedOut {
        /// Transaction of the request.
        transaction: TransactionId,
        /// Kind of request.
        request: RequestKind,
        /// Rule that the request concerns.
        rule: Option<PolicyRuleId>,
    },
    /// Reply to a request that had timed out, or to none.
    LateReply {
        /// Transaction of the reply.
        transaction: TransactionId,
        /// The reply.
        reply: Reply,
    },
    /// The session ended before this request was answered. Its outcome is unknown.
    Lost {
        /// Transaction of the request.
        transaction: TransactionId,
        /// Kind of request.
        request: RequestKind,
        /// Rule that the request concerns.
        rule: Option<PolicyRuleId>,
    },
    /// ARE: a rule was created, changed or, with a lifetime of zero, ended. An end that overtakes a
    /// reply about the rule is reported again after that reply. A lifetime that arrives after the
    /// reply with which the agent ended the rule has no meaning.
    Rule {
        /// Identifier of the rule.
        rule: PolicyRuleId,
        /// Remaining lifetime.
        lifetime: Lifetime,
    },
    /// The session has ended; the connection is to be closed.
    Closed(CloseReason),
}

/// Reason for the end of a session. Its text names the cause and the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// Requested by this side.
    Requested,
    /// AST: terminated by the middlebox.
    Terminated,
    /// BFM: the middlebox received a badly formed message.
    BadlyFormed,
    /// The middlebox refused the session.
    Refused(NegativeReply),
    /// The middlebox failed to authenticate itself.
    MiddleboxNotAuthenticated,
    /// The middlebox has this name instead of the expected one. The name is authenticated if
    /// authentication was requested.
    OtherMiddlebox(Identity),
    /// The middlebox sent a malformed or mismatched message.
    ProtocolViolation,
    /// SE, SA or ST was not answered in time.
    NoAnswer,
    /// The connection was lost.
    Disconnected,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requested => "terminated by this agent",
            Self::Terminated => "terminated by the middlebox",
            Self::BadlyFormed => "the middlebox reported a badly formed message",
            Self::Refused(NegativeReply::AuthenticationFailed) => {
                "authentication failed: the middlebox does not accept the name and key of the agent, or requires them"
            }
            Self::Refused(reply) => {
                return write!(f, "refused by the middlebox: {}", reply.text());
            }
            Self::MiddleboxNotAuthenticated => {
                "the middlebox failed to authenticate itself: check the name and key of the agent and the address of the middlebox"
            }
            Self::OtherMiddlebox(name) => {
                return write!(
                    f,
                    "the middlebox has the name \"{name}\" instead of the expected one: check its name and address"
                );
            }
            Self::ProtocolViolation => "protocol violation by the middlebox",
            Self::NoAnswer => "the middlebox did not answer",
            Self::Disconnected => "connection lost",
        })
    }
}

/// Reason for which a request was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubmitError {
    /// The session is not open.
    #[error("the session is not open")]
    NotOpen,
    /// The limit of outstanding requests is reached.
    #[error("too many outstanding requests")]
    TooMany,
    /// SE, SA and ST are sent by the agent itself.
    #[error("session control messages are sent by the agent itself")]
    SessionControl,
}
