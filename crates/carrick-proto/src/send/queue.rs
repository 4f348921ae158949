//! Messages that wait to be sent, first come, first served, and the account of the send buffer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{DataFlags, Ssn, StreamId};

use super::message::{Pending, SendOptions};
use crate::path::PathId;
use crate::time::Time;

/// A piece of the first message, ready to get a TSN.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) options: SendOptions,
    pub(crate) ssn: Ssn,
    pub(crate) flags: DataFlags,
    pub(crate) payload: Bytes,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// The number of the next ordered message of each stream; grows to the highest stream used.
    next_ssn: Vec<Ssn>,
}

impl Queue {
    pub(crate) fn push(&mut self, options: SendOptions, data: Bytes, now: Time) {
        self.pending_bytes += data.len();
        self.pending.push_back(Pending::new(options, data, now));
    }

    pub(crate) fn front(&self) -> Option<&Pending> {
        self.pending.front()
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Bytes that have not been sent.
    pub(crate) fn bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Messages that were to go this way go any way.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        for pending in &mut self.pending {
            pending.options.path = pending.options.path.filter(|p| *p != path);
        }
    }

    /// Removes the first message if its life has ended.
    pub(crate) fn take_expired(&mut self, now: Time) -> Option<Pending> {
        if !self.pending.front()?.is_expired(now) {
            return None;
        }
        let expired = self.pending.pop_front()?;
        self.pending_bytes -= expired.rest.len();
        Some(expired)
    }

    /// Removes the messages, none of which was begun, for streams from this one on.
    pub(crate) fn take_above(&mut self, streams: u16) -> Vec<Pending> {
        let mut removed = Vec::new();
        for pending in core::mem::take(&mut self.pending) {
            if !pending.begun && pending.options.stream.0 >= streams {
                self.pending_bytes -= pending.rest.len();
                removed.push(pending);
            } else {
                self.pending.push_back(pending);
            }
        }
        removed
    }

    /// Cuts a piece of at most `max` bytes off the first message.
    pub(crate) fn cut(&mut self, max: usize) -> Option<Piece> {
        let first = self.pending.front_mut()?;
        let ssn = match first.ssn {
            Some(ssn) => ssn,
            None if first.options.unordered => Ssn::new(0),
            None => next(&mut self.next_ssn, first.options.stream),
        };
        let beginning = !first.begun;
        let payload = first.rest.split_to(max.min(first.rest.len()));
        let ending = first.rest.is_empty();
        first.begun = true;
        first.ssn = Some(ssn);
        let options = first.options;
        let flags = DataFlags {
            immediate: ending && options.immediate,
            unordered: options.unordered,
            beginning,
            ending,
        };
        self.pending_bytes -= payload.len();
        if ending {
            self.pending.pop_front();
        }
        Some(Piece {
            options,
            ssn,
            flags,
            payload,
        })
    }

    /// Empties the queue and restarts all streams at 0; returns what was in it.
    pub(crate) fn restart(&mut self) -> VecDeque<Pending> {
        self.pending_bytes = 0;
        self.next_ssn.clear();
        core::mem::take(&mut self.pending)
    }
}

fn next(numbers: &mut Vec<Ssn>, stream: StreamId) -> Ssn {
    let slot = usize::from(stream.0);
    if numbers.len() <= slot {
        numbers.resize(slot + 1, Ssn::new(0));
    }
    let ssn = numbers[slot];
    numbers[slot] = ssn.next();
    ssn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_share_the_number_and_carry_their_place() {
        let mut queue = Queue::default();
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
                    p.ssn.value(),
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
        let mut queue = Queue::default();
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
            .map(|p| p.ssn.value())
            .collect();
        assert_eq!(numbers, [0, 1]);
    }

    #[test]
    fn a_message_expires_only_before_its_first_fragment() {
        let mut queue = Queue::default();
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
