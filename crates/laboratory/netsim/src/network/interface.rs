//! Conditions of an interface: its administrative state, its neighbour and its input rule.

use super::{Interface, Network};
use crate::event::Event;
use crate::icmp::IcmpError;
use crate::ids::InterfaceId;
use crate::packet::Packet;
use crate::schedule::{InputRule, Neighbor, Unreachable};
use crate::stats::DropReason;
use crate::time::Time;

/// Packets that wait for the link-layer address of a neighbour, at most.
const MAX_UNRESOLVED: usize = 64;

/// Resolution of a neighbour that does not answer.
#[derive(Debug)]
pub(super) struct Resolution {
    /// Time of the failure.
    fails_at: Time,
    /// Packets that wait for the neighbour, at most [`MAX_UNRESOLVED`].
    waiting: Vec<Packet>,
}

impl Network {
    /// Returns whether an interface is up. The state of its link is separate.
    pub fn is_interface_up(&self, interface: InterfaceId) -> bool {
        self.interfaces[interface.index()].up
    }

    /// Returns the state of the neighbour of an interface.
    pub fn neighbor(&self, interface: InterfaceId) -> Neighbor {
        self.interfaces[interface.index()].neighbor
    }

    /// Returns the rule for packets that arrive at an interface.
    pub fn input_rule(&self, interface: InterfaceId) -> InputRule {
        self.interfaces[interface.index()].input
    }

    pub(super) fn set_interface_state(&mut self, interface: InterfaceId, up: bool) {
        let state = &mut self.interfaces[interface.index()];
        if state.up == up {
            return;
        }
        state.up = up;
        let (node, waiting) = (state.node, state.stop_resolution());
        for packet in waiting {
            self.drop_at(node, &packet, DropReason::Down);
        }
        self.call(node, |program, now, out| {
            program.handle_link_change(now, interface, up, out);
        });
        self.routes_changed();
    }

    /// Sets the state of a neighbour. Packets that wait for it are sent if it is reachable.
    pub(super) fn set_neighbor(&mut self, interface: InterfaceId, neighbor: Neighbor) {
        let state = &mut self.interfaces[interface.index()];
        state.neighbor = neighbor;
        for packet in state.stop_resolution() {
            self.transmit(interface, packet);
        }
    }

    /// Applies state and neighbour of an interface to a packet that is about to leave by it. Returns
    /// the packet if it does.
    pub(super) fn admit_output(
        &mut self,
        interface: InterfaceId,
        packet: Packet,
    ) -> Option<Packet> {
        let state = &mut self.interfaces[interface.index()];
        let reason = match (state.up, state.neighbor) {
            (false, _) => DropReason::Down,
            (true, Neighbor::Reachable) => return Some(packet),
            (true, Neighbor::Wrong) => DropReason::Neighbor,
            (true, Neighbor::Unresolved { after }) => {
                let now = self.now;
                let resolution = state.resolution.get_or_insert_with(|| {
                    let fails_at = now + after;
                    self.events.push(fails_at, Event::Unresolved(interface));
                    Resolution {
                        fails_at,
                        waiting: Vec::new(),
                    }
                });
                if resolution.waiting.len() < MAX_UNRESOLVED {
                    resolution.waiting.push(packet);
                    return None;
                }
                DropReason::Neighbor
            }
        };
        self.drop_at(self.node_of(interface), &packet, reason);
        None
    }

    /// Ends a resolution that failed: the packets that waited for it are dropped, and their senders
    /// receive "host unreachable". Returns false if the resolution has ended before.
    pub(super) fn fail_resolution(&mut self, now: Time, interface: InterfaceId) -> bool {
        let state = &mut self.interfaces[interface.index()];
        let Some(resolution) = state.resolution.take_if(|r| r.fails_at == now) else {
            return false;
        };
        self.now = now;
        let node = self.node_of(interface);
        for packet in resolution.waiting {
            self.drop_at(node, &packet, DropReason::Neighbor);
            let error = IcmpError::unreachable(Unreachable::Host, packet.source.is_ipv4());
            self.report(node, interface, &packet, error);
        }
        true
    }

    /// Applies the input rule of an interface to a packet that arrived. Returns the packet if it is
    /// accepted.
    pub(super) fn admit_input(&mut self, interface: InterfaceId, packet: Packet) -> Option<Packet> {
        let state = &self.interfaces[interface.index()];
        let node = state.node;
        match (state.up, state.input) {
            (false, _) => self.drop_at(node, &packet, DropReason::Down),
            (true, InputRule::Accept) => return Some(packet),
            (true, InputRule::Drop) => self.drop_at(node, &packet, DropReason::Filtered),
            (true, InputRule::Reject(unreachable)) => {
                self.drop_at(node, &packet, DropReason::Filtered);
                let error = IcmpError::unreachable(unreachable, packet.source.is_ipv4());
                self.report(node, interface, &packet, error);
            }
        }
        None
    }
}

impl Interface {
    /// Ends the resolution of the neighbour; returns the packets that waited for it.
    fn stop_resolution(&mut self) -> Vec<Packet> {
        let resolution = self.resolution.take();
        resolution.map_or_else(Vec::new, |resolution| resolution.waiting)
    }
}
