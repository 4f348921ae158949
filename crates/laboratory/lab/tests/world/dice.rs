//! Random choices of a world, with a separate stream of random numbers for each part.

use std::time::Duration;

use carrick_netsim::Random;

/// Parts of a world with independent random numbers: a change of one part does not affect another.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    WorldPlan,
    Topology,
    Outages,
    /// Settings of one side's associations.
    Settings(usize),
    /// Messages and operations of one side.
    Script(usize),
    /// Re-configurations requested by one side.
    Reconfigurations(usize),
    /// Re-configurations supported and permitted by one side.
    Grants(usize),
    /// Partial reliability of one side.
    Partial(usize),
    /// Extensions of one side beyond RFC 9260.
    Extensions(usize),
    /// Failover and path MTU discovery of one side.
    Failover(usize),
    /// Concurrent multipath on one side.
    Multipath(usize),
    /// Keys, protection and moves, for both sides.
    Extras,
    /// Settings changed by one side while the association is established.
    Tuning(usize),
    /// Sessions below both sides.
    Sessions,
    /// Links that mark packets, and their thresholds.
    Marking,
    /// Rate-based congestion control of one side.
    Pacing(usize),
    /// Moments of one side's handovers.
    Handovers(usize),
    /// Steps of the network after which a side may hand over.
    HandoverSteps,
    /// Hosts that follow their routes, and failures at their interfaces.
    Interfaces,
    /// World of failures.
    Failures,
}

/// A seeded source of choices.
pub(crate) struct Dice(Random);

impl Dice {
    pub(crate) fn new(seed: u64, part: Part) -> Self {
        let stream = match part {
            Part::WorldPlan => 0,
            Part::Topology => 1,
            Part::Outages => 2,
            Part::Settings(side) => 3 + side as u64,
            Part::Script(side) => 5 + side as u64,
            Part::Partial(side) => 20 + side as u64,
            Part::Extensions(side) => 7 + side as u64,
            Part::Failover(side) => 40 + side as u64,
            Part::Multipath(side) => 80 + side as u64,
            Part::Reconfigurations(side) => 60 + side as u64,
            Part::Grants(side) => 62 + side as u64,
            Part::Extras => 100,
            Part::Tuning(side) => 120 + side as u64,
            Part::Sessions => 140,
            Part::Marking => 150,
            Part::Pacing(side) => 151 + side as u64,
            Part::Handovers(side) => 160 + side as u64,
            Part::HandoverSteps => 162,
            Part::Interfaces => 164,
            Part::Failures => 170,
        };
        Self(Random::new(seed, stream))
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.0.chance(probability)
    }

    /// Returns a number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// Returns a size from `low` to `high`, both included.
    pub(crate) fn size(&mut self, low: usize, high: usize) -> usize {
        self.range(low as u64, high as u64) as usize
    }

    /// Returns a number between `low` (above 0) and `high`, log-uniformly distributed.
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

    /// Returns a time between `low` (above 0) and `high` milliseconds, log-uniformly distributed.
    pub(crate) fn log_millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.log_size(low as usize * 1000, high as usize * 1000) as u64)
    }

    /// Returns one of `choices`, which must not be empty.
    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.size(0, choices.len() - 1)].clone()
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.size(0, i));
        }
    }
}
