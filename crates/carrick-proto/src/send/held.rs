//! Messages for streams that are being reset: they wait for the answer and get their numbers after
//! it (RFC 6525 sections 5.1.2 A1 and 5.1.4 C2).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use carrick_wire::{StreamId, Tsn};

use super::Sender;
use super::message::Pending;
use crate::path::PathId;
use crate::reconfig::StreamSet;

/// Nothing, but while a request is under way, and once numbers have changed.
#[derive(Debug, Default)]
pub(super) struct Held(Option<Box<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    streams: Option<StreamSet>,
    /// In the order in which they came.
    pending: BTreeMap<u64, Pending>,
    pushed: u64,
    /// Where those are that may be given up, by number.
    numbered: BTreeMap<u64, u64>,
    /// Where those are that are to go to a certain path.
    routed: BTreeSet<(PathId, u64)>,
    bytes: usize,
    /// The peer was asked to renumber.
    renumbering: bool,
    /// The last TSN before the numbers changed (section 5.2.7 H5).
    retired: Option<Tsn>,
}

impl Held {
    pub(super) fn covers(&self, stream: StreamId) -> bool {
        let streams = self.0.as_ref().and_then(|w| w.streams.as_ref());
        streams.is_some_and(|s| s.contains(stream))
    }

    pub(super) fn push(&mut self, pending: Pending) {
        let waiting = self.0.get_or_insert_default();
        waiting.bytes += pending.rest.len();
        waiting.pushed += 1;
        if pending.number != 0 {
            waiting.numbered.insert(pending.number, waiting.pushed);
        }
        let path = pending.options.path;
        waiting.routed.extend(path.map(|p| (p, waiting.pushed)));
        waiting.pending.insert(waiting.pushed, pending);
    }

    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |w| w.pending.len())
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |w| w.bytes)
    }

    /// Holds nothing any more; returns what waited, in the order in which it came.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Pending> + use<> {
        let pending = self.0.as_mut().map(|waiting| {
            let before = core::mem::take(&mut **waiting);
            waiting.retired = before.retired;
            before.pending
        });
        pending.into_iter().flat_map(BTreeMap::into_values)
    }

    /// Takes a message out that may be given up.
    pub(super) fn take_numbered(&mut self, number: u64) -> Option<Pending> {
        let waiting = self.0.as_mut()?;
        let at = waiting.numbered.remove(&number)?;
        let pending = waiting.pending.remove(&at)?;
        waiting.bytes -= pending.rest.len();
        if let Some(path) = pending.options.path {
            waiting.routed.remove(&(path, at));
        }
        Some(pending)
    }

    /// Messages that were to go this way go any way.
    pub(super) fn forget_path(&mut self, path: PathId) {
        let Some(waiting) = &mut self.0 else { return };
        let all = (path, 0)..=(path, u64::MAX);
        while let Some(&(_, at)) = waiting.routed.range(all.clone()).next() {
            waiting.routed.remove(&(path, at));
            if let Some(pending) = waiting.pending.get_mut(&at) {
                pending.options.path = None;
            }
        }
    }

    /// Whether a TSN that is not outstanding may be one from before the numbers changed, in a packet
    /// that was long on its way, or one of those that the peer was asked to take.
    pub(super) fn may_be_renumbered(&self, tsn: Tsn) -> bool {
        let old = |last: Tsn| last.since(tsn) < 1 << 30;
        self.0
            .as_ref()
            .is_some_and(|w| w.renumbering || w.retired.is_some_and(old))
    }
}

impl Sender {
    /// Messages that come for these streams from now on wait.
    pub(crate) fn hold(&mut self, streams: StreamSet) {
        self.held.0.get_or_insert_default().streams = Some(streams);
    }

    /// What waited goes on.
    pub(crate) fn release(&mut self) {
        for pending in self.held.take() {
            self.queue.put(pending);
        }
    }

    /// Nothing is queued for these streams, but for what waits. Returns the index that the next new
    /// chunk gets: all of theirs are below it.
    pub(crate) fn sent_below(&self, streams: &StreamSet) -> Option<u64> {
        (!self.queue.has_any(streams)).then(|| self.outstanding.next_index())
    }

    /// All chunks below this index are acknowledged.
    pub(crate) fn is_acknowledged_below(&self, index: u64) -> bool {
        self.outstanding.first_index() >= index
    }

    /// Nothing is queued, but for what waits, and nothing is unacknowledged.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty() && self.outstanding.is_empty()
    }

    /// The index of [`Self::last_tsn`], which never wraps.
    pub(crate) fn last_index(&self) -> u64 {
        self.outstanding.next_index() - 1
    }

    /// The last TSN that was given to a chunk.
    pub(crate) fn last_tsn(&self) -> Tsn {
        self.outstanding.tsn(self.outstanding.next_index() - 1)
    }

    /// The next message of each of these streams has number 0.
    pub(crate) fn reset_streams(&mut self, streams: &StreamSet) {
        self.queue.reset(streams);
    }

    /// Whether it has that already.
    pub(crate) fn is_reset(&self, streams: &StreamSet) -> bool {
        self.queue.is_reset(streams)
    }

    /// There are this many more streams.
    pub(crate) fn add_streams(&mut self, count: u16) {
        self.outbound_streams = self.outbound_streams.saturating_add(count);
    }

    /// A request to renumber is on its way: the peer may acknowledge by numbers that are not known
    /// here yet.
    pub(crate) fn expect_renumbering(&mut self) {
        self.held.0.get_or_insert_default().renumbering = true;
    }

    /// The next new chunk has this TSN. Nothing is outstanding.
    pub(crate) fn renumber(&mut self, next: Tsn) {
        self.held.0.get_or_insert_default().retired = Some(self.last_tsn());
        self.outstanding.renumber(next);
    }
}
