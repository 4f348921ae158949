//! Throughput of one association over 1 Gbit/s: some cells of the table in docs/extensions.md, in
//! virtual time. `--nocapture` prints them.

#[path = "../../examples/long_links/link.rs"]
mod link;

use std::sync::Arc;

use carrick_lab::parallel;
use carrick_proto::AssociationConfig;
use carrick_proto::cc::Bbr;
use carrick_proto::research::Policies;

use link::{LinkOutcome, LinkWorld, fixed_buffers};

const LINK_MBITS: f64 = 1000.0;

/// Returns the mean over these seeds.
fn carried(
    config: &AssociationConfig,
    rtt_ms: u64,
    loss: f64,
    seconds: u64,
    seeds: u64,
) -> LinkOutcome {
    let outcomes = parallel::run(seeds as usize, |n| {
        let seed = 1 + n as u64;
        let world = LinkWorld {
            config,
            rtt_ms,
            loss,
            seed,
        };
        world.run(seconds)
    });
    let mean = LinkOutcome::mean(outcomes.into_iter());
    println!(
        "{rtt_ms} ms, {loss}: {:.1} Mbit/s, {:.2} timeouts, {:.0} retransmissions",
        mean.mbits, mean.timeouts, mean.retransmissions
    );
    mean
}

#[test]
#[ignore = "long (./test.sh --long simulations)"]
fn default_settings_fill_a_link_of_100_ms() {
    let [modern, classic] = [AssociationConfig::modern(), AssociationConfig::rfc9260()]
        .map(|config| carried(&config, 100, 0.0, 20, 1));
    assert!(modern.mbits >= 0.8 * LINK_MBITS, "{}", modern.mbits);
    assert!(modern.timeouts < 0.5, "slow start ends without a timeout");
    assert!(modern.mbits >= 10.0 * classic.mbits, "{}", classic.mbits);
}

#[test]
#[ignore = "long (./test.sh --long simulations)"]
fn bbr_fills_a_link_of_100_ms_with_losses() {
    let config = AssociationConfig::modern().with(|c| {
        c.research.policies.congestion = Arc::new(Bbr);
    });
    let bbr = carried(&config, 100, 0.01, 10, 1);
    assert!(bbr.mbits >= 0.5 * LINK_MBITS, "{}", bbr.mbits);
    assert!(bbr.timeouts < 0.5, "{}", bbr.timeouts);
}

#[test]
fn cubic_with_rack_gains_with_the_round_trip_time() {
    for (rtt_ms, gain) in [(100, 1.4), (300, 1.8)] {
        let classic = carried(&AssociationConfig::rfc9260(), rtt_ms, 0.001, 20, 10);
        for today in [
            AssociationConfig::modern(),
            fixed_buffers(Policies::modern()),
        ] {
            let today = carried(&today, rtt_ms, 0.001, 20, 10);
            let times = today.mbits / classic.mbits;
            assert!(times >= gain, "{rtt_ms} ms: {times:.2} times");
            assert!(today.timeouts < 0.05, "{}", today.timeouts);
        }
    }
}
