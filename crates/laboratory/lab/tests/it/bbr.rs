//! BBR in virtual time: links with random losses, queues, and flows at a shared bottleneck. `--nocapture` prints
//! the rates of docs/extensions.md.

use std::sync::Arc;
use std::time::Duration;

use carrick_lab::parallel;
use carrick_netsim::Time;
use carrick_proto::PathId;
use carrick_proto::cc::{Algorithm, Bbr, Cubic, Rfc9260};
use carrick_proto::research::Policies;

use crate::multipath::fairness::{jain, share};
use crate::multipath::support::{Path, Transfer};

fn policies(congestion: Arc<dyn Algorithm>) -> Policies {
    Policies {
        congestion,
        ..Policies::modern()
    }
}

fn bbr() -> Policies {
    policies(Arc::new(Bbr))
}

/// A path with 10 Mbit/s and a round-trip time of 40 ms.
fn transfer(policies: Policies, loss: f64, queue: usize) -> Transfer {
    let path = Path {
        queue,
        ..Path::new(10, 20).lossy(loss)
    };
    Transfer::new(policies, &[path])
}

#[test]
fn random_losses_do_not_slow_bbr() {
    println!("| loss | bbr | cubic |");
    println!("|---|---|---|");
    for (loss, least) in [(0.0, 9.0), (0.001, 9.0), (0.01, 8.5)] {
        let rates = [bbr(), Policies::modern()]
            .map(|policies| transfer(policies, loss, 100).measure(5, 35).mbits);
        println!("| {} % | {:.2} | {:.2} |", loss * 100.0, rates[0], rates[1]);
        assert!(rates[0] >= least, "{loss}: {}", rates[0]);
    }
}

/// 100 Mbit/s with an RTT of 50 ms, and losses in a third of the round trips. Headers take 3.2 % of the link, pacing
/// 1 %, and probes of the RTT 2.2 %.
#[test]
fn rare_losses_do_not_slow_bbr_on_a_long_path() {
    let path = Path {
        queue: 417,
        ..Path::new(100, 25).lossy(0.001)
    };
    let outcome = Transfer::new(bbr(), &[path]).measure(1, 21);
    println!("{:.2} Mbit/s", outcome.mbits);
    assert!(outcome.mbits >= 92.0, "{}", outcome.mbits);
}

/// draft-ietf-ccwg-bbr-06, section 3.2
#[test]
fn the_queue_stays_below_a_bandwidth_delay_product() {
    let mut world = transfer(bbr(), 0.0, 100).build();
    for seconds in 5..15 {
        world.net.run_until(Time::from_secs(seconds));
        let srtt = world.path(PathId(0)).srtt.expect("measured");
        assert!(srtt < Duration::from_millis(80), "{srtt:?} of 40 ms");
    }
}

/// A queue of a tenth of the bandwidth-delay product loses packets, but few.
#[test]
fn a_shallow_queue_loses_little() {
    let outcome = transfer(bbr(), 0.0, 5).measure(5, 35);
    let lost = outcome.stats.counters.fast_retransmissions as f64;
    let sent = outcome.mbits * 1e6 / 8.0 * 30.0 / 1452.0;
    println!(
        "{:.2} Mbit/s, {:.2} % lost",
        outcome.mbits,
        100.0 * lost / sent
    );
    assert!(outcome.mbits >= 8.0, "{}", outcome.mbits);
    assert!(lost <= 0.02 * sent, "{lost} of {sent}");
}

/// Rates in Mbit/s of two flows at a bottleneck of 10 Mbit/s, means of four seeds.
fn shares(flows: &[Policies; 2]) -> [f64; 2] {
    let all = parallel::run(4, |seed| share(flows.clone(), [1, 1], seed as u64 + 1));
    [0, 1].map(|flow| all.iter().map(|rates| rates[flow]).sum::<f64>() / all.len() as f64)
}

#[test]
fn flows_at_a_bottleneck_get_a_share_each() {
    println!("| first | second | Mbit/s | Mbit/s | index |");
    println!("|---|---|---|---|---|");
    let rfc9260 = || policies(Arc::new(Rfc9260));
    let cubic = || policies(Arc::new(Cubic));
    for (names, flows, least) in [
        (["bbr", "bbr"], [bbr(), bbr()], 0.9),
        (["bbr", "cubic"], [bbr(), cubic()], 0.7),
        (["bbr", "rfc9260"], [bbr(), rfc9260()], 0.7),
    ] {
        let rates = shares(&flows);
        let index = jain(rates);
        let [first, second] = rates;
        println!(
            "| {} | {} | {first:.2} | {second:.2} | {index:.3} |",
            names[0], names[1]
        );
        assert!(index >= least, "{names:?}: {rates:?}");
        assert!(first + second >= 9.0, "{names:?}: {rates:?}");
    }
}
