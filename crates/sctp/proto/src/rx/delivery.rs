//! Delivery of messages to the user: in the order of their stream, at once if unordered (RFC 9260,
//! section 6.6).

use alloc::boxed::Box;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};

use carrick_wire::{Ppid, Ssn, StreamId, Tsn};

use super::buffer::Cost;
use super::delivery_queue::DeliveryQueue;
use super::forward::AbortedMessage;
use super::message::{Message, MessagePart, Payload};
use super::reassembly::CompleteMessage;
use super::reset::Deferral;
use crate::capacity::FreeIfEmpty;
use crate::range_set::RangeSet;
use crate::stream_table::StreamTable;

#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Next SSN of each stream that has delivered a message.
    pub(super) next: StreamTable<Ssn>,
    /// Complete messages that wait for an earlier one of their stream, or for a reset, by the
    /// index of their first TSN.
    pub(super) held: BTreeMap<u64, CompleteMessage>,
    /// Keys in `held` of the waiting messages of each stream.
    pub(super) position: BTreeMap<(StreamId, u16), u64>,
    ready: DeliveryQueue,
    /// Messages of the key management of the chunk protection, if it has one.
    key_messages: Option<Box<KeyMessages>>,
    /// The user was notified and has not emptied `ready` since.
    notified: bool,
    /// Messages that wait for a reset.
    pub(super) deferral: Option<Box<Deferral>>,
    /// Indexes that were delivered and may lie above the cumulative TSN, for NR-SACK.
    pub(super) non_renegable: Option<RangeSet>,
    /// Index of the cumulative TSN at the last arrival of a chunk.
    cumulative: u64,
}

portable_struct! {
    Delivery { next, held, position, ready, key_messages, notified, deferral, non_renegable }
    rebuilt { cumulative: 0 }
}

/// Messages that are delivered to the key management instead of the user: ordered, on stream 0. The association
/// takes them behind each packet.
#[derive(Debug)]
struct KeyMessages {
    ppid: Ppid,
    waiting: VecDeque<Message>,
}

portable_struct! { KeyMessages { ppid, waiting } }

const OLD_SSN: &str = "stream sequence number was used before";

impl Delivery {
    /// Begins to record which indexes were delivered, or stops it.
    pub(super) fn track_non_renegable(&mut self, on: bool) {
        self.non_renegable = on.then(RangeSet::default);
    }

    /// Records the index of the cumulative TSN, up to which no chunk is renegable.
    pub(super) fn set_cumulative(&mut self, cumulative: u64) {
        self.cumulative = cumulative;
    }

    /// Records that the chunks of these indexes were delivered.
    pub(super) fn mark_non_renegable(&mut self, first: u64, last: u64) {
        if let Some(non_renegable) = &mut self.non_renegable {
            let above = first.max(self.cumulative + 1);
            (above..=last).for_each(|index| non_renegable.insert(index));
        }
    }

    fn next_ssn(&self, stream: StreamId) -> Ssn {
        self.next.get(stream).unwrap_or(Ssn::new(0))
    }

    /// Returns the heap memory of stream state and of deferred skips, in bytes.
    pub(super) fn stream_memory(&self) -> usize {
        let deferral = self.deferral.as_ref().map_or(0, |d| d.skips_memory());
        self.next.memory() + deferral
    }

    /// Returns whether this message is the next of its stream.
    pub(super) fn is_next(&self, stream: StreamId, ssn: Option<Ssn>) -> bool {
        ssn.is_none_or(|ssn| ssn == self.next_ssn(stream))
    }

    /// Returns whether the SSN of a complete message is one that its stream has passed, as after a
    /// FORWARD-TSN. Such a message is not held, since no later message would release it.
    ///
    /// The next message of the stream is not complete, so its last TSN is above the cumulative TSN, and
    /// each message in between has a TSN, too. An SSN further ahead than that is behind.
    pub(super) fn is_passed(&self, complete: &CompleteMessage, cumulative: u64) -> bool {
        let (first, stream) = (complete.first, complete.message.stream);
        complete.message.ssn.is_some_and(|ssn| {
            let next = self.next_ssn(stream);
            let ahead = u64::from(ssn.value().wrapping_sub(next.value()));
            let behind = !ssn.is_at_or_after(next);
            behind && ahead > first.saturating_sub(cumulative) && !self.is_deferred(first, stream)
        })
    }

    /// Delivers a complete message, and those that waited for it, or holds it.
    pub(super) fn on_complete(&mut self, complete: CompleteMessage) -> Result<(), &'static str> {
        let stream = complete.message.stream;
        if self.is_deferred(complete.first, stream) {
            self.defer_message(complete);
            return Ok(());
        }
        let Some(ssn) = complete.message.ssn else {
            self.deliver(complete);
            return Ok(());
        };
        let next = self.next_ssn(stream);
        if ssn == next {
            self.deliver(complete);
            self.advance(stream, ssn);
            return Ok(());
        }
        // Its TSN is new, so it is ahead of `next`, however far: a peer may have 65,535 ordered
        // messages in flight, more than half of all SSNs.
        let place = (stream, ssn.value());
        match self.position.entry(place) {
            Entry::Occupied(_) => return Err(OLD_SSN),
            Entry::Vacant(entry) => entry.insert(complete.first),
        };
        self.held.insert(complete.first, complete);
        Ok(())
    }

    /// Delivers a part of a message; the last part advances the stream.
    pub(super) fn deliver_part(&mut self, part: Message) {
        let ends = matches!(part.part, MessagePart::Last).then_some((part.stream, part.ssn));
        self.append(part);
        // After a reset in the middle of the message, which no peer should request, the next SSN differs.
        if let Some((stream, Some(ssn))) = ends
            && ssn == self.next_ssn(stream)
        {
            self.advance(stream, ssn);
        }
    }

    /// Delivers the messages of this payload protocol identifier to the key management.
    pub(super) fn set_key_management(&mut self, ppid: Option<Ppid>) {
        if ppid != self.key_messages.as_ref().map(|keys| keys.ppid) {
            let waiting = VecDeque::new();
            self.key_messages = ppid.map(|ppid| Box::new(KeyMessages { ppid, waiting }));
        }
    }

    /// Returns the queue of the key management if a message is one for it.
    fn key_messages_for(&mut self, message: &Message) -> Option<&mut VecDeque<Message>> {
        let keys = self.key_messages.as_deref_mut()?;
        let fits = message.ppid == keys.ppid && message.stream == StreamId(0);
        (fits && message.ssn.is_some()).then_some(&mut keys.waiting)
    }

    /// Returns the next message for the key management, or the next part of one.
    pub(super) fn pop_key_message(&mut self) -> Option<Message> {
        self.key_messages.as_mut()?.waiting.pop_front()
    }

    /// Appends a message, or a part of one, to the delivery queue.
    pub(super) fn append(&mut self, part: Message) {
        match self.key_messages_for(&part) {
            Some(waiting) => waiting.push_back(part),
            None => self.ready.append(part),
        }
    }

    /// Advances a stream past a delivered message, and delivers those that waited for it.
    fn advance(&mut self, stream: StreamId, delivered: Ssn) {
        let mut next = delivered.next();
        while !self.position.is_empty()
            && let Some(index) = self.position.remove(&(stream, next.value()))
            && let Some(complete) = self.held.remove(&index)
        {
            self.deliver(complete);
            next = next.next();
        }
        self.next.insert(stream, next);
    }

    /// Delivers a message.
    pub(super) fn deliver(&mut self, complete: CompleteMessage) {
        self.mark_non_renegable(complete.first, complete.last);
        self.push(complete.message);
    }

    pub(super) fn push(&mut self, message: Message) {
        match self.key_messages_for(&message) {
            Some(waiting) => waiting.push_back(message),
            None => self.ready.push(message),
        }
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.ready.pop();
        self.notified &= message.is_some();
        message
    }

    /// Frees the memory for further messages.
    pub(super) fn free_unused_memory(&mut self) {
        self.ready.free_unused_memory();
        self.held.free_if_empty();
        self.position.free_if_empty();
        if let Some(non_renegable) = &mut self.non_renegable {
            non_renegable.free_if_empty();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Returns once whether messages are ready that the user was not notified of.
    pub(super) fn take_notification(&mut self) -> bool {
        !self.ready.is_empty() && !core::mem::replace(&mut self.notified, true)
    }

    /// Returns the index of the first TSN of the highest waiting message.
    pub(super) fn highest_first_index(&self) -> Option<u64> {
        self.held.last_key_value().map(|(first, _)| *first)
    }

    /// Drops the highest waiting message if all of it is above `floor`; returns its indexes and the buffer
    /// space that it took.
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

    /// Drops the unread parts of a message; returns the buffer space that they took.
    pub(super) fn drop_parts(&mut self, tsn: Tsn) -> Cost {
        self.ready.drop_parts(tsn)
    }

    /// Aborts a partial delivery; returns the buffer space of the unread parts, and whether the user has
    /// read a part.
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
                part: MessagePart::Aborted,
                payload: Payload::default(),
                chunks: 0,
            });
        }
        (cost, !unread)
    }

    /// Advances a stream past skipped messages, up to this SSN, and delivers those of them that were
    /// received. An SSN that the stream has passed is ignored.
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
                    self.deliver(complete);
                }
            }
        }
        self.advance(stream, last);
    }

    /// Restarts all streams at SSN 0. Waiting messages are dropped, those in the delivery queue remain;
    /// returns the buffer space of the dropped ones.
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
