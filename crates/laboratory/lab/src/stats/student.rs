//! Student's t distribution for integer degrees of freedom.
//!
//! For these the distribution function is a finite sum of powers of cos θ with θ = atan(t/√ν)
//! (Abramowitz and Stegun, 26.7.3 and 26.7.4), which needs neither tables nor the gamma function.

use std::f64::consts::PI;

/// Returns the probability that a variable with `degrees` of freedom (at least 1) is at most `t`.
pub fn t_cumulative(t: f64, degrees: usize) -> f64 {
    let theta = (t / (degrees.max(1) as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    let odd = degrees.max(1) % 2 == 1;
    // Terms cos θ · (2/3) cos² θ · (4/5) cos² θ … for odd, 1 · (1/2) cos² θ · (3/4) cos² θ … for even.
    let terms = degrees.max(1) / 2;
    let mut term = if odd { cos } else { 1.0 };
    let mut sum = 0.0;
    for i in 0..terms {
        sum += term;
        let k = 2 * i + usize::from(odd) + 1;
        term *= cos * cos * k as f64 / (k + 1) as f64;
    }
    let central = if odd {
        (theta + sin * sum) * 2.0 / PI
    } else {
        sin * sum
    };
    0.5 + central / 2.0
}

/// Returns the value that a variable with `degrees` of freedom (at least 1) exceeds with
/// probability 1 - `p`, for `p` between 0 and 1, both excluded.
pub fn t_quantile(p: f64, degrees: usize) -> f64 {
    if p < 0.5 {
        return -t_quantile(1.0 - p, degrees);
    }
    let mut high = 1.0;
    while t_cumulative(high, degrees) < p && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Bisection until the interval has the resolution of the number type.
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if t_cumulative(middle, degrees) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    low + (high - low) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_published_tables() {
        let table = [
            (1, 12.706_204_736),
            (2, 4.302_652_730),
            (3, 3.182_446_305),
            (4, 2.776_445_105),
            (9, 2.262_157_163),
            (10, 2.228_138_852),
            (29, 2.045_229_642),
            (99, 1.984_216_952),
            (1000, 1.962_339_081),
        ];
        for (degrees, expected) in table {
            let t = t_quantile(0.975, degrees);
            assert!((t - expected).abs() < 1e-8, "{degrees} degrees: {t}");
            assert!((t_quantile(0.025, degrees) + t).abs() < 1e-12);
        }
    }

    #[test]
    fn one_degree_of_freedom_is_a_cauchy_distribution() {
        for t in [-3.0_f64, 0.0, 0.5, 10.0] {
            let expected = 0.5 + t.atan() / PI;
            assert!((t_cumulative(t, 1) - expected).abs() < 1e-14);
        }
    }

    #[test]
    fn quantile_inverts_the_distribution() {
        for degrees in 1..60 {
            for p in [0.55, 0.8, 0.95, 0.995] {
                let back = t_cumulative(t_quantile(p, degrees), degrees);
                assert!((back - p).abs() < 1e-12, "{degrees} {p} {back}");
            }
        }
    }
}
