//! Hands messages to the user: in order within a stream, at once when unordered (section 6.6).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use carrick_wire::{Ssn, StreamId, Tsn};

use super::buffer::Cost;
use super::message::{Message, Part};
use super::reassembly::Complete;

#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// The number that each stream delivers next; grows to the highest stream seen.
    next: Vec<Ssn>,
    /// Complete messages that wait for one before them in their stream, by the index of their
    /// first TSN.
    held: BTreeMap<u64, Complete>,
    /// Where a stream's waiting message is in `held`.
    position: BTreeMap<(StreamId, u16), u64>,
    ready: VecDeque<Message>,
    /// The user was told that there is something and has not found the end of it.
    told: bool,
}

const OLD_SSN: &str = "stream sequence number was used before";

impl Delivery {
    fn next_ssn(&self, stream: StreamId) -> Ssn {
        self.next
            .get(usize::from(stream.0))
            .copied()
            .unwrap_or(Ssn::new(0))
    }

    /// Whether this message is the next in its stream.
    pub(super) fn is_next(&self, stream: StreamId, ssn: Option<Ssn>) -> bool {
        ssn.is_none_or(|ssn| ssn == self.next_ssn(stream))
    }

    /// Takes a complete message; delivers it, and those that waited for it, or holds it.
    pub(super) fn complete(&mut self, complete: Complete) -> Result<(), &'static str> {
        let stream = complete.message.stream;
        let Some(ssn) = complete.message.ssn else {
            self.push(complete.message);
            return Ok(());
        };
        let next = self.next_ssn(stream);
        if ssn == next {
            self.push(complete.message);
            self.advance(stream);
            return Ok(());
        }
        // Its TSN is new, so it is ahead of `next` however far away: a peer may have 65,535
        // ordered messages in its window (section 6.1), more than half of the numbers.
        let place = (stream, ssn.value());
        if self.position.insert(place, complete.first).is_some() {
            return Err(OLD_SSN);
        }
        self.held.insert(complete.first, complete);
        Ok(())
    }

    /// Takes a part of a message; the last one lets the stream go on.
    pub(super) fn partial(&mut self, part: Message) {
        let ends = matches!(part.part, Part::Last).then_some((part.stream, part.ssn));
        self.append(part);
        if let Some((stream, Some(_))) = ends {
            self.advance(stream);
        }
    }

    /// Gives the user a message, or a part of one, whose turn it is.
    pub(super) fn append(&mut self, part: Message) {
        match self.ready.back_mut() {
            // Parts that nobody has read yet become one.
            Some(before)
                if before.tsn == part.tsn && matches!(before.part, Part::First | Part::Middle) =>
            {
                before.chunks += part.chunks;
                before.payload.append(part.payload);
                before.part = match (before.part, part.part) {
                    (Part::First, Part::Last) => Part::Whole,
                    (_, Part::Last) => Part::Last,
                    (kept, _) => kept,
                };
            }
            _ => self.push(part),
        }
    }

    /// The message `next` of a stream has been delivered: goes on with those that waited.
    fn advance(&mut self, stream: StreamId) {
        let slot = usize::from(stream.0);
        if self.next.len() <= slot {
            self.next.resize(slot + 1, Ssn::new(0));
        }
        loop {
            self.next[slot] = self.next[slot].next();
            let Some(index) = self.position.remove(&(stream, self.next[slot].value())) else {
                return;
            };
            let Some(complete) = self.held.remove(&index) else {
                return;
            };
            self.push(complete.message);
        }
    }

    fn push(&mut self, message: Message) {
        self.ready.push_back(message);
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.ready.pop_front();
        self.told &= message.is_some();
        message
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    pub(super) fn take_news(&mut self) -> bool {
        !self.ready.is_empty() && !core::mem::replace(&mut self.told, true)
    }

    /// Index of the first TSN of the highest message that waits.
    pub(super) fn highest_first_index(&self) -> Option<u64> {
        self.held.last_key_value().map(|(first, _)| *first)
    }

    /// Drops the highest message that waits if all of it lies above `floor`.
    pub(super) fn drop_highest(&mut self, floor: u64) -> Option<(u64, u64, Cost)> {
        let entry = self.held.last_entry()?;
        if *entry.key() <= floor {
            return None;
        }
        let complete = entry.remove();
        if let Some(ssn) = complete.message.ssn {
            self.position
                .remove(&(complete.message.stream, ssn.value()));
        }
        Some((complete.first, complete.last, complete.message.cost()))
    }

    /// Drops the parts of a message that nobody has read; returns what that frees.
    pub(super) fn drop_parts(&mut self, tsn: Tsn) -> Cost {
        let mut cost = Cost::default();
        self.ready.retain(|message| {
            let keep = message.tsn != tsn;
            if !keep {
                cost = cost.plus(message.cost());
            }
            keep
        });
        cost
    }

    /// All streams begin at 0 again; what waits for a message that will never come is dropped,
    /// what is ready stays.
    pub(super) fn restart(&mut self) -> Cost {
        let cost = self
            .held
            .values()
            .fold(Cost::default(), |cost, c| cost.plus(c.message.cost()));
        self.next.clear();
        self.held.clear();
        self.position.clear();
        cost
    }
}
