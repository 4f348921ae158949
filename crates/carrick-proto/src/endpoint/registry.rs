//! All associations of an endpoint: found by their identifier, by the peer's addresses and port,
//! and by the time of their next timeout.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hash::BuildHasher;
use core::net::IpAddr;

use carrick_wire::VerificationTag;
use siphasher::sip::SipHasher13;

use super::peers::{Member, Peers};
use super::sources::{Source, Sources};
use crate::association::{Association, AssociationId};
use crate::random::Random;
use crate::time::Time;

/// A hash keyed from the endpoint's seed, so that peers can't choose colliding addresses.
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

/// Describes an association at one of its peer's addresses. An address without a path is on plain IP.
fn member(association: &Association, remote: IpAddr) -> Member {
    Member {
        tag: association.local_tag,
        way: association.paths.encapsulation(remote).flatten(),
        slot: association.id.slot,
        confirmed: association.paths.is_confirmed(remote),
    }
}

/// An association at an address and port of its peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) id: AssociationId,
    /// The UDP port to which its packets to this address go; `None` on plain IP.
    pub(super) way: Option<u16>,
    /// The address is confirmed in the association (RFC 9260 section 5.4).
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
    peers: Peers,
    sources: Sources,
    /// By our tag and the peer's port: those with a protection, those of which an address could not
    /// be verified, and where they are wanted all.
    tags: BTreeMap<(u32, u16), AssociationId>,
    /// All associations are found by their tags, not only those with a protection.
    all_tags: bool,
    /// Earliest first. An association is in here with the time it was last scheduled for; when
    /// its timers moved to later it is put back when that time comes.
    timers: BinaryHeap<Reverse<(Time, u32, u32)>>,
    /// Associations that may have something to send.
    ready: VecDeque<AssociationId>,
    len: usize,
}

impl Registry {
    /// An empty one; `all_tags` where peers may name an association by its tag alone.
    pub(crate) fn new(random: &mut Random, all_tags: bool) -> Self {
        let hash = KeyedHash::new(random.u64(), random.u64());
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            peers: Peers::new(hash.clone()),
            sources: Sources::new(hash),
            tags: BTreeMap::new(),
            all_tags,
            timers: BinaryHeap::new(),
            ready: VecDeque::new(),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The identifier that the next association gets.
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

    /// Adds an association with a peer at this source; `accepted` if the peer has set it up.
    pub(super) fn insert(
        &mut self,
        mut association: Box<Association>,
        source: Source,
        accepted: bool,
    ) {
        let slot = association.id.slot;
        self.index(&association);
        association.source = Some(self.sources.add(source, accepted));
        self.slots[slot as usize].association = Some(association);
        self.len += 1;
    }

    /// Number of associations that peers at this source have set up.
    pub(super) fn accepted_from(&self, source: Source) -> usize {
        self.sources.accepted(source)
    }

    /// Bytes of received data of all associations.
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

    /// Counts what the received data of an association and the state of its streams take now.
    pub(crate) fn charge(&mut self, id: AssociationId) {
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
            self.sources.charge(source, before, held);
        }
    }

    /// Lists the association under the addresses of its peer, but for those whose verification failed
    /// (RFC 9260 section 5.4): packets from these have to find it by its tag.
    fn index(&mut self, association: &Association) {
        let slots = &self.slots;
        for remote in association.paths.remotes() {
            let key = (remote, association.peer_port);
            if association.paths.failed_verification(remote) {
                self.peers.remove(key, association.id.slot);
                continue;
            }
            let describe =
                |slot: u32| Some(member(slots[slot as usize].association.as_deref()?, remote));
            self.peers.add(key, member(association, remote), describe);
        }
    }

    fn unindex(&mut self, remotes: impl Iterator<Item = IpAddr>, port: u16, slot: u32) {
        for remote in remotes {
            self.peers.remove((remote, port), slot);
        }
    }

    /// The association's addresses changed.
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

    /// The association has ended: its addresses no longer lead to it.
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
        self.forget_tag(&association);
        self.slots[id.slot as usize].association = Some(association);
    }

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
            self.sources.charge(source, association.charged, 0);
            self.sources.remove(source, association.was_accepted());
        }
        self.unindex(association.paths.remotes(), association.peer_port, id.slot);
        self.forget_tag(&association);
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

    /// The association that a packet from this address and port, with this tag, may belong to. It
    /// came on `way`: the UDP port, or none on plain IP.
    pub(crate) fn find_tagged(
        &self,
        remote: IpAddr,
        port: u16,
        tag: VerificationTag,
        way: Option<u16>,
    ) -> Option<AssociationId> {
        let found = self.peers.tagged((remote, port), tag, way);
        found.map(|slot| self.id(slot))
    }

    /// The association in which this address is confirmed, if packets to it go this way. An address
    /// that a peer only listed identifies no association (RFC 5062 section 2.3).
    pub(crate) fn find_confirmed(
        &self,
        remote: IpAddr,
        port: u16,
        way: Option<u16>,
    ) -> Option<AssociationId> {
        self.sharing(remote, port)
            .find(|known| known.way == way && known.confirmed)
            .map(|known| known.id)
    }

    /// The association whose packets to this address and port go this way, and which sent a packet
    /// that is quoted: `has_tag` compares the verification tag in it.
    pub(crate) fn find_sender(
        &self,
        remote: IpAddr,
        port: u16,
        way: Option<u16>,
        has_tag: impl Fn(&Association) -> bool,
    ) -> Option<AssociationId> {
        self.sharing(remote, port)
            .find(|known| known.way == way && self.get(known.id).is_some_and(&has_tag))
            .map(|known| known.id)
    }

    /// All associations with a peer at this address and port.
    pub(super) fn sharing(&self, remote: IpAddr, port: u16) -> impl Iterator<Item = Known> + '_ {
        self.peers
            .all((remote, port))
            .filter_map(move |(slot, shared)| {
                let alone = || {
                    let association = self.slots[slot as usize].association.as_deref();
                    association.map(|a| member(a, remote))
                };
                let member = shared.or_else(alone)?;
                Some(Known {
                    id: self.id(slot),
                    way: member.way,
                    confirmed: member.confirmed,
                })
            })
    }

    /// There is an association with a peer at this address and port.
    pub(crate) fn is_known(&self, remote: IpAddr, port: u16) -> bool {
        self.peers.all((remote, port)).next().is_some()
    }

    /// As many associations as can be told apart have a peer at this address and port.
    pub(crate) fn is_full(&self, remote: IpAddr, port: u16) -> bool {
        self.peers.is_full((remote, port))
    }

    /// The association with this tag of ours and this port of the peer's, if it may be found so.
    pub(crate) fn find_by_tag(&self, tag: VerificationTag, port: u16) -> Option<AssociationId> {
        self.tags.get(&(tag.0, port)).copied()
    }

    /// The same of those with a protection.
    pub(crate) fn find_protected(&self, tag: VerificationTag, port: u16) -> Option<AssociationId> {
        let found = self.find_by_tag(tag, port);
        found.filter(|id| self.get(*id).is_some_and(|a| a.protection.is_some()))
    }

    /// The association is found by its tag from now on, if it is to be.
    fn note_tag(&mut self, id: AssociationId) {
        let all = self.all_tags;
        let Some(association) = self.get_mut(id) else {
            return;
        };
        let (tag, port) = (association.local_tag, association.peer_port);
        let wanted = all || association.protection.is_some() || association.found_by_tag;
        if !wanted || association.indexed == Some(tag) || association.state.is_closed() {
            return;
        }
        if let Some(old) = association.indexed.replace(tag) {
            self.drop_tag(old, port, id);
        }
        self.tags.insert((tag.0, port), id);
    }

    fn drop_tag(&mut self, tag: VerificationTag, port: u16, id: AssociationId) {
        if self.tags.get(&(tag.0, port)) == Some(&id) {
            self.tags.remove(&(tag.0, port));
        }
    }

    fn forget_tag(&mut self, association: &Association) {
        if let Some(tag) = association.indexed {
            self.drop_tag(tag, association.peer_port, association.id);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.slots
            .iter()
            .filter_map(|s| s.association.as_ref().map(|a| a.id))
    }

    /// Notes the association's next timeout, and that it may have something to send.
    pub(crate) fn touch(&mut self, id: AssociationId) {
        self.note_tag(id);
        self.schedule(id);
        self.list(id);
    }

    /// Notes that the association may have something to send.
    pub(crate) fn list(&mut self, id: AssociationId) {
        let Some(association) = self.get_mut(id) else {
            return;
        };
        if !core::mem::replace(&mut association.listed, true) {
            self.ready.push_back(id);
        }
    }

    /// Notes the association's next timeout.
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

    /// Drops the entries of associations that are gone and of timers that were set anew, before
    /// they outnumber the others.
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

    /// The next association that may have something to send; it is no longer listed.
    pub(crate) fn next_ready(&mut self) -> Option<AssociationId> {
        loop {
            let id = self.ready.pop_front()?;
            if let Some(association) = self.get_mut(id) {
                association.listed = false;
                return Some(id);
            }
        }
    }

    /// When the earliest timer expires. May be earlier than anything really due, never later.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// An association with a timer that has expired.
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
