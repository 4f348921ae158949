//! Where peers come from, how many associations they have set up from there, and how much received
//! data these hold.
//!
//! The table has an entry for each source with an association, so that it is bounded by the number of
//! associations.
#![expect(
    clippy::disallowed_types,
    reason = "the map of sources is used by key only, never iterated"
)]

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use hashbrown::HashMap;

use super::registry::KeyedHash;
use crate::recv::MIN_RECEIVE;

/// An IPv4 address, or the /64 network of an IPv6 address: one host may have all addresses of that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Source(IpAddr);

impl Source {
    /// Returns the source of packets from this address.
    pub(crate) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(v4) => IpAddr::V4(v4),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        })
    }
}

/// What the associations of one source have together.
#[derive(Clone, Copy, Debug)]
struct Entry {
    source: Source,
    associations: usize,
    /// Those that the peers have set up.
    accepted: usize,
    /// Bytes of their received data.
    received: usize,
}

/// Associations and their received data, by source.
///
/// The data of all associations has one budget. A source may hold as much of it as is still free: one
/// source alone half of the budget, and n sources that take all they can 1/(n+1) each, which is what is
/// left to the next. This is the rule of dynamic thresholds for queues that share the memory of a switch
/// (Choudhury and Hahne, 1998); nothing is reserved, and nothing has to be taken back.
#[derive(Debug)]
pub(super) struct Sources {
    map: HashMap<Source, u32, KeyedHash>,
    entries: Vec<Entry>,
    unused: Vec<u32>,
    received: usize,
}

/// The place of a source in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SourceIndex(u32);

impl Sources {
    pub(super) fn new(hash: KeyedHash) -> Self {
        Self {
            map: HashMap::with_hasher(hash),
            entries: Vec::new(),
            unused: Vec::new(),
            received: 0,
        }
    }

    /// Number of associations that peers at this source have set up.
    pub(super) fn accepted(&self, source: Source) -> usize {
        let index = self.map.get(&source);
        index.map_or(0, |index| self.entries[*index as usize].accepted)
    }

    /// Bytes of received data of all associations.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    /// Adds an association, which a peer has set up if `accepted`.
    pub(super) fn add(&mut self, source: Source, accepted: bool) -> SourceIndex {
        let new = Entry {
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

    /// Removes an association that holds no received data any more.
    pub(super) fn remove(&mut self, index: SourceIndex, accepted: bool) {
        let entry = &mut self.entries[index.0 as usize];
        entry.associations -= 1;
        entry.accepted -= usize::from(accepted);
        if entry.associations == 0 {
            self.map.remove(&entry.source);
            self.unused.push(index.0);
        }
    }

    /// The received data of an association took `before` bytes and takes `after` now.
    pub(super) fn charge(&mut self, index: SourceIndex, before: usize, after: usize) {
        let entry = &mut self.entries[index.0 as usize];
        entry.received = entry.received - before + after;
        self.received = self.received - before + after;
    }

    /// Bytes up to which the received data of an association may grow that holds `held` now.
    pub(super) fn limit(&self, index: SourceIndex, held: usize, budget: usize) -> usize {
        if self.received <= budget / 4 {
            // No source can be near its limit.
            return usize::MAX;
        }
        let free = budget.saturating_sub(self.received);
        let room = free.saturating_sub(self.entries[index.0 as usize].received);
        (held + room).max(MIN_RECEIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(host: u8) -> Source {
        Source::of(IpAddr::from([192, 0, 2, host]))
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn a_source_without_associations_has_no_entry() {
        let mut sources = Sources::new(KeyedHash::new(1, 2));
        for _ in 0..3 {
            let first = sources.add(source(1), true);
            assert_eq!(sources.add(source(1), false), first);
            assert_eq!(sources.accepted(source(1)), 1);
            sources.remove(first, true);
            assert_eq!(sources.accepted(source(1)), 0);
            sources.remove(first, false);
        }
        assert!(sources.map.is_empty());
        assert_eq!(sources.entries.len(), 1, "its place is used again");
    }

    #[test]
    fn sources_share_the_budget() {
        let mut sources = Sources::new(KeyedHash::new(1, 2));
        let budget = 1_200_000;
        let mut held = [0; 3];
        let indexes = [1, 2, 3].map(|host| sources.add(source(host), true));
        let mut fill = |sources: &mut Sources, count: usize| {
            for _ in 0..20_000 {
                for (index, held) in indexes.iter().zip(&mut held).take(count) {
                    if *held < sources.limit(*index, *held, budget) {
                        sources.charge(*index, *held, *held + 100);
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
        // A source that holds nothing always has its next packets.
        let last = sources.add(source(4), true);
        assert!(sources.limit(last, 0, 0) >= MIN_RECEIVE);
    }
}
