//! Queries: PRS and PRL (RFC 4540, sections 8.6 and 8.7).

use super::Middlebox;
use crate::Time;
use crate::backend::Backend;
use crate::message::{
    DisableRequest, EnableReply, EnableStatus, HEADER_LEN, NegativeReply, PolicyRuleId, Reply,
    ReserveReply, RuleList,
};
use crate::rules::{AgentIndex, RuleKind};

/// Octets per rule in a PRL reply.
const LISTED_LEN: usize = 8;

impl<B: Backend> Middlebox<B> {
    pub(super) fn status(
        &self,
        now: Time,
        agent: AgentIndex,
        id: PolicyRuleId,
    ) -> Result<Reply, NegativeReply> {
        let rule = self.rules.get(id).ok_or(NegativeReply::NoSuchRule)?;
        if !self.agents.sees(agent, rule.owner) {
            return Err(NegativeReply::RuleNotAuthorized);
        }
        let owner = self.owner(rule).owner();
        let lifetime = rule.remaining(now);
        Ok(match rule.kind {
            RuleKind::Reserved { reservation } => Reply::ReserveStatus {
                reserved: ReserveReply {
                    rule: id,
                    group: rule.group,
                    lifetime,
                    outside: reservation.outside,
                    inside: reservation.inside,
                },
                owner,
            },
            RuleKind::Enabled {
                parameters,
                internal,
                external,
                reported,
                ..
            } => Reply::EnableStatus(Box::new(EnableStatus {
                enabled: EnableReply {
                    rule: id,
                    group: rule.group,
                    lifetime,
                    outside: reported.outside,
                    inside: reported.inside,
                },
                parameters,
                internal,
                external,
                owner,
            })),
            RuleKind::Disabled {
                internal, external, ..
            } => Reply::DisableStatus {
                rule: id,
                disable: DisableRequest {
                    internal,
                    external,
                    lifetime,
                },
                owner,
            },
        })
    }

    /// Returns the rules that the agent may see, in the order of their identifiers. Counted first, so
    /// that an oversized list costs nothing.
    pub(super) fn list(&self, now: Time, agent: AgentIndex) -> Result<Reply, NegativeReply> {
        let owners: Vec<AgentIndex> = self.agents.visible_owners(agent).collect();
        let counts = owners.iter().map(|owner| self.rules.of_owner(*owner).len());
        let count: usize = counts.sum();
        if HEADER_LEN + count * LISTED_LEN > self.config.limits.max_reply {
            return Err(NegativeReply::ReplyTooBig);
        }
        let mut rules: Vec<PolicyRuleId> = owners
            .into_iter()
            .flat_map(|owner| self.rules.of_owner(owner))
            .collect();
        if self.rules.expired(now).is_some() {
            rules.retain(|id| self.rules.get(*id).is_some_and(|rule| rule.expires > now));
        }
        rules.sort_unstable();
        let list = RuleList::new(rules).ok_or(NegativeReply::ReplyTooBig)?;
        Ok(Reply::List(list))
    }
}
