//! Backend of a middlebox on `nf_tables`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carrick_simco::Time;
use carrick_simco::backend::{Backend, BackendError, Element, Meter, Reservation};
use carrick_simco::message::{Lifetime, PrrParameters};
use nix::errno::Errno;

use crate::config::NftablesConfig;
use crate::created_table::{CreatedTable, create};
use crate::entry::{FlowSet, SetKey, entries_of};
use crate::error::{NftablesError, backend_error};
use crate::flow_elements::{
    ElementChange, FlowClaim, FlowElements, PendingChanges, RequiredElement,
};
use crate::layout::ALIVE;
use crate::lock::TableLock;
use crate::meter::{self, CountedElement};
use crate::patterns::{PatternChanges, Patterns};
use crate::socket::{Batch, NetlinkSocket};
use crate::table::{self, KernelRule};

/// Maximum number of elements in a batch.
const BATCH_SIZE: usize = 4096;

/// Pinholes in the Linux kernel, in a separate table.
///
/// Each call is a batch that the kernel applies entirely or not at all, and it is in force when the
/// call returns. It uses the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct NftablesBackend {
    config: NftablesConfig,
    socket: NetlinkSocket,
    /// Socket for queries from other threads. Opened here, since those may be in another namespace.
    queries: Arc<Mutex<NetlinkSocket>>,
    /// True if the kernel can change the timeout of an element (Linux 6.12). Otherwise elements are
    /// removed and added in one batch, and their counters restart.
    can_update: bool,
    flow_elements: FlowElements,
    patterns: Patterns,
    table: CreatedTable,
    /// Released last.
    _lock: TableLock,
}

/// State of elements that may have reached their timeout.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum KernelElement {
    Flow(SetKey),
    Pattern(u32),
}

/// Changes of one call.
#[derive(Debug, Default)]
struct ChangePlan {
    flows: PendingChanges,
    patterns: PatternChanges,
}

impl NftablesBackend {
    /// Creates or corrects the table. Flows and patterns of an earlier run stay until
    /// [`Backend::reconcile`]. From here on, packets that no rule enables are dropped if
    /// the policy is [`Policy::Drop`](crate::Policy::Drop).
    ///
    /// # Errors
    /// Another backend uses the table in this network namespace, the process lacks permission,
    /// the kernel lacks support, or the configuration is invalid.
    pub fn open(config: NftablesConfig) -> Result<Self, NftablesError> {
        config.check()?;
        let lock = TableLock::take(&config.table)?;
        let mut socket = NetlinkSocket::open()?;
        let table = create(&mut socket, &config)?;
        let updates = config.update_timeouts && table::can_update(&mut socket, &config.table)?;
        Ok(Self {
            config,
            socket,
            queries: Arc::new(Mutex::new(NetlinkSocket::open()?)),
            can_update: updates,
            flow_elements: FlowElements::default(),
            patterns: Patterns::default(),
            table,
            _lock: lock,
        })
    }

    /// Returns the number of elements in the kernel's sets, including those of patterns.
    pub fn elements(&self) -> usize {
        self.flow_elements.len() + self.patterns.len()
    }

    /// Removes the table. Packets that it blocked pass unless another table blocks them.
    ///
    /// # Errors
    /// The kernel refuses the removal.
    pub fn remove_table(mut self) -> Result<(), NftablesError> {
        self.config.keep = true;
        table::remove(&mut self.socket, &self.config.table)
    }

    /// Returns the counters of a rule with these elements: flows count, maps do not.
    fn counters(&self, elements: &[Element]) -> Vec<CountedElement> {
        let mut counters = Vec::new();
        for element in elements {
            if let Element::Flow(flow) = element {
                let keys = entries_of(flow).into_iter().map(|(key, _)| key);
                counters.extend(
                    keys.filter(|key| !key.set.is_map())
                        .map(CountedElement::Flow),
                );
            } else if let Some(number) = self.patterns.number(element) {
                counters.push(CountedElement::Pattern(number.to_ne_bytes()));
            }
        }
        counters
    }

    /// Applies a plan entirely or not at all.
    fn run(&mut self, now: Time, plan: ChangePlan) -> Result<(), BackendError> {
        let differences = plan.flows.differences(&self.flow_elements);
        let (counts, created) = self.commit(now, Batch::default, &differences, &plan)?;
        self.patterns.apply(&plan.patterns, &counts, created)?;
        plan.flows.apply(&mut self.flow_elements);
        self.delete_connections(&differences);
        Ok(())
    }

    /// Commits a batch after the messages of `begin`. Returns the number of rules of each new pattern
    /// and all rules created.
    fn commit(
        &mut self,
        now: Time,
        begin: impl Fn() -> Batch,
        differences: &[ElementChange],
        plan: &ChangePlan,
    ) -> Result<(Vec<usize>, Vec<KernelRule>), BackendError> {
        // Elements that have reached their timeout count as removed.
        let mut expired = BTreeSet::new();
        loop {
            let mut batch = begin();
            for difference in differences {
                self.push_difference(&mut batch, now, difference, &expired);
            }
            let patterns = &plan.patterns;
            let counts = patterns.push(&mut batch, now, &self.config, self.can_update, |number| {
                expired.contains(&KernelElement::Pattern(number))
            });
            if batch.is_empty() {
                return Ok((counts, Vec::new()));
            }
            let mut created = Vec::new();
            let outcome = self
                .socket
                .commit(batch, |echo| created.extend(table::echoed_rule(echo)));
            match outcome {
                Ok(()) => return Ok((counts, created)),
                Err(Errno::ENOENT) => self.find_expired(differences, plan, &mut expired)?,
                Err(errno) => return Err(backend_error(errno)),
            }
        }
    }

    /// Determines which of the known elements no longer exist.
    fn find_expired(
        &mut self,
        differences: &[ElementChange],
        plan: &ChangePlan,
        expired: &mut BTreeSet<KernelElement>,
    ) -> Result<(), BackendError> {
        self.check()?;
        let known = expired.len();
        let existing = differences.iter().filter(|d| d.before.is_some());
        let known_elements: Vec<KernelElement> = existing
            .map(|difference| KernelElement::Flow(difference.key))
            .chain(plan.patterns.changed().map(KernelElement::Pattern))
            .collect();
        for element in known_elements {
            if expired.contains(&element) {
                continue;
            }
            let table = &self.config.table;
            let found = match &element {
                KernelElement::Flow(key) => {
                    table::counter(&mut self.socket, table, key.set.name(), key.octets())
                }
                KernelElement::Pattern(number) => {
                    table::counter(&mut self.socket, table, ALIVE, &number.to_ne_bytes())
                }
            };
            match found {
                Ok(_) => {}
                Err(Errno::ENOENT) => {
                    expired.insert(element);
                }
                Err(errno) => return Err(backend_error(errno)),
            }
        }
        if expired.len() == known {
            // Rules of patterns are missing.
            return Err(BackendError::OutOfStep);
        }
        Ok(())
    }

    fn push_difference(
        &self,
        batch: &mut Batch,
        now: Time,
        difference: &ElementChange,
        expired: &BTreeSet<KernelElement>,
    ) {
        let table = &self.config.table;
        let ElementChange { key, before, after } = difference;
        let before = before.filter(|_| !expired.contains(&KernelElement::Flow(*key)));
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
                if before.data == wanted.data && self.can_update {
                    table::update_element(batch, table, set, octets, wanted.data, left);
                } else {
                    table::delete_element(batch, table, set, octets);
                    table::add_element(batch, table, set, octets, wanted.data, left);
                }
            }
        }
    }

    /// Makes the kernel translate changed flows again: it translates a connection like its first
    /// packet.
    fn delete_connections(&mut self, differences: &[ElementChange]) {
        for ElementChange { key, before, after } in differences {
            let data = |wanted: &Option<RequiredElement>| wanted.and_then(|wanted| wanted.data);
            if key.set.is_map() && data(before) != data(after) {
                // Usually there is no such connection.
                let _ = table::delete_connection(&mut self.socket, key);
                // A connection from the other side has the addresses of the new translation.
                if let Some(reverse) = data(after).and_then(|data| key.reverse(data)) {
                    let _ = table::delete_connection(&mut self.socket, &reverse);
                }
            }
        }
    }

    fn plan_new(
        &mut self,
        plan: &mut ChangePlan,
        element: &Element,
        until: Time,
    ) -> Result<(), BackendError> {
        if let Element::Flow(flow) = element {
            for (key, data) in entries_of(flow) {
                plan.flows
                    .add(&self.flow_elements, key, FlowClaim::new(flow, data), until);
            }
            return Ok(());
        }
        self.patterns
            .add(&mut plan.patterns, &self.config, element, until)
    }

    /// Returns the limit that is too small for the rules to restore, with the number needed.
    fn needed(&self, elements: &[(Element, Lifetime)]) -> Option<BackendError> {
        let count = |is: fn(&Element) -> bool| elements.iter().filter(|(e, _)| is(e)).count();
        let allowed = count(|element| matches!(element, Element::Allow(..)));
        let blocks = count(|element| matches!(element, Element::Block(_)));
        let mut flows: BTreeMap<FlowSet, usize> = BTreeMap::new();
        for (key, _) in self.flow_elements.all_required() {
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
            "the state has {needed} {what}, but the configuration allows {most}: allow at least {needed} until they have expired"
        )))
    }

    /// Returns the elements of the kernel's sets.
    fn in_kernel(&mut self, now: Time) -> Result<BTreeMap<SetKey, RequiredElement>, BackendError> {
        let mut found = BTreeMap::new();
        let translates = !self.config.translation.is_empty();
        for set in FlowSet::ALL {
            if translates || !set.is_map() {
                let table = &self.config.table;
                let elements = table::elements(&mut self.socket, table, set);
                for (key, data, left) in elements.map_err(backend_error)? {
                    let until = now + left;
                    found.insert(key, RequiredElement { data, until });
                }
            }
        }
        Ok(found)
    }

    /// Changes the sets of flows to the required state.
    fn reconcile_flows(&mut self, now: Time) -> Result<(), BackendError> {
        let found = self.in_kernel(now)?;
        let differs = |before: &RequiredElement, after: &RequiredElement| {
            let (a, b) = (before.until, after.until);
            before.data != after.data || a.since(b).max(b.since(a)) > Duration::from_secs(1)
        };
        let mut differences: Vec<ElementChange> = Vec::new();
        for (key, before) in &found {
            let after = self.flow_elements.required(key);
            if after.is_none_or(|after| differs(before, &after)) {
                differences.push(ElementChange {
                    key: *key,
                    before: Some(*before),
                    after,
                });
            }
        }
        for (key, after) in self.flow_elements.all_required() {
            if !found.contains_key(&key) {
                differences.push(ElementChange {
                    key,
                    before: None,
                    after: Some(after),
                });
            }
        }
        // First the changes that block.
        differences.sort_by_key(|difference| difference.after.is_some());
        for some in differences.chunks(BATCH_SIZE) {
            self.commit(now, Batch::default, some, &ChangePlan::default())?;
        }
        self.delete_connections(&differences);
        Ok(())
    }

    /// Recreates the rules of patterns in one batch.
    fn reconcile_patterns(&mut self, now: Time, plan: &ChangePlan) -> Result<(), BackendError> {
        let table = self.config.table.clone();
        let begin = || {
            let mut batch = Batch::default();
            table::delete_all_patterns(&mut batch, &table);
            batch
        };
        let (counts, created) = self.commit(now, begin, &[], plan)?;
        self.patterns.apply(&plan.patterns, &counts, created)
    }
}

/// Returns the time left, for the kernel.
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
        let mut plan = ChangePlan::default();
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
        let mut plan = ChangePlan::default();
        let until = ends(now, lifetime);
        for element in elements {
            if let Element::Flow(flow) = element {
                for (key, data) in entries_of(flow) {
                    plan.flows
                        .extend(&self.flow_elements, key, FlowClaim::new(flow, data), until);
                }
            } else {
                self.patterns.extend(&mut plan.patterns, element, until)?;
            }
        }
        self.run(now, plan)
    }

    fn remove(&mut self, now: Time, elements: &[Element]) -> Result<(), BackendError> {
        let mut plan = ChangePlan::default();
        for element in elements {
            if let Element::Flow(flow) = element {
                for (key, data) in entries_of(flow) {
                    plan.flows
                        .remove(&self.flow_elements, key, FlowClaim::new(flow, data));
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
        self.flow_elements = FlowElements::default();
        self.patterns = Patterns::default();
        let mut plan = ChangePlan::default();
        for (element, lifetime) in elements {
            self.plan_new(&mut plan, element, ends(now, *lifetime))
                .map_err(|error| self.needed(elements).unwrap_or(error))?;
        }
        std::mem::take(&mut plan.flows).apply(&mut self.flow_elements);
        if let Some(error) = self.needed(elements) {
            return Err(error);
        }
        self.reconcile_patterns(now, &plan)?;
        self.reconcile_flows(now)
    }

    fn check(&mut self) -> Result<(), BackendError> {
        let patterns = self.patterns.rules();
        match self
            .table
            .is_intact(&mut self.socket, &self.config, patterns)
        {
            Ok(true) => Ok(()),
            Ok(false) => Err(BackendError::NotEnforced),
            Err(errno) => Err(BackendError::System(format!(
                "cannot read the table: {errno}"
            ))),
        }
    }

    fn meter(&mut self, rules: &[Vec<Element>]) -> Option<Meter> {
        let rules: Vec<_> = rules.iter().map(|rule| self.counters(rule)).collect();
        let table = self.config.table.clone();
        let socket = Arc::clone(&self.queries);
        Some(Box::new(move || {
            // A panic leaves no partly read answer, since each query has its own sequence number.
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
            match pool.allocate(wanted) {
                Ok(reservation) => return Ok(reservation),
                Err(BackendError::NoPorts) => why = BackendError::NoPorts,
                Err(_) => {}
            }
        }
        Err(why)
    }

    fn restore_reservation(&mut self, reservation: &Reservation) -> Result<(), BackendError> {
        let mut why = BackendError::NoAddresses;
        for pool in &mut self.config.translation {
            match pool.restore(reservation) {
                Ok(()) => return Ok(()),
                Err(BackendError::NoPorts) => why = BackendError::NoPorts,
                Err(_) => {}
            }
        }
        Err(why)
    }

    fn release(&mut self, reservation: &Reservation) {
        for pool in &mut self.config.translation {
            pool.free(reservation);
        }
    }
}

impl Drop for NftablesBackend {
    fn drop(&mut self) {
        if !self.config.keep {
            // There is no caller to report an error to.
            let _ = table::remove(&mut self.socket, &self.config.table);
        }
    }
}
