//! The network: its parts, access to them, and changes while it runs.

mod build;
mod forward;
mod interface;
mod route;
mod run;

use std::any::Any;
use std::collections::VecDeque;
use std::io::{self, Write};

use core::net::IpAddr;

pub use build::NetworkBuilder;
pub use route::{HostRouting, Prefix, RouteTable};

use crate::capture::Captures;
use crate::error::ConfigError;
use crate::event::{Event, EventQueue};
use crate::ids::{Direction, HalfId, InterfaceId, LinkId, NodeId};
use crate::link::OneWayLink;
use crate::node::{Node, Outbox};
use crate::packet::Packet;
use crate::rng::Random;
use crate::schedule::{Change, InputRule, Neighbor};
use crate::stats::{LinkStats, NodeStats};
use crate::time::Time;
use crate::trace::{TraceEvent, Tracer};

use interface::Resolution;
use route::{ExplicitRoute, Routes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKind {
    Host,
    Router,
}

struct NodeState {
    name: String,
    kind: NodeKind,
    program: Option<Box<dyn Node>>,
    interfaces: Vec<InterfaceId>,
    routes: Vec<ExplicitRoute>,
    routing: HostRouting,
    /// Timeout for which the event queue has an event.
    armed: Option<Time>,
    /// Consecutive timeouts after which the program requested no later time.
    stalls: u32,
    stats: NodeStats,
}

struct Interface {
    node: NodeId,
    name: String,
    addresses: Vec<IpAddr>,
    outgoing: Option<HalfId>,
    /// The interface is up; a link that is down is separate.
    up: bool,
    neighbor: Neighbor,
    input: InputRule,
    /// Resolution of the neighbour in progress.
    resolution: Option<Resolution>,
}

impl Interface {
    fn new(node: NodeId, name: String, addresses: Vec<IpAddr>) -> Self {
        Self {
            node,
            name,
            addresses,
            outgoing: None,
            up: true,
            neighbor: Neighbor::Reachable,
            input: InputRule::Accept,
            resolution: None,
        }
    }
}

/// A network in virtual time.
///
/// The network advances only in calls ([`Self::run_until`], [`Self::step`]). The same seed, parts
/// and calls produce the same packets at the same nanoseconds.
pub struct Network {
    seed: u64,
    now: Time,
    nodes: Vec<NodeState>,
    interfaces: Vec<Interface>,
    one_way_links: Vec<OneWayLink>,
    routes: Routes,
    events: EventQueue,
    outbox: Outbox,
    loopback: VecDeque<(NodeId, InterfaceId, Packet)>,
    schedule: Vec<Change>,
    tracer: Option<Tracer>,
    captures: Captures,
}

impl Network {
    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the seed from which all random numbers are derived.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the random numbers for the program of a node, independent of all links and other
    /// nodes. They are the same at each call.
    pub fn node_random(&self, node: NodeId) -> Random {
        Random::for_node(self.seed, node)
    }

    /// Returns all nodes in the order of creation.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// Returns all links in the order of creation.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.one_way_links.len() as u32 / 2).map(LinkId)
    }

    /// Returns the name of a node.
    pub fn node_name(&self, node: NodeId) -> &str {
        &self.nodes[node.index()].name
    }

    /// Returns the name of an interface: its node's name, a hyphen and its number in the node.
    pub fn interface_name(&self, interface: InterfaceId) -> &str {
        &self.interfaces[interface.index()].name
    }

    /// Returns the interfaces of a node in the order of creation.
    pub fn interfaces(&self, node: NodeId) -> &[InterfaceId] {
        &self.nodes[node.index()].interfaces
    }

    /// Returns the node of an interface.
    pub fn node_of(&self, interface: InterfaceId) -> NodeId {
        self.interfaces[interface.index()].node
    }

    /// Returns the addresses of an interface in the order of assignment.
    pub fn addresses(&self, interface: InterfaceId) -> &[IpAddr] {
        &self.interfaces[interface.index()].addresses
    }

    /// Returns the interface that has this address.
    pub fn owner(&self, address: IpAddr) -> Option<InterfaceId> {
        self.routes.owner(address)
    }

    /// Returns the interface from which `node` sends to `destination`, or `None` if there is no
    /// route or the address is the node's own.
    pub fn route(&self, node: NodeId, source: IpAddr, destination: IpAddr) -> Option<InterfaceId> {
        match self.resolve(node, source, destination) {
            route::NextHop::Via(interface) => Some(interface),
            route::NextHop::Local(_) | route::NextHop::Unreachable => None,
        }
    }

    /// Returns the interfaces at both ends of a link; forward is from the first to the second.
    pub fn link_ends(&self, link: LinkId) -> [InterfaceId; 2] {
        [Direction::Forward, Direction::Backward].map(|way| self.one_way_link(link, way).from)
    }

    /// Returns the counters of one direction of a link.
    pub fn link_stats(&self, link: LinkId, direction: Direction) -> LinkStats {
        self.one_way_link(link, direction).stats()
    }

    /// Returns the packets and bytes that wait for the transmitter of one direction of a link.
    pub fn queue_length(&self, link: LinkId, direction: Direction) -> (usize, usize) {
        self.one_way_link(link, direction).waiting()
    }

    /// Returns the configuration of one direction of a link.
    pub fn link_config(&self, link: LinkId, direction: Direction) -> &crate::LinkConfig {
        self.one_way_link(link, direction).config()
    }

    /// Returns whether a link is up.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.one_way_link(link, Direction::Forward).is_up()
    }

    /// Returns the counters of a node.
    pub fn node_stats(&self, node: NodeId) -> &NodeStats {
        &self.nodes[node.index()].stats
    }

    fn one_way_link(&self, link: LinkId, direction: Direction) -> &OneWayLink {
        &self.one_way_links[HalfId::new(link, direction).index()]
    }

    fn one_way_link_mut(&mut self, link: LinkId, direction: Direction) -> &mut OneWayLink {
        &mut self.one_way_links[HalfId::new(link, direction).index()]
    }

    /// Sets the program of a node, in place of an earlier one, and reads its first timeout.
    pub fn set_node_program(&mut self, node: NodeId, program: Box<dyn Node>) {
        self.nodes[node.index()].program = Some(program);
        self.provide_routes(node);
        self.wake(node);
    }

    /// Returns whether a node has a program of this type.
    pub fn runs<T: Node>(&self, node: NodeId) -> bool {
        let program = self.nodes[node.index()].program.as_deref();
        program.is_some_and(|program| (program as &dyn Any).is::<T>())
    }

    /// Returns the program of a node.
    ///
    /// # Panics
    /// If the node has no program of this type.
    #[track_caller]
    pub fn node<T: Node>(&self, node: NodeId) -> &T {
        let state = &self.nodes[node.index()];
        let program = state.program.as_deref().map(|program| program as &dyn Any);
        match program.and_then(|program| program.downcast_ref()) {
            Some(program) => program,
            None => wrong_program::<T>(&state.name),
        }
    }

    /// Returns the program of a node for modification. Packets that it queues because of the
    /// modification are sent at its next call; [`Self::with_node`] sends at once. If its next
    /// timeout changed, call [`Self::wake`].
    ///
    /// # Panics
    /// If the node has no program of this type.
    #[track_caller]
    pub fn node_mut<T: Node>(&mut self, node: NodeId) -> &mut T {
        let state = &mut self.nodes[node.index()];
        let program = state.program.as_deref_mut();
        match program.and_then(|program| (program as &mut dyn Any).downcast_mut()) {
            Some(program) => program,
            None => wrong_program::<T>(&state.name),
        }
    }

    /// Calls `f` with the program of a node, then sends the packets in the outbox and reads the
    /// program's next timeout.
    ///
    /// # Panics
    /// If the node has no program of this type.
    #[track_caller]
    pub fn with_node<T: Node, R>(
        &mut self,
        node: NodeId,
        f: impl FnOnce(&mut T, Time, &mut Outbox) -> R,
    ) -> R {
        let now = self.now;
        let mut outbox = std::mem::take(&mut self.outbox);
        let result = f(self.node_mut(node), now, &mut outbox);
        self.outbox = outbox;
        self.flush(node);
        result
    }

    /// Reads the next timeout of a node again, after its program was modified.
    pub fn wake(&mut self, node: NodeId) {
        self.arm_timeout(node);
    }

    /// Calls `tracer` for each packet that is sent, arrives or is dropped, in order.
    pub fn set_tracer(&mut self, tracer: impl FnMut(&TraceEvent<'_>) + 'static) {
        self.tracer = Some(Box::new(tracer));
    }

    /// Captures the packets of an interface from now on, in the pcapng format. A later write error
    /// ends the capture and is reported by [`Self::finish_captures`].
    ///
    /// # Errors
    /// Errors of the writer on the first bytes.
    pub fn capture(
        &mut self,
        interface: InterfaceId,
        writer: impl Write + 'static,
    ) -> io::Result<()> {
        self.capture_all(&[interface], writer)
    }

    /// Captures several interfaces in one file; see [`Self::capture`].
    ///
    /// # Errors
    /// Errors of the writer on the first bytes.
    pub fn capture_all(
        &mut self,
        interfaces: &[InterfaceId],
        writer: impl Write + 'static,
    ) -> io::Result<()> {
        let named = |id: &InterfaceId| (*id, self.interfaces[id.index()].name.as_str());
        let interfaces: Vec<_> = interfaces.iter().map(named).collect();
        self.captures.add(&interfaces, Box::new(writer))
    }

    /// Ends all captures and flushes them. Dropping the network does so, too, but cannot report
    /// errors.
    ///
    /// # Errors
    /// The first error of any capture.
    pub fn finish_captures(&mut self) -> io::Result<()> {
        self.captures.finish()
    }

    /// Schedules a change.
    ///
    /// # Errors
    /// If `time` has passed or a value of the change is out of its range. A change of addresses or
    /// routes that is not possible when it is due is skipped without an error.
    pub fn at(&mut self, time: Time, change: Change) -> Result<(), ConfigError> {
        if time < self.now {
            let now = self.now;
            return Err(ConfigError::InThePast { at: time, now });
        }
        change.validate()?;
        let number = self.schedule.len() as u32;
        self.schedule.push(change);
        self.events.push(time, Event::Change(number));
        Ok(())
    }

    /// Applies a change now.
    ///
    /// # Errors
    /// If a value is out of its range, an address to be added is in use, an address to be removed
    /// does not exist, or a route uses the interface of another node. The network is unchanged
    /// then.
    pub fn apply(&mut self, change: Change) -> Result<(), ConfigError> {
        change.validate()?;
        match change {
            Change::SetLink {
                link,
                direction,
                config,
            } => self.one_way_link_mut(link, direction).set_config(config),
            Change::SetLoss {
                link,
                direction,
                loss,
            } => self.one_way_link_mut(link, direction).set_loss(loss),
            Change::LinkDown(link) => self.set_link_state(link, false),
            Change::LinkUp(link) => self.set_link_state(link, true),
            Change::AddAddress { interface, address } => {
                if self.owner(address).is_some() {
                    return Err(ConfigError::DuplicateAddress(address));
                }
                self.interfaces[interface.index()].addresses.push(address);
                self.address_changed(interface, address, true);
            }
            Change::RemoveAddress { interface, address } => {
                if self.owner(address) != Some(interface) {
                    return Err(ConfigError::NoSuchAddress(address));
                }
                let addresses = &mut self.interfaces[interface.index()].addresses;
                addresses.retain(|present| *present != address);
                self.address_changed(interface, address, false);
            }
            Change::AddRoute {
                node,
                prefix,
                source,
                via,
            } => {
                let route = ExplicitRoute {
                    prefix,
                    source,
                    via,
                };
                let Interface {
                    node: owner, name, ..
                } = &self.interfaces[via.index()];
                self.nodes[node.index()].add_route(route, *owner == node, name)?;
                self.routes_changed();
            }
            Change::RemoveRoutes { node, prefix } => {
                let routes = &mut self.nodes[node.index()].routes;
                routes.retain(|route| route.prefix != prefix);
                self.routes_changed();
            }
            Change::InterfaceDown(interface) => self.set_interface_state(interface, false),
            Change::InterfaceUp(interface) => self.set_interface_state(interface, true),
            Change::SetNeighbor {
                interface,
                neighbor,
            } => self.set_neighbor(interface, neighbor),
            Change::SetInput { interface, input } => {
                self.interfaces[interface.index()].input = input;
            }
            Change::Reroute => {
                self.routes.observe_links(&self.one_way_links);
                self.compute_routes();
                self.routes_changed();
            }
        }
        Ok(())
    }

    fn set_link_state(&mut self, link: LinkId, up: bool) {
        if self.is_up(link) == up {
            return;
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let half = HalfId::new(link, direction);
            if up {
                self.one_way_links[half.index()].set_up();
            } else {
                let lost = self.one_way_links[half.index()].set_down(self.now);
                for packet in lost {
                    self.trace_link_drop(half, &packet, crate::DropReason::Down);
                }
            }
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let interface = self.one_way_link(link, direction).from;
            self.call(self.node_of(interface), |program, now, out| {
                program.handle_link_change(now, interface, up, out);
            });
        }
    }

    fn address_changed(&mut self, interface: InterfaceId, address: IpAddr, present: bool) {
        self.compute_routes();
        self.call(self.node_of(interface), |program, now, out| {
            program.handle_address_change(now, interface, address, present, out);
        });
        self.routes_changed();
    }

    /// Passes the routes of every host that follows them to its program.
    fn routes_changed(&mut self) {
        for node in 0..self.nodes.len() as u32 {
            self.provide_routes(NodeId(node));
        }
    }

    /// Passes the routes of a host to its program, if it follows them.
    fn provide_routes(&mut self, node: NodeId) {
        let program = self.nodes[node.index()].program.as_deref();
        if program.is_some_and(Node::follows_routes) {
            let routes = self.route_table(node);
            self.call(node, |program, now, out| {
                program.handle_route_change(now, routes, out);
            });
        }
    }

    fn compute_routes(&mut self) {
        self.routes
            .compute(&self.nodes, &self.interfaces, &self.one_way_links);
    }
}

#[track_caller]
fn wrong_program<T>(name: &str) -> ! {
    panic!(
        "{name} runs no program of type {}",
        std::any::type_name::<T>()
    )
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("seed", &self.seed)
            .field("now", &self.now)
            .field("nodes", &self.nodes.len())
            .field("links", &(self.one_way_links.len() / 2))
            .finish_non_exhaustive()
    }
}
