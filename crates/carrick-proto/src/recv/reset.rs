//! The receiving side of a reset: streams begin again at 0, and what belongs after a reset is not
//! delivered before it (RFC 6525 sections 5.2.2, 5.2.4, 5.2.7).

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use carrick_wire::{Ssn, StreamId, Tsn};

use super::Receiver;
use super::buffer::Cost;
use super::delivery::Delivery;
use super::reassembly::Complete;
use crate::reconfig::StreamSet;

/// Messages of some streams from an index on wait for a reset. They count in the receive buffer,
/// which bounds them.
#[derive(Debug)]
pub(super) struct Deferral {
    streams: StreamSet,
    /// Messages with their first fragment above this index wait.
    boundary: u64,
    /// The first indexes of those that are complete.
    messages: BTreeSet<u64>,
    /// What FORWARD-TSN skips beyond the boundary waits as well, with the index of its TSN: the
    /// numbers may be those after the reset. `None` where they are from before it in any case.
    skips: Option<Vec<(u64, StreamId, Ssn)>>,
}

/// What is skipped while a reset is awaited, at most; a FORWARD-TSN with more has to come again.
const MAX_SKIPS: usize = 8192;

impl Deferral {
    pub(super) fn forget(&mut self, index: u64) -> bool {
        self.messages.remove(&index)
    }

    /// Heap that the skipped messages take that wait, in bytes.
    pub(super) fn skips_memory(&self) -> usize {
        let skips = self.skips.as_ref().map_or(0, Vec::capacity);
        skips * size_of::<(u64, StreamId, Ssn)>()
    }
}

impl Receiver {
    /// From now on, what arrives for these streams with a TSN after this one waits.
    pub(crate) fn defer_after(&mut self, last: Tsn, streams: StreamSet) {
        let boundary = self.tsns.index_of(last);
        self.delivery.defer(boundary.unwrap_or(0), streams, false);
    }

    /// From now on, all that arrives with a TSN that was not acknowledged yet waits: it may belong
    /// before or after a reset of all numbers.
    pub(crate) fn defer_all(&mut self) {
        let boundary = self.tsns.cumulative_index();
        self.delivery.defer(boundary, StreamSet::All, true);
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.defer_skips();
        }
    }

    /// What waits is delivered as if nothing had been asked for.
    pub(crate) fn release(&mut self) -> Result<(), &'static str> {
        self.release_up_to(u64::MAX)?;
        self.delivery.deferral = None;
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.end_deferral();
        }
        self.count_streams();
        // No chunk may have room that would begin it.
        self.deliver_partially();
        Ok(())
    }

    /// The association ends, or begins anew, while a reset is awaited. What was acknowledged is
    /// delivered: the peer may have reset its streams and only its answer be lost, so that a number
    /// which does not fit is one from behind the reset.
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
        self.settle_lost();
        self.deliver_partially();
    }

    /// The same where a peer that has to send everything before it can do what it was asked for
    /// would find the buffer full. As long as there is room, it waits: this may be an old answer of
    /// a peer that has done it meanwhile.
    pub(crate) fn release_if_nearly_full(&mut self) -> Result<(), &'static str> {
        if self.buffer.is_nearly_full() {
            self.release()?;
        }
        Ok(())
    }

    /// The next message of each of these streams has number 0; then goes on with what waited.
    pub(crate) fn reset_streams(&mut self, streams: &StreamSet) -> Result<(), &'static str> {
        self.reset_up_to(streams, self.tsns.cumulative_index());
        self.release()
    }

    /// What came up to this index is from before the reset.
    fn reset_up_to(&mut self, streams: &StreamSet, last: u64) {
        self.delivery.reset(streams);
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.reset(streams, last, &mut self.delivery);
        }
        self.settle_lost();
    }

    /// What waits up to this index is delivered; the rest goes on waiting.
    fn release_up_to(&mut self, last: u64) -> Result<(), &'static str> {
        self.delivery.release_up_to(last)?;
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.release_up_to(last, &mut self.delivery)?;
        }
        // Who reads parts of a message finds its end there.
        self.settle_lost();
        Ok(())
    }

    /// There are this many more streams.
    pub(crate) fn add_streams(&mut self, count: u16) {
        self.inbound_streams = self.inbound_streams.saturating_add(count);
    }

    /// The peer's next new chunk has this TSN, or the next one that it has not sent before, and all
    /// streams begin at 0 there. What is incomplete from before never will be complete.
    pub(crate) fn renumber(&mut self, next: Tsn) -> Result<(), &'static str> {
        let last = self.tsns.index_of(next.previous());
        self.release_up_to(last.unwrap_or(u64::MAX))?;
        // One that goes on with the next TSN does not, either: that one is the first of another.
        let end = last.map_or(u64::MAX, |last| last + 1);
        if let Some(partial) = self.reassembly.abort_partial(end) {
            self.end_partial(&partial);
        }
        self.buffer.remove(self.reassembly.forget_up_to(last));
        match last {
            // The numbers go on, and perhaps some of the new chunks are here already.
            Some(index) => self.tsns.skip_to(index),
            None => self.tsns.renumber(next),
        }
        self.reset_up_to(&StreamSet::All, last.unwrap_or(u64::MAX));
        self.release()
    }
}

impl Delivery {
    /// Whether a message that begins at this index has to wait.
    pub(super) fn is_deferred(&self, first: u64, stream: StreamId) -> bool {
        self.deferral
            .as_ref()
            .is_some_and(|d| first > d.boundary && d.streams.contains(stream))
    }

    /// Keeps a complete message until [`Self::release`].
    pub(super) fn keep(&mut self, complete: Complete) {
        if let Some(deferral) = &mut self.deferral {
            deferral.messages.insert(complete.first);
            self.held.insert(complete.first, complete);
        }
    }

    /// Whether so many more skips can be kept, where they have to wait.
    pub(super) fn has_room_for_skips(&self, count: usize) -> bool {
        let waiting = self.deferral.as_ref().and_then(|d| d.skips.as_ref());
        waiting.is_none_or(|skips| skips.len() + count <= MAX_SKIPS)
    }

    /// A FORWARD-TSN up to this index skips messages of a stream: now, or after what waits.
    pub(super) fn skip_at(&mut self, index: u64, stream: StreamId, last: Ssn) {
        match self.deferral.as_mut().and_then(|d| d.skips.as_mut()) {
            Some(skips) => skips.push((index, stream, last)),
            None => self.skip(stream, last),
        }
    }

    fn defer(&mut self, boundary: u64, streams: StreamSet, skips: bool) {
        // A request that is repeated: what waits since the first one still does.
        if self.deferral.is_none() {
            self.deferral = Some(Box::new(Deferral {
                streams,
                boundary,
                messages: BTreeSet::new(),
                skips: skips.then(Vec::new),
            }));
        }
    }

    /// Delivers those that wait up to an index; the others go on waiting.
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
                self.complete(complete)?;
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

    /// Delivers what waits without regard to whether a reset lies in between: where nothing is
    /// missing before a message, TSNs order it; behind a gap its number has to fit. Returns what those
    /// cost that do not.
    fn release_at_end(&mut self, cumulative: u64) -> Cost {
        self.deferral = None;
        let mut unfit = Cost::default();
        let whole = |complete: &Complete| complete.last <= cumulative;
        let (arrived, later): (Vec<_>, Vec<_>) = core::mem::take(&mut self.held)
            .into_values()
            .partition(whole);
        self.position.clear();
        for complete in arrived {
            let (stream, ssn) = (complete.message.stream, complete.message.ssn);
            self.hand_over(complete);
            if let Some(ssn) = ssn {
                self.next.insert(stream, ssn.next());
            }
        }
        for complete in later {
            // One that does not fit was not acknowledged for good.
            let cost = complete.message.cost();
            if self.complete(complete).is_err() {
                unfit = unfit.plus(cost);
            }
        }
        unfit
    }

    /// Messages of these streams that wait for one before them, which will not come, are delivered
    /// in the order of their TSNs; then the streams begin at 0.
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
                self.hand_over(complete);
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
