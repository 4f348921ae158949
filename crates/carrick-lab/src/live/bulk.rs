//! The programs of a flow that always has more to send.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use carrick_netsim::Random;
use carrick_proto::Time;

use super::{Outgoing, Program, Reading};

/// Sends messages of one size as fast as the stack takes them.
#[derive(Debug)]
pub struct Bulk {
    size: usize,
    /// Messages that are left.
    rest: u64,
    delay: Duration,
    length: Option<Duration>,
    start: Option<Time>,
    end: Option<Time>,
    sending: bool,
    sent: u64,
}

impl Bulk {
    /// This many messages of so many bytes, at least 8, each of which begins with its number.
    pub fn messages(count: u64, size: usize) -> Self {
        Self {
            size: size.max(8),
            rest: count,
            delay: Duration::ZERO,
            length: None,
            start: None,
            end: None,
            sending: false,
            sent: 0,
        }
    }

    /// Messages for so long, counted from where the program begins; the first one comes after `delay`.
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

    fn handle_message(&mut self, _: Time, _: u16, _: Bytes) {}

    fn poll_transmit(&mut self) -> Option<Outgoing> {
        if !self.sending || self.rest == 0 {
            return None;
        }
        let mut payload = BytesMut::zeroed(self.size);
        payload[..8].copy_from_slice(&self.sent.to_be_bytes());
        self.rest -= 1;
        self.sent += 1;
        Some(Outgoing {
            stream: 0,
            ppid: 0,
            payload: payload.freeze(),
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

    fn failure(&self) -> Option<String> {
        None
    }
}

/// Takes what comes, and notes when.
#[derive(Debug)]
pub struct Drain {
    /// Bytes that are awaited.
    wanted: u64,
    pace: Option<(Duration, Random)>,
    next: Option<Time>,
    /// Messages that it may take now.
    due: u32,
    /// Bytes taken.
    pub bytes: u64,
    /// When each message, or piece of a stream, was taken, and its bytes.
    pub taken: Vec<(Time, usize)>,
}

impl Drain {
    /// Takes all; it is done when it has this many bytes.
    pub fn new(wanted: u64) -> Self {
        Self {
            wanted,
            pace: None,
            next: None,
            due: 0,
            bytes: 0,
            taken: Vec::new(),
        }
    }

    /// Takes one message after each exponential interval of this mean; it is done at any time.
    pub fn slow(mean: Duration, random: Random) -> Self {
        Self {
            pace: Some((mean, random)),
            ..Self::new(0)
        }
    }

    /// Each interval is counted from the moment at which the last one ended, so that a reader that was
    /// called late is as fast as one that was not.
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

    fn poll_transmit(&mut self) -> Option<Outgoing> {
        None
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

    fn reading(&self) -> Reading {
        match (&self.pace, self.due) {
            (None, _) => Reading::All,
            (Some(_), 0) => Reading::Nothing,
            (Some(_), _) => Reading::One,
        }
    }

    fn is_done(&self) -> bool {
        self.bytes >= self.wanted
    }

    fn failure(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(bulk: &mut Bulk, most: usize) -> usize {
        std::iter::from_fn(|| bulk.poll_transmit())
            .take(most)
            .count()
    }

    #[test]
    fn a_flow_of_a_certain_length_begins_after_its_delay_and_never_runs_dry() {
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
    fn a_flow_of_so_many_messages_numbers_them() {
        let mut bulk = Bulk::messages(3, 10);
        bulk.connected(Time::ZERO, 1);
        bulk.handle_timeout(Time::ZERO);
        let numbers: Vec<u8> = std::iter::from_fn(|| bulk.poll_transmit())
            .map(|out| out.payload[7])
            .collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert!(bulk.is_done());
    }

    #[test]
    fn a_slow_reader_takes_one_message_an_interval_also_when_it_is_called_late() {
        let mean = Duration::from_millis(10);
        let mut drain = Drain::slow(mean, Random::new(1, 0));
        drain.connected(Time::ZERO, 1);
        let mut taken = 0;
        for ms in (0..10_000).step_by(25) {
            let now = Time::from_millis(ms);
            drain.handle_timeout(now);
            while drain.reading() == Reading::One {
                drain.handle_message(now, 0, Bytes::from_static(b"a message"));
                taken += 1;
            }
            assert_eq!(drain.reading(), Reading::Nothing);
        }
        assert!((900..1100).contains(&taken), "{taken}");
        assert_eq!(drain.taken.len(), taken);
        assert!(drain.is_done());
        assert_eq!(Drain::new(5).reading(), Reading::All);
    }
}
