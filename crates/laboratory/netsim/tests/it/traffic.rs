//! Rates of sources and measurements of sinks.

use crate::common;

use std::time::Duration;

use carrick_netsim::traffic::{
    DurationDistribution, FlowReport, Pattern, TrafficSink, TrafficSource, TrafficStream,
};
use carrick_netsim::{ConfigError, LinkConfig, Loss, NetworkBuilder, Random, Time};
use common::{ip, with_seed};

const MS: Duration = Duration::from_millis(1);

/// Runs streams over one link for 100 s and returns the reports of flows 0, 1, ….
fn run(seed: u64, link: LinkConfig, patterns: &[(usize, Pattern)]) -> Vec<FlowReport> {
    let mut builder = NetworkBuilder::new(seed);
    let a = builder.add_host("a");
    let b = builder.add_host("b");
    let near = builder.add_interface(a, [ip("10.0.0.1")]);
    let far = builder.add_interface(b, [ip("10.0.0.2")]);
    builder.connect_both(near, far, link);
    let streams = patterns
        .iter()
        .zip(0..)
        .map(|((wire_len, pattern), flow)| TrafficStream {
            flow,
            stop: Time::from_secs(100),
            ..TrafficStream::new(ip("10.0.0.1"), ip("10.0.0.2"), *wire_len, *pattern)
        });
    let source = TrafficSource::new(streams, builder.node_random(a)).expect("valid streams");
    builder.set_node_program(a, Box::new(source));
    builder.set_node_program(b, Box::new(TrafficSink::new()));
    let mut net = builder.build().expect("a valid network");
    net.run_while(|_| true);
    net.node::<TrafficSink>(b)
        .flows()
        .map(|(_, report)| report.clone())
        .collect()
}

#[test]
fn constant_rates_are_exact_over_any_time() {
    // 7 bytes over 3 kbit/s would drift if intervals were rounded: 100 s contain 300000/(53·8).
    let pattern = Pattern::Constant { rate: 3_000 };
    let reports = run(1, LinkConfig::delay(MS), &[(53, pattern), (1000, pattern)]);
    assert_eq!(reports[0].packets, 708);
    let last = Duration::from_nanos((707 * 53 * 8 * 1_000_000_000_u64).div_ceil(3_000));
    assert_eq!(reports[0].last, Time::ZERO + last + MS);
    assert_eq!(reports[1].packets, 38);
    let rate = reports[1].rate().expect("many packets");
    assert!((rate - 3_000.0).abs() < 0.01, "{rate}");
}

#[test]
fn random_patterns_have_their_mean_rates() {
    with_seed(31, |seed| {
        let poisson = Pattern::Poisson { rate: 800_000 };
        let on_off = |on, off| Pattern::OnOff {
            rate: 4_000_000,
            on,
            off,
        };
        let exponential = on_off(
            DurationDistribution::Exponential(100 * MS),
            DurationDistribution::Exponential(300 * MS),
        );
        let pareto = on_off(
            DurationDistribution::Pareto {
                mean: 100 * MS,
                shape: 1.9,
            },
            DurationDistribution::Pareto {
                mean: 300 * MS,
                shape: 1.9,
            },
        );
        let fixed = on_off(
            DurationDistribution::Fixed(100 * MS),
            DurationDistribution::Fixed(300 * MS),
        );
        let patterns = [poisson, exponential, pareto, fixed].map(|pattern| (1000, pattern));
        let reports = run(seed, LinkConfig::default(), &patterns);
        let rates: Vec<f64> = reports
            .iter()
            .map(|r| r.bytes as f64 * 8.0 / 100.0)
            .collect();
        assert!((rates[0] / 800_000.0 - 1.0).abs() < 0.05, "{rates:?}");
        assert!((rates[1] / 1_000_000.0 - 1.0).abs() < 0.25, "{rates:?}");
        assert!((rates[2] / 1_000_000.0 - 1.0).abs() < 0.4, "{rates:?}");
        // 50 packets in each of 250 bursts.
        assert_eq!(reports[3].packets, 12_500);
    });
}

#[test]
fn sinks_count_losses_and_delays() {
    let link = LinkConfig::new(1_000_000, 20 * MS).with_loss(Loss::Every(10));
    let pattern = Pattern::Constant { rate: 800_000 };
    let report = run(1, link, &[(1000, pattern)]).remove(0);
    // 10000 packets were sent; the last one is lost, so it is not counted as missing.
    assert_eq!((report.packets, report.missing()), (9_000, 999));
    assert_eq!(report.bytes, 9_000_000);
    assert_eq!(report.mean_delay(), Some(28 * MS));
    assert_eq!((report.max_delay, report.reordered), (28 * MS, 0));
}

#[test]
fn invalid_streams_are_rejected() {
    let source = |pattern| {
        let stream = TrafficStream::new(ip("10.0.0.1"), ip("10.0.0.2"), 100, pattern);
        TrafficSource::new([stream], Random::new(1, 0)).err()
    };
    assert_eq!(
        source(Pattern::Poisson { rate: 0 }),
        Some(ConfigError::ZeroRate)
    );
    let pareto = Pattern::OnOff {
        rate: 1,
        on: DurationDistribution::Pareto {
            mean: MS,
            shape: 1.0,
        },
        off: DurationDistribution::Fixed(MS),
    };
    assert_eq!(source(pareto), Some(ConfigError::ParetoShape(1.0)));
}
