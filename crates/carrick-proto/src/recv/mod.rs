//! The receiving half of an association (RFC 9260 sections 6.2, 6.5, 6.6, 6.7, 6.9).

mod ack;
mod autotune;
mod buffer;
mod delivery;
mod forward;
mod interleaved;
pub(crate) mod message;
mod payload_pool;
mod ranges;
mod ready;
mod reassembly;
mod reset;
mod settled;
mod sources;
mod tsn_map;
mod unfinished;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use carrick_wire::{Data, GapAckBlock, IData, StreamId, Tsn};

use crate::config::AssociationConfig;
use crate::path::PathId;
use crate::policy::GapSacks;
use crate::time::Time;
use ack::AckState;
use autotune::Autotune;
pub(crate) use buffer::MIN_RECEIVE;
use buffer::{Buffer, Cost};
use delivery::Delivery;
pub(crate) use forward::AbortedMessage;
use interleaved::Interleaved;
use message::Message;
use payload_pool::PayloadPool;
use reassembly::{Fragment, Reassembly};
use sources::Sources;
use tsn_map::{Arrival, TsnMap};

/// Gaps up to which DATA on a stream that does not exist is acknowledged above the cumulative TSN. It
/// takes no room in the receive buffer, which bounds the gaps that other DATA leaves.
const MAX_DISCARDED_GAPS: usize = 1024;

/// What became of one DATA chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DataOutcome {
    /// New, and kept.
    Accepted,
    /// Seen before.
    Duplicate,
    /// New, but there is no room; it was not acknowledged.
    Dropped,
    /// On a stream that does not exist: acknowledged and discarded (section 6.5).
    InvalidStream(StreamId),
    /// The peer broke a rule of fragmentation or numbering.
    Violation(&'static str),
}

/// Everything about data that comes in.
#[derive(Debug)]
pub(crate) struct Receiver {
    tsns: TsnMap,
    ack: AckState,
    buffer: Buffer,
    payloads: PayloadPool,
    reassembly: Reassembly,
    delivery: Delivery,
    /// Takes the place of `reassembly` where messages may interleave (RFC 8260 section 2.2).
    interleaved: Option<Box<Interleaved>>,
    inbound_streams: u16,
    /// Where the buffer may grow.
    autotune: Option<Box<Autotune>>,
    /// Where SACKs may be delayed in spite of gaps.
    sources: Option<Box<Sources>>,
    /// Of which the user is to be told.
    aborted: Vec<AbortedMessage>,
}

impl Receiver {
    pub(crate) fn new(
        peer_initial_tsn: Tsn,
        inbound_streams: u16,
        interleaving: bool,
        config: &AssociationConfig,
    ) -> Self {
        Self {
            tsns: TsnMap::new(peer_initial_tsn),
            ack: AckState::new(config),
            buffer: Buffer::new(config),
            payloads: PayloadPool::default(),
            reassembly: Reassembly::default(),
            delivery: Delivery::default(),
            interleaved: interleaving.then(Box::default),
            inbound_streams,
            autotune: config
                .max_receive_buffer
                .filter(|max| *max > config.receive_buffer)
                .map(|max| Box::new(Autotune::new(max, across_paths(config)))),
            sources: sources(config),
            aborted: Vec::new(),
        }
    }

    /// The peer restarted: numbering begins anew, complete messages stay for the user, and parts of
    /// one that will never be complete don't.
    pub(crate) fn restart(
        &mut self,
        peer_initial_tsn: Tsn,
        inbound_streams: u16,
        interleaving: bool,
        config: &AssociationConfig,
    ) {
        self.tsns = TsnMap::new(peer_initial_tsn);
        self.ack = AckState::new(config);
        self.sources = sources(config);
        if let Some(tsn) = self.reassembly.partial_tsn() {
            self.buffer.remove(self.delivery.drop_parts(tsn));
        }
        if let Some(old) = self.interleaved.take() {
            let partial: Vec<Tsn> = old.partial_tsns().collect();
            for tsn in partial {
                self.buffer.remove(self.delivery.drop_parts(tsn));
            }
            self.buffer.remove(old.cost());
        }
        self.interleaved = interleaving.then(Box::default);
        self.buffer.remove(self.reassembly.clear());
        self.buffer.remove(self.delivery.restart());
        self.delivery.note_settled(false);
        self.inbound_streams = inbound_streams;
        self.count_streams();
    }

    pub(crate) fn inbound_streams(&self) -> u16 {
        self.inbound_streams
    }

    /// Whether any DATA has arrived.
    pub(crate) fn has_received(&self) -> bool {
        self.ack.has_received()
    }

    /// Takes one DATA chunk; `datagram` is what `data` was parsed from.
    pub(crate) fn on_data(&mut self, data: &Data<'_>, datagram: &Bytes) -> DataOutcome {
        let index = match self.arrive(data.tsn, data.stream, data.flags.immediate) {
            Ok(index) => index,
            Err(outcome) => return outcome,
        };
        let fragment = Fragment::new(data, self.retain(data.payload, datagram));
        let taken = self.take(index, fragment);
        self.count_streams();
        outcome(taken)
    }

    /// Takes one I-DATA chunk; `datagram` is what `data` was parsed from.
    pub(crate) fn on_i_data(&mut self, data: &IData<'_>, datagram: &Bytes) -> DataOutcome {
        let header = &data.header;
        let index = match self.arrive(header.tsn, header.stream, header.immediate) {
            Ok(index) => index,
            Err(outcome) => return outcome,
        };
        let payload = self.retain(data.payload, datagram);
        let delivery = &mut self.delivery;
        let deferred = delivery.is_deferred(index, header.stream);
        let taken = match &mut self.interleaved {
            Some(all) if deferred && !all.has_begun(header) => {
                all.keep(index, *header, payload);
                Ok(())
            }
            Some(all) => all.insert(index, header, payload, delivery),
            None => Err("I-DATA without interleaving"),
        };
        self.settle_lost();
        self.deliver_partially();
        self.count_streams();
        outcome(taken)
    }

    /// Counts the state of streams in the window.
    fn count_streams(&mut self) {
        let interleaved = self.interleaved.as_ref();
        let interleaved = interleaved.map_or(0, |all| all.stream_memory());
        let streams = self.delivery.stream_memory() + interleaved;
        self.buffer.set_streams(streams);
    }

    /// Notes the arrival of a chunk with user data; returns the index of its TSN if it is to be kept.
    fn arrive(&mut self, tsn: Tsn, stream: StreamId, immediate: bool) -> Result<u64, DataOutcome> {
        self.ack.on_chunk(immediate);
        let index = match self.tsns.classify(tsn) {
            Arrival::New(index) => index,
            Arrival::Duplicate => {
                self.tsns.note_duplicate(tsn);
                self.ack.on_duplicate();
                return Err(DataOutcome::Duplicate);
            }
            Arrival::OutOfReach => {
                self.ack.now();
                return Err(DataOutcome::Dropped);
            }
        };
        if stream.0 >= self.inbound_streams {
            let next = self.tsns.cumulative_index() + 1;
            if index != next && self.tsns.gap_count() >= MAX_DISCARDED_GAPS {
                self.ack.now();
                return Err(DataOutcome::Dropped);
            }
            self.tsns.insert(index);
            self.ack.on_new();
            self.give_up_unfinished();
            return Err(DataOutcome::InvalidStream(stream));
        }
        if !self.has_room_for_state(core::iter::once((stream, false))) || !self.make_room(index) {
            self.ack.now();
            return Err(DataOutcome::Dropped);
        }
        let gap_before = self.tsns.has_gaps();
        self.tsns.insert(index);
        self.ack.on_new();
        let missing = self.tsns.cumulative_index() + 1;
        let delayed = match &mut self.sources {
            Some(sources) => !sources.on_new(index, missing),
            None => false,
        };
        if self.tsns.has_gaps() && !delayed {
            self.ack.on_new_above_gap();
        } else if gap_before && !delayed {
            self.ack.now();
        }
        Ok(index)
    }

    /// Whether it matters on which path data arrives.
    pub(crate) fn wants_sources(&self) -> bool {
        self.sources.is_some()
    }

    /// The data that is given next came on this path, if that is known.
    pub(crate) fn arrives_on(&mut self, path: Option<PathId>) {
        if let Some(sources) = &mut self.sources {
            sources.arrive_on(path);
        }
    }

    /// Takes the payload of a chunk into the receive buffer.
    fn retain(&mut self, payload: &[u8], datagram: &Bytes) -> Bytes {
        let len = payload.len();
        self.buffer.add(len);
        if let Some(autotune) = &mut self.autotune {
            autotune.on_arrived(len);
        }
        let counted = self.buffer.bytes(Cost::one(len));
        self.payloads.retain(payload, counted, datagram)
    }

    fn take(&mut self, index: u64, fragment: Fragment) -> Result<(), &'static str> {
        if let Some(part) = self.reassembly.continue_partial(index, &fragment)? {
            let rest = self.reassembly.following(index)?;
            self.delivery.partial(part);
            if let Some(part) = rest {
                self.delivery.partial(part);
            }
        } else {
            let cumulative = self.tsns.cumulative_index();
            match self.reassembly.insert(index, fragment, cumulative)? {
                Some(message) if self.delivery.is_passed(&message, cumulative) => {
                    self.delivery.hand_over(message);
                }
                Some(message) => self.delivery.complete(message)?,
                None => {}
            }
        }
        self.give_up_unfinished();
        self.deliver_partially();
        Ok(())
    }

    /// Makes sure that a new chunk may be kept. When the buffer is full, only a chunk that fills a
    /// gap is, in exchange for the highest ones held (section 6.2).
    fn make_room(&mut self, index: u64) -> bool {
        while self.buffer.is_full() {
            if index > self.tsns.highest() {
                return false;
            }
            let Some(dropped) = self.drop_highest(index) else {
                return false;
            };
            self.buffer.remove(dropped);
        }
        true
    }

    /// Gives up the highest message or piece of one that is not acknowledged cumulatively and lies
    /// above `index`; returns what that frees.
    fn drop_highest(&mut self, index: u64) -> Option<Cost> {
        let floor = self.tsns.cumulative_index().max(index);
        if let Some(interleaved) = &mut self.interleaved {
            let (dropped, cost) = interleaved.drop_highest(floor)?;
            self.tsns.forget(dropped, dropped);
            return Some(cost);
        }
        let in_pieces = self.reassembly.highest_first_index();
        let complete = self.delivery.highest_first_index();
        let (first, last, cost) = if in_pieces >= complete {
            self.reassembly.drop_highest(floor)
        } else {
            self.delivery.drop_highest(floor)
        }?;
        self.tsns.forget(first, last);
        Some(cost)
    }

    /// When the buffer runs out while the user has nothing to read, gives it the beginning of the
    /// message that fills the buffer (section 6.9).
    fn deliver_partially(&mut self) {
        if !self.delivery.is_empty() || !self.buffer.is_nearly_full() {
            return;
        }
        if let Some(interleaved) = &mut self.interleaved {
            let cumulative = self.tsns.cumulative_index();
            interleaved.begin_partial(self.inbound_streams, cumulative, &mut self.delivery);
        } else if let Some(part) = self
            .reassembly
            .begin_partial(self.tsns.cumulative_index(), &self.delivery)
        {
            self.delivery.partial(part);
        }
    }

    /// All chunks of a packet with DATA have been given to [`Self::on_data`]. The round-trip time is
    /// that of the path for data, if it is known.
    pub(crate) fn on_packet_end(&mut self, now: Time, rtt: Option<Duration>) {
        self.ack.on_packet_end(now);
        if let Some(autotune) = &mut self.autotune
            && let Some(capacity) = autotune.on_packet_end(now, rtt, self.buffer.window())
        {
            self.buffer.grow(capacity);
        }
        if let Some(autotune) = &self.autotune
            && self.tsns.has_gaps()
            && self.delivery.is_empty()
            && let Some(capacity) = autotune.on_waiting(self.buffer.memory())
        {
            self.buffer.grow(capacity);
        }
    }

    /// Every further packet with DATA is acknowledged at once (section 9.2, SHUTDOWN-SENT).
    pub(crate) fn acknowledge_now(&mut self) {
        self.ack.now();
    }

    /// The next message, or the next part of one.
    pub(crate) fn receive(&mut self) -> Option<Message> {
        let message = self.delivery.pop().or_else(|| {
            self.deliver_partially();
            self.delivery.pop()
        })?;
        self.buffer.remove(message.cost());
        if let Some(autotune) = &mut self.autotune {
            autotune.on_taken(self.buffer.bytes(message.cost()));
        }
        if self.buffer.wants_update() {
            self.ack.now();
        }
        Some(message)
    }

    /// Whether [`Self::receive`] has something that the user has not been told of.
    pub(crate) fn take_news(&mut self) -> bool {
        self.delivery.take_news()
    }

    pub(crate) fn receivable(&self) -> usize {
        self.delivery.len()
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffer.memory()
    }

    /// Bytes of user data and of the state of streams.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.buffer.charged()
    }

    /// Returns whether the state of these streams may be kept; the flag is set for unordered messages
    /// that are skipped. Only a stream in a page that is not there yet takes more.
    fn has_room_for_state(&self, mut streams: impl Iterator<Item = (StreamId, bool)>) -> bool {
        !self.buffer.limits_streams()
            || streams.all(|(stream, unordered)| match &self.interleaved {
                Some(interleaved) => interleaved.has_page(stream, unordered),
                None => self.delivery.next.has_page(stream),
            })
    }

    /// Sets the bytes up to which user data and state of streams may grow, if less than the receive
    /// buffer.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.buffer.set_limit(limit);
    }

    pub(crate) fn a_rwnd(&self) -> usize {
        self.buffer.window()
    }

    /// A SACK is to be sent now.
    pub(crate) fn sack_is_due(&self) -> bool {
        self.ack.is_due()
    }

    /// The SACK that is due tells the peer of new data above a gap.
    pub(crate) fn sack_is_missing_report(&self) -> bool {
        self.ack.is_missing_report() && self.tsns.has_gaps()
    }

    /// There is something to acknowledge, now or later.
    pub(crate) fn sack_is_pending(&self) -> bool {
        self.ack.is_pending()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.ack.deadline()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.ack.handle_timeout(now);
    }

    pub(crate) fn cumulative_tsn(&self) -> Tsn {
        self.tsns.cumulative()
    }

    pub(crate) fn has_gaps(&self) -> bool {
        self.tsns.has_gaps()
    }

    pub(crate) fn has_duplicates(&self) -> bool {
        !self.tsns.duplicates().is_empty()
    }

    pub(crate) fn gap_count(&self) -> usize {
        self.tsns.gap_count()
    }

    pub(crate) fn gap_ack_blocks(&self) -> impl Iterator<Item = GapAckBlock> + '_ {
        self.tsns.gap_ack_blocks()
    }

    pub(crate) fn duplicates(&self) -> impl Iterator<Item = Tsn> + '_ {
        self.tsns.duplicates().iter().copied()
    }

    /// A SACK left; returns nothing more is pending.
    pub(crate) fn sack_sent(&mut self) {
        self.ack.sent();
        self.tsns.clear_duplicates();
        self.buffer.announced();
    }
}

fn sources(config: &AssociationConfig) -> Option<Box<Sources>> {
    let delayed = config.policies.multipath.gap_sacks == GapSacks::DelayedAcrossPaths;
    delayed.then(Box::default)
}

/// Data of the peer may come over several paths at once.
fn across_paths(config: &AssociationConfig) -> bool {
    config.policies.multipath.data_route.concurrent()
}

fn outcome(taken: Result<(), &'static str>) -> DataOutcome {
    taken.map_or_else(DataOutcome::Violation, |()| DataOutcome::Accepted)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod interleaved_tests;

#[cfg(test)]
mod release_tests;

#[cfg(test)]
mod stream_tests;
