//! Order in which ports are polled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use carrick_proto::Time;

use crate::ids::PortId;

/// Ports that may have packets to send, each once, in the order in which they became ready.
#[derive(Debug, Default)]
pub(super) struct ReadyPorts {
    order: VecDeque<PortId>,
    members: BTreeSet<PortId>,
}

impl ReadyPorts {
    pub(super) fn insert(&mut self, id: PortId) {
        if self.members.insert(id) {
            self.order.push_back(id);
        }
    }

    pub(super) fn contains(&self, id: PortId) -> bool {
        self.members.contains(&id)
    }

    pub(super) fn first(&self) -> Option<PortId> {
        self.order.front().copied()
    }

    pub(super) fn remove_first(&mut self) {
        if let Some(id) = self.order.pop_front() {
            self.members.remove(&id);
        }
    }
}

/// Next timeouts of the ports.
#[derive(Debug, Default)]
pub(super) struct PortTimers {
    by_time: BTreeSet<(Time, PortId)>,
    by_port: BTreeMap<PortId, Time>,
}

impl PortTimers {
    pub(super) fn set(&mut self, id: PortId, time: Option<Time>) {
        self.remove(id);
        if let Some(time) = time {
            self.by_time.insert((time, id));
            self.by_port.insert(id, time);
        }
    }

    pub(super) fn remove(&mut self, id: PortId) {
        if let Some(time) = self.by_port.remove(&id) {
            self.by_time.remove(&(time, id));
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(time, _)| *time)
    }

    pub(super) fn pop_expired(&mut self, now: Time) -> Option<PortId> {
        let (time, id) = *self.by_time.first()?;
        (time <= now).then(|| self.remove(id))?;
        Some(id)
    }
}
