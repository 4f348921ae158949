//! State of RACK (RFC 8985, section 6) for one path: a chunk is lost when one sent later on the same path has
//! been delivered and the reordering window has passed.
//!
//! TCP compares time stamps and sequence numbers; here the number of a transmission orders all of them,
//! retransmissions included.

use core::time::Duration;

use crate::time::Time;

/// Half of the time for which a minimum of the round-trip time is valid.
const MIN_RTT_SPAN: Duration = Duration::from_secs(5);
/// Time for which a minimum of the round-trip time is valid at most.
pub(in crate::path) const MIN_RTT_VALIDITY: Duration = MIN_RTT_SPAN.saturating_mul(2);
/// Recoveries after which an enlarged reordering window is reset (RFC 8985, section 6.2, step 4).
const PERSIST: u8 = 16;

/// Acknowledged chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// Index of the chunk.
    pub(crate) index: u64,
    /// Number and time of its last transmission.
    pub(crate) serial: u64,
    pub(crate) sent: Time,
    /// The chunk was sent once.
    pub(crate) once: bool,
    /// The transmission that was delivered is known: no other path carried the chunk, and the peer had
    /// not acknowledged it before.
    pub(crate) clear: bool,
}

portable_struct! { Delivery { index, serial, sent, once, clear } }

/// Minimum of the round-trip time in the last five to ten seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct MinRtt {
    current: Option<Duration>,
    before: Option<Duration>,
    since: Time,
}

portable_struct! { MinRtt { current, before, since } }

impl MinRtt {
    const fn new() -> Self {
        Self {
            current: None,
            before: None,
            since: Time::ZERO,
        }
    }

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
#[derive(PartialEq, Debug)]
pub(crate) struct Rack {
    /// Last transmission known to be delivered, and its time.
    delivered: u64,
    delivered_sent: Time,
    /// Last transmission delivered according to the SACK being processed.
    newest: Option<(u64, Time)>,
    /// Round-trip time of the last delivery.
    rtt: Duration,
    min_rtt: MinRtt,
    /// Highest chunk acknowledged.
    highest: u64,
    reordering_seen: bool,
    /// Reordering window in quarters of the minimum round-trip time.
    quarters: u32,
    persist: u8,
    /// The window was enlarged; it may be again once this index is acknowledged.
    round: Option<u64>,
    /// Bytes acknowledged by Gap Ack Blocks.
    gap_acked: usize,
    /// With concurrent multipath transfer, where most gaps are chunks of other paths: the oldest chunk in
    /// flight on this path, and the bytes acknowledged since.
    above: Option<(u64, usize)>,
    /// Reordering timer.
    timer: Option<Time>,
}

portable_struct! {
    Rack {
        delivered, delivered_sent, newest, rtt, min_rtt, highest, reordering_seen, quarters,
        persist, round, gap_acked, above, timer,
    }
}

impl Rack {
    pub(super) const fn new() -> Self {
        Self {
            delivered: 0,
            delivered_sent: Time::ZERO,
            newest: None,
            rtt: Duration::ZERO,
            min_rtt: MinRtt::new(),
            highest: 0,
            reordering_seen: false,
            quarters: 1,
            persist: 0,
            round: None,
            gap_acked: 0,
            above: None,
            timer: None,
        }
    }

    /// Resets the state for another route, except for the bytes acknowledged by Gap Ack Blocks, which belong
    /// to the chunks.
    pub(super) fn reset(&mut self) {
        self.gap_acked = core::mem::replace(self, Self::new()).gap_acked;
    }

    /// Forgets the transmissions that were delivered, with a minimum of the round-trip time that is no longer valid:
    /// no chunk is outstanding. Reordering that was seen remains, as does the enlarged window (step 4).
    pub(super) fn forget_deliveries(&mut self) {
        *self = Self {
            reordering_seen: self.reordering_seen,
            quarters: self.quarters,
            persist: self.persist,
            ..Self::new()
        };
    }

    /// Minimum of the round-trip time in the last five to ten seconds.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.value()
    }

    /// Expiry of the reordering timer.
    pub(crate) fn timer(&self) -> Option<Time> {
        self.timer
    }

    /// Starts the reordering timer, or stops it.
    pub(crate) fn set_timer(&mut self, timer: Option<Time>) {
        self.timer = timer;
    }

    /// Bytes acknowledged by Gap Ack Blocks.
    pub(super) fn gap_acked(&self) -> usize {
        self.gap_acked
    }

    /// Counts a chunk of `bytes` bytes that a Gap Ack Block acknowledges.
    pub(crate) fn on_gap_ack(&mut self, bytes: usize) {
        self.gap_acked += bytes;
    }

    /// Ends the count of a chunk that a Gap Ack Block acknowledged: it is acknowledged cumulatively, reneged
    /// on, abandoned, or moved to another path.
    pub(crate) fn end_gap_ack(&mut self, bytes: usize) {
        self.gap_acked = self.gap_acked.saturating_sub(bytes);
    }

    /// Takes steps 1 to 3 for one chunk. Returns the round-trip time if it is a measurement.
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
            // An earlier transmission was delivered (step 2).
            return None;
        }
        if self.newest.is_none_or(|n| n.0 < chunk.serial) {
            self.newest = Some((chunk.serial, chunk.sent));
        }
        chunk.once.then_some(rtt)
    }

    /// Returns whether a chunk acknowledged this long after its transmission was delivered by an earlier
    /// one.
    pub(crate) fn was_before(&self, elapsed: Duration) -> bool {
        self.min_rtt.value().is_some_and(|min| elapsed < min)
    }

    /// Ends a SACK.
    pub(crate) fn on_sack_end(&mut self, now: Time) {
        let Some((serial, sent)) = self.newest.take() else {
            return;
        };
        self.rtt = now.since(sent);
        if serial > self.delivered {
            (self.delivered, self.delivered_sent) = (serial, sent);
        }
    }

    /// Enlarges the window, at most once a round trip, because the peer reported a retransmission as a
    /// duplicate (step 4).
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

    /// Bytes of the path acknowledged above a gap.
    pub(crate) fn above_gap(&self) -> usize {
        self.above.map_or(self.gap_acked, |above| above.1)
    }

    /// Counts bytes that a SACK acknowledged, with concurrent multipath transfer; `oldest` are the oldest
    /// chunks in flight before and after it.
    pub(crate) fn count_above(&mut self, oldest: (u64, u64), bytes: usize) {
        let (before, after) = oldest;
        let known = self.above.filter(|a| a.0 == after).map_or(0, |a| a.1);
        let more = if before == after { bytes } else { 0 };
        self.above = Some((after, if after == 0 { 0 } else { known + more }));
    }

    /// Reordering window (step 4). While no reordering has been seen, three packets acknowledged above a
    /// gap stand for three missing reports; they are counted in bytes, since a packet may carry
    /// several chunks.
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

    /// Time at which a transmission counts as lost (step 5); `None` while no later one is delivered.
    pub(crate) fn lost_at(&self, serial: u64, sent: Time, window: Duration) -> Option<Time> {
        (serial < self.delivered).then(|| sent + self.rtt + window)
    }

    /// Time at which all transmissions before the last one delivered count as lost.
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

    /// RFC 8985, section 6.2
    #[test]
    fn only_earlier_transmissions_can_be_lost() {
        let mut rack = Rack::new();
        rack.on_delivered(&chunk(5, 5, 10), Time::from_millis(110));
        rack.on_sack_end(Time::from_millis(110));
        let window = rack.reordering_window(false, 1000, Some(ms(100)));
        assert_eq!(window, ms(25));
        let at = |serial, sent| rack.lost_at(serial, Time::from_millis(sent), window);
        assert_eq!(at(4, 10), Some(Time::from_millis(135)));
        assert_eq!(at(6, 10), None, "sent later, if at the same time");
    }

    /// RFC 8985, section 6.2
    #[test]
    fn a_retransmission_acknowledged_too_soon_is_ignored() {
        let mut rack = Rack::new();
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

    /// RFC 8985, section 6.2
    #[test]
    fn duplicates_enlarge_the_window_for_16_recoveries() {
        let mut rack = Rack::new();
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

    /// RFC 8985, section 6.2
    #[test]
    fn the_reordering_window_is_zero_after_three_packets() {
        let mut rack = Rack::new();
        rack.on_delivered(&chunk(9, 9, 0), Time::from_millis(80));
        rack.on_gap_ack(2000);
        assert_eq!(rack.reordering_window(false, 1000, None), ms(20));
        rack.on_gap_ack(1);
        assert_eq!(rack.reordering_window(false, 1000, None), ms(0));
        rack.on_delivered(&chunk(8, 8, 0), Time::from_millis(80));
        assert_eq!(rack.reordering_window(false, 1000, None), ms(20));
    }

    /// RFC 8985, section 6.2
    #[test]
    fn the_minimum_rtt_expires_after_ten_seconds() {
        let mut min = MinRtt::new();
        min.measured(ms(10), Time::ZERO);
        min.measured(ms(90), Time::from_millis(5000));
        assert_eq!(min.value(), Some(ms(10)));
        min.measured(ms(80), Time::from_millis(10_000));
        assert_eq!(min.value(), Some(ms(80)));
    }
}
