//! Messages that wait to be sent, and the outbound streams that they belong to. Queues have memory while messages
//! wait, and until a heartbeat finds them empty.
//!
//! - `stream_queues`: a queue for each stream, chosen from by the scheduler
//! - `idle_streams`: the streams without queues
//! - `message_slab`: storage of the queues
//! - `deferred`: messages for streams that are being reset

mod deferred;
mod idle_streams;
mod message_slab;
mod stream_queues;

use alloc::boxed::Box;
use alloc::vec::Vec;

use carrick_wire::{StreamId, Tsn};

use super::message::PendingMessage;
use crate::config::StreamScheduler;
use crate::path::PathId;
use crate::stream_set::StreamSet;
use deferred::DeferredMessages;
use idle_streams::IdleStreams;
pub(super) use stream_queues::NewChunk;
use stream_queues::StreamQueues;

/// Outbound streams, with a queue for each if messages wait.
#[derive(Debug)]
enum OutboundStreams {
    Idle(IdleStreams),
    Queued(Box<StreamQueues>),
}

portable_enum! { OutboundStreams { 0: Idle(value), 1: Queued(value) } }

/// Messages of the outbound streams. The queued ones may be sent; those that the user sends on a stream while
/// it is being reset are deferred, and queued once the peer has responded.
#[derive(Debug)]
pub(crate) struct SendQueue {
    outbound_streams: u16,
    scheduler: StreamScheduler,
    interleaving: bool,
    streams: OutboundStreams,
    deferred: DeferredMessages,
    /// All messages of the user are deferred until the chunk protection has keys.
    awaits_keys: bool,
}

portable_struct! {
    SendQueue { outbound_streams, scheduler, interleaving, streams, deferred, awaits_keys }
}

impl SendQueue {
    pub(in crate::tx) fn new(outbound_streams: u16, scheduler: StreamScheduler) -> Self {
        Self {
            outbound_streams,
            scheduler,
            interleaving: false,
            streams: OutboundStreams::Idle(IdleStreams::default()),
            deferred: DeferredMessages::default(),
            awaits_keys: false,
        }
    }

    /// Returns the queues, which are allocated if the streams are idle.
    fn queues(&mut self) -> &mut StreamQueues {
        loop {
            match self.streams {
                OutboundStreams::Queued(ref mut queues) => return queues,
                OutboundStreams::Idle(ref idle) => {
                    let queues = StreamQueues::resume(self.scheduler, self.interleaving, idle);
                    self.streams = OutboundStreams::Queued(queues);
                }
            }
        }
    }

    /// Returns the queues if messages may wait in them.
    fn queued(&self) -> Option<&StreamQueues> {
        match &self.streams {
            OutboundStreams::Queued(queues) => Some(queues),
            OutboundStreams::Idle(_) => None,
        }
    }

    fn queued_mut(&mut self) -> Option<&mut StreamQueues> {
        match &mut self.streams {
            OutboundStreams::Queued(queues) => Some(queues),
            OutboundStreams::Idle(_) => None,
        }
    }

    /// Sets whether the messages of several streams may interleave (RFC 8260, section 2.2).
    pub(in crate::tx) fn set_interleaving(&mut self, interleaving: bool) {
        self.interleaving = interleaving;
        if let Some(queues) = self.queued_mut() {
            queues.set_interleaving(interleaving);
        }
    }

    /// Returns whether queue and streams were set so.
    pub(in crate::tx) fn has_interleaving(&self, interleaving: bool) -> bool {
        let streams = self.queued();
        self.interleaving == interleaving
            && streams.is_none_or(|streams| streams.has_interleaving(interleaving))
    }

    /// Returns the number of outbound streams.
    pub(crate) fn outbound_streams(&self) -> u16 {
        self.outbound_streams
    }

    /// Adds outbound streams.
    pub(crate) fn add_streams(&mut self, count: u16) {
        self.outbound_streams = self.outbound_streams.saturating_add(count);
    }

    /// Queues a message, or defers it if its stream is being reset.
    pub(in crate::tx) fn push(&mut self, pending: PendingMessage) {
        if self.awaits_keys || self.deferred.covers(pending.options.stream) {
            self.deferred.push(pending);
        } else {
            self.queues().push(pending);
        }
    }

    /// Queues a message, also if its stream is deferred.
    pub(in crate::tx) fn push_undeferred(&mut self, pending: PendingMessage) {
        self.queues().push(pending);
    }

    /// Defers the messages that the user sends on these streams from now on.
    pub(crate) fn hold(&mut self, streams: StreamSet) {
        self.deferred.hold(streams);
    }

    /// Defers the messages of the user until [`Self::keys_established`].
    pub(crate) fn await_keys(&mut self) {
        self.awaits_keys = true;
    }

    /// Queues the messages that waited for the keys of the chunk protection, except those of streams that are being
    /// reset.
    pub(crate) fn keys_established(&mut self) {
        if core::mem::take(&mut self.awaits_keys) {
            for pending in self.deferred.take_messages() {
                self.push(pending);
            }
        }
    }

    /// Ends the reset of streams: queues the deferred messages, unless they wait for keys.
    pub(crate) fn release(&mut self) {
        if self.awaits_keys {
            return self.deferred.end();
        }
        for pending in self.deferred.take() {
            self.queues().push(pending);
        }
    }

    /// Notes that a request to renumber has been sent: the peer may acknowledge TSNs of the new
    /// numbering before its response arrives.
    pub(crate) fn expect_renumbering(&mut self) {
        self.deferred.expect_renumbering();
    }

    /// Notes that the TSNs are renumbered; `last` is the last one before.
    pub(in crate::tx) fn renumbered(&mut self, last: Tsn) {
        self.deferred.renumbered(last);
    }

    /// Returns whether a TSN that is not outstanding may be of the numbering before a renumbering, in a
    /// delayed packet, or of the one that the peer was asked to begin.
    pub(in crate::tx) fn may_be_renumbered(&self, tsn: Tsn) -> bool {
        self.deferred.may_be_renumbered(tsn)
    }

    /// Returns whether a message of one of these streams is queued.
    pub(in crate::tx) fn has_any(&self, streams: &StreamSet) -> bool {
        self.queued().is_some_and(|q| q.has_any(streams))
    }

    /// Restarts the message numbers of these streams at 0; no message of theirs has been begun.
    pub(crate) fn reset(&mut self, streams: &StreamSet) {
        match &mut self.streams {
            OutboundStreams::Idle(idle) => idle.reset(streams),
            OutboundStreams::Queued(queues) => queues.reset(streams),
        }
    }

    /// Returns whether the message numbers of these streams are at 0.
    pub(crate) fn is_reset(&self, streams: &StreamSet) -> bool {
        match &self.streams {
            OutboundStreams::Idle(idle) => idle.are_reset(streams),
            OutboundStreams::Queued(queues) => queues.is_reset(streams),
        }
    }

    /// Message, or rest of one, that is sent next.
    pub(in crate::tx) fn front(&self) -> Option<&PendingMessage> {
        self.queued()?.front()
    }

    /// Returns the number of queued messages.
    pub(crate) fn len(&self) -> usize {
        self.queued().map_or(0, |q| q.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of messages, deferred ones included.
    pub(crate) fn total_len(&self) -> usize {
        self.len() + self.deferred.len()
    }

    /// Returns the bytes of user data, those of deferred messages included.
    pub(crate) fn total_bytes(&self) -> usize {
        self.bytes() + self.deferred.bytes()
    }

    /// Returns the bytes of user data in queued messages.
    pub(crate) fn bytes(&self) -> usize {
        self.queued().map_or(0, |q| q.bytes())
    }

    /// Frees the memory of queues that are empty.
    pub(in crate::tx) fn free_unused_memory(&mut self) {
        if let Some(queues) = self.queued().filter(|queues| queues.len() == 0) {
            self.streams = OutboundStreams::Idle(queues.idle_streams());
        }
    }

    /// Removes a path from the messages that the user directed to it.
    pub(in crate::tx) fn forget_path(&mut self, path: PathId) {
        if let Some(queues) = self.queued_mut() {
            queues.forget_path(path);
        }
        self.deferred.forget_path(path);
    }

    /// Removes a message of limited reliability, or the rest of it, by its number.
    pub(in crate::tx) fn remove(&mut self, number: u64) -> Option<PendingMessage> {
        let queues = self.queued_mut();
        let queued = queues.and_then(|q| q.remove_numbered(number));
        queued.or_else(|| self.deferred.remove_numbered(number))
    }

    /// Sets the number of streams that the peer accepts. Removes and returns the messages of the streams
    /// above it, none of which has been begun.
    pub(in crate::tx) fn limit_streams(&mut self, streams: u16) -> Vec<PendingMessage> {
        self.outbound_streams = streams;
        let queues = self.queued_mut();
        queues.map(|q| q.remove_above(streams)).unwrap_or_default()
    }

    /// Returns whether the next chunk may be bundled with chunks of the other stream.
    pub(in crate::tx) fn may_bundle(&self, other: StreamId) -> bool {
        self.bundles_streams() || self.front().is_none_or(|f| f.options.stream == other)
    }

    /// Returns whether chunks of different streams may be bundled.
    pub(in crate::tx) fn bundles_streams(&self) -> bool {
        self.scheduler != StreamScheduler::RoundRobinPerPacket
    }

    /// Cuts a fragment of at most `max` bytes off the first message.
    pub(in crate::tx) fn cut(&mut self, max: usize) -> Option<NewChunk> {
        self.queued_mut()?.cut(max)
    }

    /// Ends the packet that the fragments cut since the last call share.
    pub(in crate::tx) fn packet_over(&mut self) {
        if let Some(queues) = self.queued_mut() {
            queues.packet_over();
        }
    }

    pub(crate) fn scheduler(&self) -> StreamScheduler {
        self.scheduler
    }

    /// Changes the scheduler. A message that has been begun is finished first, unless messages may
    /// interleave.
    pub(crate) fn set_scheduler(&mut self, scheduler: StreamScheduler) {
        self.scheduler = scheduler;
        if let Some(queues) = self.queued_mut() {
            queues.set_scheduler(scheduler);
        }
    }

    /// Returns the priority or weight that the user set for a stream; `None` if there is no such stream.
    pub(crate) fn stream_value(&self, stream: StreamId) -> Option<u16> {
        let value = || match &self.streams {
            OutboundStreams::Idle(idle) => idle.value(stream),
            OutboundStreams::Queued(queues) => queues.value(stream),
        };
        (stream.0 < self.outbound_streams).then(value)
    }

    /// Sets the priority or weight of a stream; returns whether there is such a stream.
    pub(crate) fn set_stream_value(&mut self, stream: StreamId, value: u16) -> bool {
        let exists = stream.0 < self.outbound_streams;
        if exists {
            self.queues().set_value(stream, value);
        }
        exists
    }

    /// Continues after a restart of the peer, without messages: the scheduler and the values that the user
    /// set remain.
    pub(in crate::tx) fn restart(&mut self, outbound_streams: u16) {
        self.outbound_streams = outbound_streams;
        self.deferred = DeferredMessages::default();
    }

    /// Removes and returns all messages: the queued ones in the order in which the user sent them, and then
    /// the deferred ones. Message numbers restart at 0; priorities and weights remain.
    pub(in crate::tx) fn take_all(&mut self) -> impl Iterator<Item = PendingMessage> + use<> {
        let queued = match &mut self.streams {
            OutboundStreams::Idle(idle) => {
                idle.reset(&StreamSet::All);
                Vec::new()
            }
            OutboundStreams::Queued(queues) => queues.restart(),
        };
        let deferred = self.deferred.take();
        queued.into_iter().chain(deferred)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::tx::message::SendOptions;

    fn push(queue: &mut SendQueue, number: u64, options: SendOptions, data: &'static [u8]) {
        queue.push(PendingMessage::new(
            number,
            options,
            Bytes::from_static(data),
        ));
    }

    #[test]
    fn fragments_share_the_message_number() {
        let mut queue = SendQueue::new(10, StreamScheduler::FirstCome);
        let options = SendOptions::on_stream(3);
        push(&mut queue, 0, options, b"abcdefgh");
        push(&mut queue, 0, options, b"x");
        let pieces: Vec<_> = (0..4).map(|_| queue.cut(3).unwrap()).collect();
        let nodes: Vec<_> = pieces
            .iter()
            .map(|p| {
                (
                    p.flags.beginning,
                    p.flags.ending,
                    p.mid.value(),
                    p.payload.len(),
                )
            })
            .collect();
        assert_eq!(
            nodes,
            [
                (true, false, 0, 3),
                (false, false, 0, 3),
                (false, true, 0, 2),
                (true, true, 1, 1)
            ]
        );
        assert_eq!((queue.bytes(), queue.len()), (0, 0));
        assert!(queue.cut(3).is_none());
    }

    #[test]
    fn unordered_messages_use_no_number() {
        let mut queue = SendQueue::new(10, StreamScheduler::FirstCome);
        for unordered in [false, true, false] {
            let options = SendOptions {
                unordered,
                ..SendOptions::default()
            };
            push(&mut queue, 0, options, b"m");
        }
        let numbers: Vec<_> = (0..3)
            .map(|_| queue.cut(10).unwrap())
            .filter(|p| !p.flags.unordered)
            .map(|p| p.mid.value())
            .collect();
        assert_eq!(numbers, [0, 1]);
    }

    #[test]
    fn messages_are_removed_by_their_number() {
        let mut queue = SendQueue::new(10, StreamScheduler::FirstCome);
        let options = SendOptions::default();
        for number in 1..=200 {
            push(&mut queue, number, options, b"abc");
            push(&mut queue, 0, options, b"z");
        }
        for number in (2..=200).filter(|n| n % 3 != 0) {
            assert!(queue.remove(number).is_some(), "{number}");
            assert!(queue.remove(number).is_none(), "{number} is gone");
        }
        assert!(queue.remove(0).is_none(), "no number");
        assert_eq!((queue.len(), queue.bytes()), (267, 67 * 3 + 200));
        let left: Vec<_> = core::iter::from_fn(|| queue.cut(3))
            .map(|piece| piece.message)
            .filter(|number| *number != 0)
            .collect();
        let expected: Vec<_> = (1..=200).filter(|n| *n == 1 || n % 3 == 0).collect();
        assert_eq!(left, expected);
        assert!(queue.is_empty());
        assert!(queue.remove(3).is_none(), "sent");
    }

    #[test]
    fn idle_streams_keep_numbers_and_values() {
        for scheduler in StreamScheduler::ALL {
            let mut queue = SendQueue::new(70, scheduler);
            queue.set_interleaving(true);
            let send = |queue: &mut SendQueue, stream, unordered| {
                let options = SendOptions {
                    unordered,
                    ..SendOptions::on_stream(stream)
                };
                push(queue, 0, options, b"m");
                queue.cut(9).expect("a message").mid.value()
            };
            assert!(queue.set_stream_value(StreamId(66), 5));
            for (stream, unordered) in [(69, false), (69, true), (69, false), (2, false)] {
                send(&mut queue, stream, unordered);
            }
            push(&mut queue, 0, SendOptions::on_stream(3), b"m");
            queue.free_unused_memory();
            assert_eq!(queue.len(), 1, "queues with a message remain");
            queue.cut(9).expect("a message");
            queue.free_unused_memory();
            let OutboundStreams::Idle(idle) = &queue.streams else {
                panic!("queues without messages are freed");
            };
            assert_eq!(
                idle.iter().count(),
                4,
                "streams that were used or have a value"
            );
            assert!(queue.front().is_none() && queue.is_empty());
            let two = StreamSet::new([StreamId(2), StreamId(50)].into_iter());
            assert!(!queue.is_reset(&two) && !queue.is_reset(&StreamSet::All));
            queue.reset(&two);
            assert!(queue.is_reset(&two) && !queue.is_reset(&StreamSet::All));
            let values = [66, 69].map(|stream| queue.stream_value(StreamId(stream)));
            assert_eq!(values, [Some(5), Some(0)]);
            let next = [(69, false), (69, true), (2, false), (3, false), (4, false)];
            let mids = next.map(|(stream, unordered)| send(&mut queue, stream, unordered));
            assert_eq!(mids, [2, 1, 0, 1, 0]);
            assert_eq!(queue.stream_value(StreamId(66)), Some(5));
            queue.free_unused_memory();
            assert_eq!(queue.take_all().count(), 0);
            assert!(queue.is_reset(&StreamSet::All), "after a restart");
            assert_eq!(queue.stream_value(StreamId(66)), Some(5));
        }
    }

    #[test]
    fn the_rest_of_a_begun_message_is_removed() {
        for scheduler in StreamScheduler::ALL {
            let mut queue = SendQueue::new(10, scheduler);
            push(&mut queue, 1, SendOptions::on_stream(1), b"abcdef");
            queue.cut(4).unwrap();
            push(&mut queue, 0, SendOptions::on_stream(1), b"x");
            push(&mut queue, 0, SendOptions::on_stream(2), b"y");
            let rest = queue.remove(1).unwrap();
            assert_eq!((&rest.rest[..], rest.begun), (&b"ef"[..], true));
            assert_eq!((queue.len(), queue.bytes()), (2, 2));
            let next = [queue.cut(9).unwrap(), queue.cut(9).unwrap()];
            assert!(next.iter().all(|p| p.flags.beginning && p.flags.ending));
            assert!(queue.is_empty(), "{scheduler:?}");
        }
    }
}
