//! Puts I-DATA fragments together and keeps the order of streams (RFC 8260 section 2.2.3).
//!
//! A message is found by its stream, the U bit and its MID, its fragments by their FSNs; TSNs say
//! nothing about them. Every fragment is kept by itself until its message is delivered, also of a
//! message that is complete and waits for one before it: so any of them that is not acknowledged
//! cumulatively can be given up when the buffer is full.

mod fragments;
mod skip;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{Fragment, Fsn, IDataHeader, Mid, Ppid, Ssn, StreamId, Tsn};

use super::buffer::Cost;
use super::delivery::Delivery;
use super::forward::AbortedMessage;
use super::message::{Message, Part, Payload};
use crate::looks::Looks;
use crate::reconfig::StreamSet;
use crate::stream_table::StreamTable;
use fragments::{Fragments, Held};
use skip::Skips;

/// Names a message. MIDs are compared for equality only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    stream: StreamId,
    unordered: bool,
    mid: u32,
}

impl Key {
    /// Section 4.1: the lower half of the MID takes the place of the SSN.
    fn ssn(self) -> Option<Ssn> {
        (!self.unordered).then(|| Ssn::new(self.mid as u16))
    }
}

/// What is known of a message that has not been delivered, or not all of it.
#[derive(Debug, Default)]
struct Assembly {
    /// The index of the first fragment's TSN, that TSN, and what only the first fragment tells.
    first: Option<(u64, Tsn, Ppid)>,
    fragments: Fragments,
    /// Fragments that were delivered: above 0, the message is being delivered in parts.
    next: u64,
    /// The number of the last fragment.
    end: Option<u64>,
}

impl Assembly {
    fn is_complete(&self) -> bool {
        let missing_none = |end: u64| self.next + self.fragments.len() as u64 == end + 1;
        self.first.is_some() && self.end.is_some_and(missing_none)
    }

    /// The number of a fragment, if it can be one of this message.
    fn number(&self, header: &IDataHeader) -> Result<u64, &'static str> {
        let Fragment::Later(fsn) = header.fragment else {
            let begun = self.first.is_some();
            return if begun { Err(TWO_BEGINNINGS) } else { Ok(0) };
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

    /// Judges the end of the message with a new fragment.
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
    messages: BTreeMap<Key, Assembly>,
    /// The ordered message that each stream delivers next, if one of it was delivered.
    next: StreamTable<Mid>,
    /// All fragments held, by the index of their TSN, with their number.
    held: BTreeMap<u64, (Key, u64)>,
    /// The same indexes by stream.
    by_stream: BTreeSet<(StreamId, u64)>,
    /// Messages that are being delivered in parts, also those of which nothing is held.
    begun: BTreeSet<Key>,
    /// Messages that could be delivered in parts, by the index of their first TSN.
    ready: BTreeMap<u64, Key>,
    /// Fragments that wait for a reset, by the index of their TSN.
    deferred: BTreeMap<u64, (IDataHeader, Bytes)>,
    skips: Skips,
    /// Messages that were looked at, for the tests that bound the work.
    pub(super) looks: Looks,
}

/// What a reset or I-FORWARD-TSN left without an end.
#[derive(Debug, Default)]
pub(super) struct Lost {
    pub(super) cost: Cost,
    /// Messages that were being delivered in parts.
    pub(super) partial: Vec<AbortedMessage>,
}

impl Interleaved {
    /// Whether other fragments of its message are here.
    pub(super) fn has_begun(&self, header: &IDataHeader) -> bool {
        self.messages.contains_key(&key(header))
    }

    /// Keeps a fragment until [`Self::release_up_to`].
    pub(super) fn keep(&mut self, index: u64, header: IDataHeader, payload: Bytes) {
        self.deferred.insert(index, (header, payload));
    }

    /// Takes the fragments that were kept, up to an index.
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

    /// The MIDs of these streams begin at 0. Messages with all fragments up to an index are from
    /// before it: those that wait for one before them, which will not come, are delivered in the
    /// order of their TSNs, and what is incomplete never will be complete.
    pub(super) fn reset(&mut self, streams: &StreamSet, last: u64, delivery: &mut Delivery) {
        let mut old: Vec<(u64, Key)> = Vec::new();
        for key in self.older(streams, last) {
            let first = self.messages.get(&key).and_then(|a| a.first);
            old.push((first.map_or(0, |f| f.0), key));
        }
        old.sort_unstable();
        for (_, key) in old {
            if self.messages.get(&key).is_some_and(Assembly::is_complete) {
                self.hand_over(key, delivery);
            } else if let Some(assembly) = self.messages.remove(&key) {
                self.give_up(key, &assembly, delivery);
            }
        }
        self.skips.reset(streams);
        for stream in self.begin_again(streams) {
            let first = Key {
                stream,
                unordered: false,
                mid: 0,
            };
            self.deliver(first, false, delivery);
        }
    }

    /// The messages of these streams that are being delivered, or of which something up to this index
    /// is here; without a look at others.
    fn older(&self, streams: &StreamSet, last: u64) -> BTreeSet<Key> {
        let mut old = BTreeSet::new();
        let mut add = |key: &Key| {
            self.looks.note();
            old.insert(*key);
        };
        match streams {
            StreamSet::All => {
                let held = self.held.range(..=last).map(|(_, (key, _))| key);
                held.chain(&self.begun).for_each(&mut add);
            }
            StreamSet::Listed(listed) => {
                let place = |stream, unordered, mid| Key {
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
                    self.begun.range(all).for_each(&mut add);
                }
            }
        }
        old
    }

    /// Streams deliver MID 0 next. Returns those that did not before.
    fn begin_again(&mut self, streams: &StreamSet) -> Vec<StreamId> {
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

    /// Takes a fragment whose TSN has this index; delivers what it makes deliverable.
    pub(super) fn insert(
        &mut self,
        index: u64,
        header: &IDataHeader,
        payload: Bytes,
        delivery: &mut Delivery,
    ) -> Result<(), &'static str> {
        let key = key(header);
        if self.skips.cover(key, self.next_mid(key.stream)) {
            let lost = &mut self.skips.lost.cost;
            *lost = lost.plus(Cost::one(payload.len()));
            return Ok(());
        }
        if !key.unordered && !header.mid.is_at_or_after(self.next_mid(key.stream)) {
            return Err(OLD_MID);
        }
        let whole = header.fragment.is_first() && header.ending;
        if whole && self.is_next(key) && !self.messages.contains_key(&key) {
            let Fragment::First(ppid) = header.fragment else {
                return Ok(());
            };
            let payload = Payload::from(payload);
            delivery.settle(index, index);
            delivery.append(message(key, (header.tsn, ppid), Part::Whole, payload, 1));
            if !key.unordered {
                let next = self.advance(key);
                self.deliver(next, false, delivery);
            }
            return Ok(());
        }
        let assembly = self.messages.entry(key).or_default();
        let number = assembly.number(header)?;
        assembly.check_end(number, header.ending)?;
        if header.ending {
            assembly.end = Some(number);
        }
        assembly.fragments.insert(number, Held { payload, index });
        if let Fragment::First(ppid) = header.fragment {
            assembly.first = Some((index, header.tsn, ppid));
        }
        let goes_on = assembly.next > 0 && assembly.next == number;
        self.held.insert(index, (key, number));
        self.by_stream.insert((key.stream, index));
        if goes_on || self.is_next(key) {
            self.deliver(key, goes_on, delivery);
        }
        Ok(())
    }

    /// Delivers a message whose turn it is, if it is complete, or more of one that has begun; then
    /// those that waited for it.
    fn deliver(&mut self, mut key: Key, mut goes_on: bool, delivery: &mut Delivery) {
        while let Some(assembly) = self.messages.get(&key) {
            let waits = assembly.next == 0;
            if goes_on || (waits && assembly.is_complete()) {
                if !self.hand_over(key, delivery) || key.unordered {
                    return;
                }
                key = self.advance(key);
                goes_on = false;
            } else {
                if let Some((index, ..)) = assembly.first.filter(|_| waits) {
                    self.ready.insert(index, key);
                }
                return;
            }
        }
    }

    /// Delivers the fragments of a message that follow what was delivered, without a gap; returns
    /// whether that is the end of it.
    fn hand_over(&mut self, key: Key, delivery: &mut Delivery) -> bool {
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
            delivery.settle(held.index, held.index);
            payload.push(held.payload);
            chunks += 1;
            assembly.next += 1;
        }
        let ends = assembly.end.is_some_and(|end| end < assembly.next);
        let part = match (begins, ends) {
            (true, true) => Part::Whole,
            (true, false) => Part::First,
            (false, true) => Part::Last,
            (false, false) => Part::Middle,
        };
        delivery.append(message(key, (tsn, ppid), part, payload, chunks));
        if ends {
            self.messages.remove(&key);
            if !begins {
                self.begun.remove(&key);
            }
        } else if begins {
            self.begun.insert(key);
        }
        ends
    }

    /// An ordered message has been delivered: returns the next one of its stream.
    fn advance(&mut self, key: Key) -> Key {
        let mid = self.next_mid(key.stream).value();
        self.go_on_behind(Key { mid, ..key })
    }

    /// Returns the message behind this ordered one, which its stream delivers next.
    fn go_on_behind(&mut self, key: Key) -> Key {
        let next = Mid::new(key.mid).next();
        self.next.insert(key.stream, next);
        let mid = next.value();
        Key { mid, ..key }
    }

    /// Begins to deliver the message in parts whose beginning came first, of those whose turn it is.
    /// Others may follow while it is not complete, up to a bound. A message that was begun costs nothing in
    /// the receive buffer when all that came of it was read: with what it could not do without in there,
    /// a full buffer would refuse the fragments that end it.
    ///
    /// A peer has one message at a time under way in each of its `streams` (section 2.2.2), so that
    /// no more are incomplete of which nothing before the cumulative index is missing; as many may
    /// have begun above a gap, and must not be in the way of those.
    pub(super) fn begin_partial(&mut self, streams: u16, cumulative: u64, delivery: &mut Delivery) {
        let Some((&first, &key)) = self.ready.first_key_value() else {
            return;
        };
        let shares = if first <= cumulative { 2 } else { 1 };
        if self.begun.len() < shares * usize::from(streams) {
            // It is not complete: that is why it waits here.
            self.hand_over(key, delivery);
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

    fn is_next(&self, key: Key) -> bool {
        key.unordered || self.next_mid(key.stream).value() == key.mid
    }

    /// Drops the fragment with the highest TSN if that lies above `floor`; returns its index and what
    /// it cost.
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

    /// Messages that are being delivered in parts, by the TSN that all parts of one share.
    pub(super) fn partial_tsns(&self) -> impl Iterator<Item = Tsn> + '_ {
        let begun = self.begun.iter().filter_map(|key| self.messages.get(key));
        begun.filter_map(|a| a.first.map(|(_, tsn, _)| tsn))
    }

    /// Heap that the state of streams takes, in bytes.
    pub(super) fn stream_memory(&self) -> usize {
        self.next.memory() + self.skips.memory()
    }

    /// What is held costs this.
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

fn key(header: &IDataHeader) -> Key {
    Key {
        stream: header.stream,
        unordered: header.unordered,
        mid: header.mid.value(),
    }
}

fn message(
    key: Key,
    (tsn, ppid): (Tsn, Ppid),
    part: Part,
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

    #[test]
    fn message_identifiers_wrap_8260_2_1() {
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

    #[test]
    fn fragment_sequence_numbers_wrap_8260_2_1() {
        let key = Key {
            stream: StreamId(0),
            unordered: false,
            mid: 0,
        };
        let begun = Assembly {
            first: Some((1, Tsn::new(1), Ppid(5))),
            next: 3 * (1 << 32) - 2,
            ..Assembly::default()
        };
        let mut all = Interleaved::default();
        all.messages.insert(key, begun);
        all.begun.insert(key);
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
            (Part::Last, 4, Ppid(5))
        );
        let expected: Vec<u8> = [u32::MAX - 1, u32::MAX, 0, 1]
            .iter()
            .flat_map(|fsn| fsn.to_be_bytes())
            .collect();
        assert!(last.payload == expected[..]);
        assert!(all.messages.is_empty() && all.held.is_empty() && all.begun.is_empty());
        assert_eq!(all.next_mid(StreamId(0)), Mid::new(1));
    }
}
