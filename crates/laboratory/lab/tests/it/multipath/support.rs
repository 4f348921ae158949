//! Bulk transfers over several paths in virtual time.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_hosts::sctp::{Application, SctpHost};
use carrick_netsim::{LinkConfig, LinkId, Loss, Network, NetworkBuilder, NodeId, Queue, Time};
use carrick_proto::research::{Multipath, Policies};
use carrick_proto::{
    AssociationConfig, AssociationId, AssociationStats, Endpoint, EndpointConfig, Event, PathId,
    PathStats, SendError, SendOptions,
};

const PORT: u16 = 5001;
/// Message size that fills a packet.
pub(crate) const MESSAGE: usize = 1452;

/// A path: the same link in both directions, with loss in the direction of the data only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) mbits: u64,
    /// One-way delay.
    pub(crate) delay_ms: u64,
    pub(crate) loss: f64,
    /// Capacity of the queue in packets.
    pub(crate) queue: usize,
}

impl Path {
    pub(crate) const fn new(mbits: u64, delay_ms: u64) -> Self {
        Self {
            mbits,
            delay_ms,
            loss: 0.0,
            queue: 100,
        }
    }

    pub(crate) const fn lossy(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    fn links(self) -> [LinkConfig; 2] {
        let link = LinkConfig::new(self.mbits * 1_000_000, Duration::from_millis(self.delay_ms));
        let link = link.with_queue(Queue::packets(self.queue));
        let lossy = if self.loss > 0.0 {
            link.clone().with_loss(Loss::Random(self.loss))
        } else {
            link.clone()
        };
        [lossy, link]
    }
}

/// Sends as many numbered messages as the buffer accepts.
pub(crate) struct MessageSource {
    pub(crate) peers: Vec<IpAddr>,
    pub(crate) config: AssociationConfig,
    pub(crate) start: Option<carrick_proto::Time>,
    pub(crate) options: SendOptions,
    pub(crate) sent: u64,
    /// Number of messages, followed by shutdown.
    pub(crate) limit: u64,
    pub(crate) closed: bool,
}

impl MessageSource {
    fn fill(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint, id: AssociationId) {
        while self.sent < self.limit {
            let mut message = vec![0; MESSAGE];
            message[..8].copy_from_slice(&self.sent.to_be_bytes());
            match endpoint.send(now, id, self.options, Bytes::from(message)) {
                Ok(()) => self.sent += 1,
                Err(SendError::BufferFull) => return,
                Err(error) => panic!("{error}"),
            }
        }
        endpoint.shutdown(now, id).expect("an association");
    }
}

impl Application for MessageSource {
    fn next_timer(&self) -> Option<carrick_proto::Time> {
        self.start
    }

    fn on_timer(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint) {
        self.start = None;
        endpoint
            .connect(now, &self.peers, PORT, None, self.config.clone())
            .expect("a valid address");
    }

    fn on_event(
        &mut self,
        now: carrick_proto::Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        event: Event,
    ) {
        match event {
            Event::Established { .. } | Event::SendBufferFree => self.fill(now, endpoint, id),
            Event::Closed(carrick_proto::CloseReason::Shutdown) => self.closed = true,
            Event::Closed(reason) => panic!("{reason:?}"),
            _ => {}
        }
    }
}

/// Counts messages, and detects duplicates.
#[derive(Default)]
pub(crate) struct MessageSink {
    pub(crate) bytes: usize,
    pub(crate) messages: u64,
    /// All messages below this number have arrived.
    next: u64,
    above: std::collections::BTreeSet<u64>,
    pub(crate) disordered: u64,
}

impl Application for MessageSink {
    fn on_readable(&mut self, _: carrick_proto::Time, endpoint: &mut Endpoint, id: AssociationId) {
        while let Some(message) = endpoint.receive(id) {
            let bytes = message.payload.into_bytes();
            let number = u64::from_be_bytes(*bytes.first_chunk().expect("a number"));
            self.bytes += bytes.len();
            self.messages += 1;
            self.disordered += u64::from(number != self.next);
            assert!(number >= self.next && self.above.insert(number), "twice");
            while self.above.remove(&self.next) {
                self.next += 1;
            }
        }
    }
}

impl MessageSink {
    /// Returns the number below which every message has arrived.
    pub(crate) fn complete(&self) -> u64 {
        self.next
    }
}

/// Parameters of a transfer.
#[derive(Clone)]
pub(crate) struct Transfer {
    pub(crate) config: AssociationConfig,
    /// Configuration of the receiver, if it differs.
    pub(crate) receiver: Option<AssociationConfig>,
    pub(crate) paths: Vec<Path>,
    pub(crate) unordered: bool,
    pub(crate) seed: u64,
    pub(crate) limit: u64,
}

impl Transfer {
    pub(crate) fn new(policies: Policies, paths: &[Path]) -> Self {
        Self {
            config: config(policies),
            receiver: None,
            paths: paths.to_vec(),
            unordered: false,
            seed: 1,
            limit: u64::MAX,
        }
    }

    pub(crate) fn build(&self) -> World {
        let mut net = NetworkBuilder::new(self.seed);
        let hosts = ["source", "sink"].map(|name| net.add_host(name));
        let mut addresses = [Vec::new(), Vec::new()];
        let mut links = Vec::new();
        for (number, path) in self.paths.iter().enumerate() {
            let ips = [1, 2].map(|host| IpAddr::from([10, number as u8 + 1, 0, host]));
            let ends = [0, 1].map(|n| net.add_interface(hosts[n], [ips[n]]));
            let [there, back] = path.links();
            links.push(net.connect(ends[0], ends[1], there, back));
            (0..2).for_each(|n| addresses[n].push(ips[n]));
        }
        let receiver = self.receiver.as_ref().unwrap_or(&self.config);
        add_pair(
            &mut net,
            hosts,
            &addresses,
            [&self.config, receiver],
            (self.seed, self.unordered, self.limit, 0),
        );
        World {
            net: net.build().expect("a valid network"),
            source: hosts[0],
            sink: hosts[1],
            links,
        }
    }

    /// Returns the rate of user data in Mbit/s between these seconds of virtual time, with
    /// statistics.
    pub(crate) fn measure(&self, from: u64, to: u64) -> TransferOutcome {
        let mut world = self.build();
        world.net.run_until(Time::from_secs(from));
        let before = world.sink().bytes;
        world.net.run_until(Time::from_secs(to));
        world.outcome(before, to - from)
    }
}

pub(crate) struct World {
    pub(crate) net: Network,
    pub(crate) source: NodeId,
    pub(crate) sink: NodeId,
    pub(crate) links: Vec<LinkId>,
}

#[derive(Clone, Debug)]
pub(crate) struct TransferOutcome {
    pub(crate) mbits: f64,
    pub(crate) stats: AssociationStats,
    pub(crate) paths: Vec<PathStats>,
}

impl World {
    pub(crate) fn sink(&self) -> &MessageSink {
        self.net
            .node::<SctpHost<MessageSink>>(self.sink)
            .application()
    }

    pub(crate) fn application(&self) -> &MessageSource {
        self.net
            .node::<SctpHost<MessageSource>>(self.source)
            .application()
    }

    pub(crate) fn path(&self, id: PathId) -> PathStats {
        let endpoint = self
            .net
            .node::<SctpHost<MessageSource>>(self.source)
            .endpoint();
        let association = endpoint.associations().next().expect("it survives");
        let association = endpoint.association(association).expect("it survives");
        association.path_stats(id).expect("a path")
    }

    fn outcome(&self, before: usize, seconds: u64) -> TransferOutcome {
        let endpoint = self
            .net
            .node::<SctpHost<MessageSource>>(self.source)
            .endpoint();
        let id = endpoint.associations().next().expect("it survives");
        let association = endpoint.association(id).expect("it exists");
        TransferOutcome {
            mbits: (self.sink().bytes - before) as f64 * 8.0 / seconds as f64 / 1e6,
            stats: association.stats(),
            paths: association.paths().collect(),
        }
    }
}

/// Adds a sender and a receiver on two hosts.
pub(crate) fn add_pair(
    net: &mut NetworkBuilder,
    hosts: [NodeId; 2],
    addresses: &[Vec<IpAddr>; 2],
    configs: [&AssociationConfig; 2],
    (seed, unordered, limit, start_ms): (u64, bool, u64, u64),
) {
    let endpoint = |n: usize| {
        let seed = [n as u8 + 1 + 2 * seed as u8; 32];
        let mut endpoint = EndpointConfig::new(PORT, addresses[n].clone(), seed);
        endpoint.association = configs[n].clone();
        Endpoint::new(endpoint).expect("a valid configuration")
    };
    let source = MessageSource {
        peers: addresses[1].clone(),
        config: configs[0].clone(),
        start: Some(carrick_proto::Time::from_millis(start_ms)),
        options: SendOptions {
            unordered,
            ..SendOptions::default()
        },
        sent: 0,
        limit,
        closed: false,
    };
    net.set_node_program(hosts[0], Box::new(SctpHost::new(endpoint(0), source)));
    let sink = SctpHost::new(endpoint(1), MessageSink::default());
    net.set_node_program(hosts[1], Box::new(sink));
}

/// Returns a configuration with buffers that are not a limit.
pub(crate) fn config(policies: Policies) -> AssociationConfig {
    AssociationConfig::rfc9260().with(|c| {
        c.buffers.receive_buffer = 16 << 20;
        c.buffers.send_buffer = 16 << 20;
        c.research.policies = policies;
    })
}

/// Enables concurrent multipath.
pub(crate) fn concurrent(policies: Policies) -> Policies {
    Policies {
        multipath: Multipath::concurrent(),
        ..policies
    }
}
