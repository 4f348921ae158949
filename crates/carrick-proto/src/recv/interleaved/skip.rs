//! I-FORWARD-TSN where messages interleave (RFC 8260 section 2.3.1): what will not come any more is
//! forgotten, and the streams go on behind it.
//!
//! Fragments of a message that was skipped may still come, with TSNs above the point of the chunk:
//! nothing would ever clear them away, so they are not kept.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use carrick_wire::{Mid, SkippedMessage, StreamId};

use super::{Assembly, Interleaved, Key, Lost, key};
use crate::reconfig::StreamSet;
use crate::recv::buffer::Cost;
use crate::recv::delivery::Delivery;
use crate::recv::forward::AbortedMessage;
use crate::stream_table::StreamTable;

/// Messages that may follow the last one that was skipped before its number is forgotten: long
/// before half of all numbers, where the order would turn around.
const MEMORY: u32 = 1 << 30;

/// MIDs up to one that are not ahead of it.
const HALF: u32 = 1 << 31;

/// What may wait for a reset, at most.
const MAX_WAITING: usize = 8192;

#[derive(Debug, Default)]
pub(super) struct Skips {
    /// The peer skips messages: a number that was used before may be one of them.
    any: bool,
    /// The last unordered message of each stream that was.
    unordered: StreamTable<Mid>,
    /// What waits for a reset, with the index of the chunk's TSN.
    waiting: Option<Vec<(u64, SkippedMessage)>>,
    /// What was forgotten since [`Interleaved::take_lost`].
    pub(super) lost: Lost,
}

impl Skips {
    /// Whether a fragment belongs to a message that was skipped; `next` is the ordered message that
    /// its stream delivers next.
    pub(super) fn cover(&mut self, key: Key, next: Mid) -> bool {
        let mid = Mid::new(key.mid);
        if !key.unordered {
            return self.any && mid.is_before(next);
        }
        let Some(last) = self.unordered.get(key.stream) else {
            return false;
        };
        if mid.is_after(last) && mid.since(last) >= MEMORY {
            self.unordered.remove(key.stream);
            return false;
        }
        mid.is_at_or_before(last)
    }

    /// The numbers of these streams begin at 0 again.
    pub(super) fn reset(&mut self, streams: &StreamSet) {
        match streams {
            StreamSet::All => self.unordered.clear(),
            StreamSet::Listed(listed) => {
                for &stream in listed {
                    self.unordered.remove(stream);
                }
            }
        }
    }

    pub(super) fn has_page(&self, stream: StreamId) -> bool {
        self.unordered.has_page(stream)
    }

    /// Heap that the state of streams takes, in bytes, and of the messages that wait for a reset.
    pub(super) fn memory(&self) -> usize {
        let waiting = self.waiting.as_ref().map_or(0, Vec::capacity);
        self.unordered.memory() + waiting * size_of::<(u64, SkippedMessage)>()
    }
}

impl Interleaved {
    /// Messages up to this one, of its stream and order, will not come any more: delivers those that
    /// are complete, forgets the others, and goes on behind them. A number that the stream has passed
    /// says nothing.
    pub(in crate::recv) fn skip(&mut self, skipped: SkippedMessage, delivery: &mut Delivery) {
        let SkippedMessage {
            stream,
            unordered,
            mid,
        } = skipped;
        let from = if unordered {
            let known = self.skips.unordered.get(stream);
            if known.is_none_or(|known| mid.is_after(known)) {
                self.skips.unordered.insert(stream, mid);
            }
            mid.minus(HALF - 1)
        } else {
            let next = self.next_mid(stream);
            if !mid.is_at_or_after(next) {
                return;
            }
            next
        };
        self.skips.any = true;
        let (from, to) = (from.value(), mid.value());
        let ranges = if from <= to {
            [Some((from, to)), None]
        } else {
            [Some((from, u32::MAX)), Some((0, to))]
        };
        let place = |mid| Key {
            stream,
            unordered,
            mid,
        };
        for (from, to) in ranges.into_iter().flatten() {
            let range = place(from)..=place(to);
            while let Some((&key, assembly)) = self.messages.range(range.clone()).next() {
                if assembly.is_complete() {
                    self.hand_over(key, delivery);
                } else if let Some(assembly) = self.messages.remove(&key) {
                    self.give_up(key, &assembly, delivery);
                }
            }
        }
        if !unordered {
            let next = self.go_on_behind(place(mid.value()));
            self.deliver(next, false, delivery);
        }
    }

    /// Forgets a message; who reads parts of it finds its end before what follows in its stream.
    pub(super) fn give_up(&mut self, key: Key, assembly: &Assembly, delivery: &mut Delivery) {
        let (mut cost, partial) = self.forget(key, assembly);
        if let Some(partial) = partial {
            let (freed, told) = delivery.abort(&partial);
            cost = cost.plus(freed);
            self.skips.lost.partial.extend(told.then_some(partial));
        }
        self.skips.lost.cost = self.skips.lost.cost.plus(cost);
    }

    /// From now on, what is skipped waits for [`Self::release_skips`].
    pub(in crate::recv) fn defer_skips(&mut self) {
        self.skips.waiting.get_or_insert_default();
    }

    /// Nothing waits any more.
    pub(in crate::recv) fn end_deferral(&mut self) {
        self.skips.waiting = None;
    }

    /// Whether so many more can be skipped, where they have to wait.
    pub(in crate::recv) fn has_room_for_skips(&self, count: usize) -> bool {
        let waiting = self.skips.waiting.as_ref();
        waiting.is_none_or(|waiting| waiting.len() + count <= MAX_WAITING)
    }

    /// An I-FORWARD-TSN up to this index skips messages: now, or after what waits.
    pub(in crate::recv) fn skip_at(
        &mut self,
        index: u64,
        skipped: SkippedMessage,
        delivery: &mut Delivery,
    ) {
        match &mut self.skips.waiting {
            Some(waiting) => waiting.push((index, skipped)),
            None => self.skip(skipped, delivery),
        }
    }

    /// Skips what waited, up to an index.
    pub(super) fn release_skips(&mut self, last: u64, delivery: &mut Delivery) {
        let Some(mut waiting) = self.skips.waiting.take() else {
            return;
        };
        for (_, skipped) in waiting.extract_if(.., |skip| skip.0 <= last) {
            self.skip(skipped, delivery);
        }
        self.skips.waiting = Some(waiting);
    }

    /// Takes all that waits, at the end of the association. The first fragment of a stream whose
    /// number was used before, or skipped, comes from behind a reset that the peer's answer to would
    /// have told of. No more than one can be under way, so that a second one is none.
    pub(in crate::recv) fn release_at_end(&mut self, delivery: &mut Delivery) {
        let mut reset = BTreeSet::new();
        for (index, (header, payload)) in core::mem::take(&mut self.deferred) {
            self.looks.note();
            let (key, stream) = (key(&header), header.stream);
            let next = self.next_mid(stream);
            if key.unordered {
                if self.skips.cover(key, next) {
                    self.skips.unordered.remove(stream);
                }
            } else if header.mid.is_before(next) && reset.insert(stream) {
                let streams = StreamSet::Listed(Vec::from([stream]));
                self.reset(&streams, index.saturating_sub(1), delivery);
            }
            let cost = Cost::one(payload.len());
            let taken = self.insert(index, &header, payload, delivery);
            if taken.is_err() {
                // What does not even fit so is of no peer that keeps the rules.
                self.skips.lost.cost = self.skips.lost.cost.plus(cost);
            }
        }
        self.release_skips(u64::MAX, delivery);
        self.skips.waiting = None;
    }

    /// What was forgotten since the last call, and the messages of which the user has read parts.
    pub(in crate::recv) fn take_lost(&mut self) -> Lost {
        core::mem::take(&mut self.skips.lost)
    }

    /// Forgets what is here of a message that was taken out of the list: what that frees, and the
    /// message if it was being delivered in parts.
    fn forget(&mut self, key: Key, assembly: &Assembly) -> (Cost, Option<AbortedMessage>) {
        let (mut cost, mut partial) = (Cost::default(), None);
        if let Some((index, tsn, ppid)) = assembly.first {
            self.ready.remove(&index);
            if assembly.next > 0 {
                partial = Some(AbortedMessage {
                    stream: key.stream,
                    ssn: key.ssn(),
                    mid: Some(Mid::new(key.mid)),
                    ppid,
                    tsn,
                });
            }
        }
        if assembly.next > 0 {
            self.begun.remove(&key);
        }
        for held in assembly.fragments.iter() {
            self.held.remove(&held.index);
            self.by_stream.remove(&(key.stream, held.index));
            cost = cost.plus(Cost::one(held.payload.len()));
        }
        (cost, partial)
    }
}
