//! Dynamic right-sizing of the receive buffer: twice the bytes that the user reads in a round-trip
//! time, so that the window does not limit a transfer whose user keeps up.
//!
//! The round-trip time is that of the path, or, on a side that sends no data, the shortest time in which
//! a whole advertised window arrived: no sender can fill a window earlier than a round trip after the
//! advertisement.
//!
//! While data waits for a retransmission, or for data of a slower path, the user reads nothing: the buffer is then
//! also four times the waiting bytes.

use core::time::Duration;

use crate::time::Time;

/// Shortest measurement: a shorter one depends on the batching of packets more than on their rate.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Size of the buffer by the waiting bytes. They arrive in the round trip that a retransmission takes; in slow start
/// twice as many are then in flight, and a retransmission that is lost takes another round trip.
const WAITING_FACTOR: usize = 4;

#[derive(Debug)]
pub(super) struct Autotune {
    /// Largest size of the buffer, in bytes.
    limit: usize,
    /// Start of the measurement of `taken`.
    since: Option<Time>,
    /// Bytes read by the user.
    taken: usize,
    /// Time of an advertised window, and its bytes that have not arrived yet.
    advertised: Option<(Time, usize)>,
    /// Estimate of the round-trip time from the arrival of windows.
    estimate: Option<Duration>,
}

portable_struct! { Autotune { limit, since, taken, advertised, estimate } }

impl Autotune {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            since: None,
            taken: 0,
            advertised: None,
            estimate: None,
        }
    }

    /// Records that the user has read a message that took this many bytes of the buffer.
    pub(super) fn on_taken(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// Records the arrival of this many bytes of payload.
    pub(super) fn on_arrived(&mut self, bytes: usize) {
        if let Some((_, left)) = &mut self.advertised {
            *left = left.saturating_sub(bytes);
        }
    }

    /// Returns the least capacity that the buffer should have, if the user has read all that can be
    /// delivered while this many bytes wait for missing data.
    pub(super) fn on_waiting(&self, memory: usize) -> usize {
        memory.saturating_mul(WAITING_FACTOR).min(self.limit)
    }

    /// Ends the processing of a packet with data; `window` is the current window. Returns the least
    /// capacity that the buffer should have.
    pub(super) fn on_packet_end(
        &mut self,
        now: Time,
        rtt: Option<Duration>,
        window: usize,
    ) -> Option<usize> {
        match self.advertised {
            Some((at, 0)) => {
                let filled = now.since(at);
                self.estimate = Some(self.estimate.map_or(filled, |e| e.min(filled)));
                self.advertised = Some((now, window));
            }
            Some(_) => {}
            None => self.advertised = Some((now, window)),
        }
        let since = *self.since.get_or_insert(now);
        let rtt = rtt.or(self.estimate)?;
        if now.since(since) < rtt.max(MIN_INTERVAL) || self.taken == 0 {
            return None;
        }
        self.since = Some(now);
        // The measurement may have lasted longer than a round-trip time.
        let (rtt, elapsed) = (rtt.as_nanos(), now.since(since).as_nanos().max(1));
        let taken = core::mem::take(&mut self.taken) as u128 * rtt / elapsed;
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        // In slow start the rate doubles in each round trip.
        Some(taken.saturating_mul(2).min(self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Time {
        Time::from_millis(n)
    }

    #[test]
    fn the_buffer_follows_the_bytes_read_per_round_trip() {
        let mut tune = Autotune::new(10_000);
        let rtt = Some(ms(100));
        assert_eq!(tune.on_packet_end(at(0), rtt, 1000), None);
        tune.on_taken(500);
        assert_eq!(tune.on_packet_end(at(99), rtt, 1000), None);
        assert_eq!(tune.on_packet_end(at(100), rtt, 1000), Some(1000));
        tune.on_taken(500);
        assert_eq!(
            tune.on_packet_end(at(200), rtt, 1000),
            Some(1000),
            "the bytes per round trip did not change"
        );
        tune.on_taken(9000);
        assert_eq!(tune.on_packet_end(at(300), rtt, 1000), Some(10_000));
        assert_eq!(
            tune.on_packet_end(at(400), rtt, 1000),
            None,
            "the user read nothing"
        );
    }

    #[test]
    fn the_arrival_of_a_window_estimates_the_round_trip() {
        let mut tune = Autotune::new(10_000);
        tune.on_packet_end(at(0), None, 1000);
        tune.on_taken(400);
        tune.on_arrived(999);
        assert_eq!(tune.on_packet_end(at(50), None, 1000), None);
        tune.on_arrived(1);
        assert_eq!(tune.on_packet_end(at(80), None, 2000), Some(800));
        tune.on_arrived(2000);
        tune.on_taken(400);
        // The second window arrived faster, within 70 ms.
        assert_eq!(tune.on_packet_end(at(150), None, 2000), Some(800));
        assert_eq!(tune.estimate, Some(ms(70)));
    }

    #[test]
    fn waiting_data_grows_the_buffer() {
        let tuned = Autotune::new(10_000);
        assert_eq!(tuned.on_waiting(2000), 8000);
        assert_eq!(tuned.on_waiting(3000), 10_000, "up to the limit");
    }
}
