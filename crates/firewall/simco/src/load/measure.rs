//! Response times.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Upper bound of recorded response times: ten minutes, in nanoseconds.
const LONGEST: u64 = 600_000_000_000;

/// Response times of one kind of transaction.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Nanoseconds with three significant digits.
    histogram: Histogram<u64>,
    sum: f64,
}

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1000, LONGEST, 3);
        Self {
            // The bounds are valid constants.
            histogram: histogram.unwrap_or_else(|_| unreachable!("valid bounds")),
            sum: 0.0,
        }
    }
}

impl Latency {
    /// Records a response time. Quantiles count times above ten minutes as ten minutes.
    pub fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(nanos.min(LONGEST));
        self.sum += time.as_secs_f64();
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the exact mean; `None` if nothing was recorded.
    pub fn mean(&self) -> Option<Duration> {
        let count = self.count();
        (count > 0).then(|| Duration::from_secs_f64(self.sum / count as f64))
    }

    /// Returns the quantile at `share` (0 to 1) with three significant digits; `None` if nothing was
    /// recorded.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let nanos = self.histogram.value_at_quantile(share);
        (self.count() > 0).then(|| Duration::from_nanos(nanos))
    }

    /// Adds the times of another recording.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        if self.histogram.add(&other.histogram).is_ok() {
            self.sum += other.sum;
        }
    }
}

/// Measurements since [`super::LoadGenerator::start_measuring`].
#[derive(Clone, Debug, Default)]
pub struct LoadMeasurements {
    /// Requests made. Each is answered, refused, timed out or outstanding.
    pub started: u64,
    /// Response times of PER.
    pub enable: Latency,
    /// Response times of refreshing PLC.
    pub refresh: Latency,
    /// Response times of closing PLC.
    pub close: Latency,
    /// Negative replies, including those to earlier requests.
    pub refused: u64,
    /// Timed-out requests, including earlier ones.
    pub timed_out: u64,
    /// Pinholes not requested because of the limit.
    pub suppressed: u64,
    /// Requests that the agent did not accept.
    pub not_taken: u64,
    /// Pinholes that ended before they were closed.
    pub expired: u64,
}

impl LoadMeasurements {
    /// Adds another measurement.
    pub fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.enable.add(&other.enable);
        self.refresh.add(&other.refresh);
        self.close.add(&other.close);
        self.refused += other.refused;
        self.timed_out += other.timed_out;
        self.suppressed += other.suppressed;
        self.not_taken += other.not_taken;
        self.expired += other.expired;
    }

    /// Returns the number of positive replies.
    pub fn transactions(&self) -> u64 {
        self.enable.count() + self.refresh.count() + self.close.count()
    }

    /// Returns the number of failed requests.
    pub fn failures(&self) -> u64 {
        self.refused + self.timed_out + self.suppressed + self.not_taken + self.expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_exact_and_quantiles_have_three_digits() {
        let mut latency = Latency::default();
        assert_eq!((latency.mean(), latency.quantile(0.5)), (None, None));
        for ms in 1..=1000 {
            latency.record(Duration::from_millis(ms));
        }
        assert_eq!(latency.mean(), Some(Duration::from_micros(500_500)));
        let median = latency.quantile(0.5).unwrap().as_secs_f64();
        assert!((median - 0.5).abs() < 0.000_5, "{median}");
        let mut both = latency.clone();
        both.add(&latency);
        both.record(Duration::from_secs(3600));
        assert_eq!(both.count(), 2001);
        assert!(both.quantile(1.0).unwrap() >= Duration::from_secs(599));
    }
}
