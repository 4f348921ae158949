//! Tests of the public interface: the corpus of the parser, and properties over random input. Parsing returns
//! what was built, hostile bytes have no effect, serial numbers wrap.
//!
//! The seed of the properties is fixed, so that runs are repeatable; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` select another
//! seed and more cases.

mod corpus;
mod extensions;
mod hostile;
mod pieces;
mod round_trip;
mod serial;
#[path = "../support/walk.rs"]
mod walk;

use proptest::test_runner::{Config, RngSeed};

/// Settings of every property; prints the seed, which the test runner shows on failure.
fn config(cases: u32) -> Config {
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(9260);
    }
    config.cases = config.cases.max(cases);
    println!(
        "PROPTEST_RNG_SEED={} PROPTEST_CASES={}",
        config.rng_seed, config.cases
    );
    config
}
