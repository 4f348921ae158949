//! Properties of the crate over random input: what is built is what is parsed, hostile bytes
//! harm nothing, serial numbers wrap.
//!
//! The seed is fixed, so that a run repeats the last one; `PROPTEST_RNG_SEED` and
//! `PROPTEST_CASES` choose another seed and more cases.

mod extensions;
mod hostile;
mod pieces;
mod round_trip;
mod serial;
#[path = "../support/walk.rs"]
mod walk;

use proptest::test_runner::{Config, RngSeed};

/// The settings of every property; prints the seed, which the test runner shows on failure.
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
