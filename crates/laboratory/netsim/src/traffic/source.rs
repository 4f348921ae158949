//! A host that sends streams of packets.

use core::net::IpAddr;

use super::pattern::{Pattern, Schedule};
use super::stamped;
use crate::error::ConfigError;
use crate::ids::InterfaceId;
use crate::node::{Node, Outbox};
use crate::packet::{Ecn, Packet, Protocol};
use crate::rng::Random;
use crate::time::Time;

/// One stream of packets of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficStream {
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address.
    pub destination: IpAddr,
    /// Protocol field of the packets. A receiver of that protocol ignores their payload.
    pub protocol: Protocol,
    /// The ECN codepoint of the packets.
    pub ecn: Ecn,
    /// Flow tag for statistics.
    pub flow: u32,
    /// Length of the packets with their headers, in bytes; at least the headers are sent.
    pub wire_len: usize,
    /// Distribution of the sending times.
    pub pattern: Pattern,
    /// Time at which the stream begins.
    pub start: Time,
    /// Time at which the stream ends; no packet is sent at this time or later.
    pub stop: Time,
}

impl TrafficStream {
    /// Returns a stream of UDP packets from port 9 to port 9 (discard, RFC 863), from the start
    /// without end, as flow 0.
    pub fn new(source: IpAddr, destination: IpAddr, wire_len: usize, pattern: Pattern) -> Self {
        Self {
            source,
            destination,
            protocol: Protocol::Udp {
                source_port: 9,
                destination_port: 9,
            },
            ecn: Ecn::NotEct,
            flow: 0,
            wire_len,
            pattern,
            start: Time::ZERO,
            stop: Time::MAX,
        }
    }

    /// Returns a packet of this stream without payload.
    fn empty_packet(&self) -> Packet {
        Packet::new(self.source, self.destination, self.protocol, Vec::new())
            .with_ecn(self.ecn)
            .with_flow(self.flow)
    }
}

#[derive(Debug)]
struct ActiveStream {
    template: Packet,
    payload_len: usize,
    stop: Time,
    schedule: Schedule,
    number: u64,
}

impl ActiveStream {
    fn next(&self) -> Option<Time> {
        let next = self.schedule.next();
        (next < self.stop).then_some(next)
    }
}

/// A program that sends any number of streams and ignores received packets.
#[derive(Debug)]
pub struct TrafficSource {
    streams: Vec<ActiveStream>,
    random: Random,
    next: Option<Time>,
}

impl TrafficSource {
    /// Returns a source of these streams; `random` should come from
    /// [`NetworkBuilder::node_random`](crate::NetworkBuilder::node_random).
    ///
    /// # Errors
    /// If a rate is 0 or a Pareto shape has no mean.
    pub fn new(
        streams: impl IntoIterator<Item = TrafficStream>,
        mut random: Random,
    ) -> Result<Self, ConfigError> {
        let mut running = Vec::new();
        for stream in streams {
            stream.pattern.validate()?;
            let template = stream.empty_packet();
            let wire_len = stream.wire_len.max(template.header_len());
            running.push(ActiveStream {
                payload_len: wire_len - template.header_len(),
                template,
                stop: stream.stop,
                schedule: Schedule::new(stream.pattern, wire_len, stream.start, &mut random),
                number: 0,
            });
        }
        let mut source = Self {
            streams: running,
            random,
            next: None,
        };
        source.find_next();
        Ok(source)
    }

    /// Returns the number of packets sent in all streams.
    pub fn sent(&self) -> u64 {
        self.streams.iter().map(|stream| stream.number).sum()
    }

    fn find_next(&mut self) {
        self.next = self.streams.iter().filter_map(ActiveStream::next).min();
    }
}

impl Node for TrafficSource {
    fn handle_packet(&mut self, _: Time, _: InterfaceId, _: Packet, _: &mut Outbox) {}

    fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        for stream in &mut self.streams {
            while stream.next().is_some_and(|next| next <= now) {
                let mut packet = stream.template.clone();
                packet.payload = stamped(stream.payload_len, stream.number, now);
                stream.number += 1;
                out.send(packet);
                stream.schedule.advance(&mut self.random);
            }
        }
        self.find_next();
    }

    fn next_timeout(&self) -> Option<Time> {
        self.next
    }
}
