//! Queue of the messages that wait to be sent. Memory is allocated with the first message.
//!
//! - `stream_queues`: a queue for each stream, chosen from by the scheduler
//! - `message_slab`: storage of the queues
//! - `deferred`: messages for streams that are being reset

mod deferred;
mod message_slab;
mod stream_queues;

use alloc::boxed::Box;
use alloc::vec::Vec;

use carrick_wire::StreamId;

use super::message::PendingMessage;
use super::scheduler::StreamScheduler;
use crate::path::PathId;
use crate::streams::StreamSet;
pub(super) use deferred::DeferredMessages;
pub(super) use stream_queues::NewChunk;
use stream_queues::StreamQueues;

#[derive(Debug)]
pub(crate) struct SendQueue {
    scheduler: StreamScheduler,
    interleaving: bool,
    queues: Option<Box<StreamQueues>>,
}

portable_struct! { SendQueue { scheduler, interleaving, queues } }

impl SendQueue {
    pub(crate) fn new(scheduler: StreamScheduler) -> Self {
        Self {
            scheduler,
            interleaving: false,
            queues: None,
        }
    }

    fn queues(&mut self) -> &mut StreamQueues {
        let (scheduler, interleaving) = (self.scheduler, self.interleaving);
        self.queues
            .get_or_insert_with(|| Box::new(StreamQueues::new(scheduler, interleaving)))
    }

    /// Sets whether the messages of several streams may interleave (RFC 8260, section 2.2).
    pub(crate) fn set_interleaving(&mut self, interleaving: bool) {
        self.interleaving = interleaving;
        if let Some(queues) = &mut self.queues {
            queues.set_interleaving(interleaving);
        }
    }

    /// Returns whether queue and streams were set so.
    pub(crate) fn has_interleaving(&self, interleaving: bool) -> bool {
        let streams = self.queues.as_ref();
        self.interleaving == interleaving
            && streams.is_none_or(|streams| streams.has_interleaving(interleaving))
    }

    /// Queues a message.
    pub(crate) fn push(&mut self, pending: PendingMessage) {
        self.queues().push(pending);
    }

    /// Returns whether a message of one of these streams is queued.
    pub(crate) fn has_any(&self, streams: &StreamSet) -> bool {
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
    pub(crate) fn front(&self) -> Option<&PendingMessage> {
        self.queues.as_ref()?.front()
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.as_ref().map_or(0, |q| q.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of user data in the queue.
    pub(crate) fn bytes(&self) -> usize {
        self.queues.as_ref().map_or(0, |q| q.bytes())
    }

    /// Removes a path from the messages that the user directed to it.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        if let Some(queues) = &mut self.queues {
            queues.forget_path(path);
        }
    }

    /// Removes a message of limited reliability, or the rest of it, by its number.
    pub(crate) fn remove(&mut self, number: u64) -> Option<PendingMessage> {
        self.queues.as_mut()?.remove_numbered(number)
    }

    /// Removes the messages, none of which has been begun, of the streams from this one on.
    pub(crate) fn remove_above(&mut self, streams: u16) -> Vec<PendingMessage> {
        let queues = self.queues.as_mut();
        queues.map(|q| q.remove_above(streams)).unwrap_or_default()
    }

    /// Returns whether the next chunk may be bundled with chunks of the other stream.
    pub(crate) fn may_bundle(&self, other: StreamId) -> bool {
        self.bundles_streams() || self.front().is_none_or(|f| f.options.stream == other)
    }

    /// Returns whether chunks of different streams may be bundled.
    pub(crate) fn bundles_streams(&self) -> bool {
        self.scheduler != StreamScheduler::RoundRobinPerPacket
    }

    /// Cuts a fragment of at most `max` bytes off the first message.
    pub(crate) fn cut(&mut self, max: usize) -> Option<NewChunk> {
        self.queues.as_mut()?.cut(max)
    }

    /// Ends the packet that the fragments cut since the last call share.
    pub(crate) fn packet_over(&mut self) {
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

    /// Priority or weight that the user set for a stream.
    pub(crate) fn value(&self, stream: StreamId) -> u16 {
        self.queues.as_ref().map_or(0, |q| q.value(stream))
    }

    pub(crate) fn set_value(&mut self, stream: StreamId, value: u16) {
        self.queues().set_value(stream, value);
    }

    /// Empties the queue and restarts all message numbers at 0; priorities and weights remain. Returns
    /// the messages in the order in which the user sent them.
    pub(crate) fn restart(&mut self) -> Vec<PendingMessage> {
        let queues = self.queues.as_mut();
        queues.map(|q| q.restart()).unwrap_or_default()
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
        let mut queue = SendQueue::new(StreamScheduler::FirstCome);
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
        let mut queue = SendQueue::new(StreamScheduler::FirstCome);
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
        let mut queue = SendQueue::new(StreamScheduler::FirstCome);
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
            let mut queue = SendQueue::new(scheduler);
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
