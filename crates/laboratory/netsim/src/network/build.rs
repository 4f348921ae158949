//! Construction of a network.

use std::collections::{BTreeSet, VecDeque};

use core::net::IpAddr;

use super::route::{ExplicitRoute, HostRouting, Prefix, Routes};
use super::{Interface, Network, NodeKind, NodeState};
use crate::capture::Captures;
use crate::error::ConfigError;
use crate::event::EventQueue;
use crate::ids::{Direction, HalfId, InterfaceId, LinkId, NodeId};
use crate::link::{LinkConfig, OneWayLink};
use crate::node::{Node, Outbox};
use crate::rng::Random;
use crate::stats::NodeStats;
use crate::time::Time;

/// Builder of a [`Network`].
///
/// Its methods do not fail; [`Self::build`] reports the first invalid part.
pub struct NetworkBuilder {
    seed: u64,
    nodes: Vec<NodeState>,
    interfaces: Vec<Interface>,
    one_way_links: Vec<OneWayLink>,
    error: Option<ConfigError>,
}

impl NetworkBuilder {
    /// Returns an empty network whose random numbers are all derived from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            nodes: Vec::new(),
            interfaces: Vec::new(),
            one_way_links: Vec::new(),
            error: None,
        }
    }

    /// Adds a host: it runs a program and does not forward.
    pub fn add_host(&mut self, name: impl Into<String>) -> NodeId {
        self.add_node(name.into(), NodeKind::Host)
    }

    /// Adds a router: it forwards, and may run a program that inspects the forwarded packets.
    pub fn add_router(&mut self, name: impl Into<String>) -> NodeId {
        self.add_node(name.into(), NodeKind::Router)
    }

    fn add_node(&mut self, name: String, kind: NodeKind) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(NodeState {
            name,
            kind,
            program: None,
            interfaces: Vec::new(),
            routes: Vec::new(),
            routing: HostRouting::default(),
            armed: None,
            stalls: 0,
            stats: NodeStats::default(),
        });
        id
    }

    /// Adds an interface with these addresses. A router needs no addresses to forward, but without
    /// any it has no source address for ICMP messages.
    ///
    /// An address on an interface without a link is reachable over all links of its node, like an
    /// address on a loopback device.
    pub fn add_interface(
        &mut self,
        node: NodeId,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> InterfaceId {
        let id = InterfaceId(self.interfaces.len() as u32);
        let state = &mut self.nodes[node.index()];
        let name = format!("{}-{}", state.name, state.interfaces.len());
        state.interfaces.push(id);
        let addresses = addresses.into_iter().collect();
        self.interfaces.push(Interface::new(node, name, addresses));
        id
    }

    /// Connects two interfaces. `forward` configures the direction from `a` to `b`.
    pub fn connect(
        &mut self,
        a: InterfaceId,
        b: InterfaceId,
        forward: LinkConfig,
        backward: LinkConfig,
    ) -> LinkId {
        let link = LinkId((self.one_way_links.len() / 2) as u32);
        if a == b {
            self.fail(ConfigError::SelfLink(self.name_of(a)));
        }
        let directions = [
            (Direction::Forward, a, b, forward),
            (Direction::Backward, b, a, backward),
        ];
        for (direction, from, to, config) in directions {
            if let Err(error) = config.validate() {
                self.fail(error);
            }
            let half = HalfId::new(link, direction);
            if self.interfaces[from.index()].outgoing.is_some() {
                self.fail(ConfigError::AlreadyConnected(self.name_of(from)));
            }
            self.interfaces[from.index()].outgoing = Some(half);
            let random = Random::for_half(self.seed, half);
            self.one_way_links
                .push(OneWayLink::new(from, to, config, random));
        }
        link
    }

    /// Connects two interfaces by a link with the same configuration in both directions.
    pub fn connect_both(&mut self, a: InterfaceId, b: InterfaceId, config: LinkConfig) -> LinkId {
        self.connect(a, b, config.clone(), config)
    }

    /// Adds a route: `node` sends packets for `prefix` out of its interface `via`.
    ///
    /// These routes take precedence over automatic ones of any prefix length. Among them the
    /// longest prefix wins, then the one added first.
    pub fn add_route(&mut self, node: NodeId, prefix: Prefix, via: InterfaceId) {
        self.push_route(node, prefix, None, via);
    }

    /// Adds a route for packets from `source` only (see [`Self::add_route`]). It takes precedence
    /// over a route of the same prefix length without a source.
    pub fn add_source_route(
        &mut self,
        node: NodeId,
        source: IpAddr,
        prefix: Prefix,
        via: InterfaceId,
    ) {
        self.push_route(node, prefix, Some(source), via);
    }

    fn push_route(
        &mut self,
        node: NodeId,
        prefix: Prefix,
        source: Option<IpAddr>,
        via: InterfaceId,
    ) {
        let route = ExplicitRoute {
            prefix,
            source,
            via,
        };
        let owner = self.interfaces[via.index()].node;
        let state = &mut self.nodes[node.index()];
        let name = &self.interfaces[via.index()].name;
        if let Err(error) = state.add_route(route, owner == node, name) {
            self.fail(error);
        }
    }

    /// Sets how a host selects the interface by which a packet leaves. Default:
    /// [`HostRouting::ByDestination`].
    pub fn set_routing(&mut self, host: NodeId, routing: HostRouting) {
        self.nodes[host.index()].routing = routing;
    }

    /// Sets the program of a node, in place of an earlier one.
    pub fn set_node_program(&mut self, node: NodeId, program: Box<dyn Node>) {
        self.nodes[node.index()].program = Some(program);
    }

    /// Returns the random numbers for the program of a node; see [`Network::node_random`].
    pub fn node_random(&self, node: NodeId) -> Random {
        Random::for_node(self.seed, node)
    }

    /// Builds the network at [`Time::ZERO`], with routes to every address by the fewest hops.
    ///
    /// # Errors
    /// The first invalid part, or an address that two interfaces have.
    pub fn build(mut self) -> Result<Network, ConfigError> {
        let mut seen = BTreeSet::new();
        for address in self.interfaces.iter().flat_map(|i| &i.addresses) {
            if !seen.insert(*address) {
                self.error
                    .get_or_insert(ConfigError::DuplicateAddress(*address));
            }
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut network = Network {
            seed: self.seed,
            now: Time::ZERO,
            nodes: self.nodes,
            interfaces: self.interfaces,
            one_way_links: self.one_way_links,
            routes: Routes::default(),
            events: EventQueue::default(),
            outbox: Outbox::new(),
            loopback: VecDeque::new(),
            schedule: Vec::new(),
            tracer: None,
            captures: Captures::default(),
        };
        network.routes.observe_links(&network.one_way_links);
        network.compute_routes();
        network.routes_changed();
        for node in 0..network.nodes.len() {
            network.wake(NodeId(node as u32));
        }
        Ok(network)
    }

    fn fail(&mut self, error: ConfigError) {
        self.error.get_or_insert(error);
    }

    fn name_of(&self, interface: InterfaceId) -> String {
        self.interfaces[interface.index()].name.clone()
    }
}

impl std::fmt::Debug for NetworkBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetworkBuilder")
            .field("seed", &self.seed)
            .field("nodes", &self.nodes.len())
            .field("links", &(self.one_way_links.len() / 2))
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}
