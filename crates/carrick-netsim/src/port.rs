//! A program whose stack is somewhere else: what arrives waits to be taken out, and what others bring is
//! sent.
//!
//! With it a host of a network can be a host outside of the simulator, alone or under a program that
//! wraps others, such as [`crate::mobile::MobileNode`].

use std::collections::VecDeque;

use crate::ids::InterfaceId;
use crate::node::{Node, Outbox};
use crate::packet::Packet;
use crate::time::Time;

/// Packets that wait, at most; more are dropped and counted. Whoever takes them out does so at each step.
const MAX_WAITING: usize = 1 << 16;

/// The program of such a host.
#[derive(Debug, Default)]
pub struct Port {
    arrived: VecDeque<(Time, InterfaceId, Packet)>,
    dropped: u64,
}

impl Port {
    /// Takes out what arrived first: when, at which interface, and what.
    pub fn take(&mut self) -> Option<(Time, InterfaceId, Packet)> {
        self.arrived.pop_front()
    }

    /// Packets that arrived while 65,536 waited.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Node for Port {
    fn handle_packet(&mut self, now: Time, interface: InterfaceId, packet: Packet, _: &mut Outbox) {
        if self.arrived.len() == MAX_WAITING {
            self.dropped += 1;
            return;
        }
        self.arrived.push_back((now, interface, packet));
    }

    fn handle_timeout(&mut self, _: Time, _: &mut Outbox) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }
}
