//! How much agents may have.

use super::Middlebox;
use crate::backend::Backend;
use crate::message::NegativeReply;
use crate::rules::{AgentIndex, Weight};

impl<B: Backend> Middlebox<B> {
    /// There is room for another rule of the agent that lets pass or reserves, with this weight.
    pub(super) fn check_quota(
        &self,
        agent: AgentIndex,
        weight: Weight,
    ) -> Result<(), NegativeReply> {
        let blocks = self.rules.of_owner_that_block(agent);
        let own = self.rules.of_owner(agent).len() - blocks;
        let all = self.rules.len() - self.rules.disable_rules();
        if own < self.agents.config(agent).max_rules && all < self.config.limits.rules {
            self.check_weight(agent, Weight::default(), weight)
        } else {
            Err(NegativeReply::NoResources)
        }
    }

    /// There is room for this weight of the agent, in the place of another.
    pub(super) fn check_weight(
        &self,
        agent: AgentIndex,
        without: Weight,
        with: Weight,
    ) -> Result<(), NegativeReply> {
        let config = self.agents.config(agent);
        let held = self.rules.weight_of_owner(agent) - without + with;
        if held.elements <= config.max_elements && held.patterns <= config.max_patterns {
            Ok(())
        } else {
            Err(NegativeReply::NoResources)
        }
    }

    /// There is room for another rule of the agent that blocks. Such have places of their own, which no
    /// rule that lets pass can take.
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
