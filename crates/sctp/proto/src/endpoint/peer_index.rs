//! Index of associations by peer address and SCTP port. On plain IP one association has an address
//! and port; behind a translator several hosts share the address and may use the same SCTP port. The
//! verification tag of this side distinguishes their associations, or else the UDP port by which
//! they are reached (RFC 6951).
//!
//! An entry takes one word until a second association uses its address and port.
#![expect(
    clippy::disallowed_types,
    reason = "the map of peers is used by key only, never iterated"
)]

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::net::IpAddr;

use carrick_wire::VerificationTag;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::registry::KeyedHash;

/// Limit of associations at one address and port; further ones are refused.
const MAX_SHARING: usize = 1024;

/// Limit of associations at one address and port in which the address is not confirmed.
const MAX_UNCONFIRMED: usize = MAX_SHARING / 2;

/// Marks an index value as the number of a list in [`PeerIndex::shared`] instead of a slot.
const SHARED: u32 = 1 << 31;

/// Peer address and SCTP port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key(pub(super) IpAddr, pub(super) u16);

/// Hashes few words, since the index is read several times in a set-up.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0 {
            IpAddr::V4(a) => state.write_u64(u64::from(a.to_bits()) << 16 | u64::from(self.1)),
            IpAddr::V6(a) => {
                state.write(&a.octets());
                state.write_u16(self.1);
            }
        }
    }
}

/// Association at an address and port of its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PeerEntry {
    /// Local verification tag.
    pub(super) tag: VerificationTag,
    /// Destination UDP port of packets to this address; `None` on plain IP.
    pub(super) encapsulation: Option<u16>,
    pub(super) slot: u32,
    /// The address is confirmed in the association (RFC 9260, section 5.4).
    pub(super) confirmed: bool,
}

/// Index of associations by peer address and port.
#[derive(Debug)]
pub(super) struct PeerIndex {
    /// Slot of the only association, or number of a list with the mark [`SHARED`].
    map: HashMap<Key, u32, KeyedHash>,
    /// Associations that share an address and port, sorted by tag.
    shared: Vec<Vec<PeerEntry>>,
    /// Numbers of empty lists.
    unused: Vec<u32>,
}

impl PeerIndex {
    pub(super) fn new(hash: KeyedHash) -> Self {
        Self {
            map: HashMap::with_hasher(hash),
            shared: Vec::new(),
            unused: Vec::new(),
        }
    }

    /// Returns the hash function of the map.
    pub(super) fn hash(&self) -> &KeyedHash {
        self.map.hasher()
    }

    /// Returns the slot of the only association, or the associations that share the address and port.
    fn entry(&self, key: Key) -> (Option<u32>, &[PeerEntry]) {
        match self.map.get(&key) {
            None => (None, &[]),
            Some(&list) if list & SHARED != 0 => (None, &self.shared[(list & !SHARED) as usize]),
            Some(&slot) => (Some(slot), &[]),
        }
    }

    /// Returns the association to which a packet with this tag may belong: the one with this local tag,
    /// or else one with the same encapsulation, confirmed addresses first, or else any. The caller
    /// checks the tag of all but the first.
    pub(super) fn find(
        &self,
        key: Key,
        tag: VerificationTag,
        encapsulation: Option<u16>,
    ) -> Option<u32> {
        let (only, shared) = self.entry(key);
        if only.is_some() || shared.is_empty() {
            return only;
        }
        let found = shared.binary_search_by_key(&tag.0, |e| e.tag.0).ok();
        let encapsulated = |confirmed: bool| {
            let mut entries = shared.iter();
            entries.position(|e| e.encapsulation == encapsulation && e.confirmed == confirmed)
        };
        let found = found
            .or_else(|| encapsulated(true))
            .or_else(|| encapsulated(false));
        Some(shared[found.unwrap_or(0)].slot)
    }

    /// Returns the slots of all associations at this address and port, with their entries where
    /// several share it.
    pub(super) fn all(&self, key: Key) -> impl Iterator<Item = (u32, Option<PeerEntry>)> + '_ {
        let (only, shared) = self.entry(key);
        let only = only.map(|slot| (slot, None)).into_iter();
        only.chain(shared.iter().map(|e| (e.slot, Some(*e))))
    }

    /// Returns whether the limit of associations at this address and port is reached.
    pub(super) fn is_full(&self, key: Key) -> bool {
        self.entry(key).1.len() >= MAX_SHARING
    }

    /// Returns whether entries of this address and port may have been left out.
    pub(super) fn leaves_out(&self, key: Key) -> bool {
        self.entry(key).1.len() >= MAX_UNCONFIRMED
    }

    /// Returns whether any address and port has more than one association.
    #[cfg(test)]
    fn has_shared(&self) -> bool {
        self.shared.len() > self.unused.len()
    }

    /// Adds an association or replaces its entry. `describe` returns the entry of the association that
    /// had the address and port alone. Returns false if the entry was left out because of the limits.
    pub(super) fn add(
        &mut self,
        key: Key,
        added: PeerEntry,
        describe: impl FnOnce(u32) -> Option<PeerEntry>,
    ) -> bool {
        let value = self.map.entry(key).or_insert(added.slot);
        if *value & SHARED == 0 {
            if *value == added.slot {
                return true;
            }
            let Some(other) = describe(*value) else {
                *value = added.slot;
                return true;
            };
            let number = self.unused.pop().unwrap_or(self.shared.len() as u32);
            if number as usize == self.shared.len() {
                self.shared.push(Vec::new());
            }
            self.shared[number as usize].push(other);
            *value = number | SHARED;
        }
        let list = &mut self.shared[(*value & !SHARED) as usize];
        list.retain(|e| e.slot != added.slot);
        let limit = if added.confirmed {
            MAX_SHARING
        } else {
            MAX_UNCONFIRMED
        };
        if list.len() >= limit {
            return false;
        }
        let at = list.partition_point(|e| e.tag.0 <= added.tag.0);
        list.insert(at, added);
        true
    }

    /// Removes an association from an address and port.
    pub(super) fn remove(&mut self, key: Key, slot: u32) {
        let Entry::Occupied(mut found) = self.map.entry(key) else {
            return;
        };
        let value = *found.get();
        if value == slot {
            found.remove();
            return;
        }
        if value & SHARED == 0 {
            return;
        }
        let number = value & !SHARED;
        let list = &mut self.shared[number as usize];
        list.retain(|e| e.slot != slot);
        match list[..] {
            [] => drop(found.remove()),
            [last] => *found.get_mut() = last.slot,
            _ => return,
        }
        *list = Vec::new();
        self.unused.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key(IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1)), 5000);

    fn entry(slot: u32) -> PeerEntry {
        PeerEntry {
            // Different order than the slots.
            tag: VerificationTag(slot.wrapping_mul(0x9E37_79B9) | 1),
            encapsulation: Some(1000 + slot as u16),
            slot,
            confirmed: true,
        }
    }

    fn peers(count: u32) -> PeerIndex {
        let mut peers = PeerIndex::new(KeyedHash::new(1, 2));
        for slot in 0..count {
            peers.add(KEY, entry(slot), |other| Some(entry(other)));
        }
        peers
    }

    #[test]
    fn tag_then_encapsulation_selects_the_association() {
        let peers = peers(100);
        for slot in 0..100 {
            let PeerEntry {
                tag, encapsulation, ..
            } = entry(slot);
            assert_eq!(peers.find(KEY, tag, Some(7)), Some(slot));
            assert_eq!(
                peers.find(KEY, VerificationTag(2), encapsulation),
                Some(slot)
            );
        }
        assert_eq!(peers.all(KEY).count(), 100);
        assert_eq!(peers.find(Key(KEY.0, 1), entry(0).tag, None), None);
    }

    #[test]
    fn only_association_is_found_for_any_tag() {
        let mut peers = peers(2);
        peers.remove(KEY, 0);
        assert!(!peers.has_shared(), "the shared list is freed");
        assert_eq!(peers.find(KEY, VerificationTag(2), None), Some(1));
        peers.remove(KEY, 0);
        let found = peers.find(KEY, VerificationTag(2), None);
        assert_eq!(found, Some(1), "removal of an unknown slot has no effect");
        peers.remove(KEY, 1);
        assert_eq!(peers.all(KEY).count(), 0);
    }

    #[test]
    fn unconfirmed_addresses_have_a_lower_limit() {
        let mut peers = peers(MAX_UNCONFIRMED as u32);
        let add = |peers: &mut PeerIndex, slot, confirmed: bool| {
            let entry = PeerEntry {
                confirmed,
                ..entry(slot)
            };
            peers.add(KEY, entry, |_| None);
            peers.all(KEY).any(|(found, _)| found == slot)
        };
        assert!(!add(&mut peers, 5000, false));
        assert!(add(&mut peers, 5000, true));
        for slot in MAX_UNCONFIRMED as u32..MAX_SHARING as u32 - 1 {
            assert!(!peers.is_full(KEY));
            assert!(add(&mut peers, slot, true));
        }
        assert!(peers.is_full(KEY) && !add(&mut peers, 6000, true));
        assert!(add(&mut peers, 5000, true), "already listed");
    }

    #[test]
    fn changed_encapsulation_is_found() {
        let mut peers = peers(3);
        let changed = PeerEntry {
            encapsulation: None,
            ..entry(1)
        };
        peers.add(KEY, changed, |_| None);
        assert_eq!(peers.find(KEY, VerificationTag(2), None), Some(1));
        assert_eq!(peers.all(KEY).count(), 3);
    }

    #[test]
    fn confirmed_address_is_preferred() {
        let mut peers = peers(0);
        for slot in 0..20 {
            let entry = PeerEntry {
                encapsulation: None,
                confirmed: slot == 11,
                ..entry(slot)
            };
            peers.add(KEY, entry, |other| {
                Some(PeerEntry {
                    encapsulation: None,
                    confirmed: false,
                    ..self::entry(other)
                })
            });
        }
        assert_eq!(peers.find(KEY, VerificationTag(2), None), Some(11));
    }
}
