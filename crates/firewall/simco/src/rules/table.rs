//! Rules of a middlebox.

use std::collections::{BTreeMap, BTreeSet};

use super::index::PatternIndex;
use super::{AgentIndex, Rule, RuleKind, RuleWeight};
use crate::Time;
use crate::backend::Pattern;
use crate::message::{GroupId, PolicyRuleId};

/// Group of rules. Exists as long as it has a member (RFC 5189, section 2.3.2).
#[derive(Debug)]
struct RuleGroup {
    owner: AgentIndex,
    members: u32,
}

/// Rules of an owner.
#[derive(Debug, Default)]
struct OwnedRules {
    rules: BTreeSet<PolicyRuleId>,
    /// Number of rules by PDR.
    blocks: usize,
    /// Sum of [`Rule::weight`].
    weight: RuleWeight,
}

/// Rules by identifier, owner, group and expiry.
#[derive(Debug, Default)]
pub struct RuleTable {
    rules: BTreeMap<PolicyRuleId, Rule>,
    expiry: BTreeSet<(Time, PolicyRuleId)>,
    groups: BTreeMap<GroupId, RuleGroup>,
    owners: BTreeMap<AgentIndex, OwnedRules>,
    /// Patterns of rules by PDR, usually none.
    blocks: PatternIndex,
    /// Patterns of rules by PER and PEA.
    passes: PatternIndex,
    last_rule: u32,
    last_group: u32,
}

impl RuleTable {
    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the number of rules by PDR.
    pub fn disable_rules(&self) -> usize {
        self.blocks.len()
    }

    /// Returns a rule.
    pub fn get(&self, id: PolicyRuleId) -> Option<&Rule> {
        self.rules.get(&id)
    }

    /// Returns all rules in the order of their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.values()
    }

    /// Returns the rules of an agent.
    pub fn of_owner(&self, owner: AgentIndex) -> impl ExactSizeIterator<Item = PolicyRuleId> + '_ {
        static NONE: BTreeSet<PolicyRuleId> = BTreeSet::new();
        let owned = self.owners.get(&owner).map(|owned| &owned.rules);
        owned.unwrap_or(&NONE).iter().copied()
    }

    /// Returns the number of an agent's rules by PDR.
    pub fn of_owner_that_block(&self, owner: AgentIndex) -> usize {
        self.owners.get(&owner).map_or(0, |owned| owned.blocks)
    }

    /// Returns the sum of [`Rule::weight`] of an agent's rules.
    pub fn weight_of_owner(&self, owner: AgentIndex) -> RuleWeight {
        let owned = self.owners.get(&owner);
        owned.map_or(RuleWeight::default(), |owned| owned.weight)
    }

    /// Returns the owner of a group.
    pub fn group_owner(&self, group: GroupId) -> Option<AgentIndex> {
        self.groups.get(&group).map(|group| group.owner)
    }

    /// Returns an unused rule identifier, the one unused for the longest time.
    pub fn unused_rule(&mut self) -> PolicyRuleId {
        loop {
            self.last_rule = self.last_rule.wrapping_add(1);
            let id = PolicyRuleId(self.last_rule);
            if !self.rules.contains_key(&id) {
                return id;
            }
        }
    }

    /// Returns an unused group identifier.
    pub fn unused_group(&mut self) -> GroupId {
        loop {
            self.last_group = self.last_group.wrapping_add(1);
            let id = GroupId(self.last_group);
            if !self.groups.contains_key(&id) {
                return id;
            }
        }
    }

    /// Continues after the identifiers of an earlier run.
    pub(crate) fn resume(&mut self, last_rule: PolicyRuleId, last_group: GroupId) {
        self.last_rule = self.last_rule.max(last_rule.0);
        self.last_group = self.last_group.max(last_group.0);
    }

    /// Adds a rule, or replaces the one with its identifier.
    pub fn insert(&mut self, rule: Rule) {
        let replaced = self.remove(rule.id).is_some();
        self.expiry.insert((rule.expires, rule.id));
        let owned = self.owners.entry(rule.owner).or_default();
        owned.rules.insert(rule.id);
        owned.blocks += usize::from(rule.blocks());
        owned.weight = owned.weight + rule.weight();
        let owner = rule.owner;
        let group = self
            .groups
            .entry(rule.group)
            .or_insert(RuleGroup { owner, members: 0 });
        group.members += 1;
        let new_group = group.members == 1 && !replaced;
        match &rule.kind {
            RuleKind::Reserved { .. } => {}
            RuleKind::Enabled { pattern, .. } => self.passes.insert(rule.id, pattern),
            RuleKind::Disabled { pattern, .. } => self.blocks.insert(rule.id, pattern),
        }
        // Not for a replaced rule: after a wrap-around, its identifier may be far ahead.
        if !replaced {
            self.last_rule = self.last_rule.max(rule.id.0);
        }
        if new_group {
            self.last_group = self.last_group.max(rule.group.0);
        }
        self.rules.insert(rule.id, rule);
    }

    /// Removes a rule.
    pub fn remove(&mut self, id: PolicyRuleId) -> Option<Rule> {
        let rule = self.rules.remove(&id)?;
        self.expiry.remove(&(rule.expires, id));
        match &rule.kind {
            RuleKind::Reserved { .. } => {}
            RuleKind::Enabled { pattern, .. } => self.passes.remove(id, pattern),
            RuleKind::Disabled { pattern, .. } => self.blocks.remove(id, pattern),
        }
        if let Some(owned) = self.owners.get_mut(&rule.owner) {
            owned.rules.remove(&id);
            owned.blocks -= usize::from(rule.blocks());
            owned.weight = owned.weight - rule.weight();
        }
        if let Some(group) = self.groups.get_mut(&rule.group) {
            group.members -= 1;
            if group.members == 0 {
                self.groups.remove(&rule.group);
            }
        }
        Some(rule)
    }

    /// Changes the expiry of a rule.
    pub fn set_expiry(&mut self, id: PolicyRuleId, expires: Time) {
        if let Some(rule) = self.rules.get_mut(&id) {
            self.expiry.remove(&(rule.expires, id));
            rule.expires = expires;
            self.expiry.insert((expires, id));
        }
    }

    /// Returns the next expiry.
    pub fn next_expiry(&self) -> Option<Time> {
        self.expiry.first().map(|(time, _)| *time)
    }

    /// Returns an expired rule.
    pub fn expired(&self, now: Time) -> Option<PolicyRuleId> {
        let (time, id) = self.expiry.first()?;
        (*time <= now).then_some(*id)
    }

    /// Returns whether a PDR blocks some packet of the pattern. The cost does not depend on the number
    /// of unrelated rules.
    pub fn is_disabled(&self, pattern: &Pattern) -> bool {
        let found = self.blocks.overlapping(pattern, |id| self.pattern(id), 1);
        !found.rules.is_empty()
    }

    /// Returns the rules that pass some packet of the pattern, in the order of their identifiers. The
    /// cost does not depend on the number of unrelated rules.
    pub fn enabling(&self, pattern: &Pattern) -> Vec<PolicyRuleId> {
        let pattern_of = |id| self.pattern(id);
        let mut found = self
            .passes
            .overlapping(pattern, pattern_of, usize::MAX)
            .rules;
        found.sort_unstable();
        found
    }

    fn pattern(&self, id: PolicyRuleId) -> Option<&Pattern> {
        match &self.rules.get(&id)?.kind {
            RuleKind::Reserved { .. } => None,
            RuleKind::Enabled { pattern, .. } | RuleKind::Disabled { pattern, .. } => Some(pattern),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Reservation;
    use crate::message::{AddressTuple, IpVersion, Lifetime, Location, Scope};

    fn rule(id: u32, group: u32, owner: u32, expires: u64) -> Rule {
        let outside = AddressTuple {
            location: Location::Outside,
            protocol: 17,
            scope: Scope::ProtocolsOnly(IpVersion::V4),
        };
        Rule {
            id: PolicyRuleId(id),
            group: GroupId(group),
            owner: AgentIndex(owner),
            expires: Time::from_millis(expires),
            kind: RuleKind::Reserved {
                reservation: Reservation {
                    outside,
                    inside: None,
                },
            },
        }
    }

    #[test]
    fn group_exists_as_long_as_a_member() {
        let mut table = RuleTable::default();
        table.insert(rule(1, 7, 0, 10));
        table.insert(rule(2, 7, 0, 20));
        table.remove(PolicyRuleId(1));
        assert_eq!(table.group_owner(GroupId(7)), Some(AgentIndex(0)));
        table.remove(PolicyRuleId(2));
        assert_eq!(table.group_owner(GroupId(7)), None);
        assert!(table.is_empty() && table.next_expiry().is_none());
    }

    #[test]
    fn rules_expire_in_order_and_can_be_extended() {
        let mut table = RuleTable::default();
        for (id, expires) in [(1, 30), (2, 10), (3, 20)] {
            table.insert(rule(id, id, 0, expires));
        }
        table.set_expiry(PolicyRuleId(2), Time::from_millis(25));
        assert_eq!(table.next_expiry(), Some(Time::from_millis(20)));
        assert_eq!(table.expired(Time::from_millis(19)), None);
        let mut ended = Vec::new();
        while let Some(id) = table.expired(Time::from_millis(30)) {
            table.remove(id);
            ended.push(id.0);
        }
        assert_eq!(ended, [3, 2, 1]);
    }

    #[test]
    fn identifiers_are_reused_late() {
        let mut table = RuleTable::default();
        table.insert(rule(5, 5, 0, 10));
        table.remove(PolicyRuleId(5));
        assert_eq!(table.unused_rule(), PolicyRuleId(6), "5 rests");
        table.insert(rule(u32::MAX, u32::MAX, 0, 10));
        table.insert(rule(0, 0, 0, 10));
        assert_eq!(
            table.unused_rule(),
            PolicyRuleId(1),
            "wraps around and skips 0"
        );
        assert_eq!(table.unused_group(), GroupId(1));
    }

    /// RFC 4540, section 8.1
    #[test]
    fn identifiers_wrap_at_the_end_of_the_range() {
        let mut table = RuleTable::default();
        table.insert(rule(u32::MAX, u32::MAX, 0, 10));
        let (id, group) = (table.unused_rule().0, table.unused_group().0);
        table.insert(rule(id, group, 0, 10));
        table.remove(PolicyRuleId(id));
        // PEA on the old reservation, and a new rule in its group.
        table.insert(rule(u32::MAX, u32::MAX, 0, 20));
        let next = table.unused_rule();
        assert_eq!(
            next,
            PolicyRuleId(id + 1),
            "the identifier of the ended rule is not reused yet"
        );
        table.insert(rule(next.0, u32::MAX, 0, 20));
        assert_eq!(table.unused_group(), GroupId(group + 1));
    }

    #[test]
    fn replaced_rule_counts_once() {
        let mut table = RuleTable::default();
        table.insert(rule(1, 7, 3, 10));
        table.insert(rule(1, 7, 3, 50));
        assert_eq!((table.len(), table.of_owner(AgentIndex(3)).len()), (1, 1));
        assert_eq!(table.next_expiry(), Some(Time::from_millis(50)));
        table.remove(PolicyRuleId(1));
        assert_eq!(table.group_owner(GroupId(7)), None);
    }

    #[test]
    fn remaining_lifetime_is_rounded_up() {
        let rule = rule(1, 1, 1, 2500);
        assert_eq!(rule.remaining(Time::ZERO), Lifetime(3));
        assert_eq!(rule.remaining(Time::from_millis(2499)), Lifetime(1));
        assert_eq!(rule.remaining(Time::from_millis(2500)), Lifetime(0));
    }
}
