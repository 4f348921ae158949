//! Packets on the wire, in the order of their arrival.
//!
//! Most arrive in the order of sending and stay in a ring; the few that are overtaken or overtake
//! go to a heap, so that jitter on a long fat link costs a logarithm and not a shift of the ring.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use crate::packet::Packet;
use crate::time::Time;

/// A packet on the wire.
#[derive(Debug)]
pub(crate) struct Flying {
    pub(crate) arrival: Time,
    /// The packet's number in the order of sending; copies share it.
    pub(crate) serial: u64,
    pub(crate) packet: Packet,
}

impl Flying {
    fn key(&self) -> (Time, u64) {
        (self.arrival, self.serial)
    }
}

impl PartialEq for Flying {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Flying {}

impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flying {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// All packets on one direction of a wire.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    ordered: VecDeque<Flying>,
    strays: BinaryHeap<Reverse<Flying>>,
}

impl InFlight {
    pub(crate) fn len(&self) -> usize {
        self.ordered.len() + self.strays.len()
    }

    pub(crate) fn push(&mut self, flying: Flying) {
        if self.ordered.back().is_none_or(|last| *last <= flying) {
            self.ordered.push_back(flying);
        } else {
            self.strays.push(Reverse(flying));
        }
    }

    fn stray_is_next(&self) -> bool {
        match (self.ordered.front(), self.strays.peek()) {
            (Some(ordered), Some(Reverse(stray))) => stray < ordered,
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }

    pub(crate) fn next_arrival(&self) -> Option<Time> {
        if self.stray_is_next() {
            self.strays.peek().map(|Reverse(stray)| stray.arrival)
        } else {
            self.ordered.front().map(|flying| flying.arrival)
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Flying> {
        if self.stray_is_next() {
            self.strays.pop().map(|Reverse(stray)| stray)
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
    fn leaves_in_the_order_of_arrival_whatever_the_order_of_sending() {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let packet = Packet::new(address, address, Protocol::Tcp, vec![]);
        let mut flight = InFlight::default();
        for (serial, arrival) in [5, 9, 7, 7, 12, 1, 9].into_iter().enumerate() {
            flight.push(Flying {
                arrival: Time::from_nanos(arrival),
                serial: serial as u64,
                packet: packet.clone(),
            });
        }
        assert_eq!(flight.len(), 7);
        let mut order = Vec::new();
        while let Some(next) = flight.next_arrival() {
            let flying = flight.pop().expect("next_arrival says that there is one");
            assert_eq!(flying.arrival, next);
            order.push((flying.arrival.as_nanos(), flying.serial));
        }
        assert_eq!(
            order,
            [(1, 5), (5, 0), (7, 2), (7, 3), (9, 1), (9, 6), (12, 4)]
        );
    }
}
