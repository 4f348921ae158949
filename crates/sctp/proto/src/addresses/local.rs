//! The endpoint's own addresses, and which of them a peer knows.
//!
//! They are advertised in INIT or INIT ACK (RFC 9260 section 5.1.2). A packet from any other address is
//! out of the blue to the peer, so an association uses no address that was added later.

use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Removed addresses that are kept, for peers to which they were advertised in a set-up that is not
/// complete.
const MAX_REMOVED: usize = 64;

/// The version of the address list that was advertised to a peer: the number of changes before it. Also
/// identifies an address, by the version that it was added in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct AddressVersion(pub(crate) u32);

portable_tuple! { AddressVersion(value) }

/// Local addresses, each with the version in which it was added.
#[derive(Debug)]
pub(crate) struct LocalAddresses {
    list: Vec<IpAddr>,
    since: Vec<AddressVersion>,
    /// Version in which the last of them was added.
    last_added: AddressVersion,
    /// The last removed addresses, with the versions in which they were added and removed.
    removed: VecDeque<(IpAddr, AddressVersion, AddressVersion)>,
    latest: AddressVersion,
    changes: u32,
    /// Number of times that the routes of the host changed.
    route_changes: u32,
}

portable_struct! {
    LocalAddresses {
        list, since, last_added, removed, latest, changes, route_changes,
    }
}

impl LocalAddresses {
    pub(crate) fn new(list: Vec<IpAddr>) -> Self {
        Self {
            since: (1..).map(AddressVersion).take(list.len()).collect(),
            last_added: AddressVersion(list.len() as u32),
            removed: VecDeque::new(),
            latest: AddressVersion(list.len() as u32),
            changes: 0,
            route_changes: 0,
            list,
        }
    }

    /// The present addresses.
    pub(crate) fn all(&self) -> &[IpAddr] {
        &self.list
    }

    /// Number of addresses that were added or removed.
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }

    /// Changes whenever source selection may choose differently: with the addresses and the routes.
    pub(crate) fn source_version(&self) -> u32 {
        self.changes.wrapping_add(self.route_changes)
    }

    /// Counts a change of the host's routes.
    pub(crate) fn note_route_change(&mut self) {
        self.route_changes = self.route_changes.wrapping_add(1);
    }

    /// The present version.
    pub(crate) fn latest(&self) -> AddressVersion {
        self.latest
    }

    /// Present addresses that a peer knows to which this version was advertised.
    pub(crate) fn advertised(&self, version: AddressVersion) -> Cow<'_, [IpAddr]> {
        self.advertised_up_to(version, version)
    }

    /// Current local addresses known to a peer that was sent the addresses up to version `last`, including
    /// addresses that were removed and added again.
    pub(crate) fn advertised_up_to(
        &self,
        version: AddressVersion,
        last: AddressVersion,
    ) -> Cow<'_, [IpAddr]> {
        if last >= self.last_added {
            return Cow::Borrowed(&self.list);
        }
        let returned = |address: IpAddr| {
            let mut removed = self.removed.iter();
            removed.any(|(a, added, removed)| *a == address && *added <= last && version < *removed)
        };
        let all = self.list.iter().zip(&self.since);
        all.filter(|(address, since)| **since <= last || returned(**address))
            .map(|(address, _)| *address)
            .collect()
    }

    /// Addresses up to `last` that were removed since this version was advertised.
    pub(crate) fn removed_since(
        &self,
        version: AddressVersion,
        last: AddressVersion,
    ) -> impl Iterator<Item = IpAddr> + '_ {
        let known = move |(_, added, removed): &&(IpAddr, AddressVersion, AddressVersion)| {
            *added <= last && version < *removed
        };
        let removed = self.removed.iter().filter(known).map(|r| r.0);
        removed.filter(|address| !self.list.contains(address))
    }

    /// Version in which this address was added.
    pub(crate) fn since(&self, address: IpAddr) -> Option<AddressVersion> {
        let mut all = self.list.iter().zip(&self.since);
        all.find(|(a, _)| **a == address).map(|(_, since)| *since)
    }

    /// Adds an address, which is new to the peers of later set-ups also if it was present before.
    pub(crate) fn add(&mut self, address: IpAddr) {
        if !self.list.contains(&address) {
            self.changes = self.changes.wrapping_add(1);
            self.latest.0 = self.latest.0.saturating_add(1);
            self.last_added = self.latest;
            self.list.push(address);
            self.since.push(self.latest);
        }
    }

    pub(crate) fn remove(&mut self, address: IpAddr) {
        if let Some(position) = self.list.iter().position(|a| *a == address) {
            self.changes = self.changes.wrapping_add(1);
            self.latest.0 = self.latest.0.saturating_add(1);
            self.list.remove(position);
            let added = self.since.remove(position);
            if self.removed.len() == MAX_REMOVED {
                self.removed.pop_front();
            }
            self.removed.push_back((address, added, self.latest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_address_is_unknown_to_the_peer() {
        let [a, b] = [1, 2].map(|host| IpAddr::from([10, 0, 0, host]));
        let mut addresses = LocalAddresses::new(alloc::vec![a]);
        let before = addresses.latest();
        addresses.add(b);
        assert_eq!(*addresses.advertised(before), [a]);
        assert_eq!(*addresses.advertised(addresses.latest()), [a, b]);
        addresses.remove(a);
        addresses.add(a);
        assert_eq!(addresses.all(), [b, a]);
        assert_eq!(
            *addresses.advertised(before),
            [a],
            "the peer still lists it"
        );
    }

    #[test]
    fn returned_address_is_known_to_earlier_peers() {
        let [a, b] = [1, 2].map(|host| IpAddr::from([10, 0, 0, host]));
        let mut addresses = LocalAddresses::new(alloc::vec![a, b]);
        let before = addresses.latest();
        addresses.remove(a);
        let between = addresses.latest();
        addresses.add(a);
        let after = addresses.latest();
        assert_eq!(*addresses.advertised(before), [b, a]);
        assert_eq!(*addresses.advertised(between), [b]);
        // The last one of the INIT ACK came before the other one returned.
        let last = addresses.since(b).expect("present");
        assert_eq!(*addresses.advertised_up_to(after, last), [b]);
        assert_eq!(*addresses.advertised_up_to(before, last), [b, a]);
    }

    #[test]
    fn removed_address_is_known_to_earlier_peers() {
        let [a, b, c] = [1, 2, 3].map(|host| IpAddr::from([10, 0, 0, host]));
        let removed = |all: &LocalAddresses, version| -> Vec<IpAddr> {
            all.removed_since(version, version).collect()
        };
        let mut addresses = LocalAddresses::new(alloc::vec![a, b]);
        let before = addresses.latest();
        addresses.remove(a);
        let between = addresses.latest();
        addresses.add(c);
        let after = addresses.latest();
        addresses.remove(c);
        let known = [before, between, after].map(|version| removed(&addresses, version));
        assert_eq!(known, [alloc::vec![a], alloc::vec![], alloc::vec![c]]);
        addresses.add(a);
        assert!(removed(&addresses, before).is_empty(), "it has returned");
        for host in 0..200 {
            let address = [10, 0, 1, host].into();
            addresses.add(address);
            addresses.remove(address);
        }
        assert_eq!(addresses.removed.len(), MAX_REMOVED);
    }

    #[test]
    fn addresses_up_to_the_last_advertised_are_known() {
        let all = [1, 2, 3, 4].map(|host| IpAddr::from([10, 0, 0, host]));
        let mut addresses = LocalAddresses::new(all.to_vec());
        let third = addresses.since(all[2]).expect("the address is in the list");
        assert_eq!(*addresses.advertised(third), all[..3]);
        addresses.remove(all[1]);
        assert_eq!(*addresses.advertised(third), [all[0], all[2]]);
        addresses.remove(all[2]);
        addresses.add(all[1]);
        assert_eq!(
            *addresses.advertised(third),
            [all[0], all[1]],
            "one returned"
        );
        assert_eq!(addresses.since(all[2]), None);
    }
}
