//! A world from every seed: two hosts, a random network between them, random programs on them.
//!
//! Each world has one to four addresses a side (IPv4, IPv6 or both, SCTP over IP or in UDP), links
//! and routers with random rates, delays, queues, loss up to 20 %, reordering, duplication and
//! corruption, paths that die and come back, addresses that vanish, random parameters and policies
//! on both sides, and programs that send messages of 1 byte to 1 MiB on many streams, read slowly
//! and meddle with the paths: primaries of both sides, thresholds, ways in UDP and over IP. A third of the
//! links mark what passes a few waiting packets. Keys change, chunks are sealed, associations are over
//! sessions of a protocol below SCTP, a side moves to another address or gets another UDP port from a
//! translator. It ends by SHUTDOWN from either or both sides, by ABORT, by a restart of one side, or by the
//! death of the network. What must hold:
//!
//! - every message that was taken arrives exactly once, whole, and ordered within its stream; in
//!   worlds that don't end gracefully, no message twice, none out of order, and each one that did
//!   not arrive is told to its sender as failed (what a restarted side forgot is exempt);
//! - buffers keep their bounds: the receive buffer, with one chunk of slack; the send buffer; the
//!   number of events at one moment;
//! - the association ends on both sides, no association, no session and no timer is left, and nothing
//!   hangs; where one side alone has sessions, none begins;
//! - counters agree: packets sent and received, nothing damaged on perfect links, no packet lost by
//!   the simulator itself;
//! - the same seed gives the same packets at the same nanoseconds (each tenth world runs twice).
//!
//! # Running
//!
//! ```text
//! cargo test -p carrick-lab --release --test world                                   200 worlds
//! CARRICK_WORLD_SEEDS=10000 cargo test -p carrick-lab --release --test world         10,000 worlds
//! CARRICK_WORLD_FIRST=5000 CARRICK_WORLD_SEEDS=100 cargo test ...                    5000 to 5099
//! ```
//!
//! # Replaying
//!
//! A failure prints its seed. That one world again, with everything it is made of, every call, event
//! and packet, and a capture for Wireshark:
//!
//! ```text
//! CARRICK_WORLD_SEED=1234 CARRICK_WORLD_CAPTURE=/tmp/1234.pcapng \
//!     cargo test -p carrick-lab --release --test world -- --nocapture
//! ```
// An oracle reads best as a table with a line for each case, and its traces are for people.
#![allow(
    clippy::format_push_string,
    clippy::match_bool,
    clippy::match_same_arms,
    clippy::match_wild_err_arm,
    clippy::needless_pass_by_value,
    clippy::needless_range_loop,
    clippy::unnested_or_patterns
)]

mod world {
    mod content;
    mod dice;
    mod extras;
    mod ledger;
    mod party;
    mod plan;
    mod protection;
    pub(crate) mod run;
    mod script;
    mod sessions;
    mod settings;
    mod topology;
    mod trace;
    mod tuning;
    mod upheaval;

    pub(crate) use ledger::Seen;
}

use std::collections::BTreeMap;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use carrick_lab::parallel;
use world::Seen;
use world::run::{Report, Watch, run};

/// Worlds that run when nobody says how many.
const DEFAULT_SEEDS: u64 = 200;

/// Every so many worlds one runs twice.
const TWICE_EVERY: u64 = 10;

/// From so many worlds on, every way to end must have occurred, and every extension in its share of them.
const ENOUGH: u64 = 600;

#[test]
fn every_message_arrives_once_and_every_association_ends() {
    if let Some(seed) = number("CARRICK_WORLD_SEED") {
        return replay(seed);
    }
    let first = number("CARRICK_WORLD_FIRST").unwrap_or(0);
    let count = number("CARRICK_WORLD_SEEDS").unwrap_or(DEFAULT_SEEDS);
    let (done, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let results = with_progress(count, &done, &failures, || {
        parallel::run(count as usize, |i| {
            let seed = first + i as u64;
            let result = judged(seed);
            done.fetch_add(1, Ordering::Relaxed);
            match result {
                Ok(report) => Some(report),
                Err(failure) => {
                    say(&format!("seed {seed}: {failure}\n"));
                    failures.lock().expect("no panic").push(seed);
                    None
                }
            }
        })
    });
    let failures = failures.into_inner().expect("no panic");
    summarize(first, count, &results);
    assert!(
        failures.is_empty(),
        "{} of {count} worlds failed; replay one with CARRICK_WORLD_SEED=n, n of {failures:?}",
        failures.len()
    );
    if count >= ENOUGH {
        met_everything(&results);
    }
}

/// Runs a world, some twice; a panic in it is a failure like others.
fn judged(seed: u64) -> Result<Report, String> {
    let twice = seed.is_multiple_of(TWICE_EVERY);
    let once = || {
        let watch = Watch {
            hash: twice,
            ..Watch::default()
        };
        catch_unwind(AssertUnwindSafe(|| run(seed, watch)))
            .unwrap_or_else(|panic| Err(format!("panic: {}", text(panic.as_ref()))))
    };
    let report = once()?;
    if twice && once()?.hash != report.hash {
        return Err("the same seed gave other packets".into());
    }
    Ok(report)
}

fn replay(seed: u64) {
    let capture = std::env::var_os("CARRICK_WORLD_CAPTURE").map(PathBuf::from);
    let watch = Watch {
        verbose: true,
        capture: capture.as_deref(),
        hash: true,
    };
    let result = run(seed, watch);
    let report = result.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    println!(
        "seed {seed}: good, {} after {:.3} s, {} packets, trace {:016x}",
        report.ending, report.seconds, report.packets, report.hash
    );
}

/// Runs `work` and says every two seconds how far it is.
fn with_progress<T>(
    count: u64,
    done: &AtomicUsize,
    failures: &Mutex<Vec<u64>>,
    work: impl FnOnce() -> T,
) -> T {
    /// Ends the reports, also when the work ends by a panic.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Over(&over);
        scope.spawn(|| {
            let mut ticks = 0_u32;
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(100));
                ticks += 1;
                if ticks.is_multiple_of(20) {
                    let (done, bad) = (
                        done.load(Ordering::Relaxed),
                        failures.lock().map_or(0, |list| list.len()),
                    );
                    say(&format!("{done} of {count} worlds, {bad} failed\n"));
                }
            }
        });
        work()
    })
}

/// A kind of thing that happens in worlds.
struct Met {
    name: &'static str,
    /// How often it happened, in how many worlds, and in how many of a thousand it has to.
    sum: u64,
    worlds: u64,
    least: u64,
}

fn met(results: &[Option<Report>]) -> Vec<Met> {
    let begun = |(name, least, _)| Met {
        name,
        sum: 0,
        worlds: 0,
        least,
    };
    let mut all: Vec<Met> = Seen::default().named().map(begun).into();
    for report in results.iter().flatten() {
        let mut seen = report.seen;
        for (met, (_, _, count)) in all.iter_mut().zip(seen.named()) {
            met.sum += *count;
            met.worlds += u64::from(*count > 0);
        }
    }
    all
}

fn summarize(first: u64, count: u64, results: &[Option<Report>]) {
    let mut endings: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut packets, mut hours) = (0, 0.0);
    for report in results.iter().flatten() {
        *endings.entry(report.ending).or_default() += 1;
        packets += report.packets;
        hours += report.seconds / 3600.0;
    }
    let facts: Vec<String> = met(results)
        .iter()
        .map(|met| format!("{} {} ({} worlds)", met.sum, met.name, met.worlds))
        .collect();
    say(&format!(
        "seeds {first} to {}: {endings:?}, {packets} packets, {hours:.1} hours of virtual time; {}\n",
        first + count - 1,
        facts.join(", ")
    ));
}

/// Tests that met nothing prove nothing, and those that met it once in a thousand worlds little.
fn met_everything(results: &[Option<Report>]) {
    for ending in ["shutdown", "abort", "restart", "death"] {
        let met = results.iter().flatten().any(|r| r.ending == ending);
        assert!(met, "no world ended by {ending}");
    }
    for met in met(results) {
        // Rounded down: what is rare is not asked for in a few worlds.
        let least = met.least * results.len() as u64 / 1000;
        assert!(
            met.worlds >= least,
            "{} in {} of {} worlds, not {least}",
            met.name,
            met.worlds,
            results.len()
        );
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{variable} is '{text}': give a whole number"),
    }
}

/// Past the test harness, which would keep it until the end.
fn say(line: &str) {
    // Without a standard error there is nobody to tell.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let known = panic.downcast_ref::<String>().cloned();
    known
        .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "of an unknown kind".into())
}
