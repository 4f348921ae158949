//! Random worlds: all layers over SCTP associations of the protocol core, through a simulated network.
//!
//! A central host has two peers, each over two paths with random delays and loss. Paths and whole associations fail,
//! hosts restart, layer management moves ASPs and stops links. The following must hold:
//!
//! - M3UA, SUA, M2UA and IUA: no message arrives twice (but at both ASPs in broadcast mode), messages of an SLS, of a
//!   sequence control, of a link or of a data link keep their order within an association, and a message that does not
//!   arrive was in flight on an association that was lost, reached an ASP that was not active, or was discarded after
//!   T(r). In the end all arrives, and ASPs that share the load have a part of it each.
//! - M2PA: with a changeover to the other link, all messages arrive once and in order.
//!
//! ```text
//! CARRICK_WORLD_SEEDS=1000 cargo test -p carrick-sigtran --test it world      1,000 worlds of each layer
//! CARRICK_WORLD_FIRST=500 CARRICK_WORLD_SEEDS=1 cargo test ...                seed 500
//! ```

mod asps;
mod host;
mod layers;
mod m2pa;

use std::panic::{AssertUnwindSafe, catch_unwind};

use carrick_sigtran::iua::Iua;
use carrick_sigtran::m2ua::M2ua;
use carrick_sigtran::m3ua::M3ua;
use carrick_sigtran::sua::Sua;

pub(crate) use self::layers::WorldLayer;

/// Number of worlds of each layer by default.
const DEFAULT_SEEDS: u64 = 20;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a whole number"))
}

/// Runs the worlds of all seeds; names those that failed.
fn all_seeds<T>(run: impl Fn(u64) -> T) -> Vec<T> {
    let first = number("CARRICK_WORLD_FIRST").unwrap_or(0);
    let count = number("CARRICK_WORLD_SEEDS").unwrap_or(DEFAULT_SEEDS);
    let mut failed = Vec::new();
    let mut results = Vec::new();
    for seed in first..first + count {
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(result) => results.push(result),
            Err(_) => failed.push(seed),
        }
    }
    assert!(failed.is_empty(), "seeds {failed:?} failed");
    results
}

fn nothing_is_lost_but_what_was_in_flight<L: WorldLayer>() {
    let results = all_seeds(asps::run::<L>);
    println!("messages delivered, associations lost: {results:?}");
    assert!(results.iter().all(|(delivered, _)| *delivered > 0));
    assert!(results.iter().any(|(_, lost)| *lost > 10));
}

/// RFC 4666, section 4.3: failover over SCTP associations
#[test]
fn m3ua_loses_nothing_but_what_was_in_flight() {
    nothing_is_lost_but_what_was_in_flight::<M3ua>();
}

/// RFC 3868, section 4.3: failover over SCTP associations
#[test]
fn sua_loses_nothing_but_what_was_in_flight() {
    nothing_is_lost_but_what_was_in_flight::<Sua>();
}

/// RFC 3331, section 4.3: failover over SCTP associations
#[test]
fn m2ua_loses_nothing_but_what_was_in_flight() {
    nothing_is_lost_but_what_was_in_flight::<M2ua>();
}

/// RFC 4233, section 4.3: failover over SCTP associations
#[test]
fn iua_loses_nothing_but_what_was_in_flight() {
    nothing_is_lost_but_what_was_in_flight::<Iua>();
}

/// RFC 4165, section 4.2.3: changeover over SCTP associations
#[test]
fn m2pa_loses_nothing_in_changeovers() {
    let retrieved = all_seeds(m2pa::run);
    println!("messages retrieved: {retrieved:?}");
    assert!(retrieved.iter().any(|count| *count > 10));
}
