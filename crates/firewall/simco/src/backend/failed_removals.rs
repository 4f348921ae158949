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
const BATCH: usize = 256;

/// Elements that a backend still has although no rule uses them.
#[derive(Debug, Default)]
pub(super) struct FailedRemovals {
    /// Elements with the time at which the backend removes them without a request.
    elements: BTreeMap<Element, Time>,
    /// The last element tried.
    last_tried: Option<Element>,
    next_retry: Option<Time>,
    pause: Duration,
    /// Reservations of some of these elements, which must not be reused before their removal.
    reservations: Vec<(Reservation, Vec<Element>)>,
}

impl FailedRemovals {
    /// Returns whether the removal of this element failed.
    pub(super) fn contains(&self, element: &Element) -> bool {
        self.elements.contains_key(element)
    }

    /// Adds elements that were not removed.
    pub(super) fn add(&mut self, now: Time, elements: Vec<Element>, expiry: Time) {
        if self.next_retry.is_none() {
            self.pause = PAUSE;
            self.next_retry = Some(now + self.pause);
        }
        self.elements
            .extend(elements.into_iter().map(|e| (e, expiry)));
    }

    /// Releases a reservation as soon as none of these elements is left.
    pub(super) fn release<B: Backend>(
        &mut self,
        backend: &mut B,
        reservation: &Reservation,
        elements: &[Element],
    ) {
        let mut remaining = elements.iter().filter(|e| self.contains(e)).copied();
        match remaining.next() {
            None => backend.release(reservation),
            Some(first) => {
                let elements = std::iter::once(first).chain(remaining).collect();
                self.reservations.push((*reservation, elements));
            }
        }
    }

    /// Changes the time at which the backend removes the element.
    pub(super) fn set_expiry(&mut self, element: &Element, expiry: Time) {
        if let Some(end) = self.elements.get_mut(element) {
            *end = expiry;
        }
    }

    /// Removes an element that was removed, or that a rule uses again.
    pub(super) fn remove(&mut self, element: &Element) {
        self.elements.remove(element);
        if self.elements.is_empty() {
            self.next_retry = None;
        }
    }

    /// Returns the time of the next call of [`Self::retry`].
    pub(super) fn next_retry(&self) -> Option<Time> {
        self.next_retry
    }

    /// Retries some removals together, then individually, so that a failing element does not block the
    /// rest.
    pub(super) fn retry<B: Backend>(&mut self, now: Time, backend: &mut B) {
        if self.next_retry.is_none_or(|time| time > now) {
            return;
        }
        let after = self.last_tried.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.elements.range((after, Bound::Unbounded));
        let mut batch: Vec<Element> = next.take(BATCH).map(|(e, _)| *e).collect();
        if batch.is_empty() {
            let first = self.elements.keys().take(BATCH);
            batch = first.copied().collect();
        }
        self.last_tried = batch.last().copied();
        let before = self.elements.len();
        if backend.remove(now, &batch).is_ok() {
            for element in &batch {
                self.remove(element);
            }
        } else {
            for element in &batch {
                let expired = self
                    .elements
                    .get(element)
                    .is_some_and(|expiry| *expiry <= now);
                if backend.remove(now, &[*element]).is_ok() || expired {
                    self.remove(element);
                }
            }
        }
        let elements = &self.elements;
        self.reservations.retain(|(reservation, waits_for)| {
            let needed = waits_for.iter().any(|e| elements.contains_key(e));
            if !needed {
                backend.release(reservation);
            }
            needed
        });
        self.pause = if self.elements.len() < before {
            PAUSE
        } else {
            (2 * self.pause).min(LONGEST_PAUSE)
        };
        self.next_retry = (!self.elements.is_empty()).then(|| now + self.pause);
    }
}
