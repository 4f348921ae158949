//! Programs of a flow of numbered messages at a constant rate.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;

use super::{Outgoing, Program};
use crate::numbered;

/// Parameters of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Number of messages, at least 1.
    pub count: u64,
    /// Size of a message in bytes, at least 8.
    pub size: usize,
    /// Interval between two messages.
    pub interval: Duration,
}

impl Messages {
    /// Returns the time from the first to the last message.
    pub fn length(&self) -> Duration {
        let steps = u32::try_from(self.count.saturating_sub(1)).unwrap_or(u32::MAX);
        self.interval * steps
    }

    /// Returns the message of this number, which it begins with.
    fn message(&self, number: u64) -> Bytes {
        numbered::message(number, self.size)
    }
}

/// Sender that records the time of each SEND.
///
/// A message that is sent late, because the host was busy, does not delay later messages.
#[derive(Debug)]
pub struct Source {
    messages: Messages,
    next: Option<Time>,
    ready: VecDeque<Outgoing>,
    /// Time of the SEND of each message.
    pub sends: Vec<Time>,
}

impl Source {
    /// Returns a sender of these messages.
    pub fn new(messages: Messages) -> Self {
        Self {
            messages,
            next: None,
            ready: VecDeque::new(),
            sends: Vec::new(),
        }
    }
}

impl Program for Source {
    fn connected(&mut self, now: Time, _: u16) {
        self.next = Some(now);
    }

    fn handle_message(&mut self, _: Time, _: u16, _: Bytes) {}

    fn poll_transmit(&mut self) -> Option<Outgoing> {
        self.ready.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(due) = self.next.filter(|due| *due <= now) {
            let number = self.sends.len() as u64;
            self.ready.push_back(Outgoing {
                stream: 0,
                ppid: 0,
                payload: self.messages.message(number),
            });
            self.sends.push(now);
            let more = number + 1 < self.messages.count;
            self.next = more.then(|| due + self.messages.interval);
        }
    }

    fn is_done(&self) -> bool {
        self.sends.len() as u64 == self.messages.count && self.ready.is_empty()
    }

    fn failure(&self) -> Option<String> {
        None
    }
}

/// Receiver that records the deliveries.
#[derive(Debug)]
pub struct Sink {
    messages: Messages,
    stream: bool,
    /// Bytes received.
    received: usize,
    /// Number and time of each delivery.
    pub deliveries: Vec<(u64, Time)>,
    failure: Option<String>,
}

impl Sink {
    /// Returns a receiver of messages.
    pub fn new(messages: Messages) -> Self {
        Self {
            messages,
            stream: false,
            received: 0,
            deliveries: Vec::new(),
            failure: None,
        }
    }

    /// Returns a receiver of a byte stream; a message is delivered with its last byte.
    pub fn of_stream(messages: Messages) -> Self {
        Self {
            stream: true,
            ..Self::new(messages)
        }
    }

    fn note(&mut self, now: Time, message: &Bytes) {
        match numbered::number(message, self.messages.size) {
            Ok(number) => self.deliveries.push((number, now)),
            Err(what) => self.failure = Some(what),
        }
    }
}

impl Program for Sink {
    fn connected(&mut self, _: Time, _: u16) {}

    fn handle_message(&mut self, now: Time, _: u16, message: Bytes) {
        self.received += message.len();
        if !self.stream {
            return self.note(now, &message);
        }
        let whole = (self.received / self.messages.size.max(1)) as u64;
        let before = self.deliveries.len() as u64;
        self.deliveries
            .extend((before..whole).map(|number| (number, now)));
    }

    fn poll_transmit(&mut self) -> Option<Outgoing> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn is_done(&self) -> bool {
        self.deliveries.len() as u64 >= self.messages.count
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: Messages = Messages {
        count: 5,
        size: 10,
        interval: Duration::from_millis(10),
    };

    #[test]
    fn late_messages_do_not_delay_later_ones() {
        let mut source = Source::new(MESSAGES);
        assert_eq!(source.poll_timeout(), None);
        source.connected(Time::from_millis(100), 1);
        for (now, sent) in [(100, 1), (105, 1), (125, 3), (130, 4)] {
            source.handle_timeout(Time::from_millis(now));
            assert_eq!(source.sends.len(), sent, "at {now} ms");
        }
        assert_eq!(source.poll_timeout(), Some(Time::from_millis(140)));
        assert!(!source.is_done());
        source.handle_timeout(Time::from_millis(140));
        let numbers: Vec<u64> = std::iter::from_fn(|| source.poll_transmit())
            .filter_map(|out| out.payload.first_chunk().copied())
            .map(u64::from_be_bytes)
            .collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        assert!(source.is_done() && source.poll_timeout().is_none());
        assert_eq!(MESSAGES.length(), Duration::from_millis(40));
    }

    #[test]
    fn streams_deliver_messages_with_their_last_byte() {
        let mut sink = Sink::of_stream(MESSAGES);
        for (ms, len, whole) in [(1, 9, 0), (2, 1, 1), (3, 25, 3), (4, 15, 5)] {
            sink.handle_message(Time::from_millis(ms), 0, Bytes::from(vec![0; len]));
            assert_eq!(sink.deliveries.len(), whole);
        }
        assert!(sink.is_done());
        assert_eq!(sink.deliveries[2], (2, Time::from_millis(3)));
    }

    #[test]
    fn an_unexpected_message_is_a_failure() {
        let mut sink = Sink::new(MESSAGES);
        sink.handle_message(Time::ZERO, 0, MESSAGES.message(3));
        assert_eq!(sink.deliveries, [(3, Time::ZERO)]);
        assert_eq!(sink.failure(), None);
        sink.handle_message(Time::ZERO, 0, Bytes::from_static(b"message"));
        assert!(sink.failure().is_some_and(|what| what.contains("7 bytes")));
    }
}
