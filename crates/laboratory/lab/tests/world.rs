//! Random worlds: two hosts, a random network between them, and random programs on them. In a separate
//! binary, which the checks run with many seeds and which takes one seed to repeat a failure.
//!
//! Each world has one to four addresses per side (IPv4, IPv6 or both, SCTP over IP or in UDP),
//! links and routers with random rates, delays, queues, loss up to 20 %, reordering, duplication
//! and corruption, paths that fail and recover, addresses that are removed, random parameters and
//! policies on both sides, and programs that send messages of 1 byte to 1 MiB on many streams, read
//! slowly and change path settings: primary paths of both sides, thresholds, UDP encapsulation or
//! plain IP. A third of the links mark packets above a short queue. Keys change, chunks are
//! protected, associations run over sessions of a protocol below SCTP, and a side moves to another
//! address or gets another UDP port from a NAT. A world ends by SHUTDOWN of either or both sides,
//! by ABORT, by a restart of one side, or by a permanent failure of the network. The following must
//! hold:
//!
//! - every accepted message arrives exactly once, complete, and ordered within its stream; in
//!   worlds without a graceful end, no message arrives twice or out of order, and each message that
//!   did not arrive is reported to its sender as failed (except by a side that restarted);
//! - buffers keep their limits: the receive buffer, with one chunk of tolerance; the send buffer;
//!   the number of events at one moment;
//! - the association ends on both sides, no association, session or timer is left, and no world
//!   stalls; if only one side has sessions, no association is established;
//! - counters agree: packets sent and received, no corrupted packet on perfect links, no packet
//!   lost by the simulator itself;
//! - the same seed gives the same packets at the same nanoseconds, whether endpoints hand over or not
//!   (every tenth world runs twice, without and with handovers; every second world has handovers).
//!
//! # Running
//!
//! ```text
//! cargo test -p carrick-lab --release --test world                                   200 worlds
//! CARRICK_WORLD_SEEDS=10000 cargo test -p carrick-lab --release --test world         10,000 worlds
//! CARRICK_WORLD_FIRST=5000 CARRICK_WORLD_SEEDS=100 cargo test ...                    5000 to 5099
//! ```
//!
//! # Worlds of failures
//!
//! A second kind of worlds has the recommended configuration and hosts that route as real hosts do:
//! by destination or by source, with interfaces that go down at one end, neighbours that do not
//! answer, packets that are dropped or rejected in one direction, and routes that move. While one pair
//! of addresses works in both directions, no message may be later than a bound (`longest_wait` in
//! `world/failures.rs`):
//!
//! ```text
//! cargo test -p carrick-lab --release --test world later_than -- --ignored
//! ```
//!
//! # Replaying
//!
//! A failure prints its seed. This command runs that world again, and prints its parameters, every
//! call, event and packet; it writes a capture for Wireshark. With `CARRICK_WORLD_HANDOVERS=1`, endpoints
//! hand over:
//!
//! ```text
//! CARRICK_WORLD_SEED=1234 CARRICK_WORLD_CAPTURE=/tmp/1234.pcapng \
//!     cargo test -p carrick-lab --release --test world -- --nocapture
//! ```
// An oracle is most readable as a table with a line per case, and its traces are for readers.
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
    mod disruption;
    mod extras;
    pub(crate) mod failures;
    mod handover;
    mod interface_failure;
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

    pub(crate) use ledger::EventCounts;
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
use world::EventCounts;
use world::run::{Report, WorldOptions, run};

/// Number of worlds by default.
const DEFAULT_SEEDS: u64 = 200;

/// Interval of the worlds that run twice.
const TWICE_EVERY: u64 = 10;

/// Interval of the worlds without handovers; those that run twice are among them.
const HANDOVERS_NOT_EVERY: u64 = 2;

/// Number of worlds above which every ending must have occurred, and every extension in its
/// proportion of the worlds.
const ENOUGH: u64 = 600;

#[test]
fn messages_arrive_once_and_associations_end() {
    if let Some(seed) = number("CARRICK_WORLD_SEED") {
        return replay(seed);
    }
    let first = number("CARRICK_WORLD_FIRST").unwrap_or(0);
    let count = number("CARRICK_WORLD_SEEDS").unwrap_or(DEFAULT_SEEDS);
    let (done, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let results = with_progress(count, &done, &failures, || {
        parallel::run(count as usize, |i| {
            let seed = first + i as u64;
            let result = run_checked(seed);
            done.fetch_add(1, Ordering::Relaxed);
            match result {
                Ok(report) => Some(report),
                Err(failure) => {
                    print_line(&format!("seed {seed}: {failure}\n"));
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
        assert_coverage(&results);
    }
}

/// No message is lost, repeated, out of order, or later than its bound.
#[test]
fn messages_are_in_time_while_planes_fail() {
    if let Some(seed) = number("CARRICK_WORLD_SEED") {
        let report = world::failures::run(seed, true);
        let report = report.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        return println!("seed {seed}: good, {report:?}");
    }
    let first = number("CARRICK_WORLD_FIRST").unwrap_or(0);
    let count = number("CARRICK_WORLD_SEEDS").unwrap_or(DEFAULT_SEEDS);
    let results = parallel::run(count as usize, |i| {
        let seed = first + i as u64;
        let run = || world::failures::run(seed, false);
        let result = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(format!("panic: {}", text(panic.as_ref()))));
        result.map_err(|failure| {
            print_line(&format!("seed {seed}: {failure}\n"));
            seed
        })
    });
    let failures: Vec<u64> = results
        .iter()
        .filter_map(|r| r.as_ref().err())
        .copied()
        .collect();
    let (mut messages, mut hours, mut returns) = (0, 0.0, 0);
    for report in results.iter().flatten() {
        messages += report.messages;
        hours += report.seconds / 3600.0;
        returns += report.returns;
    }
    print_line(&format!(
        "seeds {first} to {}: {messages} messages, {hours:.1} hours of virtual time, {returns} pairs of \
         addresses began to work\n",
        first + count - 1
    ));
    assert!(
        failures.is_empty(),
        "{} of {count} worlds failed; replay one with CARRICK_WORLD_SEED=n, n of {failures:?}",
        failures.len()
    );
    assert!(
        messages > 0 && returns > 0,
        "no world has a message and a failure"
    );
}

/// Runs a world, some of them twice; a panic is a failure.
fn run_checked(seed: u64) -> Result<Report, String> {
    let twice = seed.is_multiple_of(TWICE_EVERY);
    let once = |hands_over: bool| {
        let watch = WorldOptions {
            hash: twice,
            hands_over,
            ..WorldOptions::default()
        };
        catch_unwind(AssertUnwindSafe(|| run(seed, watch)))
            .unwrap_or_else(|panic| Err(format!("panic: {}", text(panic.as_ref()))))
    };
    let report = once(!seed.is_multiple_of(HANDOVERS_NOT_EVERY))?;
    if twice && once(true)?.hash != report.hash {
        return Err("the same seed gave different packets with handovers".into());
    }
    Ok(report)
}

fn replay(seed: u64) {
    let capture = std::env::var_os("CARRICK_WORLD_CAPTURE").map(PathBuf::from);
    let watch = WorldOptions {
        verbose: true,
        capture: capture.as_deref(),
        hash: true,
        hands_over: number("CARRICK_WORLD_HANDOVERS") == Some(1),
    };
    let result = run(seed, watch);
    let report = result.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    println!(
        "seed {seed}: good, {} after {:.3} s, {} packets, trace {:016x}",
        report.ending, report.seconds, report.packets, report.hash
    );
}

/// Runs `work` and reports its progress every two seconds.
fn with_progress<T>(
    count: u64,
    done: &AtomicUsize,
    failures: &Mutex<Vec<u64>>,
    work: impl FnOnce() -> T,
) -> T {
    /// Ends the progress reports, also if `work` panics.
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
                    print_line(&format!("{done} of {count} worlds, {bad} failed\n"));
                }
            }
        });
        work()
    })
}

/// Coverage of a type of event.
struct Coverage {
    name: &'static str,
    /// Number of events, number of worlds with one, and minimum of these in a thousand.
    sum: u64,
    worlds: u64,
    least: u64,
}

fn coverage(results: &[Option<Report>]) -> Vec<Coverage> {
    let begun = |(name, least, _)| Coverage {
        name,
        sum: 0,
        worlds: 0,
        least,
    };
    let mut all: Vec<Coverage> = EventCounts::default().named().map(begun).into();
    for report in results.iter().flatten() {
        let mut seen = report.seen;
        for (coverage, (_, _, count)) in all.iter_mut().zip(seen.named()) {
            coverage.sum += *count;
            coverage.worlds += u64::from(*count > 0);
        }
    }
    all
}

fn summarize(first: u64, count: u64, results: &[Option<Report>]) {
    let mut endings: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut packets, mut hours, mut handovers) = (0, 0.0, 0);
    for report in results.iter().flatten() {
        *endings.entry(report.ending).or_default() += 1;
        packets += report.packets;
        hours += report.seconds / 3600.0;
        handovers += report.handovers;
    }
    let facts: Vec<String> = coverage(results)
        .iter()
        .map(|coverage| {
            format!(
                "{} {} ({} worlds)",
                coverage.sum, coverage.name, coverage.worlds
            )
        })
        .collect();
    print_line(&format!(
        "seeds {first} to {}: {endings:?}, {packets} packets, {hours:.1} hours of virtual time; {handovers} handovers, {}\n",
        first + count - 1,
        facts.join(", ")
    ));
}

/// Asserts the coverage: a test without an event proves nothing about it, and one event in a
/// thousand worlds little.
fn assert_coverage(results: &[Option<Report>]) {
    let hand_over = results.iter().flatten().any(|r| r.handovers > 0);
    assert!(hand_over, "no world hands over");
    for ending in ["shutdown", "abort", "restart", "death"] {
        let coverage = results.iter().flatten().any(|r| r.ending == ending);
        assert!(coverage, "no world ended by {ending}");
    }
    for coverage in coverage(results) {
        // Rounded down, so that rare events are not required in a few worlds.
        let least = coverage.least * results.len() as u64 / 1000;
        assert!(
            coverage.worlds >= least,
            "{} in {} of {} worlds, not {least}",
            coverage.name,
            coverage.worlds,
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

/// Writes to the standard error directly, because the test harness would delay it until the end.
fn print_line(line: &str) {
    // A missing standard error is ignored.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let known = panic.downcast_ref::<String>().cloned();
    known
        .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "of an unknown type".into())
}
