//! Associations of an endpoint, indexed by identifier, by peer address and port, by verification
//! tag, and by the time of their next timeout.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hash::BuildHasher;
use core::net::IpAddr;

use carrick_wire::VerificationTag;
use siphasher::sip::SipHasher13;

use super::peer_index::{PeerEntry, PeerIndex};
use super::source_table::{SourceKey, SourceTable};
use crate::association::{Association, AssociationId};
use crate::random::Random;
use crate::time::Time;

/// Hash function keyed from the endpoint's seed, so that peers can't choose colliding addresses.
#[derive(Clone, Debug)]
pub(crate) struct KeyedHash(u64, u64);

impl KeyedHash {
    pub(super) fn new(first: u64, second: u64) -> Self {
        Self(first, second)
    }
}

impl BuildHasher for KeyedHash {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

/// Returns the index entry of an association at one of its peer's addresses. An address without a path
/// counts as plain IP.
fn peer_entry(association: &Association, remote: IpAddr) -> PeerEntry {
    PeerEntry {
        tag: association.local_tag,
        encapsulation: association.paths.encapsulation(remote).flatten(),
        slot: association.id.slot,
        confirmed: association.paths.is_confirmed(remote),
    }
}

/// Result of a lookup by peer address and port.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressMatch {
    pub(super) id: AssociationId,
    /// Destination UDP port of packets to this address; `None` on plain IP.
    pub(super) encapsulation: Option<u16>,
    /// The address is confirmed in the association (RFC 9260, section 5.4).
    pub(super) confirmed: bool,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    association: Option<Box<Association>>,
}

#[derive(Debug)]
pub(crate) struct Registry {
    slots: Vec<Slot>,
    free: Vec<u32>,
    peers: PeerIndex,
    sources: SourceTable,
    /// Associations by local tag and peer port: those with a chunk protection, or all of them.
    tags: BTreeMap<(u32, u16), AssociationId>,
    /// `tags` has all associations, not only those with a chunk protection.
    all_tags: bool,
    /// Timeouts, earliest first. An association has an entry for the time for which it was last
    /// scheduled; if its timers have moved to a later time, it is rescheduled when that entry expires.
    timers: BinaryHeap<Reverse<(Time, u32, u32)>>,
    /// Associations that may have something to send.
    ready: VecDeque<AssociationId>,
    len: usize,
}

impl Registry {
    /// Creates an empty registry. With `all_tags`, all associations can be found by their tags alone.
    pub(crate) fn new(random: &mut Random, all_tags: bool) -> Self {
        let hash = KeyedHash::new(random.u64(), random.u64());
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            peers: PeerIndex::new(hash.clone()),
            sources: SourceTable::new(hash),
            tags: BTreeMap::new(),
            all_tags,
            timers: BinaryHeap::new(),
            ready: VecDeque::new(),
            len: 0,
        }
    }

    /// Returns the number of associations.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Reserves the identifier of the next association.
    pub(crate) fn next_id(&mut self) -> AssociationId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                association: None,
            });
            self.slots.len() as u32 - 1
        });
        AssociationId {
            slot,
            generation: self.slots[slot as usize].generation,
        }
    }

    /// Adds an association with a peer at this source; `accepted` if the peer initiated it.
    pub(super) fn insert(
        &mut self,
        mut association: Box<Association>,
        source: SourceKey,
        accepted: bool,
    ) {
        let slot = association.id.slot;
        self.index(&association);
        association.source = Some(self.sources.add(source, accepted));
        self.slots[slot as usize].association = Some(association);
        self.len += 1;
    }

    /// Returns the number of associations that peers at this source have initiated.
    pub(super) fn accepted_from(&self, source: SourceKey) -> usize {
        self.sources.accepted(source)
    }

    /// Returns the bytes of received data of all associations.
    pub(crate) fn received(&self) -> usize {
        self.sources.received()
    }

    /// Limits the receive buffer of an association to its share of the budget of all.
    pub(crate) fn limit_receiver(&mut self, id: AssociationId, budget: usize) {
        let Some(slot) = self.slots.get_mut(id.slot as usize) else {
            return;
        };
        let association = slot.association.as_deref_mut();
        if let Some(association) = association.filter(|_| slot.generation == id.generation)
            && let Some(source) = association.source
        {
            let limit = self.sources.limit(source, association.charged, budget);
            association.receiver.set_limit(limit);
        }
    }

    /// Updates the memory accounted for the received data of an association and its inbound streams.
    pub(crate) fn update_memory_use(&mut self, id: AssociationId) {
        let Some(slot) = self.slots.get_mut(id.slot as usize) else {
            return;
        };
        let association = slot.association.as_deref_mut();
        let Some(association) = association.filter(|_| slot.generation == id.generation) else {
            return;
        };
        let held = association.receiver.charged_bytes();
        let before = core::mem::replace(&mut association.charged, held);
        if let Some(source) = association.source.filter(|_| before != held) {
            self.sources.update_received(source, before, held);
        }
    }

    /// Adds the association to the index under all addresses of its peer.
    fn index(&mut self, association: &Association) {
        let slots = &self.slots;
        for remote in association.paths.remotes() {
            let key = (remote, association.peer_port);
            let describe = |slot: u32| {
                Some(peer_entry(
                    slots[slot as usize].association.as_deref()?,
                    remote,
                ))
            };
            self.peers
                .add(key, peer_entry(association, remote), describe);
        }
    }

    /// Removes the association from the index under these addresses.
    fn unindex(&mut self, remotes: impl Iterator<Item = IpAddr>, port: u16, slot: u32) {
        for remote in remotes {
            self.peers.remove((remote, port), slot);
        }
    }

    /// Updates the index after the peer's addresses changed from `before`.
    pub(crate) fn reindex(&mut self, before: &[IpAddr], id: AssociationId) {
        let Some(association) = self
            .slots
            .get_mut(id.slot as usize)
            .and_then(|s| s.association.take())
        else {
            return;
        };
        self.unindex(before.iter().copied(), association.peer_port, id.slot);
        self.index(&association);
        self.slots[id.slot as usize].association = Some(association);
    }

    /// Removes an ended association from the indexes by address and tag.
    pub(crate) fn unlink(&mut self, id: AssociationId) {
        let Some(association) = self
            .slots
            .get_mut(id.slot as usize)
            .filter(|s| s.generation == id.generation)
            .and_then(|s| s.association.take())
        else {
            return;
        };
        self.unindex(association.paths.remotes(), association.peer_port, id.slot);
        self.unindex_tag(&association);
        self.slots[id.slot as usize].association = Some(association);
    }

    /// Removes an association and frees its identifier.
    pub(crate) fn remove(&mut self, id: AssociationId) {
        let Some(slot) = self
            .slots
            .get_mut(id.slot as usize)
            .filter(|s| s.generation == id.generation)
        else {
            return;
        };
        let Some(association) = slot.association.take() else {
            return;
        };
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        self.len -= 1;
        if let Some(source) = association.source {
            self.sources.update_received(source, association.charged, 0);
            self.sources.remove(source, association.was_accepted());
        }
        self.unindex(association.paths.remotes(), association.peer_port, id.slot);
        self.unindex_tag(&association);
    }

    pub(crate) fn get(&self, id: AssociationId) -> Option<&Association> {
        self.slots
            .get(id.slot as usize)
            .filter(|s| s.generation == id.generation)?
            .association
            .as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        self.slots
            .get_mut(id.slot as usize)
            .filter(|s| s.generation == id.generation)?
            .association
            .as_deref_mut()
    }

    fn id(&self, slot: u32) -> AssociationId {
        AssociationId {
            slot,
            generation: self.slots[slot as usize].generation,
        }
    }

    /// Returns the association to which a packet with this source address, port, tag and UDP source
    /// port may belong. The caller checks the tag.
    pub(crate) fn find_by_address_and_tag(
        &self,
        remote: IpAddr,
        port: u16,
        tag: VerificationTag,
        encapsulation: Option<u16>,
    ) -> Option<AssociationId> {
        let found = self.peers.find((remote, port), tag, encapsulation);
        found.map(|slot| self.id(slot))
    }

    /// Returns the association in which this address is confirmed and has this encapsulation. An
    /// unconfirmed address identifies no association (RFC 5062, section 2.3).
    pub(crate) fn find_confirmed(
        &self,
        remote: IpAddr,
        port: u16,
        encapsulation: Option<u16>,
    ) -> Option<AssociationId> {
        self.at_address(remote, port)
            .find(|found| found.encapsulation == encapsulation && found.confirmed)
            .map(|found| found.id)
    }

    /// Returns the association that sent a quoted packet to this address, port and UDP port. `has_tag`
    /// compares the verification tag of the quoted packet.
    pub(crate) fn find_quoted_sender(
        &self,
        remote: IpAddr,
        port: u16,
        encapsulation: Option<u16>,
        has_tag: impl Fn(&Association) -> bool,
    ) -> Option<AssociationId> {
        self.at_address(remote, port)
            .find(|found| {
                found.encapsulation == encapsulation && self.get(found.id).is_some_and(&has_tag)
            })
            .map(|found| found.id)
    }

    /// Returns all associations with a peer at this address and port.
    pub(super) fn at_address(
        &self,
        remote: IpAddr,
        port: u16,
    ) -> impl Iterator<Item = AddressMatch> + '_ {
        self.peers
            .all((remote, port))
            .filter_map(move |(slot, shared)| {
                let alone = || {
                    let association = self.slots[slot as usize].association.as_deref();
                    association.map(|a| peer_entry(a, remote))
                };
                let entry = shared.or_else(alone)?;
                Some(AddressMatch {
                    id: self.id(slot),
                    encapsulation: entry.encapsulation,
                    confirmed: entry.confirmed,
                })
            })
    }

    /// Returns whether any association has a peer at this address and port.
    pub(crate) fn has_peer_at(&self, remote: IpAddr, port: u16) -> bool {
        self.peers.all((remote, port)).next().is_some()
    }

    /// Returns whether the limit of associations with one peer address and port is reached.
    pub(crate) fn is_full(&self, remote: IpAddr, port: u16) -> bool {
        self.peers.is_full((remote, port))
    }

    /// Returns the association with this local tag and peer port, if it is in the index by tag.
    pub(crate) fn find_by_tag(&self, tag: VerificationTag, port: u16) -> Option<AssociationId> {
        self.tags.get(&(tag.0, port)).copied()
    }

    /// Returns the association with this local tag and peer port, if it has a chunk protection.
    pub(crate) fn find_protected(&self, tag: VerificationTag, port: u16) -> Option<AssociationId> {
        let found = self.find_by_tag(tag, port);
        found.filter(|id| self.get(*id).is_some_and(|a| a.protection.is_some()))
    }

    /// Updates the index by tag.
    fn index_tag(&mut self, id: AssociationId) {
        let all = self.all_tags;
        let Some(association) = self.get_mut(id) else {
            return;
        };
        let (tag, port) = (association.local_tag, association.peer_port);
        let wanted = all || association.protection.is_some();
        if !wanted || association.indexed == Some(tag) || association.state.is_closed() {
            return;
        }
        if let Some(old) = association.indexed.replace(tag) {
            self.remove_tag(old, port, id);
        }
        self.tags.insert((tag.0, port), id);
    }

    fn remove_tag(&mut self, tag: VerificationTag, port: u16, id: AssociationId) {
        if self.tags.get(&(tag.0, port)) == Some(&id) {
            self.tags.remove(&(tag.0, port));
        }
    }

    fn unindex_tag(&mut self, association: &Association) {
        if let Some(tag) = association.indexed {
            self.remove_tag(tag, association.peer_port, association.id);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.slots
            .iter()
            .filter_map(|s| s.association.as_ref().map(|a| a.id))
    }

    /// Updates all that the registry derives from an association: its tag in the index, its next
    /// timeout, and its place in the queue of those that may have something to send.
    pub(crate) fn refresh(&mut self, id: AssociationId) {
        self.index_tag(id);
        self.schedule(id);
        self.mark_ready(id);
    }

    /// Queues the association as one that may have something to send.
    pub(crate) fn mark_ready(&mut self, id: AssociationId) {
        let Some(association) = self.get_mut(id) else {
            return;
        };
        if !core::mem::replace(&mut association.listed, true) {
            self.ready.push_back(id);
        }
    }

    /// Schedules the association's next timeout.
    pub(crate) fn schedule(&mut self, id: AssociationId) {
        let Some(association) = self.get_mut(id) else {
            return;
        };
        let Some(at) = association.next_timeout() else {
            return;
        };
        if association.scheduled.is_none_or(|s| at < s) {
            association.scheduled = Some(at);
            self.timers.push(Reverse((at, id.slot, id.generation)));
            self.compact();
        }
    }

    /// Drops obsolete timer entries before they outnumber the current ones.
    fn compact(&mut self) {
        if self.timers.len() <= 4 * self.len + 1024 {
            return;
        }
        let slots = &self.slots;
        self.timers.retain(|Reverse((at, slot, generation))| {
            slots.get(*slot as usize).is_some_and(|s| {
                s.generation == *generation
                    && s.association
                        .as_ref()
                        .is_some_and(|a| a.scheduled == Some(*at))
            })
        });
    }

    /// Takes the next association that may have something to send from the queue.
    pub(crate) fn next_ready(&mut self) -> Option<AssociationId> {
        loop {
            let id = self.ready.pop_front()?;
            if let Some(association) = self.get_mut(id) {
                association.listed = false;
                return Some(id);
            }
        }
    }

    /// Returns the time of the earliest timer entry, which is never later than the earliest timeout.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes an association with an expired timer.
    pub(crate) fn next_expired(&mut self, now: Time) -> Option<AssociationId> {
        loop {
            let &Reverse((at, slot, generation)) = self.timers.peek()?;
            if at > now {
                return None;
            }
            self.timers.pop();
            let id = AssociationId { slot, generation };
            let Some(association) = self.get_mut(id).filter(|a| a.scheduled == Some(at)) else {
                continue;
            };
            association.scheduled = None;
            match association.next_timeout() {
                Some(next) if next <= now => return Some(id),
                Some(next) => {
                    association.scheduled = Some(next);
                    self.timers.push(Reverse((next, slot, generation)));
                }
                None => {}
            }
        }
    }
}
