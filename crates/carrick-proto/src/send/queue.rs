//! The queue of messages that wait to be sent, and the account of the send buffer. Its lines are made
//! with the first message, so that an association that never sends does without.

use alloc::boxed::Box;
use alloc::vec::Vec;

use carrick_wire::StreamId;

use super::lines::Lines;
pub(super) use super::lines::Piece;
use super::message::Pending;
use super::scheduler::StreamScheduler;
use crate::path::PathId;
use crate::reconfig::StreamSet;

#[derive(Debug)]
pub(crate) struct Queue {
    scheduler: StreamScheduler,
    interleaving: bool,
    lines: Option<Box<Lines>>,
}

impl Queue {
    pub(crate) fn new(scheduler: StreamScheduler) -> Self {
        Self {
            scheduler,
            interleaving: false,
            lines: None,
        }
    }

    fn lines(&mut self) -> &mut Lines {
        let (scheduler, interleaving) = (self.scheduler, self.interleaving);
        self.lines
            .get_or_insert_with(|| Box::new(Lines::new(scheduler, interleaving)))
    }

    /// Whether messages of several streams may be under way at the same time (RFC 8260 section 2.2).
    pub(crate) fn set_interleaving(&mut self, interleaving: bool) {
        self.interleaving = interleaving;
        if let Some(lines) = &mut self.lines {
            lines.set_interleaving(interleaving);
        }
    }

    /// Takes a message.
    pub(crate) fn put(&mut self, pending: Pending) {
        self.lines().put(pending);
    }

    /// Whether a message of one of these streams is in the queue.
    pub(crate) fn has_any(&self, streams: &StreamSet) -> bool {
        self.lines.as_ref().is_some_and(|l| l.has_any(streams))
    }

    /// The next messages of each of these streams, none of which is begun, have number 0.
    pub(crate) fn reset(&mut self, streams: &StreamSet) {
        if let Some(lines) = &mut self.lines {
            lines.reset(streams);
        }
    }

    /// Whether they have that already.
    pub(crate) fn is_reset(&self, streams: &StreamSet) -> bool {
        self.lines.as_ref().is_none_or(|l| l.is_reset(streams))
    }

    /// The message that is sent next, or the rest of it.
    pub(crate) fn front(&self) -> Option<&Pending> {
        self.lines.as_ref()?.front()
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.as_ref().map_or(0, |l| l.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that have not been sent.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.as_ref().map_or(0, |l| l.bytes())
    }

    /// Messages that were to go this way go any way.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        if let Some(lines) = &mut self.lines {
            lines.forget_path(path);
        }
    }

    /// Takes a message out that may be given up, or the rest of it, wherever it is.
    pub(crate) fn take(&mut self, number: u64) -> Option<Pending> {
        self.lines.as_mut()?.take(number)
    }

    /// Removes the messages, none of which was begun, for streams from this one on.
    pub(crate) fn take_above(&mut self, streams: u16) -> Vec<Pending> {
        let lines = self.lines.as_mut();
        lines.map(|l| l.take_above(streams)).unwrap_or_default()
    }

    /// Whether the next chunk may share a packet with chunks of the other stream.
    pub(crate) fn may_bundle(&self, other: StreamId) -> bool {
        self.bundles_streams() || self.front().is_none_or(|f| f.options.stream == other)
    }

    /// Whether chunks of different streams may share a packet.
    pub(crate) fn bundles_streams(&self) -> bool {
        self.scheduler != StreamScheduler::RoundRobinPerPacket
    }

    /// Cuts a piece of at most `max` bytes off the first message.
    pub(crate) fn cut(&mut self, max: usize) -> Option<Piece> {
        self.lines.as_mut()?.cut(max)
    }

    /// The pieces cut since the last call share a packet, which is complete.
    pub(crate) fn packet_over(&mut self) {
        if let Some(lines) = &mut self.lines {
            lines.packet_over();
        }
    }

    pub(crate) fn scheduler(&self) -> StreamScheduler {
        self.scheduler
    }

    /// Another order from now on. A message that has begun is finished first, unless messages may
    /// interleave.
    pub(crate) fn set_scheduler(&mut self, scheduler: StreamScheduler) {
        self.scheduler = scheduler;
        if let Some(lines) = &mut self.lines {
            lines.set_scheduler(scheduler);
        }
    }

    /// What the user set for a stream: its priority or weight.
    pub(crate) fn value(&self, stream: StreamId) -> u16 {
        self.lines.as_ref().map_or(0, |l| l.value(stream))
    }

    pub(crate) fn set_value(&mut self, stream: StreamId, value: u16) {
        self.lines().set_value(stream, value);
    }

    /// Empties the queue and restarts all streams at 0, with the values that the user set; returns
    /// what was in it, in the order in which it came.
    pub(crate) fn restart(&mut self) -> Vec<Pending> {
        let lines = self.lines.as_mut();
        lines.map(|l| l.restart()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::message::SendOptions;
    use super::*;

    fn push(queue: &mut Queue, number: u64, options: SendOptions, data: &'static [u8]) {
        queue.put(Pending::new(number, options, Bytes::from_static(data)));
    }

    #[test]
    fn fragments_share_the_number_and_carry_their_place() {
        let mut queue = Queue::new(StreamScheduler::FirstCome);
        let options = SendOptions::on_stream(3);
        push(&mut queue, 0, options, b"abcdefgh");
        push(&mut queue, 0, options, b"x");
        let pieces: Vec<_> = (0..4).map(|_| queue.cut(3).unwrap()).collect();
        let places: Vec<_> = pieces
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
            places,
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
        let mut queue = Queue::new(StreamScheduler::FirstCome);
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
    fn messages_are_taken_out_of_the_middle_by_their_number() {
        let mut queue = Queue::new(StreamScheduler::FirstCome);
        let options = SendOptions::default();
        for number in 1..=200 {
            push(&mut queue, number, options, b"abc");
            push(&mut queue, 0, options, b"z");
        }
        for number in (2..=200).filter(|n| n % 3 != 0) {
            assert!(queue.take(number).is_some(), "{number}");
            assert!(queue.take(number).is_none(), "{number} is gone");
        }
        assert!(queue.take(0).is_none(), "no number");
        assert_eq!((queue.len(), queue.bytes()), (267, 67 * 3 + 200));
        let left: Vec<_> = core::iter::from_fn(|| queue.cut(3))
            .map(|piece| piece.message)
            .filter(|number| *number != 0)
            .collect();
        let expected: Vec<_> = (1..=200).filter(|n| *n == 1 || n % 3 == 0).collect();
        assert_eq!(left, expected);
        assert!(queue.is_empty());
        assert!(queue.take(3).is_none(), "sent");
    }

    #[test]
    fn what_is_left_of_a_message_that_was_begun_is_taken_out() {
        for scheduler in StreamScheduler::ALL {
            let mut queue = Queue::new(scheduler);
            push(&mut queue, 1, SendOptions::on_stream(1), b"abcdef");
            queue.cut(4).unwrap();
            push(&mut queue, 0, SendOptions::on_stream(1), b"x");
            push(&mut queue, 0, SendOptions::on_stream(2), b"y");
            let rest = queue.take(1).unwrap();
            assert_eq!((&rest.rest[..], rest.begun), (&b"ef"[..], true));
            assert_eq!((queue.len(), queue.bytes()), (2, 2));
            let next = [queue.cut(9).unwrap(), queue.cut(9).unwrap()];
            assert!(next.iter().all(|p| p.flags.beginning && p.flags.ending));
            assert!(queue.is_empty(), "{scheduler:?}");
        }
    }
}
