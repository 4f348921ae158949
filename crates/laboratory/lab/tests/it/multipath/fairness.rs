//! Fairness of an association over two paths to a flow on one path at a shared bottleneck.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick_hosts::sctp::SctpHost;
use carrick_lab::parallel;
use carrick_netsim::{HostRouting, LinkConfig, NetworkBuilder, Queue, Time};
use carrick_proto::AssociationConfig;
use carrick_proto::cc::{Algorithm, CmtRpV1, CmtRpV2, Lia, Olia, Rfc9260};
use carrick_proto::research::Policies;

use super::support::{MessageSink, add_pair, concurrent, config};

const SEEDS: u64 = 4;
const WARM_UP: u64 = 10;
const SECONDS: u64 = 60;
const BOTTLENECK: u64 = 10_000_000;

/// Returns the rates in Mbit/s of two associations with these numbers of paths through a bottleneck with a queue
/// of 60 packets, 1.2 bandwidth-delay products.
pub(crate) fn share(policies: [Policies; 2], paths: [u8; 2], seed: u64) -> [f64; 2] {
    let mut net = NetworkBuilder::new(seed);
    let [near, far] = ["near", "far"].map(|name| net.add_router(name));
    let ends = [near, far].map(|router| net.add_interface(router, []));
    let bottleneck =
        LinkConfig::new(BOTTLENECK, Duration::from_millis(20)).with_queue(Queue::packets(60));
    net.connect_both(ends[0], ends[1], bottleneck);
    let configs: [AssociationConfig; 2] = policies.map(config);
    let mut sinks = Vec::new();
    for (flow, paths) in paths.into_iter().enumerate() {
        let hosts = ["source", "sink"].map(|name| net.add_host(format!("{name}-{flow}")));
        let mut addresses = [Vec::new(), Vec::new()];
        for path in 0..paths {
            for (n, router) in [near, far].into_iter().enumerate() {
                let ip = IpAddr::from([10, flow as u8, path, n as u8 + 1]);
                let at_host = net.add_interface(hosts[n], [ip]);
                let at_router = net.add_interface(router, []);
                // Every run has different delays.
                let delay = Duration::from_micros(500 + 137 * seed * (1 + u64::from(path)));
                let access = LinkConfig::new(100_000_000, delay);
                net.connect_both(at_host, at_router, access);
                addresses[n].push(ip);
            }
        }
        let start = if flow == 0 { 0 } else { 500 + 97 * seed };
        let both = [&configs[flow], &configs[flow]];
        let other = (seed + 100 * flow as u64, false, u64::MAX, start);
        add_pair(&mut net, hosts, &addresses, both, other);
        net.set_routing(hosts[0], HostRouting::PreferSource);
        net.set_routing(hosts[1], HostRouting::PreferSource);
        sinks.push(hosts[1]);
    }
    let mut net = net.build().expect("a valid network");
    net.run_until(Time::from_secs(WARM_UP));
    let bytes = |net: &carrick_netsim::Network| {
        [0, 1].map(|n| {
            net.node::<SctpHost<MessageSink>>(sinks[n])
                .application()
                .bytes
        })
    };
    let before = bytes(&net);
    net.run_until(Time::from_secs(WARM_UP + SECONDS));
    let after = bytes(&net);
    [0, 1].map(|n| (after[n] - before[n]) as f64 * 8.0 / SECONDS as f64 / 1e6)
}

/// Jain's index of two rates: 1 if they are equal, 1/2 if one is zero.
pub(crate) fn jain([a, b]: [f64; 2]) -> f64 {
    (a + b).powi(2) / (2.0 * (a * a + b * b))
}

/// Results of all seeds.
struct Shares {
    /// Rates averaged over the seeds, and their index.
    rates: [f64; 2],
    index: f64,
    /// Mean and minimum of the index over the seeds.
    mean: f64,
    lowest: f64,
}

fn shares(congestion: &Arc<dyn Algorithm>, base: fn() -> Policies) -> Shares {
    let all = parallel::run(SEEDS as usize, |seed| {
        let policies = Policies {
            congestion: congestion.clone(),
            ..concurrent(base())
        };
        let single = Policies {
            congestion: Arc::new(Rfc9260),
            ..base()
        };
        share([policies, single], [2, 1], seed as u64 + 1)
    });
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / all.len() as f64;
    let indexes: Vec<f64> = all.iter().map(|rates| jain(*rates)).collect();
    let rates = [0, 1].map(|n| mean(&mut all.iter().map(|rates| rates[n])));
    Shares {
        rates,
        index: jain(rates),
        mean: mean(&mut indexes.iter().copied()),
        lowest: indexes.iter().copied().fold(1.0, f64::min),
    }
}

#[test]
#[ignore = "long (./test.sh --long simulations)"]
fn coupled_paths_share_a_bottleneck_fairly() {
    let coupled: [Arc<dyn Algorithm>; 4] = [
        Arc::new(CmtRpV1),
        Arc::new(CmtRpV2),
        Arc::new(Lia),
        Arc::new(Olia),
    ];
    println!("| recovery | congestion control | two paths | one path | index | mean | lowest |");
    println!("|---|---|---|---|---|---|---|");
    for (recovery, base) in [
        ("RFC 9260", Policies::default as fn() -> Policies),
        ("RACK", Policies::modern),
    ] {
        let show = |name: &str, s: &Shares| {
            let [two, one] = s.rates;
            let indexes = format!("{:.3} | {:.3} | {:.3}", s.index, s.mean, s.lowest);
            println!("| {recovery} | {name} | {two:.2} | {one:.2} | {indexes} |");
        };
        let uncoupled = shares(&Policies::default().congestion, base);
        show("uncoupled", &uncoupled);
        assert!(uncoupled.index < 0.93, "two flows get two shares");
        assert!(uncoupled.rates[0] > 1.6 * uncoupled.rates[1]);
        for algorithm in &coupled {
            let name = algorithm.name();
            let shares = shares(algorithm, base);
            show(name, &shares);
            assert!(shares.index >= 0.95, "{name}: {}", shares.index);
            // Single runs with LIA are close to the limit.
            let least = if name == Lia.name() { 0.94 } else { 0.95 };
            assert!(shares.mean >= least, "{name}: {}", shares.mean);
        }
    }
}
