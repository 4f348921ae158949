//! Program of a host whose protocol stack is outside of the simulator: received packets are queued until
//! the stack reads them, and packets of the stack are injected.
//!
//! It runs alone or inside a program that wraps others, such as [`mobile::MobileNode`](crate::mobile::MobileNode).

use core::net::IpAddr;
use std::collections::VecDeque;

use crate::ids::InterfaceId;
use crate::node::{Node, Outbox};
use crate::packet::Packet;
use crate::time::Time;

/// Capacity of the queue in packets; further packets are dropped and counted.
const MAX_QUEUED: usize = 1 << 16;

/// Host whose protocol stack is outside of the simulator, with its received packets.
#[derive(Debug, Default)]
pub struct ExternalHost {
    arrived: VecDeque<(Time, InterfaceId, Packet)>,
    dropped: u64,
    address_changed: bool,
}

impl ExternalHost {
    /// Removes the oldest packet; returns its arrival time and interface with it.
    pub fn take(&mut self) -> Option<(Time, InterfaceId, Packet)> {
        self.arrived.pop_front()
    }

    /// Returns the number of packets dropped because 65,536 were waiting.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns whether the host gained or lost an address since the last call.
    pub fn take_address_change(&mut self) -> bool {
        std::mem::take(&mut self.address_changed)
    }
}

impl Node for ExternalHost {
    fn handle_packet(&mut self, now: Time, interface: InterfaceId, packet: Packet, _: &mut Outbox) {
        if self.arrived.len() == MAX_QUEUED {
            self.dropped += 1;
            return;
        }
        self.arrived.push_back((now, interface, packet));
    }

    fn handle_timeout(&mut self, _: Time, _: &mut Outbox) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn handle_address_change(
        &mut self,
        _: Time,
        _: InterfaceId,
        _: IpAddr,
        _: bool,
        _: &mut Outbox,
    ) {
        self.address_changed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Protocol;

    #[test]
    fn packets_wait_in_order_up_to_the_capacity() {
        let packet = |n: usize| {
            let (source, destination) = ([10, 0, 0, 1], [10, 0, 0, 2]);
            let payload = n.to_be_bytes().to_vec();
            Packet::new(source.into(), destination.into(), Protocol::Sctp, payload)
        };
        let (mut port, mut out) = (ExternalHost::default(), Outbox::new());
        for n in 0..MAX_QUEUED + 3 {
            let now = Time::from_millis(n as u64);
            port.handle_packet(now, InterfaceId(7), packet(n), &mut out);
        }
        assert_eq!(port.dropped(), 3);
        assert!(out.is_empty() && port.next_timeout().is_none());
        for n in 0..MAX_QUEUED {
            let expected = (Time::from_millis(n as u64), InterfaceId(7), packet(n));
            assert_eq!(port.take(), Some(expected));
        }
        assert_eq!(port.take(), None);
    }

    #[test]
    fn address_changes_are_reported_once() {
        let (mut port, mut out) = (ExternalHost::default(), Outbox::new());
        assert!(!port.take_address_change());
        for present in [true, false] {
            let address = [10, 0, 0, 1].into();
            port.handle_address_change(Time::ZERO, InterfaceId(0), address, present, &mut out);
        }
        assert!(port.take_address_change() && !port.take_address_change());
        assert!(out.is_empty());
    }
}
