//! The backend of a middlebox.

use std::collections::BTreeMap;
use std::time::Duration;

use carrick_simco::Time;
use carrick_simco::backend::{Backend, BackendError, Element, Reservation, Traffic};
use carrick_simco::message::{Lifetime, PrrParameters};
use nix::errno::Errno;

use crate::config::NftablesConfig;
use crate::entry::{Key, Set, entries_of};
use crate::error::{NftablesError, backend_error};
use crate::held::{Changes, Difference, Held, Wanted};
use crate::layout::{ALIVE, add_pattern, chain_of};
use crate::socket::{Batch, Socket};
use crate::table;

/// Elements that are told to the kernel in one batch at most.
const MOST_AT_ONCE: usize = 4096;

/// Pinholes in the Linux kernel, in a table of its own.
///
/// Each call is a batch that the kernel does wholly or not at all, and it is in force when the call
/// returns. It works in the network namespace that the thread was in when it was opened.
#[derive(Debug)]
pub struct NftablesBackend {
    config: NftablesConfig,
    socket: Socket,
    /// Whether the kernel changes the timeout of an element (Linux 6.12). If not, elements are
    /// removed and added in one batch, and count anew.
    updates: bool,
    held: Held,
    patterns: BTreeMap<Element, PatternRules>,
    last_pattern: u32,
}

/// A pattern in the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PatternRules {
    /// What stands for it in the set of those that live.
    number: u32,
    /// Handles of its rules.
    handles: Vec<u64>,
    until: Time,
}

/// What one call changes.
#[derive(Debug, Default)]
struct Plan {
    flows: Changes,
    new_patterns: Vec<(Element, u32, Time)>,
    longer_patterns: Vec<(Element, u32, Time)>,
    gone_patterns: Vec<(Element, PatternRules)>,
}

impl NftablesBackend {
    /// Makes the table, or takes the one that is there; what it holds is left as it is until
    /// [`Backend::reconcile`]. From now on what no rule lets pass is dropped, if the policy is so.
    ///
    /// # Errors
    /// When the process may not, the kernel can't, or the configuration is wrong.
    pub fn open(config: NftablesConfig) -> Result<Self, NftablesError> {
        config.check()?;
        let mut socket = Socket::open()?;
        table::prepare(&mut socket, &config)?;
        let updates = config.move_ends && table::can_update(&mut socket, &config.table)?;
        Ok(Self {
            config,
            socket,
            updates,
            held: Held::default(),
            patterns: BTreeMap::new(),
            last_pattern: 0,
        })
    }

    /// Elements in the kernel's sets, those of patterns included.
    pub fn elements(&self) -> usize {
        self.held.len() + self.patterns.len()
    }

    /// Removes the table. What it blocked passes then, if nothing else blocks it.
    ///
    /// # Errors
    /// When that failed.
    pub fn remove_table(mut self) -> Result<(), NftablesError> {
        self.config.keep = true;
        table::remove(&mut self.socket, &self.config.table)
    }

    fn next_pattern(&mut self) -> u32 {
        loop {
            self.last_pattern = self.last_pattern.wrapping_add(1);
            let number = self.last_pattern;
            if !self.patterns.values().any(|p| p.number == number) {
                return number;
            }
        }
    }

    /// Does what is planned, or nothing.
    fn run(&mut self, now: Time, plan: Plan) -> Result<(), BackendError> {
        let differences = plan.flows.differences(&self.held);
        let mut batch = Batch::default();
        for difference in &differences {
            self.push_difference(&mut batch, now, difference);
        }
        let rules = self.push_patterns(&mut batch, now, &plan);
        if !batch.is_empty() {
            let mut handles = Vec::new();
            let outcome = self
                .socket
                .commit(batch, |echo| handles.extend(table::rule_handle(echo)));
            match outcome {
                Ok(()) => {}
                // An element that was to be removed had reached its own timeout.
                Err(Errno::ENOENT) if removes(&differences, &plan) => {
                    handles = self.run_singly(now, &differences, &plan)?;
                }
                Err(errno) => return Err(backend_error(errno)),
            }
            self.apply_patterns(&plan, &rules, handles)?;
        }
        plan.flows.apply(&mut self.held);
        self.forget_connections(&differences);
        Ok(())
    }

    /// The same, change by change, where what is gone already counts as removed.
    fn run_singly(
        &mut self,
        now: Time,
        differences: &[Difference],
        plan: &Plan,
    ) -> Result<Vec<u64>, BackendError> {
        for difference in differences {
            let Difference { key, before, after } = difference;
            let stays =
                self.updates && after.is_some_and(|a| before.is_some_and(|b| a.data == b.data));
            if before.is_some() && !stays {
                self.delete_if_there(key.set.name(), key.octets())?;
            }
            if let Some(wanted) = after {
                let mut batch = Batch::default();
                let before = before.filter(|_| stays);
                let after = Some(*wanted);
                let now_there = Difference {
                    key: *key,
                    before,
                    after,
                };
                self.push_difference(&mut batch, now, &now_there);
                self.socket.commit(batch, |_| ()).map_err(backend_error)?;
            }
        }
        for (element, rules) in &plan.gone_patterns {
            let mut batch = Batch::default();
            table::delete_rules(
                &mut batch,
                &self.config.table,
                chain_of(element),
                &rules.handles,
            );
            self.socket.commit(batch, |_| ()).map_err(backend_error)?;
            self.delete_if_there(ALIVE, &rules.number.to_ne_bytes())?;
        }
        for (_, number, until) in &plan.longer_patterns {
            let (key, left) = (number.to_ne_bytes(), left(now, *until));
            self.delete_if_there(ALIVE, &key)?;
            let mut batch = Batch::default();
            table::add_element(&mut batch, &self.config.table, ALIVE, &key, None, left);
            self.socket.commit(batch, |_| ()).map_err(backend_error)?;
        }
        let rest = Plan {
            new_patterns: plan.new_patterns.clone(),
            ..Plan::default()
        };
        let mut batch = Batch::default();
        self.push_patterns(&mut batch, now, &rest);
        let mut handles = Vec::new();
        if !batch.is_empty() {
            self.socket
                .commit(batch, |echo| handles.extend(table::rule_handle(echo)))
                .map_err(backend_error)?;
        }
        Ok(handles)
    }

    fn delete_if_there(&mut self, set: &str, key: &[u8]) -> Result<(), BackendError> {
        let mut batch = Batch::default();
        table::delete_element(&mut batch, &self.config.table, set, key);
        match self.socket.commit(batch, |_| ()) {
            Err(Errno::ENOENT) => Ok(()),
            other => other.map_err(backend_error),
        }
    }

    fn push_difference(&self, batch: &mut Batch, now: Time, difference: &Difference) {
        let table = &self.config.table;
        let Difference { key, before, after } = difference;
        let (set, octets) = (key.set.name(), key.octets());
        match (before, after) {
            (None, None) => {}
            (Some(_), None) => table::delete_element(batch, table, set, octets),
            (None, Some(wanted)) => {
                table::add_element(
                    batch,
                    table,
                    set,
                    octets,
                    wanted.data,
                    left(now, wanted.until),
                );
            }
            (Some(before), Some(wanted)) => {
                let left = left(now, wanted.until);
                if before.data == wanted.data && self.updates {
                    table::update_element(batch, table, set, octets, wanted.data, left);
                } else {
                    table::delete_element(batch, table, set, octets);
                    table::add_element(batch, table, set, octets, wanted.data, left);
                }
            }
        }
    }

    /// Returns how many rules each new pattern has.
    fn push_patterns(&self, batch: &mut Batch, now: Time, plan: &Plan) -> Vec<usize> {
        let table = &self.config.table;
        let mut rules = Vec::new();
        for (element, number, until) in &plan.new_patterns {
            rules.push(add_pattern(batch, &self.config, element, *number));
            let key = number.to_ne_bytes();
            table::add_element(batch, table, ALIVE, &key, None, left(now, *until));
        }
        for (_, number, until) in &plan.longer_patterns {
            let (key, left) = (number.to_ne_bytes(), left(now, *until));
            if self.updates {
                table::update_element(batch, table, ALIVE, &key, None, left);
            } else {
                table::delete_element(batch, table, ALIVE, &key);
                table::add_element(batch, table, ALIVE, &key, None, left);
            }
        }
        for (element, gone) in &plan.gone_patterns {
            table::delete_rules(batch, table, chain_of(element), &gone.handles);
            table::delete_element(batch, table, ALIVE, &gone.number.to_ne_bytes());
        }
        rules
    }

    fn apply_patterns(
        &mut self,
        plan: &Plan,
        rules: &[usize],
        handles: Vec<u64>,
    ) -> Result<(), BackendError> {
        if handles.len() != rules.iter().sum::<usize>() {
            return Err(BackendError::OutOfStep);
        }
        let mut handles = handles.into_iter();
        for ((element, number, until), rules) in plan.new_patterns.iter().zip(rules) {
            let pattern = PatternRules {
                number: *number,
                handles: handles.by_ref().take(*rules).collect(),
                until: *until,
            };
            self.patterns.insert(*element, pattern);
        }
        for (element, _, until) in &plan.longer_patterns {
            if let Some(pattern) = self.patterns.get_mut(element) {
                pattern.until = *until;
            }
        }
        for (element, _) in &plan.gone_patterns {
            self.patterns.remove(element);
        }
        Ok(())
    }

    /// The kernel translates the packets of a connection as it did the first one's. Where that has
    /// changed, it must look again.
    fn forget_connections(&mut self, differences: &[Difference]) {
        for Difference { key, before, after } in differences {
            let data = |wanted: &Option<Wanted>| wanted.and_then(|wanted| wanted.data);
            if key.set.is_map() && data(before) != data(after) {
                // None there, mostly.
                let _ = table::forget_connection(&mut self.socket, key);
                // One that came the other way has the addresses of the one that should be.
                if let Some(other_way) = data(after).and_then(|data| key.other_way(data)) {
                    let _ = table::forget_connection(&mut self.socket, &other_way);
                }
            }
        }
    }

    fn plan_new(
        &mut self,
        plan: &mut Plan,
        element: &Element,
        until: Time,
    ) -> Result<(), BackendError> {
        if let Element::Flow(flow) = element {
            for (key, data) in entries_of(flow) {
                plan.flows.add(&self.held, key, data, until);
            }
            return Ok(());
        }
        if self.patterns.contains_key(element) {
            return Err(BackendError::OutOfStep);
        }
        if self.patterns.len() + plan.new_patterns.len() >= self.config.max_patterns {
            return Err(BackendError::Full);
        }
        let number = self.next_pattern();
        plan.new_patterns.push((*element, number, until));
        Ok(())
    }

    /// Elements of the kernel's sets as they are.
    fn in_kernel(&mut self, now: Time) -> Result<BTreeMap<Key, Wanted>, BackendError> {
        let mut found = BTreeMap::new();
        let translates = !self.config.translation.is_empty();
        for set in Set::ALL {
            if translates || !set.is_map() {
                let table = &self.config.table;
                table::elements(&mut self.socket, table, set, |key, data, left| {
                    let until = now + left;
                    found.insert(key, Wanted { data, until });
                })
                .map_err(backend_error)?;
            }
        }
        Ok(found)
    }

    /// Brings the sets of flows from what they are to what they shall be.
    fn reconcile_flows(&mut self, now: Time) -> Result<(), BackendError> {
        let found = self.in_kernel(now)?;
        let differs = |before: &Wanted, after: &Wanted| {
            let (a, b) = (before.until, after.until);
            before.data != after.data || a.since(b).max(b.since(a)) > Duration::from_secs(1)
        };
        let mut differences: Vec<Difference> = Vec::new();
        for (key, before) in &found {
            let after = self.held.wanted_of(key);
            if after.is_none_or(|after| differs(before, &after)) {
                differences.push(Difference {
                    key: *key,
                    before: Some(*before),
                    after,
                });
            }
        }
        for (key, after) in self.held.wanted() {
            if !found.contains_key(&key) {
                differences.push(Difference {
                    key,
                    before: None,
                    after: Some(after),
                });
            }
        }
        // What must not pass first.
        differences.sort_by_key(|difference| difference.after.is_some());
        for some in differences.chunks(MOST_AT_ONCE) {
            let mut batch = Batch::default();
            for difference in some {
                self.push_difference(&mut batch, now, difference);
            }
            match self.socket.commit(batch, |_| ()) {
                Ok(()) => {}
                Err(Errno::ENOENT) => {
                    self.run_singly(now, some, &Plan::default())?;
                }
                Err(errno) => return Err(backend_error(errno)),
            }
        }
        self.forget_connections(&differences);
        Ok(())
    }

    /// Makes the rules of patterns anew, in one batch.
    fn reconcile_patterns(&mut self, now: Time, plan: &Plan) -> Result<(), BackendError> {
        let mut batch = Batch::default();
        table::empty_patterns(&mut batch, &self.config.table);
        let rules = self.push_patterns(&mut batch, now, plan);
        let mut handles = Vec::new();
        self.socket
            .commit(batch, |echo| handles.extend(table::rule_handle(echo)))
            .map_err(backend_error)?;
        self.apply_patterns(plan, &rules, handles)
    }
}

fn left(now: Time, until: Time) -> Duration {
    until.since(now).max(Duration::from_millis(1))
}

fn removes(differences: &[Difference], plan: &Plan) -> bool {
    differences.iter().any(|d| d.before.is_some())
        || !plan.gone_patterns.is_empty()
        || !plan.longer_patterns.is_empty()
}

fn ends(now: Time, lifetime: Lifetime) -> Time {
    now + Duration::from_secs(u64::from(lifetime.0))
}

impl Backend for NftablesBackend {
    fn add(
        &mut self,
        now: Time,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        let mut plan = Plan::default();
        for element in elements {
            self.plan_new(&mut plan, element, ends(now, lifetime))?;
        }
        self.run(now, plan)
    }

    fn extend(
        &mut self,
        now: Time,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        let mut plan = Plan::default();
        let until = ends(now, lifetime);
        for element in elements {
            if let Element::Flow(flow) = element {
                for (key, data) in entries_of(flow) {
                    plan.flows.extend(&self.held, key, data, until);
                }
            } else {
                let pattern = self.patterns.get(element);
                let pattern = pattern.ok_or(BackendError::OutOfStep)?;
                if pattern.until < until {
                    plan.longer_patterns.push((*element, pattern.number, until));
                }
            }
        }
        self.run(now, plan)
    }

    fn remove(&mut self, now: Time, elements: &[Element]) -> Result<(), BackendError> {
        let mut plan = Plan::default();
        for element in elements {
            if let Element::Flow(flow) = element {
                for (key, data) in entries_of(flow) {
                    plan.flows.remove(&self.held, key, data);
                }
            } else {
                let pattern = self.patterns.get(element);
                let pattern = pattern.ok_or(BackendError::OutOfStep)?;
                plan.gone_patterns.push((*element, pattern.clone()));
            }
        }
        self.run(now, plan)
    }

    fn reconcile(
        &mut self,
        now: Time,
        elements: &[(Element, Lifetime)],
    ) -> Result<(), BackendError> {
        self.held = Held::default();
        self.patterns.clear();
        let mut plan = Plan::default();
        for (element, lifetime) in elements {
            self.plan_new(&mut plan, element, ends(now, *lifetime))?;
        }
        std::mem::take(&mut plan.flows).apply(&mut self.held);
        self.reconcile_patterns(now, &plan)?;
        self.reconcile_flows(now)
    }

    fn traffic(&mut self, elements: &[Element]) -> Result<Option<Traffic>, BackendError> {
        let mut sum = Traffic::default();
        let mut keys: Vec<(&str, Vec<u8>)> = Vec::new();
        for element in elements {
            if let Element::Flow(flow) = element {
                for (key, _) in entries_of(flow) {
                    if !key.set.is_map() {
                        keys.push((key.set.name(), key.octets().to_vec()));
                    }
                }
            } else if let Some(pattern) = self.patterns.get(element) {
                keys.push((ALIVE, pattern.number.to_ne_bytes().to_vec()));
            }
        }
        for (set, key) in keys {
            let counted = table::counter(&mut self.socket, &self.config.table, set, &key);
            match counted {
                Ok(counted) => {
                    sum.packets += counted.packets;
                    sum.octets += counted.octets;
                }
                // It has just reached its timeout.
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(backend_error(errno)),
            }
        }
        Ok(Some(sum))
    }

    fn translates(&self) -> bool {
        !self.config.translation.is_empty()
    }

    fn reserve(&mut self, wanted: &PrrParameters) -> Result<Reservation, BackendError> {
        let mut why = BackendError::NoAddresses;
        for pool in &mut self.config.translation {
            match pool.take(wanted) {
                Ok(reservation) => return Ok(reservation),
                Err(BackendError::NoPorts) => why = BackendError::NoPorts,
                Err(_) => {}
            }
        }
        Err(why)
    }

    fn readopt(&mut self, reservation: &Reservation) -> Result<(), BackendError> {
        let mut why = BackendError::NoAddresses;
        for pool in &mut self.config.translation {
            match pool.readopt(reservation) {
                Ok(()) => return Ok(()),
                Err(BackendError::NoPorts) => why = BackendError::NoPorts,
                Err(_) => {}
            }
        }
        Err(why)
    }

    fn release(&mut self, reservation: &Reservation) {
        for pool in &mut self.config.translation {
            pool.give(reservation);
        }
    }
}

impl Drop for NftablesBackend {
    fn drop(&mut self) {
        if !self.config.keep {
            // Nobody is left to be told.
            let _ = table::remove(&mut self.socket, &self.config.table);
        }
    }
}
