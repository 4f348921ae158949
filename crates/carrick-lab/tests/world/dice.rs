//! Random choices of a world, each part of it with a stream of its own.

use std::time::Duration;

use carrick_netsim::Random;

/// Parts of a world that draw independently: a change to one leaves the others as they were.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Plan,
    Topology,
    Outages,
    /// Settings of one side's associations.
    Settings(usize),
    /// Messages and operations of one side.
    Script(usize),
    /// Re-configurations that one side asks for.
    Wishes(usize),
    /// What one side offers and grants of re-configuration.
    Grants(usize),
    /// What one side may give up.
    Partial(usize),
    /// What one side offers beyond RFC 9260.
    Extensions(usize),
    /// Failover and path MTU discovery of one side.
    Failover(usize),
    /// Several paths at once on one side.
    Multipath(usize),
    /// Keys, protection, and what moves: for both sides.
    Extras,
    /// What one side sets while the association is up.
    Tuning(usize),
    /// Sessions below both sides.
    Sessions,
    /// Which links mark packets, and when.
    Marking,
    /// Rate-based congestion control of one side.
    Pacing(usize),
}

/// A seeded source of choices.
pub(crate) struct Dice(Random);

impl Dice {
    pub(crate) fn new(seed: u64, part: Part) -> Self {
        let stream = match part {
            Part::Plan => 0,
            Part::Topology => 1,
            Part::Outages => 2,
            Part::Settings(side) => 3 + side as u64,
            Part::Script(side) => 5 + side as u64,
            Part::Partial(side) => 20 + side as u64,
            Part::Extensions(side) => 7 + side as u64,
            Part::Failover(side) => 40 + side as u64,
            Part::Multipath(side) => 80 + side as u64,
            Part::Wishes(side) => 60 + side as u64,
            Part::Grants(side) => 62 + side as u64,
            Part::Extras => 100,
            Part::Tuning(side) => 120 + side as u64,
            Part::Sessions => 140,
            Part::Marking => 150,
            Part::Pacing(side) => 151 + side as u64,
        };
        Self(Random::new(seed, stream))
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.0.chance(probability)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// As [`Self::range`], for sizes.
    pub(crate) fn size(&mut self, low: usize, high: usize) -> usize {
        self.range(low as u64, high as u64) as usize
    }

    /// A number between `low` (above 0) and `high`, every order of magnitude as likely.
    pub(crate) fn log_size(&mut self, low: usize, high: usize) -> usize {
        let ratio = high as f64 / low as f64;
        let value = low as f64 * ratio.powf(self.0.uniform());
        (value as usize).clamp(low, high)
    }

    pub(crate) fn probability_up_to(&mut self, high: f64) -> f64 {
        self.0.uniform() * high
    }

    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.range(low, high))
    }

    /// A time between `low` (above 0) and `high` milliseconds, every order of magnitude as likely.
    pub(crate) fn log_millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.log_size(low as usize * 1000, high as usize * 1000) as u64)
    }

    /// One of `choices`, which must not be empty.
    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.size(0, choices.len() - 1)].clone()
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.size(0, i));
        }
    }
}
