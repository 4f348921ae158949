//! Transport of a packet: out of a node, over a link, and to the receiving node or onwards.

use core::net::{IpAddr, Ipv4Addr};

use super::route::NextHop;
use super::{Network, NodeKind};
use crate::event::Event;
use crate::icmp::{self, IcmpError};
use crate::ids::{HalfId, InterfaceId, NodeId};
use crate::link::OfferResult;
use crate::node::OutgoingPacket;
use crate::packet::Packet;
use crate::pcapng::PacketDirection;
use crate::stats::DropReason;
use crate::trace::{TraceEvent, TracePlace, TraceStep};

impl Network {
    /// Sends all packets of the outbox of a node, then reads the node's next timeout.
    pub(super) fn flush(&mut self, node: NodeId) {
        let mut outbox = std::mem::take(&mut self.outbox);
        for outgoing in outbox.drain() {
            self.dispatch(node, outgoing);
        }
        // The allocation is reused for the next packet.
        self.outbox = outbox;
        self.arm_timeout(node);
    }

    fn dispatch(&mut self, node: NodeId, outgoing: OutgoingPacket) {
        let OutgoingPacket { interface, packet } = outgoing;
        self.nodes[node.index()].stats.sent += 1;
        if !packet.is_well_formed() {
            self.drop_at(node, &packet, DropReason::Malformed);
            return;
        }
        match interface {
            Some(interface) if self.node_of(interface) == node => {
                self.transmit(interface, packet);
            }
            Some(_) => self.drop_at(node, &packet, DropReason::NoRoute),
            None => self.send_by_route(node, packet),
        }
    }

    fn send_by_route(&mut self, node: NodeId, packet: Packet) {
        match self.resolve(node, packet.source, packet.destination) {
            NextHop::Local(interface) => self.loop_back(node, interface, packet),
            NextHop::Via(interface) => self.transmit(interface, packet),
            NextHop::Unreachable => self.drop_at(node, &packet, DropReason::NoRoute),
        }
    }

    fn loop_back(&mut self, node: NodeId, interface: InterfaceId, packet: Packet) {
        self.loopback.push_back((node, interface, packet));
        self.events.push(self.now, Event::Loopback);
    }

    /// Puts a packet onto the link of an interface.
    pub(super) fn transmit(&mut self, interface: InterfaceId, packet: Packet) {
        let Some(packet) = self.admit_output(interface, packet) else {
            return;
        };
        let Some(half) = self.interfaces[interface.index()].outgoing else {
            self.drop_at(self.node_of(interface), &packet, DropReason::NoRoute);
            return;
        };
        match self.one_way_links[half.index()].offer(self.now, packet) {
            OfferResult::Begin(packet) => {
                self.begin(half, packet);
            }
            OfferResult::Queued => {}
            OfferResult::Dropped(packet, reason) => {
                self.trace_link_drop(half, &packet, reason);
                if reason == DropReason::Mtu {
                    self.report_too_big(half, &packet);
                }
            }
        }
    }

    /// Reports to the sender of a packet that the packet exceeds the MTU of a link.
    fn report_too_big(&mut self, half: HalfId, packet: &Packet) {
        let link = &self.one_way_links[half.index()];
        let (Some(mtu), false) = (link.config().mtu, link.config().mtu_black_hole) else {
            return;
        };
        let interface = link.from;
        let error = IcmpError::TooBig { mtu: mtu as u32 };
        self.report(self.node_of(interface), interface, packet, error);
    }

    /// Reports an error at `interface` of `node` to the sender of a packet.
    pub(super) fn report(
        &mut self,
        node: NodeId,
        interface: InterfaceId,
        packet: &Packet,
        error: IcmpError,
    ) {
        let from = self.icmp_source(node, interface, packet.source);
        if let Some(message) = from.and_then(|from| icmp::report(packet, error, from)) {
            self.nodes[node.index()].stats.icmp_sent += 1;
            self.send_error(node, message);
        }
    }

    /// Sends an ICMP error that a node originates, unless the program of a router takes it.
    fn send_error(&mut self, node: NodeId, message: Packet) {
        let state = &mut self.nodes[node.index()];
        let program = state.program.as_deref_mut();
        let Some(program) = program.filter(|_| state.kind == NodeKind::Router) else {
            return self.send_by_route(node, message);
        };
        // This may happen while the packets that the program sent before are still being sent.
        let kept = program.handle_own_error(self.now, message, &mut self.outbox);
        self.flush(node);
        if let Some(message) = kept {
            self.send_by_route(node, message);
        }
    }

    /// Returns the source address of ICMP messages of a node to `receiver`: the receiver's address
    /// if it is the node's own, else one of the interface at fault, else any.
    fn icmp_source(
        &self,
        node: NodeId,
        interface: InterfaceId,
        receiver: IpAddr,
    ) -> Option<IpAddr> {
        let owner = self.routes.owner(receiver);
        if owner.is_some_and(|owner| self.node_of(owner) == node) {
            return Some(receiver);
        }
        let own = self.nodes[node.index()].interfaces.iter();
        std::iter::once(&interface)
            .chain(own)
            .flat_map(|interface| self.addresses(*interface))
            .find(|address| address.is_ipv4() == receiver.is_ipv4())
            .copied()
            // Routers without an IPv4 address share this one (RFC 7600, section 4.8).
            .or_else(|| {
                receiver
                    .is_ipv4()
                    .then_some(Ipv4Addr::new(192, 0, 0, 8).into())
            })
    }

    /// Begins a transmission. Returns true if it takes time, so that the transmitter is busy.
    fn begin(&mut self, half: HalfId, packet: Packet) -> bool {
        self.trace(
            TracePlace::Link(half.link(), half.direction()),
            TraceStep::Sent,
            &packet,
        );
        let link = &mut self.one_way_links[half.index()];
        let outbound = PacketDirection::Outbound;
        self.captures.record(self.now, link.from, outbound, &packet);
        if link.config().rate.is_none() {
            self.propagate(half, packet);
            return false;
        }
        let done = link.begin(self.now, packet);
        self.events.push(done, Event::Transmitted(half));
        true
    }

    fn propagate(&mut self, half: HalfId, packet: Packet) {
        let link = &mut self.one_way_links[half.index()];
        match link.propagate(self.now, packet) {
            Ok(()) => self.arm_arrival(half),
            Err(lost) => self.trace_link_drop(half, &lost, DropReason::Loss),
        }
    }

    fn arm_arrival(&mut self, half: HalfId) {
        if let Some(time) = self.one_way_links[half.index()].arm() {
            self.events.push(time, Event::Arrival(half));
        }
    }

    /// Ends a transmission: the packet is put on the wire and the next transmission begins.
    pub(super) fn finish_transmission(&mut self, half: HalfId, packet: Packet) {
        self.propagate(half, packet);
        while let Some(next) = self.one_way_links[half.index()].next_waiting() {
            if self.begin(half, next) {
                break;
            }
        }
    }

    /// Processes a packet that has reached the end of a link.
    pub(super) fn finish_arrival(&mut self, half: HalfId, packet: Packet) {
        self.arm_arrival(half);
        self.trace(
            TracePlace::Link(half.link(), half.direction()),
            TraceStep::Arrived,
            &packet,
        );
        let interface = self.one_way_links[half.index()].to;
        let inbound = PacketDirection::Inbound;
        self.captures.record(self.now, interface, inbound, &packet);
        let Some(packet) = self.admit_input(interface, packet) else {
            return;
        };
        let node = self.node_of(interface);
        let owner = self.routes.owner(packet.destination);
        let is_own = owner.is_some_and(|owner| self.node_of(owner) == node);
        if is_own || is_link_scoped(packet.destination) {
            self.deliver(node, interface, packet);
        } else if self.nodes[node.index()].kind == NodeKind::Router {
            self.forward(node, interface, packet);
        } else {
            self.drop_at(node, &packet, DropReason::NotMine);
        }
    }

    /// Passes a packet to the program of its destination node.
    pub(super) fn deliver(&mut self, node: NodeId, interface: InterfaceId, packet: Packet) {
        let state = &mut self.nodes[node.index()];
        let Some(program) = state.program.as_deref_mut() else {
            self.drop_at(node, &packet, DropReason::NoProgram);
            return;
        };
        state.stats.received += 1;
        program.handle_packet(self.now, interface, packet, &mut self.outbox);
        self.flush(node);
    }

    fn forward(&mut self, node: NodeId, interface: InterfaceId, mut packet: Packet) {
        let state = &mut self.nodes[node.index()];
        if let Some(program) = state.program.as_deref_mut() {
            let kept = program.handle_transit(self.now, interface, packet, &mut self.outbox);
            if kept.is_none() {
                state.stats.taken += 1;
            }
            self.flush(node);
            match kept {
                Some(passed) => packet = passed,
                None => return,
            }
        }
        if packet.ttl <= 1 {
            self.drop_at(node, &packet, DropReason::TtlExceeded);
            self.report(node, interface, &packet, IcmpError::TimeExceeded);
            return;
        }
        packet.ttl -= 1;
        self.nodes[node.index()].stats.forwarded += 1;
        self.send_by_route(node, packet);
    }

    pub(super) fn drop_at(&mut self, node: NodeId, packet: &Packet, reason: DropReason) {
        self.nodes[node.index()].stats.count_dropped(reason);
        self.trace(TracePlace::Node(node), TraceStep::Dropped(reason), packet);
    }

    pub(super) fn trace_link_drop(&mut self, half: HalfId, packet: &Packet, reason: DropReason) {
        let place = TracePlace::Link(half.link(), half.direction());
        self.trace(place, TraceStep::Dropped(reason), packet);
    }

    fn trace(&mut self, place: TracePlace, step: TraceStep, packet: &Packet) {
        if let Some(tracer) = &mut self.tracer {
            tracer(&TraceEvent {
                time: self.now,
                place,
                step,
                packet,
            });
        }
    }
}

/// Returns whether packets to this address stay on the link.
fn is_link_scoped(destination: IpAddr) -> bool {
    match destination {
        IpAddr::V4(address) => address.is_broadcast() || matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => matches!(address.octets(), [0xFF, scope, ..] if scope & 0xF <= 2),
    }
}
