//! Both ends of a flow of messages as programs of any stack, the same over the simulated TCP and in live runs.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use carrick_netsim::Random;
use carrick_proto::Time;

use super::super::measure::FlowRecord;
use super::super::model::{Flow, ReceiverSpeed};
use super::Sender;
use crate::live::{OutgoingMessage, Program, ReadMode};
use crate::numbered;

/// Duration up to which SEND in a live run counts as not delayed by the stack. The host may take as long.
const PROMPT: Duration = Duration::from_millis(5);

/// Counter of the messages of one size in a byte stream.
#[derive(Debug)]
struct MessageCounter {
    size: usize,
    bytes: u64,
}

impl MessageCounter {
    fn new(size: usize) -> Self {
        Self { size, bytes: 0 }
    }

    /// Returns the number of complete messages.
    fn complete(&self) -> u64 {
        self.bytes / self.size as u64
    }

    /// Adds a piece of the stream, and returns the numbers of the messages that it completes.
    fn add(&mut self, len: usize) -> Range<u64> {
        let before = self.complete();
        self.bytes += len as u64;
        before..self.complete()
    }
}

fn outgoing(stream: u16, number: u64, size: usize) -> OutgoingMessage {
    OutgoingMessage::new(stream, 0, numbered::message(number, size))
}

impl Sender {
    /// Returns the message of this number, on the stream whose turn it is.
    fn message(&self, number: u64) -> OutgoingMessage {
        let flow = &self.flow;
        let turn = (number % u64::from(flow.streams.max(1))) as u16;
        outgoing(flow.first_stream + turn, number, flow.size)
    }
}

/// Sender of a flow, which records the SEND of each message and the deliveries of the responses.
///
/// SEND of a message of a bulk flow is when it is polled. If the flow is blocking, a message that waits for
/// room in the stack delays the later ones: the next one follows an interval after SEND has returned. A
/// message that is sent late because the host was busy does not.
#[derive(Debug)]
pub(in crate::file) struct FlowSource {
    pub(in crate::file) sender: Sender,
    /// Duration of SEND that does not delay the next message.
    prompt: Duration,
    /// Time from the begin of the program to the end of the flow.
    length: Option<Duration>,
    end: Option<Time>,
    /// A bulk flow has begun.
    is_open: bool,
    /// Number of messages whose SEND has begun, and which were not polled.
    ready: u64,
    /// Due time of the message whose SEND has not returned, if it delays the later ones.
    due: Option<u64>,
    responses: MessageCounter,
}

impl FlowSource {
    pub(in crate::file) fn new(sender: Sender) -> Self {
        Self {
            responses: MessageCounter::new(sender.flow.measured_size()),
            sender,
            prompt: Duration::ZERO,
            length: None,
            end: None,
            is_open: false,
            ready: 0,
            due: None,
        }
    }

    /// Returns the sender for a host with a clock; the flow ends after `length` if it is given.
    pub(in crate::file) fn live(self, length: Option<Duration>) -> Self {
        Self {
            prompt: PROMPT,
            length,
            ..self
        }
    }
}

impl Program for FlowSource {
    fn connected(&mut self, now: Time, _: u16) {
        self.sender.begin(now.as_nanos());
        self.end = self.length.map(|length| now + length);
    }

    fn handle_message(&mut self, now: Time, _: u16, message: Bytes) {
        if self.sender.flow.response.is_some() {
            let new = self.responses.add(message.len());
            let new = new.map(|number| (number, now.as_nanos()));
            self.sender.record.deliveries.extend(new);
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<OutgoingMessage> {
        let begun = self.sender.record.sends.len() as u64;
        if self.is_open && self.sender.has_more() {
            self.sender.record.sends.push(now.as_nanos());
            return Some(self.sender.message(begun));
        }
        if self.ready > 0 {
            let number = begun - self.ready;
            self.ready -= 1;
            return Some(self.sender.message(number));
        }
        if let Some(due) = self.due.take() {
            let begun = self.sender.record.sends.last().copied().unwrap_or(due);
            let waited = now.since(Time::from_nanos(begun)) > self.prompt;
            self.sender
                .unblock(if waited { now.as_nanos() } else { due });
        }
        None
    }

    fn needs_room(&self) -> bool {
        self.sender.flow.is_bulk()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let next = self.sender.pace.due().filter(|_| self.sender.has_more());
        let timers = [next.map(Time::from_nanos), self.end];
        timers.into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.end.take_if(|end| *end <= now).is_some() {
            self.sender.flow.messages = Some(self.sender.record.sends.len() as u64);
        }
        let now = now.as_nanos();
        let Some(due) = self.sender.pace.due().filter(|due| *due <= now) else {
            return;
        };
        let count = self.sender.pace.take(now);
        if self.sender.flow.is_bulk() {
            self.is_open = true;
            return;
        }
        for _ in 0..count {
            if self.sender.has_more() {
                self.sender.record.sends.push(now);
                self.ready += 1;
            }
        }
        if self.sender.flow.blocking {
            self.sender.block();
            self.due = Some(due);
        }
    }

    fn is_done(&self) -> bool {
        !self.sender.has_more() && self.ready == 0 && self.due.is_none()
    }
}

/// Receiver of a flow, which records the deliveries, or responds to the messages.
#[derive(Debug)]
pub(in crate::file) struct FlowSink {
    /// Index of the flow.
    pub(in crate::file) number: usize,
    pub(in crate::file) record: FlowRecord,
    flow: Flow,
    /// Messages are counted by their bytes, not by their numbers.
    counts_bytes: bool,
    received: MessageCounter,
    answered: u64,
    /// Random numbers of a slow reader, and its next reading time.
    random: Random,
    next: Option<Time>,
    /// Messages that may be read now.
    due: u32,
    failure: Option<String>,
}

impl FlowSink {
    /// Returns the receiver of messages, or of a byte stream, in which a message is delivered with its last byte.
    /// `random` is for a flow with a slow reader.
    pub(in crate::file) fn new(
        number: usize,
        flow: &Flow,
        is_stream: bool,
        random: Random,
    ) -> Self {
        Self {
            number,
            record: FlowRecord::default(),
            flow: flow.clone(),
            counts_bytes: is_stream || flow.is_bulk(),
            received: MessageCounter::new(flow.size),
            answered: 0,
            random,
            next: None,
            due: 0,
            failure: None,
        }
    }

    /// Each interval begins at the end of the previous one, so that late calls do not slow down the
    /// reader.
    fn wait(&mut self, from: Time) {
        if let ReceiverSpeed::Slow(mean) = self.flow.reader {
            let interval = self.random.exponential(mean);
            self.next = Some(from + interval.max(Duration::from_micros(1)));
        }
    }
}

impl Program for FlowSink {
    fn connected(&mut self, now: Time, _: u16) {
        self.wait(now);
    }

    fn handle_message(&mut self, now: Time, _: u16, message: Bytes) {
        self.due = self.due.saturating_sub(1);
        let complete = self.received.add(message.len());
        if self.flow.response.is_some() {
            return;
        }
        let now = now.as_nanos();
        if self.counts_bytes {
            self.record
                .deliveries
                .extend(complete.map(|number| (number, now)));
            return;
        }
        match numbered::number(&message, self.flow.size) {
            Ok(number) => self.record.deliveries.push((number, now)),
            Err(what) => self.failure = Some(what),
        }
    }

    fn poll_transmit(&mut self, _: Time) -> Option<OutgoingMessage> {
        let size = self.flow.response?;
        (self.answered < self.received.complete()).then(|| {
            self.answered += 1;
            outgoing(0, self.answered - 1, size)
        })
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
        match (self.flow.reader, self.due) {
            (ReceiverSpeed::Slow(_), 0) => ReadMode::Nothing,
            (ReceiverSpeed::Slow(_), _) => ReadMode::One,
            _ => ReadMode::All,
        }
    }

    fn is_done(&self) -> bool {
        self.record.deliveries.len() as u64 >= self.flow.messages.unwrap_or(0)
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::model::Pattern;
    use super::*;

    /// Returns a flow of messages of 10 bytes.
    fn flow(pattern: Pattern, messages: Option<u64>) -> Flow {
        Flow {
            active: true,
            pattern,
            messages,
            size: 10,
            blocking: true,
            ..Flow::default()
        }
    }

    /// Returns a flow of five messages at intervals of 10 ms.
    fn paced() -> Flow {
        let interval = Duration::from_millis(10);
        flow(Pattern::Constant { interval, burst: 1 }, Some(5))
    }

    fn live(flow: &Flow, length: Option<Duration>) -> FlowSource {
        FlowSource::new(Sender::new(0, flow, Random::new(1, 0))).live(length)
    }

    fn sink(flow: &Flow, is_stream: bool) -> FlowSink {
        FlowSink::new(0, flow, is_stream, Random::new(1, 0))
    }

    fn sent(source: &mut FlowSource, most: usize) -> usize {
        std::iter::from_fn(|| source.poll_transmit(Time::ZERO))
            .take(most)
            .count()
    }

    /// Polls the source as the runner does; returns the numbers of the messages, each accepted at once.
    fn accepted(source: &mut FlowSource, ms: u64) -> Vec<u64> {
        let now = Time::from_millis(ms);
        if source.poll_timeout().is_some_and(|due| due <= now) {
            source.handle_timeout(now);
        }
        std::iter::from_fn(|| source.poll_transmit(now))
            .filter_map(|out| numbered::number_of(&out.payload))
            .collect()
    }

    #[test]
    fn timed_flows_begin_after_their_delay() {
        let ms = Duration::from_millis;
        let mut bulk = flow(Pattern::Bulk, None);
        bulk.settle = ms(30);
        let mut bulk = live(&bulk, Some(ms(100)));
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
        let mut bulk = live(&flow(Pattern::Bulk, Some(3)), None);
        bulk.connected(Time::ZERO, 1);
        assert_eq!(accepted(&mut bulk, 0), [0, 1, 2]);
        assert!(bulk.is_done());
    }

    #[test]
    fn messages_take_the_streams_in_turn() {
        let mut bulk = flow(Pattern::Bulk, Some(5));
        (bulk.first_stream, bulk.streams) = (1, 3);
        let mut bulk = live(&bulk, None);
        bulk.connected(Time::ZERO, 4);
        bulk.handle_timeout(Time::ZERO);
        let streams = std::iter::from_fn(|| bulk.poll_transmit(Time::ZERO));
        let streams: Vec<u16> = streams.map(|message| message.stream).collect();
        assert_eq!(streams, [1, 2, 3, 1, 2]);
    }

    #[test]
    fn late_messages_do_not_delay_later_ones() {
        let mut source = live(&paced(), None);
        assert_eq!(source.poll_timeout(), None);
        source.connected(Time::from_millis(100), 1);
        let sent = [100, 105, 125, 125, 130, 140].map(|ms| accepted(&mut source, ms));
        assert_eq!(sent, [vec![0], vec![], vec![1], vec![2], vec![3], vec![4]]);
        assert!(source.is_done() && source.poll_timeout().is_none());
    }

    #[test]
    fn a_full_send_buffer_delays_later_messages() {
        for (is_live, free, next) in [(true, 137, 147), (true, 104, 110), (false, 104, 114)] {
            let mut source = FlowSource::new(Sender::new(0, &paced(), Random::new(1, 0)));
            if is_live {
                source = source.live(None);
            }
            source.connected(Time::from_millis(100), 1);
            let now = Time::from_millis(100);
            source.handle_timeout(now);
            assert!(source.poll_transmit(now).is_some(), "the stack has no room");
            assert!(!source.is_done() && source.poll_timeout().is_none());
            assert_eq!(source.poll_transmit(Time::from_millis(free)), None);
            assert_eq!(source.poll_timeout(), Some(Time::from_millis(next)));
            assert_eq!(accepted(&mut source, next), [1]);
            assert_eq!(source.poll_timeout(), Some(Time::from_millis(next + 10)));
            assert_eq!(source.sender.record.sends.len(), 2);
        }
    }

    #[test]
    fn streams_deliver_messages_with_their_last_byte() {
        let mut sink = sink(&paced(), true);
        for (ms, len, whole) in [(1, 9, 0), (2, 1, 1), (3, 25, 3), (4, 15, 5)] {
            sink.handle_message(Time::from_millis(ms), 0, Bytes::from(vec![0; len]));
            assert_eq!(sink.record.deliveries.len(), whole);
        }
        assert!(sink.is_done());
        assert_eq!(sink.record.deliveries[2], (2, 3_000_000));
    }

    #[test]
    fn responses_follow_complete_requests() {
        let requests = Flow {
            response: Some(20),
            ..paced()
        };
        let (mut source, mut sink) = (live(&requests, None), sink(&requests, true));
        let now = Time::from_millis(7);
        for (len, expected) in [(9, 0), (12, 2), (9, 1)] {
            sink.handle_message(now, 0, Bytes::from(vec![0; len]));
            let responses = std::iter::from_fn(|| sink.poll_transmit(now));
            let responses: Vec<Bytes> = responses.map(|out| out.payload).collect();
            assert_eq!(responses.len(), expected);
            for response in responses {
                source.handle_message(now, 0, response.slice(..15));
                source.handle_message(now, 0, response.slice(15..));
            }
        }
        let deliveries = [0, 1, 2].map(|number| (number, 7_000_000));
        assert_eq!(source.sender.record.deliveries, deliveries);
        assert_eq!(sink.record.deliveries, []);
    }

    #[test]
    fn an_unexpected_message_is_a_failure() {
        let mut sink = sink(&paced(), false);
        sink.handle_message(Time::ZERO, 0, numbered::message(3, 10));
        assert_eq!(sink.record.deliveries, [(3, 0)]);
        assert_eq!(sink.failure(), None);
        sink.handle_message(Time::ZERO, 0, Bytes::from_static(b"message"));
        assert!(sink.failure().is_some_and(|what| what.contains("7 bytes")));
    }

    #[test]
    fn slow_readers_keep_their_rate_after_late_calls() {
        let mut slow = flow(Pattern::Bulk, None);
        slow.reader = ReceiverSpeed::Slow(Duration::from_millis(10));
        let mut slow = sink(&slow, false);
        slow.connected(Time::ZERO, 1);
        let mut taken = 0;
        for ms in (0..10_000).step_by(25) {
            let now = Time::from_millis(ms);
            slow.handle_timeout(now);
            while slow.reading() == ReadMode::One {
                slow.handle_message(now, 0, Bytes::from_static(b"a message."));
                taken += 1;
            }
            assert_eq!(slow.reading(), ReadMode::Nothing);
        }
        assert!((900..1100).contains(&taken), "{taken}");
        assert_eq!(slow.record.deliveries.len(), taken);
        assert!(slow.is_done());
        assert_eq!(sink(&paced(), false).reading(), ReadMode::All);
    }
}
