//! Pacing of a path: packets with DATA leave in quanta, at the rate of the path's congestion controller.
//!
//! A quantum is what the rate carries in [`QUANTUM_TIME`], in whole packets, two or more, so that the
//! granularity of a driver's timer does not limit the rate. Once a quantum has left, the next one has a
//! departure time; until then no packet of the path may leave, and the association's timeout includes that time.
//! A driver that is late makes up for it with one further quantum at most.

use core::time::Duration;

use crate::time::Time;

/// Time in which a quantum leaves at the pacing rate.
const QUANTUM_TIME: Duration = Duration::from_millis(1);

/// Packets of a quantum at least.
const MIN_PACKETS: usize = 2;

/// Pacing rate with the packets that it applies to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacingRate {
    /// Bytes of DATA chunks per second.
    pub(crate) rate: u64,
    /// Bytes of DATA chunks in a full packet.
    pub(crate) packet: usize,
}

impl PacingRate {
    /// Returns the bytes of a quantum.
    fn quantum(self) -> usize {
        let packet = self.packet.max(1);
        let packets = self.bytes_in(QUANTUM_TIME) / packet;
        packets.max(MIN_PACKETS).saturating_mul(packet)
    }

    /// Returns the bytes that the rate carries in this time, rounded down.
    fn bytes_in(self, time: Duration) -> usize {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bytes = u128::from(nanos) * u128::from(self.rate) / 1_000_000_000;
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Returns the time in which the rate carries these bytes, rounded up.
    fn time_for(self, bytes: usize) -> Duration {
        let nanos = (bytes as u128 * 1_000_000_000).div_ceil(u128::from(self.rate.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Pacer of one path.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// Bytes that may leave, as of `updated`.
    credit: usize,
    /// `None` before the first packet.
    updated: Option<Time>,
    /// A packet waits until a quantum may leave.
    waits: bool,
}

portable_struct! { Pacer { credit, updated, waits } }

impl Pacer {
    /// Departure time of the next packet; `None` if it may leave now.
    pub(crate) fn departure_at(&mut self, now: Time, rate: PacingRate) -> Option<Time> {
        let quantum = rate.quantum();
        let elapsed = self.updated.map(|at| rate.bytes_in(now.since(at)));
        let (needed, limit) = if self.waits {
            (quantum, 2 * quantum)
        } else {
            (rate.packet, quantum)
        };
        let gained = elapsed.unwrap_or(quantum);
        let credit = self
            .credit
            .max(self.credit.saturating_add(gained).min(limit));
        let waits = credit < needed;
        if !(self.waits && waits) {
            (self.credit, self.updated) = (credit, Some(now));
        }
        self.waits = waits;
        let missing = quantum.saturating_sub(self.credit);
        let updated = self.updated.filter(|_| waits)?;
        Some(updated + rate.time_for(missing))
    }

    /// Records a packet that leaves, paced or not.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.credit = self.credit.saturating_sub(bytes);
    }

    /// Returns whether a packet waits for its departure.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Ends the wait: there is no pacing rate any more.
    pub(crate) fn release(&mut self) {
        self.waits = false;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const PACKET: usize = 1000;

    fn rate(bytes_per_second: u64) -> PacingRate {
        PacingRate {
            rate: bytes_per_second,
            packet: PACKET,
        }
    }

    /// Packets that leave at a time.
    fn drain(pacer: &mut Pacer, now: Time, rate: PacingRate) -> usize {
        let mut packets = 0;
        while pacer.departure_at(now, rate).is_none() {
            pacer.on_sent(PACKET);
            packets += 1;
        }
        packets
    }

    #[test]
    fn a_quantum_is_a_millisecond_or_two_packets() {
        assert_eq!(rate(1_000_000).quantum(), 2 * PACKET);
        assert_eq!(rate(3_999_999).quantum(), 3 * PACKET, "in whole packets");
        assert_eq!(rate(100_000_000).quantum(), 100 * PACKET);
    }

    #[test]
    fn departures_are_a_quantum_apart() {
        let rate = rate(10_000_000);
        let mut pacer = Pacer::default();
        let mut now = Time::from_millis(5);
        let mut departures = Vec::new();
        for _ in 0..10 {
            departures.push((now.as_nanos(), drain(&mut pacer, now, rate)));
            let next = pacer.departure_at(now, rate).unwrap();
            let before = Time::from_nanos(next.as_nanos() - 1);
            assert_eq!(
                pacer.departure_at(before, rate),
                Some(next),
                "the departure time does not move"
            );
            now = next;
        }
        let expected: Vec<_> = (5..15).map(|ms| (ms * 1_000_000, 10)).collect();
        assert_eq!(departures, expected);
    }

    #[test]
    fn a_late_driver_makes_up_for_one_quantum() {
        let rate = rate(10_000_000);
        let mut pacer = Pacer::default();
        assert_eq!(drain(&mut pacer, Time::ZERO, rate), 10);
        let late = Time::from_nanos(1_500_000);
        assert_eq!(drain(&mut pacer, late, rate), 15);
        let next = pacer.departure_at(late, rate);
        assert_eq!(next, Some(Time::from_nanos(2_500_000)));
        assert_eq!(drain(&mut pacer, Time::from_millis(9), rate), 20);
    }

    #[test]
    fn an_idle_time_gives_no_more_than_a_quantum() {
        let rate = rate(10_000_000);
        let mut pacer = Pacer::default();
        assert_eq!(pacer.departure_at(Time::ZERO, rate), None);
        pacer.on_sent(PACKET);
        assert!(!pacer.waits());
        assert_eq!(drain(&mut pacer, Time::from_millis(1000), rate), 10);
    }

    #[test]
    fn a_higher_rate_brings_the_departure_forward() {
        let mut pacer = Pacer::default();
        assert_eq!(drain(&mut pacer, Time::ZERO, rate(10_000)), 2);
        let slow = pacer.departure_at(Time::ZERO, rate(10_000));
        assert_eq!(slow, Some(Time::from_millis(200)));
        let fast = pacer.departure_at(Time::from_nanos(500_000), rate(1_000_000));
        assert_eq!(fast, Some(Time::from_millis(2)));
    }

    #[test]
    fn unpaced_packets_use_up_credit() {
        let rate = rate(1_000_000);
        let mut pacer = Pacer::default();
        assert_eq!(pacer.departure_at(Time::ZERO, rate), None);
        (0..9).for_each(|_| pacer.on_sent(PACKET));
        let next = pacer.departure_at(Time::ZERO, rate);
        assert_eq!(next, Some(Time::from_millis(2)));
    }
}
