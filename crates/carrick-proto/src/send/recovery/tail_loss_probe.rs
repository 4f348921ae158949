//! The tail loss probe of one path (RFC 8985 section 7): when no acknowledgement comes, one packet
//! asks for one before T3-rtx expires.

use core::time::Duration;

use crate::time::Time;

/// Timers of real hosts are not finer, and a peer may take that long to answer.
const LEAST: Duration = Duration::from_millis(10);
/// The PTO without a measured round trip (section 7.2).
const UNMEASURED: Duration = Duration::from_secs(1);

/// A probe that has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    /// The chunk, the last in its packet.
    pub(crate) index: u64,
    pub(crate) at: Time,
    /// It was a chunk sent before.
    pub(crate) again: bool,
}

/// The probe timer of a path.
#[derive(Debug)]
pub(crate) struct TailLossProbe {
    pub(crate) timer: Option<Time>,
    /// The timer expired: the probe is the next packet of the path.
    pub(crate) due: bool,
    /// It has left and is not acknowledged.
    pub(crate) sent: Option<Sent>,
    /// A round trip was measured since the last probe.
    pub(crate) measured: bool,
}

impl Default for TailLossProbe {
    fn default() -> Self {
        Self {
            timer: None,
            due: false,
            sent: None,
            measured: true,
        }
    }
}

/// What the timeout depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) srtt: Option<Duration>,
    /// One packet is in flight, whose SACK the peer may delay.
    pub(crate) one_packet: bool,
    /// How long the peer delays a SACK, presumably as this side does.
    pub(crate) sack_delay: Duration,
    /// When T3-rtx expires.
    pub(crate) t3: Option<Time>,
}

impl TailLossProbe {
    /// Starts the timer, or starts it again (section 7.2).
    pub(crate) fn arm(&mut self, now: Time, situation: &Situation) {
        let timeout = match situation.srtt {
            None => UNMEASURED,
            Some(srtt) => {
                let delay = if situation.one_packet {
                    situation.sack_delay
                } else {
                    Duration::ZERO
                };
                (srtt * 2).max(LEAST) + delay
            }
        };
        let at = now + timeout;
        self.timer = Some(situation.t3.map_or(at, |t3| t3.min(at)));
    }

    /// The timer expired; returns whether a probe is to be sent (section 7.3).
    pub(crate) fn expire(&mut self) -> bool {
        self.timer = None;
        self.due = self.sent.is_none() && core::mem::take(&mut self.measured);
        self.due
    }

    /// T3-rtx expired, or a loss was found by other means.
    pub(crate) fn cancel(&mut self) {
        self.timer = None;
        self.due = false;
        self.sent = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_timeout_is_two_round_trips_and_the_delay_of_a_sack_for_one_packet_7_2() {
        let mut probe = TailLossProbe::default();
        let mut situation = Situation {
            srtt: Some(ms(100)),
            one_packet: false,
            sack_delay: ms(200),
            t3: Some(Time::from_millis(5000)),
        };
        let mut at = |s: &Situation| {
            probe.arm(Time::from_millis(1000), s);
            probe.timer
        };
        assert_eq!(at(&situation), Some(Time::from_millis(1200)));
        situation.one_packet = true;
        assert_eq!(at(&situation), Some(Time::from_millis(1400)));
        situation.t3 = Some(Time::from_millis(1300));
        assert_eq!(at(&situation), Some(Time::from_millis(1300)), "not later");
        situation.srtt = None;
        situation.t3 = None;
        assert_eq!(at(&situation), Some(Time::from_millis(2000)));
    }

    #[test]
    fn one_probe_at_a_time_and_one_for_a_measured_round_trip_7_3() {
        let mut probe = TailLossProbe::default();
        assert!(probe.expire());
        probe.sent = Some(Sent {
            index: 1,
            at: Time::ZERO,
            again: true,
        });
        probe.measured = true;
        assert!(!probe.expire(), "one is out");
        probe.sent = None;
        assert!(probe.expire());
        assert!(!probe.expire(), "nothing was measured since");
    }
}
