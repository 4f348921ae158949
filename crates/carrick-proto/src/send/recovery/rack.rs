//! RACK (RFC 8985 section 6) for the chunks of one path: a chunk is lost when one that was sent
//! later on the same path has been delivered and the reordering window has passed.
//!
//! Where TCP compares time stamps and breaks ties by sequence numbers, chunks have the number of
//! their transmission, which orders all of them, retransmissions too.

use core::time::Duration;

use crate::time::Time;

/// How long a minimum of the round-trip time is valid: two of these.
const MIN_RTT_SPAN: Duration = Duration::from_secs(5);
/// Recoveries that an enlarged reordering window outlasts (section 6.2, step 4).
const PERSIST: u8 = 16;

/// A chunk that was acknowledged, as far as RACK is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// Its index.
    pub(crate) index: u64,
    /// The number of its last transmission, and when that was.
    pub(crate) serial: u64,
    pub(crate) sent: Time,
    /// It was sent once.
    pub(crate) once: bool,
    /// It says which transmission, on which path, was delivered: no other path carried it, and the
    /// peer had not acknowledged it before.
    pub(crate) clear: bool,
}

/// The least round-trip time of the last five to ten seconds.
#[derive(Clone, Copy, Debug, Default)]
struct MinRtt {
    current: Option<Duration>,
    before: Option<Duration>,
    since: Time,
}

impl MinRtt {
    fn measured(&mut self, rtt: Duration, now: Time) {
        if now.since(self.since) >= MIN_RTT_SPAN {
            self.before = self.current.take();
            self.since = now;
        }
        self.current = Some(self.current.map_or(rtt, |c| c.min(rtt)));
    }

    fn value(&self) -> Option<Duration> {
        match (self.current, self.before) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// RACK's state of one path.
#[derive(Debug)]
pub(crate) struct Rack {
    /// The last transmission known to be delivered, and when it was made.
    delivered: u64,
    delivered_sent: Time,
    /// The newest delivery that the SACK being processed tells of.
    newest: Option<(u64, Time)>,
    /// The round trip of the newest delivery of the last SACK.
    rtt: Duration,
    min_rtt: MinRtt,
    /// The highest chunk acknowledged.
    highest: u64,
    reordering_seen: bool,
    /// Quarters of the least round-trip time in the reordering window.
    quarters: u32,
    persist: u8,
    /// The window grew for duplicates; it grows again when this index is acknowledged.
    round: Option<u64>,
    /// Bytes acknowledged by gap blocks.
    pub(crate) sacked: usize,
    /// Where several paths carry data, gaps are mostly those of other paths. Then: the oldest
    /// transmission in flight here, and the bytes acknowledged since it is.
    pub(crate) above: Option<(u64, usize)>,
    /// When the chunks that could still be reordered are lost.
    pub(crate) timer: Option<Time>,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            delivered: 0,
            delivered_sent: Time::ZERO,
            newest: None,
            rtt: Duration::ZERO,
            min_rtt: MinRtt::default(),
            highest: 0,
            reordering_seen: false,
            quarters: 1,
            persist: 0,
            round: None,
            sacked: 0,
            above: None,
            timer: None,
        }
    }
}

impl Rack {
    /// Steps 1 to 3 for one chunk. Returns the round trip if it is a measurement.
    pub(crate) fn on_delivered(&mut self, chunk: &Delivery, now: Time) -> Option<Duration> {
        if chunk.once && chunk.index < self.highest {
            self.reordering_seen = true;
        }
        self.highest = self.highest.max(chunk.index);
        if !chunk.clear {
            return None;
        }
        let rtt = now.since(chunk.sent);
        if chunk.once {
            self.min_rtt.measured(rtt, now);
        } else if self.was_before(rtt) {
            // So soon, it was an earlier copy that arrived.
            return None;
        }
        if self.newest.is_none_or(|n| n.0 < chunk.serial) {
            self.newest = Some((chunk.serial, chunk.sent));
        }
        chunk.once.then_some(rtt)
    }

    /// Whether something that was acknowledged after this time must have been sent before.
    pub(crate) fn was_before(&self, elapsed: Duration) -> bool {
        self.min_rtt.value().is_some_and(|min| elapsed < min)
    }

    /// All chunks of a SACK have been seen.
    pub(crate) fn on_sack_end(&mut self, now: Time) {
        let Some((serial, sent)) = self.newest.take() else {
            return;
        };
        self.rtt = now.since(sent);
        if serial > self.delivered {
            (self.delivered, self.delivered_sent) = (serial, sent);
        }
    }

    /// The peer reported a duplicate of what was sent again: the window was too small. Once a round
    /// trip (step 4).
    pub(crate) fn on_duplicate(&mut self, cumulative: u64, next: u64) {
        if self.round.is_some_and(|end| cumulative < end) {
            return;
        }
        self.round = Some(next);
        self.quarters = self.quarters.saturating_add(1).min(64);
        self.persist = PERSIST;
    }

    pub(crate) fn on_recovery_end(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// Bytes of the path that were acknowledged above a gap.
    pub(crate) fn above_gap(&self) -> usize {
        self.above.map_or(self.sacked, |above| above.1)
    }

    /// Where several paths carry data: a SACK acknowledged these bytes; `oldest` was the oldest
    /// transmission in flight before it, and is so after it.
    pub(crate) fn count_above(&mut self, oldest: (u64, u64), bytes: usize) {
        let (before, after) = oldest;
        let known = self.above.filter(|a| a.0 == after).map_or(0, |a| a.1);
        let more = if before == after { bytes } else { 0 };
        self.above = Some((after, if after == 0 { 0 } else { known + more }));
    }

    /// Step 4. Three packets that are acknowledged above a gap stand for three missing reports while
    /// no reordering has been seen; they are counted in bytes, for several chunks share a packet.
    pub(crate) fn reordering_window(
        &self,
        recovering: bool,
        pmdcs: usize,
        srtt: Option<Duration>,
    ) -> Duration {
        if !self.reordering_seen && (recovering || self.above_gap() > 2 * pmdcs) {
            return Duration::ZERO;
        }
        let min = self.min_rtt.value().unwrap_or_default();
        (min / 4 * self.quarters).min(srtt.unwrap_or(min))
    }

    /// Step 5: when this transmission counts as lost; `None` while nothing later was delivered.
    pub(crate) fn lost_at(&self, serial: u64, sent: Time, window: Duration) -> Option<Time> {
        (serial < self.delivered).then(|| sent + self.rtt + window)
    }

    /// When all transmissions before the last one delivered count as lost.
    pub(crate) fn all_lost_at(&self, window: Duration) -> Time {
        self.delivered_sent + self.rtt + window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn chunk(index: u64, serial: u64, sent: u64) -> Delivery {
        Delivery {
            index,
            serial,
            sent: Time::from_millis(sent),
            once: true,
            clear: true,
        }
    }

    #[test]
    fn only_what_was_sent_before_the_last_delivery_can_be_lost_6_2() {
        let mut rack = Rack::default();
        rack.on_delivered(&chunk(5, 5, 10), Time::from_millis(110));
        rack.on_sack_end(Time::from_millis(110));
        let window = rack.reordering_window(false, 1000, Some(ms(100)));
        assert_eq!(window, ms(25));
        let at = |serial, sent| rack.lost_at(serial, Time::from_millis(sent), window);
        assert_eq!(at(4, 10), Some(Time::from_millis(135)));
        assert_eq!(at(6, 10), None, "sent later, if at the same time");
    }

    #[test]
    fn a_copy_acknowledged_too_soon_says_nothing_6_2() {
        let mut rack = Rack::default();
        rack.on_delivered(&chunk(1, 1, 0), Time::from_millis(100));
        rack.on_sack_end(Time::from_millis(100));
        let again = Delivery {
            once: false,
            ..chunk(2, 9, 100)
        };
        rack.on_delivered(&again, Time::from_millis(150));
        rack.on_sack_end(Time::from_millis(150));
        assert_eq!(rack.lost_at(5, Time::ZERO, ms(0)), None);
        rack.on_delivered(&again, Time::from_millis(200));
        rack.on_sack_end(Time::from_millis(200));
        assert!(rack.lost_at(5, Time::ZERO, ms(0)).is_some());
    }

    #[test]
    fn the_window_grows_with_duplicates_once_a_round_and_is_forgotten_after_16_recoveries_6_2() {
        let mut rack = Rack::default();
        rack.on_delivered(&chunk(3, 3, 0), Time::from_millis(100));
        let window = |r: &Rack| r.reordering_window(true, 1000, Some(ms(1000)));
        assert_eq!(window(&rack), ms(0), "no reordering was seen");
        rack.on_delivered(&chunk(2, 2, 0), Time::from_millis(100));
        assert_eq!(window(&rack), ms(25));
        rack.on_duplicate(3, 20);
        rack.on_duplicate(10, 25);
        assert_eq!(window(&rack), ms(50));
        rack.on_duplicate(20, 40);
        assert_eq!(window(&rack), ms(75));
        assert_eq!(rack.reordering_window(true, 1000, Some(ms(60))), ms(60));
        (0..16).for_each(|_| rack.on_recovery_end());
        assert_eq!(window(&rack), ms(25));
    }

    #[test]
    fn three_packets_above_a_gap_need_no_window_until_reordering_is_seen_6_2() {
        let mut rack = Rack::default();
        rack.on_delivered(&chunk(9, 9, 0), Time::from_millis(80));
        rack.sacked = 2000;
        assert_eq!(rack.reordering_window(false, 1000, None), ms(20));
        rack.sacked = 2001;
        assert_eq!(rack.reordering_window(false, 1000, None), ms(0));
        rack.on_delivered(&chunk(8, 8, 0), Time::from_millis(80));
        assert_eq!(rack.reordering_window(false, 1000, None), ms(20));
    }

    #[test]
    fn the_least_round_trip_is_forgotten_after_a_while_6_2() {
        let mut min = MinRtt::default();
        min.measured(ms(10), Time::ZERO);
        min.measured(ms(90), Time::from_millis(5000));
        assert_eq!(min.value(), Some(ms(10)));
        min.measured(ms(80), Time::from_millis(10_000));
        assert_eq!(min.value(), Some(ms(80)));
    }
}
