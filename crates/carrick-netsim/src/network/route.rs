//! Routes: explicit ones by prefix, and automatic ones by the fewest hops.
//!
//! Automatic routes lead to the link of the interface that has the address, as subnets do: an
//! address of a multi-homed host is not reachable through another of its interfaces. They are
//! computed when addresses change, and see a broken link only when told to (`Change::Reroute`), so
//! that a failure is the transport's to handle unless a scenario says otherwise.

use std::cmp::Reverse;
use std::collections::VecDeque;

use core::net::IpAddr;

use super::{Interface, Kind, Network, NodeState};
use crate::error::ConfigError;
use crate::ids::{HalfId, InterfaceId, NodeId};
use crate::link::Half;

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// Any address of the prefix; bits beyond the length don't matter.
    pub address: IpAddr,
    /// How many leading bits count: at most 32 for IPv4, 128 for IPv6. 0 is a default route.
    pub length: u8,
}

impl Prefix {
    /// The first `length` bits of `address`.
    pub const fn new(address: IpAddr, length: u8) -> Self {
        Self { address, length }
    }

    /// Only `address`.
    pub const fn host(address: IpAddr) -> Self {
        let length = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        Self { address, length }
    }

    /// Whether `address` lies in the prefix. Prefixes of one IP version contain no address of the
    /// other.
    pub fn contains(&self, address: IpAddr) -> bool {
        let length = u32::from(self.length);
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= length,
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= length,
            _ => false,
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if self.length > Self::host(self.address).length {
            return Err(ConfigError::PrefixLength {
                address: self.address,
                length: self.length,
            });
        }
        Ok(())
    }
}

pub(super) struct ExplicitRoute {
    pub(super) prefix: Prefix,
    pub(super) source: Option<IpAddr>,
    pub(super) via: InterfaceId,
}

impl ExplicitRoute {
    /// Sorts the route that wins to the front.
    fn rank(&self) -> (Reverse<u8>, bool) {
        (Reverse(self.prefix.length), self.source.is_none())
    }

    fn matches(&self, source: IpAddr, destination: IpAddr) -> bool {
        self.prefix.contains(destination) && self.source.is_none_or(|only| only == source)
    }
}

impl NodeState {
    /// Adds a route over `interface`, which `is_own` or another node's.
    pub(super) fn add_route(
        &mut self,
        route: ExplicitRoute,
        is_own: bool,
        interface: &str,
    ) -> Result<(), ConfigError> {
        route.prefix.validate()?;
        if !is_own {
            return Err(ConfigError::ForeignInterface {
                node: self.name.clone(),
                interface: interface.to_owned(),
            });
        }
        self.routes.push(route);
        // Stable: of equals, the one given first stays first.
        self.routes.sort_by_key(ExplicitRoute::rank);
        Ok(())
    }
}

/// Where a packet goes from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    /// To the node itself, at this interface.
    Local(InterfaceId),
    /// Out of this interface.
    Via(InterfaceId),
    Unreachable,
}

/// An address as a number, in the order of addresses: whether it is IPv6, and its bits.
type Key = (bool, u128);

fn key(address: IpAddr) -> Key {
    match address {
        IpAddr::V4(v4) => (false, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (true, v6.to_bits()),
    }
}

/// The automatic routes.
#[derive(Default)]
pub(super) struct Routes {
    /// All addresses, sorted, with their interfaces.
    owners: Vec<(Key, InterfaceId)>,
    /// By node and position in `owners`: the ways out, best first; one at most on routers.
    ways: Vec<Vec<Vec<InterfaceId>>>,
    /// Whether each half was up when routing last looked.
    seen_up: Vec<bool>,
}

impl Routes {
    fn position(&self, address: IpAddr) -> Option<usize> {
        let wanted = key(address);
        let found = self.owners.binary_search_by_key(&wanted, |(key, _)| *key);
        found.ok()
    }

    pub(super) fn owner(&self, address: IpAddr) -> Option<InterfaceId> {
        self.position(address)
            .map(|position| self.owners[position].1)
    }

    pub(super) fn observe_links(&mut self, halves: &[Half]) {
        self.seen_up = halves.iter().map(Half::is_up).collect();
    }

    pub(super) fn compute(
        &mut self,
        nodes: &[NodeState],
        interfaces: &[Interface],
        halves: &[Half],
    ) {
        let all = interfaces.iter().zip(0..);
        self.owners = all
            .flat_map(|(interface, id)| {
                let addresses = interface.addresses.iter();
                addresses.map(move |address| (key(*address), InterfaceId(id)))
            })
            .collect();
        self.owners.sort_unstable();
        let graph = Graph {
            nodes,
            interfaces,
            halves,
            seen_up: &self.seen_up,
        };
        self.ways = vec![Vec::with_capacity(self.owners.len()); nodes.len()];
        for (_, target) in &self.owners {
            let distances = graph.distances(*target);
            for (node, ways) in (0..).map(NodeId).zip(&mut self.ways) {
                ways.push(graph.ways(node, *target, &distances));
            }
        }
    }
}

struct Graph<'a> {
    nodes: &'a [NodeState],
    interfaces: &'a [Interface],
    halves: &'a [Half],
    seen_up: &'a [bool],
}

impl Graph<'_> {
    /// The interface at the other end of the link, if there is a link that routing thinks is up.
    fn peer(&self, interface: InterfaceId) -> Option<InterfaceId> {
        let half: HalfId = self.interfaces[interface.index()].outgoing?;
        self.seen_up[half.index()].then(|| self.halves[half.index()].to)
    }

    fn node_of(&self, interface: InterfaceId) -> NodeId {
        self.interfaces[interface.index()].node
    }

    fn is_router(&self, node: NodeId) -> bool {
        self.nodes[node.index()].kind == Kind::Router
    }

    /// Whether `target` is reached by whatever link of its node: a router takes packets for all its
    /// addresses everywhere, and an address without a link has no link of its own.
    fn anywhere(&self, target: InterfaceId) -> bool {
        self.is_router(self.node_of(target)) || self.interfaces[target.index()].outgoing.is_none()
    }

    /// Hops from each node to `target`.
    fn distances(&self, target: InterfaceId) -> Vec<Option<u32>> {
        let owner = self.node_of(target);
        let mut distances = vec![None; self.nodes.len()];
        let mut open = VecDeque::new();
        distances[owner.index()] = Some(0);
        if self.anywhere(target) {
            open.push_back((owner, 0));
        } else if let Some(peer) = self.peer(target) {
            let neighbour = self.node_of(peer);
            distances[neighbour.index()] = Some(1);
            open.push_back((neighbour, 1));
        }
        while let Some((node, distance)) = open.pop_front() {
            if node != owner && !self.is_router(node) {
                continue;
            }
            for interface in &self.nodes[node.index()].interfaces {
                let Some(peer) = self.peer(*interface) else {
                    continue;
                };
                let neighbour = self.node_of(peer);
                if distances[neighbour.index()].is_none() {
                    distances[neighbour.index()] = Some(distance + 1);
                    open.push_back((neighbour, distance + 1));
                }
            }
        }
        distances
    }

    /// The interfaces of `node` that lead to `target`, best first.
    fn ways(
        &self,
        node: NodeId,
        target: InterfaceId,
        distances: &[Option<u32>],
    ) -> Vec<InterfaceId> {
        let owner = self.node_of(target);
        if node == owner {
            return Vec::new();
        }
        let mut ways: Vec<(u32, InterfaceId)> = Vec::new();
        for interface in &self.nodes[node.index()].interfaces {
            let Some(peer) = self.peer(*interface) else {
                continue;
            };
            let next = self.node_of(peer);
            let usable = if next == owner {
                peer == target || self.anywhere(target)
            } else {
                self.is_router(next)
            };
            if let (true, Some(distance)) = (usable, distances[next.index()]) {
                ways.push((distance, *interface));
            }
        }
        ways.sort_unstable();
        if self.is_router(node) {
            // A longer way from a router may lead back to it.
            ways.truncate(1);
        }
        ways.into_iter().map(|(_, interface)| interface).collect()
    }
}

impl Network {
    /// Where a packet from `source` to `destination` goes from `node`.
    pub(super) fn resolve(&self, node: NodeId, source: IpAddr, destination: IpAddr) -> Hop {
        let state = &self.nodes[node.index()];
        let position = self.routes.position(destination);
        if let Some(position) = position {
            let owner = self.routes.owners[position].1;
            if self.node_of(owner) == node {
                return Hop::Local(owner);
            }
        }
        if let Some(route) = state
            .routes
            .iter()
            .find(|route| route.matches(source, destination))
        {
            return Hop::Via(route.via);
        }
        let Some(position) = position else {
            return Hop::Unreachable;
        };
        let ways = &self.routes.ways[node.index()][position];
        if state.source_routing
            && let Some(owner) = self.routes.owner(source)
            && ways.contains(&owner)
        {
            return Hop::Via(owner);
        }
        ways.first().map_or(Hop::Unreachable, |way| Hop::Via(*way))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn prefixes_contain_by_their_leading_bits() {
        let prefix = Prefix::new(address("10.1.2.3"), 16);
        assert!(prefix.contains(address("10.1.255.0")));
        assert!(!prefix.contains(address("10.2.0.0")));
        assert!(!prefix.contains(address("::")));
        assert!(Prefix::new(address("::"), 0).contains(address("2001:db8::1")));
        assert!(!Prefix::host(address("10.0.0.1")).contains(address("10.0.0.0")));
        assert!(Prefix::new(address("10.0.0.0"), 33).validate().is_err());
    }
}
