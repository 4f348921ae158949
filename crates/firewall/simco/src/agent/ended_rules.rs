//! Rules that have ended while earlier requests are outstanding, whose replies may still report them.

use std::collections::{BTreeMap, VecDeque};

use crate::message::PolicyRuleId;

/// Ends of rules that may have overtaken replies.
#[derive(Debug, Default)]
pub(super) struct EndedRules {
    /// Rules with the number of the last request at that time.
    rules: BTreeMap<PolicyRuleId, u64>,
    /// The same in the order of these numbers.
    order: VecDeque<(u64, PolicyRuleId)>,
}

impl EndedRules {
    /// Records the end of a rule; requests up to this number may be answered as if it had not ended.
    /// Beyond `most`, the oldest are dropped.
    pub(super) fn add(&mut self, rule: PolicyRuleId, last_request: u64, most: usize) {
        self.rules.insert(rule, last_request);
        self.order.push_back((last_request, rule));
        while self.order.len() > most {
            self.remove_first();
        }
    }

    /// Removes ends that no outstanding request concerns.
    pub(super) fn answered_before(&mut self, number: u64) {
        while self
            .order
            .front()
            .is_some_and(|(last_request, _)| *last_request < number)
        {
            self.remove_first();
        }
    }

    fn remove_first(&mut self) {
        if let Some((last_request, rule)) = self.order.pop_front()
            && self.rules.get(&rule) == Some(&last_request)
        {
            self.rules.remove(&rule);
        }
    }

    pub(super) fn contains(&self, rule: PolicyRuleId) -> bool {
        self.rules.contains_key(&rule)
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
        self.order.clear();
    }
}
