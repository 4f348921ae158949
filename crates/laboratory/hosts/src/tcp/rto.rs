//! Retransmission timer of a TCP connection (RFC 6298).

use std::time::Duration;

use carrick_netsim::Time;

/// RTO before the first sample (RFC 6298, rule 2.1).
const INITIAL: Duration = Duration::from_secs(1);
/// Maximum RTO (RFC 6298, rule 2.5).
const MAX: Duration = Duration::from_secs(60);
/// RTO before data if the timer expired for the SYN (RFC 6298, rule 5.7).
const AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// RTO and timer.
#[derive(Debug)]
pub(super) struct RetransmissionTimer {
    min: Duration,
    /// SRTT and RTTVAR.
    smoothed: Option<(Duration, Duration)>,
    rto: Duration,
    /// Time of the expiry, if the timer runs.
    pub(super) due: Option<Time>,
    /// Expirations since the last acknowledgement of new data.
    pub(super) expirations: u32,
}

impl RetransmissionTimer {
    /// Returns the timer of a connection with this minimum RTO.
    pub(super) fn new(min: Duration) -> Self {
        Self {
            min,
            smoothed: None,
            rto: INITIAL,
            due: None,
            expirations: 0,
        }
    }

    /// Updates the RTO by the round-trip time of a segment that was sent once (rules 2.2 and 2.3).
    pub(super) fn sample(&mut self, rtt: Duration) {
        let (srtt, rttvar) = match self.smoothed {
            None => (rtt, rtt / 2),
            Some((srtt, rttvar)) => (
                srtt * 7 / 8 + rtt / 8,
                rttvar * 3 / 4 + srtt.abs_diff(rtt) / 4,
            ),
        };
        self.smoothed = Some((srtt, rttvar));
        self.rto = (srtt + 4 * rttvar).max(self.min).min(MAX);
    }

    pub(super) fn start(&mut self, now: Time) {
        self.due = Some(now + self.rto);
    }

    /// Handles the expiry: doubles the RTO (rule 5.5) and stops the timer, which starts with the retransmission.
    pub(super) fn expire(&mut self) {
        self.rto = (self.rto * 2).min(MAX);
        self.expirations += 1;
        self.due = None;
    }

    /// Handles the establishment of the connection by the acknowledgement of a SYN sent at `sent`.
    pub(super) fn establish(&mut self, now: Time, sent: Time) {
        if self.expirations == 0 {
            self.sample(now - sent);
        } else {
            self.rto = AFTER_LOST_SYN;
        }
        self.expirations = 0;
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6298, section 2
    #[test]
    fn the_rto_follows_the_round_trip_time() {
        let mut timer = RetransmissionTimer::new(INITIAL);
        assert_eq!(timer.rto, INITIAL);
        timer.sample(Duration::from_millis(800));
        assert_eq!(timer.rto, Duration::from_millis(2400));
        timer.sample(Duration::from_millis(1600));
        // SRTT 900 ms, RTTVAR 3/4 of 400 ms and 1/4 of 800 ms.
        assert_eq!(timer.rto, Duration::from_millis(2900));
        timer.sample(Duration::from_secs(100));
        assert_eq!(timer.rto, MAX);
        let mut timer = RetransmissionTimer::new(INITIAL);
        timer.sample(Duration::from_millis(20));
        assert_eq!(timer.rto, INITIAL);
    }

    /// RFC 6298, section 5
    #[test]
    fn the_rto_doubles_and_is_three_seconds_after_a_syn() {
        let mut timer = RetransmissionTimer::new(INITIAL);
        timer.start(Time::ZERO);
        assert_eq!(timer.due, Some(Time::from_secs(1)));
        timer.expire();
        timer.start(Time::from_secs(1));
        assert_eq!(timer.due, Some(Time::from_secs(3)));
        timer.establish(Time::from_secs(4), Time::from_secs(3));
        assert_eq!((timer.rto, timer.due), (AFTER_LOST_SYN, None));
        (0..10).for_each(|_| timer.expire());
        assert_eq!(timer.rto, MAX);
    }
}
