//! Held rules and their refresh times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::error::RequestError;
use super::{ClientState, outcome};
use carrick_simco::message::{
    AddressTuple, EnableRequest, GroupId, Lifetime, PolicyRuleId, Reply, Request,
};

/// Fraction of a rule's lifetime after which it is refreshed.
const REFRESH_SHARE: f64 = 0.5;

/// Time before the end of its lifetime, by this clock, at which a rule may have expired: the middlebox
/// counts from the request, the client from the reply. The smaller of a time and a fraction of the
/// lifetime.
const EXPIRY_MARGIN: Duration = Duration::from_secs(1);
const EXPIRY_MARGIN_SHARE: f64 = 0.125;

/// Rule that is refreshed until this is dropped. After that it expires.
pub struct HeldRule {
    inner: Arc<ClientState>,
    key: u64,
    lifetime_end: watch::Receiver<Option<Instant>>,
}

/// State of a held rule.
#[derive(Clone, Debug)]
pub(super) struct HeldRuleState {
    /// Request that created it.
    pub(super) request: Request,
    /// PEA request, if a reservation was enabled.
    pub(super) enabled: Option<EnableRequest>,
    pub(super) rule: PolicyRuleId,
    pub(super) group: Option<GroupId>,
    /// A2, if the reply contained it.
    pub(super) outside: Option<AddressTuple>,
    /// True if the middlebox may have lost the rule, so that its status is to be compared first.
    pub(super) unverified: bool,
    due: Option<Instant>,
    /// End of the lifetime; `None` when the rule is no longer held.
    lifetime_end: watch::Sender<Option<Instant>>,
}

/// All held rules.
#[derive(Default)]
pub(super) struct HeldRules {
    entries: Mutex<HeldRuleTable>,
    /// Signals that the next refresh is earlier than before.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct HeldRuleTable {
    all: BTreeMap<u64, HeldRuleState>,
    due: BTreeSet<(Instant, u64)>,
    /// Held rules by group.
    groups: BTreeMap<GroupId, BTreeSet<u64>>,
    /// Groups that the middlebox has lost, with the groups that replace them. The lock is held while
    /// the first rule of a group is requested.
    successors: BTreeMap<GroupId, Successor>,
    next: u64,
}

/// Group that replaces another one, once it exists.
pub(super) type Successor = Arc<tokio::sync::Mutex<Option<GroupId>>>;

impl HeldRuleTable {
    fn add_to_group(&mut self, group: Option<GroupId>, key: u64) {
        if let Some(group) = group {
            self.groups.entry(group).or_default().insert(key);
        }
    }

    fn remove_from_group(&mut self, group: Option<GroupId>, key: u64) {
        if let Some(group) = group
            && let Some(members) = self.groups.get_mut(&group)
        {
            members.remove(&key);
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
    }
}

/// Group for a rule that is requested again.
pub(super) enum GroupChoice {
    /// New group, because no other rule shares it.
    New,
    /// Previous group, because another of its rules is in force.
    Same(GroupId),
    /// Group that replaces the previous one.
    Successor(Successor),
}

impl HeldRuleState {
    /// Returns the requested lifetime.
    pub(super) fn requested_lifetime(&self) -> Lifetime {
        let enabled = self.enabled.map(|enable| enable.lifetime);
        let requested = || self.request.lifetime().unwrap_or_default();
        enabled.unwrap_or_else(requested)
    }

    /// Returns whether the lifetime is over at the middlebox, whose count began slightly earlier.
    fn has_expired(&self) -> bool {
        let early = duration_of(self.requested_lifetime())
            .mul_f64(EXPIRY_MARGIN_SHARE)
            .min(EXPIRY_MARGIN);
        let end = *self.lifetime_end.borrow();
        end.is_some_and(|end| end <= Instant::now() + early)
    }
}

impl HeldRules {
    fn lock(&self) -> MutexGuard<'_, HeldRuleTable> {
        // A panic leaves the entries consistent: each change is a few insertions.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().all.len()
    }

    pub(super) fn rules(&self) -> BTreeSet<PolicyRuleId> {
        self.lock().all.values().map(|entry| entry.rule).collect()
    }

    pub(super) fn get(&self, key: u64) -> Option<HeldRuleState> {
        self.lock().all.get(&key).cloned()
    }

    fn add(
        &self,
        request: Request,
        reply: &Reply,
    ) -> Option<(u64, watch::Receiver<Option<Instant>>)> {
        let (rule, lifetime) = granted_rule(reply)?;
        let (lifetime_end, lifetime_watch) = watch::channel(Some(end(lifetime)));
        let mut entries = self.lock();
        let key = entries.next;
        entries.next += 1;
        let due = Some(refresh_time(lifetime));
        let entry = HeldRuleState {
            request,
            enabled: None,
            rule,
            group: group(reply),
            outside: outside(reply),
            unverified: false,
            due,
            lifetime_end,
        };
        entries.due.extend(due.map(|due| (due, key)));
        entries.add_to_group(entry.group, key);
        entries.all.insert(key, entry);
        drop(entries);
        self.changed.notify_one();
        Some((key, lifetime_watch))
    }

    /// Removes a rule.
    pub(super) fn remove(&self, key: u64) -> Option<HeldRuleState> {
        let mut entries = self.lock();
        let entry = entries.all.remove(&key)?;
        if let Some(due) = entry.due {
            entries.due.remove(&(due, key));
        }
        entries.remove_from_group(entry.group, key);
        entry.lifetime_end.send_replace(None);
        Some(entry)
    }

    /// Handles the end of a rule. Returns whether it was a held rule that another party ended. A rule
    /// that expired because it was not refreshed in time is requested again at once.
    pub(super) fn ended(&self, rule: PolicyRuleId) -> bool {
        let entries = self.lock();
        let mut held = entries.all.iter();
        let found = held.find(|(_, entry)| entry.rule == rule && !entry.unverified);
        let Some((&key, entry)) = found else {
            return false;
        };
        let (has_expired, waits) = (entry.has_expired(), entry.due.is_some());
        drop(entries);
        if !has_expired {
            return self.remove(key).is_some();
        }
        // Otherwise the refresh in progress detects it.
        if waits {
            self.set_due(key, Instant::now(), None);
            self.changed.notify_one();
        }
        false
    }

    /// Marks all rules as unverified in a new session.
    pub(super) fn mark_unverified(&self) {
        let now = Instant::now();
        let mut entries = self.lock();
        let HeldRuleTable {
            all,
            due,
            successors,
            ..
        } = &mut *entries;
        due.clear();
        successors.clear();
        for (key, entry) in all {
            entry.unverified = true;
            entry.due = Some(now);
            due.insert((now, *key));
        }
    }

    /// Returns the time of the next refresh.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lock().due.first().map(|(due, _)| *due)
    }

    /// Returns a rule that is due. It is not due again before [`Self::schedule`] or [`Self::renewed`].
    pub(super) fn take_due(&self, now: Instant) -> Option<(u64, HeldRuleState)> {
        let mut entries = self.lock();
        let (due, key) = *entries.due.first()?;
        if due > now {
            return None;
        }
        entries.due.pop_first();
        let entry = entries.all.get_mut(&key)?;
        entry.due = None;
        Some((key, entry.clone()))
    }

    /// Returns the group for a rule that the middlebox has lost.
    pub(super) fn regroup(&self, key: u64) -> GroupChoice {
        let mut entries = self.lock();
        let Some(group) = entries.all.get(&key).and_then(|entry| entry.group) else {
            return GroupChoice::New;
        };
        let none = BTreeSet::new();
        let members = entries.groups.get(&group).unwrap_or(&none);
        let mut others = members.iter().filter(|other| **other != key);
        let surely = |other: &u64| entries.all.get(other).is_some_and(|e| !e.unverified);
        if others.clone().any(surely) {
            return GroupChoice::Same(group);
        }
        if others.next().is_none() && !entries.successors.contains_key(&group) {
            return GroupChoice::New;
        }
        GroupChoice::Successor(Arc::clone(entries.successors.entry(group).or_default()))
    }

    /// Records a PEA. Returns whether the rule is still held.
    pub(super) fn enabled(&self, key: u64, enable: EnableRequest, reply: &Reply) -> bool {
        if let Some(entry) = self.lock().all.get_mut(&key) {
            entry.enabled = Some(enable);
        }
        self.renewed(key, reply)
    }

    /// Records a granted lifetime.
    pub(super) fn refreshed(&self, key: u64, lifetime: Lifetime) {
        self.set_due(key, refresh_time(lifetime), Some(false));
        if let Some(entry) = self.lock().all.get(&key) {
            entry.lifetime_end.send_replace(Some(end(lifetime)));
        }
    }

    /// Schedules a rule after this time.
    pub(super) fn schedule(&self, key: u64, after: Duration) {
        self.set_due(key, Instant::now() + after, None);
    }

    fn set_due(&self, key: u64, at: Instant, unverified: Option<bool>) {
        let mut entries = self.lock();
        let HeldRuleTable { all, due, .. } = &mut *entries;
        let Some(entry) = all.get_mut(&key) else {
            return;
        };
        if let Some(old) = entry.due.replace(at) {
            due.remove(&(old, key));
        }
        entry.unverified = unverified.unwrap_or(entry.unverified);
        due.insert((at, key));
    }

    /// Records a rule that was granted again. Returns whether it is still held.
    pub(super) fn renewed(&self, key: u64, reply: &Reply) -> bool {
        let Some((rule, lifetime)) = granted_rule(reply) else {
            return false;
        };
        {
            let mut entries = self.lock();
            let Some(entry) = entries.all.get_mut(&key) else {
                return false;
            };
            entry.rule = rule;
            entry.outside = outside(reply);
            let (before, after) = (entry.group, group(reply));
            entry.group = after;
            entries.remove_from_group(before, key);
            entries.add_to_group(after, key);
        }
        self.refreshed(key, lifetime);
        true
    }
}

impl HeldRule {
    pub(super) fn new(inner: Arc<ClientState>, request: Request, reply: &Reply) -> Option<Self> {
        let (key, lifetime_end) = inner.held_rules.add(request, reply)?;
        Some(Self {
            inner,
            key,
            lifetime_end,
        })
    }

    /// Returns its identifier, which changes with [`super::ClientEvent::Renewed`]; zero after its end.
    pub fn id(&self) -> PolicyRuleId {
        let entry = self.inner.held_rules.get(self.key);
        entry.map_or(PolicyRuleId(0), |entry| entry.rule)
    }

    /// Returns its group; `None` for PDR and after its end.
    pub fn group(&self) -> Option<GroupId> {
        self.inner.held_rules.get(self.key)?.group
    }

    /// Returns A2, the address that the external host sees; `None` for PDR and after its end.
    pub fn outside(&self) -> Option<AddressTuple> {
        self.inner.held_rules.get(self.key)?.outside
    }

    /// Returns whether it is held: it has not been ended, and it was granted again where that was
    /// necessary.
    pub fn is_held(&self) -> bool {
        self.inner.held_rules.get(self.key).is_some()
    }

    /// Waits until the rule is certainly no longer in force: another party ended it, it was not
    /// granted again, or its lifetime is over and no refresh was answered. In the last case the client
    /// keeps requesting it. Cancel-safe.
    pub async fn lost(&self) {
        let mut lifetime_end = self.lifetime_end.clone();
        loop {
            let Some(end) = *lifetime_end.borrow_and_update() else {
                return;
            };
            match tokio::time::timeout_at(end, lifetime_end.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    /// PEA: enables a data stream on this reservation, which becomes that rule and is held with the
    /// lifetime in `enable`.
    ///
    /// # Errors
    /// When it is refused or its outcome is unknown; the reservation is held as before.
    pub async fn enable(&self, enable: EnableRequest) -> Result<(), RequestError> {
        let rule = self.id();
        let reply = outcome::enable_reserved(&self.inner, enable, rule).await?;
        if self.inner.held_rules.enabled(self.key, enable, &reply) {
            Ok(())
        } else {
            Err(RequestError::Unexpected)
        }
    }

    /// Deletes the rule.
    ///
    /// # Errors
    /// The request is refused or not answered; the rule then expires.
    pub async fn close(self) -> Result<(), RequestError> {
        let Some(entry) = self.inner.held_rules.remove(self.key) else {
            return Ok(());
        };
        outcome::end(&self.inner, &entry).await
    }
}

impl Drop for HeldRule {
    fn drop(&mut self) {
        self.inner.held_rules.remove(self.key);
    }
}

fn refresh_time(lifetime: Lifetime) -> Instant {
    Instant::now() + duration_of(lifetime).mul_f64(REFRESH_SHARE)
}

fn end(lifetime: Lifetime) -> Instant {
    Instant::now() + duration_of(lifetime)
}

fn duration_of(lifetime: Lifetime) -> Duration {
    Duration::from_secs(u64::from(lifetime.0))
}

fn granted_rule(reply: &Reply) -> Option<(PolicyRuleId, Lifetime)> {
    match reply {
        Reply::Enabled(enabled) => Some((enabled.rule, enabled.lifetime)),
        Reply::Reserved(reserved) => Some((reserved.rule, reserved.lifetime)),
        Reply::Disabled { rule, lifetime } => Some((*rule, *lifetime)),
        _ => None,
    }
}

fn group(reply: &Reply) -> Option<GroupId> {
    match reply {
        Reply::Enabled(enabled) => Some(enabled.group),
        Reply::Reserved(reserved) => Some(reserved.group),
        _ => None,
    }
}

fn outside(reply: &Reply) -> Option<AddressTuple> {
    match reply {
        Reply::Enabled(enabled) => Some(enabled.outside),
        Reply::Reserved(reserved) => Some(reserved.outside),
        _ => None,
    }
}
