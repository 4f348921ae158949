//! Stream pairs of SIMCO over SCTP: the streams of both directions with the same number. Over TCP
//! there is one pair.

use std::collections::BTreeMap;

use crate::message::PolicyRuleId;

/// Stream pairs of an agent, and the rules bound to them.
///
/// All transactions of a policy rule use the stream of the reply that created it, so that they stay in
/// order. Requests for new rules use the streams in turn.
#[derive(Clone, Debug)]
pub struct StreamPairs {
    count: u16,
    next: u16,
    bound: BTreeMap<PolicyRuleId, u16>,
    limit: usize,
}

impl StreamPairs {
    /// Creates at least one pair and room for `limit` bindings.
    pub fn new(count: u16, limit: usize) -> Self {
        Self {
            count: count.max(1),
            next: 0,
            bound: BTreeMap::new(),
            limit,
        }
    }

    /// Returns the number of pairs.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Sets the number of pairs of a new connection and clears all bindings.
    pub fn restart(&mut self, count: u16) {
        self.count = count.max(1);
        self.next = 0;
        self.bound.clear();
    }

    /// Returns the stream for a request that creates a rule.
    pub fn next_stream(&mut self) -> u16 {
        let stream = self.next % self.count;
        self.next = (stream + 1) % self.count;
        stream
    }

    /// Returns the stream for a request about a rule. An unknown rule is bound to the next stream in
    /// turn.
    pub fn of(&mut self, rule: PolicyRuleId) -> u16 {
        if let Some(stream) = self.bound.get(&rule) {
            return *stream;
        }
        let stream = self.next_stream();
        self.bind(rule, stream);
        stream
    }

    /// Binds a rule to the stream of the reply that created it, or to a paired one if the stream has
    /// no pair. Beyond the limit, the binding with the lowest identifier is dropped.
    pub fn bind(&mut self, rule: PolicyRuleId, stream: u16) {
        self.bound.insert(rule, stream % self.count);
        while self.bound.len() > self.limit {
            self.bound.pop_first();
        }
    }

    /// Removes the binding of a rule that has ended.
    pub fn release(&mut self, rule: PolicyRuleId) {
        self.bound.remove(&rule);
    }

    /// Returns the number of bound rules.
    pub fn bound(&self) -> usize {
        self.bound.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_rules_next_streams_and_keep_their_stream() {
        let mut pairs = StreamPairs::new(3, 100);
        assert_eq!([(); 4].map(|()| pairs.next_stream()), [0, 1, 2, 0]);
        pairs.bind(PolicyRuleId(9), 2);
        assert_eq!([(); 3].map(|()| pairs.of(PolicyRuleId(9))), [2, 2, 2]);
        let unknown = pairs.of(PolicyRuleId(10));
        assert_eq!(pairs.next_stream(), (unknown + 1) % 3);
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
        assert_eq!(
            (pairs.count(), pairs.bound(), pairs.next_stream()),
            (4, 0, 0)
        );
    }
}
