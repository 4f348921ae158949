//! Routes: explicit ones by prefix, and automatic ones by the fewest hops.
//!
//! Automatic routes lead to the link of the interface that has the address, as with subnets: an
//! address of a multi-homed host is not reachable through another of its interfaces. They are
//! computed when addresses change, and take a failed link into account only after
//! `Change::Reroute`, so that by default a failure is left to the transport protocol. An interface
//! that is down has no routes on its own node, at once.

use std::cmp::Reverse;
use std::collections::VecDeque;

use core::net::IpAddr;

use super::{Interface, Network, NodeKind, NodeState};
use crate::error::ConfigError;
use crate::ids::{HalfId, InterfaceId, NodeId};
use crate::link::OneWayLink;

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// Any address of the prefix; bits beyond the length are ignored.
    pub address: IpAddr,
    /// Number of leading bits: at most 32 for IPv4, 128 for IPv6. 0 is a default route.
    pub length: u8,
}

impl Prefix {
    /// Returns the prefix of the first `length` bits of `address`.
    pub const fn new(address: IpAddr, length: u8) -> Self {
        Self { address, length }
    }

    /// Returns the prefix that contains only `address`.
    pub const fn host(address: IpAddr) -> Self {
        let length = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        Self { address, length }
    }

    /// Returns whether the prefix contains `address`. A prefix of one IP version contains no
    /// address of the other.
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
    /// Sort key: routes with precedence come first.
    fn rank(&self) -> (Reverse<u8>, bool) {
        (Reverse(self.prefix.length), self.source.is_none())
    }

    fn matches(&self, source: Option<IpAddr>, destination: IpAddr) -> bool {
        self.prefix.contains(destination) && (self.source.is_none() || self.source == source)
    }
}

impl NodeState {
    /// Adds a route over `interface`, which must be the node's own (`is_own`).
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
        // The sort is stable: of equal routes, the one added first stays first.
        self.routes.sort_by_key(ExplicitRoute::rank);
        Ok(())
    }
}

/// Selection of the interface by which a packet of a host leaves.
///
/// In any case a host accepts packets for all its addresses at every interface (the weak model of
/// RFC 1122, section 3.3.4.2), and an interface that is down has no routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostRouting {
    /// The route to the destination decides, whatever the source address is: the routing table of a
    /// host without rules.
    #[default]
    ByDestination,
    /// Among the interfaces over which the destination is reachable, the one that has the source
    /// address is preferred. If there is none, the destination decides.
    PreferSource,
    /// Policy routing: the interface that has the source address, if the destination is reachable
    /// over it; otherwise there is no route.
    BySource,
}

/// Source addresses by the routes of a host at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTable {
    /// Destinations with a route, sorted, and the source that the host selects.
    sources: Vec<(IpAddr, IpAddr)>,
}

impl RouteTable {
    /// Returns the address from which the host sends to `destination` if its program selects none;
    /// `None` without a route.
    pub fn source(&self, destination: IpAddr) -> Option<IpAddr> {
        let found = self
            .sources
            .binary_search_by_key(&destination, |(to, _)| *to);
        found.ok().map(|position| self.sources[position].1)
    }
}

/// Next hop of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextHop {
    /// Delivered to the node itself, at this interface.
    Local(InterfaceId),
    /// Sent out of this interface.
    Via(InterfaceId),
    Unreachable,
}

/// An address as a sort key: IPv6 or not, and its bits.
type PrefixKey = (bool, u128);

fn key(address: IpAddr) -> PrefixKey {
    match address {
        IpAddr::V4(v4) => (false, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (true, v6.to_bits()),
    }
}

fn address((v6, bits): PrefixKey) -> IpAddr {
    if v6 {
        IpAddr::V6(bits.into())
    } else {
        IpAddr::V4((bits as u32).into())
    }
}

/// Returns the address of the same IP version with the longest common prefix, the first one of
/// several.
fn nearest(addresses: &[IpAddr], destination: IpAddr) -> Option<IpAddr> {
    let same_version = addresses
        .iter()
        .filter(|a| a.is_ipv4() == destination.is_ipv4());
    let common = |address: &IpAddr| (key(*address).1 ^ key(destination).1).leading_zeros();
    same_version
        .rev()
        .max_by_key(|address| common(address))
        .copied()
}

/// The automatic routes.
#[derive(Default)]
pub(super) struct Routes {
    /// All addresses with their interfaces, sorted by address.
    owners: Vec<(PrefixKey, InterfaceId)>,
    /// By node and position in `owners`: the outgoing interfaces, best first; routers have at most
    /// one.
    next_hops: Vec<Vec<Vec<InterfaceId>>>,
    /// State of each half at the last computation: true if up.
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

    pub(super) fn observe_links(&mut self, one_way_links: &[OneWayLink]) {
        self.seen_up = one_way_links.iter().map(OneWayLink::is_up).collect();
    }

    pub(super) fn compute(
        &mut self,
        nodes: &[NodeState],
        interfaces: &[Interface],
        one_way_links: &[OneWayLink],
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
            one_way_links,
            seen_up: &self.seen_up,
        };
        self.next_hops = vec![Vec::with_capacity(self.owners.len()); nodes.len()];
        for (_, target) in &self.owners {
            let distances = graph.distances(*target);
            for (node, next_hops) in (0..).map(NodeId).zip(&mut self.next_hops) {
                next_hops.push(graph.next_hops(node, *target, &distances));
            }
        }
    }
}

struct Graph<'a> {
    nodes: &'a [NodeState],
    interfaces: &'a [Interface],
    one_way_links: &'a [OneWayLink],
    seen_up: &'a [bool],
}

impl Graph<'_> {
    /// Returns the interface at the other end of the link, if there is one that was up at the last
    /// computation.
    fn peer(&self, interface: InterfaceId) -> Option<InterfaceId> {
        let half: HalfId = self.interfaces[interface.index()].outgoing?;
        self.seen_up[half.index()].then(|| self.one_way_links[half.index()].to)
    }

    fn node_of(&self, interface: InterfaceId) -> NodeId {
        self.interfaces[interface.index()].node
    }

    fn is_router(&self, node: NodeId) -> bool {
        self.nodes[node.index()].kind == NodeKind::Router
    }

    /// Returns whether `target` is reachable over every link of its node: a router accepts packets
    /// for all its addresses on every link, and an address on an interface without a link belongs
    /// to no link.
    fn anywhere(&self, target: InterfaceId) -> bool {
        self.is_router(self.node_of(target)) || self.interfaces[target.index()].outgoing.is_none()
    }

    /// Computes the number of hops from each node to `target`.
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

    /// Returns the interfaces of `node` that lead to `target`, best first.
    fn next_hops(
        &self,
        node: NodeId,
        target: InterfaceId,
        distances: &[Option<u32>],
    ) -> Vec<InterfaceId> {
        let owner = self.node_of(target);
        if node == owner {
            return Vec::new();
        }
        let mut next_hops: Vec<(u32, InterfaceId)> = Vec::new();
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
                next_hops.push((distance, *interface));
            }
        }
        next_hops.sort_unstable();
        if self.is_router(node) {
            // A longer path from a router may lead back to it.
            next_hops.truncate(1);
        }
        next_hops
            .into_iter()
            .map(|(_, interface)| interface)
            .collect()
    }
}

impl Network {
    /// Returns the next hop of a packet from `source` to `destination` at `node`.
    pub(super) fn resolve(&self, node: NodeId, source: IpAddr, destination: IpAddr) -> NextHop {
        self.next_hop(node, Some(source), destination)
    }

    /// Returns the next hop of a packet whose source is not selected yet if it is `None`: rules by
    /// source do not apply then.
    fn next_hop(&self, node: NodeId, source: Option<IpAddr>, destination: IpAddr) -> NextHop {
        let state = &self.nodes[node.index()];
        let position = self.routes.position(destination);
        if let Some(position) = position {
            let owner = self.routes.owners[position].1;
            if self.node_of(owner) == node {
                return NextHop::Local(owner);
            }
        }
        let mut explicit = state.routes.iter();
        if let Some(route) = explicit
            .find(|route| route.matches(source, destination) && self.is_interface_up(route.via))
        {
            return NextHop::Via(route.via);
        }
        let Some(position) = position else {
            return NextHop::Unreachable;
        };
        let next_hops = self.routes.next_hops[node.index()][position].iter();
        let mut next_hops = next_hops.copied().filter(|via| self.is_interface_up(*via));
        let by_source = |source| {
            let owner = self.routes.owner(source)?;
            next_hops.clone().find(|via| *via == owner)
        };
        let via = match (state.routing, source) {
            (HostRouting::ByDestination, _) | (_, None) => next_hops.next(),
            (HostRouting::PreferSource, Some(source)) => {
                by_source(source).or_else(|| next_hops.next())
            }
            (HostRouting::BySource, Some(source)) => by_source(source),
        };
        via.map_or(NextHop::Unreachable, NextHop::Via)
    }

    /// Returns the address from which `node` sends to `destination` if its program selects none, as
    /// its routes select it; `None` without a route, or without an address of this IP version.
    pub fn selected_source(&self, node: NodeId, destination: IpAddr) -> Option<IpAddr> {
        let NextHop::Via(via) = self.next_hop(node, None, destination) else {
            return None;
        };
        let mut all = self.nodes[node.index()].interfaces.iter();
        nearest(self.addresses(via), destination)
            .or_else(|| all.find_map(|interface| nearest(self.addresses(*interface), destination)))
    }

    /// Returns the source addresses of `node` by its routes of now.
    pub(super) fn route_table(&self, node: NodeId) -> RouteTable {
        let destinations = self.routes.owners.iter().map(|(key, _)| address(*key));
        let sources = destinations.filter_map(|destination| {
            Some((destination, self.selected_source(node, destination)?))
        });
        RouteTable {
            sources: sources.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn prefixes_match_by_their_leading_bits() {
        let prefix = Prefix::new(address("10.1.2.3"), 16);
        assert!(prefix.contains(address("10.1.255.0")));
        assert!(!prefix.contains(address("10.2.0.0")));
        assert!(!prefix.contains(address("::")));
        assert!(Prefix::new(address("::"), 0).contains(address("2001:db8::1")));
        assert!(!Prefix::host(address("10.0.0.1")).contains(address("10.0.0.0")));
        assert!(Prefix::new(address("10.0.0.0"), 33).validate().is_err());
    }
}
