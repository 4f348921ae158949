//! Hands messages to the user: in order within a stream, at once when unordered (section 6.6).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use carrick_wire::{Ssn, StreamId, Tsn};

use super::buffer::Cost;
use super::forward::AbortedMessage;
use super::message::{Message, Part, Payload};
use super::ranges::RangeSet;
use super::ready::Ready;
use super::reassembly::Complete;
use super::reset::Deferral;
use crate::stream_table::StreamTable;

#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// The number that each stream delivers next, if a message of it was delivered.
    pub(super) next: StreamTable<Ssn>,
    /// Complete messages that wait for one before them in their stream, or for a reset, by the
    /// index of their first TSN.
    pub(super) held: BTreeMap<u64, Complete>,
    /// Where a stream's waiting message is in `held`.
    pub(super) position: BTreeMap<(StreamId, u16), u64>,
    ready: Ready,
    /// The user was told that there is something and has not found the end of it.
    told: bool,
    /// What waits for a reset.
    pub(super) deferral: Option<Box<Deferral>>,
    /// What was handed over and may lie above the cumulative TSN, where the peer is told.
    pub(super) settled: Option<RangeSet>,
}

const OLD_SSN: &str = "stream sequence number was used before";

impl Delivery {
    fn next_ssn(&self, stream: StreamId) -> Ssn {
        self.next.get(stream).unwrap_or(Ssn::new(0))
    }

    /// Heap that the state of streams takes, in bytes, and of the messages whose skip waits for a
    /// reset.
    pub(super) fn stream_memory(&self) -> usize {
        let deferral = self.deferral.as_ref().map_or(0, |d| d.skips_memory());
        self.next.memory() + deferral
    }

    /// Whether this message is the next in its stream.
    pub(super) fn is_next(&self, stream: StreamId, ssn: Option<Ssn>) -> bool {
        ssn.is_none_or(|ssn| ssn == self.next_ssn(stream))
    }

    /// Returns whether a complete message has a stream sequence number that its stream has passed, as
    /// after a FORWARD-TSN: nothing that may still come would deliver it, so it is not held.
    ///
    /// The message that is next in the stream is not complete, so its last TSN is above the cumulative
    /// one, and each message between has a TSN as well. A message further ahead than that is behind.
    pub(super) fn is_passed(&self, complete: &Complete, cumulative: u64) -> bool {
        let (first, stream) = (complete.first, complete.message.stream);
        complete.message.ssn.is_some_and(|ssn| {
            let next = self.next_ssn(stream);
            let ahead = u64::from(ssn.value().wrapping_sub(next.value()));
            let behind = !ssn.is_at_or_after(next);
            behind && ahead > first.saturating_sub(cumulative) && !self.is_deferred(first, stream)
        })
    }

    /// Takes a complete message; delivers it, and those that waited for it, or holds it.
    pub(super) fn complete(&mut self, complete: Complete) -> Result<(), &'static str> {
        let stream = complete.message.stream;
        if self.is_deferred(complete.first, stream) {
            self.keep(complete);
            return Ok(());
        }
        let Some(ssn) = complete.message.ssn else {
            self.hand_over(complete);
            return Ok(());
        };
        let next = self.next_ssn(stream);
        if ssn == next {
            self.hand_over(complete);
            self.advance(stream, ssn);
            return Ok(());
        }
        // Its TSN is new, so it is ahead of `next` however far away: a peer may have 65,535
        // ordered messages in its window (section 6.1), more than half of the numbers.
        let place = (stream, ssn.value());
        match self.position.entry(place) {
            Entry::Occupied(_) => return Err(OLD_SSN),
            Entry::Vacant(entry) => entry.insert(complete.first),
        };
        self.held.insert(complete.first, complete);
        Ok(())
    }

    /// Takes a part of a message; the last one lets the stream go on.
    pub(super) fn partial(&mut self, part: Message) {
        let ends = matches!(part.part, Part::Last).then_some((part.stream, part.ssn));
        self.append(part);
        // After a reset in the middle of it, which no peer should ask for, the next one is another.
        if let Some((stream, Some(ssn))) = ends
            && ssn == self.next_ssn(stream)
        {
            self.advance(stream, ssn);
        }
    }

    /// Gives the user a message, or a part of one, whose turn it is.
    pub(super) fn append(&mut self, part: Message) {
        self.ready.append(part);
    }

    /// Delivers the messages that waited for this one of their stream, which has been delivered.
    fn advance(&mut self, stream: StreamId, delivered: Ssn) {
        let mut next = delivered.next();
        while !self.position.is_empty()
            && let Some(index) = self.position.remove(&(stream, next.value()))
            && let Some(complete) = self.held.remove(&index)
        {
            self.hand_over(complete);
            next = next.next();
        }
        self.next.insert(stream, next);
    }

    /// Gives the user a message.
    pub(super) fn hand_over(&mut self, complete: Complete) {
        self.settle(complete.first, complete.last);
        self.push(complete.message);
    }

    pub(super) fn push(&mut self, message: Message) {
        self.ready.push(message);
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.ready.pop();
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
        let deferred = self.deferral.as_mut();
        if deferred.is_none_or(|d| !d.forget(complete.first))
            && let Some(ssn) = complete.message.ssn
        {
            self.position
                .remove(&(complete.message.stream, ssn.value()));
        }
        Some((complete.first, complete.last, complete.message.cost()))
    }

    /// Drops the parts of a message that nobody has read; returns what that frees.
    pub(super) fn drop_parts(&mut self, tsn: Tsn) -> Cost {
        self.ready.drop_parts(tsn)
    }

    /// A message in partial delivery will not be completed. Says what its unread parts free, and
    /// whether the user has read any and finds the end.
    pub(super) fn abort(&mut self, aborted: &AbortedMessage) -> (Cost, bool) {
        let unread = self.ready.has_beginning(aborted.tsn);
        let cost = self.drop_parts(aborted.tsn);
        if !unread {
            self.push(Message {
                stream: aborted.stream,
                ssn: aborted.ssn,
                mid: aborted.mid,
                ppid: aborted.ppid,
                tsn: aborted.tsn,
                part: Part::Aborted,
                payload: Payload::default(),
                chunks: 0,
            });
        }
        (cost, !unread)
    }

    /// The messages of a stream up to this number will not come any more: delivers those that have,
    /// and goes on behind them. A number that was passed before says nothing.
    pub(super) fn skip(&mut self, stream: StreamId, last: Ssn) {
        let next = self.next_ssn(stream);
        if !last.is_at_or_after(next) {
            return;
        }
        let (from, to) = (next.value(), last.value());
        let ranges = if from <= to {
            [Some((from, to)), None]
        } else {
            [Some((from, u16::MAX)), Some((0, to))]
        };
        for (from, to) in ranges.into_iter().flatten() {
            while let Some((&place, &index)) =
                self.position.range((stream, from)..=(stream, to)).next()
            {
                self.position.remove(&place);
                if let Some(complete) = self.held.remove(&index) {
                    self.hand_over(complete);
                }
            }
        }
        self.advance(stream, last);
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
        self.deferral = None;
        cost
    }
}
