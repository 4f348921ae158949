//! Reference counts of elements shared by rules.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::expiry_times::ExpiryTimes;
use super::failed_removals::FailedRemovals;
use super::{Backend, BackendError, Element, Flow, Reservation};
use crate::Time;
use crate::message::{Direction, Lifetime};

/// Counts rules per element and passes the first and the last to the backend.
#[derive(Debug, Default)]
pub(crate) struct References {
    elements: BTreeMap<Element, Reference>,
    failed_removals: FailedRemovals,
}

#[derive(Debug)]
struct Reference {
    /// Expiry times of its rules.
    expiry_times: ExpiryTimes,
    /// Latest time at which the backend removes the element without a request.
    backend_expiry: Time,
}

impl References {
    /// Restores rules with these elements and expiry times, in one call of the backend.
    pub(crate) fn restore<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        rules: impl IntoIterator<Item = (Vec<Element>, Time)>,
    ) -> Result<(), BackendError> {
        for (elements, until) in rules {
            let backend_expiry = end_of(now, failsafe(remaining(now, until)));
            for element in elements {
                self.count(element, until, backend_expiry);
            }
        }
        let timeout = |(element, reference): (&Element, &Reference)| {
            (
                *element,
                failsafe(remaining(now, reference.expiry_times.latest())),
            )
        };
        let elements: Vec<(Element, Lifetime)> = self.elements.iter().map(timeout).collect();
        backend.reconcile(now, &elements)
    }

    /// Adds a rule with these elements and this lifetime. After an error nothing has changed, except
    /// that some elements may expire slightly later if the middlebox stops.
    pub(crate) fn add<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        // Steps that can fail come first, new elements last, so that nothing has to be undone.
        let until = end_of(now, lifetime);
        self.extend_timeouts(now, backend, elements, until)?;
        let missing = |e: &&Element| !self.elements.contains_key(e);
        let mut new: Vec<Element> = elements.iter().filter(missing).copied().collect();
        let failed_removals = &mut self.failed_removals;
        new.retain(|e| {
            // An element that could not be removed is extended, unless it has expired.
            let extended = failed_removals.contains(e)
                && backend.extend(now, &[*e], failsafe(lifetime)).is_ok();
            if extended {
                failed_removals.set_expiry(e, end_of(now, failsafe(lifetime)));
            }
            !extended
        });
        if !new.is_empty() {
            backend.add(now, &new, failsafe(lifetime))?;
        }
        for element in elements {
            self.failed_removals.remove(element);
            self.count(*element, until, end_of(now, failsafe(lifetime)));
        }
        Ok(())
    }

    fn count(&mut self, element: Element, until: Time, backend_expiry: Time) {
        match self.elements.entry(element) {
            Entry::Vacant(new) => {
                let expiry_times = ExpiryTimes::new(until);
                new.insert(Reference {
                    expiry_times,
                    backend_expiry,
                });
            }
            Entry::Occupied(mut entry) => {
                let reference = entry.get_mut();
                reference.expiry_times.add(until);
                reference.backend_expiry = reference.backend_expiry.max(backend_expiry);
            }
        }
    }

    /// Extends a rule with these elements that was to end at `before`.
    ///
    /// # Errors
    /// The backend refused; nothing has changed.
    pub(crate) fn extend<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        before: Time,
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        let until = end_of(now, lifetime);
        self.extend_timeouts(now, backend, elements, until)?;
        for element in elements {
            if let Some(reference) = self.elements.get_mut(element) {
                reference.expiry_times.replace(before, until);
            }
        }
        Ok(())
    }

    /// Shortens a rule with these elements that was to end at `before`.
    ///
    /// # Errors
    /// The backend keeps the previous timeout; the rule ends nevertheless.
    pub(crate) fn shorten<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        before: Time,
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        let until = end_of(now, lifetime);
        let mut shortened = ShortenedTimeouts::default();
        for element in elements {
            if let Some(reference) = self.elements.get_mut(element) {
                let before_change = reference.expiry_times.latest();
                reference.expiry_times.replace(before, until);
                shortened.add(*element, before_change, reference.expiry_times.latest());
            }
        }
        self.shorten_timeouts(now, backend, shortened)
    }

    /// Shortens the timeouts of elements.
    fn shorten_timeouts<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        shortened: ShortenedTimeouts,
    ) -> Result<(), BackendError> {
        let mut outcome = Ok(());
        for (until, elements) in shortened.0 {
            let lifetime = failsafe(remaining(now, until));
            match backend.extend(now, &elements, lifetime) {
                Ok(()) => {
                    for element in &elements {
                        if let Some(reference) = self.elements.get_mut(element) {
                            reference.backend_expiry = end_of(now, lifetime);
                        }
                    }
                }
                error => outcome = error,
            }
        }
        outcome
    }

    /// Extends the timeouts of elements at least until this time.
    fn extend_timeouts<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        until: Time,
    ) -> Result<(), BackendError> {
        let lifetime = remaining(now, until);
        let latest = |e: &Element| self.elements.get(e).map(|r| r.expiry_times.latest());
        let shorter = |e: &&Element| latest(e).is_some_and(|latest| latest < until);
        let longer: Vec<Element> = elements.iter().filter(shorter).copied().collect();
        if longer.is_empty() {
            return Ok(());
        }
        backend.extend(now, &longer, failsafe(lifetime))?;
        for element in &longer {
            if let Some(reference) = self.elements.get_mut(element) {
                reference.backend_expiry = end_of(now, failsafe(lifetime));
            }
        }
        Ok(())
    }

    /// Removes a rule with these elements that was to end at `before`. Removals that fail are retried
    /// with [`Self::retry`].
    pub(crate) fn remove<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        before: Time,
    ) -> Result<(), BackendError> {
        let mut last = Vec::new();
        let mut backend_expiry = now;
        let mut shortened = ShortenedTimeouts::default();
        for element in elements {
            if let Some(reference) = self.elements.get_mut(element) {
                let before_change = reference.expiry_times.latest();
                if reference.expiry_times.remove(before) {
                    shortened.add(*element, before_change, reference.expiry_times.latest());
                } else {
                    backend_expiry = backend_expiry.max(reference.backend_expiry);
                    self.elements.remove(element);
                    last.push(*element);
                }
            }
        }
        let outcome = self.shorten_timeouts(now, backend, shortened);
        if last.is_empty() {
            return outcome;
        }
        let removed = backend.remove(now, &last);
        if removed.is_err() {
            self.failed_removals.add(now, last, backend_expiry);
        }
        removed.and(outcome)
    }

    /// Releases the addresses of these elements once they are removed.
    pub(crate) fn release<B: Backend>(
        &mut self,
        backend: &mut B,
        reservation: &Reservation,
        elements: &[Element],
    ) {
        self.failed_removals.release(backend, reservation, elements);
    }

    /// Returns the time of the next call of [`Self::retry`].
    pub(crate) fn next_retry(&self) -> Option<Time> {
        self.failed_removals.next_retry()
    }

    /// Retries failed removals.
    pub(crate) fn retry<B: Backend>(&mut self, now: Time, backend: &mut B) {
        self.failed_removals.retry(now, backend);
    }

    /// Returns whether one of the flows is bound to another outside address already.
    pub(crate) fn has_other_binding(&self, elements: &[Element]) -> bool {
        elements.iter().any(|element| {
            let Element::Flow(flow) = element else {
                return false;
            };
            let first = Element::Flow(Flow {
                outside: None,
                direction: Direction::Inbound,
                ..*flow
            });
            let bound = self.elements.range(first..).map_while(|(e, _)| match e {
                Element::Flow(f) => {
                    let same = (f.protocol, f.internal, f.external)
                        == (flow.protocol, flow.internal, flow.external);
                    same.then_some(f.outside)
                }
                Element::Allow(..) | Element::Block(_) => None,
            });
            bound.into_iter().any(|outside| outside != flow.outside)
        })
    }
}

/// Elements whose timeout is to be shortened, by their new end: usually that of the changed rule.
#[derive(Debug, Default)]
struct ShortenedTimeouts(BTreeMap<Time, Vec<Element>>);

impl ShortenedTimeouts {
    fn add(&mut self, element: Element, before: Time, after: Time) {
        if after < before {
            self.0.entry(after).or_default().push(element);
        }
    }
}

/// Seconds between the end of a rule and the timeout of its elements in the backend: a running
/// middlebox removes them first, and a stopped one leaves them open for no longer.
const FAILSAFE: u32 = 5;

fn failsafe(lifetime: Lifetime) -> Lifetime {
    Lifetime(lifetime.0.saturating_add(FAILSAFE))
}

fn end_of(now: Time, lifetime: Lifetime) -> Time {
    now + std::time::Duration::from_secs(u64::from(lifetime.0))
}

/// Returns the remaining time in whole seconds, rounded up.
fn remaining(now: Time, until: Time) -> Lifetime {
    let left = until.since(now);
    let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    Lifetime(u32::try_from(seconds).unwrap_or(u32::MAX))
}
