//! Response times.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest response time that is told from longer ones: ten minutes, in nanoseconds.
const LONGEST: u64 = 600_000_000_000;

/// Response times of one kind of transaction.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Nanoseconds, with three digits.
    histogram: Histogram<u64>,
    sum: f64,
}

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1000, LONGEST, 3);
        Self {
            // The bounds are constants that are valid.
            histogram: histogram.unwrap_or_else(|_| unreachable!("valid bounds")),
            sum: 0.0,
        }
    }
}

impl Latency {
    /// Notes a response time. One of more than ten minutes counts as ten minutes in the quantiles.
    pub fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(nanos.min(LONGEST));
        self.sum += time.as_secs_f64();
    }

    /// How many were noted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The exact mean; `None` of nothing.
    pub fn mean(&self) -> Option<Duration> {
        let count = self.count();
        (count > 0).then(|| Duration::from_secs_f64(self.sum / count as f64))
    }

    /// The quantile at `share` (0 to 1), to three digits; `None` of nothing.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let nanos = self.histogram.value_at_quantile(share);
        (self.count() > 0).then(|| Duration::from_nanos(nanos))
    }

    /// Adds the response times of another.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        if self.histogram.add(&other.histogram).is_ok() {
            self.sum += other.sum;
        }
    }
}

/// What a load has measured since [`super::Generator::start_measuring`].
#[derive(Clone, Debug, Default)]
pub struct Measures {
    /// Requests that were made. Each is answered, refused, not answered in time, or under way.
    pub asked: u64,
    /// PER: from the request to the reply.
    pub enable: Latency,
    /// PLC that refresh.
    pub refresh: Latency,
    /// PLC that close.
    pub close: Latency,
    /// Requests with a negative reply, also of those made before.
    pub refused: u64,
    /// Requests without a reply in time, also of those made before.
    pub timed_out: u64,
    /// Pinholes that were not asked for because there were too many.
    pub suppressed: u64,
    /// Requests that the agent didn't take.
    pub not_taken: u64,
    /// Pinholes that ended without having been closed.
    pub expired: u64,
}

impl Measures {
    /// Adds what another has measured.
    pub fn add(&mut self, other: &Self) {
        self.asked += other.asked;
        self.enable.add(&other.enable);
        self.refresh.add(&other.refresh);
        self.close.add(&other.close);
        self.refused += other.refused;
        self.timed_out += other.timed_out;
        self.suppressed += other.suppressed;
        self.not_taken += other.not_taken;
        self.expired += other.expired;
    }

    /// Transactions that were answered positively.
    pub fn transactions(&self) -> u64 {
        self.enable.count() + self.refresh.count() + self.close.count()
    }

    /// Requests that went wrong.
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
