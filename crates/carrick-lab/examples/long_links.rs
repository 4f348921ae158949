//! Throughput of one association over 1 Gbit/s, by round-trip time and random loss, in virtual time:
//! RFC 9260's recovery and window with fixed buffers against today's with buffers that grow.
//!
//! ```text
//! cargo run --release -p carrick-lab --example long_links [SECONDS]
//! ```
//!
//! A row is one world: a source that always has data, a link with a queue of one bandwidth-delay
//! product (at least 100 packets), and a sink that reads at once. The throughput is that of user data
//! from the start on, slow start included.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_lab::parallel;
use carrick_lab::sctp_host::{Application, SctpHost};
use carrick_netsim::{LinkConfig, Loss, NetworkBuilder, NodeId, Queue, Time};
use carrick_proto::congestion::Cubic;
use carrick_proto::policy::Policies;
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event, SendError, SendOptions,
};

const PORT: u16 = 5001;
const RATE: u64 = 1_000_000_000;
const MESSAGE: usize = 16 << 10;

/// Connects at the start and sends whatever the buffer takes.
struct Source {
    peer: IpAddr,
    config: AssociationConfig,
    start: Option<carrick_proto::Time>,
    message: Bytes,
}

impl Source {
    fn fill(&self, now: carrick_proto::Time, endpoint: &mut Endpoint, id: AssociationId) {
        loop {
            let options = SendOptions::default();
            match endpoint.send(now, id, options, self.message.clone()) {
                Ok(()) => {}
                Err(SendError::BufferFull) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl Application for Source {
    fn next_timer(&self) -> Option<carrick_proto::Time> {
        self.start
    }

    fn on_timer(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint) {
        self.start = None;
        endpoint
            .connect(now, &[self.peer], PORT, None, self.config.clone())
            .expect("a good address");
    }

    fn on_event(
        &mut self,
        now: carrick_proto::Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        event: Event,
    ) {
        if matches!(event, Event::Established { .. } | Event::SendBufferFree) {
            self.fill(now, endpoint, id);
        }
    }
}

/// Counts what arrives.
#[derive(Default)]
struct Sink {
    bytes: usize,
}

impl Application for Sink {
    fn on_readable(&mut self, _: carrick_proto::Time, endpoint: &mut Endpoint, id: AssociationId) {
        while let Some(message) = endpoint.receive(id) {
            self.bytes += message.payload.len();
        }
    }
}

/// What one world showed.
struct Outcome {
    mbits: f64,
    timeouts: u64,
    retransmissions: u64,
}

fn run(config: &AssociationConfig, rtt_ms: u64, loss: f64, seconds: u64) -> Outcome {
    let addresses: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let mut net = NetworkBuilder::new(rtt_ms);
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
        Endpoint::new(endpoint).expect("a good configuration")
    };
    let source = Source {
        peer: addresses[1],
        config: config.clone(),
        start: Some(carrick_proto::Time::ZERO),
        message: Bytes::from(vec![0; MESSAGE]),
    };
    let [a, b]: [NodeId; 2] = hosts;
    net.set_node_program(a, Box::new(SctpHost::new(endpoint(5000, 0), source)));
    net.set_node_program(
        b,
        Box::new(SctpHost::new(endpoint(PORT, 1), Sink::default())),
    );
    let mut net = net.build().expect("a good network");
    net.run_until(Time::from_millis(seconds * 1000));
    let bytes = net.node::<SctpHost<Sink>>(b).application().bytes;
    let sender = net.node::<SctpHost<Source>>(a).endpoint();
    let id = sender.associations().next().expect("it survives");
    let counters = sender.association_stats(id).expect("it exists").counters;
    Outcome {
        mbits: bytes as f64 * 8.0 / seconds as f64 / 1e6,
        timeouts: counters.t3_expirations,
        retransmissions: counters.fast_retransmissions + counters.timeout_retransmissions,
    }
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(20, |text| {
        text.parse().expect("a number of seconds of virtual time")
    });
    let buffers = AssociationConfig {
        receive_buffer: 128 << 20,
        send_buffer: 128 << 20,
        ..AssociationConfig::default()
    };
    let variants = [
        ("classic", AssociationConfig::default()),
        ("classic, 128 MiB", buffers.clone()),
        (
            "cubic, 128 MiB",
            AssociationConfig {
                policies: Policies {
                    congestion: &Cubic,
                    ..Policies::default()
                },
                ..buffers
            },
        ),
        ("modern", AssociationConfig::modern()),
    ];
    println!("Mbit/s of user data over 1 Gbit/s in {seconds} s (T3 expirations, retransmissions)");
    println!();
    print!("| RTT | loss |");
    for variant in &variants {
        print!(" {} |", variant.0);
    }
    println!("\n|---|---|{}", "---|".repeat(variants.len()));
    let rows: Vec<(u64, f64)> = [1, 10, 50, 100, 300]
        .into_iter()
        .flat_map(|rtt| [(rtt, 0.0), (rtt, 0.001)])
        .collect();
    let worlds: Vec<(u64, f64, &AssociationConfig)> = rows
        .iter()
        .flat_map(|&(rtt, loss)| variants.iter().map(move |v| (rtt, loss, &v.1)))
        .collect();
    let outcomes = parallel::run(worlds.len(), |n| {
        let (rtt, loss, config) = worlds[n];
        run(config, rtt, loss, seconds)
    });
    for (row, outcomes) in rows.iter().zip(outcomes.chunks(variants.len())) {
        print!("| {} ms | {} % |", row.0, row.1 * 100.0);
        for o in outcomes {
            print!(" {:.1} ({}, {}) |", o.mbits, o.timeouts, o.retransmissions);
        }
        println!();
    }
}
