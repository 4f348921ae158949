//! Seeded randomness: one stream per link direction and per node.
//!
//! The generator is `ChaCha8` with the simulation's seed as its key. Each user has its own 64-bit
//! stream number, and streams of one key are independent by construction, so that an additional
//! packet on one link changes nothing on another. Generators without stream numbers (xoshiro, PCG)
//! would need seeds derived by hashing, without a guarantee that their sequences do not overlap.
//! The output is the same on every machine; draws that take a logarithm are only as reproducible as
//! the platform's `ln`.

use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::ids::{HalfId, NodeId};

/// Seeded random numbers with the distributions that a network simulation needs.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// Returns the stream numbered `stream` of `seed`. Streams are independent.
    ///
    /// Numbers from 2⁶² up are used by the network itself.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    pub(crate) fn for_half(seed: u64, half: HalfId) -> Self {
        Self::new(seed, (1 << 62) | u64::from(half.0))
    }

    pub(crate) fn for_node(seed: u64, node: NodeId) -> Self {
        Self::new(seed, (1 << 63) | u64::from(node.0))
    }

    /// Draws a uniform 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a uniform number in `0.0..1.0`, a multiple of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.next_u64() >> 11) as f64 * SCALE
    }

    /// Returns true with probability `p`; always for 1 and above, never for 0 and below.
    ///
    /// Draws a number only if the result is not certain, so that a disabled impairment has no cost.
    pub fn chance(&mut self, p: f64) -> bool {
        if p <= 0.0 {
            return false;
        }
        p >= 1.0 || self.uniform() < p
    }

    /// Draws a uniform number below `bound`, or 0 if `bound` is 0. The bias is below `bound`/2⁶⁴.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws a uniform duration from zero to `max`, both included.
    pub fn duration_up_to(&mut self, max: Duration) -> Duration {
        let max = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.below(max.saturating_add(1)))
    }

    /// Draws an exponentially distributed duration with the given mean.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        scale(mean, -(1.0 - self.uniform()).ln())
    }

    /// Draws a Pareto distributed duration with the given mean. `shape` must be above 1, else the
    /// mean is infinite and `mean` is used as the smallest value.
    pub fn pareto(&mut self, mean: Duration, shape: f64) -> Duration {
        let minimum = if shape > 1.0 {
            (shape - 1.0) / shape
        } else {
            1.0
        };
        scale(mean, minimum * (1.0 - self.uniform()).powf(-1.0 / shape))
    }

    /// Draws a number from the normal distribution with mean 0 and standard deviation 1
    /// (Marsaglia's polar method).
    pub fn standard_normal(&mut self) -> f64 {
        loop {
            let u = 2.0 * self.uniform() - 1.0;
            let v = 2.0 * self.uniform() - 1.0;
            let square = u * u + v * v;
            if square > 0.0 && square < 1.0 {
                return u * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }
}

/// Multiplies `duration` by a factor of at least 0, saturating at the maximum.
fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::from_nanos((duration.as_nanos() as f64 * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.next_u64(), random.next_u64()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn every_direction_and_node_has_its_own_stream() {
        let one_way_links = (0..100).map(|n| Random::for_half(7, HalfId(n)));
        let nodes = (0..100).map(|n| Random::for_node(7, NodeId(n)));
        let mut first: Vec<u64> = one_way_links
            .chain(nodes)
            .map(|mut r| r.next_u64())
            .collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 200);
    }

    #[test]
    fn certain_chances_draw_nothing() {
        let mut random = Random::new(1, 0);
        let mut untouched = random.clone();
        assert!(random.chance(1.0) && !random.chance(0.0));
        assert_eq!(random.next_u64(), untouched.next_u64());
    }

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(42, 0);
        let mean = Duration::from_millis(10);
        let n = 100_000_u32;
        let average =
            |draw: &mut dyn FnMut() -> f64| (0..n).map(|_| draw()).sum::<f64>() / f64::from(n);

        let exponential = average(&mut || random.exponential(mean).as_secs_f64());
        assert!((exponential - 0.010).abs() < 0.000_2, "{exponential}");
        let pareto = average(&mut || random.pareto(mean, 2.5).as_secs_f64());
        assert!((pareto - 0.010).abs() < 0.000_3, "{pareto}");
        let square = average(&mut || random.standard_normal().powi(2));
        assert!((square - 1.0).abs() < 0.02, "{square}");
        let uniform = average(&mut || random.duration_up_to(mean).as_secs_f64());
        assert!((uniform - 0.005).abs() < 0.000_1, "{uniform}");
    }
}
