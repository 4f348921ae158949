//! Events of a middlebox, for logs and for the stored state.

use super::SessionId;
use crate::backend::BackendError;
use crate::message::{Lifetime, NegativeReply, PolicyRuleId, Request, RequestKind};
use crate::rules::Rule;
use crate::session::Identity;

/// Agent that made a request, and its session. Not always the owner of the rule concerned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Requester {
    /// Session of the request.
    pub session: SessionId,
    /// Name of the agent.
    pub agent: Identity,
}

/// Event of a middlebox.
#[derive(Clone, PartialEq, Debug)]
pub enum MiddleboxEvent {
    /// A session was opened.
    SessionOpened {
        /// The session.
        session: SessionId,
        /// Name of the agent.
        agent: Identity,
    },
    /// An agent failed to authenticate itself or is not allowed.
    AuthenticationFailed {
        /// The session.
        session: SessionId,
        /// Claimed name, if any.
        claimed: Option<Identity>,
    },
    /// A session, or an attempt to open one, has ended.
    SessionClosed {
        /// The session.
        session: SessionId,
        /// Name of the agent, if the session was open.
        agent: Option<Identity>,
        /// Reason of the end.
        why: SessionEnd,
    },
    /// A request about policy rules got a negative reply.
    Refused {
        /// Agent that made the request.
        by: Requester,
        /// The request.
        request: Request,
        /// The reply.
        reply: NegativeReply,
        /// Error of the packet filter or translator, if that was the cause.
        failure: Option<BackendError>,
    },
    /// A rule was created, or a reservation became an enable rule.
    RuleCreated {
        /// The rule.
        rule: Rule,
        /// Granted lifetime.
        lifetime: Lifetime,
        /// Request that created it: PRR, PER, PEA or PDR.
        request: RequestKind,
        /// Agent that requested it.
        by: Requester,
    },
    /// A rule's lifetime changed.
    LifetimeChanged {
        /// The rule.
        rule: Rule,
        /// Granted lifetime.
        lifetime: Lifetime,
        /// Agent that requested it.
        by: Requester,
    },
    /// A rule has ended.
    RuleEnded {
        /// The rule.
        rule: Rule,
        /// Reason of the end.
        reason: EndReason,
        /// Agent whose request ended it; `None` if there was none.
        by: Option<Requester>,
    },
    /// The packet filter did not remove the elements of a rule, or keeps them longer than the rule;
    /// its own timeout will remove them.
    BackendFailed {
        /// Rule that has ended or was shortened.
        rule: PolicyRuleId,
        /// Owner of the rule.
        owner: Identity,
        /// Error of the packet filter.
        error: BackendError,
    },
}

/// Reason for the end of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionEnd {
    /// Requested by the agent.
    Requested,
    /// Terminated by the middlebox.
    Terminated,
    /// The connection was lost.
    Disconnected,
    /// SE or SA was refused with this reply.
    Refused(NegativeReply),
    /// Malformed or unexpected message.
    ProtocolViolation,
    /// Not opened in time.
    NotEstablished,
    /// Evicted as the oldest of too many half-open connections.
    Evicted,
    /// The queue of messages to the agent exceeded its limit.
    Overrun,
}

/// Reason for the end of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// Its lifetime ended.
    Expired,
    /// PLC with a lifetime of zero.
    Requested,
    /// Conflict with the PDR that created this rule.
    Disabled(PolicyRuleId),
    /// Ended by the administrator of the middlebox.
    Administrator,
}
