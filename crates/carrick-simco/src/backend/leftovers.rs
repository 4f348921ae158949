//! Elements of no rule that a backend did not remove when it should.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use super::{Backend, Element, Reservation};
use crate::Time;

/// The first pause before a backend is asked again; each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Elements that a backend is asked for at a time.
const AT_ONCE: usize = 256;

/// What is left in a backend. No more than it has ever held at a time.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// With the time at which the backend has ended the element by itself, if it does that.
    elements: BTreeMap<Element, Time>,
    /// The last that was tried.
    tried: Option<Element>,
    due: Option<Time>,
    pause: Duration,
    /// Addresses that some of them are bound to: nobody else may have them before.
    held: Vec<(Reservation, Vec<Element>)>,
}

impl Leftovers {
    /// Whether the element is left.
    pub(super) fn contains(&self, element: &Element) -> bool {
        self.elements.contains_key(element)
    }

    /// These were not removed.
    pub(super) fn keep(&mut self, now: Time, elements: Vec<Element>, gone: Time) {
        if self.due.is_none() {
            self.pause = PAUSE;
            self.due = Some(now + self.pause);
        }
        self.elements
            .extend(elements.into_iter().map(|e| (e, gone)));
    }

    /// Gives addresses back, as soon as none of these elements is left.
    pub(super) fn release<B: Backend>(
        &mut self,
        backend: &mut B,
        reservation: &Reservation,
        elements: &[Element],
    ) {
        let mut left = elements.iter().filter(|e| self.contains(e)).copied();
        match left.next() {
            None => backend.release(reservation),
            Some(first) => {
                let bound = std::iter::once(first).chain(left).collect();
                self.held.push((*reservation, bound));
            }
        }
    }

    /// The backend ends the element by itself at another time.
    pub(super) fn lengthen(&mut self, element: &Element, gone: Time) {
        if let Some(end) = self.elements.get_mut(element) {
            *end = gone;
        }
    }

    /// The element is a rule's again.
    pub(super) fn forget(&mut self, element: &Element) {
        self.elements.remove(element);
        if self.elements.is_empty() {
            self.due = None;
        }
    }

    /// When [`Self::retry`] must be called.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Asks for some of them again, all at once, and then one by one: one that is stuck must not keep
    /// the others.
    pub(super) fn retry<B: Backend>(&mut self, now: Time, backend: &mut B) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        let after = self.tried.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.elements.range((after, Bound::Unbounded));
        let mut batch: Vec<Element> = next.take(AT_ONCE).map(|(e, _)| *e).collect();
        if batch.is_empty() {
            let first = self.elements.keys().take(AT_ONCE);
            batch = first.copied().collect();
        }
        self.tried = batch.last().copied();
        let before = self.elements.len();
        if backend.remove(now, &batch).is_ok() {
            for element in &batch {
                self.forget(element);
            }
        } else {
            for element in &batch {
                let over = self.elements.get(element).is_some_and(|gone| *gone <= now);
                if backend.remove(now, &[*element]).is_ok() || over {
                    self.forget(element);
                }
            }
        }
        let elements = &self.elements;
        self.held.retain(|(reservation, bound)| {
            let still = bound.iter().any(|e| elements.contains_key(e));
            if !still {
                backend.release(reservation);
            }
            still
        });
        self.pause = if self.elements.len() < before {
            PAUSE
        } else {
            (2 * self.pause).min(LONGEST_PAUSE)
        };
        self.due = (!self.elements.is_empty()).then(|| now + self.pause);
    }
}
