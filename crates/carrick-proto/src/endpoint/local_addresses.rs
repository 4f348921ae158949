//! The endpoint's own addresses, and which of them a peer knows.
//!
//! A peer learns them in INIT or INIT ACK (RFC 9260 section 5.1.2) and takes packets from any other
//! address for out of the blue, so an association uses none that came later.

use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Addresses that went are remembered, so many of them, for peers that were told of them in a set-up
/// which goes on.
const MAX_GONE: usize = 64;

/// The moment at which a peer was told the addresses, as the number of addresses that had come or gone
/// before it; or which of them was the last that it was told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Told(pub(crate) u32);

/// Local addresses with the moment at which each came.
#[derive(Debug)]
pub(crate) struct LocalAddresses {
    list: Vec<IpAddr>,
    since: Vec<Told>,
    /// When the last of them came.
    came: Told,
    /// Those that went last, with the moments at which they came and went.
    gone: VecDeque<(IpAddr, Told, Told)>,
    latest: Told,
    changes: u32,
    /// Number of times that the routes of the host changed.
    route_changes: u32,
}

impl LocalAddresses {
    pub(crate) fn new(list: Vec<IpAddr>) -> Self {
        Self {
            since: (1..).map(Told).take(list.len()).collect(),
            came: Told(list.len() as u32),
            gone: VecDeque::new(),
            latest: Told(list.len() as u32),
            changes: 0,
            route_changes: 0,
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

    /// Changes whenever source selection may choose differently: with the addresses and the routes.
    pub(crate) fn source_version(&self) -> u32 {
        self.changes.wrapping_add(self.route_changes)
    }

    /// The routes of the host changed.
    pub(crate) fn note_route_change(&mut self) {
        self.route_changes = self.route_changes.wrapping_add(1);
    }

    /// What a peer is told now.
    pub(crate) fn latest(&self) -> Told {
        self.latest
    }

    /// Those of them that a peer knows which was told then.
    pub(crate) fn told(&self, told: Told) -> Cow<'_, [IpAddr]> {
        self.known_up_to(told, told)
    }

    /// The same for a peer to which only those up to `last` were advertised. The peer still lists an
    /// address that was removed since and has returned.
    pub(crate) fn known_up_to(&self, told: Told, last: Told) -> Cow<'_, [IpAddr]> {
        if last >= self.came {
            return Cow::Borrowed(&self.list);
        }
        let returned = |address: IpAddr| {
            let mut gone = self.gone.iter();
            gone.any(|(a, came, went)| *a == address && *came <= last && told < *went)
        };
        let all = self.list.iter().zip(&self.since);
        all.filter(|(address, since)| **since <= last || returned(**address))
            .map(|(address, _)| *address)
            .collect()
    }

    /// Addresses that have gone since a peer was told of them; it knows those up to this last one.
    pub(crate) fn gone(&self, told: Told, last: Told) -> impl Iterator<Item = IpAddr> + '_ {
        let known = move |(_, came, went): &&(IpAddr, Told, Told)| *came <= last && told < *went;
        let gone = self.gone.iter().filter(known).map(|gone| gone.0);
        gone.filter(|address| !self.list.contains(address))
    }

    /// The moment at which this one had just come.
    pub(crate) fn since(&self, address: IpAddr) -> Option<Told> {
        let mut all = self.list.iter().zip(&self.since);
        all.find(|(a, _)| **a == address).map(|(_, since)| *since)
    }

    /// An address is new to the peers of later set-ups, also if it was here before.
    pub(crate) fn add(&mut self, address: IpAddr) {
        if !self.list.contains(&address) {
            self.changes = self.changes.wrapping_add(1);
            self.latest.0 = self.latest.0.saturating_add(1);
            self.came = self.latest;
            self.list.push(address);
            self.since.push(self.latest);
        }
    }

    pub(crate) fn remove(&mut self, address: IpAddr) {
        if let Some(position) = self.list.iter().position(|a| *a == address) {
            self.changes = self.changes.wrapping_add(1);
            self.latest.0 = self.latest.0.saturating_add(1);
            self.list.remove(position);
            let came = self.since.remove(position);
            if self.gone.len() == MAX_GONE {
                self.gone.pop_front();
            }
            self.gone.push_back((address, came, self.latest));
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
        assert_eq!(*addresses.told(before), [a], "the peer still lists it");
    }

    #[test]
    fn a_returned_address_is_known_to_earlier_peers() {
        let [a, b] = [1, 2].map(|host| IpAddr::from([10, 0, 0, host]));
        let mut addresses = LocalAddresses::new(alloc::vec![a, b]);
        let before = addresses.latest();
        addresses.remove(a);
        let between = addresses.latest();
        addresses.add(a);
        let after = addresses.latest();
        assert_eq!(*addresses.told(before), [b, a]);
        assert_eq!(*addresses.told(between), [b]);
        // The last one of the INIT ACK came before the other one returned.
        let last = addresses.since(b).expect("present");
        assert_eq!(*addresses.known_up_to(after, last), [b]);
        assert_eq!(*addresses.known_up_to(before, last), [b, a]);
    }

    #[test]
    fn one_that_went_is_known_to_who_was_told_while_it_was_here() {
        let [a, b, c] = [1, 2, 3].map(|host| IpAddr::from([10, 0, 0, host]));
        let gone = |all: &LocalAddresses, told| -> Vec<IpAddr> { all.gone(told, told).collect() };
        let mut addresses = LocalAddresses::new(alloc::vec![a, b]);
        let before = addresses.latest();
        addresses.remove(a);
        let between = addresses.latest();
        addresses.add(c);
        let after = addresses.latest();
        addresses.remove(c);
        let known = [before, between, after].map(|told| gone(&addresses, told));
        assert_eq!(known, [alloc::vec![a], alloc::vec![], alloc::vec![c]]);
        addresses.add(a);
        assert!(gone(&addresses, before).is_empty(), "it has returned");
        for host in 0..200 {
            let address = [10, 0, 1, host].into();
            addresses.add(address);
            addresses.remove(address);
        }
        assert_eq!(addresses.gone.len(), MAX_GONE);
    }

    #[test]
    fn the_last_one_that_was_told_is_known_with_those_before_it() {
        let all = [1, 2, 3, 4].map(|host| IpAddr::from([10, 0, 0, host]));
        let mut addresses = LocalAddresses::new(all.to_vec());
        let third = addresses.since(all[2]).expect("it is here");
        assert_eq!(*addresses.told(third), all[..3]);
        addresses.remove(all[1]);
        assert_eq!(*addresses.told(third), [all[0], all[2]]);
        addresses.remove(all[2]);
        addresses.add(all[1]);
        assert_eq!(*addresses.told(third), [all[0], all[1]], "one returned");
        assert_eq!(addresses.since(all[2]), None);
    }
}
