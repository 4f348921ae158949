//! Messages for streams that are being reset. They are numbered after the response to the request (RFC
//! 6525, section 5.1.2, A1, and section 5.1.4, C2).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use carrick_wire::{StreamId, Tsn};

use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::path::PathId;
use crate::stream_set::StreamSet;
use crate::tx::message::PendingMessage;

/// Deferred messages; allocated when streams are first reset or renumbered.
#[derive(Debug, Default)]
pub(super) struct DeferredMessages(Option<Box<Deferred>>);

portable_tuple! { DeferredMessages(value) }

#[derive(Debug, Default)]
struct Deferred {
    streams: Option<StreamSet>,
    /// Messages in the order in which the user sent them.
    pending: BTreeMap<u64, PendingMessage>,
    pushed: u64,
    /// Position of each message that may be abandoned, by number.
    numbered: BTreeMap<u64, u64>,
    /// Positions of the messages that the user directed to a path.
    routed: BTreeSet<(PathId, u64)>,
    bytes: usize,
    /// A request that renumbers has been sent.
    renumbering: bool,
    /// Last TSN before the renumbering (RFC 6525, section 5.2.7, H5).
    last_before_renumbering: Option<Tsn>,
}

/// Deferred messages; the indexes are rebuilt.
impl Portable for Deferred {
    fn write(&self, out: &mut ExportWriter) {
        let Self {
            streams,
            pending,
            pushed,
            numbered: _,
            routed: _,
            bytes: _,
            renumbering,
            last_before_renumbering,
        } = self;
        streams.write(out);
        pending.write(out);
        pushed.write(out);
        renumbering.write(out);
        last_before_renumbering.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let mut read = Self {
            streams: Portable::read(input)?,
            pending: Portable::read(input)?,
            pushed: Portable::read(input)?,
            renumbering: Portable::read(input)?,
            last_before_renumbering: Portable::read(input)?,
            ..Self::default()
        };
        if read
            .pending
            .last_key_value()
            .is_some_and(|(at, _)| *at > read.pushed)
        {
            return Err(ImportError::Malformed("Deferred"));
        }
        for (at, pending) in &read.pending {
            read.bytes += pending.rest.len();
            if pending.number != 0 {
                read.numbered.insert(pending.number, *at);
            }
            read.routed
                .extend(pending.options.path.map(|path| (path, *at)));
        }
        Ok(read)
    }
}

impl DeferredMessages {
    pub(super) fn covers(&self, stream: StreamId) -> bool {
        let streams = self.0.as_ref().and_then(|w| w.streams.as_ref());
        streams.is_some_and(|s| s.contains(stream))
    }

    /// Defers the messages that the user sends on these streams from now on.
    pub(super) fn hold(&mut self, streams: StreamSet) {
        self.0.get_or_insert_default().streams = Some(streams);
    }

    /// Notes that a request to renumber has been sent.
    pub(super) fn expect_renumbering(&mut self) {
        self.0.get_or_insert_default().renumbering = true;
    }

    /// Records the last TSN before a renumbering.
    pub(super) fn renumbered(&mut self, last: Tsn) {
        self.0.get_or_insert_default().last_before_renumbering = Some(last);
    }

    pub(super) fn push(&mut self, pending: PendingMessage) {
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

    /// Ends the deferral for streams that are being reset; the messages remain.
    pub(super) fn end(&mut self) {
        if let Some(waiting) = &mut self.0 {
            waiting.streams = None;
            waiting.renumbering = false;
        }
    }

    /// Returns the messages in the order in which the user sent them; the deferral continues.
    pub(super) fn take_messages(&mut self) -> impl Iterator<Item = PendingMessage> + use<> {
        let pending = self.0.as_mut().map(|waiting| {
            waiting.numbered.clear();
            waiting.routed.clear();
            waiting.bytes = 0;
            core::mem::take(&mut waiting.pending)
        });
        pending.into_iter().flat_map(BTreeMap::into_values)
    }

    /// Ends the deferral; returns the messages in the order in which the user sent them.
    pub(super) fn take(&mut self) -> impl Iterator<Item = PendingMessage> + use<> {
        let pending = self.0.as_mut().map(|waiting| {
            let before = core::mem::take(&mut **waiting);
            waiting.last_before_renumbering = before.last_before_renumbering;
            before.pending
        });
        pending.into_iter().flat_map(BTreeMap::into_values)
    }

    /// Removes a message that may be abandoned, by its number.
    pub(super) fn remove_numbered(&mut self, number: u64) -> Option<PendingMessage> {
        let waiting = self.0.as_mut()?;
        let at = waiting.numbered.remove(&number)?;
        let pending = waiting.pending.remove(&at)?;
        waiting.bytes -= pending.rest.len();
        if let Some(path) = pending.options.path {
            waiting.routed.remove(&(path, at));
        }
        Some(pending)
    }

    /// Removes a path from the messages that the user directed to it.
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

    /// Returns whether a TSN that is not outstanding may be of the numbering before a renumbering, in a
    /// delayed packet, or of the one that the peer was asked to begin.
    pub(super) fn may_be_renumbered(&self, tsn: Tsn) -> bool {
        let old = |last: Tsn| last.since(tsn) < 1 << 30;
        self.0
            .as_ref()
            .is_some_and(|w| w.renumbering || w.last_before_renumbering.is_some_and(old))
    }
}
