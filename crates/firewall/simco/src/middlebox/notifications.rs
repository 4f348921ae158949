//! Notifications about rules (RFC 4540, sections 5.3.19 and 8.9), and the limit of queued messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sessions::SessionState;
use super::{Middlebox, SessionEnd, SessionId};
use crate::backend::Backend;
use crate::message::{Lifetime, Notification, PolicyRuleId};
use crate::rules::AgentIndex;

/// Notifications to be queued.
#[derive(Debug, Default)]
pub(super) struct PendingNotifications {
    /// Ended rules, reported to all agents that may see them, before the other notifications. Later
    /// events of the same call do not concern them.
    ends: BTreeMap<AgentIndex, Vec<PolicyRuleId>>,
    others: Vec<RuleEvent>,
}

/// ARE to all open sessions whose agents may see a rule, except one.
#[derive(Clone, Copy, Debug)]
struct RuleEvent {
    owner: AgentIndex,
    rule: PolicyRuleId,
    lifetime: Lifetime,
    except: Option<SessionId>,
}

impl<B: Backend> Middlebox<B> {
    /// Returns whether another request of a session may be handled: at most half of the queue limit is
    /// used. Otherwise the driver delays the agent's next message until the agent has read some.
    pub fn accepts_requests(&self, session: SessionId) -> bool {
        let limits = &self.config.limits;
        let (messages, octets) = self.sessions.queued(session);
        let room = octets.saturating_add(limits.max_reply) <= limits.queued_octets;
        let half = messages <= limits.queued_messages / 2 && octets <= limits.queued_octets / 2;
        messages == 0 || (room && half)
    }

    /// Records an ARE to all open sessions whose agents may see the rule, except one (RFC 4540,
    /// section 5.3.19).
    pub(super) fn record_rule_event(
        &mut self,
        owner: AgentIndex,
        rule: PolicyRuleId,
        lifetime: Lifetime,
        except: Option<SessionId>,
    ) {
        if lifetime == Lifetime(0) && except.is_none() {
            let ends = self.notifications.ends.entry(owner);
            ends.or_default().push(rule);
            return;
        }
        self.notifications.others.push(RuleEvent {
            owner,
            rule,
            lifetime,
            except,
        });
    }

    /// Queues the recorded notifications. The reply to the request that caused them is queued already,
    /// so that it is sent even if the rest exceeds the limit (RFC 4540, section 7.5).
    pub(super) fn queue_notifications(&mut self) {
        let PendingNotifications { ends, others } = std::mem::take(&mut self.notifications);
        for (owner, rules) in ends {
            let rules: Arc<[PolicyRuleId]> = rules.into();
            let sessions: Vec<SessionId> = self.agents.sessions_that_see(owner).collect();
            for session in sessions {
                self.sessions.queue_ends(session, &rules);
                self.check_queue(session);
            }
        }
        for event in others {
            let (rule, lifetime) = (event.rule, event.lifetime);
            let sessions: Vec<SessionId> = self.agents.sessions_that_see(event.owner).collect();
            for session in sessions {
                if Some(session) != event.except {
                    let event = Notification::RuleEvent { rule, lifetime };
                    self.sessions.notify(session, rule.0, event);
                    self.check_queue(session);
                }
            }
        }
    }

    /// Ends a session whose queue exceeds the limit; its rules stay. Queued messages are sent before
    /// AST (RFC 4540, section 7.5), as far as the agent reads.
    pub(super) fn check_queue(&mut self, session: SessionId) {
        let open = self.sessions.get(session).map(|s| &s.state) != Some(&SessionState::Ended);
        let (messages, octets) = self.sessions.queued(session);
        let limits = &self.config.limits;
        let full =
            messages > limits.queued_messages || (messages > 1 && octets > limits.queued_octets);
        if open && full {
            self.stats.overrun += 1;
            self.sessions
                .notify(session, 0, Notification::SessionTerminated);
            self.end_session(session, SessionEnd::Overrun);
        }
    }
}
