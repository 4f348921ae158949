//! Elements without a rule that a backend failed to remove.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use super::{Backend, Element, Reservation};
use crate::Time;

/// Pause before the first retry; it doubles with each further one.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Maximum number of elements per retry.
const AT_ONCE: usize = 256;

/// Elements left in a backend.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Elements with the time at which the backend removes them by itself.
    elements: BTreeMap<Element, Time>,
    /// The last element tried.
    tried: Option<Element>,
    due: Option<Time>,
    pause: Duration,
    /// Reservations of some of them, which must not be reused before.
    held: Vec<(Reservation, Vec<Element>)>,
}

impl Leftovers {
    /// Returns whether the element is left.
    pub(super) fn contains(&self, element: &Element) -> bool {
        self.elements.contains_key(element)
    }

    /// Adds elements that were not removed.
    pub(super) fn keep(&mut self, now: Time, elements: Vec<Element>, gone: Time) {
        if self.due.is_none() {
            self.pause = PAUSE;
            self.due = Some(now + self.pause);
        }
        self.elements
            .extend(elements.into_iter().map(|e| (e, gone)));
    }

    /// Releases a reservation as soon as none of these elements is left.
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

    /// Changes the time at which the backend removes the element.
    pub(super) fn lengthen(&mut self, element: &Element, gone: Time) {
        if let Some(end) = self.elements.get_mut(element) {
            *end = gone;
        }
    }

    /// Removes an element that belongs to a rule again.
    pub(super) fn forget(&mut self, element: &Element) {
        self.elements.remove(element);
        if self.elements.is_empty() {
            self.due = None;
        }
    }

    /// Returns the time of the next call of [`Self::retry`].
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Retries some removals together, then individually, so that a failing element does not block the
    /// rest.
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
