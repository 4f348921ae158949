//! Statistics of measurements: means with confidence intervals, quantiles and fairness.

mod student;

pub use student::{t_cumulative, t_quantile};

/// Mean of a sample with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half width of the 95 % confidence interval of the mean, from Student's t with n - 1 degrees
    /// of freedom; `None` for a single value.
    pub ci95: Option<f64>,
}

impl Summary {
    /// Computes the summary of `values`; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mean = mean(values)?;
        let n = values.len();
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let ci95 = (n > 1).then(|| {
            let std_dev = (squares / (n - 1) as f64).sqrt();
            t_quantile(0.975, n - 1) * std_dev / (n as f64).sqrt()
        });
        Some(Self { mean, ci95 })
    }
}

/// Returns the arithmetic mean; `None` if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A sample in ascending order, for quantiles.
#[derive(Clone, Debug)]
pub struct Sorted(Vec<f64>);

impl Sorted {
    /// Sorts `values`; NaNs are removed.
    pub fn new(mut values: Vec<f64>) -> Self {
        values.retain(|v| !v.is_nan());
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// Returns the values in ascending order.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// Returns the quantile at `p` (0 to 1), interpolated linearly between the two nearest order
    /// statistics (definition 7 of Hyndman and Fan); `None` if there are no values.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let position = p.clamp(0.0, 1.0) * last as f64;
        let below = position.floor() as usize;
        let above = (below + 1).min(last);
        let share = position - below as f64;
        Some(self.0[below] + (self.0[above] - self.0[below]) * share)
    }

    /// Returns the empirical distribution as at most `limit` (two or more) points (value,
    /// proportion of values up to it), always including the smallest and the largest value.
    pub fn distribution(&self, limit: usize) -> Vec<(f64, f64)> {
        let n = self.0.len();
        let limit = limit.max(2);
        let index = |i: usize, points: usize| i * (n - 1) / (points - 1).max(1);
        let points = n.min(limit);
        (0..points)
            .map(|i| index(i, points))
            .map(|k| (self.0[k], (k + 1) as f64 / n as f64))
            .collect()
    }
}

/// Returns Jain's fairness index of `shares`: 1 if all are equal, 1/n if one has everything; `None`
/// if there are no shares or all are zero.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|s| s * s).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn summaries_use_students_t() {
        let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!(close(summary.mean, 5.0));
        let expected = 2.364_624_251_592_785 * (32.0_f64 / 7.0).sqrt() / 8.0_f64.sqrt();
        assert!(close(summary.ci95.unwrap(), expected));
    }

    #[test]
    fn one_value_has_no_interval_and_none_no_mean() {
        let one = Summary::of(&[3.0]).unwrap();
        assert_eq!(one.ci95, None);
        assert!(Summary::of(&[]).is_none());
    }

    #[test]
    fn quantiles_interpolate() {
        let sorted = Sorted::new(vec![40.0, 10.0, f64::NAN, 30.0, 20.0]);
        assert_eq!(sorted.values(), [10.0, 20.0, 30.0, 40.0]);
        let q = |p| sorted.quantile(p).unwrap();
        assert!(close(q(0.0), 10.0) && close(q(1.0), 40.0));
        assert!(close(q(0.5), 25.0) && close(q(0.25), 17.5) && close(q(0.9), 37.0));
        assert!(Sorted::new(vec![]).quantile(0.5).is_none());
    }

    #[test]
    fn a_distribution_keeps_its_ends_when_thinned() {
        let sorted = Sorted::new((1..=1000).map(f64::from).collect());
        let points = sorted.distribution(11);
        assert_eq!(points.len(), 11);
        assert!(close(points[0].0, 1.0) && close(points[0].1, 0.001));
        assert!(close(points[10].0, 1000.0) && close(points[10].1, 1.0));
        assert_eq!(Sorted::new(vec![7.0]).distribution(5), [(7.0, 1.0)]);
        assert!(Sorted::new(vec![]).distribution(5).is_empty());
    }

    #[test]
    fn jains_index_spans_one_to_one_nth() {
        assert!(close(jain(&[3.0, 3.0, 3.0]).unwrap(), 1.0));
        assert!(close(jain(&[1.0, 0.0, 0.0, 0.0]).unwrap(), 0.25));
        assert!(close(jain(&[1.0, 2.0, 3.0]).unwrap(), 36.0 / 42.0));
        assert!(jain(&[]).is_none() && jain(&[0.0]).is_none());
    }
}
