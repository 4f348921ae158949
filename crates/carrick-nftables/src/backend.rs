//! The backend of a middlebox.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carrick_simco::Time;
use carrick_simco::backend::{Backend, BackendError, Element, Meter, Reservation};
use carrick_simco::message::{Lifetime, PrrParameters};
use nix::errno::Errno;

use crate::config::NftablesConfig;
use crate::entry::{Key, Set, entries_of};
use crate::error::{NftablesError, backend_error};
use crate::held::{Changes, Difference, Held, Wanted, Who};
use crate::layout::ALIVE;
use crate::lock::Lock;
use crate::make::{Made, make};
use crate::meter::{self, Counter};
use crate::patterns::{PatternChanges, Patterns};
use crate::socket::{Batch, Socket};
use crate::table::{self, Rule};

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
    /// For what is read on other threads. Opened with the other, for it may be another namespace there.
    questions: Arc<Mutex<Socket>>,
    /// Whether the kernel changes the timeout of an element (Linux 6.12). If not, elements are
    /// removed and added in one batch, and count anew.
    updates: bool,
    held: Held,
    patterns: Patterns,
    made: Made,
    /// Given back last of all.
    _lock: Lock,
}

/// What may have reached its own timeout.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum InKernel {
    Flow(Key),
    Pattern(u32),
}

/// What one call changes.
#[derive(Debug, Default)]
struct Plan {
    flows: Changes,
    patterns: PatternChanges,
}

impl NftablesBackend {
    /// Makes the table as it should be, whatever is there. The flows and patterns that are granted stay
    /// as they are until [`Backend::reconcile`]. From now on what no rule lets pass is dropped, if
    /// the policy is so.
    ///
    /// # Errors
    /// When another backend has the table in this network namespace, the process may not, the kernel
    /// can't, or the configuration is wrong.
    pub fn open(config: NftablesConfig) -> Result<Self, NftablesError> {
        config.check()?;
        let lock = Lock::take(&config.table)?;
        let mut socket = Socket::open()?;
        let made = make(&mut socket, &config)?;
        let updates = config.move_ends && table::can_update(&mut socket, &config.table)?;
        Ok(Self {
            config,
            socket,
            questions: Arc::new(Mutex::new(Socket::open()?)),
            updates,
            held: Held::default(),
            patterns: Patterns::default(),
            made,
            _lock: lock,
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

    /// What counts for a rule with these elements. Maps do not count, the flows that they translate do.
    fn counters(&self, elements: &[Element]) -> Vec<Counter> {
        let mut counters = Vec::new();
        for element in elements {
            if let Element::Flow(flow) = element {
                let keys = entries_of(flow).into_iter().map(|(key, _)| key);
                counters.extend(keys.filter(|key| !key.set.is_map()).map(Counter::Flow));
            } else if let Some(number) = self.patterns.number(element) {
                counters.push(Counter::Pattern(number.to_ne_bytes()));
            }
        }
        counters
    }

    /// Does what is planned, or nothing.
    fn run(&mut self, now: Time, plan: Plan) -> Result<(), BackendError> {
        let differences = plan.flows.differences(&self.held);
        let (rules, made) = self.commit(now, Batch::default, &differences, &plan)?;
        self.patterns.apply(&plan.patterns, &rules, made)?;
        plan.flows.apply(&mut self.held);
        self.forget_connections(&differences);
        Ok(())
    }

    /// Tells the kernel in one batch, after what `begin` says. Returns how many rules each new pattern
    /// has, and all of them as they were made.
    fn commit(
        &mut self,
        now: Time,
        begin: impl Fn() -> Batch,
        differences: &[Difference],
        plan: &Plan,
    ) -> Result<(Vec<usize>, Vec<Rule>), BackendError> {
        // Elements that had reached their own timeouts count as removed.
        let mut gone = BTreeSet::new();
        loop {
            let mut batch = begin();
            for difference in differences {
                self.push_difference(&mut batch, now, difference, &gone);
            }
            let patterns = &plan.patterns;
            let rules = patterns.push(&mut batch, now, &self.config, self.updates, |number| {
                gone.contains(&InKernel::Pattern(number))
            });
            if batch.is_empty() {
                return Ok((rules, Vec::new()));
            }
            let mut made = Vec::new();
            let outcome = self
                .socket
                .commit(batch, |echo| made.extend(table::echoed_rule(echo)));
            match outcome {
                Ok(()) => return Ok((rules, made)),
                Err(Errno::ENOENT) => self.find_gone(differences, plan, &mut gone)?,
                Err(errno) => return Err(backend_error(errno)),
            }
        }
    }

    /// Finds out which of the elements that were there are no more.
    fn find_gone(
        &mut self,
        differences: &[Difference],
        plan: &Plan,
        gone: &mut BTreeSet<InKernel>,
    ) -> Result<(), BackendError> {
        self.check()?;
        let known = gone.len();
        let there = differences.iter().filter(|d| d.before.is_some());
        let asked: Vec<InKernel> = there
            .map(|difference| InKernel::Flow(difference.key))
            .chain(plan.patterns.changed().map(InKernel::Pattern))
            .collect();
        for element in asked {
            if gone.contains(&element) {
                continue;
            }
            let table = &self.config.table;
            let found = match &element {
                InKernel::Flow(key) => {
                    table::counter(&mut self.socket, table, key.set.name(), key.octets())
                }
                InKernel::Pattern(number) => {
                    table::counter(&mut self.socket, table, ALIVE, &number.to_ne_bytes())
                }
            };
            match found {
                Ok(_) => {}
                Err(Errno::ENOENT) => {
                    gone.insert(element);
                }
                Err(errno) => return Err(backend_error(errno)),
            }
        }
        if gone.len() == known {
            // Something else is missing: rules of patterns.
            return Err(BackendError::OutOfStep);
        }
        Ok(())
    }

    fn push_difference(
        &self,
        batch: &mut Batch,
        now: Time,
        difference: &Difference,
        gone: &BTreeSet<InKernel>,
    ) {
        let table = &self.config.table;
        let Difference { key, before, after } = difference;
        let before = before.filter(|_| !gone.contains(&InKernel::Flow(*key)));
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
                plan.flows.add(&self.held, key, Who::new(flow, data), until);
            }
            return Ok(());
        }
        self.patterns
            .add(&mut plan.patterns, &self.config, element, until)
    }

    /// What is too small for what an earlier life granted, with the number that is needed.
    fn needed(&self, elements: &[(Element, Lifetime)]) -> Option<BackendError> {
        let count = |is: fn(&Element) -> bool| elements.iter().filter(|(e, _)| is(e)).count();
        let allowed = count(|element| matches!(element, Element::Allow(..)));
        let blocks = count(|element| matches!(element, Element::Block(_)));
        let mut flows: BTreeMap<Set, usize> = BTreeMap::new();
        for (key, _) in self.held.wanted() {
            *flows.entry(key.set).or_default() += 1;
        }
        let flows = flows.into_values().max().unwrap_or(0);
        let max_elements = usize::try_from(self.config.max_elements).unwrap_or(usize::MAX);
        let (what, needed, most) = [
            (
                "wildcards and port ranges (patterns)",
                allowed,
                self.config.max_patterns,
            ),
            ("prohibits (disable-rules)", blocks, self.config.max_blocks),
            ("flows in one direction (elements)", flows, max_elements),
        ]
        .into_iter()
        .find(|(_, needed, most)| needed > most)?;
        Some(BackendError::System(format!(
            "{needed} {what} are granted, and the configuration has room for {most}: give room for {needed} at least, and for less when they have ended"
        )))
    }

    /// Elements of the kernel's sets as they are.
    fn in_kernel(&mut self, now: Time) -> Result<BTreeMap<Key, Wanted>, BackendError> {
        let mut found = BTreeMap::new();
        let translates = !self.config.translation.is_empty();
        for set in Set::ALL {
            if translates || !set.is_map() {
                let table = &self.config.table;
                let elements = table::elements(&mut self.socket, table, set);
                for (key, data, left) in elements.map_err(backend_error)? {
                    let until = now + left;
                    found.insert(key, Wanted { data, until });
                }
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
            self.commit(now, Batch::default, some, &Plan::default())?;
        }
        self.forget_connections(&differences);
        Ok(())
    }

    /// Makes the rules of patterns anew, in one batch.
    fn reconcile_patterns(&mut self, now: Time, plan: &Plan) -> Result<(), BackendError> {
        let table = self.config.table.clone();
        let begin = || {
            let mut batch = Batch::default();
            table::empty_patterns(&mut batch, &table);
            batch
        };
        let (rules, made) = self.commit(now, begin, &[], plan)?;
        self.patterns.apply(&plan.patterns, &rules, made)
    }
}

/// What is left until then, for the kernel.
pub(crate) fn left(now: Time, until: Time) -> Duration {
    until.since(now).max(Duration::from_millis(1))
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
                    plan.flows
                        .extend(&self.held, key, Who::new(flow, data), until);
                }
            } else {
                self.patterns.extend(&mut plan.patterns, element, until)?;
            }
        }
        self.run(now, plan)
    }

    fn remove(&mut self, now: Time, elements: &[Element]) -> Result<(), BackendError> {
        let mut plan = Plan::default();
        for element in elements {
            if let Element::Flow(flow) = element {
                for (key, data) in entries_of(flow) {
                    plan.flows.remove(&self.held, key, Who::new(flow, data));
                }
            } else {
                self.patterns.remove(&mut plan.patterns, element)?;
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
        self.patterns = Patterns::default();
        let mut plan = Plan::default();
        for (element, lifetime) in elements {
            self.plan_new(&mut plan, element, ends(now, *lifetime))
                .map_err(|error| self.needed(elements).unwrap_or(error))?;
        }
        std::mem::take(&mut plan.flows).apply(&mut self.held);
        if let Some(error) = self.needed(elements) {
            return Err(error);
        }
        self.reconcile_patterns(now, &plan)?;
        self.reconcile_flows(now)
    }

    fn check(&mut self) -> Result<(), BackendError> {
        let patterns = self.patterns.rules();
        match self.made.is_whole(&mut self.socket, &self.config, patterns) {
            Ok(true) => Ok(()),
            Ok(false) => Err(BackendError::Gone),
            Err(errno) => Err(BackendError::System(format!(
                "can't look at the table: {errno}"
            ))),
        }
    }

    fn meter(&mut self, rules: &[Vec<Element>]) -> Option<Meter> {
        let rules: Vec<_> = rules.iter().map(|rule| self.counters(rule)).collect();
        let table = self.config.table.clone();
        let socket = Arc::clone(&self.questions);
        Some(Box::new(move || {
            // Whoever panicked with it left no answer half read: each begins with a number of its own.
            let mut socket = socket.lock().unwrap_or_else(PoisonError::into_inner);
            meter::read(&mut socket, &table, &rules).map_err(backend_error)
        }))
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
