//! Retransmission timeout of one path: RTT measurement, SRTT, RTTVAR and RTO (RFC 9260, section 6.3.1), and its
//! exponential back-off (section 6.3.3). Labels C1 to C7 and G1 are the rules of section 6.3.1, E2 is one of
//! section 6.3.3.

use core::time::Duration;

use crate::config::AssociationConfig;
use crate::time::Time;

/// Clock granularity G (RFC 9260, section 6.3.1, G1): the core computes in nanoseconds.
const GRANULARITY: Duration = Duration::from_nanos(1);

/// RTT measurement in progress, SRTT, RTTVAR and RTO. RTO.Alpha is 1/8, RTO.Beta 1/4.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rto {
    srtt: Option<Duration>,
    rttvar: Duration,
    value: Duration,
    /// Index of the chunk whose acknowledgement gives the next RTT sample, and when it was sent.
    timed: Option<(u64, Time)>,
    /// Highest value in microseconds that was set since [`Self::take_highest`]; 0 for none.
    highest: u32,
}

portable_struct! { Rto { srtt, rttvar, value, timed, highest } }

impl Rto {
    /// Creates the RTO before the first measurement: RTO.Initial (RFC 9260, section 6.3.1, C1).
    pub(super) fn new(initial: Duration) -> Self {
        Self {
            srtt: None,
            rttvar: Duration::ZERO,
            value: initial,
            timed: None,
            highest: 0,
        }
    }

    pub(super) fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    pub(super) fn value(&self) -> Duration {
        self.value
    }

    /// Takes an RTT sample (RFC 9260, section 6.3.1):
    ///
    /// 1. Set SRTT and RTTVAR from the first sample (C2), or smooth them (C3).
    /// 2. Raise RTTVAR to the clock granularity (G1).
    /// 3. Set RTO to SRTT + 4 * RTTVAR (C2 and C3), at least RTO.Min (C6) and at most RTO.Max (C7).
    pub(super) fn measured(&mut self, rtt: Duration, config: &AssociationConfig) {
        // 1.
        match self.srtt {
            None => {
                self.srtt = Some(rtt);
                self.rttvar = rtt / 2;
            }
            Some(srtt) => {
                self.rttvar = self.rttvar * 3 / 4 + srtt.abs_diff(rtt) / 4;
                self.srtt = Some(srtt * 7 / 8 + rtt / 8);
            }
        }
        // 2.
        self.rttvar = self.rttvar.max(GRANULARITY);
        // 3.
        self.value = self.without_back_off(config);
        self.note_highest();
    }

    /// Returns the RTO of the last measurement, before any timeout; RTO.Initial without one.
    pub(super) fn without_back_off(&self, config: &AssociationConfig) -> Duration {
        let timers = &config.timers;
        self.srtt.map_or(timers.rto_initial, |srtt| {
            (srtt + self.rttvar * 4).clamp(timers.rto_min, timers.rto_max)
        })
    }

    /// Returns the highest RTO that a measurement or a timeout has set since the last call, in whole microseconds
    /// up to 71 minutes; `None` if none was set.
    pub(super) fn take_highest(&mut self) -> Option<Duration> {
        let highest = core::mem::take(&mut self.highest);
        (highest > 0).then(|| Duration::from_micros(highest.into()))
    }

    fn note_highest(&mut self) {
        let micros = u32::try_from(self.value.as_micros()).unwrap_or(u32::MAX);
        self.highest = self.highest.max(micros);
    }

    /// Begins an RTT measurement with a chunk that is sent for the first time, unless another one is in
    /// progress (RFC 9260, section 6.3.1, C4).
    pub(super) fn time(&mut self, index: u64, now: Time) {
        self.timed.get_or_insert((index, now));
    }

    /// Ends the measurement.
    pub(super) fn stop_timing(&mut self) {
        self.timed = None;
    }

    /// Ends the measurement if its chunk, or an earlier one, is retransmitted (Karn's algorithm, RFC 9260,
    /// section 6.3.1, C5).
    pub(super) fn stop_timing_from(&mut self, index: u64) {
        self.timed = self.timed.filter(|timed| timed.0 < index);
    }

    /// Ends the measurement if its chunk is this one, which is abandoned.
    pub(super) fn stop_timing_of(&mut self, index: u64) {
        self.timed = self.timed.filter(|timed| timed.0 != index);
    }

    /// Ends the measurement if its chunk, or a later one, is acknowledged. Returns the index of its chunk, and
    /// when that was sent.
    pub(super) fn take_timed(&mut self, acknowledged: u64) -> Option<(u64, Time)> {
        let timed = self.timed.filter(|timed| timed.0 <= acknowledged)?;
        self.timed = None;
        Some(timed)
    }

    /// Doubles the RTO, up to RTO.Max (RFC 9260, section 6.3.3, E2).
    pub(super) fn back_off(&mut self, config: &AssociationConfig) {
        self.value = self.value.saturating_mul(2).min(config.timers.rto_max);
        self.note_highest();
    }

    /// Reduces the RTO to a limit.
    pub(super) fn limit(&mut self, limit: Duration) {
        self.value = self.value.min(limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn config() -> AssociationConfig {
        AssociationConfig::rfc9260().with(|c| c.timers.rto_min = ms(10))
    }

    #[test]
    fn the_first_measurement_sets_three_times_its_value() {
        let mut rto = Rto::new(ms(1000));
        assert_eq!(rto.value(), ms(1000));
        rto.measured(ms(100), &config());
        assert_eq!((rto.srtt(), rto.value()), (Some(ms(100)), ms(300)));
    }

    /// RFC 9260, section 6.3.1
    #[test]
    fn later_measurements_are_smoothed() {
        let mut rto = Rto::new(ms(1000));
        rto.measured(ms(100), &config());
        rto.measured(ms(180), &config());
        // RTTVAR uses the SRTT from before: 50 * 3/4 + 80/4 = 57.5; SRTT = 110.
        assert_eq!(rto.srtt(), Some(ms(110)));
        assert_eq!(rto.value(), ms(340));
    }

    #[test]
    fn the_timeout_stays_between_its_limits() {
        let mut rto = Rto::new(ms(1000));
        let config = AssociationConfig::rfc9260();
        rto.measured(ms(1), &config);
        assert_eq!(rto.value(), ms(1000), "RTO.Min");
        for _ in 0..10 {
            rto.back_off(&config);
        }
        assert_eq!(rto.value(), ms(60_000), "RTO.Max");
        rto.measured(ms(1), &config);
        assert_eq!(
            rto.value(),
            ms(1000),
            "a measurement collapses the back-off"
        );
    }
}
