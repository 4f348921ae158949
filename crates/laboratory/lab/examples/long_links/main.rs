//! Throughput of one association over 1 Gbit/s, by round-trip time and random loss, in virtual
//! time: recovery and windows of RFC 9260 with fixed buffers, compared with current algorithms and
//! automatic buffer sizes.
//!
//! ```text
//! cargo run --release -p carrick-lab --example long_links [SECONDS] [SEEDS]
//! ```
//!
//! A row without loss is one world; a row with loss is the mean over the seeds. A world has a
//! source that always has data, a link with a queue of one bandwidth-delay product (at least 100
//! packets), and a sink that reads at once. The throughput is that of user data from the start,
//! including slow start.

mod bulk;
mod link;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use carrick_lab::parallel;
use carrick_proto::AssociationConfig;
use carrick_proto::cc::Cubic;
use carrick_proto::research::Policies;

use link::{LinkOutcome, LinkWorld, fixed_buffers};

fn argument(n: usize, default: u64) -> u64 {
    std::env::args().nth(n).map_or(default, |text| {
        text.parse()
            .expect("seconds of virtual time, then a number of seeds")
    })
}

fn variants() -> Vec<(&'static str, AssociationConfig)> {
    let cubic = Policies {
        congestion: Arc::new(Cubic),
        ..Policies::default()
    };
    let repeating = Policies {
        repeated_fast_retransmit: true,
        ..cubic.clone()
    };
    vec![
        ("classic", AssociationConfig::rfc9260()),
        ("classic, 128 MiB", fixed_buffers(Policies::default())),
        ("cubic, 128 MiB", fixed_buffers(cubic)),
        ("cubic, repeating, 128 MiB", fixed_buffers(repeating)),
        ("cubic and RACK, 128 MiB", fixed_buffers(Policies::modern())),
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
            worlds.extend((1..=seeds).map(|seed| LinkWorld {
                config,
                rtt_ms,
                loss,
                seed,
            }));
        }
    }
    let done = AtomicUsize::new(0);
    let outcomes = parallel::run(worlds.len(), |n| {
        let outcome = worlds[n].run(seconds);
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
            let of_seeds: Vec<LinkOutcome> = outcomes.by_ref().take(seeds).collect();
            let o = LinkOutcome::mean(of_seeds.into_iter());
            print!(
                " {:.1} ({:.0}, {:.0}) |",
                o.mbits, o.timeouts, o.retransmissions
            );
        }
        println!();
    }
}
