//! Messages that wait to be sent, and the outbound streams that they belong to. Memory is allocated with the
//! first message.
//!
//! - `stream_queues`: a queue for each stream, chosen from by the scheduler
//! - `message_slab`: storage of the queues
//! - `deferred`: messages for streams that are being reset

mod deferred;
mod message_slab;
mod stream_queues;

use alloc::boxed::Box;
use alloc::vec::Vec;

use carrick_wire::{StreamId, Tsn};

use super::message::PendingMessage;
use super::scheduler::StreamScheduler;
use crate::path::PathId;
use crate::streams::StreamSet;
use deferred::DeferredMessages;
pub(super) use stream_queues::NewChunk;
use stream_queues::StreamQueues;

/// Messages of the outbound streams. The queued ones may be sent; those that the user sends on a stream while
/// it is being reset are deferred, and queued once the peer has responded.
#[derive(Debug)]
pub(crate) struct SendQueue {
    outbound_streams: u16,
    scheduler: StreamScheduler,
    interleaving: bool,
    queues: Option<Box<StreamQueues>>,
    deferred: DeferredMessages,
}

portable_struct! { SendQueue { outbound_streams, scheduler, interleaving, queues, deferred } }

impl SendQueue {
    pub(in crate::tx) fn new(outbound_streams: u16, scheduler: StreamScheduler) -> Self {
        Self {
            outbound_streams,
            scheduler,
            interleaving: false,
            queues: None,
            deferred: DeferredMessages::default(),
        }
    }

    fn queues(&mut self) -> &mut StreamQueues {
        let (scheduler, interleaving) = (self.scheduler, self.interleaving);
        self.queues
            .get_or_insert_with(|| Box::new(StreamQueues::new(scheduler, interleaving)))
    }

    /// Sets whether the messages of several streams may interleave (RFC 8260, section 2.2).
    pub(in crate::tx) fn set_interleaving(&mut self, interleaving: bool) {
        self.interleaving = interleaving;
        if let Some(queues) = &mut self.queues {
            queues.set_interleaving(interleaving);
        }
    }

    /// Returns whether queue and streams were set so.
    pub(in crate::tx) fn has_interleaving(&self, interleaving: bool) -> bool {
        let streams = self.queues.as_ref();
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
        if self.deferred.covers(pending.options.stream) {
            self.deferred.push(pending);
        } else {
            self.queues().push(pending);
        }
    }

    /// Defers the messages that the user sends on these streams from now on.
    pub(crate) fn hold(&mut self, streams: StreamSet) {
        self.deferred.hold(streams);
    }

    /// Queues the deferred messages.
    pub(crate) fn release(&mut self) {
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
        self.queues.as_ref().is_some_and(|q| q.has_any(streams))
    }

    /// Restarts the message numbers of these streams at 0; no message of theirs has been begun.
    pub(crate) fn reset(&mut self, streams: &StreamSet) {
        if let Some(queues) = &mut self.queues {
            queues.reset(streams);
        }
    }

    /// Returns whether the message numbers of these streams are at 0.
    pub(crate) fn is_reset(&self, streams: &StreamSet) -> bool {
        self.queues.as_ref().is_none_or(|q| q.is_reset(streams))
    }

    /// Message, or rest of one, that is sent next.
    pub(in crate::tx) fn front(&self) -> Option<&PendingMessage> {
        self.queues.as_ref()?.front()
    }

    /// Returns the number of queued messages.
    pub(crate) fn len(&self) -> usize {
        self.queues.as_ref().map_or(0, |q| q.len())
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
        self.queues.as_ref().map_or(0, |q| q.bytes())
    }

    /// Frees the memory for further messages of queues that are empty.
    pub(in crate::tx) fn free_unused_memory(&mut self) {
        if let Some(queues) = &mut self.queues {
            queues.free_unused_memory();
        }
    }

    /// Removes a path from the messages that the user directed to it.
    pub(in crate::tx) fn forget_path(&mut self, path: PathId) {
        if let Some(queues) = &mut self.queues {
            queues.forget_path(path);
        }
        self.deferred.forget_path(path);
    }

    /// Removes a message of limited reliability, or the rest of it, by its number.
    pub(in crate::tx) fn remove(&mut self, number: u64) -> Option<PendingMessage> {
        let queues = self.queues.as_mut();
        let queued = queues.and_then(|q| q.remove_numbered(number));
        queued.or_else(|| self.deferred.remove_numbered(number))
    }

    /// Sets the number of streams that the peer accepts. Removes and returns the messages of the streams
    /// above it, none of which has been begun.
    pub(in crate::tx) fn limit_streams(&mut self, streams: u16) -> Vec<PendingMessage> {
        self.outbound_streams = streams;
        let queues = self.queues.as_mut();
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
        self.queues.as_mut()?.cut(max)
    }

    /// Ends the packet that the fragments cut since the last call share.
    pub(in crate::tx) fn packet_over(&mut self) {
        if let Some(queues) = &mut self.queues {
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
        if let Some(queues) = &mut self.queues {
            queues.set_scheduler(scheduler);
        }
    }

    /// Returns the priority or weight that the user set for a stream; `None` if there is no such stream.
    pub(crate) fn stream_value(&self, stream: StreamId) -> Option<u16> {
        let value = || self.queues.as_ref().map_or(0, |q| q.value(stream));
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
        let queued = self.queues.as_mut().map(|q| q.restart());
        let deferred = self.deferred.take();
        queued.unwrap_or_default().into_iter().chain(deferred)
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
