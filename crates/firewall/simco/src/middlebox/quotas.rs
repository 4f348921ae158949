//! Quotas of agents.

use super::Middlebox;
use crate::backend::Backend;
use crate::message::NegativeReply;
use crate::rules::{AgentIndex, RuleWeight};

impl<B: Backend> Middlebox<B> {
    /// Checks the quotas for another enabling or reserving rule of this weight.
    pub(super) fn check_quota(
        &self,
        agent: AgentIndex,
        weight: RuleWeight,
    ) -> Result<(), NegativeReply> {
        let blocks = self.rules.of_owner_that_block(agent);
        let own = self.rules.of_owner(agent).len() - blocks;
        let all = self.rules.len() - self.rules.disable_rules();
        if own < self.agents.config(agent).max_rules && all < self.config.limits.rules {
            self.check_weight(agent, RuleWeight::default(), weight)
        } else {
            Err(NegativeReply::NoResources)
        }
    }

    /// Checks the quotas for this weight in place of another.
    pub(super) fn check_weight(
        &self,
        agent: AgentIndex,
        without: RuleWeight,
        with: RuleWeight,
    ) -> Result<(), NegativeReply> {
        let config = self.agents.config(agent);
        let held = self.rules.weight_of_owner(agent) - without + with;
        if held.elements <= config.max_elements && held.patterns <= config.max_patterns {
            Ok(())
        } else {
            Err(NegativeReply::NoResources)
        }
    }

    /// Checks the quota for another rule by PDR. It is separate from that of other rules.
    pub(super) fn check_block_quota(&self, agent: AgentIndex) -> Result<(), NegativeReply> {
        let own = self.rules.of_owner_that_block(agent);
        if own < self.agents.config(agent).max_disable_rules
            && self.rules.disable_rules() < self.config.limits.disable_rules
        {
            Ok(())
        } else {
            Err(NegativeReply::NoResources)
        }
    }
}
