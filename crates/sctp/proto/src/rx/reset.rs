//! Resets of incoming streams (RFC 6525, sections 5.2.2, 5.2.4 and 5.2.7): streams restart at 0, and
//! messages from after a reset are not delivered before it.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use carrick_wire::{Ssn, StreamId, Tsn};

use super::Receiver;
use super::buffer::Cost;
use super::delivery::Delivery;
use super::reassembly::CompleteMessage;
use crate::stream_set::StreamSet;

/// Messages that wait for a reset: those of some streams above an index. They count in the receive
/// buffer, which bounds them.
#[derive(Debug)]
pub(super) struct Deferral {
    streams: StreamSet,
    /// Index above which messages wait, by their first fragment.
    boundary: u64,
    /// First indexes of the complete messages.
    messages: BTreeSet<u64>,
    /// Skips by FORWARD-TSN that wait, with the index of its TSN, since their SSNs may be from after the
    /// reset. `None` if they are from before it in any case.
    skips: Option<Vec<(u64, StreamId, Ssn)>>,
}

portable_struct! { Deferral { streams, boundary, messages, skips } }

/// Skips that wait for a reset, at most; a FORWARD-TSN with more is dropped.
const MAX_DEFERRED_SKIPS: usize = 8192;

impl Deferral {
    pub(super) fn forget(&mut self, index: u64) -> bool {
        self.messages.remove(&index)
    }

    /// Returns the heap memory of the waiting skips, in bytes.
    pub(super) fn skips_memory(&self) -> usize {
        let skips = self.skips.as_ref().map_or(0, Vec::capacity);
        skips * size_of::<(u64, StreamId, Ssn)>()
    }
}

impl Receiver {
    /// Defers the delivery of messages of these streams with TSNs after `last`.
    pub(crate) fn defer_after(&mut self, last: Tsn, streams: StreamSet) {
        let boundary = self.tsns.index_of(last);
        self.delivery.defer(boundary.unwrap_or(0), streams, false);
    }

    /// Defers the delivery of all messages above the cumulative TSN: they may be from before or after a
    /// reset of the association (SSN/TSN reset).
    pub(crate) fn defer_all(&mut self) {
        let boundary = self.tsns.cumulative_index();
        self.delivery.defer(boundary, StreamSet::All, true);
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.defer_skips();
        }
    }

    /// Ends the deferral: delivers the messages that waited.
    pub(crate) fn release(&mut self) -> Result<(), &'static str> {
        self.release_up_to(u64::MAX)?;
        self.delivery.deferral = None;
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.end_deferral();
        }
        self.count_streams();
        // The buffer may have no space for a chunk whose arrival would begin it.
        self.deliver_partially();
        Ok(())
    }

    /// Ends the deferral at the end or restart of the association: delivers all that was acknowledged. The
    /// peer may have performed the reset and its response be lost, so an SSN or MID that does not fit is
    /// from after the reset.
    pub(crate) fn release_at_end(&mut self) {
        let cumulative = self.tsns.cumulative_index();
        if self.delivery.deferral.is_none() {
            return;
        }
        let unfit = self.delivery.release_at_end(cumulative);
        self.buffer.remove(unfit);
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.release_at_end(&mut self.delivery);
        }
        self.account_for_discarded();
        self.deliver_partially();
    }

    /// Ends the deferral if the buffer is nearly full, for a peer that has to send its queued data before
    /// it can perform the reset. Otherwise the deferral continues: the response "in progress" may be old,
    /// and the reset performed meanwhile.
    pub(crate) fn release_if_nearly_full(&mut self) -> Result<(), &'static str> {
        if self.buffer.is_nearly_full() {
            self.release()?;
        }
        Ok(())
    }

    /// Restarts these streams at 0, then delivers the messages that waited.
    pub(crate) fn reset_streams(&mut self, streams: &StreamSet) -> Result<(), &'static str> {
        self.reset_up_to(streams, self.tsns.cumulative_index());
        self.release()
    }

    /// Restarts these streams at 0; chunks up to this index are from before the reset.
    fn reset_up_to(&mut self, streams: &StreamSet, last: u64) {
        self.delivery.reset(streams);
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.reset(streams, last, &mut self.delivery);
        }
        self.account_for_discarded();
    }

    /// Delivers the deferred messages up to the index `last`; later messages remain deferred.
    fn release_up_to(&mut self, last: u64) -> Result<(), &'static str> {
        self.delivery.release_up_to(last)?;
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.release_up_to(last, &mut self.delivery)?;
        }
        self.account_for_discarded();
        Ok(())
    }

    /// Adds incoming streams (RFC 6525, section 5.2.5).
    pub(crate) fn add_streams(&mut self, count: u16) {
        self.inbound_streams = self.inbound_streams.saturating_add(count);
    }

    /// Performs a reset of the association (RFC 6525, section 5.2.4): the peer's next new chunk has the TSN
    /// `next`, and all streams restart at 0. Incomplete messages from before are discarded.
    pub(crate) fn renumber(&mut self, next: Tsn) -> Result<(), &'static str> {
        let last = self.tsns.index_of(next.previous());
        self.release_up_to(last.unwrap_or(u64::MAX))?;
        // The chunk with the next TSN begins another message, so it does not continue this one.
        let end = last.map_or(u64::MAX, |last| last + 1);
        if let Some(partial) = self.reassembly.abort_partial(end) {
            self.abort_partial_delivery(&partial);
        }
        self.buffer.remove(self.reassembly.forget_up_to(last));
        if let Some(index) = last {
            // TSNs continue, and some of the new chunks may have been received.
            self.tsns.skip_to(index);
        } else {
            self.tsns.renumber(next);
            self.sack.clear_duplicates();
        }
        self.reset_up_to(&StreamSet::All, last.unwrap_or(u64::MAX));
        self.release()
    }
}

impl Delivery {
    /// Returns whether a message that begins at this index has to wait.
    pub(super) fn is_deferred(&self, first: u64, stream: StreamId) -> bool {
        self.deferral
            .as_ref()
            .is_some_and(|d| first > d.boundary && d.streams.contains(stream))
    }

    /// Holds a complete message until [`Self::release_up_to`].
    pub(super) fn defer_message(&mut self, complete: CompleteMessage) {
        if let Some(deferral) = &mut self.deferral {
            deferral.messages.insert(complete.first);
            self.held.insert(complete.first, complete);
        }
    }

    /// Returns whether this many more skips can be deferred, if they have to be.
    pub(super) fn has_room_for_skips(&self, count: usize) -> bool {
        let waiting = self.deferral.as_ref().and_then(|d| d.skips.as_ref());
        waiting.is_none_or(|skips| skips.len() + count <= MAX_DEFERRED_SKIPS)
    }

    /// Skips messages of a stream for a FORWARD-TSN up to this index: now, or after the deferral.
    pub(super) fn skip_at(&mut self, index: u64, stream: StreamId, last: Ssn) {
        match self.deferral.as_mut().and_then(|d| d.skips.as_mut()) {
            Some(skips) => skips.push((index, stream, last)),
            None => self.skip(stream, last),
        }
    }

    fn defer(&mut self, boundary: u64, streams: StreamSet, skips: bool) {
        // A repeated request changes nothing.
        if self.deferral.is_none() {
            self.deferral = Some(Box::new(Deferral {
                streams,
                boundary,
                messages: BTreeSet::new(),
                skips: skips.then(Vec::new),
            }));
        }
    }

    /// Delivers the deferred messages up to the index `last`; later messages remain deferred.
    fn release_up_to(&mut self, last: u64) -> Result<(), &'static str> {
        let Some(mut deferral) = self.deferral.take() else {
            return Ok(());
        };
        let later = match last.checked_add(1) {
            Some(after) => deferral.messages.split_off(&after),
            None => BTreeSet::new(),
        };
        for index in core::mem::replace(&mut deferral.messages, later) {
            if let Some(complete) = self.held.remove(&index) {
                self.on_complete(complete)?;
            }
        }
        if let Some(skips) = &mut deferral.skips {
            for (_, stream, ssn) in skips.extract_if(.., |skip| skip.0 <= last) {
                self.skip(stream, ssn);
            }
        }
        self.deferral = Some(deferral);
        Ok(())
    }

    /// Delivers the waiting messages without regard to a reset between them: up to the cumulative TSN in
    /// the order of TSNs; above a gap only if the SSN fits. Returns the buffer space of those that do not.
    fn release_at_end(&mut self, cumulative: u64) -> Cost {
        self.deferral = None;
        let mut unfit = Cost::default();
        let whole = |complete: &CompleteMessage| complete.last <= cumulative;
        let (arrived, later): (Vec<_>, Vec<_>) = core::mem::take(&mut self.held)
            .into_values()
            .partition(whole);
        self.position.clear();
        for complete in arrived {
            let (stream, ssn) = (complete.message.stream, complete.message.ssn);
            self.deliver(complete);
            if let Some(ssn) = ssn {
                self.next.insert(stream, ssn.next());
            }
        }
        for complete in later {
            // A message above the cumulative TSN may be dropped.
            let cost = complete.message.cost();
            if self.on_complete(complete).is_err() {
                unfit = unfit.plus(cost);
            }
        }
        unfit
    }

    /// Restarts these streams at SSN 0. Messages that wait for an earlier one, which will not arrive, are
    /// delivered in the order of their TSNs.
    fn reset(&mut self, streams: &StreamSet) {
        let mut waiting: Vec<u64> = match streams {
            StreamSet::All => core::mem::take(&mut self.position).into_values().collect(),
            StreamSet::Listed(listed) => {
                let mut waiting = Vec::new();
                for &stream in listed {
                    let range = (stream, 0)..=(stream, u16::MAX);
                    let keys: Vec<_> = self.position.range(range).map(|(k, _)| *k).collect();
                    waiting.extend(keys.iter().filter_map(|k| self.position.remove(k)));
                }
                waiting
            }
        };
        waiting.sort_unstable();
        for index in waiting {
            if let Some(complete) = self.held.remove(&index) {
                self.deliver(complete);
            }
        }
        match streams {
            StreamSet::All => self.next.clear(),
            StreamSet::Listed(listed) => {
                for &stream in listed {
                    self.next.remove(stream);
                }
            }
        }
    }
}
