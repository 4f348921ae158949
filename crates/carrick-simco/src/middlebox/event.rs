//! What happens at a middlebox, for logs and for a state that outlives it.

use super::SessionId;
use crate::backend::BackendError;
use crate::message::{Lifetime, NegativeReply, PolicyRuleId, Request, RequestKind};
use crate::rules::Rule;
use crate::session::Identity;

/// Who did something, and over which session. Not always the owner of the rule that it was done to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Actor {
    /// Over which session.
    pub session: SessionId,
    /// Who.
    pub agent: Identity,
}

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
        /// Whose request.
        by: Actor,
        /// What was asked for.
        request: Request,
        /// The reply.
        reply: NegativeReply,
        /// What the packet filter or the translator says, if the request failed there.
        failure: Option<BackendError>,
    },
    /// A rule was created, or a reservation became an enable rule.
    RuleCreated {
        /// What it is.
        rule: Rule,
        /// The lifetime that was granted.
        lifetime: Lifetime,
        /// The request that made it: PRR, PER, PEA or PDR.
        request: RequestKind,
        /// Who asked for it.
        by: Actor,
    },
    /// A rule's lifetime changed.
    LifetimeChanged {
        /// What it is.
        rule: Rule,
        /// The lifetime that was granted.
        lifetime: Lifetime,
        /// Who asked for it.
        by: Actor,
    },
    /// A rule has ended.
    RuleEnded {
        /// What it was.
        rule: Rule,
        /// Why.
        reason: EndReason,
        /// Who asked for what ended it; `None` if nobody did.
        by: Option<Actor>,
    },
    /// The packet filter did not remove what a rule had let pass, or keeps it for longer than the
    /// rule lives; its own timeout will end it.
    BackendFailed {
        /// The rule, which has ended or was shortened.
        rule: PolicyRuleId,
        /// Whose it was.
        owner: Identity,
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
    /// SE was refused, or SA, with this reply.
    Refused(NegativeReply),
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
    /// A PDR that conflicts: this rule.
    Disabled(PolicyRuleId),
    /// The middlebox's administrator.
    Administrator,
}
