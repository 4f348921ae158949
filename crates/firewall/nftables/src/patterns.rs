//! Wildcards and prohibits. Each consists of rules that look up its number in the set of unexpired
//! patterns.

use std::collections::{BTreeMap, BTreeSet};

use carrick_simco::Time;
use carrick_simco::backend::{BackendError, Element};

use crate::backend::left;
use crate::config::NftablesConfig;
use crate::layout::{ALIVE, add_pattern, chain_of};
use crate::socket::Batch;
use crate::table::{self, KernelRule};

/// Pattern in the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PatternRules {
    /// Its number in the set of unexpired patterns.
    number: u32,
    rules: Vec<KernelRule>,
    until: Time,
}

/// All patterns.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    rules: BTreeMap<Element, PatternRules>,
    numbers: BTreeSet<u32>,
    /// Number of blocking patterns.
    blocks: usize,
    last_number: u32,
}

/// Changes of one call.
#[derive(Debug, Default)]
pub(crate) struct PatternChanges {
    new: Vec<(Element, u32, Time)>,
    /// Number of new blocking patterns.
    new_blocks: usize,
    extended: Vec<(Element, u32, Time)>,
    removed: Vec<(Element, PatternRules)>,
}

fn is_block(element: &Element) -> bool {
    matches!(element, Element::Block(_))
}

impl Patterns {
    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns the rules of all patterns.
    pub(crate) fn rules(&self) -> impl Iterator<Item = KernelRule> + '_ {
        self.rules.values().flat_map(|rules| &rules.rules).copied()
    }

    /// Returns the number of a pattern in the set of unexpired patterns.
    pub(crate) fn number(&self, element: &Element) -> Option<u32> {
        self.rules.get(element).map(|rules| rules.number)
    }

    /// Adds a pattern.
    ///
    /// # Errors
    /// The pattern exists, or the limit is reached; blocking patterns have a separate limit.
    pub(crate) fn add(
        &mut self,
        changes: &mut PatternChanges,
        config: &NftablesConfig,
        element: &Element,
        until: Time,
    ) -> Result<(), BackendError> {
        if self.rules.contains_key(element) {
            return Err(BackendError::OutOfStep);
        }
        let (blocks, new_blocks) = (self.blocks, changes.new_blocks);
        let full = if is_block(element) {
            blocks + new_blocks >= config.max_blocks
        } else {
            let all = self.rules.len() + changes.new.len();
            all - blocks - new_blocks >= config.max_patterns
        };
        if full {
            return Err(BackendError::Full);
        }
        changes.new.push((*element, self.unused_number(), until));
        changes.new_blocks += usize::from(is_block(element));
        Ok(())
    }

    fn unused_number(&mut self) -> u32 {
        loop {
            self.last_number = self.last_number.wrapping_add(1);
            if !self.numbers.contains(&self.last_number) {
                return self.last_number;
            }
        }
    }

    /// Changes the expiry of a pattern.
    pub(crate) fn extend(
        &self,
        changes: &mut PatternChanges,
        element: &Element,
        until: Time,
    ) -> Result<(), BackendError> {
        let rules = self.rules.get(element).ok_or(BackendError::OutOfStep)?;
        if rules.until != until {
            changes.extended.push((*element, rules.number, until));
        }
        Ok(())
    }

    /// Removes a pattern.
    pub(crate) fn remove(
        &self,
        changes: &mut PatternChanges,
        element: &Element,
    ) -> Result<(), BackendError> {
        let rules = self.rules.get(element).ok_or(BackendError::OutOfStep)?;
        changes.removed.push((*element, rules.clone()));
        Ok(())
    }

    /// Applies committed changes, with the number of rules of each new pattern and all rules created.
    pub(crate) fn apply(
        &mut self,
        changes: &PatternChanges,
        counts: &[usize],
        created: Vec<KernelRule>,
    ) -> Result<(), BackendError> {
        if created.len() != counts.iter().sum::<usize>() {
            return Err(BackendError::OutOfStep);
        }
        let mut created = created.into_iter();
        for ((element, number, until), count) in changes.new.iter().zip(counts) {
            let rules = PatternRules {
                number: *number,
                rules: created.by_ref().take(*count).collect(),
                until: *until,
            };
            self.rules.insert(*element, rules);
            self.numbers.insert(*number);
            self.blocks += usize::from(is_block(element));
        }
        for (element, _, until) in &changes.extended {
            if let Some(rules) = self.rules.get_mut(element) {
                rules.until = *until;
            }
        }
        for (element, rules) in &changes.removed {
            self.rules.remove(element);
            self.numbers.remove(&rules.number);
            self.blocks -= usize::from(is_block(element));
        }
        Ok(())
    }
}

impl PatternChanges {
    /// Returns the numbers of changed patterns that existed before.
    pub(crate) fn changed(&self) -> impl Iterator<Item = u32> + '_ {
        let removed = self.removed.iter().map(|(_, rules)| rules.number);
        removed.chain(self.extended.iter().map(|(_, number, _)| *number))
    }

    /// Writes the changes, but no removal of elements that have expired in the kernel. Returns the number
    /// of rules of each new pattern. `updates`: the kernel can change timeouts in place.
    pub(crate) fn push(
        &self,
        batch: &mut Batch,
        now: Time,
        config: &NftablesConfig,
        updates: bool,
        has_expired: impl Fn(u32) -> bool,
    ) -> Vec<usize> {
        let table = &config.table;
        let mut rules = Vec::new();
        for (element, number, until) in &self.new {
            rules.push(add_pattern(batch, config, element, *number));
            let key = number.to_ne_bytes();
            table::add_element(batch, table, ALIVE, &key, None, left(now, *until));
        }
        for (_, number, until) in &self.extended {
            let (key, left) = (number.to_ne_bytes(), left(now, *until));
            if updates {
                table::update_element(batch, table, ALIVE, &key, None, left);
            } else {
                if !has_expired(*number) {
                    table::delete_element(batch, table, ALIVE, &key);
                }
                table::add_element(batch, table, ALIVE, &key, None, left);
            }
        }
        for (element, rules) in &self.removed {
            table::delete_rules(batch, table, chain_of(element), &rules.rules);
            if !has_expired(rules.number) {
                table::delete_element(batch, table, ALIVE, &rules.number.to_ne_bytes());
            }
        }
        rules
    }
}
