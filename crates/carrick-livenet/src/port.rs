//! The program of a host of the simulator whose packets come from and go to this host's kernel.

use std::collections::VecDeque;

use carrick_netsim::{InterfaceId, Node, Outbox, Packet, Time};

/// Keeps what arrived until it is carried to the kernel; what comes from the kernel is sent directly.
#[derive(Debug, Default)]
pub(crate) struct Port {
    /// What arrived: when, and at which interface.
    pub(crate) arrived: VecDeque<(Time, InterfaceId, Packet)>,
}

impl Node for Port {
    fn handle_packet(&mut self, now: Time, interface: InterfaceId, packet: Packet, _: &mut Outbox) {
        self.arrived.push_back((now, interface, packet));
    }

    fn handle_timeout(&mut self, _: Time, _: &mut Outbox) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }
}
