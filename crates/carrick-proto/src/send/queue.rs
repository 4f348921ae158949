//! Messages that wait to be sent, first come, first served, and the account of the send buffer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{DataFlags, Ssn, StreamId};

use super::message::{Pending, SendOptions};

/// A piece of the first message, ready to get a TSN.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The number of its message if that may be given up, otherwise 0.
    pub(crate) message: u64,
    pub(crate) options: SendOptions,
    pub(crate) ssn: Ssn,
    pub(crate) flags: DataFlags,
    pub(crate) payload: Bytes,
}

/// Messages taken out of the middle that leave their place behind before it is closed.
const MAX_HOLES: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// In the order of their numbers. The first is never a hole: a message that was taken out.
    pending: VecDeque<Pending>,
    holes: usize,
    pending_bytes: usize,
    /// The number of the next ordered message of each stream; grows to the highest stream used.
    next_ssn: Vec<Ssn>,
}

impl Queue {
    /// Takes a message (see [`Pending::number`]).
    pub(crate) fn push(&mut self, number: u64, options: SendOptions, data: Bytes) -> &Pending {
        self.pending_bytes += data.len();
        self.pending.push_back(Pending::new(number, options, data));
        &self.pending[self.pending.len() - 1]
    }

    pub(crate) fn front(&self) -> Option<&Pending> {
        self.pending.front()
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len() - self.holes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Bytes that have not been sent.
    pub(crate) fn bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Takes a message out, wherever it is.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Pending> {
        let place = self.pending.partition_point(|p| p.number < number);
        let found = self.pending.get_mut(place)?;
        if found.number != number || is_hole(found) || !found.may_be_abandoned() {
            return None;
        }
        let hole = Pending::new(number, SendOptions::default(), Bytes::new());
        let removed = core::mem::replace(found, hole);
        self.pending_bytes -= removed.rest.len();
        self.holes += 1;
        self.close_holes();
        Some(removed)
    }

    fn close_holes(&mut self) {
        while self.pending.pop_front_if(|first| is_hole(first)).is_some() {
            self.holes -= 1;
        }
        // In the middle only when they are most of it, so that each is moved past once at most.
        if self.holes > MAX_HOLES.max(self.pending.len() / 2) {
            self.pending.retain(|p| !is_hole(p));
            self.holes = 0;
        }
    }

    /// Removes the messages, none of which was begun, for streams from this one on.
    pub(crate) fn take_above(&mut self, streams: u16) -> Vec<Pending> {
        let mut removed = Vec::new();
        self.holes = 0;
        for pending in core::mem::take(&mut self.pending) {
            if is_hole(&pending) {
                continue;
            }
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
        let message = if first.may_be_abandoned() {
            first.number
        } else {
            0
        };
        let flags = DataFlags {
            immediate: ending && options.immediate,
            unordered: options.unordered,
            beginning,
            ending,
        };
        self.pending_bytes -= payload.len();
        if ending {
            self.pending.pop_front();
            self.close_holes();
        }
        Some(Piece {
            message,
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
        self.holes = 0;
        let mut all = core::mem::take(&mut self.pending);
        all.retain(|p| !is_hole(p));
        all
    }
}

/// Messages have bytes; what is left of one that was taken out has none.
fn is_hole(pending: &Pending) -> bool {
    pending.rest.is_empty()
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

    fn mortal() -> SendOptions {
        SendOptions {
            lifetime: Some(core::time::Duration::ZERO),
            ..SendOptions::default()
        }
    }

    #[test]
    fn fragments_share_the_number_and_carry_their_place() {
        let mut queue = Queue::default();
        let options = SendOptions::on_stream(3);
        queue.push(0, options, Bytes::from_static(b"abcdefgh"));
        queue.push(0, options, Bytes::from_static(b"x"));
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
                0,
                SendOptions {
                    unordered,
                    ..SendOptions::default()
                },
                Bytes::from_static(b"m"),
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
    fn a_message_is_taken_out_of_the_middle_and_holes_are_closed() {
        let mut queue = Queue::default();
        for number in 1..=200 {
            queue.push(number, mortal(), Bytes::from_static(b"abc"));
            // One that is never taken out shares the number of the one before.
            queue.push(number, SendOptions::default(), Bytes::from_static(b"z"));
        }
        for number in (2..=200).filter(|n| n % 3 != 0) {
            assert!(queue.remove(number).is_some(), "{number}");
            assert!(queue.remove(number).is_none(), "{number} is gone");
        }
        assert_eq!((queue.len(), queue.bytes()), (267, 67 * 3 + 200));
        assert!(queue.pending.len() <= 2 * 267 + 2);
        let left: Vec<_> = core::iter::from_fn(|| {
            let number = queue.front()?.number;
            queue.cut(3).map(|piece| (number, piece.payload.len()))
        })
        .filter(|(_, len)| *len == 3)
        .map(|(number, _)| number)
        .collect();
        let expected: Vec<_> = (1..=200).filter(|n| *n == 1 || n % 3 == 0).collect();
        assert_eq!(left, expected);
        assert!(queue.is_empty() && queue.pending.is_empty());
    }

    #[test]
    fn what_is_left_of_a_message_that_was_begun_is_taken_out() {
        let mut queue = Queue::default();
        queue.push(1, mortal(), Bytes::from_static(b"abcdef"));
        queue.push(1, SendOptions::default(), Bytes::from_static(b"x"));
        queue.cut(4).unwrap();
        let rest = queue.remove(1).unwrap();
        assert_eq!((&rest.rest[..], rest.begun), (&b"ef"[..], true));
        assert_eq!((queue.len(), queue.bytes()), (1, 1));
        assert!(queue.cut(9).unwrap().flags.beginning);
    }
}
