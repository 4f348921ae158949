//! Rules whose end was told while requests are under way that may tell of their life yet.

use std::collections::{BTreeMap, VecDeque};

use crate::message::PolicyRuleId;

/// Ends that may have overtaken replies.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// With the number of the last request that had been made.
    rules: BTreeMap<PolicyRuleId, u64>,
    /// The same in order of these numbers.
    order: VecDeque<(u64, PolicyRuleId)>,
}

impl Ended {
    /// The rule has ended; requests up to this number may be answered as if it had not. Of too many,
    /// the oldest are forgotten.
    pub(super) fn add(&mut self, rule: PolicyRuleId, made: u64, most: usize) {
        self.rules.insert(rule, made);
        self.order.push_back((made, rule));
        while self.order.len() > most {
            self.forget_first();
        }
    }

    /// All requests before this number are answered.
    pub(super) fn answered_before(&mut self, number: u64) {
        while self.order.front().is_some_and(|(made, _)| *made < number) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((made, rule)) = self.order.pop_front()
            && self.rules.get(&rule) == Some(&made)
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
