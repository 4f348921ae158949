//! What agents are told of rules unasked (RFC 4540 sections 5.3.19 and 8.9), and how much of it may
//! wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sessions::State;
use super::{Middlebox, SessionEnd, SessionId};
use crate::backend::Backend;
use crate::message::{Lifetime, Notification, PolicyRuleId};
use crate::rules::AgentIndex;

/// What agents are to be told.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    /// Rules that ended, of which all are told who may see them. Before the others: nothing that came
    /// later in the same call is about them.
    ends: BTreeMap<AgentIndex, Vec<PolicyRuleId>>,
    others: Vec<Announcement>,
}

/// ARE to all open sessions whose agents may see a rule, but one.
#[derive(Clone, Copy, Debug)]
struct Announcement {
    owner: AgentIndex,
    rule: PolicyRuleId,
    lifetime: Lifetime,
    except: Option<SessionId>,
}

impl<B: Backend> Middlebox<B> {
    /// Whether a session has room for the reply to another request, whatever that is: what waits for
    /// its agent is at most half of what may wait. If not, the agent's next message should wait until
    /// the agent has taken something.
    pub fn takes_requests(&self, session: SessionId) -> bool {
        let limits = &self.config.limits;
        let (messages, octets) = self.sessions.queued(session);
        let room = octets.saturating_add(limits.max_reply) <= limits.queued_octets;
        let half = messages <= limits.queued_messages / 2 && octets <= limits.queued_octets / 2;
        messages == 0 || (room && half)
    }

    /// ARE to all open sessions whose agents may see the rule, but one (section 5.3.19).
    pub(super) fn announce(
        &mut self,
        owner: AgentIndex,
        rule: PolicyRuleId,
        lifetime: Lifetime,
        except: Option<SessionId>,
    ) {
        if lifetime == Lifetime(0) && except.is_none() {
            let ends = self.announcements.ends.entry(owner);
            ends.or_default().push(rule);
            return;
        }
        self.announcements.others.push(Announcement {
            owner,
            rule,
            lifetime,
            except,
        });
    }

    /// Tells what was announced. The reply to the request that caused it is queued by now, so that it
    /// leaves also where the rest is more than an agent takes (section 7.5).
    pub(super) fn tell(&mut self) {
        let Announcements { ends, others } = std::mem::take(&mut self.announcements);
        for (owner, rules) in ends {
            let rules: Arc<[PolicyRuleId]> = rules.into();
            let watching: Vec<SessionId> = self.agents.watching(owner).collect();
            for session in watching {
                self.sessions.tell_ends(session, &rules);
                self.check_queue(session);
            }
        }
        for told in others {
            let (rule, lifetime) = (told.rule, told.lifetime);
            let watching: Vec<SessionId> = self.agents.watching(told.owner).collect();
            for session in watching {
                if Some(session) != told.except {
                    let event = Notification::RuleEvent { rule, lifetime };
                    self.sessions.notify(session, rule.0, event);
                    self.check_queue(session);
                }
            }
        }
    }

    /// An agent that doesn't take what is sent loses its session; its rules stay. What waits goes out
    /// before AST (section 7.5), as far as the agent takes it.
    pub(super) fn check_queue(&mut self, session: SessionId) {
        let open = self.sessions.get(session).map(|s| &s.state) != Some(&State::Ended);
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
