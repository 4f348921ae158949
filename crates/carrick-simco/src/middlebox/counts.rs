//! How many transactions of each type had which result.

use std::collections::BTreeMap;

use crate::message::{NegativeReply, RequestKind};
use crate::rules::AgentIndex;

/// Transactions since the start, by type and result, and by agent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransactionCounts {
    accepted: [u64; RequestKind::ALL.len()],
    refused: BTreeMap<(RequestKind, u8), u64>,
    agents: BTreeMap<AgentIndex, AgentCounts>,
}

/// Transactions of one agent about policy rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgentCounts {
    /// With a positive reply.
    pub accepted: u64,
    /// With a negative reply.
    pub refused: u64,
}

impl TransactionCounts {
    pub(super) fn accept(&mut self, kind: RequestKind, agent: Option<AgentIndex>) {
        let place = RequestKind::ALL.iter().position(|k| *k == kind);
        if let Some(count) = place.and_then(|place| self.accepted.get_mut(place)) {
            *count += 1;
        }
        if let Some(agent) = agent {
            self.agents.entry(agent).or_default().accepted += 1;
        }
    }

    pub(super) fn refuse(
        &mut self,
        kind: RequestKind,
        reply: NegativeReply,
        agent: Option<AgentIndex>,
    ) {
        *self.refused.entry((kind, reply.code())).or_default() += 1;
        if let Some(agent) = agent {
            self.agents.entry(agent).or_default().refused += 1;
        }
    }

    /// Requests of each type that got a positive reply.
    pub fn accepted(&self) -> impl Iterator<Item = (RequestKind, u64)> + '_ {
        RequestKind::ALL.into_iter().zip(self.accepted)
    }

    /// Requests that got a negative reply, by type and by the reply's sub-type.
    pub fn refused(&self) -> impl Iterator<Item = (RequestKind, u8, u64)> + '_ {
        let refused = self.refused.iter();
        refused.map(|((kind, code), count)| (*kind, *code, *count))
    }

    /// Those of agents in open sessions.
    pub fn agents(&self) -> impl Iterator<Item = (AgentIndex, AgentCounts)> + '_ {
        self.agents.iter().map(|(agent, counts)| (*agent, *counts))
    }
}
