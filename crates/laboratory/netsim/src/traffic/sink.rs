//! A host that measures received packets.

use std::collections::BTreeMap;

use core::time::Duration;

use super::stamp;
use crate::ids::InterfaceId;
use crate::node::{Node, Outbox};
use crate::packet::Packet;
use crate::time::Time;

/// Measurements of one flow. Sequence numbers and delays are taken from stamped payloads only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowReport {
    /// Packets received, copies included.
    pub packets: u64,
    /// Bytes received, with IP and UDP headers.
    pub bytes: u64,
    /// Arrival of the first packet.
    pub first: Time,
    /// Arrival of the last packet.
    pub last: Time,
    /// Packets with a stamp.
    pub stamped: u64,
    /// Highest sequence number received, counted from 0.
    pub highest_number: u64,
    /// Packets that arrived after one with a higher sequence number.
    pub reordered: u64,
    /// Sum of all one-way delays.
    pub total_delay: Duration,
    /// Longest one-way delay.
    pub max_delay: Duration,
}

impl FlowReport {
    /// Returns the mean one-way delay, or `None` if no packet had a stamp.
    pub fn mean_delay(&self) -> Option<Duration> {
        let nanos = self
            .total_delay
            .as_nanos()
            .checked_div(u128::from(self.stamped))?;
        Some(Duration::from_nanos(nanos as u64))
    }

    /// Returns the number of packets missing up to the highest sequence number. A duplicate hides a
    /// loss.
    pub fn missing(&self) -> u64 {
        match self.stamped {
            0 => 0,
            stamped => (self.highest_number + 1).saturating_sub(stamped),
        }
    }

    /// Returns the rate in bits per second from the first to the last packet, without the bits of
    /// the first. Returns `None` until packets have arrived at two different times.
    pub fn rate(&self) -> Option<f64> {
        let seconds = (self.last - self.first).as_secs_f64();
        let mean = self.bytes as f64 / self.packets as f64;
        (seconds > 0.0).then(|| (self.bytes as f64 - mean) * 8.0 / seconds)
    }

    fn record(&mut self, now: Time, packet: &Packet) {
        if self.packets == 0 {
            self.first = now;
        }
        self.last = now;
        self.packets += 1;
        self.bytes += packet.wire_len() as u64;
        let Some((number, sent)) = stamp(&packet.payload) else {
            return;
        };
        if self.stamped > 0 && number < self.highest_number {
            self.reordered += 1;
        }
        self.stamped += 1;
        self.highest_number = self.highest_number.max(number);
        let delay = now - sent;
        self.total_delay = self.total_delay.saturating_add(delay);
        self.max_delay = self.max_delay.max(delay);
    }
}

/// A program that counts received packets and sends none. Give each stream its own flow tag, or
/// their sequence numbers mix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficSink {
    flows: BTreeMap<u32, FlowReport>,
}

impl TrafficSink {
    /// Returns a sink without measurements.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the measurements of a flow, or `None` if none of its packets arrived.
    pub fn flow(&self, flow: u32) -> Option<&FlowReport> {
        self.flows.get(&flow)
    }

    /// Returns all flows in the order of their tags.
    pub fn flows(&self) -> impl Iterator<Item = (u32, &FlowReport)> {
        self.flows.iter().map(|(flow, report)| (*flow, report))
    }
}

impl Node for TrafficSink {
    fn handle_packet(&mut self, now: Time, _: InterfaceId, packet: Packet, _: &mut Outbox) {
        self.flows
            .entry(packet.flow)
            .or_default()
            .record(now, &packet);
    }

    fn handle_timeout(&mut self, _: Time, _: &mut Outbox) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }
}
