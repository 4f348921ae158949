//! The retransmission timeout of one path (RFC 9260 section 6.3.1).

use core::time::Duration;

use crate::config::AssociationConfig;

/// Clock granularity G of rule G1: the core computes in nanoseconds.
const GRANULARITY: Duration = Duration::from_nanos(1);

/// SRTT, RTTVAR and RTO. RTO.Alpha is 1/8, RTO.Beta 1/4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rto {
    srtt: Option<Duration>,
    rttvar: Duration,
    value: Duration,
}

impl Rto {
    /// C1: until the first measurement, RTO.Initial.
    pub(crate) fn new(initial: Duration) -> Self {
        Self {
            srtt: None,
            rttvar: Duration::ZERO,
            value: initial,
        }
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    pub(crate) fn value(&self) -> Duration {
        self.value
    }

    /// C2 to C7: takes a round-trip time that was measured without ambiguity.
    pub(crate) fn measured(&mut self, rtt: Duration, config: &AssociationConfig) {
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
        self.rttvar = self.rttvar.max(GRANULARITY);
        let srtt = self.srtt.unwrap_or(rtt);
        self.value = (srtt + self.rttvar * 4).clamp(config.timers.rto_min, config.timers.rto_max);
    }

    /// E2: doubles the timeout, up to RTO.Max.
    pub(crate) fn back_off(&mut self, config: &AssociationConfig) {
        self.value = self.value.saturating_mul(2).min(config.timers.rto_max);
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
