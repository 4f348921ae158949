//! Detects that no packets of the peer arrive.

use std::time::{Duration, Instant};

/// Minimum silence that is reported; longer than RTO.Initial, the delay after the loss of one packet.
const REPORTED: Duration = Duration::from_secs(2);

/// Observation of the peer's packets.
#[derive(Debug)]
pub(super) struct SilenceDetector {
    packets: u64,
    /// Time of the last new packet.
    since: Instant,
    reported: bool,
    /// Minimum silence that is reported.
    least: Duration,
}

/// Change since the last observation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PeerActivity {
    /// Packets have arrived.
    Active,
    /// Packets have arrived after a silence of this length, which was reported.
    Resumed(Duration),
    /// No packet has arrived, for less than the minimum or already reported.
    Unchanged,
    /// No packet has arrived for this time, which is to be reported now.
    Silent(Duration),
}

impl SilenceDetector {
    /// `message_interval` is the time between messages of a sender with a rate, whose pauses are no silence.
    pub(super) fn new(now: Instant, message_interval: Duration) -> Self {
        Self {
            packets: 0,
            since: now,
            reported: false,
            least: REPORTED.max(message_interval.saturating_mul(2)),
        }
    }

    /// Returns whether a silence was reported that has not ended.
    pub(super) fn is_reported(&self) -> bool {
        self.reported
    }

    /// Compares the number of packets received so far with that of the last call.
    pub(super) fn observe(&mut self, now: Instant, packets: u64) -> PeerActivity {
        let silence = now.duration_since(self.since);
        if packets != self.packets {
            (self.packets, self.since) = (packets, now);
            if std::mem::take(&mut self.reported) {
                return PeerActivity::Resumed(silence);
            }
            return PeerActivity::Active;
        }
        if self.reported || silence < self.least {
            return PeerActivity::Unchanged;
        }
        self.reported = true;
        PeerActivity::Silent(silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_reported_once_and_its_end() {
        let start = Instant::now();
        let mut silence = SilenceDetector::new(start, Duration::ZERO);
        let mut observe = |second, packets| {
            let now = start + Duration::from_secs(second);
            silence.observe(now, packets)
        };
        let seconds = Duration::from_secs;
        assert_eq!(observe(1, 7), PeerActivity::Active);
        assert_eq!(observe(2, 7), PeerActivity::Unchanged);
        assert_eq!(observe(3, 7), PeerActivity::Silent(seconds(2)));
        for second in 4..60 {
            assert_eq!(observe(second, 7), PeerActivity::Unchanged);
        }
        assert_eq!(observe(60, 8), PeerActivity::Resumed(seconds(59)));
        assert_eq!(observe(61, 9), PeerActivity::Active);
        assert_eq!(observe(62, 9), PeerActivity::Unchanged);
        assert_eq!(
            observe(63, 10),
            PeerActivity::Active,
            "a short silence is not reported"
        );
    }

    #[test]
    fn pauses_of_a_slow_sender_are_no_silence() {
        let start = Instant::now();
        let mut silence = SilenceDetector::new(start, Duration::from_secs(5));
        let mut observe = |second| silence.observe(start + Duration::from_secs(second), 7);
        assert_eq!(observe(1), PeerActivity::Active);
        assert_eq!(observe(6), PeerActivity::Unchanged);
        assert_eq!(observe(11), PeerActivity::Silent(Duration::from_secs(10)));
    }
}
