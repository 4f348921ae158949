//! One-way delays of messages, and response times.
//!
//! With messages of 8 bytes to 1 MiB, each data message begins with the time at which it was handed to SCTP: nanoseconds since 1970 by
//! the sender's clock, big-endian. Its delay ends when the receiver has read its last byte. A response begins with the time of
//! its request.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use carrick::{MessagePart, Payload};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::clock::MeasurementClock;
use crate::failure::Failure;

/// Length of the sending time.
pub(super) const STAMP: usize = 8;

/// Maximum length of messages with a sending time. Each of those needs its own buffer.
pub(super) const MAX_STAMPED: usize = 1 << 20;

/// Maximum recorded delay, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// Maximum number of incomplete messages whose sending times are kept.
const MAX_INCOMPLETE: usize = 1024;

/// Maximum number of bytes in buffers of earlier messages.
const MAX_REUSED: usize = 8 << 20;

/// Delays of one direction, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct DelaySummary {
    /// Number of messages with a sending time.
    pub(super) messages: u64,
    pub(super) min: f64,
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p99_9: f64,
    pub(super) p99_99: f64,
    pub(super) max: f64,
}

/// Returns the quantiles of distributions, from 0 to 1; there are as many in each of the last three decades.
pub(super) fn quantile_levels() -> impl Iterator<Item = f64> {
    let decades = [(0.0, 0.1), (0.9, 0.01), (0.99, 0.001), (0.999, 0.0001)];
    let decades = decades.into_iter().flat_map(|(first, step)| {
        let from = u32::from(first > 0.0);
        (from..10).map(move |n| first + f64::from(n) * step)
    });
    decades.chain([1.0])
}

impl DelaySummary {
    fn new(histogram: &Histogram<u64>) -> Option<Self> {
        let seconds = |nanos: f64| nanos / 1e9;
        let quantile = |share| seconds(histogram.value_at_quantile(share) as f64);
        (!histogram.is_empty()).then(|| Self {
            messages: histogram.len(),
            min: seconds(histogram.min() as f64),
            mean: seconds(histogram.mean()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            p99_99: quantile(0.9999),
            max: seconds(histogram.max() as f64),
        })
    }

    /// Returns the delays of an interval in ms, as text.
    pub(super) fn short_text(&self) -> String {
        let [p50, p99, max] = [self.p50, self.p99, self.max].map(|delay| delay * 1000.0);
        format!("delay p50 {p50:.3} p99 {p99:.3} max {max:.3} ms")
    }

    /// Returns the delays in ms, as text.
    pub(super) fn text(&self) -> String {
        let ms = |seconds: f64| format!("{:.3}", seconds * 1000.0);
        format!(
            "min {}, mean {}, p50 {}, p90 {}, p99 {}, p99.9 {}, p99.99 {}, max {} ms",
            ms(self.min),
            ms(self.mean),
            ms(self.p50),
            ms(self.p90),
            ms(self.p99),
            ms(self.p99_9),
            ms(self.p99_99),
            ms(self.max)
        )
    }
}

/// Delays of received messages.
#[derive(Debug)]
pub(super) struct DelayRecorder {
    clock: MeasurementClock,
    /// The messages begin with their sending times.
    is_stamped: bool,
    /// Time of the peer's clock minus that of the own one, in nanoseconds.
    peer_ahead: i64,
    /// Nanoseconds with three digits. It grows with the delays, to some 300 KiB.
    histogram: Histogram<u64>,
    /// Delays of the current interval.
    interval: Histogram<u64>,
    /// Sending times of messages that are received in parts, by their first TSN.
    incomplete: BTreeMap<u32, u64>,
}

impl DelayRecorder {
    /// Returns the recorder of messages of at most this size.
    pub(super) fn new(clock: MeasurementClock, size: u32) -> Result<Self, Failure> {
        let histogram = || {
            let histogram = Histogram::new(3);
            histogram.map_err(|error| Failure::Run(error.to_string()))
        };
        Ok(Self {
            clock,
            is_stamped: is_stamped(size as usize),
            peer_ahead: 0,
            histogram: histogram()?,
            interval: histogram()?,
            incomplete: BTreeMap::new(),
        })
    }

    /// Sets the time of the peer's clock minus that of the own one, in nanoseconds.
    pub(super) fn set_peer_ahead(&mut self, peer_ahead: i64) {
        self.peer_ahead = peer_ahead;
    }

    /// Forgets the delays so far.
    pub(super) fn reset(&mut self) {
        self.histogram.reset();
    }

    /// Records the delay of a data message, or a part of it, with this first TSN, that was received at `now`. Returns the
    /// sending time of a message that is complete.
    pub(super) fn take(
        &mut self,
        tsn: u32,
        part: MessagePart,
        payload: &Payload,
        now: Instant,
    ) -> Option<u64> {
        if !self.is_stamped {
            return None;
        }
        let sent = match part {
            MessagePart::Whole => read_stamp(payload),
            MessagePart::First => {
                if self.incomplete.len() < MAX_INCOMPLETE
                    && let Some(sent) = read_stamp(payload)
                {
                    self.incomplete.insert(tsn, sent);
                }
                None
            }
            MessagePart::Middle => None,
            MessagePart::Last => self.incomplete.remove(&tsn),
            MessagePart::Aborted => {
                self.incomplete.remove(&tsn);
                None
            }
        };
        if let Some(sent) = sent {
            self.record(sent, now);
        }
        sent
    }

    /// A delay below the error of the clock's offset may be negative; it counts as 0.
    fn record(&mut self, sent: u64, now: Instant) {
        let sent = i128::from(sent) - i128::from(self.peer_ahead);
        let delay = i128::from(self.clock.at(now)) - sent;
        // The bounds fit.
        let delay = delay.clamp(0, LONGEST.into()) as u64;
        // Fails without memory to grow only.
        let _ = self.histogram.record(delay);
        let _ = self.interval.record(delay);
    }

    /// Returns the summary; `None` without delays.
    pub(super) fn summary(&self) -> Option<DelaySummary> {
        DelaySummary::new(&self.histogram)
    }

    /// Returns the delays at [`quantile_levels`], in seconds; none without delays.
    pub(super) fn distribution(&self) -> Vec<f64> {
        if self.histogram.is_empty() {
            return Vec::new();
        }
        let value = |level| self.histogram.value_at_quantile(level) as f64 / 1e9;
        quantile_levels().map(value).collect()
    }

    /// Returns the summary of several recorders together; `None` without delays.
    pub(super) fn merged<'a>(recorders: impl Iterator<Item = &'a Self>) -> Option<DelaySummary> {
        merged(recorders.map(|own| &own.histogram))
    }

    /// Returns the summary of the current intervals of several recorders; `None` without delays.
    pub(super) fn merged_interval<'a>(
        recorders: impl Iterator<Item = &'a Self>,
    ) -> Option<DelaySummary> {
        merged(recorders.map(|own| &own.interval))
    }

    /// Returns the summary of the delays since the last call; `None` without delays.
    pub(super) fn take_interval(&mut self) -> Option<DelaySummary> {
        let summary = DelaySummary::new(&self.interval);
        self.interval.reset();
        summary
    }
}

fn merged<'a>(mut histograms: impl Iterator<Item = &'a Histogram<u64>>) -> Option<DelaySummary> {
    let first = histograms.next()?;
    let mut sum: Option<Histogram<u64>> = None;
    for histogram in histograms {
        // Fails without memory to grow only.
        let _ = sum.get_or_insert_with(|| first.clone()).add(histogram);
    }
    DelaySummary::new(sum.as_ref().unwrap_or(first))
}

/// Returns whether messages of this size begin with their sending time.
fn is_stamped(size: usize) -> bool {
    (STAMP..=MAX_STAMPED).contains(&size)
}

/// Returns the sending time at the beginning of a message; `None` if the message is shorter.
fn read_stamp(payload: &Payload) -> Option<u64> {
    let mut stamp = [0; STAMP];
    let mut bytes = payload.pieces().flat_map(|piece| piece.iter());
    for byte in &mut stamp {
        *byte = *bytes.next()?;
    }
    Some(u64::from_be_bytes(stamp))
}

/// Messages with their sending times.
#[derive(Debug)]
pub(super) struct MessageSource {
    clock: MeasurementClock,
    is_stamped: bool,
    /// The messages have different sizes, and buffers of their own.
    is_random: bool,
    /// Content of all messages without a sending time.
    plain: Bytes,
    /// Buffers of earlier messages, which are used again once the protocol needs them no longer.
    used: VecDeque<Bytes>,
}

impl MessageSource {
    /// Returns the source of messages of this size; `is_random` stands for random sizes up to it.
    pub(super) fn new(size: usize, is_random: bool, clock: MeasurementClock) -> Self {
        Self {
            clock,
            is_stamped: is_stamped(size),
            is_random,
            plain: Bytes::from(vec![b'c'; size]),
            used: VecDeque::new(),
        }
    }

    /// Returns the sending time of messages that are sent now.
    pub(super) fn stamp(&self) -> u64 {
        self.clock.now()
    }

    /// Returns a message of this length, the size or less.
    pub(super) fn message(&mut self, length: usize, stamp: u64) -> Bytes {
        if !self.is_stamped || length < STAMP {
            return self.plain.slice(..length);
        }
        if self.is_random {
            let mut buffer = BytesMut::from(&self.plain[..length]);
            buffer[..STAMP].copy_from_slice(&stamp.to_be_bytes());
            return buffer.freeze();
        }
        let mut buffer = self.buffer();
        buffer[..STAMP].copy_from_slice(&stamp.to_be_bytes());
        let message = buffer.freeze();
        if self.used.len() < MAX_REUSED / self.plain.len() {
            self.used.push_back(message.clone());
        }
        message.slice(..length)
    }

    /// Returns a buffer of the size: the oldest one, if its message was acknowledged, or a new one.
    fn buffer(&mut self) -> BytesMut {
        let Some(oldest) = self.used.pop_front() else {
            return BytesMut::from(&self.plain[..]);
        };
        oldest.try_into_mut().unwrap_or_else(|in_use| {
            self.used.push_front(in_use);
            BytesMut::from(&self.plain[..])
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn source(size: usize) -> MessageSource {
        MessageSource::new(size, false, MeasurementClock::new())
    }

    fn millis(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn messages_begin_with_their_sending_time() {
        let mut source = source(20);
        let message = source.message(20, 0x0102_0304_0506_0708);
        assert_eq!(&message[..9], b"\x01\x02\x03\x04\x05\x06\x07\x08c");
        assert_eq!(message.len(), 20);
        assert_eq!(read_stamp(&message.into()), Some(0x0102_0304_0506_0708));
        assert_eq!(&source.message(7, 1)[..], b"ccccccc", "it is too short");
        let mut tiny = MessageSource::new(7, false, MeasurementClock::new());
        assert_eq!(&tiny.message(7, 1)[..], b"ccccccc");
    }

    /// A buffer of the maximum size for each message would take memory that the send buffer does not count.
    #[test]
    fn messages_of_random_sizes_have_their_own_buffers() {
        let mut source = MessageSource::new(1000, true, MeasurementClock::new());
        let first = source.message(100, 1);
        let second = source.message(10, 2);
        assert_eq!((first.len(), first[7]), (100, 1));
        assert_eq!((&second[8..], second[7]), (&b"cc"[..], 2));
        assert!(source.used.is_empty());
        assert!(first.try_into_mut().unwrap().capacity() < 1000);
    }

    /// A message that the protocol still has keeps its time.
    #[test]
    fn buffers_in_use_are_not_written() {
        let mut source = source(8);
        let first = source.message(8, 1);
        let second = source.message(8, 2);
        assert_eq!(first[7], 1);
        let freed = first.as_ptr();
        drop(first);
        let third = source.message(8, 3);
        assert_eq!(third.as_ptr(), freed, "the free buffer is used again");
        assert_eq!((second[7], third[7]), (2, 3));
    }

    /// The peer's clock is 5 s ahead.
    #[test]
    fn delays_are_corrected_by_the_offset() {
        let clock = MeasurementClock::new();
        let mut delays = DelayRecorder::new(clock, 100).unwrap();
        delays.set_peer_ahead(5_000_000_000);
        let start = Instant::now();
        let stamp = clock.at(start) + 5_000_000_000;
        let payload = Payload::from(source(100).message(100, stamp));
        for delay in 1..=100 {
            delays.take(7, MessagePart::Whole, &payload, start + millis(delay));
        }
        let summary = delays.summary().unwrap();
        let near = |value: f64, ms: f64| (value * 1000.0 - ms).abs() < ms / 500.0;
        assert_eq!(summary.messages, 100);
        assert!(
            near(summary.min, 1.0) && near(summary.max, 100.0),
            "{summary:?}"
        );
        assert!(
            near(summary.p50, 50.0) && near(summary.mean, 50.5),
            "{summary:?}"
        );
        assert!(
            near(summary.p90, 90.0) && near(summary.p99_99, 100.0),
            "{summary:?}"
        );
        assert_eq!(delays.take_interval(), Some(summary));
        delays.take(7, MessagePart::Whole, &payload, start + millis(3));
        let interval = delays.take_interval().unwrap();
        assert_eq!(interval.messages, 1);
        assert!(near(interval.min, 3.0) && near(interval.max, 3.0));
        assert!(delays.take_interval().is_none());
        assert_eq!(delays.summary().unwrap().messages, 101);
        delays.reset();
        assert!(delays.summary().is_none());
    }

    #[test]
    fn several_flows_have_the_delays_of_all() {
        let clock = MeasurementClock::new();
        let start = Instant::now();
        let payload = Payload::from(source(100).message(100, clock.at(start)));
        let mut flows = [(); 2].map(|()| DelayRecorder::new(clock, 100).unwrap());
        for (delay, flow) in (1..=100).zip([0, 1].iter().cycle()) {
            let now = start + millis(delay);
            let sent = flows[*flow].take(1, MessagePart::Whole, &payload, now);
            assert_eq!(sent, Some(clock.at(start)));
        }
        let all = DelayRecorder::merged(flows.iter()).unwrap();
        assert_eq!(all.messages, 100);
        assert!((all.p50 - 0.05).abs() < 0.001, "{all:?}");
        assert_eq!(DelayRecorder::merged_interval(flows.iter()), Some(all));
        assert_eq!(flows[0].take_interval().unwrap().messages, 50);
        assert_eq!(flows[0].distribution().len(), quantile_levels().count());
        assert!(flows[0].distribution().is_sorted());
        assert!(DelayRecorder::merged(std::iter::empty()).is_none());
    }

    #[test]
    fn quantiles_have_a_step_for_each_decade() {
        let levels: Vec<f64> = quantile_levels().collect();
        assert_eq!(levels.len(), 38);
        assert!(levels.is_sorted() && levels[0] == 0.0 && levels[37] >= 1.0);
        for level in [0.5, 0.9, 0.99, 0.999, 0.9999] {
            assert!(
                levels.iter().any(|own| (own - level).abs() < 1e-9),
                "{level}"
            );
        }
    }

    #[test]
    fn the_delay_of_parts_ends_with_the_last() {
        let clock = MeasurementClock::new();
        let start = Instant::now();
        let stamp = clock.at(start);
        let mut delays = DelayRecorder::new(clock, 1000).unwrap();
        let first = Payload::from(source(1000).message(1000, stamp));
        // The parts of two messages alternate, one of which is abandoned.
        for (tsn, part, time) in [
            (1, MessagePart::First, 10),
            (9, MessagePart::First, 20),
            (1, MessagePart::Middle, 30),
            (9, MessagePart::Aborted, 40),
            (1, MessagePart::Last, 50),
            (9, MessagePart::Last, 60),
        ] {
            delays.take(tsn, part, &first, start + millis(time));
        }
        let summary = delays.summary().unwrap();
        assert_eq!(summary.messages, 1);
        assert!((summary.max - 0.05).abs() < 0.0001, "{summary:?}");
    }

    #[test]
    fn impossible_times_of_a_peer_are_bounded() {
        let mut delays = DelayRecorder::new(MeasurementClock::new(), 8).unwrap();
        for peer_ahead in [i64::MIN, 0, i64::MAX] {
            delays.set_peer_ahead(peer_ahead);
            for stamp in [0, u64::MAX] {
                let payload = Payload::from(source(8).message(8, stamp));
                delays.take(1, MessagePart::Whole, &payload, Instant::now());
            }
        }
        let summary = delays.summary().unwrap();
        assert_eq!(summary.messages, 6);
        assert!(summary.min < 1e-9 && summary.max < 3610.0, "{summary:?}");
        let short = Payload::from(Bytes::from_static(b"1234567"));
        delays.take(1, MessagePart::Whole, &short, Instant::now());
        for tsn in 0..5000 {
            delays.take(
                tsn,
                MessagePart::First,
                &Payload::from(source(8).message(8, 1)),
                Instant::now(),
            );
        }
        assert!(delays.incomplete.len() <= MAX_INCOMPLETE);
        assert_eq!(delays.summary().unwrap().messages, 6);
    }
}
