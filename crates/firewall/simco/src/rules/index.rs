//! Search for overlapping patterns without visiting all patterns.
//!
//! Two prefixes overlap if one contains the other. Sorted by network, the prefixes within a prefix are
//! adjacent, and those that contain it take one lookup per shorter length in use. Either side of the
//! patterns yields all candidates; both are searched alternately until one is exhausted, so the
//! cheaper one determines the cost.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::backend::{Pattern, PatternSide};
use crate::message::PolicyRuleId;

/// Patterns of rules by the prefixes of both sides.
#[derive(Debug, Default)]
pub(super) struct PatternIndex {
    internal: SideIndex,
    external: SideIndex,
    len: usize,
}

/// Overlapping rules and the cost of the search.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Overlaps {
    /// Rules in arbitrary order.
    pub(super) rules: Vec<PolicyRuleId>,
    /// Number of visited patterns.
    pub(super) visited: usize,
}

impl PatternIndex {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn insert(&mut self, rule: PolicyRuleId, pattern: &Pattern) {
        self.internal.insert(rule, &pattern.internal);
        self.external.insert(rule, &pattern.external);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, rule: PolicyRuleId, pattern: &Pattern) {
        self.internal.remove(rule, &pattern.internal);
        self.external.remove(rule, &pattern.external);
        self.len -= 1;
    }

    /// Returns up to `most` rules whose patterns overlap with this one. `pattern_of` returns the
    /// pattern of an inserted rule.
    pub(super) fn overlapping<'a>(
        &self,
        wanted: &Pattern,
        pattern_of: impl Fn(PolicyRuleId) -> Option<&'a Pattern>,
        most: usize,
    ) -> Overlaps {
        let mut found = Overlaps::default();
        if self.len == 0 {
            return found;
        }
        let mut sides = [
            (self.internal.candidates(&wanted.internal), Vec::new()),
            (self.external.candidates(&wanted.external), Vec::new()),
        ];
        loop {
            for (candidates, matches) in &mut sides {
                let Some(rule) = candidates.next() else {
                    found.rules = std::mem::take(matches);
                    return found;
                };
                found.visited += 1;
                if pattern_of(rule).is_some_and(|pattern| pattern.overlaps(wanted)) {
                    matches.push(rule);
                    if matches.len() >= most {
                        found.rules = std::mem::take(matches);
                        return found;
                    }
                }
            }
        }
    }
}

/// IP version (true for IPv6), left-aligned network, prefix length.
type Prefix = (bool, u128, u8);

#[derive(Debug, Default)]
struct SideIndex {
    entries: BTreeSet<(Prefix, PolicyRuleId)>,
    /// Number of entries by version and prefix length.
    lengths: BTreeMap<(bool, u8), usize>,
}

const FIRST: PolicyRuleId = PolicyRuleId(0);
const LAST: PolicyRuleId = PolicyRuleId(u32::MAX);

fn prefix(side: &PatternSide) -> Prefix {
    match side.address {
        IpAddr::V4(v4) => (false, u128::from(v4.to_bits()) << 96, side.prefix),
        IpAddr::V6(v6) => (true, v6.to_bits(), side.prefix),
    }
}

/// Returns the mask of the bits after a prefix.
fn suffix_mask(length: u8) -> u128 {
    u128::MAX.checked_shr(u32::from(length)).unwrap_or(0)
}

impl SideIndex {
    fn insert(&mut self, rule: PolicyRuleId, side: &PatternSide) {
        let prefix = prefix(side);
        if self.entries.insert((prefix, rule)) {
            *self.lengths.entry((prefix.0, prefix.2)).or_default() += 1;
        }
    }

    fn remove(&mut self, rule: PolicyRuleId, side: &PatternSide) {
        let prefix = prefix(side);
        if !self.entries.remove(&(prefix, rule)) {
            return;
        }
        let length = (prefix.0, prefix.2);
        if let Some(count) = self.lengths.get_mut(&length) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&length);
            }
        }
    }

    /// Returns the rules whose prefix contains this one or is within it.
    fn candidates(&self, side: &PatternSide) -> impl Iterator<Item = PolicyRuleId> + '_ {
        let (v6, network, length) = prefix(side);
        let shorter = self.lengths.range((v6, 0)..(v6, length));
        let around = shorter.flat_map(move |((_, shorter), _)| {
            let outer = (v6, network & !suffix_mask(*shorter), *shorter);
            self.entries.range((outer, FIRST)..=(outer, LAST))
        });
        let first = ((v6, network, length), FIRST);
        let last = ((v6, network | suffix_mask(length), u8::MAX), LAST);
        let within = self.entries.range(first..=last);
        around.chain(within).map(|(_, rule)| *rule)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn side(address: &str, length: u8, ports: (u16, u16)) -> PatternSide {
        PatternSide {
            address: address.parse().unwrap(),
            prefix: length,
            first_port: ports.0,
            last_port: ports.1,
        }
    }

    const ANY: (u16, u16) = (0, u16::MAX);

    fn flow(number: u32) -> Pattern {
        let [_, b, c, d] = number.to_be_bytes();
        Pattern {
            protocol: 17,
            internal: side(&format!("10.{b}.{c}.{d}"), 32, (5000, 5000)),
            external: side("198.18.0.1", 32, (6000, 6000)),
        }
    }

    struct World {
        index: PatternIndex,
        patterns: BTreeMap<PolicyRuleId, Pattern>,
    }

    impl World {
        fn new(patterns: impl IntoIterator<Item = Pattern>) -> Self {
            let patterns: BTreeMap<_, _> = (1..).map(PolicyRuleId).zip(patterns).collect();
            let mut index = PatternIndex::default();
            for (rule, pattern) in &patterns {
                index.insert(*rule, pattern);
            }
            Self { index, patterns }
        }

        fn find(&self, wanted: &Pattern, most: usize) -> Overlaps {
            self.index
                .overlapping(wanted, |rule| self.patterns.get(&rule), most)
        }
    }

    /// RFC 4540, section 8.8.1
    #[test]
    fn conflict_search_is_independent_of_rule_count() {
        let cost = |rules: u32| {
            let world = World::new((0..rules).map(flow));
            let one = world.find(&flow(77), usize::MAX);
            assert_eq!(one.rules, [PolicyRuleId(78)]);
            // A block of one internal host.
            let host = Pattern {
                protocol: 0,
                external: side("0.0.0.0", 0, ANY),
                ..flow(77)
            };
            let host = world.find(&host, usize::MAX);
            assert_eq!(host.rules, [PolicyRuleId(78)]);
            // A block without overlapping rules.
            let unrelated = Pattern {
                internal: side("0.0.0.0", 0, ANY),
                external: side("203.0.113.0", 24, ANY),
                protocol: 0,
            };
            let unrelated = world.find(&unrelated, usize::MAX);
            assert_eq!(unrelated.rules, []);
            (one.visited, host.visited, unrelated.visited)
        };
        let few = cost(100);
        assert_eq!(few, cost(100_000));
        assert!(few.0 <= 4 && few.1 <= 4 && few.2 <= 4, "{few:?}");
    }

    #[test]
    fn search_visits_nearby_blocks_only() {
        let block = |number: u32| Pattern {
            protocol: 0,
            internal: side("0.0.0.0", 0, ANY),
            external: side(&format!("203.0.{}.{}", number >> 8, number & 255), 32, ANY),
        };
        let world = World::new((0..1000).map(block));
        let free = world.find(&flow(1), 1);
        assert_eq!((free.rules.len(), free.visited <= 2), (0, true), "{free:?}");
        let blocked = Pattern {
            external: side("203.0.1.7", 32, (80, 80)),
            ..flow(1)
        };
        let blocked = world.find(&blocked, 1);
        assert_eq!(blocked.rules.len(), 1);
        assert!(blocked.visited <= 2, "{blocked:?}");
    }

    fn any_side() -> impl Strategy<Value = PatternSide> {
        let v4 = (0_u32..8, 0_u8..=32).prop_map(|(bits, length)| {
            let address = (bits << 29 | bits) & (suffix_mask(length) >> 96) as u32 ^ u32::MAX;
            let mask = !((suffix_mask(length) >> 96) as u32);
            (IpAddr::from((address & mask).to_be_bytes()), length)
        });
        let v6 = (0_u128..8, 0_u8..=128).prop_map(|(bits, length)| {
            let address = (bits << 125 | bits) & !suffix_mask(length);
            (IpAddr::from(address.to_be_bytes()), length)
        });
        let ports = (0_u16..4, 0_u16..4);
        (prop_oneof![v4, v6], ports).prop_map(|((address, prefix), (first, more))| PatternSide {
            address,
            prefix,
            first_port: first,
            last_port: first + more,
        })
    }

    fn any_pattern() -> impl Strategy<Value = Pattern> {
        (
            prop_oneof![Just(0), Just(6), Just(17)],
            any_side(),
            any_side(),
        )
            .prop_map(|(protocol, internal, external)| Pattern {
                protocol,
                internal,
                external,
            })
    }

    proptest! {
        #[test]
        fn the_index_agrees_with_a_full_scan(
            patterns in proptest::collection::vec(any_pattern(), 0..40),
            wanted in any_pattern(),
            gone in 0_usize..40,
        ) {
            let mut world = World::new(patterns);
            if let Some((rule, pattern)) = world.patterns.iter().nth(gone).map(|(r, p)| (*r, *p)) {
                world.patterns.remove(&rule);
                world.index.remove(rule, &pattern);
            }
            let all = world.patterns.iter();
            let naive: Vec<_> = all.filter(|(_, p)| p.overlaps(&wanted)).map(|(r, _)| *r).collect();
            let mut found = world.find(&wanted, usize::MAX).rules;
            found.sort_unstable();
            prop_assert_eq!(&found, &naive);
            prop_assert_eq!(world.find(&wanted, 1).rules.len(), naive.len().min(1));
            prop_assert_eq!(world.index.len(), world.patterns.len());
        }
    }
}
