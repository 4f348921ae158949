//! The endpoint's own addresses, and which of them a peer knows.
//!
//! A peer learns them in INIT or INIT ACK (RFC 9260 section 5.1.2) and takes packets from any other
//! address for out of the blue, so an association uses none that came later.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::net::IpAddr;

/// The moment at which a peer was told the addresses, as the number of changes before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Told(pub(crate) u32);

/// Local addresses with the moment at which each came.
#[derive(Debug)]
pub(crate) struct LocalAddresses {
    list: Vec<IpAddr>,
    since: Vec<Told>,
    latest: Told,
    changes: u32,
}

impl LocalAddresses {
    pub(crate) fn new(list: Vec<IpAddr>) -> Self {
        Self {
            since: list.iter().map(|_| Told::default()).collect(),
            latest: Told::default(),
            changes: 0,
            list,
        }
    }

    /// All that there are now.
    pub(crate) fn all(&self) -> &[IpAddr] {
        &self.list
    }

    /// How many addresses came or went.
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }

    /// What a peer is told now.
    pub(crate) fn latest(&self) -> Told {
        self.latest
    }

    /// Those of them that a peer knows which was told then.
    pub(crate) fn told(&self, told: Told) -> Cow<'_, [IpAddr]> {
        if told == self.latest {
            return Cow::Borrowed(&self.list);
        }
        let known = self.list.iter().zip(&self.since);
        known
            .filter(|(_, since)| **since <= told)
            .map(|(address, _)| *address)
            .collect()
    }

    /// An address is new, also if it was here before.
    pub(crate) fn add(&mut self, address: IpAddr) {
        if !self.list.contains(&address) {
            self.changes = self.changes.wrapping_add(1);
            self.latest.0 = self.latest.0.saturating_add(1);
            self.list.push(address);
            self.since.push(self.latest);
        }
    }

    pub(crate) fn remove(&mut self, address: IpAddr) {
        if let Some(position) = self.list.iter().position(|a| *a == address) {
            self.changes = self.changes.wrapping_add(1);
            self.list.remove(position);
            self.since.remove(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_came_later_is_not_known() {
        let [a, b] = [1, 2].map(|host| IpAddr::from([10, 0, 0, host]));
        let mut addresses = LocalAddresses::new(alloc::vec![a]);
        let before = addresses.latest();
        addresses.add(b);
        assert_eq!(*addresses.told(before), [a]);
        assert_eq!(*addresses.told(addresses.latest()), [a, b]);
        addresses.remove(a);
        addresses.add(a);
        assert_eq!(addresses.all(), [b, a]);
        assert!(
            addresses.told(before).is_empty(),
            "it is not sure that it is the same"
        );
    }
}
