//! Tail loss probe of one path (RFC 8985, section 7): a packet that elicits a SACK before T3-rtx expires.

use core::time::Duration;

use crate::config::AssociationConfig;
use crate::path::Path;
use crate::time::Time;

/// Least PTO: timers of hosts are not finer, and a peer may take that long to respond.
const MIN_PTO: Duration = Duration::from_millis(10);
/// PTO without a measured round trip (RFC 8985, section 7.2).
const INITIAL_PTO: Duration = Duration::from_secs(1);

/// Probe that has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProbeTransmission {
    /// Last chunk of the packet.
    pub(crate) index: u64,
    pub(crate) at: Time,
    /// The chunk had been sent before.
    pub(crate) retransmission: bool,
}

portable_struct! { ProbeTransmission { index, at, retransmission } }

/// Probe and probe timer of one path.
#[derive(PartialEq, Debug)]
pub(crate) struct TailLossProbe {
    timer: Option<Time>,
    /// The timer expired: the next packet of the path is the probe.
    due: bool,
    /// Probe that is not acknowledged.
    sent: Option<ProbeTransmission>,
    /// A round trip has been measured since the last probe.
    measured: bool,
}

portable_struct! { TailLossProbe { timer, due, sent, measured } }

impl TailLossProbe {
    pub(super) const fn new() -> Self {
        Self {
            timer: None,
            due: false,
            sent: None,
            measured: true,
        }
    }
}

/// Inputs of the PTO.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeoutInput {
    srtt: Option<Duration>,
    /// A single packet is in flight, the SACK for which the peer may delay.
    one_packet: bool,
    /// Delay of the peer's SACKs, assumed to be the local one.
    sack_delay: Duration,
    /// Expiry of T3-rtx.
    t3: Option<Time>,
}

impl TimeoutInput {
    fn of(path: &Path, config: &AssociationConfig) -> Self {
        Self {
            srtt: path.rto.srtt(),
            one_packet: path.flight.size() <= path.pmdcs(),
            sack_delay: config.timers.sack_delay,
            t3: path.t3(),
        }
    }
}

impl TailLossProbe {
    /// Starts or restarts the timer (RFC 8985, section 7.2).
    fn arm(&mut self, now: Time, input: &TimeoutInput) {
        // In nanoseconds, since the timer starts again with each packet.
        let nanos = |duration: Duration| duration.as_nanos() as u64;
        let timeout = match input.srtt {
            None => nanos(INITIAL_PTO),
            Some(srtt) => {
                let delay = if input.one_packet {
                    nanos(input.sack_delay)
                } else {
                    0
                };
                (2 * nanos(srtt)).max(nanos(MIN_PTO)) + delay
            }
        };
        let at = Time::from_nanos(now.as_nanos().saturating_add(timeout));
        self.timer = Some(input.t3.map_or(at, |t3| t3.min(at)));
    }

    /// Handles the expiry of the timer; returns whether a probe is due (RFC 8985, section 7.3).
    pub(crate) fn expire(&mut self) -> bool {
        self.timer = None;
        self.due = self.sent.is_none() && core::mem::take(&mut self.measured);
        self.due
    }

    /// Makes a probe due although the one before is not acknowledged: that was lost.
    pub(crate) fn repeat(&mut self) {
        self.cancel();
        self.due = true;
    }

    /// Expiry of the timer.
    pub(crate) fn timer(&self) -> Option<Time> {
        self.timer
    }

    /// Stops the timer.
    pub(crate) fn stop_timer(&mut self) {
        self.timer = None;
    }

    /// Returns whether the next packet of the path is the probe.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Sets whether the next packet of the path is the probe.
    pub(crate) fn set_due(&mut self, due: bool) {
        self.due = due;
    }

    /// Returns whether a probe is not acknowledged.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent.is_some()
    }

    /// Records that the probe is sent.
    fn on_sent(&mut self, sent: ProbeTransmission) {
        self.due = false;
        self.timer = None;
        self.sent = Some(sent);
    }

    /// Records that a round trip was measured.
    pub(super) fn on_measured(&mut self) {
        self.measured = true;
    }

    /// Ends the probe if its chunk or a later one is acknowledged; returns it.
    pub(super) fn take_sent(&mut self, acknowledged: u64) -> Option<ProbeTransmission> {
        let sent = self.sent.filter(|sent| sent.index <= acknowledged)?;
        self.sent = None;
        Some(sent)
    }

    /// Ends the probe if its chunk is abandoned.
    pub(super) fn on_abandoned(&mut self, index: u64) {
        self.sent = self.sent.filter(|sent| sent.index != index);
    }

    /// Cancels the probe: T3-rtx expired, or a loss was detected.
    pub(crate) fn cancel(&mut self) {
        self.timer = None;
        self.due = false;
        self.sent = None;
    }
}

impl Path {
    /// Restarts the probe timer where a probe would be of use (RFC 8985, section 7.2).
    pub(crate) fn arm_probe(&mut self, now: Time, config: &AssociationConfig) {
        let recovery = &self.data.recovery;
        let repairing = !recovery.is_open() || recovery.rack.above_gap() > 0;
        if self.flight.size() == 0 || repairing {
            self.data.recovery.probe.stop_timer();
            return;
        }
        let input = TimeoutInput::of(self, config);
        self.data.recovery.probe.arm(now, &input);
    }

    /// Records that the probe is sent, with which T3-rtx starts again (RFC 8985, section 7.3).
    pub(crate) fn on_probe_sent(&mut self, sent: ProbeTransmission) {
        self.data.recovery.probe.on_sent(sent);
        self.restart_t3(sent.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// RFC 8985, section 7.2
    #[test]
    fn the_pto_is_two_round_trips_and_a_sack_delay() {
        let mut probe = TailLossProbe::new();
        let mut input = TimeoutInput {
            srtt: Some(ms(100)),
            one_packet: false,
            sack_delay: ms(200),
            t3: Some(Time::from_millis(5000)),
        };
        let mut at = |s: &TimeoutInput| {
            probe.arm(Time::from_millis(1000), s);
            probe.timer
        };
        assert_eq!(at(&input), Some(Time::from_millis(1200)));
        input.one_packet = true;
        assert_eq!(at(&input), Some(Time::from_millis(1400)));
        input.t3 = Some(Time::from_millis(1300));
        assert_eq!(at(&input), Some(Time::from_millis(1300)), "not later");
        input.srtt = None;
        input.t3 = None;
        assert_eq!(at(&input), Some(Time::from_millis(2000)));
    }

    /// RFC 8985, section 7.3
    #[test]
    fn one_probe_at_a_time_and_one_a_round_trip() {
        let mut probe = TailLossProbe::new();
        assert!(probe.expire());
        probe.sent = Some(ProbeTransmission {
            index: 1,
            at: Time::ZERO,
            retransmission: true,
        });
        probe.measured = true;
        assert!(!probe.expire(), "a probe is not acknowledged yet");
        probe.sent = None;
        assert!(probe.expire());
        assert!(!probe.expire(), "no RTT measured since the last probe");
    }
}
