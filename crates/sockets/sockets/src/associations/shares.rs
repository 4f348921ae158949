//! Shares of sources of peers and of owners of sockets in what all ports have together: associations, memory for
//! received data, and send buffers.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use carrick_proto::{BufferUse, Endpoint, SourceKey};

use super::{Association, Associations};
use crate::ids::{AssocId, PortId};

/// Bytes that every association may hold in its send buffer, whatever the limit of its owner.
const MIN_QUEUED: usize = 4096;

/// Share of a source or an owner.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Share {
    /// Associations: of a source those that its peers initiated.
    pub(crate) associations: usize,
    /// Bytes of received data.
    pub(crate) received: usize,
    /// Bytes in send buffers: of an owner.
    pub(crate) queued: usize,
    /// Associations of an owner that wait for room in its send buffers.
    pub(crate) waiting: usize,
}

/// Shares of sources and owners that have any.
#[derive(Debug, Default)]
pub(super) struct Shares {
    sources: BTreeMap<SourceKey, Share>,
    owners: BTreeMap<u32, Share>,
}

/// Replaces a part of a share.
fn update<K: Ord>(shares: &mut BTreeMap<K, Share>, key: K, change: impl FnOnce(&mut Share)) {
    match shares.entry(key) {
        Entry::Vacant(vacant) => {
            let mut share = Share::default();
            change(&mut share);
            if share != Share::default() {
                vacant.insert(share);
            }
        }
        Entry::Occupied(mut occupied) => {
            change(occupied.get_mut());
            if *occupied.get() == Share::default() {
                occupied.remove();
            }
        }
    }
}

impl Shares {
    fn of_owner(&self, owner: u32) -> Share {
        self.owners.get(&owner).copied().unwrap_or_default()
    }

    /// Counts an association without its received data.
    pub(super) fn add(&mut self, association: &Association) {
        let change = |share: &mut Share| share.associations += 1;
        update(&mut self.owners, association.owner, change);
        if association.waits_for_owner {
            self.add_waiting(association.owner);
        }
        if let Some(source) = association.counted_source() {
            update(&mut self.sources, source, change);
        }
    }

    /// Removes an association with its received data.
    pub(super) fn remove(&mut self, association: &Association) {
        if let Some(source) = association.source {
            self.update_received(association.owner, source, association.held, 0);
        }
        let change = |share: &mut Share| share.associations -= 1;
        update(&mut self.owners, association.owner, change);
        self.update_queued(association.owner, association.queued, 0);
        if association.waits_for_owner {
            self.remove_waiting(association.owner);
        }
        if let Some(source) = association.counted_source() {
            update(&mut self.sources, source, change);
        }
    }

    /// Replaces the bytes in the send buffer of an association.
    fn update_queued(&mut self, owner: u32, before: usize, after: usize) {
        let change = |share: &mut Share| share.queued = share.queued - before + after;
        update(&mut self.owners, owner, change);
    }

    fn add_waiting(&mut self, owner: u32) {
        update(&mut self.owners, owner, |share| share.waiting += 1);
    }

    fn remove_waiting(&mut self, owner: u32) {
        update(&mut self.owners, owner, |share| share.waiting -= 1);
    }

    /// Replaces the bytes of an association.
    fn update_received(&mut self, owner: u32, source: SourceKey, before: usize, after: usize) {
        let change = |share: &mut Share| share.received = share.received - before + after;
        update(&mut self.owners, owner, change);
        update(&mut self.sources, source, change);
    }
}

impl Associations {
    /// Returns the share of a source.
    pub(crate) fn of_source(&self, source: SourceKey) -> Share {
        self.shares
            .sources
            .get(&source)
            .copied()
            .unwrap_or_default()
    }

    /// Returns the share of an owner.
    pub(crate) fn of_owner(&self, owner: u32) -> Share {
        self.shares.of_owner(owner)
    }

    /// Returns the bytes that an association may receive: a source or an owner may use as much as is still `free` of
    /// the memory of all ports, and an owner no more than `per_owner`. Without an association it is that of a new one
    /// from `source`.
    pub(crate) fn receive_room(
        &self,
        id: Option<AssocId>,
        source: SourceKey,
        (free, per_owner): (usize, usize),
    ) -> usize {
        let association = id.and_then(|id| self.get(id));
        let source = association.and_then(|a| a.source).unwrap_or(source);
        let of_source = free.saturating_sub(self.of_source(source).received);
        let of_owner = association.map_or(per_owner, |association| {
            per_owner.saturating_sub(self.of_owner(association.owner).received)
        });
        of_source.min(of_owner)
    }

    /// Updates the shares by the buffers of the associations of a port. Returns those that may have room in the send
    /// buffers of their owner again: all that wait when half of its `limit` is free, and one whose own buffer is empty.
    pub(crate) fn count_buffers(
        &mut self,
        port: PortId,
        endpoint: &mut Endpoint,
        limit: usize,
    ) -> Vec<AssocId> {
        let mut rested = Vec::new();
        let mut owners = BTreeSet::new();
        while let Some((core, used)) = endpoint.poll_buffer_change() {
            let BufferUse {
                received, queued, ..
            } = used;
            // Unknown ones were refused, or their data has been counted to the end.
            let Some(id) = self.in_core(port, core) else {
                continue;
            };
            let Some(association) = self.by_id.get_mut(&id) else {
                continue;
            };
            let owner = association.owner;
            let before = std::mem::replace(&mut association.queued, queued);
            self.shares.update_queued(owner, before, queued);
            if queued < before && self.shares.of_owner(owner).waiting > 0 {
                owners.insert(owner);
            }
            if queued == 0 && before > 0 && association.waits_for_owner {
                rested.push(id);
            }
            if let Some(source) = association.source {
                let before = std::mem::replace(&mut association.held, received);
                self.shares.update_received(owner, source, before, received);
            }
        }
        for owner in owners {
            if self.of_owner(owner).queued <= limit / 2 {
                let waiting = self.iter();
                let waiting = waiting.filter(|(_, a)| a.owner == owner && a.waits_for_owner);
                rested.extend(waiting.map(|(id, _)| id));
            }
        }
        rested
    }

    /// Returns whether the owner of an association has no room for another message in its send buffers. Every
    /// association may hold [`MIN_QUEUED`] regardless, and an owner that has nothing queued any message. If there is
    /// none, the association waits for it.
    pub(crate) fn waits_for_owner(&mut self, id: AssocId, len: usize, limit: usize) -> bool {
        let Some(association) = self.by_id.get_mut(&id) else {
            return false;
        };
        let used = self.shares.of_owner(association.owner).queued;
        if used == 0
            || used.saturating_add(len) <= limit
            || association.queued.saturating_add(len) <= MIN_QUEUED
        {
            return false;
        }
        if !std::mem::replace(&mut association.waits_for_owner, true) {
            self.shares.add_waiting(association.owner);
        }
        true
    }

    /// Ends the wait of an association for room in the send buffers of its owner. Returns whether it waited.
    pub(crate) fn end_wait(&mut self, id: AssocId) -> bool {
        let Some(association) = self.by_id.get_mut(&id) else {
            return false;
        };
        let waited = std::mem::take(&mut association.waits_for_owner);
        if waited {
            self.shares.remove_waiting(association.owner);
        }
        waited
    }
}
