//! Shares of sources of peers and of owners of sockets in what all ports have together: associations, memory for
//! received data, and send buffers.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use carrick_proto::{BufferUse, SourceKey};

use crate::associations::Association;
use crate::config::Config;
use crate::ids::{AssocId, PortId, SocketId};
use crate::sockets::Sockets;

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
pub(crate) struct Shares {
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
    pub(crate) fn of_source(&self, source: SourceKey) -> Share {
        self.sources.get(&source).copied().unwrap_or_default()
    }

    pub(crate) fn of_owner(&self, owner: u32) -> Share {
        self.owners.get(&owner).copied().unwrap_or_default()
    }

    /// Counts an association without its received data.
    pub(crate) fn add(&mut self, association: &Association) {
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
    pub(crate) fn remove(&mut self, association: &Association) {
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

impl Config {
    /// Returns the limit of associations that peers at one source may initiate.
    pub(crate) fn per_source(&self) -> usize {
        let fraction = (self.max_associations / 8).max(16);
        self.max_associations_per_source.unwrap_or(fraction)
    }

    /// Returns the limit of associations of one owner.
    pub(crate) fn per_owner(&self) -> usize {
        let half = self.max_associations.div_ceil(2);
        self.max_associations_per_owner.unwrap_or(half)
    }

    /// Returns the memory for received data of one owner.
    fn memory_per_owner(&self) -> usize {
        let half = self.receive_memory / 2;
        self.receive_memory_per_owner.unwrap_or(half)
    }
}

impl Sockets {
    /// Sets the owner of a socket, such as a user, whose sockets together have limits
    /// ([`Config::max_associations_per_owner`], [`Config::receive_memory_per_owner`],
    /// [`Config::send_memory_per_owner`]) and ports
    /// ([`Config::reserved_ports`]). Sockets that are accepted from it or branched off have the same. Default: 0.
    ///
    /// # Errors
    /// `EBADF`
    pub fn set_owner(&mut self, id: SocketId, owner: u32) -> Result<(), crate::Errno> {
        self.table.open_mut(id)?.owner = owner;
        Ok(())
    }

    /// Returns whether the owner of a socket may have another association.
    pub(crate) fn owner_has_room(&self, owner: u32) -> bool {
        self.shares.of_owner(owner).associations < self.config.per_owner()
    }

    /// Updates the shares by the buffers of the associations of a port, and wakes those that wait for room in the send
    /// buffers of their owner: all when half of its limit is free, and one whose own buffer is empty.
    pub(crate) fn count_buffers(&mut self, port: PortId) {
        let mut rested = Vec::new();
        let mut owners = BTreeSet::new();
        let Some(endpoint) = self.ports.core_mut(port) else {
            return;
        };
        while let Some((
            core,
            BufferUse {
                received, queued, ..
            },
        )) = endpoint.poll_buffer_change()
        {
            // Unknown ones were refused, or their data has been counted to the end.
            let Some(id) = self.associations.in_core(port, core) else {
                continue;
            };
            let Some(association) = self.associations.get_mut(id) else {
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
            if self.shares.of_owner(owner).queued <= self.config.send_memory_per_owner / 2 {
                let all = self.associations.iter();
                let waiting = all.filter(|(_, a)| a.owner == owner && a.waits_for_owner);
                rested.extend(waiting.map(|(id, _)| id));
            }
        }
        for id in rested {
            self.end_wait_for_owner(id);
        }
    }

    /// Returns whether the owner of an association has no room for another message in its send buffers. Every
    /// association may hold [`MIN_QUEUED`] regardless, and an owner that has nothing queued any message. If there is
    /// none, the association waits for it.
    pub(crate) fn waits_for_owner(&mut self, id: AssocId, len: usize) -> bool {
        let limit = self.config.send_memory_per_owner;
        let Some(association) = self.associations.get_mut(id) else {
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

    fn end_wait_for_owner(&mut self, id: AssocId) {
        let Some(association) = self.associations.get_mut(id) else {
            return;
        };
        if !std::mem::take(&mut association.waits_for_owner) {
            return;
        }
        self.shares.remove_waiting(association.owner);
        let core = self.core_of(id);
        // Otherwise its own buffer is full, whose room is an event of the core.
        if core.is_some_and(|(core, core_id)| core.has_send_room(core_id)) {
            self.on_send_room(id);
        }
    }

    /// Limits what an association may receive: a source or an owner may use as much as is still free of the memory of
    /// all ports, and an owner no more than its own limit. Without an association it is that of a new one from
    /// `source`.
    pub(crate) fn limit_received(
        &mut self,
        port: PortId,
        association: Option<AssocId>,
        source: SourceKey,
    ) {
        let memory = self.config.receive_memory;
        let per_owner = self.config.memory_per_owner();
        let mut room = None;
        // Below, no source and no owner can be near its limit.
        if self.ports.received() > memory.min(per_owner) / 4 {
            let association = association.and_then(|id| self.associations.get(id));
            let source = association.and_then(|a| a.source).unwrap_or(source);
            let free = memory.saturating_sub(self.ports.received());
            let of_source = free.saturating_sub(self.shares.of_source(source).received);
            let of_owner = association.map_or(per_owner, |association| {
                per_owner.saturating_sub(self.shares.of_owner(association.owner).received)
            });
            room = Some(of_source.min(of_owner));
        }
        self.ports.limit_received(port, memory, room);
    }
}
