//! One association over 1 Gbit/s: a source that always has data, a link with a queue of one
//! bandwidth-delay product, and a sink that reads at once. The tests include this file, too.

use std::net::IpAddr;
use std::time::Duration;

use carrick_hosts::sctp::SctpHost;
use carrick_netsim::{LinkConfig, Loss, NetworkBuilder, NodeId, Queue, Time};
use carrick_proto::research::Policies;
use carrick_proto::{AssociationConfig, Endpoint, EndpointConfig};

use crate::bulk::{BulkSink, BulkSource};

const PORT: u16 = 5001;
const RATE: u64 = 1_000_000_000;
const MESSAGE: usize = 16 << 10;

/// Result of one world, or the mean of several.
#[derive(Clone, Copy, Default)]
pub(crate) struct LinkOutcome {
    /// User data in Mbit/s.
    pub(crate) mbits: f64,
    pub(crate) timeouts: f64,
    pub(crate) retransmissions: f64,
}

impl LinkOutcome {
    pub(crate) fn mean(outcomes: impl ExactSizeIterator<Item = LinkOutcome>) -> LinkOutcome {
        let count = outcomes.len() as f64;
        outcomes.fold(LinkOutcome::default(), |sum, o| LinkOutcome {
            mbits: sum.mbits + o.mbits / count,
            timeouts: sum.timeouts + o.timeouts / count,
            retransmissions: sum.retransmissions + o.retransmissions / count,
        })
    }
}

/// Parameters of a world: configuration, link and loss.
pub(crate) struct LinkWorld<'a> {
    pub(crate) config: &'a AssociationConfig,
    pub(crate) rtt_ms: u64,
    pub(crate) loss: f64,
    pub(crate) seed: u64,
}

/// Returns RFC 9260's configuration with buffers of 128 MiB and these policies.
pub(crate) fn fixed_buffers(policies: Policies) -> AssociationConfig {
    AssociationConfig::rfc9260().with(|c| {
        c.buffers.receive_buffer = 128 << 20;
        c.buffers.send_buffer = 128 << 20;
        c.research.policies = policies;
    })
}

impl LinkWorld<'_> {
    pub(crate) fn run(&self, seconds: u64) -> LinkOutcome {
        let LinkWorld {
            config,
            rtt_ms,
            loss,
            seed,
        } = *self;
        let addresses: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let mut net = NetworkBuilder::new(seed);
        let hosts = ["source", "sink"].map(|name| net.add_host(name));
        let interfaces = [0, 1].map(|n| net.add_interface(hosts[n], [addresses[n]]));
        let product = RATE / 8 * rtt_ms / 1000;
        let link = LinkConfig {
            queue: Queue::packets(usize::try_from(product / 1500).expect("small").max(100)),
            loss: if loss > 0.0 {
                Loss::Random(loss)
            } else {
                Loss::None
            },
            ..LinkConfig::new(RATE, Duration::from_micros(rtt_ms * 500))
        };
        net.connect_both(interfaces[0], interfaces[1], link);
        let endpoint = |port, n: usize| {
            let mut endpoint = EndpointConfig::new(port, vec![addresses[n]], [n as u8 + 1; 32]);
            endpoint.association = config.clone();
            Endpoint::new(endpoint).expect("a valid configuration")
        };
        let source = BulkSource::new((addresses[1], PORT), config.clone(), MESSAGE);
        let [a, b]: [NodeId; 2] = hosts;
        net.set_node_program(a, Box::new(SctpHost::new(endpoint(5000, 0), source)));
        net.set_node_program(
            b,
            Box::new(SctpHost::new(endpoint(PORT, 1), BulkSink::default())),
        );
        let mut net = net.build().expect("a valid network");
        net.run_until(Time::from_millis(seconds * 1000));
        let bytes = net.node::<SctpHost<BulkSink>>(b).application().bytes;
        let sender = net.node::<SctpHost<BulkSource>>(a).endpoint();
        let id = sender.associations().next().expect("it survives");
        let counters = sender.association(id).expect("it exists").stats().counters;
        LinkOutcome {
            mbits: bytes as f64 * 8.0 / seconds as f64 / 1e6,
            timeouts: counters.t3_expirations as f64,
            retransmissions: counters.retransmissions as f64,
        }
    }
}
