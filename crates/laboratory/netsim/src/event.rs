//! The event queue: pending events in the order of their time, and of scheduling within one moment.
//!
//! A binary heap of small keys. Its size does not depend on the traffic, because each link keeps
//! its packets itself and each node its timers: both have at most one live event here, the earliest
//! one. An event that has been superseded by an earlier one stays in the heap; its owner recognises
//! it by its time and ignores it. Events of one moment run in the order in which they were
//! scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ids::{HalfId, InterfaceId, NodeId};
use crate::time::Time;

/// A scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The last bit of a packet has left its queue's end of a link.
    Transmitted(HalfId),
    /// A packet reaches the far end of a link.
    Arrival(HalfId),
    /// A node's timer expires.
    Timeout(NodeId),
    /// A packet that a node sent to itself.
    Loopback,
    /// The neighbour of an interface has not answered in time.
    Unresolved(InterfaceId),
    /// The change with this index in the schedule is due.
    Change(u32),
}

/// Scheduled events, earliest first.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    scheduled: u64,
}

impl EventQueue {
    pub(crate) fn push(&mut self, time: Time, event: Event) {
        self.heap.push(Reverse((time, self.scheduled, event)));
        self.scheduled += 1;
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, ..))| *time)
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        self.heap
            .pop()
            .map(|Reverse((time, _, event))| (time, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_events_run_in_scheduling_order() {
        let mut queue = EventQueue::default();
        let later = Time::from_nanos(2);
        queue.push(later, Event::Timeout(NodeId(9)));
        queue.push(later, Event::Loopback);
        queue.push(Time::from_nanos(1), Event::Change(0));
        queue.push(later, Event::Arrival(HalfId(0)));
        let order: Vec<Event> =
            std::iter::from_fn(|| queue.pop().map(|(_, event)| event)).collect();
        assert_eq!(
            order,
            [
                Event::Change(0),
                Event::Timeout(NodeId(9)),
                Event::Loopback,
                Event::Arrival(HalfId(0))
            ]
        );
    }
}
