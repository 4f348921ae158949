//! Distributions of message sizes and of the times between messages.

use carrick_netsim::Random;
use serde::{Deserialize, Serialize};

/// Syntax of distributions, for errors.
const SYNTAX: &str =
    "expected VALUE, constant:VALUE, uniform:MIN:MAX, exponential:MEAN or pareto:SHAPE:MIN";

/// Distribution of bytes or seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Distribution {
    Constant(f64),
    Uniform {
        min: f64,
        max: f64,
    },
    Exponential {
        mean: f64,
    },
    /// Its mean is min × shape / (shape - 1).
    Pareto {
        shape: f64,
        min: f64,
    },
}

impl Distribution {
    /// Parses a distribution, whose values `value` parses.
    pub(super) fn parse(
        text: &str,
        value: impl Fn(&str) -> Result<f64, String>,
    ) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let parsed = match parts[..] {
            [constant] | ["constant", constant] => Self::Constant(value(constant)?),
            ["uniform", min, max] => Self::Uniform {
                min: value(min)?,
                max: value(max)?,
            },
            ["exponential", mean] => Self::Exponential { mean: value(mean)? },
            ["pareto", shape, min] => Self::Pareto {
                shape: shape
                    .parse()
                    .map_err(|_| format!("SHAPE of pareto: {shape:?} is not a number"))?,
                min: value(min)?,
            },
            _ => return Err(SYNTAX.into()),
        };
        parsed.check()?;
        Ok(parsed)
    }

    /// Checks that the parameters describe a distribution with a finite mean and without negative values.
    pub(super) fn check(&self) -> Result<(), String> {
        let positive = |value: f64| value.is_finite() && value >= 0.0;
        match *self {
            Self::Constant(value) if positive(value) => Ok(()),
            Self::Exponential { mean } if positive(mean) => Ok(()),
            Self::Uniform { min, max } if positive(min) && positive(max) => {
                let is_range = min <= max;
                let wrong = "MIN of uniform exceeds MAX";
                is_range.then_some(()).ok_or_else(|| wrong.into())
            }
            Self::Pareto { shape, min } if positive(min) => {
                let is_finite = shape.is_finite() && shape > 1.0;
                let wrong = "SHAPE of pareto must exceed 1, else the mean is infinite";
                is_finite.then_some(()).ok_or_else(|| wrong.into())
            }
            _ => Err("must not be negative or infinite".into()),
        }
    }

    /// Draws a value. A constant draws no random number.
    pub(super) fn draw(&self, random: &mut Random) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Uniform { min, max } => min + (max - min) * random.uniform(),
            Self::Exponential { mean } => -mean * (1.0 - random.uniform()).ln(),
            Self::Pareto { shape, min } => min * (1.0 - random.uniform()).powf(-1.0 / shape),
        }
    }

    pub(super) fn mean(&self) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Uniform { min, max } => f64::midpoint(min, max),
            Self::Exponential { mean } => mean,
            Self::Pareto { shape, min } => min * shape / (shape - 1.0),
        }
    }

    /// Returns the minimum of the values that the user has given.
    pub(super) fn min_given(&self) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Uniform { min, .. } | Self::Pareto { min, .. } => min,
            Self::Exponential { mean } => mean,
        }
    }

    /// Returns the maximum of the values that the user has given.
    pub(super) fn max_given(&self) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Uniform { max, .. } => max,
            Self::Pareto { min, .. } => min,
            Self::Exponential { mean } => mean,
        }
    }

    /// Returns the value if it is constant.
    pub(super) fn constant(&self) -> Option<f64> {
        match *self {
            Self::Constant(value) => Some(value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Distribution, String> {
        let number = |text: &str| {
            let wrong = |_| format!("{text:?} is not a number");
            text.parse::<f64>().map_err(wrong)
        };
        Distribution::parse(text, number)
    }

    #[test]
    fn each_distribution_has_its_syntax() {
        assert_eq!(parse("7"), Ok(Distribution::Constant(7.0)));
        assert_eq!(parse("constant:7"), parse("7"));
        assert_eq!(
            parse("uniform:1:2"),
            Ok(Distribution::Uniform { min: 1.0, max: 2.0 })
        );
        assert_eq!(
            parse("exponential:3"),
            Ok(Distribution::Exponential { mean: 3.0 })
        );
        assert_eq!(
            parse("pareto:1.5:20"),
            Ok(Distribution::Pareto {
                shape: 1.5,
                min: 20.0
            })
        );
        for (text, error) in [
            ("normal:1:2", "expected VALUE, constant:VALUE"),
            ("uniform:1", "expected VALUE, constant:VALUE"),
            ("exponential:1:2", "expected VALUE, constant:VALUE"),
            ("uniform:2:1", "MIN of uniform exceeds MAX"),
            ("pareto:1:20", "SHAPE of pareto must exceed 1"),
            ("pareto:x:20", "SHAPE of pareto: \"x\" is not a number"),
            ("pareto:NaN:20", "SHAPE of pareto must exceed 1"),
            ("exponential:-1", "must not be negative"),
            ("constant:inf", "must not be negative or infinite"),
            ("", "\"\" is not a number"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(error), "{text}: {refused}");
        }
    }

    const DRAWS: usize = 40_000;

    /// Draws sorted values with a fixed seed.
    fn drawn(distribution: Distribution) -> Vec<f64> {
        let mut random = Random::new(7, 1);
        let mut values: Vec<f64> = (0..DRAWS).map(|_| distribution.draw(&mut random)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The mean is within four standard errors of the expected one.
    #[test]
    fn the_means_are_those_of_the_distributions() {
        let deviation_of_uniform = 1300.0 / 12_f64.sqrt();
        // The variance of a Pareto distribution: min² × shape / ((shape - 1)² × (shape - 2)).
        let deviation_of_pareto = (9.0 * 4.0 / (9.0 * 2.0_f64)).sqrt();
        for (text, mean, deviation) in [
            ("uniform:100:1400", 750.0, deviation_of_uniform),
            ("exponential:20", 20.0, 20.0),
            ("pareto:4:3", 4.0, deviation_of_pareto),
        ] {
            let distribution = parse(text).unwrap();
            assert!((distribution.mean() - mean).abs() < 1e-9, "{text}");
            let sample = drawn(distribution).iter().sum::<f64>() / DRAWS as f64;
            let bound = 4.0 * deviation / (DRAWS as f64).sqrt();
            assert!((sample - mean).abs() < bound, "{text}: {sample} ± {bound}");
        }
    }

    /// The share of values below each quantile is within four standard errors.
    #[test]
    fn the_quantiles_are_those_of_the_distributions() {
        let quantile = |text: &str, p: f64| match text {
            "uniform:100:1400" => 100.0 + 1300.0 * p,
            "exponential:20" => -20.0 * (1.0 - p).ln(),
            _ => 3.0 * (1.0 - p).powf(-1.0 / 1.5),
        };
        for text in ["uniform:100:1400", "exponential:20", "pareto:1.5:3"] {
            let values = drawn(parse(text).unwrap());
            for p in [0.01, 0.1, 0.5, 0.9, 0.99] {
                let below = values.partition_point(|v| *v < quantile(text, p));
                let share = below as f64 / DRAWS as f64;
                let bound = 4.0 * (p * (1.0 - p) / DRAWS as f64).sqrt();
                assert!((share - p).abs() < bound, "{text} {p}: {share} ± {bound}");
            }
        }
    }

    #[test]
    fn constants_draw_no_random_number() {
        let mut random = Random::new(1, 1);
        let mut untouched = random.clone();
        let constant = Distribution::Constant(5.0);
        assert!((constant.draw(&mut random) - 5.0).abs() < f64::EPSILON);
        assert_eq!(random.next_u64(), untouched.next_u64());
    }
}
