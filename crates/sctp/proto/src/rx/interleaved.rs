//! Reassembly and ordering of I-DATA chunks (RFC 8260, section 2.2.3).
//!
//! 1. Find the message by stream, U bit and MID.
//! 2. Discard a fragment of a skipped message (RFC 8260, section 2.3.1); a MID that was delivered is a
//!    violation (RFC 8260, section 2.1).
//! 3. Deliver a message of one fragment at once if it is the next of its stream, or unordered.
//! 4. Otherwise check FSN, B and E bits against the other fragments, and keep the fragment (RFC 8260,
//!    section 2.1).
//! 5. Deliver the message if it is complete and the next of its stream, or more of one in partial
//!    delivery; then the messages of the stream that waited for it.
//!
//! Each fragment is kept separately until its message is delivered, also that of a complete message
//! which waits for an earlier one: so any fragment above the cumulative TSN can be dropped when the
//! buffer is full.

mod fragments;
mod skip;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{Fragment, Fsn, IDataHeader, Mid, Ppid, Ssn, StreamId, Tsn};

use super::buffer::Cost;
use super::delivery::Delivery;
use super::forward::AbortedMessage;
use super::message::{Message, MessagePart, Payload};
use crate::capacity::FreeIfEmpty;
use crate::stream_set::StreamSet;
use crate::stream_table::StreamTable;
use crate::work_counter::WorkCounter;
use fragments::{FragmentMap, HeldFragment};
use skip::SkippedMessages;

/// Identification of a message. MIDs are compared for equality only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct MessageKey {
    stream: StreamId,
    unordered: bool,
    mid: u32,
}

portable_struct! { MessageKey { stream, unordered, mid } }

impl MessageKey {
    /// Returns the lower half of the MID as the SSN (RFC 8260, section 4.1).
    fn ssn(self) -> Option<Ssn> {
        (!self.unordered).then(|| Ssn::new(self.mid as u16))
    }
}

/// State of a message that was not delivered, or not completely.
#[derive(Debug, Default)]
struct MessageAssembly {
    /// Index and TSN of the first fragment, and the PPID, which only the first fragment has.
    first: Option<(u64, Tsn, Ppid)>,
    fragments: FragmentMap,
    /// Number of the next fragment to deliver; above 0 in partial delivery.
    next: u64,
    /// Number of the last fragment.
    end: Option<u64>,
}

portable_struct! { MessageAssembly { first, fragments, next, end } }

impl MessageAssembly {
    fn is_complete(&self) -> bool {
        let missing_none = |end: u64| self.next + self.fragments.len() as u64 == end + 1;
        self.first.is_some() && self.end.is_some_and(missing_none)
    }

    /// Returns the number of a fragment, if it may belong to this message.
    fn number(&self, header: &IDataHeader) -> Result<u64, &'static str> {
        let Fragment::Later(fsn) = header.fragment else {
            let has_first = self.first.is_some();
            return if has_first {
                Err(TWO_BEGINNINGS)
            } else {
                Ok(0)
            };
        };
        let next = Fsn::new(self.next as u32);
        if !fsn.is_at_or_after(next) {
            return Err(OLD_FSN);
        }
        match self.next + u64::from(fsn.since(next)) {
            0 => Err(OLD_FSN),
            number if self.fragments.contains(number) => Err(OLD_FSN),
            number => Ok(number),
        }
    }

    /// Checks the E bit of a new fragment against the other fragments.
    fn check_end(&self, number: u64, ending: bool) -> Result<(), &'static str> {
        let highest = self.fragments.highest();
        match self.end {
            Some(_) if ending => Err(TWO_ENDS),
            Some(end) if number > end => Err(BEYOND_END),
            None if ending && highest.is_some_and(|h| h > number) => Err(BEYOND_END),
            _ => Ok(()),
        }
    }
}

const OLD_MID: &str = "message identifier was used before";
const OLD_FSN: &str = "fragment sequence number was used before";
const TWO_BEGINNINGS: &str = "message has two beginnings";
const TWO_ENDS: &str = "message has two ends";
const BEYOND_END: &str = "fragment behind the end of its message";

#[derive(Debug, Default)]
pub(super) struct Interleaved {
    messages: BTreeMap<MessageKey, MessageAssembly>,
    /// Next MID of each stream that has delivered an ordered message.
    next: StreamTable<Mid>,
    /// Message and number of each fragment held, by the index of its TSN.
    held: BTreeMap<u64, (MessageKey, u64)>,
    /// Keys of `held` by stream.
    by_stream: BTreeSet<(StreamId, u64)>,
    /// Messages in partial delivery, also those without a fragment held.
    in_parts: BTreeSet<MessageKey>,
    /// Messages that may begin partial delivery, by the index of their first TSN.
    ready: BTreeMap<u64, MessageKey>,
    /// Fragments that wait for a reset, by the index of their TSN.
    deferred: BTreeMap<u64, (IDataHeader, Bytes)>,
    skips: SkippedMessages,
    /// Number of messages visited, for the tests that bound the work.
    pub(super) looks: WorkCounter,
}

portable_struct! {
    Interleaved {
        messages, next, held, by_stream, in_parts, ready, deferred, skips, looks,
    }
}

/// Messages discarded by a reset or I-FORWARD-TSN.
#[derive(Debug, Default)]
pub(super) struct DiscardedMessages {
    /// Buffer space of the discarded fragments.
    pub(super) cost: Cost,
    /// Partial deliveries that were aborted.
    pub(super) partial: Vec<AbortedMessage>,
}

portable_struct! { DiscardedMessages { cost, partial } }

impl Interleaved {
    /// Returns whether the fragment fits a message of which others are held. One that does not is of
    /// another message with the same identifier, sent after a reset.
    pub(super) fn continues_message(&self, header: &IDataHeader) -> bool {
        let assembly = self.messages.get(&key(header));
        assembly.is_some_and(|assembly| {
            let number = assembly.number(header);
            number.is_ok_and(|number| assembly.check_end(number, header.ending).is_ok())
        })
    }

    /// Frees the memory for further fragments.
    pub(super) fn free_unused_memory(&mut self) {
        self.messages.free_if_empty();
        self.held.free_if_empty();
        self.by_stream.free_if_empty();
        self.in_parts.free_if_empty();
        self.ready.free_if_empty();
        self.deferred.free_if_empty();
    }

    /// Holds a fragment until [`Self::release_up_to`].
    pub(super) fn defer(&mut self, index: u64, header: IDataHeader, payload: Bytes) {
        self.deferred.insert(index, (header, payload));
    }

    /// Inserts the deferred fragments up to an index.
    pub(super) fn release_up_to(
        &mut self,
        last: u64,
        delivery: &mut Delivery,
    ) -> Result<(), &'static str> {
        while let Some(entry) = self.deferred.first_entry().filter(|e| *e.key() <= last) {
            let (index, (header, payload)) = entry.remove_entry();
            self.insert(index, &header, payload, delivery)?;
        }
        self.release_skips(last, delivery);
        Ok(())
    }

    /// Restarts these streams at MID 0 (RFC 6525). Messages with a fragment up to the index `last` are
    /// from before the reset: complete ones are delivered in the order of their TSNs, since the ones they
    /// waited for will not arrive, and incomplete ones are discarded.
    pub(super) fn reset(&mut self, streams: &StreamSet, last: u64, delivery: &mut Delivery) {
        let mut old: Vec<(u64, MessageKey)> = Vec::new();
        for key in self.messages_before_reset(streams, last) {
            let first = self.messages.get(&key).and_then(|a| a.first);
            old.push((first.map_or(0, |f| f.0), key));
        }
        old.sort_unstable();
        for (_, key) in old {
            if self
                .messages
                .get(&key)
                .is_some_and(MessageAssembly::is_complete)
            {
                self.deliver_available(key, delivery);
            } else if let Some(assembly) = self.messages.remove(&key) {
                self.discard_message(key, &assembly, delivery);
            }
        }
        self.skips.reset(streams);
        for stream in self.restart_numbering(streams) {
            let first = MessageKey {
                stream,
                unordered: false,
                mid: 0,
            };
            self.deliver(first, false, delivery);
        }
    }

    /// Returns the messages of these streams that are in partial delivery or have a fragment up to this
    /// index, without visiting others.
    fn messages_before_reset(&self, streams: &StreamSet, last: u64) -> BTreeSet<MessageKey> {
        let mut old = BTreeSet::new();
        let mut add = |key: &MessageKey| {
            self.looks.note();
            old.insert(*key);
        };
        match streams {
            StreamSet::All => {
                let held = self.held.range(..=last).map(|(_, (key, _))| key);
                held.chain(&self.in_parts).for_each(&mut add);
            }
            StreamSet::Listed(listed) => {
                let place = |stream, unordered, mid| MessageKey {
                    stream,
                    unordered,
                    mid,
                };
                for &stream in listed {
                    self.looks.note();
                    let held = self.by_stream.range((stream, 0)..=(stream, last));
                    let held = held.filter_map(|(_, index)| self.held.get(index));
                    held.for_each(|(key, _)| add(key));
                    let all = place(stream, false, 0)..=place(stream, true, u32::MAX);
                    self.in_parts.range(all).for_each(&mut add);
                }
            }
        }
        old
    }

    /// Restarts streams at MID 0; returns those whose next MID was another one.
    fn restart_numbering(&mut self, streams: &StreamSet) -> Vec<StreamId> {
        let zero = Mid::new(0);
        match streams {
            StreamSet::All => {
                let next = core::mem::take(&mut self.next);
                next.iter()
                    .filter(|(_, next)| *next != zero)
                    .map(|(stream, _)| stream)
                    .collect()
            }
            StreamSet::Listed(listed) => {
                let mut begin =
                    |stream: &&StreamId| self.next.remove(**stream).is_some_and(|mid| mid != zero);
                listed.iter().filter(&mut begin).copied().collect()
            }
        }
    }

    /// Inserts a fragment whose TSN has this index, by the steps above.
    pub(super) fn insert(
        &mut self,
        index: u64,
        header: &IDataHeader,
        payload: Bytes,
        delivery: &mut Delivery,
    ) -> Result<(), &'static str> {
        // Steps 1 and 2.
        let key = key(header);
        if self.skips.is_skipped(key, self.next_mid(key.stream)) {
            let discarded = &mut self.skips.discarded.cost;
            *discarded = discarded.plus(Cost::one(payload.len()));
            return Ok(());
        }
        if !key.unordered && !header.mid.is_at_or_after(self.next_mid(key.stream)) {
            return Err(OLD_MID);
        }
        // Step 3.
        let whole = header.fragment.is_first() && header.ending;
        if whole && self.is_next(key) && !self.messages.contains_key(&key) {
            let Fragment::First(ppid) = header.fragment else {
                return Ok(());
            };
            let payload = Payload::from(payload);
            delivery.mark_non_renegable(index, index);
            delivery.append(message(
                key,
                (header.tsn, ppid),
                MessagePart::Whole,
                payload,
                1,
            ));
            if !key.unordered {
                let next = self.advance(key);
                self.deliver(next, false, delivery);
            }
            return Ok(());
        }
        // Step 4.
        let assembly = self.messages.entry(key).or_default();
        let number = assembly.number(header)?;
        assembly.check_end(number, header.ending)?;
        if header.ending {
            assembly.end = Some(number);
        }
        assembly
            .fragments
            .insert(number, HeldFragment { payload, index });
        if let Fragment::First(ppid) = header.fragment {
            assembly.first = Some((index, header.tsn, ppid));
        }
        let continues = assembly.next > 0 && assembly.next == number;
        self.held.insert(index, (key, number));
        self.by_stream.insert((key.stream, index));
        // Step 5.
        if continues || self.is_next(key) {
            self.deliver(key, continues, delivery);
        }
        Ok(())
    }

    /// Delivers the next message of a stream if it is complete, or more of one in partial delivery; then
    /// the messages that waited for it.
    fn deliver(&mut self, mut key: MessageKey, mut continues: bool, delivery: &mut Delivery) {
        while let Some(assembly) = self.messages.get(&key) {
            let waits = assembly.next == 0;
            if continues || (waits && assembly.is_complete()) {
                if !self.deliver_available(key, delivery) || key.unordered {
                    return;
                }
                key = self.advance(key);
                continues = false;
            } else {
                if let Some((index, ..)) = assembly.first.filter(|_| waits) {
                    self.ready.insert(index, key);
                }
                return;
            }
        }
    }

    /// Delivers the next fragments of a message up to the first gap; returns whether the message is
    /// completely delivered.
    fn deliver_available(&mut self, key: MessageKey, delivery: &mut Delivery) -> bool {
        let Some(assembly) = self.messages.get_mut(&key) else {
            return false;
        };
        let Some((first, tsn, ppid)) = assembly.first else {
            return false;
        };
        let begins = assembly.next == 0;
        if begins {
            self.ready.remove(&first);
        }
        let (mut payload, mut chunks) = (Payload::default(), 0);
        while let Some(held) = assembly.fragments.remove(assembly.next) {
            self.held.remove(&held.index);
            self.by_stream.remove(&(key.stream, held.index));
            delivery.mark_non_renegable(held.index, held.index);
            payload.push(held.payload);
            chunks += 1;
            assembly.next += 1;
        }
        let ends = assembly.end.is_some_and(|end| end < assembly.next);
        let part = match (begins, ends) {
            (true, true) => MessagePart::Whole,
            (true, false) => MessagePart::First,
            (false, true) => MessagePart::Last,
            (false, false) => MessagePart::Middle,
        };
        delivery.append(message(key, (tsn, ppid), part, payload, chunks));
        if ends {
            self.messages.remove(&key);
            if !begins {
                self.in_parts.remove(&key);
            }
        } else if begins {
            self.in_parts.insert(key);
        }
        ends
    }

    /// Advances a stream past a delivered ordered message; returns the next one.
    fn advance(&mut self, key: MessageKey) -> MessageKey {
        let mid = self.next_mid(key.stream).value();
        self.advance_past(MessageKey { mid, ..key })
    }

    /// Makes the successor of this ordered message the next of its stream, and returns it.
    fn advance_past(&mut self, key: MessageKey) -> MessageKey {
        let next = Mid::new(key.mid).next();
        self.next.insert(key.stream, next);
        let mid = next.value();
        MessageKey { mid, ..key }
    }

    /// Begins the partial delivery of the message with the lowest first TSN, of those that are next in
    /// their streams. Other messages may follow while it is incomplete, up to a bound, since the state of
    /// a partial delivery takes no space in the receive buffer: a full buffer would refuse the fragments
    /// that complete the message.
    ///
    /// A peer sends one message at a time in each of its `streams` (RFC 8260, section 2.2.2), so no more
    /// messages than streams are incomplete without a gap below the cumulative TSN. As many may be in
    /// partial delivery above a gap, and must not block those.
    pub(super) fn begin_partial(&mut self, streams: u16, cumulative: u64, delivery: &mut Delivery) {
        let Some((&first, &key)) = self.ready.first_key_value() else {
            return;
        };
        let shares = if first <= cumulative { 2 } else { 1 };
        if self.in_parts.len() < shares * usize::from(streams) {
            self.deliver_available(key, delivery);
        }
    }

    /// Returns whether the state of a stream takes no further heap.
    pub(super) fn has_page(&self, stream: StreamId, unordered: bool) -> bool {
        if unordered {
            self.skips.has_page(stream)
        } else {
            self.next.has_page(stream)
        }
    }

    fn next_mid(&self, stream: StreamId) -> Mid {
        self.next.get(stream).unwrap_or(Mid::new(0))
    }

    fn is_next(&self, key: MessageKey) -> bool {
        key.unordered || self.next_mid(key.stream).value() == key.mid
    }

    /// Drops the fragment with the highest TSN if it is above `floor`; returns its index and buffer
    /// space.
    pub(super) fn drop_highest(&mut self, floor: u64) -> Option<(u64, Cost)> {
        let highest = self.held.last_key_value().map(|(index, _)| *index);
        let kept = self.deferred.last_entry().filter(|e| *e.key() > floor);
        if let Some(kept) = kept.filter(|e| highest.is_none_or(|h| h < *e.key())) {
            let (index, (_, payload)) = kept.remove_entry();
            return Some((index, Cost::one(payload.len())));
        }
        let entry = self.held.last_entry().filter(|e| *e.key() > floor)?;
        let (index, (key, number)) = entry.remove_entry();
        self.by_stream.remove(&(key.stream, index));
        let assembly = self.messages.get_mut(&key)?;
        let held = assembly.fragments.remove(number)?;
        if number == 0 {
            assembly.first = None;
            self.ready.remove(&index);
        }
        assembly.end = assembly.end.filter(|end| *end != number);
        if assembly.fragments.is_empty() && assembly.next == 0 {
            self.messages.remove(&key);
        }
        Some((index, Cost::one(held.payload.len())))
    }

    /// Returns the TSNs that identify the messages in partial delivery.
    pub(super) fn partial_tsns(&self) -> impl Iterator<Item = Tsn> + '_ {
        let in_parts = self
            .in_parts
            .iter()
            .filter_map(|key| self.messages.get(key));
        in_parts.filter_map(|a| a.first.map(|(_, tsn, _)| tsn))
    }

    /// Returns the heap memory of stream state, in bytes.
    pub(super) fn stream_memory(&self) -> usize {
        self.next.memory() + self.skips.memory()
    }

    /// Returns the buffer space of all fragments.
    pub(super) fn cost(&self) -> Cost {
        let fragments = self.messages.values().flat_map(|a| a.fragments.iter());
        let payloads = fragments.map(|held| &held.payload);
        let deferred = self.deferred.values().map(|kept| &kept.1);
        payloads
            .chain(deferred)
            .fold(Cost::default(), |cost, payload| {
                cost.plus(Cost::one(payload.len()))
            })
    }
}

fn key(header: &IDataHeader) -> MessageKey {
    MessageKey {
        stream: header.stream,
        unordered: header.unordered,
        mid: header.mid.value(),
    }
}

fn message(
    key: MessageKey,
    (tsn, ppid): (Tsn, Ppid),
    part: MessagePart,
    payload: Payload,
    chunks: usize,
) -> Message {
    Message {
        stream: key.stream,
        ssn: key.ssn(),
        mid: Some(Mid::new(key.mid)),
        ppid,
        tsn,
        part,
        payload,
        chunks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(mid: u32, fragment: Fragment, ending: bool) -> IDataHeader {
        IDataHeader {
            tsn: Tsn::new(1),
            stream: StreamId(0),
            mid: Mid::new(mid),
            fragment,
            immediate: false,
            unordered: false,
            ending,
        }
    }

    /// RFC 8260, section 2.1.
    #[test]
    fn message_identifiers_wrap() {
        let mut all = Interleaved::default();
        all.next.insert(StreamId(0), Mid::new(u32::MAX - 1));
        let mut delivery = Delivery::default();
        let payload = Bytes::from_static(b"x");
        let first = Fragment::First(Ppid(0));
        for (index, mid) in [(1, 1), (2, u32::MAX), (3, 0), (4, u32::MAX - 1)] {
            let header = header(mid, first, true);
            let taken = all.insert(index, &header, payload.clone(), &mut delivery);
            assert_eq!(taken, Ok(()));
        }
        let mids = core::iter::from_fn(|| delivery.pop()).filter_map(|m| m.mid);
        let mids: Vec<u32> = mids.map(Mid::value).collect();
        assert_eq!(mids, [u32::MAX - 1, u32::MAX, 0, 1]);
        assert!(
            all.messages.is_empty()
                && all.held.is_empty()
                && all.by_stream.is_empty()
                && all.ready.is_empty()
        );
        let old = header(u32::MAX, first, true);
        assert_eq!(all.insert(5, &old, payload, &mut delivery), Err(OLD_MID));
    }

    /// RFC 8260, section 2.1.
    #[test]
    fn fragment_sequence_numbers_wrap() {
        let key = MessageKey {
            stream: StreamId(0),
            unordered: false,
            mid: 0,
        };
        let assembly = MessageAssembly {
            first: Some((1, Tsn::new(1), Ppid(5))),
            next: 3 * (1 << 32) - 2,
            ..MessageAssembly::default()
        };
        let mut all = Interleaved::default();
        all.messages.insert(key, assembly);
        all.in_parts.insert(key);
        let mut delivery = Delivery::default();
        let fsns = [
            (0, false),
            (u32::MAX, false),
            (1, true),
            (u32::MAX - 1, false),
        ];
        for ((fsn, ending), index) in fsns.into_iter().zip(7..) {
            let header = header(0, Fragment::Later(Fsn::new(fsn)), ending);
            let payload = Bytes::copy_from_slice(&fsn.to_be_bytes());
            let taken = all.insert(index, &header, payload, &mut delivery);
            assert_eq!(taken, Ok(()), "FSN {fsn}");
        }
        let last = delivery.pop().expect("the rest of it");
        assert_eq!(
            (last.part, last.chunks, last.ppid),
            (MessagePart::Last, 4, Ppid(5))
        );
        let expected: Vec<u8> = [u32::MAX - 1, u32::MAX, 0, 1]
            .iter()
            .flat_map(|fsn| fsn.to_be_bytes())
            .collect();
        assert!(last.payload == expected[..]);
        assert!(all.messages.is_empty() && all.held.is_empty() && all.in_parts.is_empty());
        assert_eq!(all.next_mid(StreamId(0)), Mid::new(1));
    }
}
