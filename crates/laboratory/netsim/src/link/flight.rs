//! Packets on the wire, in the order of arrival.
//!
//! Most packets arrive in the order of sending and are kept in a ring buffer. The few that are
//! reordered are kept in a heap, so that jitter on a link with a large bandwidth-delay product
//! costs a logarithm instead of shifting the ring buffer.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use crate::packet::Packet;
use crate::time::Time;

/// A packet on the wire.
#[derive(Debug)]
pub(crate) struct PacketInFlight {
    pub(crate) arrival: Time,
    /// Serial number in the order of sending; a duplicate has the same one.
    pub(crate) serial: u64,
    pub(crate) packet: Packet,
}

impl PacketInFlight {
    fn key(&self) -> (Time, u64) {
        (self.arrival, self.serial)
    }
}

impl PartialEq for PacketInFlight {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for PacketInFlight {}

impl PartialOrd for PacketInFlight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PacketInFlight {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// All packets on one direction of a wire.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    ordered: VecDeque<PacketInFlight>,
    reordered: BinaryHeap<Reverse<PacketInFlight>>,
}

impl InFlight {
    pub(crate) fn len(&self) -> usize {
        self.ordered.len() + self.reordered.len()
    }

    pub(crate) fn push(&mut self, packet: PacketInFlight) {
        if self.ordered.back().is_none_or(|last| *last <= packet) {
            self.ordered.push_back(packet);
        } else {
            self.reordered.push(Reverse(packet));
        }
    }

    fn next_is_reordered(&self) -> bool {
        match (self.ordered.front(), self.reordered.peek()) {
            (Some(ordered), Some(Reverse(reordered))) => reordered < ordered,
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }

    pub(crate) fn next_arrival(&self) -> Option<Time> {
        if self.next_is_reordered() {
            self.reordered
                .peek()
                .map(|Reverse(reordered)| reordered.arrival)
        } else {
            self.ordered.front().map(|packet| packet.arrival)
        }
    }

    pub(crate) fn pop(&mut self) -> Option<PacketInFlight> {
        if self.next_is_reordered() {
            self.reordered.pop().map(|Reverse(reordered)| reordered)
        } else {
            self.ordered.pop_front()
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::packet::Protocol;

    #[test]
    fn packets_leave_in_the_order_of_arrival() {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let packet = Packet::new(address, address, Protocol::Tcp, vec![]);
        let mut flight = InFlight::default();
        for (serial, arrival) in [5, 9, 7, 7, 12, 1, 9].into_iter().enumerate() {
            flight.push(PacketInFlight {
                arrival: Time::from_nanos(arrival),
                serial: serial as u64,
                packet: packet.clone(),
            });
        }
        assert_eq!(flight.len(), 7);
        let mut order = Vec::new();
        while let Some(next) = flight.next_arrival() {
            let packet = flight.pop().expect("next_arrival returned a time");
            assert_eq!(packet.arrival, next);
            order.push((packet.arrival.as_nanos(), packet.serial));
        }
        assert_eq!(
            order,
            [(1, 5), (5, 0), (7, 2), (7, 3), (9, 1), (9, 6), (12, 4)]
        );
    }
}
