//! The programs of hosts and routers: what the simulator calls, and how they send.

use core::any::Any;
use core::net::IpAddr;

use crate::ids::InterfaceId;
use crate::packet::Packet;
use crate::time::Time;

/// A program on a host or a router: a protocol stack, a traffic source, a home agent.
///
/// The simulator calls one method at a time, then sends what the program put into the [`Outbox`]
/// and reads [`next_timeout`](Node::next_timeout) again. A program that a test changes from outside
/// through [`Network::node_mut`](crate::Network::node_mut) is not read again until
/// [`Network::wake`](crate::Network::wake); [`Network::with_node`](crate::Network::with_node) does both.
pub trait Node: Any {
    /// Takes a packet that arrived at `interface` for one of this node's addresses.
    fn handle_packet(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: Packet,
        out: &mut Outbox,
    );

    /// Does what is due; called when `now` has reached [`next_timeout`](Node::next_timeout).
    ///
    /// Afterwards the next timeout must lie ahead: a program that asks for the same moment for ever
    /// is stopped by a panic that names it.
    fn handle_timeout(&mut self, now: Time, out: &mut Outbox);

    /// When [`handle_timeout`](Node::handle_timeout) is to be called next.
    fn next_timeout(&self) -> Option<Time>;

    /// Looks at a packet that this node is about to forward, and may take it or replace it.
    ///
    /// Called on routers only, before the route is chosen, also for destinations that nobody owns:
    /// the place for tunnels, translators and filters. The default lets every packet pass.
    fn handle_transit(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: Packet,
        out: &mut Outbox,
    ) -> Option<Packet> {
        let _ = (now, interface, out);
        Some(packet)
    }

    /// Looks at an ICMP error that this node itself writes because a packet did not get on, and may take
    /// it, as a home agent does with one for a mobile node abroad.
    ///
    /// Called on routers only, before the route is chosen. The default lets every message pass.
    fn handle_own_error(&mut self, now: Time, error: Packet, out: &mut Outbox) -> Option<Packet> {
        let _ = (now, out);
        Some(error)
    }

    /// Learns that the link at `interface` went up or down. The default ignores it.
    fn handle_link_change(
        &mut self,
        now: Time,
        interface: InterfaceId,
        up: bool,
        out: &mut Outbox,
    ) {
        let _ = (now, interface, up, out);
    }

    /// Learns that `interface` gained (`present`) or lost an address. The default ignores it.
    fn handle_address_change(
        &mut self,
        now: Time,
        interface: InterfaceId,
        address: IpAddr,
        present: bool,
        out: &mut Outbox,
    ) {
        let _ = (now, interface, address, present, out);
    }
}

/// One packet on its way out of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The interface to leave by; without one the node's routes decide.
    pub interface: Option<InterfaceId>,
    /// The packet.
    pub packet: Packet,
}

/// Collects what a node sends during one call.
#[derive(Debug, Default)]
pub struct Outbox {
    packets: Vec<Outgoing>,
}

impl Outbox {
    /// An empty outbox. The simulator brings its own; this is for driving a [`Node`] without it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends `packet` by the node's routes. The source address is the sender's choice and stays.
    pub fn send(&mut self, packet: Packet) {
        self.packets.push(Outgoing {
            interface: None,
            packet,
        });
    }

    /// Sends `packet` out of `interface`, whatever the routes say. The interface must belong to
    /// the node; otherwise the packet is dropped and counted as unroutable.
    pub fn send_on(&mut self, interface: InterfaceId, packet: Packet) {
        self.packets.push(Outgoing {
            interface: Some(interface),
            packet,
        });
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes all packets out, in the order of sending.
    pub fn drain(&mut self) -> impl Iterator<Item = Outgoing> + '_ {
        self.packets.drain(..)
    }
}
