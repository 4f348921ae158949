//! Wildcards and prohibits: which there are, and what the kernel is told of them. Each is rules of its
//! own, which ask for its number in the set of those that live.

use std::collections::{BTreeMap, BTreeSet};

use carrick_simco::Time;
use carrick_simco::backend::{BackendError, Element};

use crate::backend::left;
use crate::config::NftablesConfig;
use crate::layout::{ALIVE, add_pattern, chain_of};
use crate::socket::Batch;
use crate::table::{self, Rule};

/// A pattern in the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Rules {
    /// What stands for it in the set of those that live.
    number: u32,
    made: Vec<Rule>,
    until: Time,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    rules: BTreeMap<Element, Rules>,
    numbers: BTreeSet<u32>,
    /// Those that block.
    blocks: usize,
    last_number: u32,
}

/// What one call changes.
#[derive(Debug, Default)]
pub(crate) struct PatternChanges {
    new: Vec<(Element, u32, Time)>,
    /// Those of the new ones that block.
    new_blocks: usize,
    moved: Vec<(Element, u32, Time)>,
    gone: Vec<(Element, Rules)>,
}

fn is_block(element: &Element) -> bool {
    matches!(element, Element::Block(_))
}

impl Patterns {
    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// The rules of all of them.
    pub(crate) fn rules(&self) -> impl Iterator<Item = Rule> + '_ {
        self.rules.values().flat_map(|rules| &rules.made).copied()
    }

    /// What stands for a pattern in the set of those that live.
    pub(crate) fn number(&self, element: &Element) -> Option<u32> {
        self.rules.get(element).map(|rules| rules.number)
    }

    /// One more.
    ///
    /// # Errors
    /// When it is there, or there are too many: those that block have places of their own.
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

    /// One lives until then.
    pub(crate) fn extend(
        &self,
        changes: &mut PatternChanges,
        element: &Element,
        until: Time,
    ) -> Result<(), BackendError> {
        let rules = self.rules.get(element).ok_or(BackendError::OutOfStep)?;
        if rules.until != until {
            changes.moved.push((*element, rules.number, until));
        }
        Ok(())
    }

    /// One less.
    pub(crate) fn remove(
        &self,
        changes: &mut PatternChanges,
        element: &Element,
    ) -> Result<(), BackendError> {
        let rules = self.rules.get(element).ok_or(BackendError::OutOfStep)?;
        changes.gone.push((*element, rules.clone()));
        Ok(())
    }

    /// The changes are in force: so many rules has each new pattern, and this was made of all.
    pub(crate) fn apply(
        &mut self,
        changes: &PatternChanges,
        rules: &[usize],
        made: Vec<Rule>,
    ) -> Result<(), BackendError> {
        if made.len() != rules.iter().sum::<usize>() {
            return Err(BackendError::OutOfStep);
        }
        let mut made = made.into_iter();
        for ((element, number, until), count) in changes.new.iter().zip(rules) {
            let rules = Rules {
                number: *number,
                made: made.by_ref().take(*count).collect(),
                until: *until,
            };
            self.rules.insert(*element, rules);
            self.numbers.insert(*number);
            self.blocks += usize::from(is_block(element));
        }
        for (element, _, until) in &changes.moved {
            if let Some(rules) = self.rules.get_mut(element) {
                rules.until = *until;
            }
        }
        for (element, rules) in &changes.gone {
            self.rules.remove(element);
            self.numbers.remove(&rules.number);
            self.blocks -= usize::from(is_block(element));
        }
        Ok(())
    }
}

impl PatternChanges {
    /// The numbers of those that are changed, and so were there.
    pub(crate) fn changed(&self) -> impl Iterator<Item = u32> + '_ {
        let gone = self.gone.iter().map(|(_, rules)| rules.number);
        gone.chain(self.moved.iter().map(|(_, number, _)| *number))
    }

    /// Writes them, but for what is `gone` from the kernel already. Returns how many rules each new
    /// pattern has. `updates`: the kernel moves the end of an element in its place.
    pub(crate) fn push(
        &self,
        batch: &mut Batch,
        now: Time,
        config: &NftablesConfig,
        updates: bool,
        gone: impl Fn(u32) -> bool,
    ) -> Vec<usize> {
        let table = &config.table;
        let mut rules = Vec::new();
        for (element, number, until) in &self.new {
            rules.push(add_pattern(batch, config, element, *number));
            let key = number.to_ne_bytes();
            table::add_element(batch, table, ALIVE, &key, None, left(now, *until));
        }
        for (_, number, until) in &self.moved {
            let (key, left) = (number.to_ne_bytes(), left(now, *until));
            if updates {
                table::update_element(batch, table, ALIVE, &key, None, left);
            } else {
                if !gone(*number) {
                    table::delete_element(batch, table, ALIVE, &key);
                }
                table::add_element(batch, table, ALIVE, &key, None, left);
            }
        }
        for (element, rules) in &self.gone {
            table::delete_rules(batch, table, chain_of(element), &rules.made);
            if !gone(rules.number) {
                table::delete_element(batch, table, ALIVE, &rules.number.to_ne_bytes());
            }
        }
        rules
    }
}
