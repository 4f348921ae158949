//! Programs of a bulk flow.

use std::time::Duration;

use bytes::Bytes;
use carrick_netsim::Random;
use carrick_proto::Time;

use super::{OutgoingMessage, Program, ReadMode};
use crate::numbered;

/// Sender of messages of one size at the rate at which the stack accepts them.
#[derive(Debug, Default)]
pub struct Bulk {
    size: usize,
    /// Messages left to send.
    rest: u64,
    delay: Duration,
    length: Option<Duration>,
    start: Option<Time>,
    end: Option<Time>,
    sending: bool,
    sent: u64,
}

impl Bulk {
    /// Sends `count` messages of `size` bytes, at least 8, each of which begins with its number.
    pub fn messages(count: u64, size: usize) -> Self {
        Self {
            size,
            rest: count,
            ..Self::default()
        }
    }

    /// Sends messages for `length`, counted from the begin of the program; the first message
    /// follows after `delay`.
    pub fn lasting(length: Duration, delay: Duration, size: usize) -> Self {
        Self {
            delay,
            length: Some(length),
            ..Self::messages(u64::MAX, size)
        }
    }
}

impl Program for Bulk {
    fn connected(&mut self, now: Time, _: u16) {
        self.start = Some(now + self.delay);
        self.end = self.length.map(|length| now + length);
    }

    fn poll_transmit(&mut self, _: Time) -> Option<OutgoingMessage> {
        if !self.sending || self.rest == 0 {
            return None;
        }
        let payload = numbered::message(self.sent, self.size);
        self.rest -= 1;
        self.sent += 1;
        Some(OutgoingMessage {
            stream: 0,
            ppid: 0,
            payload,
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.start.or(self.end)
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.start.is_some_and(|start| start <= now) {
            self.start = None;
            self.sending = true;
        }
        if self.end.is_some_and(|end| end <= now) {
            (self.start, self.end) = (None, None);
            self.rest = 0;
        }
    }

    fn is_done(&self) -> bool {
        self.rest == 0
    }
}

/// Receiver that records when each message was read.
#[derive(Debug, Default)]
pub struct Drain {
    /// Bytes expected.
    wanted: u64,
    pace: Option<(Duration, Random)>,
    next: Option<Time>,
    /// Messages that may be read now.
    due: u32,
    /// Bytes taken.
    pub bytes: u64,
    /// Time and length of each message, or piece of a stream, that was read.
    pub taken: Vec<(Time, usize)>,
}

impl Drain {
    /// Reads everything; done after this many bytes.
    pub fn new(wanted: u64) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }

    /// Reads one message after each exponential interval of this mean; always done.
    pub fn slow(mean: Duration, random: Random) -> Self {
        Self {
            pace: Some((mean, random)),
            ..Self::default()
        }
    }

    /// Each interval begins at the end of the previous one, so that late calls do not slow down the
    /// reader.
    fn wait(&mut self, from: Time) {
        if let Some((mean, random)) = &mut self.pace {
            let interval = random.exponential(*mean);
            self.next = Some(from + interval.max(Duration::from_micros(1)));
        }
    }
}

impl Program for Drain {
    fn connected(&mut self, now: Time, _: u16) {
        self.wait(now);
    }

    fn handle_message(&mut self, now: Time, _: u16, message: Bytes) {
        self.due = self.due.saturating_sub(1);
        self.bytes += message.len() as u64;
        self.taken.push((now, message.len()));
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(due) = self.next.filter(|due| *due <= now) {
            self.due = self.due.saturating_add(1);
            self.wait(due);
        }
    }

    fn reading(&self) -> ReadMode {
        match (&self.pace, self.due) {
            (None, _) => ReadMode::All,
            (Some(_), 0) => ReadMode::Nothing,
            (Some(_), _) => ReadMode::One,
        }
    }

    fn is_done(&self) -> bool {
        self.bytes >= self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(bulk: &mut Bulk, most: usize) -> usize {
        std::iter::from_fn(|| bulk.poll_transmit(Time::ZERO))
            .take(most)
            .count()
    }

    #[test]
    fn timed_flows_begin_after_their_delay() {
        let ms = Duration::from_millis;
        let mut bulk = Bulk::lasting(ms(100), ms(30), 20);
        bulk.connected(Time::from_millis(1000), 1);
        assert_eq!(sent(&mut bulk, 9), 0);
        assert_eq!(bulk.poll_timeout(), Some(Time::from_millis(1030)));
        bulk.handle_timeout(Time::from_millis(1030));
        assert_eq!(sent(&mut bulk, 9), 9);
        assert!(!bulk.is_done());
        assert_eq!(bulk.poll_timeout(), Some(Time::from_millis(1100)));
        bulk.handle_timeout(Time::from_millis(1100));
        assert_eq!(sent(&mut bulk, 9), 0);
        assert!(bulk.is_done() && bulk.poll_timeout().is_none());
    }

    #[test]
    fn counted_flows_number_their_messages() {
        let mut bulk = Bulk::messages(3, 10);
        bulk.connected(Time::ZERO, 1);
        bulk.handle_timeout(Time::ZERO);
        let numbers: Vec<u8> = std::iter::from_fn(|| bulk.poll_transmit(Time::ZERO))
            .map(|out| out.payload[7])
            .collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert!(bulk.is_done());
    }

    #[test]
    fn slow_readers_keep_their_rate_after_late_calls() {
        let mean = Duration::from_millis(10);
        let mut drain = Drain::slow(mean, Random::new(1, 0));
        drain.connected(Time::ZERO, 1);
        let mut taken = 0;
        for ms in (0..10_000).step_by(25) {
            let now = Time::from_millis(ms);
            drain.handle_timeout(now);
            while drain.reading() == ReadMode::One {
                drain.handle_message(now, 0, Bytes::from_static(b"a message"));
                taken += 1;
            }
            assert_eq!(drain.reading(), ReadMode::Nothing);
        }
        assert!((900..1100).contains(&taken), "{taken}");
        assert_eq!(drain.taken.len(), taken);
        assert!(drain.is_done());
        assert_eq!(Drain::new(5).reading(), ReadMode::All);
    }
}
