//! The simulator's clock: nanoseconds since the start of a simulation.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A moment of the simulation, in nanoseconds since its start; the range is about 584 years.
///
/// Arithmetic saturates: a deadline beyond the range is [`Time::MAX`], which is never reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of the simulation.
    pub const ZERO: Self = Self(0);
    /// The largest value, later than every event.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the moment `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the moment `micros` microseconds after the start.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Returns the moment `millis` milliseconds after the start.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the moment `secs` seconds after the start.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// Returns the nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the start, rounded to the precision of an `f64`.
    pub fn as_secs_f64(self) -> f64 {
        self.since_start().as_secs_f64()
    }

    /// Returns the time since the start.
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Returns the time since `earlier`, or zero if `earlier` is in the future.
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the time since `earlier`, or `None` if `earlier` is in the future.
    pub fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0).map(Duration::from_nanos)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl fmt::Display for Time {
    /// Formats seconds with nine decimals, as in captures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}",
            self.0 / NANOS_PER_SEC,
            self.0 % NANOS_PER_SEC
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::from_secs(1) - Duration::from_secs(2), Time::ZERO);
        assert_eq!(Time::from_secs(1) - Time::from_secs(2), Duration::ZERO);
        assert_eq!(Time::ZERO + Duration::MAX, Time::MAX);
        assert_eq!(
            Time::from_secs(1).checked_duration_since(Time::from_secs(2)),
            None
        );
    }

    #[test]
    fn time_is_printed_with_nine_decimals() {
        assert_eq!(Time::from_nanos(1_000_000_042).to_string(), "1.000000042");
        assert_eq!(Time::from_micros(1_500), Time::from_nanos(1_500_000));
        assert!((Time::from_millis(250).as_secs_f64() - 0.25).abs() < 1e-12);
    }
}
