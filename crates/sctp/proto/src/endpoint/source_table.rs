//! Table of the sources of peers: number of associations that peers initiated from each source, and
//! bytes of received data that these hold.
//!
//! The table has one entry for each source with an association, so the number of associations bounds it.
#![expect(
    clippy::disallowed_types,
    reason = "the map of sources is used by key only, never iterated"
)]

use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv6Addr};

use hashbrown::HashMap;

use super::registry::KeyedHash;
use crate::rx::MIN_RECEIVE;

/// Source of packets, by which limits are shared: an IPv4 address, or the /64 network of an IPv6 address,
/// since one host may use all addresses of a /64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SourceKey(IpAddr);

/// Hashes one word, as an IPv6 source has 64 bits.
impl Hash for SourceKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0 {
            IpAddr::V4(a) => state.write_u32(a.to_bits()),
            IpAddr::V6(a) => state.write_u64((a.to_bits() >> 64) as u64),
        }
    }
}

portable_tuple! { SourceKey(value) }

impl SourceKey {
    /// Returns the source of packets from this address.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(v4) => IpAddr::V4(v4),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        })
    }
}

/// An IPv4 address, or an IPv6 /64 with its length.
impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}

/// Totals of the associations of one source.
#[derive(Clone, Copy, Debug)]
struct SourceTotals {
    source: SourceKey,
    associations: usize,
    /// Associations that the peers initiated.
    accepted: usize,
    /// Bytes of received data.
    received: usize,
}

/// Associations and their received data, by source.
///
/// All associations share one budget for received data. A source may hold at most as much as is still
/// free: a single source half of the budget, and n greedy sources 1/(n+1) each, which leaves 1/(n+1)
/// free. These are the dynamic thresholds of Choudhury and Hahne (1998) for queues that share the memory
/// of a switch; nothing is reserved or revoked.
#[derive(Debug)]
pub(super) struct SourceTable {
    map: HashMap<SourceKey, u32, KeyedHash>,
    entries: Vec<SourceTotals>,
    unused: Vec<u32>,
    received: usize,
}

/// Index of a source in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SourceIndex(u32);

impl SourceTable {
    pub(super) fn new(hash: KeyedHash) -> Self {
        Self {
            map: HashMap::with_hasher(hash),
            entries: Vec::new(),
            unused: Vec::new(),
            received: 0,
        }
    }

    /// Returns the number of associations that peers at this source have initiated.
    pub(super) fn accepted(&self, source: SourceKey) -> usize {
        let index = self.map.get(&source);
        index.map_or(0, |index| self.entries[*index as usize].accepted)
    }

    /// Returns the source with this index.
    pub(super) fn source(&self, index: SourceIndex) -> SourceKey {
        self.entries[index.0 as usize].source
    }

    /// Returns the bytes of received data of all associations.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    /// Adds an association; `accepted` if the peer initiated it.
    pub(super) fn add(&mut self, source: SourceKey, accepted: bool) -> SourceIndex {
        let new = SourceTotals {
            source,
            associations: 0,
            accepted: 0,
            received: 0,
        };
        let (entries, unused) = (&mut self.entries, &mut self.unused);
        let index = *self.map.entry(source).or_insert_with(|| {
            if let Some(index) = unused.pop() {
                entries[index as usize] = new;
                return index;
            }
            if entries.is_empty() {
                // Most endpoints of clients have one source.
                entries.reserve_exact(1);
            }
            entries.push(new);
            entries.len() as u32 - 1
        });
        let entry = &mut entries[index as usize];
        entry.associations += 1;
        entry.accepted += usize::from(accepted);
        SourceIndex(index)
    }

    /// Removes an association that holds no received data.
    pub(super) fn remove(&mut self, index: SourceIndex, accepted: bool) {
        let entry = &mut self.entries[index.0 as usize];
        entry.associations -= 1;
        entry.accepted -= usize::from(accepted);
        if entry.associations == 0 {
            self.map.remove(&entry.source);
            self.unused.push(index.0);
        }
    }

    /// Replaces the `before` bytes accounted for an association by `after` bytes.
    pub(super) fn update_received(&mut self, index: SourceIndex, before: usize, after: usize) {
        let entry = &mut self.entries[index.0 as usize];
        entry.received = entry.received - before + after;
        self.received = self.received - before + after;
    }

    /// Returns the limit in bytes for the received data of an association that holds `held` bytes. A source gets
    /// half of what is free beyond as much as it holds: the limit does not fall while a peer that has no
    /// other associations fills the window that was advertised to it.
    pub(super) fn limit(&self, index: SourceIndex, held: usize, budget: usize) -> usize {
        if self.received <= budget / 4 {
            // No source can be near its limit.
            return (budget / 2).max(MIN_RECEIVE);
        }
        let free = budget.saturating_sub(self.received);
        let room = free.saturating_sub(self.entries[index.0 as usize].received);
        (held + room / 2).max(MIN_RECEIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(host: u8) -> SourceKey {
        SourceKey::of(IpAddr::from([192, 0, 2, host]))
    }

    #[test]
    fn ipv6_network_is_one_source() {
        let of = |text: &str| SourceKey::of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn source_without_associations_has_no_entry() {
        let mut sources = SourceTable::new(KeyedHash::new(1, 2));
        for _ in 0..3 {
            let first = sources.add(source(1), true);
            assert_eq!(sources.add(source(1), false), first);
            assert_eq!(sources.accepted(source(1)), 1);
            sources.remove(first, true);
            assert_eq!(sources.accepted(source(1)), 0);
            sources.remove(first, false);
        }
        assert!(sources.map.is_empty());
        assert_eq!(sources.entries.len(), 1, "the entry is reused");
    }

    /// RFC 9260, section 6.2: a receiver should not shrink the window.
    #[test]
    fn an_advertised_limit_does_not_fall() {
        let mut sources = SourceTable::new(KeyedHash::new(1, 2));
        let index = sources.add(source(1), true);
        let budget = 1_000_000;
        for held in (0..500_000).step_by(1000) {
            assert_eq!(sources.limit(index, held, budget), 500_000, "{held}");
            sources.update_received(index, held, held + 1000);
        }
    }

    #[test]
    fn sources_share_the_budget() {
        let mut sources = SourceTable::new(KeyedHash::new(1, 2));
        let budget = 1_200_000;
        let mut held = [0; 3];
        let indexes = [1, 2, 3].map(|host| sources.add(source(host), true));
        let mut fill = |sources: &mut SourceTable, count: usize| {
            for _ in 0..20_000 {
                for (index, held) in indexes.iter().zip(&mut held).take(count) {
                    if *held < sources.limit(*index, *held, budget) {
                        sources.update_received(*index, *held, *held + 100);
                        *held += 100;
                    }
                }
            }
            held
        };
        let alone = fill(&mut sources, 1);
        assert!((590_000..=610_000).contains(&alone[0]), "{alone:?}");
        let two = fill(&mut sources, 2);
        assert!(two[1] >= 290_000, "half of what was left: {two:?}");
        let three = fill(&mut sources, 3);
        assert!(three[2] >= 140_000, "{three:?}");
        assert!(sources.received() <= budget);
        // A source that holds nothing can always receive its next packets.
        let last = sources.add(source(4), true);
        assert!(sources.limit(last, 0, 0) >= MIN_RECEIVE);
    }
}
