//! Which associations a peer address and SCTP port lead to. On plain IP that is one; behind a
//! translator several hosts share an address, and may have the same SCTP port. They are told apart
//! by this side's verification tag, and by the way that leads to them: their UDP port (RFC 6951).
//!
//! An entry costs one word until a second association comes to its address and port.
#![expect(
    clippy::disallowed_types,
    reason = "the map of peers is used by key only, never iterated"
)]

use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::VerificationTag;
use hashbrown::HashMap;

use super::registry::KeyedHash;

/// Associations that share an address and port at most; further ones are refused.
const MAX_SHARING: usize = 1024;

/// How many of them may have the address without having shown that it is theirs.
const MAX_CLAIMING: usize = MAX_SHARING / 2;

/// In an entry: the rest is the number of a crowd, not of a slot.
const CROWD: u32 = 1 << 31;

/// A peer's address and SCTP port.
pub(super) type Key = (IpAddr, u16);

/// One of several associations at the same address and port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Member {
    /// Our tag.
    pub(super) tag: VerificationTag,
    /// The UDP port to which its packets to this address go; `None` on plain IP.
    pub(super) way: Option<u16>,
    pub(super) slot: u32,
    /// The address is confirmed in the association (RFC 9260 section 5.4).
    pub(super) confirmed: bool,
}

#[derive(Debug)]
pub(super) struct Peers {
    map: HashMap<Key, u32, KeyedHash>,
    /// By their tags.
    crowds: Vec<Vec<Member>>,
    unused: Vec<u32>,
}

impl Peers {
    pub(super) fn new(hash: KeyedHash) -> Self {
        Self {
            map: HashMap::with_hasher(hash),
            crowds: Vec::new(),
            unused: Vec::new(),
        }
    }

    /// The only one, or those that share the address and port.
    fn entry(&self, key: Key) -> (Option<u32>, &[Member]) {
        match self.map.get(&key) {
            None => (None, &[]),
            Some(&crowd) if crowd & CROWD != 0 => (None, &self.crowds[(crowd & !CROWD) as usize]),
            Some(&slot) => (Some(slot), &[]),
        }
    }

    /// The one that a packet with this tag, on this way, may belong to: with our tag, or else on
    /// the same way, or else any; only the first has passed the tag check.
    pub(super) fn tagged(&self, key: Key, tag: VerificationTag, way: Option<u16>) -> Option<u32> {
        let (only, crowd) = self.entry(key);
        if only.is_some() || crowd.is_empty() {
            return only;
        }
        let found = crowd.binary_search_by_key(&tag.0, |m| m.tag.0).ok();
        let on_way = |confirmed: bool| {
            let mut members = crowd.iter();
            members.position(|m| m.way == way && m.confirmed == confirmed)
        };
        let found = found.or_else(|| on_way(true)).or_else(|| on_way(false));
        Some(crowd[found.unwrap_or(0)].slot)
    }

    /// All associations at this address and port; a member for those that share it with others.
    pub(super) fn all(&self, key: Key) -> impl Iterator<Item = (u32, Option<Member>)> + '_ {
        let (only, crowd) = self.entry(key);
        let only = only.map(|slot| (slot, None)).into_iter();
        only.chain(crowd.iter().map(|m| (m.slot, Some(*m))))
    }

    pub(super) fn is_full(&self, key: Key) -> bool {
        self.entry(key).1.len() >= MAX_SHARING
    }

    /// Whether any address and port has more than one association.
    #[cfg(test)]
    fn has_crowds(&self) -> bool {
        self.crowds.len() > self.unused.len()
    }

    /// Adds an association, or replaces its tag, way and confirmation. `describe` returns the member
    /// for the association that was alone at this address until now.
    pub(super) fn add(
        &mut self,
        key: Key,
        member: Member,
        describe: impl FnOnce(u32) -> Option<Member>,
    ) {
        let entry = self.map.entry(key).or_insert(member.slot);
        if *entry & CROWD == 0 {
            if *entry == member.slot {
                return;
            }
            let Some(other) = describe(*entry) else {
                *entry = member.slot;
                return;
            };
            let number = self.unused.pop().unwrap_or(self.crowds.len() as u32);
            if number as usize == self.crowds.len() {
                self.crowds.push(Vec::new());
            }
            self.crowds[number as usize].push(other);
            *entry = number | CROWD;
        }
        let crowd = &mut self.crowds[(*entry & !CROWD) as usize];
        crowd.retain(|m| m.slot != member.slot);
        let limit = if member.confirmed {
            MAX_SHARING
        } else {
            MAX_CLAIMING
        };
        if crowd.len() < limit {
            let at = crowd.partition_point(|m| m.tag.0 <= member.tag.0);
            crowd.insert(at, member);
        }
    }

    pub(super) fn remove(&mut self, key: Key, slot: u32) {
        let Some(entry) = self.map.get_mut(&key) else {
            return;
        };
        if *entry == slot {
            self.map.remove(&key);
            return;
        }
        if *entry & CROWD == 0 {
            return;
        }
        let number = *entry & !CROWD;
        let crowd = &mut self.crowds[number as usize];
        crowd.retain(|m| m.slot != slot);
        match crowd[..] {
            [] => drop(self.map.remove(&key)),
            [last] => *entry = last.slot,
            _ => return,
        }
        *crowd = Vec::new();
        self.unused.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = (IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1)), 5000);

    fn member(slot: u32) -> Member {
        Member {
            // Not in the order of the slots.
            tag: VerificationTag(slot.wrapping_mul(0x9E37_79B9) | 1),
            way: Some(1000 + slot as u16),
            slot,
            confirmed: true,
        }
    }

    fn peers(count: u32) -> Peers {
        let mut peers = Peers::new(KeyedHash::new(1, 2));
        for slot in 0..count {
            peers.add(KEY, member(slot), |other| Some(member(other)));
        }
        peers
    }

    #[test]
    fn those_that_share_an_address_are_told_apart_by_tag_and_then_by_way() {
        let peers = peers(100);
        for slot in 0..100 {
            let Member { tag, way, .. } = member(slot);
            assert_eq!(peers.tagged(KEY, tag, Some(7)), Some(slot));
            assert_eq!(peers.tagged(KEY, VerificationTag(2), way), Some(slot));
        }
        assert_eq!(peers.all(KEY).count(), 100);
        assert_eq!(peers.tagged((KEY.0, 1), member(0).tag, None), None);
    }

    #[test]
    fn one_alone_is_found_whatever_the_packet_says() {
        let mut peers = peers(2);
        peers.remove(KEY, 0);
        assert!(!peers.has_crowds(), "and costs no more than before");
        assert_eq!(peers.tagged(KEY, VerificationTag(2), None), Some(1));
        peers.remove(KEY, 0);
        let found = peers.tagged(KEY, VerificationTag(2), None);
        assert_eq!(found, Some(1), "removing another one is nothing");
        peers.remove(KEY, 1);
        assert_eq!(peers.all(KEY).count(), 0);
    }

    #[test]
    fn a_crowd_has_a_limit_and_a_lower_one_for_mere_claims() {
        let mut peers = peers(MAX_CLAIMING as u32);
        let claim = |peers: &mut Peers, slot, claimed: bool| {
            let member = Member {
                confirmed: !claimed,
                ..member(slot)
            };
            peers.add(KEY, member, |_| None);
            peers.all(KEY).any(|(found, _)| found == slot)
        };
        assert!(!claim(&mut peers, 5000, true));
        assert!(claim(&mut peers, 5000, false));
        for slot in MAX_CLAIMING as u32..MAX_SHARING as u32 - 1 {
            assert!(!peers.is_full(KEY));
            assert!(claim(&mut peers, slot, false));
        }
        assert!(peers.is_full(KEY) && !claim(&mut peers, 6000, false));
        assert!(claim(&mut peers, 5000, false), "it is one of them already");
    }

    #[test]
    fn a_way_that_changed_is_found() {
        let mut peers = peers(3);
        let changed = Member {
            way: None,
            ..member(1)
        };
        peers.add(KEY, changed, |_| None);
        assert_eq!(peers.tagged(KEY, VerificationTag(2), None), Some(1));
        assert_eq!(peers.all(KEY).count(), 3);
    }

    #[test]
    fn a_confirmed_address_precedes_claims() {
        let mut peers = peers(0);
        for slot in 0..20 {
            let member = Member {
                way: None,
                confirmed: slot == 11,
                ..member(slot)
            };
            peers.add(KEY, member, |other| {
                Some(Member {
                    way: None,
                    confirmed: false,
                    ..self::member(other)
                })
            });
        }
        assert_eq!(peers.tagged(KEY, VerificationTag(2), None), Some(11));
    }
}
