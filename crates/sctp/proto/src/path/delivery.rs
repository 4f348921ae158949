//! Delivery rate of a path (draft-cheng-iccrg-delivery-rate-estimation).
//!
//! Each packet with DATA is recorded with what had been delivered when it left. The acknowledgement of the
//! newest packet then gives the bytes delivered since, and the time in which they were sent and acknowledged.
//! The longer of the two times counts, so that SACKs that arrive in a bunch do not raise the rate.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::cc::{DeliverySample, PacketLost, PacketSent};
use crate::time::Time;

/// Limit of the recorded packets; those in flight are fewer, because a packet has a chunk or more.
const MAX_PACKETS: usize = 65_536;

/// Numbers of a packet with DATA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketNumbers {
    /// Number of the first of its transmissions in the association.
    pub(crate) first: u64,
    /// Number of the last one.
    pub(crate) last: u64,
    /// Index of the highest chunk that had been sent.
    pub(crate) highest: u64,
}

portable_struct! { PacketNumbers { first, last, highest } }

/// Packet in flight, with the state of its path when it left.
#[derive(Clone, Copy, Debug)]
struct PacketRecord {
    numbers: PacketNumbers,
    sent: Time,
    /// Bytes delivered, and the time of the last delivery.
    delivered: u64,
    delivered_at: Time,
    /// Departure of the packet that was delivered last.
    first_sent: Time,
    app_limited: bool,
    /// Bytes found lost.
    lost: u64,
    /// Outstanding bytes, the packet included.
    flight: usize,
}

portable_struct! {
    PacketRecord {
        numbers, sent, delivered, delivered_at, first_sent, app_limited, lost, flight,
    }
}

/// Newest packet that the SACK being processed acknowledges.
#[derive(Clone, Copy, Debug)]
struct NewestPacket {
    record: PacketRecord,
    /// Each of its chunks that the SACK acknowledges was sent once.
    once: bool,
}

portable_struct! { NewestPacket { record, once } }

/// Sampler of the delivery rate of one path.
#[derive(Debug, Default)]
pub(crate) struct DeliverySampler {
    /// Packets in the order of their departure.
    packets: VecDeque<PacketRecord>,
    /// Bytes delivered, and the time of the last delivery, or of the first departure after an idle time.
    delivered: u64,
    delivered_at: Time,
    /// Departure of the packet that was delivered last, or of the first one after an idle time.
    first_sent: Time,
    /// Value of `delivered` up to which the user's data limits the rate; 0 where it does not.
    app_limited_until: u64,
    min_rtt: Option<Duration>,
    newest: Option<NewestPacket>,
    /// Bytes found lost, and the number of the last transmission among them.
    lost: u64,
    last_lost: u64,
}

portable_struct! {
    DeliverySampler {
        packets, delivered, delivered_at, first_sent, app_limited_until, min_rtt, newest, lost, last_lost,
    }
    check Self::is_consistent
}

impl DeliverySampler {
    /// Returns whether the records of an import are not later than the last delivery.
    fn is_consistent(&self) -> bool {
        let newest = self.newest.map(|newest| newest.record);
        let mut records = self.packets.iter().copied().chain(newest);
        records.all(|record| record.delivered <= self.delivered && record.lost <= self.lost)
    }

    /// Records a packet.
    pub(crate) fn on_sent(&mut self, numbers: PacketNumbers, packet: &PacketSent) {
        let now = packet.now;
        if packet.flight_before == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        if self.packets.len() >= MAX_PACKETS {
            self.packets.pop_front();
        }
        self.packets.push_back(PacketRecord {
            numbers,
            sent: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            app_limited: packet.app_limited,
            lost: self.lost,
            flight: packet.flight_before + packet.bytes,
        });
    }

    /// Record of the packet with this transmission, if it is not forgotten.
    fn record_of(&self, number: u64) -> Option<PacketRecord> {
        let at = self.packets.partition_point(|p| p.numbers.last < number);
        let record = self.packets.get(at).copied();
        record.filter(|p| p.numbers.first <= number)
    }

    /// Records a chunk of `bytes` bytes that was found lost, whose last transmission has this number.
    pub(crate) fn on_lost(&mut self, number: u64, bytes: usize, now: Time) -> Option<PacketLost> {
        self.lost += bytes as u64;
        let before = core::mem::replace(&mut self.last_lost, number);
        let record = self.record_of(number)?;
        Some(PacketLost {
            now,
            bytes,
            flight_at_departure: record.flight,
            lost: self.lost - record.lost,
            app_limited: record.app_limited,
            adjacent: before > 0 && number == before + 1,
        })
    }

    /// Records that T3-rtx expired with this number of bytes in flight, all of which count as lost.
    pub(crate) fn on_timeout(&mut self, flight: usize) {
        self.lost += flight as u64;
    }

    /// Records the acknowledgement of a chunk of `bytes` bytes, whose last transmission has this number;
    /// `once` if that was the only one.
    pub(crate) fn on_acknowledged(&mut self, number: u64, bytes: usize, once: bool, now: Time) {
        self.delivered += bytes as u64;
        self.delivered_at = now;
        let Some(record) = self.record_of(number) else {
            return;
        };
        match &mut self.newest {
            Some(newest) if newest.record.numbers.first > record.numbers.first => {}
            Some(newest) if newest.record.numbers.first == record.numbers.first => {
                newest.once &= once;
            }
            newest => {
                self.first_sent = record.sent;
                *newest = Some(NewestPacket { record, once });
            }
        }
    }

    /// Returns the sample of a SACK that newly acknowledges this number of bytes, and forgets the packets up
    /// to this cumulative index. `None` if the SACK acknowledges nothing of a recorded packet.
    pub(crate) fn take_sample(&mut self, newly: usize, cumulative: u64) -> Option<DeliverySample> {
        let is_acknowledged = |p: &PacketRecord| p.numbers.highest <= cumulative;
        while self.packets.front().is_some_and(is_acknowledged) {
            self.packets.pop_front();
        }
        if self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let NewestPacket { record, once } = self.newest.take()?;
        let rtt = once.then(|| self.delivered_at.since(record.sent));
        self.min_rtt = self.min_rtt.into_iter().chain(rtt).min();
        let sending = record.sent.since(record.first_sent);
        let acknowledging = self.delivered_at.since(record.delivered_at);
        let delivered = self.delivered - record.delivered;
        // A shorter interval is that of a retransmission whose original was acknowledged.
        let interval = Some(sending.max(acknowledging))
            .filter(|interval| self.min_rtt.is_none_or(|min| *interval >= min))
            .unwrap_or_default();
        let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        Some(DeliverySample {
            newly_acknowledged: newly,
            total_delivered: self.delivered,
            prior_delivered: record.delivered,
            delivered,
            interval,
            rate: delivered.saturating_mul(1_000_000_000).checked_div(nanos),
            app_limited: record.app_limited,
            flight_at_departure: record.flight,
            lost: self.lost - record.lost,
            rtt,
        })
    }

    /// Returns whether the user's data limits the rate of what leaves now.
    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited_until != 0
    }

    /// Records that less data than the window allows is in flight, because no more data is queued.
    pub(crate) fn set_app_limited(&mut self, flight_size: usize) {
        self.app_limited_until = (self.delivered + flight_size as u64).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1000;

    /// Sampler with one chunk in a packet: chunk, transmission and packet have the same number.
    #[derive(Default)]
    struct Flow {
        sampler: DeliverySampler,
        sent: u64,
        cumulative: u64,
    }

    impl Flow {
        fn send(&mut self, at: u64) {
            let idle = self.sent == self.cumulative;
            self.sent += 1;
            let numbers = PacketNumbers {
                first: self.sent,
                last: self.sent,
                highest: self.sent,
            };
            let packet = PacketSent {
                now: Time::from_millis(at),
                bytes: BYTES,
                flight_before: if idle { 0 } else { BYTES },
                app_limited: self.sampler.is_app_limited(),
            };
            self.sampler.on_sent(numbers, &packet);
        }

        fn acknowledge(&mut self, up_to: u64, at: u64) -> DeliverySample {
            let chunks = self.cumulative + 1..=up_to;
            let newly = BYTES * chunks.clone().count();
            for number in chunks {
                let now = Time::from_millis(at);
                self.sampler.on_acknowledged(number, BYTES, true, now);
            }
            self.cumulative = up_to;
            self.sampler.take_sample(newly, up_to).unwrap()
        }
    }

    /// draft-cheng-iccrg-delivery-rate-estimation, section 3.1.3
    #[test]
    fn the_rate_is_that_of_the_bottleneck() {
        let mut flow = Flow::default();
        (0..10).for_each(|_| flow.send(0));
        // The bottleneck delivers a packet each 10 ms, the first one after 100 ms.
        let first = flow.acknowledge(1, 100);
        assert_eq!((first.rate, first.delivered), (Some(10_000), 1000));
        assert_eq!(first.rtt, Some(Duration::from_millis(100)));
        for n in 2..=10 {
            flow.send(90 + 10 * n);
            flow.acknowledge(n, 90 + 10 * n);
        }
        let sample = flow.acknowledge(11, 200);
        // Packets 2 to 11 left in 110 ms, and were delivered in 100 ms.
        assert_eq!(sample.prior_delivered, 1000);
        assert_eq!(sample.total_delivered, 11_000);
        assert_eq!(sample.interval, Duration::from_millis(110));
        assert_eq!(sample.rate, Some(90_909));
        assert!(!sample.app_limited);
    }

    /// draft-cheng-iccrg-delivery-rate-estimation, section 3.1.2
    #[test]
    fn sacks_in_a_bunch_do_not_raise_the_rate() {
        let mut flow = Flow::default();
        for n in 0..10 {
            flow.send(10 * n);
        }
        let first = flow.acknowledge(1, 100);
        assert_eq!(first.rate, Some(10_000));
        // Nine SACKs arrive together, though their packets left over 80 ms.
        let sample = flow.acknowledge(10, 101);
        assert_eq!(sample.interval, Duration::from_millis(101));
        assert_eq!(sample.delivered, 10_000);
    }

    /// draft-cheng-iccrg-delivery-rate-estimation, section 3.1.3
    #[test]
    fn an_interval_below_the_minimum_rtt_has_no_rate() {
        let mut flow = Flow::default();
        flow.send(0);
        flow.acknowledge(1, 100);
        flow.send(200);
        let sample = flow.acknowledge(2, 201);
        assert_eq!(sample.rate, Some(1_000_000), "a shorter round trip");
        // The acknowledgement of the original seems to be that of a retransmission.
        flow.send(300);
        let now = Time::from_nanos(300_000_001);
        flow.sampler.on_acknowledged(3, BYTES, false, now);
        let sample = flow.sampler.take_sample(BYTES, 3).unwrap();
        assert_eq!((sample.rate, sample.interval), (None, Duration::ZERO));
        assert_eq!(sample.rtt, None);
    }

    /// draft-cheng-iccrg-delivery-rate-estimation, section 3.4
    #[test]
    fn app_limited_packets_are_flagged_until_delivered() {
        let mut flow = Flow::default();
        flow.send(0);
        flow.sampler.set_app_limited(BYTES);
        flow.send(50);
        assert!(!flow.acknowledge(1, 100).app_limited);
        flow.send(110);
        assert!(flow.acknowledge(2, 150).app_limited);
        flow.send(160);
        assert!(flow.acknowledge(3, 210).app_limited, "left before");
        assert!(!flow.acknowledge(4, 260).app_limited);
    }

    /// draft-ietf-ccwg-bbr-06, section 5.5.10.2
    #[test]
    fn losses_since_the_departure_are_counted() {
        let mut flow = Flow::default();
        (0..4).for_each(|_| flow.send(0));
        let now = Time::from_millis(100);
        let lost = flow.sampler.on_lost(1, BYTES, now).unwrap();
        assert_eq!((lost.lost, lost.adjacent), (1000, false));
        assert_eq!(lost.flight_at_departure, BYTES);
        let next = flow.sampler.on_lost(2, BYTES, now).unwrap();
        assert_eq!((next.lost, next.adjacent), (2000, true));
        flow.send(110);
        flow.sampler.on_acknowledged(3, BYTES, true, now);
        assert_eq!(flow.sampler.take_sample(BYTES, 0).unwrap().lost, 2000);
        flow.sampler.on_timeout(BYTES);
        flow.sampler
            .on_acknowledged(5, BYTES, true, Time::from_millis(200));
        let sample = flow.sampler.take_sample(BYTES, 0).unwrap();
        assert_eq!(sample.lost, 1000, "what was lost before it left is not");
        let unknown = flow.sampler.on_lost(1000, BYTES, now);
        assert_eq!(unknown, None);
    }

    #[test]
    fn packets_are_forgotten_once_acknowledged() {
        let mut flow = Flow::default();
        (0..100).for_each(|n| flow.send(n));
        flow.acknowledge(60, 200);
        assert_eq!(flow.sampler.packets.len(), 40);
        // A number of no packet, as of a chunk that the peer reneged on.
        let now = Time::from_millis(300);
        flow.sampler.on_acknowledged(1000, BYTES, true, now);
        assert!(flow.sampler.take_sample(BYTES, 60).is_none());
        assert_eq!(flow.sampler.delivered, 61_000);
        (0..2 * MAX_PACKETS).for_each(|_| flow.send(400));
        assert_eq!(flow.sampler.packets.len(), MAX_PACKETS);
    }
}
