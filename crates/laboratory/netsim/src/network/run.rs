//! The event loop and the timers of nodes.

use super::Network;
use crate::event::Event;
use crate::ids::NodeId;
use crate::node::{Node, Outbox};
use crate::stats::DropReason;
use crate::time::Time;

/// Timeouts at one moment after which a program is considered to be in an endless loop.
const MAX_STALLS: u32 = 10_000;

impl Network {
    /// Runs all events up to and including `end`, and sets the time to `end`. Has no effect if
    /// `end` has passed.
    pub fn run_until(&mut self, end: Time) {
        while self.events.next_time().is_some_and(|time| time <= end) {
            self.run_next();
        }
        self.now = self.now.max(end);
    }

    /// Runs while `condition` holds, which is evaluated before each event, or until no event is
    /// left. Returns the time reached.
    pub fn run_while(&mut self, mut condition: impl FnMut(&Self) -> bool) -> Time {
        while condition(self) && self.step().is_some() {}
        self.now
    }

    /// Runs the next event and returns its time, or `None` if no event is left.
    pub fn step(&mut self) -> Option<Time> {
        while self.events.next_time().is_some() {
            if self.run_next() {
                return Some(self.now);
            }
        }
        None
    }

    /// Returns the time of the next event, or `None` if no event is left. The event may be void.
    pub fn next_event(&self) -> Option<Time> {
        self.events.next_time()
    }

    /// Takes one event from the queue. Returns false if it was void.
    fn run_next(&mut self) -> bool {
        let Some((time, event)) = self.events.pop() else {
            return false;
        };
        match event {
            Event::Transmitted(half) => {
                let Some(packet) = self.one_way_links[half.index()].transmitted(time) else {
                    return false;
                };
                self.now = time;
                self.finish_transmission(half, packet);
            }
            Event::Arrival(half) => {
                let Some(packet) = self.one_way_links[half.index()].arrive(time) else {
                    return false;
                };
                self.now = time;
                self.finish_arrival(half, packet);
            }
            Event::Timeout(node) => return self.run_timeout(time, node),
            Event::Loopback => {
                let Some((node, interface, packet)) = self.loopback.pop_front() else {
                    return false;
                };
                self.now = time;
                // The address may have been removed since the packet was sent.
                if self.owner(packet.destination) == Some(interface) {
                    self.deliver(node, interface, packet);
                } else {
                    self.drop_at(node, &packet, DropReason::NotMine);
                }
            }
            Event::Unresolved(interface) => return self.fail_resolution(time, interface),
            Event::Change(number) => {
                self.now = time;
                let change = self.schedule[number as usize].clone();
                // Errors are documented at `Network::at`.
                let _ = self.apply(change);
            }
        }
        true
    }

    fn run_timeout(&mut self, time: Time, node: NodeId) -> bool {
        let state = &mut self.nodes[node.index()];
        if state.armed != Some(time) {
            return false;
        }
        state.armed = None;
        let due = |program: &dyn Node| program.next_timeout().is_some_and(|next| next <= time);
        let is_due = state.program.as_deref().is_some_and(due);
        if !is_due {
            self.arm_timeout(node);
            return false;
        }
        self.now = time;
        self.call(node, Node::handle_timeout);
        let state = &mut self.nodes[node.index()];
        if state.program.as_deref().is_some_and(due) {
            state.stalls += 1;
            assert!(
                state.stalls < MAX_STALLS,
                "the program of {} requests a timeout at {time} s without end",
                state.name
            );
        } else {
            state.stalls = 0;
        }
        true
    }

    /// Calls the program of a node, if it has one, and sends the packets in the outbox.
    pub(super) fn call(&mut self, node: NodeId, f: impl FnOnce(&mut dyn Node, Time, &mut Outbox)) {
        if let Some(program) = self.nodes[node.index()].program.as_deref_mut() {
            f(program, self.now, &mut self.outbox);
            self.flush(node);
        }
    }

    /// Schedules the next timeout of a node unless an event at that time or earlier is pending.
    pub(super) fn arm_timeout(&mut self, node: NodeId) {
        let now = self.now;
        let state = &mut self.nodes[node.index()];
        let program = state.program.as_deref();
        let Some(next) = program.and_then(Node::next_timeout) else {
            return;
        };
        let next = next.max(now);
        if next < Time::MAX && state.armed.is_none_or(|armed| next < armed) {
            state.armed = Some(next);
            self.events.push(next, Event::Timeout(node));
        }
    }
}
