//! How many rules share an element.

use std::collections::BTreeMap;

use super::leftovers::Leftovers;
use super::{Backend, BackendError, Element, Flow, Reservation};
use crate::Time;
use crate::message::{Direction, Lifetime};

/// Counts rules per element, and tells a backend of the first and the last.
#[derive(Debug, Default)]
pub(crate) struct References {
    elements: BTreeMap<Element, Reference>,
    left: Leftovers,
}

#[derive(Debug)]
struct Reference {
    count: u32,
    /// The longest rule ends then.
    until: Time,
    /// The fail-safe of the backend ends then, at the latest.
    gone: Time,
}

impl Reference {
    /// Of an element that lives so long, in no rule yet.
    fn new(now: Time, lifetime: Lifetime) -> Self {
        Self {
            count: 0,
            until: ends(now, lifetime),
            gone: ends(now, failsafe(lifetime)),
        }
    }
}

impl References {
    /// At the start: rules with these elements, each of which lives so long; then the backend is told
    /// of all at once.
    pub(crate) fn restore<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        rules: impl IntoIterator<Item = (Vec<Element>, Lifetime)>,
    ) -> Result<(), BackendError> {
        let mut longest: BTreeMap<Element, Lifetime> = BTreeMap::new();
        for (elements, lifetime) in rules {
            for element in elements {
                let fresh = Reference::new(now, lifetime);
                let (until, gone) = (fresh.until, fresh.gone);
                let reference = self.elements.entry(element).or_insert(fresh);
                reference.count += 1;
                reference.until = reference.until.max(until);
                reference.gone = reference.gone.max(gone);
                let longest = longest.entry(element).or_default();
                *longest = (*longest).max(failsafe(lifetime));
            }
        }
        let elements: Vec<(Element, Lifetime)> = longest.into_iter().collect();
        backend.reconcile(now, &elements)
    }

    /// One more rule with these elements, which lives so long. On an error nothing has changed but
    /// that some elements may stay a little longer if the middlebox forgets them.
    pub(crate) fn add<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        // What can fail comes first, what is new last: it needs no taking back.
        self.extend(now, backend, elements, lifetime)?;
        let missing = |e: &&Element| !self.elements.contains_key(e);
        let mut new: Vec<Element> = elements.iter().filter(missing).copied().collect();
        let left = &mut self.left;
        new.retain(|e| {
            // One that could not be removed goes on, unless it has ended by itself.
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
            let reference = self.elements.entry(*element);
            let reference = reference.or_insert_with(|| Reference::new(now, lifetime));
            reference.count += 1;
        }
        Ok(())
    }

    /// A rule with these elements lives so long from now.
    pub(crate) fn extend<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        let until = ends(now, lifetime);
        let shorter = |e: &&Element| self.elements.get(e).is_some_and(|r| r.until < until);
        let longer: Vec<Element> = elements.iter().filter(shorter).copied().collect();
        if longer.is_empty() {
            return Ok(());
        }
        backend.extend(now, &longer, failsafe(lifetime))?;
        for element in &longer {
            if let Some(reference) = self.elements.get_mut(element) {
                reference.until = until;
                reference.gone = ends(now, failsafe(lifetime));
            }
        }
        Ok(())
    }

    /// One rule less with these elements. What the backend doesn't remove now it is asked to remove
    /// again later, with [`Self::retry`].
    pub(crate) fn remove<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
    ) -> Result<(), BackendError> {
        let mut last = Vec::new();
        let mut gone = now;
        for element in elements {
            if let Some(reference) = self.elements.get_mut(element) {
                reference.count -= 1;
                if reference.count == 0 {
                    gone = gone.max(reference.gone);
                    self.elements.remove(element);
                    last.push(*element);
                }
            }
        }
        if last.is_empty() {
            return Ok(());
        }
        let removed = backend.remove(now, &last);
        if removed.is_err() {
            self.left.keep(now, last, gone);
        }
        removed
    }

    /// Gives back the addresses that these elements were bound to, once they are removed.
    pub(crate) fn release<B: Backend>(
        &mut self,
        backend: &mut B,
        reservation: &Reservation,
        elements: &[Element],
    ) {
        self.left.release(backend, reservation, elements);
    }

    /// When [`Self::retry`] must be called.
    pub(crate) fn next_retry(&self) -> Option<Time> {
        self.left.due()
    }

    /// Asks the backend again to remove what it did not.
    pub(crate) fn retry<B: Backend>(&mut self, now: Time, backend: &mut B) {
        self.left.retry(now, backend);
    }

    /// Whether one of the flows is bound to another outside address already.
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

/// How long after the rule the backend ends an element by itself, in seconds: a middlebox that runs is
/// first, and one that is down leaves nothing open for longer.
const FAILSAFE: u32 = 5;

fn failsafe(lifetime: Lifetime) -> Lifetime {
    Lifetime(lifetime.0.saturating_add(FAILSAFE))
}

fn ends(now: Time, lifetime: Lifetime) -> Time {
    now + std::time::Duration::from_secs(u64::from(lifetime.0))
}
