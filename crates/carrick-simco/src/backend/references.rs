//! Reference counts of elements shared by rules.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::leftovers::Leftovers;
use super::lives::Lives;
use super::{Backend, BackendError, Element, Flow, Reservation};
use crate::Time;
use crate::message::{Direction, Lifetime};

/// Counts rules per element and passes the first and the last to the backend.
#[derive(Debug, Default)]
pub(crate) struct References {
    elements: BTreeMap<Element, Reference>,
    left: Leftovers,
}

#[derive(Debug)]
struct Reference {
    /// Expiry times of its rules.
    lives: Lives,
    /// Latest time at which the backend removes the element by itself.
    gone: Time,
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
            let gone = ends(now, failsafe(left(now, until)));
            for element in elements {
                self.count(element, until, gone);
            }
        }
        let lives = |(element, reference): (&Element, &Reference)| {
            (*element, failsafe(left(now, reference.lives.longest())))
        };
        let elements: Vec<(Element, Lifetime)> = self.elements.iter().map(lives).collect();
        backend.reconcile(now, &elements)
    }

    /// Adds a rule with these elements and this lifetime. After an error nothing has changed, except
    /// that some elements may expire slightly later if the middlebox forgets them.
    pub(crate) fn add<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        // Steps that can fail come first, new elements last, so that nothing has to be undone.
        let until = ends(now, lifetime);
        self.prolong(now, backend, elements, until)?;
        let missing = |e: &&Element| !self.elements.contains_key(e);
        let mut new: Vec<Element> = elements.iter().filter(missing).copied().collect();
        let left = &mut self.left;
        new.retain(|e| {
            // An element that could not be removed is extended, unless it has expired.
            let there = left.contains(e) && backend.extend(now, &[*e], failsafe(lifetime)).is_ok();
            if there {
                left.lengthen(e, ends(now, failsafe(lifetime)));
            }
            !there
        });
        if !new.is_empty() {
            backend.add(now, &new, failsafe(lifetime))?;
        }
        for element in elements {
            self.left.forget(element);
            self.count(*element, until, ends(now, failsafe(lifetime)));
        }
        Ok(())
    }

    fn count(&mut self, element: Element, until: Time, gone: Time) {
        match self.elements.entry(element) {
            Entry::Vacant(new) => {
                let lives = Lives::new(until);
                new.insert(Reference { lives, gone });
            }
            Entry::Occupied(mut there) => {
                let reference = there.get_mut();
                reference.lives.add(until);
                reference.gone = reference.gone.max(gone);
            }
        }
    }

    /// Extends a rule with these elements that was to end at `before`.
    ///
    /// # Errors
    /// When it could not be extended; nothing has changed.
    pub(crate) fn extend<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        before: Time,
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        let until = ends(now, lifetime);
        self.prolong(now, backend, elements, until)?;
        for element in elements {
            if let Some(reference) = self.elements.get_mut(element) {
                reference.lives.replace(before, until);
            }
        }
        Ok(())
    }

    /// Shortens a rule with these elements that was to end at `before`.
    ///
    /// # Errors
    /// When the backend keeps the previous timeout; the rule ends nevertheless.
    pub(crate) fn shorten<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        before: Time,
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        let until = ends(now, lifetime);
        let mut sooner = Sooner::default();
        for element in elements {
            if let Some(reference) = self.elements.get_mut(element) {
                let longest = reference.lives.longest();
                reference.lives.replace(before, until);
                sooner.note(*element, longest, reference.lives.longest());
            }
        }
        self.end_sooner(now, backend, sooner)
    }

    /// Shortens the timeouts of elements.
    fn end_sooner<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        sooner: Sooner,
    ) -> Result<(), BackendError> {
        let mut outcome = Ok(());
        for (until, elements) in sooner.0 {
            let lifetime = failsafe(left(now, until));
            match backend.extend(now, &elements, lifetime) {
                Ok(()) => {
                    for element in &elements {
                        if let Some(reference) = self.elements.get_mut(element) {
                            reference.gone = ends(now, lifetime);
                        }
                    }
                }
                error => outcome = error,
            }
        }
        outcome
    }

    /// Extends the timeouts of elements at least until this time.
    fn prolong<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        until: Time,
    ) -> Result<(), BackendError> {
        let lifetime = left(now, until);
        let lives = |e: &Element| self.elements.get(e).map(|r| r.lives.longest());
        let shorter = |e: &&Element| lives(e).is_some_and(|longest| longest < until);
        let longer: Vec<Element> = elements.iter().filter(shorter).copied().collect();
        if longer.is_empty() {
            return Ok(());
        }
        backend.extend(now, &longer, failsafe(lifetime))?;
        for element in &longer {
            if let Some(reference) = self.elements.get_mut(element) {
                reference.gone = ends(now, failsafe(lifetime));
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
        let mut gone = now;
        let mut sooner = Sooner::default();
        for element in elements {
            if let Some(reference) = self.elements.get_mut(element) {
                let longest = reference.lives.longest();
                if reference.lives.remove(before) {
                    sooner.note(*element, longest, reference.lives.longest());
                } else {
                    gone = gone.max(reference.gone);
                    self.elements.remove(element);
                    last.push(*element);
                }
            }
        }
        let shortened = self.end_sooner(now, backend, sooner);
        if last.is_empty() {
            return shortened;
        }
        let removed = backend.remove(now, &last);
        if removed.is_err() {
            self.left.keep(now, last, gone);
        }
        removed.and(shortened)
    }

    /// Releases the addresses of these elements once they are removed.
    pub(crate) fn release<B: Backend>(
        &mut self,
        backend: &mut B,
        reservation: &Reservation,
        elements: &[Element],
    ) {
        self.left.release(backend, reservation, elements);
    }

    /// Returns the time of the next call of [`Self::retry`].
    pub(crate) fn next_retry(&self) -> Option<Time> {
        self.left.due()
    }

    /// Retries failed removals.
    pub(crate) fn retry<B: Backend>(&mut self, now: Time, backend: &mut B) {
        self.left.retry(now, backend);
    }

    /// Returns whether one of the flows is bound to another outside address already.
    pub(crate) fn bound_elsewhere(&self, elements: &[Element]) -> bool {
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
struct Sooner(BTreeMap<Time, Vec<Element>>);

impl Sooner {
    fn note(&mut self, element: Element, before: Time, after: Time) {
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

fn ends(now: Time, lifetime: Lifetime) -> Time {
    now + std::time::Duration::from_secs(u64::from(lifetime.0))
}

/// Returns the remaining time in whole seconds, rounded up.
fn left(now: Time, until: Time) -> Lifetime {
    let left = until.since(now);
    let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    Lifetime(u32::try_from(seconds).unwrap_or(u32::MAX))
}
