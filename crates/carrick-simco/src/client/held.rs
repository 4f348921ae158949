//! Rules that are held: what they are, and when they are to be refreshed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::error::RequestError;
use super::{Inner, inquiry};
use crate::message::{
    AddressTuple, EnableRequest, GroupId, Lifetime, PolicyRuleId, Reply, Request,
};

/// The share of a rule's life after which it is refreshed.
const REFRESH_AT: f64 = 0.5;

/// How long before the end of its life, by this clock, a rule may end by itself: the middlebox counted
/// from the request, the client from the reply. The lesser of a time and a share of the life.
const LATE: Duration = Duration::from_secs(1);
const LATE_AT: f64 = 0.125;

/// A rule that is refreshed as long as this is not dropped. Dropped, the rule lives out its life.
pub struct HeldRule {
    inner: Arc<Inner>,
    key: u64,
    life: watch::Receiver<Option<Instant>>,
}

/// What is known of a held rule.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// What it was asked for with.
    pub(super) request: Request,
    /// What a reservation was enabled for.
    pub(super) enabled: Option<EnableRequest>,
    pub(super) rule: PolicyRuleId,
    pub(super) group: Option<GroupId>,
    /// A2, where the reply told one.
    pub(super) outside: Option<AddressTuple>,
    /// The middlebox may have forgotten it: it is to be compared with its status first.
    pub(super) doubtful: bool,
    due: Option<Instant>,
    /// When its life is over; none when it is held no more.
    life: watch::Sender<Option<Instant>>,
}

/// All held rules.
#[derive(Default)]
pub(super) struct Shelf {
    entries: Mutex<Entries>,
    /// There is something to do earlier than before.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct Entries {
    all: BTreeMap<u64, Entry>,
    due: BTreeSet<(Instant, u64)>,
    /// Rules that are held, by group.
    groups: BTreeMap<GroupId, BTreeSet<u64>>,
    /// Groups of several rules that the middlebox has forgotten, with those in their place; whoever
    /// asks for the first rule of one has the lock.
    successors: BTreeMap<GroupId, Successor>,
    next: u64,
}

/// The group in the place of another, once there is one.
pub(super) type Successor = Arc<tokio::sync::Mutex<Option<GroupId>>>;

impl Entries {
    fn join(&mut self, group: Option<GroupId>, key: u64) {
        if let Some(group) = group {
            self.groups.entry(group).or_default().insert(key);
        }
    }

    fn leave(&mut self, group: Option<GroupId>, key: u64) {
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

/// In which group a rule is asked for again.
pub(super) enum Regroup {
    /// In a new one: nobody shares it.
    Alone,
    /// In the one that it was in: another of its rules lives.
    Same(GroupId),
    /// In the one that takes its place.
    Successor(Successor),
}

impl Entry {
    /// The lifetime that it is held with.
    pub(super) fn wanted(&self) -> Lifetime {
        let enabled = self.enabled.map(|enable| enable.lifetime);
        let requested = || self.request.lifetime().unwrap_or_default();
        enabled.unwrap_or_else(requested)
    }

    /// Whether its life is over. The middlebox's began a little earlier.
    fn lived_out(&self) -> bool {
        let early = lasting(self.wanted()).mul_f64(LATE_AT).min(LATE);
        let end = *self.life.borrow();
        end.is_some_and(|end| end <= Instant::now() + early)
    }
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Whoever panicked with it left it whole: each change is a few insertions.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().all.len()
    }

    pub(super) fn rules(&self) -> BTreeSet<PolicyRuleId> {
        self.lock().all.values().map(|entry| entry.rule).collect()
    }

    pub(super) fn get(&self, key: u64) -> Option<Entry> {
        self.lock().all.get(&key).cloned()
    }

    fn add(
        &self,
        request: Request,
        reply: &Reply,
    ) -> Option<(u64, watch::Receiver<Option<Instant>>)> {
        let (rule, lifetime) = made(reply)?;
        let (life, living) = watch::channel(Some(end(lifetime)));
        let mut entries = self.lock();
        let key = entries.next;
        entries.next += 1;
        let due = Some(refresh(lifetime));
        let entry = Entry {
            request,
            enabled: None,
            rule,
            group: group(reply),
            outside: outside(reply),
            doubtful: false,
            due,
            life,
        };
        entries.due.extend(due.map(|due| (due, key)));
        entries.join(entry.group, key);
        entries.all.insert(key, entry);
        drop(entries);
        self.changed.notify_one();
        Some((key, living))
    }

    /// Takes a rule off the shelf.
    pub(super) fn remove(&self, key: u64) -> Option<Entry> {
        let mut entries = self.lock();
        let entry = entries.all.remove(&key)?;
        if let Some(due) = entry.due {
            entries.due.remove(&(due, key));
        }
        entries.leave(entry.group, key);
        entry.life.send_replace(None);
        Some(entry)
    }

    /// A rule has ended. Returns whether it was held, and surely that one, and somebody ended it. One that
    /// was not refreshed in time is asked for again at once.
    pub(super) fn ended(&self, rule: PolicyRuleId) -> bool {
        let entries = self.lock();
        let mut held = entries.all.iter();
        let found = held.find(|(_, entry)| entry.rule == rule && !entry.doubtful);
        let Some((&key, entry)) = found else {
            return false;
        };
        let (lived_out, waits) = (entry.lived_out(), entry.due.is_some());
        drop(entries);
        if !lived_out {
            return self.remove(key).is_some();
        }
        // Else the refresh that is under way finds out.
        if waits {
            self.set_due(key, Instant::now(), None);
            self.changed.notify_one();
        }
        false
    }

    /// A new session: all rules are to be looked at.
    pub(super) fn doubt(&self) {
        let now = Instant::now();
        let mut entries = self.lock();
        let Entries {
            all,
            due,
            successors,
            ..
        } = &mut *entries;
        due.clear();
        successors.clear();
        for (key, entry) in all {
            entry.doubtful = true;
            entry.due = Some(now);
            due.insert((now, *key));
        }
    }

    /// When the next rule is to be refreshed.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lock().due.first().map(|(due, _)| *due)
    }

    /// A rule whose time has come; it is not due again before [`Self::again`] or [`Self::renewed`].
    pub(super) fn take_due(&self, now: Instant) -> Option<(u64, Entry)> {
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

    /// In which group a rule that the middlebox has forgotten belongs.
    pub(super) fn regroup(&self, key: u64) -> Regroup {
        let mut entries = self.lock();
        let Some(group) = entries.all.get(&key).and_then(|entry| entry.group) else {
            return Regroup::Alone;
        };
        let none = BTreeSet::new();
        let members = entries.groups.get(&group).unwrap_or(&none);
        let mut others = members.iter().filter(|other| **other != key);
        let surely = |other: &u64| entries.all.get(other).is_some_and(|e| !e.doubtful);
        if others.clone().any(surely) {
            return Regroup::Same(group);
        }
        if others.next().is_none() && !entries.successors.contains_key(&group) {
            return Regroup::Alone;
        }
        Regroup::Successor(Arc::clone(entries.successors.entry(group).or_default()))
    }

    /// A reservation was enabled. Returns whether it is still held.
    pub(super) fn enabled(&self, key: u64, enable: EnableRequest, reply: &Reply) -> bool {
        if let Some(entry) = self.lock().all.get_mut(&key) {
            entry.enabled = Some(enable);
        }
        self.renewed(key, reply)
    }

    /// A rule lives so long from now.
    pub(super) fn refreshed(&self, key: u64, lifetime: Lifetime) {
        self.set_due(key, refresh(lifetime), Some(false));
        if let Some(entry) = self.lock().all.get(&key) {
            entry.life.send_replace(Some(end(lifetime)));
        }
    }

    /// A rule is to be looked at again after this time.
    pub(super) fn again(&self, key: u64, after: Duration) {
        self.set_due(key, Instant::now() + after, None);
    }

    fn set_due(&self, key: u64, at: Instant, doubtful: Option<bool>) {
        let mut entries = self.lock();
        let Entries { all, due, .. } = &mut *entries;
        let Some(entry) = all.get_mut(&key) else {
            return;
        };
        if let Some(old) = entry.due.replace(at) {
            due.remove(&(old, key));
        }
        entry.doubtful = doubtful.unwrap_or(entry.doubtful);
        due.insert((at, key));
    }

    /// A rule was granted again. Returns whether it is still held.
    pub(super) fn renewed(&self, key: u64, reply: &Reply) -> bool {
        let Some((rule, lifetime)) = made(reply) else {
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
            entries.leave(before, key);
            entries.join(after, key);
        }
        self.refreshed(key, lifetime);
        true
    }
}

impl HeldRule {
    pub(super) fn new(inner: Arc<Inner>, request: Request, reply: &Reply) -> Option<Self> {
        let (key, life) = inner.shelf.add(request, reply)?;
        Some(Self { inner, key, life })
    }

    /// Its identifier; another one after [`super::ClientEvent::Renewed`], and zero when it has
    /// ended.
    pub fn id(&self) -> PolicyRuleId {
        let entry = self.inner.shelf.get(self.key);
        entry.map_or(PolicyRuleId(0), |entry| entry.rule)
    }

    /// Its group; `None` for PDR, and when it has ended.
    pub fn group(&self) -> Option<GroupId> {
        self.inner.shelf.get(self.key)?.group
    }

    /// A2: the address that the external host sees; `None` for PDR, and when it has ended.
    pub fn outside(&self) -> Option<AddressTuple> {
        self.inner.shelf.get(self.key)?.outside
    }

    /// Whether it is held: not when somebody ended it, or it could not be had again.
    pub fn is_held(&self) -> bool {
        self.inner.shelf.get(self.key).is_some()
    }

    /// Waits until it is surely no longer in force: somebody ended it, it could not be had again, or its
    /// life is over and no refresh was answered. After the latter the client goes on to ask for it.
    /// Cancel-safe.
    pub async fn lost(&self) {
        let mut life = self.life.clone();
        loop {
            let Some(end) = *life.borrow_and_update() else {
                return;
            };
            match tokio::time::timeout_at(end, life.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    /// PEA: lets a data stream pass on this reservation, which becomes that rule and is held with the
    /// lifetime that this asks for.
    ///
    /// # Errors
    /// When it is refused, or its outcome is not known; the reservation is held as before.
    pub async fn enable(&self, enable: EnableRequest) -> Result<(), RequestError> {
        let rule = self.id();
        let reply = inquiry::enable_reserved(&self.inner, enable, rule).await?;
        if self.inner.shelf.enabled(self.key, enable, &reply) {
            Ok(())
        } else {
            Err(RequestError::Unexpected)
        }
    }

    /// Ends the rule now.
    ///
    /// # Errors
    /// When it is refused or not answered; the rule then lives out its life.
    pub async fn close(self) -> Result<(), RequestError> {
        let Some(entry) = self.inner.shelf.remove(self.key) else {
            return Ok(());
        };
        inquiry::end(&self.inner, &entry).await
    }
}

impl Drop for HeldRule {
    fn drop(&mut self) {
        self.inner.shelf.remove(self.key);
    }
}

fn refresh(lifetime: Lifetime) -> Instant {
    Instant::now() + lasting(lifetime).mul_f64(REFRESH_AT)
}

fn end(lifetime: Lifetime) -> Instant {
    Instant::now() + lasting(lifetime)
}

fn lasting(lifetime: Lifetime) -> Duration {
    Duration::from_secs(u64::from(lifetime.0))
}

fn made(reply: &Reply) -> Option<(PolicyRuleId, Lifetime)> {
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
