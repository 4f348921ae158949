//! Where peers come from, and how many associations they have set up from there.
//!
//! The table has an entry for each source with an association, so that it is bounded by the number of
//! associations.
#![expect(
    clippy::disallowed_types,
    reason = "the map of sources is used by key only, never iterated"
)]

use core::net::{IpAddr, Ipv6Addr};

use hashbrown::HashMap;

use super::registry::KeyedHash;

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

/// Number of associations that peers set up, by their source.
#[derive(Debug)]
pub(super) struct Sources {
    map: HashMap<Source, usize, KeyedHash>,
}

impl Sources {
    pub(super) fn new(hash: KeyedHash) -> Self {
        Self {
            map: HashMap::with_hasher(hash),
        }
    }

    /// Number of associations of this source.
    pub(super) fn count(&self, source: Source) -> usize {
        self.map.get(&source).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, source: Source) {
        *self.map.entry(source).or_default() += 1;
    }

    pub(super) fn remove(&mut self, source: Source) {
        if let Some(count) = self.map.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.map.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let source = Source::of(IpAddr::from([192, 0, 2, 1]));
        sources.add(source);
        sources.add(source);
        sources.remove(source);
        assert_eq!(sources.count(source), 1);
        sources.remove(source);
        sources.remove(source);
        assert!(sources.map.is_empty());
    }
}
