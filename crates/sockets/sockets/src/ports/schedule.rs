//! Order in which ports are polled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use carrick_proto::Time;

use crate::ids::PortId;

/// Ports that may have packets to send, each once. Owners take turns, and so do the ports of an owner: one with any
/// number of ports and associations delays another one by what a turn sends.
#[derive(Debug, Default)]
pub(super) struct ReadyPorts {
    /// Owners with ready ports.
    owners: VecDeque<u32>,
    by_owner: BTreeMap<u32, VecDeque<PortId>>,
    members: BTreeSet<PortId>,
}

impl ReadyPorts {
    /// Adds a port behind those of the same owner that are ready, unless it is one of them.
    pub(super) fn insert(&mut self, owner: u32, id: PortId) {
        if !self.members.insert(id) {
            return;
        }
        let ports = self.by_owner.entry(owner).or_default();
        if ports.is_empty() {
            self.owners.push_back(owner);
        }
        ports.push_back(id);
    }

    pub(super) fn contains(&self, id: PortId) -> bool {
        self.members.contains(&id)
    }

    /// Returns the port whose turn it is.
    pub(super) fn first(&self) -> Option<PortId> {
        self.by_owner.get(self.owners.front()?)?.front().copied()
    }

    /// Ends the turn of [`Self::first`], which stays ready.
    pub(super) fn end_turn(&mut self) {
        if let Some(ports) = self.owners.front().and_then(|o| self.by_owner.get_mut(o)) {
            ports.rotate_left(ports.len().min(1));
            self.owners.rotate_left(1);
        }
    }

    /// Removes [`Self::first`], which has nothing to send. The next port of the owner has the turn.
    pub(super) fn remove_first(&mut self) {
        let Some(owner) = self.owners.front().copied() else {
            return;
        };
        let ports = self.by_owner.entry(owner).or_default();
        if let Some(id) = ports.pop_front() {
            self.members.remove(&id);
        }
        if ports.is_empty() {
            self.by_owner.remove(&owner);
            self.owners.pop_front();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_their_ports_take_turns() {
        let mut ready = ReadyPorts::default();
        for id in 0..1000 {
            ready.insert(7, PortId(id));
        }
        ready.insert(9, PortId(1000));
        ready.insert(9, PortId(1000));
        let mut turn = || {
            let id = ready.first().unwrap();
            ready.end_turn();
            id.0
        };
        let turns: Vec<u64> = (0..6).map(|_| turn()).collect();
        assert_eq!(turns, [0, 1000, 1, 1000, 2, 1000]);
        let removed = std::iter::from_fn(|| {
            let id = ready.first();
            ready.remove_first();
            id
        });
        assert_eq!(removed.count(), 1001);
        assert!(!ready.contains(PortId(5)));
    }
}
