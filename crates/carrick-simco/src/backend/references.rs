//! How many rules share an element.

use std::collections::BTreeMap;

use super::{Backend, BackendError, Element};
use crate::Time;
use crate::message::Lifetime;

/// Counts rules per element, and tells a backend of the first and the last.
#[derive(Debug, Default)]
pub(crate) struct References {
    elements: BTreeMap<Element, Reference>,
}

#[derive(Debug)]
struct Reference {
    count: u32,
    /// The fail-safe of the backend ends then.
    until: Time,
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
                let until = ends(now, lifetime);
                let reference = self.elements.entry(element);
                let reference = reference.or_insert(Reference { count: 0, until });
                reference.count += 1;
                reference.until = reference.until.max(until);
                let longest = longest.entry(element).or_default();
                *longest = (*longest).max(failsafe(lifetime));
            }
        }
        let elements: Vec<(Element, Lifetime)> = longest.into_iter().collect();
        backend.reconcile(now, &elements)
    }

    /// One more rule with these elements, which lives so long.
    pub(crate) fn add<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        let missing = |e: &&Element| !self.elements.contains_key(e);
        let new: Vec<Element> = elements.iter().filter(missing).copied().collect();
        if !new.is_empty() {
            backend.add(now, &new, failsafe(lifetime))?;
        }
        let until = ends(now, lifetime);
        for element in elements {
            let reference = self.elements.entry(*element);
            reference.or_insert(Reference { count: 0, until }).count += 1;
        }
        if new.len() < elements.len() {
            self.extend(now, backend, elements, lifetime)?;
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
            }
        }
        Ok(())
    }

    /// One rule less with these elements.
    pub(crate) fn remove<B: Backend>(
        &mut self,
        now: Time,
        backend: &mut B,
        elements: &[Element],
    ) -> Result<(), BackendError> {
        let mut last = Vec::new();
        for element in elements {
            if let Some(reference) = self.elements.get_mut(element) {
                reference.count -= 1;
                if reference.count == 0 {
                    self.elements.remove(element);
                    last.push(*element);
                }
            }
        }
        if last.is_empty() {
            return Ok(());
        }
        backend.remove(now, &last)
    }
}

/// The backend's own timeout: the rule's, and a little more for the middlebox to be first.
fn failsafe(lifetime: Lifetime) -> Lifetime {
    Lifetime(lifetime.0.saturating_add(lifetime.0 / 10).saturating_add(5))
}

fn ends(now: Time, lifetime: Lifetime) -> Time {
    now + std::time::Duration::from_secs(u64::from(lifetime.0))
}
