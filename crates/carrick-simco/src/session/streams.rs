//! The stream pairs of SIMCO over SCTP: stream i one way belongs to stream i the other way. Over
//! TCP there is one pair.

use std::collections::BTreeMap;

use crate::message::PolicyRuleId;

/// What an agent knows of the stream pairs: how many there are, and which rule lives on which.
///
/// All transactions of a policy rule use the stream on which the reply came that created it, so that
/// they stay in order; a request for a new rule takes the next stream in turn.
#[derive(Clone, Debug)]
pub struct StreamPairs {
    count: u16,
    turn: u16,
    bound: BTreeMap<PolicyRuleId, u16>,
    limit: usize,
}

impl StreamPairs {
    /// So many pairs, at least one, and so many bindings at most.
    pub fn new(count: u16, limit: usize) -> Self {
        Self {
            count: count.max(1),
            turn: 0,
            bound: BTreeMap::new(),
            limit,
        }
    }

    /// The number of pairs.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Another number of pairs, on a new transport connection: what was bound no longer is.
    pub fn restart(&mut self, count: u16) {
        self.count = count.max(1);
        self.turn = 0;
        self.bound.clear();
    }

    /// The stream of a request that is about no rule yet: the next in turn.
    pub fn take_turn(&mut self) -> u16 {
        let stream = self.turn % self.count;
        self.turn = (stream + 1) % self.count;
        stream
    }

    /// The stream of a request about a rule. One that is not known gets the next in turn, and keeps
    /// it.
    pub fn of(&mut self, rule: PolicyRuleId) -> u16 {
        if let Some(stream) = self.bound.get(&rule) {
            return *stream;
        }
        let stream = self.take_turn();
        self.bind(rule, stream);
        stream
    }

    /// The reply that created the rule came on this stream; a stream without a pair stands for one
    /// that has. When as many rules are bound as may be, the one with the smallest identifier is
    /// forgotten.
    pub fn bind(&mut self, rule: PolicyRuleId, stream: u16) {
        self.bound.insert(rule, stream % self.count);
        while self.bound.len() > self.limit {
            self.bound.pop_first();
        }
    }

    /// The rule has ended.
    pub fn release(&mut self, rule: PolicyRuleId) {
        self.bound.remove(&rule);
    }

    /// The number of rules that are bound.
    pub fn bound(&self) -> usize {
        self.bound.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_rules_take_turns_and_keep_their_stream() {
        let mut pairs = StreamPairs::new(3, 100);
        assert_eq!([(); 4].map(|()| pairs.take_turn()), [0, 1, 2, 0]);
        pairs.bind(PolicyRuleId(9), 2);
        assert_eq!([(); 3].map(|()| pairs.of(PolicyRuleId(9))), [2, 2, 2]);
        let unknown = pairs.of(PolicyRuleId(10));
        assert_eq!(pairs.take_turn(), (unknown + 1) % 3);
        assert_eq!(pairs.of(PolicyRuleId(10)), unknown, "remembered");
        pairs.release(PolicyRuleId(9));
        assert_eq!(pairs.bound(), 1);
    }

    #[test]
    fn bindings_are_bounded_and_end_with_the_connection() {
        let mut pairs = StreamPairs::new(0, 10);
        assert_eq!(pairs.count(), 1);
        for rule in 0..100 {
            pairs.bind(PolicyRuleId(rule), 0);
        }
        assert_eq!(pairs.bound(), 10);
        pairs.restart(4);
        assert_eq!((pairs.count(), pairs.bound(), pairs.take_turn()), (4, 0, 0));
    }
}
