//! Clocks of both sides, and the offset between them.
//!
//! As in NTP (RFC 5905, section 8), the client sends a request at t1, the server receives it at t2 and sends the
//! reply at t3, and the client receives it at t4. The offset is ((t2 - t1) + (t3 - t4)) / 2 and the round trip
//! (t4 - t1) - (t3 - t2). Both ways may take different times: the offset is exact within half the round trip.

use std::time::{Instant, SystemTime};

use serde::{Deserialize, Serialize};

/// Number of exchanges before a measurement; the one with the smallest round trip counts.
pub(super) const EXCHANGES: usize = 10;

/// Clock of one side: the system's time at its start, and what has passed since then. A change of the system's time
/// does not affect it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasurementClock {
    start: Instant,
    /// Nanoseconds since 1970 at `start`.
    unix: u64,
}

impl MeasurementClock {
    pub(super) fn new() -> Self {
        let unix = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self {
            start: Instant::now(),
            unix: u64::try_from(unix.as_nanos()).unwrap_or_default(),
        }
    }

    /// Returns the nanoseconds since 1970 at a time, which is not before the start of the clock.
    pub(super) fn at(&self, time: Instant) -> u64 {
        let elapsed = time.saturating_duration_since(self.start).as_nanos();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        self.unix.saturating_add(elapsed)
    }

    pub(super) fn now(&self) -> u64 {
        self.at(Instant::now())
    }
}

/// Offset between the clocks of both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ClockOffset {
    /// Time of the server's clock minus that of the client's, in nanoseconds.
    pub(super) offset: i64,
    /// Round trip of the exchange, in nanoseconds.
    pub(super) round_trip: u64,
}

impl ClockOffset {
    /// Returns the offset by one exchange: times of the client's request, its arrival, the server's reply and its
    /// arrival.
    pub(super) fn new(t1: u64, t2: u64, t3: u64, t4: u64) -> Self {
        let [t1, t2, t3, t4] = [t1, t2, t3, t4].map(i128::from);
        let offset = i128::midpoint(t2 - t1, t3 - t4);
        let round_trip = (t4 - t1) - (t3 - t2);
        Self {
            offset: offset.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            round_trip: round_trip.clamp(0, u64::MAX.into()) as u64,
        }
    }

    /// Returns the better one of two.
    pub(super) fn or(self, other: Self) -> Self {
        if other.round_trip < self.round_trip {
            other
        } else {
            self
        }
    }

    /// Maximum error of the offset, in nanoseconds.
    pub(super) fn uncertainty(self) -> u64 {
        self.round_trip.div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_exact_if_both_ways_are_equal() {
        // The server's clock is 1000 ahead; 30 each way, 5 at the server.
        let offset = ClockOffset::new(0, 1030, 1035, 65);
        assert_eq!(
            offset,
            ClockOffset {
                offset: 1000,
                round_trip: 60
            }
        );
        let behind = ClockOffset::new(1000, 30, 35, 1065);
        assert_eq!(behind.offset, -1000);
        assert_eq!(behind.round_trip, 60);
    }

    #[test]
    fn the_error_is_within_the_uncertainty() {
        for (there, back) in [(60, 0), (0, 60), (10, 50), (31, 30)] {
            let offset = ClockOffset::new(0, 1000 + there, 1000 + there, there + back);
            let error = offset.offset.abs_diff(1000);
            assert!(error <= offset.uncertainty(), "{there} {back}: {offset:?}");
        }
    }

    #[test]
    fn the_smallest_round_trip_counts() {
        let slow = ClockOffset::new(0, 1090, 1090, 100);
        let fast = ClockOffset::new(0, 1005, 1005, 10);
        assert_eq!(slow.or(fast), fast);
        assert_eq!(fast.or(slow), fast);
    }

    #[test]
    fn impossible_times_of_a_peer_are_clamped() {
        for times in [
            [0, u64::MAX, u64::MAX, 0],
            [u64::MAX, 0, 0, u64::MAX],
            [5, u64::MAX, 0, 6],
            [5, 0, u64::MAX, 6],
        ] {
            let [t1, t2, t3, t4] = times;
            let offset = ClockOffset::new(t1, t2, t3, t4);
            assert!(offset.uncertainty() <= u64::MAX / 2 + 1);
        }
        assert_eq!(ClockOffset::new(5, 0, 9, 6).round_trip, 0);
    }

    #[test]
    fn the_clock_counts_from_its_start() {
        let clock = MeasurementClock::new();
        let later = clock.start + std::time::Duration::from_millis(3);
        assert_eq!(clock.at(later), clock.unix + 3_000_000);
        assert!(clock.now() >= clock.unix);
    }
}
