//! Agents and their access to each other's rules.

use std::collections::{BTreeMap, BTreeSet};

use super::SessionId;
use super::config::{AgentConfig, RuleAccess};
use crate::rules::AgentIndex;
use crate::session::Identity;

#[derive(Debug)]
/// Agents of the configuration, and removed ones that still own rules.
pub(super) struct Agents {
    agents: Vec<Agent>,
    by_name: BTreeMap<Identity, AgentIndex>,
}

#[derive(Debug)]
struct Agent {
    config: AgentConfig,
    /// Agents that may see its rules.
    watchers: Vec<AgentIndex>,
    /// Sessions in state OPEN.
    sessions: BTreeSet<SessionId>,
}

/// Returns whether an agent may see rules of another. Control includes seeing.
fn sees(agent: &AgentConfig, owner: &Identity) -> bool {
    let covers = |access: &RuleAccess| match access {
        RuleAccess::All => true,
        RuleAccess::Own => agent.identity == *owner,
        RuleAccess::Of(names) => agent.identity == *owner || names.contains(owner),
    };
    covers(&agent.sees) || covers(&agent.controls)
}

impl Agents {
    pub(super) fn new(configs: Vec<AgentConfig>) -> Self {
        let names = configs.iter().map(|c| c.identity.clone());
        let by_name: BTreeMap<_, _> = names.zip((0..).map(AgentIndex)).collect();
        let watchers = |owner: &AgentConfig| {
            let watch = |c: &&AgentConfig| sees(c, &owner.identity);
            let names = configs.iter().filter(watch).map(|c| &c.identity);
            names
                .filter_map(|name| by_name.get(name).copied())
                .collect()
        };
        let watchers: Vec<Vec<AgentIndex>> = configs.iter().map(watchers).collect();
        let agents = configs.into_iter().zip(watchers);
        let agents = agents.map(|(config, watchers)| Agent {
            config,
            watchers,
            sessions: BTreeSet::new(),
        });
        Self {
            agents: agents.collect(),
            by_name,
        }
    }

    /// Returns all agents with the number of their open sessions.
    pub(super) fn iter(&self) -> impl Iterator<Item = (AgentIndex, &Identity, usize)> {
        let agents = (0..).map(AgentIndex).zip(&self.agents);
        agents.map(|(index, agent)| (index, &agent.config.identity, agent.sessions.len()))
    }

    /// Replaces the agents. Existing ones keep their index, which rules refer to; removed ones lose
    /// all rights. Returns the sessions of removed agents.
    pub(super) fn replace(&mut self, configs: Vec<AgentConfig>) -> Vec<SessionId> {
        let mut coming: BTreeMap<Identity, AgentConfig> = BTreeMap::new();
        let names: Vec<Identity> = configs.iter().map(|c| c.identity.clone()).collect();
        coming.extend(configs.into_iter().map(|c| (c.identity.clone(), c)));
        let mut merged = Vec::new();
        let mut orphans = Vec::new();
        for agent in &self.agents {
            let name = &agent.config.identity;
            merged.push(coming.remove(name).unwrap_or_else(|| {
                orphans.extend(&agent.sessions);
                AgentConfig::without_rights(name.clone())
            }));
        }
        let new = names.iter().filter_map(|name| coming.remove(name));
        merged.extend(new);
        let mut next = Self::new(merged);
        for (agent, old) in next.agents.iter_mut().zip(&mut self.agents) {
            agent.sessions = std::mem::take(&mut old.sessions);
        }
        *self = next;
        orphans
    }

    /// Returns the agent of this name. An unknown one is added without rights, so that its rules stay
    /// until they expire.
    pub(super) fn find_or_add_without_rights(&mut self, name: &Identity) -> AgentIndex {
        if let Some(known) = self.find(name) {
            return known;
        }
        let index = AgentIndex(self.agents.len() as u32);
        self.by_name.insert(name.clone(), index);
        let config = AgentConfig::without_rights(name.clone());
        let agents = self.agents.iter().map(|agent| &agent.config);
        let all = agents.chain([&config]).enumerate();
        let watchers = all.filter(|(_, other)| sees(other, name));
        let watchers = watchers.map(|(place, _)| AgentIndex(place as u32));
        let watchers = watchers.collect();
        self.agents.push(Agent {
            config,
            watchers,
            sessions: BTreeSet::new(),
        });
        index
    }

    pub(super) fn find(&self, name: &Identity) -> Option<AgentIndex> {
        self.by_name.get(name).copied()
    }

    /// Returns the configuration of an agent. Indices come from [`Self::find`] only.
    pub(super) fn config(&self, agent: AgentIndex) -> &AgentConfig {
        &self.agents[agent.0 as usize].config
    }

    pub(super) fn sessions(&self, agent: AgentIndex) -> &BTreeSet<SessionId> {
        &self.agents[agent.0 as usize].sessions
    }

    pub(super) fn session_opened(&mut self, agent: AgentIndex, session: SessionId) {
        self.agents[agent.0 as usize].sessions.insert(session);
    }

    pub(super) fn session_closed(&mut self, agent: AgentIndex, session: SessionId) {
        self.agents[agent.0 as usize].sessions.remove(&session);
    }

    /// Returns whether `agent` may see rules of `owner`.
    pub(super) fn sees(&self, agent: AgentIndex, owner: AgentIndex) -> bool {
        self.agents[owner.0 as usize].watchers.contains(&agent)
    }

    /// Returns whether `agent` may change rules of `owner`.
    pub(super) fn controls(&self, agent: AgentIndex, owner: AgentIndex) -> bool {
        agent == owner
            || match &self.config(agent).controls {
                RuleAccess::Own => false,
                RuleAccess::All => true,
                RuleAccess::Of(names) => names.contains(&self.config(owner).identity),
            }
    }

    /// Returns all owners whose rules `agent` may see.
    pub(super) fn visible_owners(
        &self,
        agent: AgentIndex,
    ) -> impl Iterator<Item = AgentIndex> + '_ {
        let all = (0..self.agents.len() as u32).map(AgentIndex);
        all.filter(move |owner| self.sees(agent, *owner))
    }

    /// Returns the open sessions of all agents that may see rules of `owner`.
    pub(super) fn sessions_that_see(
        &self,
        owner: AgentIndex,
    ) -> impl Iterator<Item = SessionId> + '_ {
        let watchers = self.agents[owner.0 as usize].watchers.iter();
        watchers.flat_map(|agent| self.sessions(*agent).iter().copied())
    }
}
