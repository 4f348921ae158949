//! Connections without an open session, by age and source.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use super::SessionId;
use crate::Time;

/// Source of connections: an IPv4 address, or the /64 network of an IPv6 address, which one host may
/// use entirely.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SourceNetwork(IpAddr);

impl SourceNetwork {
    /// Significant bits of an IPv6 address.
    const V6_BITS: u32 = 64;

    /// Returns the source of a connection from this address.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(v4) => IpAddr::V4(v4),
            IpAddr::V6(v6) => {
                let network = v6.to_bits() >> (128 - Self::V6_BITS) << (128 - Self::V6_BITS);
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
        })
    }
}

/// Half-open sessions by their deadline, which is the order of their age.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    all: BTreeSet<(Time, SessionId)>,
    by_source: BTreeMap<SourceNetwork, BTreeSet<(Time, SessionId)>>,
}

impl HalfOpen {
    /// Adds a half-open session; `source` is `None` if limits per address do not apply.
    pub(super) fn add(&mut self, deadline: Time, id: SessionId, source: Option<SourceNetwork>) {
        self.all.insert((deadline, id));
        if let Some(source) = source {
            self.by_source
                .entry(source)
                .or_default()
                .insert((deadline, id));
        }
    }

    pub(super) fn remove(&mut self, deadline: Time, id: SessionId, source: Option<SourceNetwork>) {
        self.all.remove(&(deadline, id));
        if let Some(source) = source
            && let Some(these) = self.by_source.get_mut(&source)
        {
            these.remove(&(deadline, id));
            if these.is_empty() {
                self.by_source.remove(&source);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn oldest(&self) -> Option<(Time, SessionId)> {
        self.all.first().copied()
    }

    /// Returns the oldest session of a source that has at least `most` of them.
    pub(super) fn oldest_of(&self, source: SourceNetwork, most: usize) -> Option<SessionId> {
        let these = self
            .by_source
            .get(&source)
            .filter(|these| these.len() >= most)?;
        these.first().map(|(_, id)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_network_is_one_source() {
        let of = |text: &str| SourceNetwork::of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
