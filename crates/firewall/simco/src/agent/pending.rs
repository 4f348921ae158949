//! Outstanding requests and their matching replies.

use crate::Time;
use crate::message::{Lifetime, PolicyRuleId, Reply, Request, RequestKind};

/// Outstanding request.
#[derive(Clone, Debug)]
pub(super) struct PendingRequest {
    pub(super) kind: RequestKind,
    pub(super) rule: Option<PolicyRuleId>,
    pub(super) sent: Time,
    /// Number of the request, counted by this agent.
    pub(super) number: u64,
    /// True if it is a PLC with a lifetime of zero.
    ends: bool,
}

impl PendingRequest {
    pub(super) fn new(now: Time, number: u64, request: &Request) -> Self {
        Self {
            number,
            kind: request.kind(),
            rule: request.rule(),
            sent: now,
            ends: matches!(
                request,
                Request::ChangeLifetime {
                    lifetime: Lifetime(0),
                    ..
                }
            ),
        }
    }

    /// Returns whether a reply matches this request and its rule (RFC 4540, section 5.3).
    pub(super) fn matches(&self, reply: &Reply) -> bool {
        match (self.kind, reply) {
            // Replies of session control are checked by their handlers.
            (RequestKind::Establish | RequestKind::Authenticate | RequestKind::Terminate, _)
            | (_, Reply::Negative(_))
            | (RequestKind::Reserve, Reply::Reserved(_))
            | (RequestKind::Enable, Reply::Enabled(_))
            | (RequestKind::Disable, Reply::Disabled { .. })
            | (RequestKind::ChangeLifetime, Reply::Deleted)
            | (RequestKind::List, Reply::List(_)) => true,
            (RequestKind::ChangeLifetime, Reply::LifetimeChanged(lifetime)) => {
                !self.ends && *lifetime != Lifetime(0)
            }
            (RequestKind::EnableReserved, Reply::Enabled(enabled)) => self.concerns(enabled.rule),
            (RequestKind::Status, Reply::ReserveStatus { reserved, .. }) => {
                self.concerns(reserved.rule)
            }
            (RequestKind::Status, Reply::EnableStatus(status)) => {
                self.concerns(status.enabled.rule)
            }
            (RequestKind::Status, Reply::DisableStatus { rule, .. }) => self.concerns(*rule),
            _ => false,
        }
    }

    fn concerns(&self, rule: PolicyRuleId) -> bool {
        self.rule == Some(rule)
    }
}
