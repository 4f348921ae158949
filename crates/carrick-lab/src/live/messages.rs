//! Programs of a flow of numbered messages at a constant rate.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;

use super::{OutgoingMessage, Program};
use crate::numbered;

/// Parameters of the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
}

/// Duration up to which SEND counts as not delayed by the stack. The host may take as long.
const PROMPT: Duration = Duration::from_millis(5);

/// Sender that records the time at which each SEND began.
///
/// A message that waits for room in the stack delays the later ones: the next one follows an interval
/// after SEND has returned. A message that is sent late because the host was busy does not.
#[derive(Debug, Default)]
pub struct MessageSource {
    messages: Messages,
    next: Option<Time>,
    /// Due time of the message whose SEND has not returned.
    sending: Option<Time>,
    /// The same message, until the stack takes it.
    ready: Option<OutgoingMessage>,
    /// Time at which SEND of each message began.
    pub sends: Vec<Time>,
}

impl MessageSource {
    /// Returns a sender of these messages.
    pub fn new(messages: Messages) -> Self {
        Self {
            messages,
            ..Self::default()
        }
    }
}

impl Program for MessageSource {
    fn connected(&mut self, now: Time, _: u16) {
        self.next = Some(now);
    }

    fn poll_transmit(&mut self, now: Time) -> Option<OutgoingMessage> {
        if self.ready.is_some() {
            return self.ready.take();
        }
        if let Some(due) = self.sending.take()
            && (self.sends.len() as u64) < self.messages.count
        {
            let begun = self.sends.last().copied().unwrap_or(due);
            let waited = now.since(begun) > PROMPT;
            self.next = Some(if waited { now } else { due } + self.messages.interval);
        }
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(due) = self.next.take_if(|due| *due <= now) {
            self.ready = Some(OutgoingMessage {
                stream: 0,
                ppid: 0,
                payload: numbered::message(self.sends.len() as u64, self.messages.size),
            });
            self.sending = Some(due);
            self.sends.push(now);
        }
    }

    fn is_done(&self) -> bool {
        self.sends.len() as u64 == self.messages.count && self.sending.is_none()
    }
}

/// Receiver that records the deliveries.
#[derive(Debug, Default)]
pub struct MessageSink {
    messages: Messages,
    stream: bool,
    /// Bytes received.
    received: usize,
    /// Number and time of each delivery.
    pub deliveries: Vec<(u64, Time)>,
    failure: Option<String>,
}

impl MessageSink {
    /// Returns a receiver of messages.
    pub fn new(messages: Messages) -> Self {
        Self {
            messages,
            ..Self::default()
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

impl Program for MessageSink {
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

    /// Polls the source as the runner does; returns the numbers of the messages, each accepted at once.
    fn accepted(source: &mut MessageSource, ms: u64) -> Vec<u64> {
        let now = Time::from_millis(ms);
        if source.poll_timeout().is_some_and(|due| due <= now) {
            source.handle_timeout(now);
        }
        std::iter::from_fn(|| source.poll_transmit(now))
            .filter_map(|out| out.payload.first_chunk().copied())
            .map(u64::from_be_bytes)
            .collect()
    }

    #[test]
    fn late_messages_do_not_delay_later_ones() {
        let mut source = MessageSource::new(MESSAGES);
        assert_eq!(source.poll_timeout(), None);
        source.connected(Time::from_millis(100), 1);
        let sent = [100, 105, 125, 125, 130, 140].map(|ms| accepted(&mut source, ms));
        assert_eq!(sent, [vec![0], vec![], vec![1], vec![2], vec![3], vec![4]]);
        assert!(source.is_done() && source.poll_timeout().is_none());
        assert_eq!(MESSAGES.length(), Duration::from_millis(40));
    }

    #[test]
    fn a_full_send_buffer_delays_later_messages() {
        let mut source = MessageSource::new(MESSAGES);
        source.connected(Time::from_millis(100), 1);
        source.handle_timeout(Time::from_millis(100));
        let now = Time::from_millis(100);
        assert!(source.poll_transmit(now).is_some(), "the stack has no room");
        assert!(!source.is_done() && source.poll_timeout().is_none());
        assert_eq!(source.poll_transmit(Time::from_millis(137)), None);
        assert_eq!(source.poll_timeout(), Some(Time::from_millis(147)));
        assert_eq!(accepted(&mut source, 147), [1]);
        assert_eq!(source.poll_timeout(), Some(Time::from_millis(157)));
        assert_eq!(source.sends.len(), 2);
    }

    #[test]
    fn streams_deliver_messages_with_their_last_byte() {
        let mut sink = MessageSink::of_stream(MESSAGES);
        for (ms, len, whole) in [(1, 9, 0), (2, 1, 1), (3, 25, 3), (4, 15, 5)] {
            sink.handle_message(Time::from_millis(ms), 0, Bytes::from(vec![0; len]));
            assert_eq!(sink.deliveries.len(), whole);
        }
        assert!(sink.is_done());
        assert_eq!(sink.deliveries[2], (2, Time::from_millis(3)));
    }

    #[test]
    fn an_unexpected_message_is_a_failure() {
        let mut sink = MessageSink::new(MESSAGES);
        sink.handle_message(Time::ZERO, 0, numbered::message(3, MESSAGES.size));
        assert_eq!(sink.deliveries, [(3, Time::ZERO)]);
        assert_eq!(sink.failure(), None);
        sink.handle_message(Time::ZERO, 0, Bytes::from_static(b"message"));
        assert!(sink.failure().is_some_and(|what| what.contains("7 bytes")));
    }
}
