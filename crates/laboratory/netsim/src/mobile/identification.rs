//! Identification by timestamps and replay protection (RFC 5944, section 5.7.1).

use core::fmt;
use core::time::Duration;

use crate::rng::Random;
use crate::time::Time;

/// NTP time in seconds at which simulations begin: 1 January 2026.
const START: i64 = 3_976_214_400;

/// Identification of a registration (64 bits): seconds in the upper half, their fraction in the
/// lower half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identification(pub u64);

impl Identification {
    /// Returns the timestamp of a clock that is `offset` seconds ahead; the bits below a nanosecond
    /// are random.
    pub fn at(now: Time, offset: i64, random: &mut Random) -> Self {
        const SECOND: u64 = 1_000_000_000;
        let seconds = START
            .wrapping_add((now.as_nanos() / SECOND) as i64)
            .wrapping_add(offset);
        let fraction = ((now.as_nanos() % SECOND) << 32) / SECOND;
        // A nanosecond is slightly more than four units.
        let fraction = (fraction & !3) | random.below(4);
        Self(u64::from(seconds as u32) << 32 | fraction)
    }

    /// Returns the lower half, which replies always copy.
    pub fn low(self) -> u32 {
        self.0 as u32
    }

    /// Returns the seconds.
    pub fn high(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns these seconds with the lower half of `other`.
    pub(super) fn with_low_of(self, other: Self) -> Self {
        Self(self.0 & !0xFFFF_FFFF | u64::from(other.low()))
    }

    fn distance(self, other: Self) -> Duration {
        let units = u128::from(self.0.abs_diff(other.0));
        Duration::from_nanos(((units * 1_000_000_000) >> 32) as u64)
    }
}

impl fmt::Display for Identification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Replay protection state for one mobile node.
#[derive(Clone, Debug)]
pub struct ReplayProtection {
    tolerance: Duration,
    latest: Option<Identification>,
}

impl ReplayProtection {
    /// Default tolerance between the clocks (RFC 5944, section 5.7.1).
    pub const DEFAULT_TOLERANCE: Duration = Duration::from_secs(7);

    /// Returns the initial state; `tolerance` between the clocks should be above 3 s.
    pub fn new(tolerance: Duration) -> Self {
        Self {
            tolerance,
            latest: None,
        }
    }

    /// Accepts an identification that is close enough to `clock` and later than all accepted ones.
    ///
    /// # Errors
    /// The identification for the denial (code 133), from which the mobile node can correct its
    /// clock.
    pub fn accept(
        &mut self,
        identification: Identification,
        clock: Identification,
    ) -> Result<(), Identification> {
        let close = identification.distance(clock) <= self.tolerance;
        let later = self.latest.is_none_or(|latest| identification > latest);
        if !(close && later) {
            return Err(clock.with_low_of(identification));
        }
        self.latest = Some(identification);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(millis: u64) -> Identification {
        Identification::at(Time::from_millis(millis), 0, &mut Random::new(1, 1))
    }

    #[test]
    fn timestamps_are_increasing_ntp_times() {
        let (a, b) = (stamp(1500), stamp(1501));
        assert_eq!(u64::from(a.high()), START as u64 + 1);
        assert_eq!(a.low() >> 30, 2, "half a second");
        assert!(a < b);
        assert!(a.distance(b).as_micros().abs_diff(1000) <= 1);
    }

    /// RFC 5944, section 5.7.1
    #[test]
    fn denials_carry_the_time_of_the_home_agent() {
        let mut protection = ReplayProtection::new(Duration::from_secs(7));
        assert_eq!(protection.accept(stamp(10_000), stamp(12_000)), Ok(()));
        let replayed = protection.accept(stamp(10_000), stamp(12_500));
        let denial = replayed.expect_err("a replay");
        assert_eq!(
            (denial.high(), denial.low()),
            (stamp(12_500).high(), stamp(10_000).low())
        );
        assert!(
            protection.accept(stamp(9_000), stamp(12_500)).is_err(),
            "out of order"
        );
        assert!(
            protection.accept(stamp(20_000), stamp(12_500)).is_err(),
            "from the future"
        );
        assert!(
            protection.accept(stamp(12_000), stamp(19_500)).is_err(),
            "stale"
        );
        assert_eq!(protection.accept(stamp(12_501), stamp(19_500)), Ok(()));
    }
}
