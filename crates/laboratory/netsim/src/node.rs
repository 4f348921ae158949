//! Interface of programs that run on hosts and routers.

use core::any::Any;
use core::net::IpAddr;

use crate::ids::InterfaceId;
use crate::network::RouteTable;
use crate::packet::Packet;
use crate::time::Time;

/// Program on a host or a router: a protocol stack, a traffic source, a home agent.
///
/// The simulator calls one method at a time, then sends the packets in the [`Outbox`] and reads
/// [`next_timeout`](Node::next_timeout) again. After a modification through
/// [`Network::node_mut`](crate::Network::node_mut) the timeout is not read until
/// [`Network::wake`](crate::Network::wake); [`Network::with_node`](crate::Network::with_node) does
/// both.
pub trait Node: Any {
    /// Handles a packet that arrived at `interface` for one of this node's addresses.
    fn handle_packet(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: Packet,
        out: &mut Outbox,
    );

    /// Handles the expired timeout; called when `now` has reached
    /// [`next_timeout`](Node::next_timeout).
    ///
    /// Afterwards the next timeout must be later: a program that requests the same time without end
    /// is stopped by a panic that names it.
    fn handle_timeout(&mut self, now: Time, out: &mut Outbox);

    /// Returns the time of the next call of [`handle_timeout`](Node::handle_timeout).
    fn next_timeout(&self) -> Option<Time>;

    /// Inspects a packet that this node is about to forward, and may consume or replace it.
    ///
    /// Called on routers only, before the route lookup, also for destinations that no node has: the
    /// hook for tunnels, translators and filters. The default forwards every packet.
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

    /// Inspects an ICMP error that this node originates, and may consume it, as a home agent does
    /// with an error for a mobile node away from home.
    ///
    /// Called on routers only, before the route lookup. The default sends every message.
    fn handle_own_error(&mut self, now: Time, error: Packet, out: &mut Outbox) -> Option<Packet> {
        let _ = (now, out);
        Some(error)
    }

    /// Handles a state change of `interface` or of its link. The default ignores it.
    fn handle_link_change(
        &mut self,
        now: Time,
        interface: InterfaceId,
        up: bool,
        out: &mut Outbox,
    ) {
        let _ = (now, interface, up, out);
    }

    /// Returns whether [`Self::handle_route_change`] is called. The default is false.
    fn follows_routes(&self) -> bool {
        false
    }

    /// Handles the routes of this host, at the start and after every change of addresses, routes or
    /// interfaces in the network, whether they differ from those before or not. The default ignores
    /// them.
    fn handle_route_change(&mut self, now: Time, routes: RouteTable, out: &mut Outbox) {
        let _ = (now, routes, out);
    }

    /// Handles an address that `interface` gained (`present`) or lost. The default ignores it.
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

/// A packet to be sent by a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingPacket {
    /// Outgoing interface; if `None`, the node's routes decide.
    pub interface: Option<InterfaceId>,
    /// The packet.
    pub packet: Packet,
}

/// Packets that a node sends during one call.
#[derive(Debug, Default)]
pub struct Outbox {
    packets: Vec<OutgoingPacket>,
}

impl Outbox {
    /// Returns an empty outbox, for driving a [`Node`] without the simulator.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends `packet` by the node's routes. The source address is not changed.
    pub fn send(&mut self, packet: Packet) {
        self.packets.push(OutgoingPacket {
            interface: None,
            packet,
        });
    }

    /// Sends `packet` out of `interface` without a route lookup. The interface must belong to the
    /// node; otherwise the packet is dropped and counted as unroutable.
    pub fn send_on(&mut self, interface: InterfaceId, packet: Packet) {
        self.packets.push(OutgoingPacket {
            interface: Some(interface),
            packet,
        });
    }

    /// Returns the number of queued packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether no packet is queued.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Removes all packets in the order of sending.
    pub fn drain(&mut self) -> impl Iterator<Item = OutgoingPacket> + '_ {
        self.packets.drain(..)
    }
}
