//! The messages of one direction: when each was sent and received, and in which order.

use std::time::Duration;

use bytes::{Buf, BufMut};
use serde::Serialize;
use tokio::time::Instant;

/// Number of messages in each direction.
pub(super) const MESSAGES: usize = 750;

/// Time between two messages.
pub(super) const INTERVAL: Duration = Duration::from_millis(20);

/// Bytes of a message; its number comes first.
pub(super) const MESSAGE_BYTES: usize = 200;

/// A message that was sent.
#[derive(Clone, Copy, Debug)]
struct SentMessage {
    at: Instant,
    received: Option<Instant>,
}

/// Counts of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct StreamCounts {
    pub(super) sent: usize,
    /// Messages received, each counted once.
    pub(super) received: usize,
    /// Messages received again.
    pub(super) repeated: usize,
    /// Messages received after one that was sent later.
    pub(super) out_of_order: usize,
}

/// One direction of the message stream, of at most [`MESSAGES`] messages.
#[derive(Debug, Default)]
pub(super) struct MessageStream {
    messages: Vec<SentMessage>,
    counts: StreamCounts,
    /// Highest number received.
    highest: Option<usize>,
    last_receipt: Option<Instant>,
    longest_silence: Duration,
}

impl MessageStream {
    /// Returns the next message; `None` after the last one.
    pub(super) fn next_message(&self) -> Option<Vec<u8>> {
        let number = self.messages.len();
        (number < MESSAGES).then(|| {
            let mut message = Vec::with_capacity(MESSAGE_BYTES);
            message.put_u64(number as u64);
            message.resize(MESSAGE_BYTES, 0);
            message
        })
    }

    /// Records that the next message was sent.
    pub(super) fn record_sent(&mut self, now: Instant) {
        self.messages.push(SentMessage {
            at: now,
            received: None,
        });
        self.counts.sent += 1;
    }

    /// Records a received message. Returns `false` if it is none of this stream.
    pub(super) fn record_received(&mut self, now: Instant, mut payload: impl Buf) -> bool {
        if payload.remaining() != MESSAGE_BYTES {
            return false;
        }
        let number = usize::try_from(payload.get_u64()).unwrap_or(usize::MAX);
        let begin = self.messages.first().map(|first| first.at);
        let Some(message) = self.messages.get_mut(number) else {
            return false;
        };
        if message.received.is_some() {
            self.counts.repeated += 1;
            return true;
        }
        message.received = Some(now);
        self.counts.received += 1;
        self.counts.out_of_order += usize::from(self.highest.is_some_and(|h| number < h));
        self.highest = self.highest.max(Some(number));
        if let Some(last) = self.last_receipt.or(begin) {
            self.longest_silence = self.longest_silence.max(now.duration_since(last));
        }
        self.last_receipt = Some(now);
        true
    }

    pub(super) fn counts(&self) -> StreamCounts {
        self.counts
    }

    /// Returns whether all messages were sent.
    pub(super) fn is_sent(&self) -> bool {
        self.counts.sent == MESSAGES
    }

    /// Returns whether all messages were received.
    pub(super) fn is_received(&self) -> bool {
        self.counts.received == MESSAGES
    }

    /// Returns the longest time without a received message so far, that until now included while messages are
    /// outstanding.
    pub(super) fn longest_silence(&self, now: Instant) -> Duration {
        let first = self.messages.first().map(|first| first.at);
        let present = match self.last_receipt.or(first) {
            Some(last) if self.counts.received < self.counts.sent => now.duration_since(last),
            _ => Duration::ZERO,
        };
        self.longest_silence.max(present)
    }

    /// Returns the longest delay of the messages sent in this period; of those that were not received, the time
    /// until now. `None` if no message was sent in the period.
    pub(super) fn longest_delay(
        &self,
        from: Instant,
        until: Option<Instant>,
        now: Instant,
    ) -> Option<Duration> {
        let messages = self.messages.iter();
        messages
            .filter(|message| message.at >= from && until.is_none_or(|until| message.at < until))
            .map(|message| message.received.unwrap_or(now).duration_since(message.at))
            .max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    /// Sends this number of messages, 20 ms apart.
    fn sent(start: Instant, count: u64) -> (MessageStream, Vec<Vec<u8>>) {
        let mut stream = MessageStream::default();
        let mut messages = Vec::new();
        for number in 0..count {
            messages.push(stream.next_message().unwrap());
            stream.record_sent(at(start, 20 * number));
        }
        (stream, messages)
    }

    #[test]
    fn each_message_counts_once() {
        let start = Instant::now();
        let (mut stream, messages) = sent(start, 4);
        for (ms, number) in [(10, 0), (80, 2), (81, 2), (90, 1), (100, 3)] {
            assert!(stream.record_received(at(start, ms), &messages[number][..]));
        }
        let counts = StreamCounts {
            sent: 4,
            received: 4,
            repeated: 1,
            out_of_order: 1,
        };
        assert_eq!(stream.counts(), counts);
        let silence = stream.longest_silence(at(start, 5000));
        assert_eq!(silence, Duration::from_millis(70));
    }

    #[test]
    fn messages_that_were_not_sent_are_refused() {
        let start = Instant::now();
        let (mut stream, _) = sent(start, 1);
        let (_, more) = sent(start, 2);
        assert!(!stream.record_received(start, &more[1][..]));
        assert!(!stream.record_received(start, &b"short"[..]));
        assert_eq!(stream.counts().received, 0);
    }

    #[test]
    fn silence_lasts_while_messages_are_outstanding() {
        let start = Instant::now();
        let (mut stream, messages) = sent(start, 2);
        let silence = |stream: &MessageStream, ms| stream.longest_silence(at(start, ms));
        assert_eq!(silence(&stream, 30), Duration::from_millis(30));
        stream.record_received(at(start, 35), &messages[0][..]);
        assert_eq!(silence(&stream, 535), Duration::from_millis(500));
        stream.record_received(at(start, 600), &messages[1][..]);
        assert_eq!(silence(&stream, 9000), Duration::from_millis(565));
    }

    #[test]
    fn delays_are_those_of_a_period() {
        let start = Instant::now();
        let (mut stream, messages) = sent(start, 4);
        for (ms, number) in [(500, 0), (50, 1), (90, 2)] {
            stream.record_received(at(start, ms), &messages[number][..]);
        }
        let delay = |from, until: Option<u64>| {
            let until = until.map(|until| at(start, until));
            stream.longest_delay(at(start, from), until, at(start, 160))
        };
        assert_eq!(delay(20, Some(60)), Some(Duration::from_millis(50)));
        assert_eq!(delay(0, Some(20)), Some(Duration::from_millis(500)));
        assert_eq!(delay(20, None), Some(Duration::from_millis(100)));
        assert_eq!(delay(61, None), None);
    }

    #[test]
    fn the_stream_has_an_end() {
        let start = Instant::now();
        let (stream, _) = sent(start, MESSAGES as u64);
        assert!(stream.is_sent() && !stream.is_received());
        assert_eq!(stream.next_message(), None);
    }
}
