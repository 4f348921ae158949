//! State of a [`Loss`] model.

use super::config::Loss;
use crate::rng::Random;

/// A loss model with its state.
#[derive(Debug)]
pub(crate) struct LossState {
    model: Loss,
    /// Packets seen since the model was set.
    count: u64,
    /// The state of a Gilbert-Elliott model.
    bad: bool,
}

impl LossState {
    pub(crate) fn new(mut model: Loss) -> Self {
        if let Loss::List(numbers) = &mut model {
            numbers.sort_unstable();
        }
        Self {
            model,
            count: 0,
            bad: false,
        }
    }

    /// Returns whether the next packet is lost.
    pub(crate) fn next(&mut self, random: &mut Random) -> bool {
        self.count += 1;
        match &self.model {
            Loss::None => false,
            Loss::Random(p) => random.chance(*p),
            Loss::GilbertElliott(model) => {
                let change = if self.bad {
                    model.p_bad_to_good
                } else {
                    model.p_good_to_bad
                };
                self.bad ^= random.chance(change);
                random.chance(if self.bad {
                    model.loss_bad
                } else {
                    model.loss_good
                })
            }
            Loss::Every(n) => self.count.is_multiple_of(*n),
            Loss::List(numbers) => numbers.binary_search(&self.count).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::config::GilbertElliott;

    const SEED: u64 = 0x5C7B;

    fn losses(model: Loss, n: usize) -> Vec<bool> {
        let mut state = LossState::new(model);
        let mut random = Random::new(SEED, 0);
        (0..n).map(|_| state.next(&mut random)).collect()
    }

    fn numbers(model: Loss, n: usize) -> Vec<usize> {
        let lost = losses(model, n);
        (1..=n).filter(|number| lost[number - 1]).collect()
    }

    #[test]
    fn chosen_packets_are_lost() {
        assert_eq!(numbers(Loss::Every(3), 10), [3, 6, 9]);
        assert_eq!(numbers(Loss::List(vec![7, 1, 2]), 10), [1, 2, 7]);
        assert!(numbers(Loss::None, 10).is_empty());
        assert_eq!(numbers(Loss::Random(1.0), 3), [1, 2, 3]);
    }

    #[test]
    fn random_loss_has_its_ratio() {
        // Four standard deviations of a binomial count: 4·√(100000·0.01·0.99) = 126.
        let lost = numbers(Loss::Random(0.01), 100_000).len();
        assert!((874..=1126).contains(&lost), "{lost} lost, seed {SEED}");
    }

    #[test]
    fn bursts_have_their_mean_length_and_total() {
        let n = 1_000_000;
        let lost = losses(Loss::GilbertElliott(GilbertElliott::bursts(0.02, 5.0)), n);
        let total = lost.iter().filter(|lost| **lost).count();
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let mean = total as f64 / bursts as f64;
        assert!((mean - 5.0).abs() < 0.3, "mean burst {mean}, seed {SEED}");
        let ratio = total as f64 / n as f64;
        assert!((ratio - 0.02).abs() < 0.002, "loss {ratio}, seed {SEED}");
    }

    #[test]
    fn each_state_has_its_own_loss_probability() {
        // Stays: 2/3 good, 1/3 bad. Expected loss 2/3·0.03 + 1/3·0.3 = 0.12.
        let model = GilbertElliott {
            p_good_to_bad: 0.1,
            p_bad_to_good: 0.2,
            loss_good: 0.03,
            loss_bad: 0.3,
        };
        let lost = numbers(Loss::GilbertElliott(model), 200_000).len();
        let ratio = lost as f64 / 200_000.0;
        assert!((ratio - 0.12).abs() < 0.005, "loss {ratio}, seed {SEED}");
    }
}
