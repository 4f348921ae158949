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

use super::peer_index::{Key, PeerEntry, PeerIndex};
use super::shard::{NewAssociation, Refusal, Shard};
use super::source_table::{SourceIndex, SourceKey, SourceTable};
use crate::association::Association;
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::ids::AssociationId;
use crate::random::Random;
use crate::route::PeerAddress;
use crate::rx::MIN_RECEIVE;
use crate::stats::BufferUse;
use crate::time::Time;

/// Hash function keyed from the endpoint's seed, so that peers can't choose colliding addresses.
#[derive(Clone, Debug)]
pub(crate) struct KeyedHash(u64, u64);

portable_tuple! { KeyedHash(first, second) }

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
        tag: association.local_tag(),
        encapsulation: association.path_set().encapsulation(remote).flatten(),
        slot: association.id().slot,
        confirmed: association.path_set().is_confirmed(remote),
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

#[derive(Debug, Default)]
struct AssociationSlot {
    generation: u32,
    /// The association is in the queue of those that may have packets to send.
    is_ready: bool,
    association: Option<Box<Association>>,
    /// Time of the association's entry in the timer heap.
    scheduled: Option<Time>,
    /// Local tag in the index of tags, if the association has an entry there.
    indexed_tag: Option<VerificationTag>,
    /// Index of the peer in the table of sources.
    source: Option<SourceIndex>,
    /// Bytes of received data that are counted in that table.
    charged: usize,
    /// Bytes in the send buffer that were reported last, if changes are recorded.
    queued: usize,
}

#[derive(Debug)]
pub(crate) struct Registry {
    slots: Vec<AssociationSlot>,
    free: Vec<u32>,
    peers: PeerIndex,
    sources: SourceTable,
    /// Associations by peer port and local tag: those with a chunk protection and those that an address of
    /// their peer does not identify, or all of them.
    tags: BTreeMap<(u16, u32), AssociationId>,
    /// `tags` has all associations.
    all_tags: bool,
    /// Timeouts, earliest first. An association has an entry for the time for which it was last
    /// scheduled; if its timers have moved to a later time, it is rescheduled when that entry expires.
    timers: BinaryHeap<Reverse<(Time, u32, u32)>>,
    /// Associations that may have something to send.
    ready: VecDeque<AssociationId>,
    len: usize,
    /// Bytes that the association of the next input may receive, in place of its share of the budget.
    receive_room: Option<usize>,
    /// Associations whose buffers have changed; `None` if the changes are not recorded.
    buffer_changes: Option<Vec<AssociationId>>,
    /// Place among the shards of an endpoint, whose table has the entries of the index of peers.
    shard: Option<Shard>,
}

/// Returns the slot of an association that has not been removed.
fn current(slots: &mut [AssociationSlot], id: AssociationId) -> Option<&mut AssociationSlot> {
    let slot = slots.get_mut(id.slot as usize)?;
    (slot.generation == id.generation).then_some(slot)
}

impl Registry {
    /// Creates an empty registry. With `all_tags`, all associations can be found by their tags alone.
    pub(crate) fn new(random: &mut Random, all_tags: bool, shard: Option<Shard>) -> Self {
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
            receive_room: None,
            buffer_changes: None,
            shard,
        }
    }

    /// Reserves a place and the identifier for a new association, unless `most` associations exist, or
    /// `per_source` that peers at its source have initiated. With shards, those of all count.
    ///
    /// # Errors
    /// The reason why the association is refused.
    pub(super) fn admit(
        &mut self,
        new: &NewAssociation<'_>,
        (most, per_source): (usize, usize),
    ) -> Result<AssociationId, Refusal> {
        if let Some(shard) = &self.shard {
            shard.claim(new, (most, per_source))?;
        } else {
            let full = new.accepted && self.sources.accepted(new.source) >= per_source;
            if self.len >= most || full {
                return Err(Refusal::Limit);
            }
        }
        Ok(self.next_id())
    }

    fn next_id(&mut self) -> AssociationId {
        let slot = self.free.pop().unwrap_or_else(|| {
            if self.slots.len() == self.slots.capacity() {
                // Doubled from one slot on: most endpoints have one association and should not pay for
                // four.
                self.slots.reserve_exact(self.slots.len().max(1));
            }
            self.slots.push(AssociationSlot::default());
            self.slots.len() as u32 - 1
        });
        AssociationId {
            slot,
            generation: self.slots[slot as usize].generation,
        }
    }

    /// Adds an association that was admitted.
    pub(super) fn insert(&mut self, association: Box<Association>, new: &NewAssociation<'_>) {
        let AssociationId { slot, generation } = association.id();
        self.slots[slot as usize] = AssociationSlot {
            generation,
            source: Some(self.sources.add(new.source, new.accepted)),
            ..AssociationSlot::default()
        };
        self.replace_entries(&association, &[]);
        if let Some(shard) = &self.shard {
            shard.end_claim(new);
        }
        self.slots[slot as usize].association = Some(association);
        self.len += 1;
    }

    /// Returns the bytes of received data of all associations.
    pub(crate) fn received(&self) -> usize {
        self.sources.received()
    }

    /// Returns the source of an association, and whether the peer initiated it.
    pub(super) fn source(&self, id: AssociationId) -> Option<(SourceKey, bool)> {
        let association = self.get(id)?;
        let index = self.slots[id.slot as usize].source?;
        Some((self.sources.source(index), association.was_accepted()))
    }

    pub(super) fn set_receive_room(&mut self, room: Option<usize>) {
        self.receive_room = room;
    }

    /// Records changes of buffers from now on, and the present state as the first ones.
    pub(super) fn record_buffer_changes(&mut self) {
        self.buffer_changes = Some(Vec::new());
        let all: Vec<AssociationId> = self.ids().collect();
        for id in all {
            self.update_queued(id);
            if self.buffered(id) != BufferUse::default() {
                self.record_buffer_change(id);
            }
        }
    }

    /// Returns an association whose buffers have changed, with their bytes.
    pub(super) fn poll_buffer_change(&mut self) -> Option<(AssociationId, BufferUse)> {
        let id = self.buffer_changes.as_mut()?.pop()?;
        Some((id, self.buffered(id)))
    }

    fn buffered(&self, id: AssociationId) -> BufferUse {
        let slot = self.slots.get(id.slot as usize);
        let slot = slot.filter(|slot| slot.generation == id.generation);
        slot.map_or(BufferUse::default(), |slot| BufferUse {
            received: slot.charged,
            queued: slot.queued,
        })
    }

    /// Records the bytes in the send buffer of an association, if they have changed.
    pub(super) fn update_queued(&mut self, id: AssociationId) {
        if self.buffer_changes.is_none() {
            return;
        }
        if let Some(slot) = current(&mut self.slots, id)
            && let Some(association) = &slot.association
        {
            let queued = association.send_buffer_bytes();
            if core::mem::replace(&mut slot.queued, queued) != queued {
                self.record_buffer_change(id);
            }
        }
    }

    fn record_buffer_change(&mut self, id: AssociationId) {
        if let Some(changes) = &mut self.buffer_changes
            && changes.last() != Some(&id)
        {
            changes.push(id);
        }
    }

    /// Limits the receive buffer of an association to its share of the budget of all.
    pub(crate) fn limit_receiver(&mut self, id: AssociationId, budget: usize) {
        if let Some(slot) = current(&mut self.slots, id)
            && let (Some(association), Some(source)) = (&mut slot.association, slot.source)
        {
            let limit = match self.receive_room {
                Some(room) => slot.charged.saturating_add(room).max(MIN_RECEIVE),
                None => self.sources.limit(source, slot.charged, budget),
            };
            association.limit_receive_buffer(limit);
        }
    }

    /// Updates the memory accounted for the received data of an association and its inbound streams, and records the
    /// bytes in its send buffer.
    #[inline]
    pub(crate) fn update_memory_use(&mut self, id: AssociationId) {
        if let Some(slot) = current(&mut self.slots, id)
            && let Some(association) = &slot.association
        {
            let held = association.receive_memory();
            let before = core::mem::replace(&mut slot.charged, held);
            if let Some(source) = slot.source.filter(|_| before != held) {
                self.sources.update_received(source, before, held);
                self.record_buffer_change(id);
            }
        }
        self.update_queued(id);
    }

    /// Adds the association to the index under the addresses of its peer that `wanted` selects. Where other
    /// peers claim an address so often that an entry is left out, its tag identifies the association. Returns
    /// the entries for the table of all shards, if there is one.
    fn index(
        &mut self,
        association: &Association,
        wanted: impl Fn(&PeerEntry) -> bool,
    ) -> Vec<(IpAddr, PeerEntry)> {
        let mut shared = Vec::new();
        let slots = &self.slots;
        let (id, tag, port) = (
            association.id(),
            association.local_tag(),
            association.peer_port(),
        );
        let mut is_listed = true;
        for remote in association.path_set().remotes() {
            let describe = |slot: u32| {
                Some(peer_entry(
                    slots[slot as usize].association.as_deref()?,
                    remote,
                ))
            };
            let entry = peer_entry(association, remote);
            if !wanted(&entry) {
                continue;
            }
            if !self.peers.add(Key(remote, port), entry, describe) {
                is_listed = false;
            } else if self.shard.is_some() {
                shared.push((remote, entry));
            }
        }
        if !is_listed {
            self.add_tag(id, tag, port);
        }
        shared
    }

    /// Updates the index by address, in which the association had these addresses.
    fn replace_entries(&mut self, association: &Association, before: &[IpAddr]) {
        let (port, slot) = (association.peer_port(), association.id().slot);
        self.unindex(before.iter().copied(), port, slot);
        let shared = self.index(association, |_| true);
        if let Some(shard) = &self.shard {
            shard.update((port, slot), before, &shared);
        }
    }

    /// Removes the association from the index under these addresses.
    fn unindex(&mut self, remotes: impl Iterator<Item = IpAddr>, port: u16, slot: u32) {
        for remote in remotes {
            self.peers.remove(Key(remote, port), slot);
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
        self.replace_entries(&association, before);
        self.slots[id.slot as usize].association = Some(association);
    }

    /// Removes an ended association from the indexes by address and tag.
    pub(crate) fn unlink(&mut self, id: AssociationId) {
        let Some(slot) = current(&mut self.slots, id) else {
            return;
        };
        let tag = slot.indexed_tag;
        let Some(association) = slot.association.take() else {
            return;
        };
        self.unlink_association(&association, tag);
        self.slots[id.slot as usize].association = Some(association);
    }

    /// Removes an association and frees its identifier.
    pub(crate) fn remove(&mut self, id: AssociationId) -> Option<Box<Association>> {
        let slot = current(&mut self.slots, id)?;
        let association = slot.association.take()?;
        let (tag, source, charged) = (slot.indexed_tag, slot.source, slot.charged);
        let queued = slot.queued;
        *slot = AssociationSlot {
            generation: slot.generation.wrapping_add(1),
            ..AssociationSlot::default()
        };
        self.free.push(id.slot);
        self.len -= 1;
        if let Some(source) = source {
            let accepted = association.was_accepted();
            if let Some(shard) = &self.shard {
                shard.release(self.sources.source(source), accepted);
            }
            self.sources.update_received(source, charged, 0);
            self.sources.remove(source, accepted);
        }
        if charged > 0 || queued > 0 {
            self.record_buffer_change(id);
        }
        self.unlink_association(&association, tag);
        Some(association)
    }

    /// Removes an association from the indexes by address and tag; `tag` is the one of its entry.
    fn unlink_association(&mut self, association: &Association, tag: Option<VerificationTag>) {
        let (id, port) = (association.id(), association.peer_port());
        self.unindex(association.path_set().remotes(), port, id.slot);
        if let Some(shard) = &self.shard {
            let remotes: Vec<IpAddr> = association.path_set().remotes().collect();
            shard.update((port, id.slot), &remotes, &[]);
        }
        if let Some(tag) = tag {
            self.remove_tag(tag, port, id);
        }
    }

    pub(crate) fn get(&self, id: AssociationId) -> Option<&Association> {
        self.slots
            .get(id.slot as usize)
            .filter(|s| s.generation == id.generation)?
            .association
            .as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        current(&mut self.slots, id)?.association.as_deref_mut()
    }

    fn id(&self, slot: u32) -> AssociationId {
        AssociationId {
            slot,
            generation: self.slots[slot as usize].generation,
        }
    }

    /// Returns the association to which a packet with this source address, port, tag and UDP source
    /// port may belong: the one with this tag, also if the index leaves it out, or else another one at
    /// the address. The caller checks the tag.
    pub(crate) fn find_by_address_and_tag(
        &self,
        remote: IpAddr,
        port: u16,
        tag: VerificationTag,
        encapsulation: Option<u16>,
    ) -> Option<AssociationId> {
        let found = self.peers.find(Key(remote, port), tag, encapsulation);
        let found = found.map(|slot| self.id(slot));
        if found.is_some_and(|id| self.get(id).is_some_and(|a| a.local_tag() == tag)) {
            return found;
        }
        let has_address = |id: &AssociationId| {
            let association = self.get(*id);
            association.is_some_and(|a| a.path_set().has_address(remote))
        };
        let left_out = self.find_by_tag(tag, port).filter(has_address);
        left_out.or(found)
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
    /// compares the verification tag of the quoted packet, which is the peer's, so that associations
    /// that the index of addresses leaves out have to be searched.
    pub(crate) fn find_quoted_sender(
        &self,
        remote: IpAddr,
        port: u16,
        encapsulation: Option<u16>,
        has_tag: impl Fn(&Association) -> bool,
    ) -> Option<AssociationId> {
        let listed = self.at_address(remote, port).find(|found| {
            found.encapsulation == encapsulation && self.get(found.id).is_some_and(&has_tag)
        });
        if listed.is_some() || !self.peers.leaves_out(Key(remote, port)) {
            return listed.map(|found| found.id);
        }
        let of_port = (port, 0)..=(port, u32::MAX);
        let mut tagged = self.tags.range(of_port).map(|(_, id)| *id);
        tagged.find(|id| {
            self.get(*id).is_some_and(|association| {
                association.path_set().has_address(remote)
                    && association.path_set().encapsulation(remote).flatten() == encapsulation
                    && has_tag(association)
            })
        })
    }

    /// Returns all associations with a peer at this address and port.
    pub(super) fn at_address(
        &self,
        remote: IpAddr,
        port: u16,
    ) -> impl Iterator<Item = AddressMatch> + '_ {
        self.peers
            .all(Key(remote, port))
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

    /// Returns whether another shard has an association in which one of these addresses is confirmed, and whose peer
    /// has the address `source`.
    pub(super) fn has_same_peer_in_shard(
        &self,
        id: AssociationId,
        source: IpAddr,
        port: u16,
        listed: impl Iterator<Item = PeerAddress>,
    ) -> bool {
        let shard = self.shard.as_ref();
        shard.is_some_and(|shard| shard.has_same_peer(id.slot, Key(source, port), listed))
    }

    /// Returns whether any association has a peer at this address and port.
    pub(crate) fn has_peer_at(&self, remote: IpAddr, port: u16) -> bool {
        self.peers.all(Key(remote, port)).next().is_some()
    }

    /// Returns whether the limit of associations with one peer address and port is reached.
    pub(crate) fn is_full(&self, remote: IpAddr, port: u16) -> bool {
        self.peers.is_full(Key(remote, port))
    }

    /// Returns the association with this local tag and peer port, if it is in the index by tag.
    pub(crate) fn find_by_tag(&self, tag: VerificationTag, port: u16) -> Option<AssociationId> {
        self.tags.get(&(port, tag.0)).copied()
    }

    /// Returns the association with this local tag and peer port, if it has a chunk protection.
    pub(crate) fn find_protected(&self, tag: VerificationTag, port: u16) -> Option<AssociationId> {
        let found = self.find_by_tag(tag, port);
        found.filter(|id| self.get(*id).is_some_and(|a| a.is_protected()))
    }

    /// Updates the index by tag.
    fn index_tag(&mut self, id: AssociationId) {
        let Some(slot) = current(&mut self.slots, id) else {
            return;
        };
        let Some(association) = &slot.association else {
            return;
        };
        let (tag, port) = (association.local_tag(), association.peer_port());
        let wanted = self.all_tags || association.is_protected() || slot.indexed_tag.is_some();
        if wanted && slot.indexed_tag != Some(tag) && !association.state().is_closed() {
            self.add_tag(id, tag, port);
        }
    }

    /// Adds an association to the index by tag, or changes its entry.
    fn add_tag(&mut self, id: AssociationId, tag: VerificationTag, port: u16) {
        let slot = &mut self.slots[id.slot as usize];
        if let Some(old) = slot.indexed_tag.replace(tag) {
            self.remove_tag(old, port, id);
        }
        self.tags.insert((port, tag.0), id);
    }

    fn remove_tag(&mut self, tag: VerificationTag, port: u16, id: AssociationId) {
        if self.tags.get(&(port, tag.0)) == Some(&id) {
            self.tags.remove(&(port, tag.0));
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.slots
            .iter()
            .filter_map(|s| s.association.as_ref().map(|a| a.id()))
    }

    /// Updates what the registry derives from an association: its tag in the index, and its place in the queue of those
    /// that may have something to send. Its next timeout is scheduled when nothing is left to send.
    pub(crate) fn refresh(&mut self, id: AssociationId) {
        self.index_tag(id);
        self.mark_ready(id);
    }

    /// Queues the association as one that may have something to send.
    pub(crate) fn mark_ready(&mut self, id: AssociationId) {
        if let Some(slot) = current(&mut self.slots, id)
            && slot.association.is_some()
            && !core::mem::replace(&mut slot.is_ready, true)
        {
            self.ready.push_back(id);
        }
    }

    /// Schedules the association's next timeout.
    pub(crate) fn schedule(&mut self, id: AssociationId) {
        if let Some(slot) = current(&mut self.slots, id)
            && let Some(at) = slot.association.as_ref().and_then(|a| a.next_timeout())
            && slot.scheduled.is_none_or(|s| at < s)
        {
            slot.scheduled = Some(at);
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
            let slot = slots.get(*slot as usize);
            slot.is_some_and(|s| s.generation == *generation && s.scheduled == Some(*at))
        });
    }

    /// Takes the next association that may have something to send from the queue.
    pub(crate) fn next_ready(&mut self) -> Option<AssociationId> {
        loop {
            let id = self.ready.pop_front()?;
            if let Some(slot) = current(&mut self.slots, id) {
                slot.is_ready = false;
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
            let slot = current(&mut self.slots, id).filter(|s| s.scheduled == Some(at));
            let Some(slot) = slot else { continue };
            let next = slot.association.as_ref().and_then(|a| a.next_timeout());
            slot.scheduled = next.filter(|next| *next > now);
            match next {
                Some(next) if next <= now => return Some(id),
                Some(next) => self.timers.push(Reverse((next, id.slot, id.generation))),
                None => {}
            }
        }
    }
}

/// Associations with their identifiers and timeouts. The indexes by address, tag and source follow from the
/// associations.
impl Portable for Registry {
    fn write(&self, out: &mut ExportWriter) {
        let Self {
            slots,
            free,
            peers,
            sources,
            tags: _,
            all_tags,
            timers,
            ready,
            len: _,
            receive_room: _,
            buffer_changes: _,
            shard: _,
        } = self;
        peers.hash().write(out);
        slots.len().write(out);
        for slot in slots {
            slot.generation.write(out);
            slot.association.write(out);
            slot.scheduled.write(out);
            slot.source.map(|index| sources.source(index)).write(out);
        }
        free.write(out);
        all_tags.write(out);
        timers.clone().into_sorted_vec().write(out);
        ready.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let hash = KeyedHash::read(input)?;
        let read: Vec<AssociationSlotState> = Portable::read(input)?;
        let mut registry = Self {
            slots: Vec::with_capacity(read.len()),
            free: Portable::read(input)?,
            peers: PeerIndex::new(hash.clone()),
            sources: SourceTable::new(hash),
            tags: BTreeMap::new(),
            all_tags: Portable::read(input)?,
            timers: Vec::read(input)?.into(),
            ready: Portable::read(input)?,
            len: 0,
            receive_room: None,
            buffer_changes: None,
            shard: None,
        };
        for (state, number) in read.into_iter().zip(0..) {
            registry.restore(state, number)?;
        }
        registry.check_queues()?;
        registry.rebuild_indexes();
        Ok(registry)
    }
}

/// Exported part of a [`AssociationSlot`].
struct AssociationSlotState {
    generation: u32,
    association: Option<Box<Association>>,
    scheduled: Option<Time>,
    source: Option<SourceKey>,
}

portable_struct! { AssociationSlotState { generation, association, scheduled, source } }

impl Registry {
    /// Adds the next slot of an import.
    fn restore(&mut self, state: AssociationSlotState, number: u32) -> Result<(), ImportError> {
        let AssociationSlotState {
            generation,
            association,
            scheduled,
            source,
        } = state;
        let id = AssociationId {
            slot: number,
            generation,
        };
        let mut slot = AssociationSlot {
            generation,
            scheduled,
            ..AssociationSlot::default()
        };
        if let Some(association) = association {
            let (Some(source), true) = (source, association.id() == id) else {
                return Err(ImportError::Malformed("identifier of an association"));
            };
            let index = self.sources.add(source, association.was_accepted());
            slot.charged = association.receive_memory();
            self.sources.update_received(index, 0, slot.charged);
            slot.source = Some(index);
            slot.association = Some(association);
            self.len += 1;
        }
        self.slots.push(slot);
        Ok(())
    }

    /// Checks the free identifiers and the queue of associations that may have packets to send, and marks the latter.
    fn check_queues(&mut self) -> Result<(), ImportError> {
        let mut free = self.free.clone();
        free.sort_unstable();
        free.dedup();
        let is_free = |number: &u32| {
            let slot = self.slots.get(*number as usize);
            slot.is_some_and(|slot| slot.association.is_none())
        };
        if free.len() != self.free.len() || !free.iter().all(is_free) {
            return Err(ImportError::Malformed("free identifiers"));
        }
        for id in &self.ready {
            let waiting = current(&mut self.slots, *id);
            if waiting.is_some_and(|slot| core::mem::replace(&mut slot.is_ready, true)) {
                return Err(ImportError::Malformed("associations to send"));
            }
        }
        Ok(())
    }

    /// Rebuilds the indexes by address and tag.
    fn rebuild_indexes(&mut self) {
        let ids: Vec<AssociationId> = self.ids().collect();
        // Unconfirmed addresses first: fewer of them may share an address and port.
        for confirmed in [false, true] {
            for id in &ids {
                self.index_again(*id, |entry| entry.confirmed == confirmed);
            }
        }
        for id in ids {
            self.index_tag(id);
        }
    }

    /// Adds an association that has not ended to the index, under the addresses that `wanted` selects.
    fn index_again(&mut self, id: AssociationId, wanted: impl Fn(&PeerEntry) -> bool) {
        let slot = &mut self.slots[id.slot as usize];
        let is_open = |association: &mut Box<Association>| !association.state().is_closed();
        if let Some(association) = slot.association.take_if(is_open) {
            self.index(&association, wanted);
            self.slots[id.slot as usize].association = Some(association);
        }
    }
}
