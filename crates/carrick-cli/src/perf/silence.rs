//! Detects that no packets of the peer arrive.

use std::time::{Duration, Instant};

/// Minimum silence that is reported; longer than RTO.Initial, the delay after the loss of one packet.
const REPORTED: Duration = Duration::from_secs(2);

/// Observation of the peer's packets.
#[derive(Debug)]
pub(super) struct Silence {
    packets: u64,
    /// Time of the last new packet.
    since: Instant,
    reported: bool,
}

/// Change since the last observation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answering {
    /// Packets have arrived.
    Yes,
    /// Packets have arrived after a silence of this length, which was reported.
    Again(Duration),
    /// No packet has arrived, for less than the minimum or already reported.
    No,
    /// No packet has arrived for this time, which is to be reported now.
    NotFor(Duration),
}

impl Silence {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            packets: 0,
            since: now,
            reported: false,
        }
    }

    /// Compares the number of packets received so far with that of the last call.
    pub(super) fn look(&mut self, now: Instant, packets: u64) -> Answering {
        let silence = now.duration_since(self.since);
        if packets != self.packets {
            (self.packets, self.since) = (packets, now);
            if std::mem::take(&mut self.reported) {
                return Answering::Again(silence);
            }
            return Answering::Yes;
        }
        if self.reported || silence < REPORTED {
            return Answering::No;
        }
        self.reported = true;
        Answering::NotFor(silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_reported_once_and_its_end() {
        let start = Instant::now();
        let mut silence = Silence::new(start);
        let mut look = |second, packets| {
            let now = start + Duration::from_secs(second);
            silence.look(now, packets)
        };
        let seconds = Duration::from_secs;
        assert_eq!(look(1, 7), Answering::Yes);
        assert_eq!(look(2, 7), Answering::No);
        assert_eq!(look(3, 7), Answering::NotFor(seconds(2)));
        for second in 4..60 {
            assert_eq!(look(second, 7), Answering::No);
        }
        assert_eq!(look(60, 8), Answering::Again(seconds(59)));
        assert_eq!(look(61, 9), Answering::Yes);
        assert_eq!(look(62, 9), Answering::No);
        assert_eq!(
            look(63, 10),
            Answering::Yes,
            "a short silence is not reported"
        );
    }
}
