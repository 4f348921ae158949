//! Counters of transactions.

use std::collections::BTreeMap;

use crate::message::{NegativeReply, RequestKind};
use crate::rules::AgentIndex;

/// Transactions since the start, by type and result and by agent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransactionCounts {
    accepted: [u64; RequestKind::ALL.len()],
    refused: BTreeMap<(RequestKind, u8), u64>,
    agents: BTreeMap<AgentIndex, AgentCounts>,
}

/// Transactions of one agent about policy rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgentCounts {
    /// Positive replies.
    pub accepted: u64,
    /// Negative replies.
    pub refused: u64,
}

impl TransactionCounts {
    pub(super) fn accept(&mut self, kind: RequestKind, agent: Option<AgentIndex>) {
        let index = RequestKind::ALL.iter().position(|k| *k == kind);
        if let Some(count) = index.and_then(|index| self.accepted.get_mut(index)) {
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

    /// Returns the number of positive replies by type.
    pub fn accepted(&self) -> impl Iterator<Item = (RequestKind, u64)> + '_ {
        RequestKind::ALL.into_iter().zip(self.accepted)
    }

    /// Returns the number of negative replies by type and reply sub-type.
    pub fn refused(&self) -> impl Iterator<Item = (RequestKind, u8, u64)> + '_ {
        let refused = self.refused.iter();
        refused.map(|((kind, code), count)| (*kind, *code, *count))
    }

    /// Returns the transactions by agent.
    pub fn agents(&self) -> impl Iterator<Item = (AgentIndex, AgentCounts)> + '_ {
        self.agents.iter().map(|(agent, counts)| (*agent, *counts))
    }
}
