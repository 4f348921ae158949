//! The core's own time: nanoseconds since an epoch that the driver chooses.

use core::fmt;
use core::num::NonZero;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A moment, in nanoseconds since the driver's epoch. Never taken from a clock by the core.
///
/// Nanoseconds and one are stored, so that an optional moment takes no more memory than a moment: an
/// association has dozens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(NonZero<u64>);

impl Default for Time {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Time {
    /// The driver's epoch.
    pub const ZERO: Self = Self(NonZero::<u64>::MIN);

    /// A moment `nanos` nanoseconds after the epoch, of at most 2^64 - 2.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZero::<u64>::MIN.saturating_add(nanos))
    }

    /// A moment `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_nanos(millis * 1_000_000)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Seconds since the epoch, for output.
    pub fn as_secs_f64(self) -> f64 {
        self.as_nanos() as f64 / 1e9
    }

    /// The time from `earlier` to `self`, zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.as_nanos();
        write!(f, "{}.{:09}s", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

/// The earlier of two optional moments.
pub(crate) fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    // Without branches, as each packet compares a dozen timers: one less than what is stored, no time is
    // the latest.
    let key = |time: Option<Time>| time.map_or(0, |time| time.0.get()).wrapping_sub(1);
    NonZero::new(key(a).min(key(b)).wrapping_add(1)).map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_never_goes_below_zero() {
        let (a, b) = (Time::from_millis(5), Time::from_millis(7));
        assert_eq!(b - a, Duration::from_millis(2));
        assert_eq!(a - b, Duration::ZERO);
        assert_eq!(a + Duration::from_millis(2), b);
        assert_eq!(
            Time::from_nanos(u64::MAX) + Duration::from_secs(1),
            Time::from_nanos(u64::MAX)
        );
    }

    #[test]
    fn an_optional_moment_takes_no_more_memory() {
        assert_eq!(size_of::<Option<Time>>(), size_of::<Time>());
    }

    #[test]
    fn earliest_ignores_a_timer_that_does_not_run() {
        let t = Some(Time::from_millis(1));
        assert_eq!(earliest(None, t), t);
        assert_eq!(earliest(t, Some(Time::ZERO)), Some(Time::ZERO));
        assert_eq!(earliest(None, None), None);
    }
}
