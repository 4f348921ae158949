//! Skipped messages of I-FORWARD-TSN (RFC 8260, section 2.3.1): incomplete ones are discarded, and the
//! streams advance past them.
//!
//! Fragments of a skipped message may still arrive, with TSNs above that of the I-FORWARD-TSN. They are
//! discarded, since no later chunk would release them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use carrick_wire::{Mid, SkippedMessage, StreamId};

use super::{DiscardedMessages, Interleaved, MessageAssembly, MessageKey, key};
use crate::rx::buffer::Cost;
use crate::rx::delivery::Delivery;
use crate::rx::forward::AbortedMessage;
use crate::stream_set::StreamSet;
use crate::stream_table::StreamTable;

/// Distance from the last skipped MID at which it is forgotten: long before half of all MIDs, where
/// the comparison would turn around.
const MAX_SKIPPED_DISTANCE: u32 = 1 << 30;

/// Number of MIDs that are not after a given one.
const HALF: u32 = 1 << 31;

/// Skipped messages that wait for a reset, at most.
const MAX_DEFERRED_SKIPS: usize = 8192;

#[derive(Debug, Default)]
pub(super) struct SkippedMessages {
    /// The peer has skipped messages: a MID that the stream has passed may be one of them.
    any: bool,
    /// Last skipped unordered MID of each stream.
    unordered: StreamTable<Mid>,
    /// Skipped messages that wait for a reset, with the index of the new cumulative TSN.
    waiting: Option<Vec<(u64, SkippedMessage)>>,
    /// Messages discarded since the last [`Interleaved::take_discarded`].
    pub(super) discarded: DiscardedMessages,
}

portable_struct! { SkippedMessages { any, unordered, waiting, discarded } }

impl SkippedMessages {
    /// Returns whether a message was skipped; `next` is the next ordered MID of its stream.
    pub(super) fn is_skipped(&mut self, key: MessageKey, next: Mid) -> bool {
        let mid = Mid::new(key.mid);
        if !key.unordered {
            return self.any && mid.is_before(next);
        }
        let Some(last) = self.unordered.get(key.stream) else {
            return false;
        };
        if mid.is_after(last) && mid.since(last) >= MAX_SKIPPED_DISTANCE {
            self.unordered.remove(key.stream);
            return false;
        }
        mid.is_at_or_before(last)
    }

    /// Restarts these streams at MID 0.
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

    /// Returns the heap memory of stream state and of deferred skips, in bytes.
    pub(super) fn memory(&self) -> usize {
        let waiting = self.waiting.as_ref().map_or(0, Vec::capacity);
        self.unordered.memory() + waiting * size_of::<(u64, SkippedMessage)>()
    }
}

impl Interleaved {
    /// Advances past the messages up to this MID, of its stream and U bit: delivers complete ones and
    /// discards incomplete ones. A MID that the stream has passed is ignored.
    pub(in crate::rx) fn skip(&mut self, skipped: SkippedMessage, delivery: &mut Delivery) {
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
        let place = |mid| MessageKey {
            stream,
            unordered,
            mid,
        };
        for (from, to) in ranges.into_iter().flatten() {
            let range = place(from)..=place(to);
            while let Some((&key, assembly)) = self.messages.range(range.clone()).next() {
                if assembly.is_complete() {
                    self.deliver_available(key, delivery);
                } else if let Some(assembly) = self.messages.remove(&key) {
                    self.discard_message(key, &assembly, delivery);
                }
            }
        }
        if !unordered {
            let next = self.advance_past(place(mid.value()));
            self.deliver(next, false, delivery);
        }
    }

    /// Discards a message. If it is in partial delivery, its end is delivered before the messages that
    /// follow in its stream.
    pub(super) fn discard_message(
        &mut self,
        key: MessageKey,
        assembly: &MessageAssembly,
        delivery: &mut Delivery,
    ) {
        let (mut cost, partial) = self.remove_fragments(key, assembly);
        if let Some(partial) = partial {
            let (freed, was_read) = delivery.abort(&partial);
            cost = cost.plus(freed);
            self.skips
                .discarded
                .partial
                .extend(was_read.then_some(partial));
        }
        self.skips.discarded.cost = self.skips.discarded.cost.plus(cost);
    }

    /// Defers skips until [`Self::release_skips`].
    pub(in crate::rx) fn defer_skips(&mut self) {
        self.skips.waiting.get_or_insert_default();
    }

    /// Ends the deferral of skips.
    pub(in crate::rx) fn end_deferral(&mut self) {
        self.skips.waiting = None;
    }

    /// Returns whether this many more skips can be deferred, if they have to be.
    pub(in crate::rx) fn has_room_for_skips(&self, count: usize) -> bool {
        let waiting = self.skips.waiting.as_ref();
        waiting.is_none_or(|waiting| waiting.len() + count <= MAX_DEFERRED_SKIPS)
    }

    /// Skips messages for an I-FORWARD-TSN up to this index: now, or after the deferral.
    pub(in crate::rx) fn skip_at(
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

    /// Applies the deferred skips up to an index.
    pub(super) fn release_skips(&mut self, last: u64, delivery: &mut Delivery) {
        let Some(mut waiting) = self.skips.waiting.take() else {
            return;
        };
        for (_, skipped) in waiting.extract_if(.., |skip| skip.0 <= last) {
            self.skip(skipped, delivery);
        }
        self.skips.waiting = Some(waiting);
    }

    /// Inserts all deferred fragments, at the end of the association. The first fragment of a stream whose
    /// MID was delivered or skipped is from after a reset that the peer has performed, and whose response
    /// was lost. Only one reset can be in progress, so a second such MID shows none.
    pub(in crate::rx) fn release_at_end(&mut self, delivery: &mut Delivery) {
        let mut reset = BTreeSet::new();
        for (index, (header, payload)) in core::mem::take(&mut self.deferred) {
            self.looks.note();
            let (key, stream) = (key(&header), header.stream);
            let next = self.next_mid(stream);
            if key.unordered {
                if self.skips.is_skipped(key, next) {
                    self.skips.unordered.remove(stream);
                }
            } else if header.mid.is_before(next) && reset.insert(stream) {
                let streams = StreamSet::Listed(Vec::from([stream]));
                self.reset(&streams, index.saturating_sub(1), delivery);
            }
            let cost = Cost::one(payload.len());
            let taken = self.insert(index, &header, payload, delivery);
            if taken.is_err() {
                // A protocol violation; the association ends anyway.
                self.skips.discarded.cost = self.skips.discarded.cost.plus(cost);
            }
        }
        self.release_skips(u64::MAX, delivery);
        self.skips.waiting = None;
    }

    /// Returns the messages discarded since the last call.
    pub(in crate::rx) fn take_discarded(&mut self) -> DiscardedMessages {
        core::mem::take(&mut self.skips.discarded)
    }

    /// Removes the fragments of a message that is no longer in `messages`; returns their buffer space, and
    /// the message if it was in partial delivery.
    fn remove_fragments(
        &mut self,
        key: MessageKey,
        assembly: &MessageAssembly,
    ) -> (Cost, Option<AbortedMessage>) {
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
            self.in_parts.remove(&key);
        }
        for held in assembly.fragments.iter() {
            self.held.remove(&held.index);
            self.by_stream.remove(&(key.stream, held.index));
            cost = cost.plus(Cost::one(held.payload.len()));
        }
        (cost, partial)
    }
}
