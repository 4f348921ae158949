//! What happens at a middlebox, for logs and for a state that outlives it.

use super::SessionId;
use crate::backend::BackendError;
use crate::message::{NegativeReply, PolicyRuleId, RequestKind};
use crate::rules::Rule;
use crate::session::Identity;

/// Something that happened.
#[derive(Clone, PartialEq, Debug)]
pub enum MiddleboxEvent {
    /// An agent has a session.
    SessionOpened {
        /// The session.
        session: SessionId,
        /// Who.
        agent: Identity,
    },
    /// Somebody could not prove who it is, or may not come.
    AuthenticationFailed {
        /// The session.
        session: SessionId,
        /// Who it said it is, if it said so.
        claimed: Option<Identity>,
    },
    /// A session or an attempt at one is over.
    SessionClosed {
        /// The session.
        session: SessionId,
        /// Who, if it was open.
        agent: Option<Identity>,
        /// Why.
        why: SessionEnd,
    },
    /// A request about policy rules got a negative reply.
    Refused {
        /// The session.
        session: SessionId,
        /// Whose request.
        agent: Identity,
        /// Its type.
        request: RequestKind,
        /// The reply.
        reply: NegativeReply,
    },
    /// A rule was created, or a reservation became an enable rule.
    RuleCreated(Rule),
    /// A rule's lifetime changed.
    LifetimeChanged(Rule),
    /// A rule has ended.
    RuleEnded {
        /// What it was.
        rule: Rule,
        /// Why.
        reason: EndReason,
    },
    /// The packet filter did not remove what a rule had let pass; its own timeout will.
    BackendFailed {
        /// The rule, which has ended.
        rule: PolicyRuleId,
        /// What the packet filter says.
        error: BackendError,
    },
}

/// Why a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionEnd {
    /// The agent asked for it.
    Requested,
    /// The middlebox wanted it.
    Terminated,
    /// The connection was gone.
    Disconnected,
    /// SE was refused, or SA.
    Refused,
    /// What came was no message, or none that is allowed there.
    Misbehaved,
    /// It took too long to open.
    NotEstablished,
    /// Too many connections had no session; this was the oldest.
    CrowdedOut,
    /// The agent didn't take what was sent.
    Overrun,
}

/// Why a rule ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// Its lifetime was over.
    Expired,
    /// By PLC with a lifetime of zero.
    Requested,
    /// A PDR that conflicts.
    Disabled,
    /// The middlebox's administrator.
    Administrator,
}
