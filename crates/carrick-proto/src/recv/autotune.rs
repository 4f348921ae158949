//! Dynamic right-sizing of the receive buffer: as large as what the user takes in two round trips,
//! so that the window never is what limits a transfer whose user keeps up.
//!
//! The round trip is the path's own, or, for a side that sends nothing, the least time in which a
//! whole announced window arrived: no sender can fill one sooner than a round trip after it was told.
//!
//! Where data comes over several paths at once, what the fast ones bring waits for the slow ones, and
//! the user takes nothing meanwhile: the buffer is also twice what waits.

use core::time::Duration;

use crate::time::Time;

/// Shorter times say more of how packets are batched than of how fast they come.
const LEAST: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Autotune {
    /// Bytes that the buffer may grow to.
    limit: usize,
    /// Since when `taken` is counted.
    since: Option<Time>,
    taken: usize,
    /// A window was announced then, of which so much has not arrived.
    announced: Option<(Time, usize)>,
    estimate: Option<Duration>,
    /// Data waits for slower paths, and the buffer has to hold it.
    across_paths: bool,
}

impl Autotune {
    pub(super) fn new(limit: usize, across_paths: bool) -> Self {
        Self {
            limit,
            since: None,
            taken: 0,
            announced: None,
            estimate: None,
            across_paths,
        }
    }

    /// The user took something that cost so many bytes of the buffer.
    pub(super) fn on_taken(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// So many bytes of payload arrived.
    pub(super) fn on_arrived(&mut self, bytes: usize) {
        if let Some((_, left)) = &mut self.announced {
            *left = left.saturating_sub(bytes);
        }
    }

    /// The user has taken all that can be delivered, and this much waits for what is missing. Returns
    /// the capacity that the buffer should have at least.
    pub(super) fn on_waiting(&self, memory: usize) -> Option<usize> {
        self.across_paths
            .then(|| memory.saturating_mul(2).min(self.limit))
    }

    /// A packet with data has been taken; `window` is what is announced now. Returns the capacity
    /// that the buffer should have at least.
    pub(super) fn on_packet_end(
        &mut self,
        now: Time,
        rtt: Option<Duration>,
        window: usize,
    ) -> Option<usize> {
        match self.announced {
            Some((at, 0)) => {
                let filled = now.since(at);
                self.estimate = Some(self.estimate.map_or(filled, |e| e.min(filled)));
                self.announced = Some((now, window));
            }
            Some(_) => {}
            None => self.announced = Some((now, window)),
        }
        let since = *self.since.get_or_insert(now);
        let rtt = rtt.or(self.estimate)?;
        if now.since(since) < rtt.max(LEAST) || self.taken == 0 {
            return None;
        }
        self.since = Some(now);
        // Packets come when they come: what was taken in a longer time counts in proportion.
        let (rtt, elapsed) = (rtt.as_nanos(), now.since(since).as_nanos().max(1));
        let taken = core::mem::take(&mut self.taken) as u128 * rtt / elapsed;
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        // Slow start doubles it in the next round trip.
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
    fn the_buffer_follows_what_is_taken_in_a_round_trip() {
        let mut tune = Autotune::new(10_000, false);
        let rtt = Some(ms(100));
        assert_eq!(tune.on_packet_end(at(0), rtt, 1000), None);
        tune.on_taken(500);
        assert_eq!(tune.on_packet_end(at(99), rtt, 1000), None);
        assert_eq!(tune.on_packet_end(at(100), rtt, 1000), Some(1000));
        tune.on_taken(500);
        assert_eq!(tune.on_packet_end(at(200), rtt, 1000), Some(1000), "steady");
        tune.on_taken(9000);
        assert_eq!(tune.on_packet_end(at(300), rtt, 1000), Some(10_000));
        assert_eq!(
            tune.on_packet_end(at(400), rtt, 1000),
            None,
            "nothing taken"
        );
    }

    #[test]
    fn without_a_measured_round_trip_a_window_takes_one_to_arrive() {
        let mut tune = Autotune::new(10_000, false);
        tune.on_packet_end(at(0), None, 1000);
        tune.on_taken(400);
        tune.on_arrived(999);
        assert_eq!(tune.on_packet_end(at(50), None, 1000), None);
        tune.on_arrived(1);
        assert_eq!(tune.on_packet_end(at(80), None, 2000), Some(800));
        tune.on_arrived(2000);
        tune.on_taken(400);
        // The second window came sooner: that much has passed since 80 ms.
        assert_eq!(tune.on_packet_end(at(150), None, 2000), Some(800));
        assert_eq!(tune.estimate, Some(ms(70)));
    }

    #[test]
    fn what_waits_for_slower_paths_makes_the_buffer_grow_only_with_several() {
        assert_eq!(Autotune::new(10_000, false).on_waiting(3000), None);
        let tuned = Autotune::new(10_000, true);
        assert_eq!(tuned.on_waiting(3000), Some(6000));
        assert_eq!(tuned.on_waiting(9000), Some(10_000), "up to the limit");
    }
}
