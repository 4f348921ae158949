//! The queue of messages that wait to be sent, and the account of the send buffer. Its lines are made
//! with the first message, so that an association that never sends does without.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::StreamId;

use super::lines::Lines;
pub(super) use super::lines::Piece;
use super::message::{Pending, SendOptions};
use super::scheduler::StreamScheduler;
use crate::path::PathId;
use crate::time::Time;

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

    pub(crate) fn push(&mut self, options: SendOptions, data: Bytes, now: Time) {
        self.lines().push(options, data, now);
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

    /// When the life of a message ends, the first of all.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.lines.as_ref()?.next_expiry()
    }

    /// Removes a message whose life has ended.
    pub(crate) fn take_expired(&mut self, now: Time) -> Option<Pending> {
        self.lines.as_mut()?.take_expired(now)
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
    use super::*;

    #[test]
    fn fragments_share_the_number_and_carry_their_place() {
        let mut queue = Queue::new(StreamScheduler::FirstCome);
        queue.push(
            SendOptions::on_stream(3),
            Bytes::from_static(b"abcdefgh"),
            Time::ZERO,
        );
        queue.push(
            SendOptions::on_stream(3),
            Bytes::from_static(b"x"),
            Time::ZERO,
        );
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
            queue.push(
                SendOptions {
                    unordered,
                    ..SendOptions::default()
                },
                Bytes::from_static(b"m"),
                Time::ZERO,
            );
        }
        let numbers: Vec<_> = (0..3)
            .map(|_| queue.cut(10).unwrap())
            .filter(|p| !p.flags.unordered)
            .map(|p| p.mid.value())
            .collect();
        assert_eq!(numbers, [0, 1]);
    }

    #[test]
    fn a_message_expires_only_before_its_first_fragment() {
        let mut queue = Queue::new(StreamScheduler::FirstCome);
        let options = SendOptions {
            lifetime: Some(core::time::Duration::from_millis(10)),
            ..SendOptions::default()
        };
        queue.push(options, Bytes::from_static(b"abcdef"), Time::ZERO);
        assert!(queue.take_expired(Time::from_millis(9)).is_none());
        queue.cut(3).unwrap();
        assert!(
            queue.take_expired(Time::from_millis(10)).is_none(),
            "committed"
        );
        queue.cut(3).unwrap();
        queue.push(options, Bytes::from_static(b"abcdef"), Time::ZERO);
        assert!(queue.take_expired(Time::from_millis(10)).is_some());
        assert_eq!(queue.bytes(), 0);
    }
}
