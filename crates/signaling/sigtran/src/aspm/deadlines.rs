//! Timers of a machine, ordered by their expiry.

use std::collections::BTreeSet;

use carrick_proto::Time;

/// Timers that run. The next expiry is found without a search.
#[derive(Debug)]
pub(crate) struct Deadlines<T>(BTreeSet<(Time, T)>);

impl<T: Clone + Ord> Deadlines<T> {
    pub(crate) const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// Returns the next expiry.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Moves a timer from its previous expiry, `None` if it did not run, to the next one, `None` to stop it.
    pub(crate) fn reschedule(&mut self, timer: T, previous: Option<Time>, next: Option<Time>) {
        if previous == next {
            return;
        }
        if let Some(at) = previous {
            self.0.remove(&(at, timer.clone()));
        }
        self.0.extend(next.map(|at| (at, timer)));
    }

    /// Returns the timers that have expired, in the order of their expiry. They run until they are rescheduled.
    pub(crate) fn due(&self, now: Time) -> Vec<T> {
        let due = self.0.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, timer)| timer.clone()).collect()
    }
}
