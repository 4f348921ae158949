//! Throughput of one association over 1 Gbit/s, by round-trip time and random loss, in virtual time:
//! RFC 9260's recovery and window with fixed buffers against today's with buffers that grow.
//!
//! ```text
//! cargo run --release -p carrick-lab --example long_links [SECONDS] [SEEDS]
//! ```
//!
//! A row without loss is one world, one with loss the mean of as many as there are seeds: a source that always has data, a link with a queue of one bandwidth-delay
//! product (at least 100 packets), and a sink that reads at once. The throughput is that of user data
//! from the start on, slow start included.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// What one world showed, or the mean of several.
#[derive(Clone, Copy, Default)]
struct Outcome {
    mbits: f64,
    timeouts: f64,
    retransmissions: f64,
}

impl Outcome {
    fn mean(outcomes: impl ExactSizeIterator<Item = Outcome>) -> Outcome {
        let count = outcomes.len() as f64;
        outcomes.fold(Outcome::default(), |sum, o| Outcome {
            mbits: sum.mbits + o.mbits / count,
            timeouts: sum.timeouts + o.timeouts / count,
            retransmissions: sum.retransmissions + o.retransmissions / count,
        })
    }
}

/// One world: who sends, over which link, and which losses.
struct World<'a> {
    config: &'a AssociationConfig,
    rtt_ms: u64,
    loss: f64,
    seed: u64,
}

fn run(world: &World<'_>, seconds: u64) -> Outcome {
    let World {
        config,
        rtt_ms,
        loss,
        seed,
    } = *world;
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
        timeouts: counters.t3_expirations as f64,
        retransmissions: (counters.fast_retransmissions + counters.timeout_retransmissions) as f64,
    }
}

fn argument(n: usize, default: u64) -> u64 {
    std::env::args().nth(n).map_or(default, |text| {
        text.parse()
            .expect("seconds of virtual time, then a number of seeds")
    })
}

fn variants() -> Vec<(&'static str, AssociationConfig)> {
    let buffers = AssociationConfig {
        receive_buffer: 128 << 20,
        send_buffer: 128 << 20,
        ..AssociationConfig::default()
    };
    let cubic = Policies {
        congestion: &Cubic,
        ..Policies::default()
    };
    let with = |policies| AssociationConfig {
        policies,
        ..buffers.clone()
    };
    vec![
        ("classic", AssociationConfig::default()),
        ("classic, 128 MiB", buffers.clone()),
        ("cubic, 128 MiB", with(cubic)),
        ("cubic and RACK, 128 MiB", with(Policies::modern())),
        ("modern", AssociationConfig::modern()),
    ]
}

fn main() {
    let (seconds, seeds) = (argument(1, 20), argument(2, 1));
    let variants = variants();
    let rows: Vec<(u64, f64)> = [1, 10, 50, 100, 300]
        .into_iter()
        .flat_map(|rtt| [(rtt, 0.0), (rtt, 0.001)])
        .collect();
    let mut worlds = Vec::new();
    for &(rtt_ms, loss) in &rows {
        let seeds = if loss > 0.0 { seeds } else { 1 };
        for (_, config) in &variants {
            worlds.extend((1..=seeds).map(|seed| World {
                config,
                rtt_ms,
                loss,
                seed,
            }));
        }
    }
    let done = AtomicUsize::new(0);
    let outcomes = parallel::run(worlds.len(), |n| {
        let outcome = run(&worlds[n], seconds);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        eprint!("\r{done} of {} worlds", worlds.len());
        outcome
    });
    eprintln!();
    println!("Mbit/s of user data over 1 Gbit/s in {seconds} s (T3 expirations, retransmissions)");
    println!("{seeds} seeds with loss");
    println!();
    print!("| RTT | loss |");
    for variant in &variants {
        print!(" {} |", variant.0);
    }
    println!("\n|---|---|{}", "---|".repeat(variants.len()));
    let mut outcomes = outcomes.into_iter();
    for (rtt, loss) in rows {
        print!("| {rtt} ms | {} % |", loss * 100.0);
        let seeds = if loss > 0.0 { seeds as usize } else { 1 };
        for _ in &variants {
            let of_seeds: Vec<Outcome> = outcomes.by_ref().take(seeds).collect();
            let o = Outcome::mean(of_seeds.into_iter());
            print!(
                " {:.1} ({:.0}, {:.0}) |",
                o.mbits, o.timeouts, o.retransmissions
            );
        }
        println!();
    }
}
