//! The receiving half of an association: TSNs received, SACK generation, the receive buffer,
//! reassembly and delivery (RFC 9260, sections 6.2, 6.5, 6.6, 6.7 and 6.9; RFC 8260 for I-DATA).
//!
//! # Reception of a DATA or I-DATA chunk
//!
//! 1. Classify the TSN: new, duplicate, or too far ahead for a Gap Ack Block (RFC 9260, sections 3.3.4
//!    and 6.2).
//! 2. Discard data on a stream that does not exist, and acknowledge it (RFC 9260, section 6.5).
//! 3. Check that the receive buffer has space; a chunk that fills a gap displaces the highest TSNs
//!    (RFC 9260, section 6.2).
//! 4. Record the TSN, and whether a SACK is due (RFC 9260, sections 6.2 and 6.7).
//! 5. Put the payload into the receive buffer (RFC 9260, section 6.2, B).
//! 6. Reassemble the message: DATA by consecutive TSNs (RFC 9260, section 6.9), I-DATA by stream, U bit,
//!    MID and FSN (RFC 8260, section 2.2.3).
//! 7. Deliver complete messages in the order of their stream, or at once if unordered (RFC 9260,
//!    section 6.6).
//! 8. If the buffer runs full, begin partial delivery (RFC 9260, section 6.9).

mod autotune;
mod block_queue;
mod buffer;
mod delivery;
mod delivery_queue;
mod forward;
mod interleaved;
pub(crate) mod message;
mod payload_pool;
mod reassembly;
mod reset;
mod sack;
mod tsn_map;
mod unfinished;
mod window_announcement;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use carrick_wire::{Data, IData, Ppid, StreamId, Tsn};

use crate::config::AssociationConfig;
use crate::time::Time;
use autotune::Autotune;
pub(crate) use buffer::MIN_RECEIVE;
use buffer::{Cost, ReceiveBuffer};
use delivery::Delivery;
pub(crate) use forward::AbortedMessage;
use interleaved::Interleaved;
use message::Message;
pub use payload_pool::DATAGRAMS_PER_ALLOCATION;
use payload_pool::PayloadPool;
use reassembly::{DataFragment, Reassembly};
use sack::SackGenerator;
use tsn_map::{TsnMap, TsnStatus};

/// Number of gaps up to which DATA on a stream that does not exist is acknowledged above the
/// cumulative TSN. Such DATA takes no space in the receive buffer, which bounds the gaps of other DATA.
const MAX_DISCARDED_GAPS: usize = 1024;

/// Result of receiving a DATA or I-DATA chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DataOutcome {
    /// New, and in the receive buffer.
    Accepted,
    /// Received before.
    Duplicate,
    /// New, but dropped because the buffer is full; not acknowledged.
    Dropped,
    /// On a stream that does not exist: acknowledged and discarded (RFC 9260, section 6.5).
    InvalidStream(StreamId),
    /// Protocol violation in fragmentation or numbering.
    Violation(&'static str),
}

/// State of the receiving half of an association.
#[derive(Debug)]
pub(crate) struct Receiver {
    tsns: TsnMap,
    sack: SackGenerator,
    buffer: ReceiveBuffer,
    payloads: PayloadPool,
    reassembly: Reassembly,
    delivery: Delivery,
    /// Replaces `reassembly` if I-DATA was negotiated (RFC 8260, section 2.2).
    interleaved: Option<Box<Interleaved>>,
    inbound_streams: u16,
    /// Present if the buffer may grow.
    autotune: Option<Box<Autotune>>,
    /// Partial deliveries that were aborted and not notified yet.
    aborted: Vec<AbortedMessage>,
}

portable_struct! {
    Receiver {
        tsns, sack, buffer, payloads, reassembly, delivery, interleaved, inbound_streams, autotune,
        aborted,
    }
}

impl Receiver {
    #[expect(
        clippy::inline_always,
        reason = "built in the association, not copied into it"
    )]
    #[inline(always)]
    pub(crate) fn new(
        peer_initial_tsn: Tsn,
        inbound_streams: u16,
        interleaving: bool,
        config: &AssociationConfig,
    ) -> Self {
        Self {
            tsns: TsnMap::new(peer_initial_tsn),
            sack: SackGenerator::new(config),
            buffer: ReceiveBuffer::new(config),
            payloads: PayloadPool::default(),
            reassembly: Reassembly::default(),
            delivery: Delivery::default(),
            interleaved: interleaving.then(Box::default),
            inbound_streams,
            autotune: config
                .buffers
                .max_receive_buffer
                .filter(|max| *max > config.buffers.receive_buffer)
                .map(|max| Box::new(Autotune::new(max))),
            aborted: Vec::new(),
        }
    }

    /// Applies the values of the peer's INIT or INIT ACK. Nothing has been received before.
    pub(crate) fn negotiated(
        &mut self,
        peer_initial_tsn: Tsn,
        inbound_streams: u16,
        interleaving: bool,
    ) {
        self.tsns = TsnMap::new(peer_initial_tsn);
        self.inbound_streams = inbound_streams;
        self.interleaved = interleaving.then(Box::default);
    }

    /// Sets the delay and frequency of SACKs.
    pub(crate) fn set_sack_timing(&mut self, config: &AssociationConfig) {
        self.sack.set_timing(config);
    }

    /// Starts over after a restart of the peer (RFC 9260, section 5.2): complete messages remain for the
    /// user, incomplete ones are discarded.
    pub(crate) fn restart(
        &mut self,
        peer_initial_tsn: Tsn,
        inbound_streams: u16,
        interleaving: bool,
        config: &AssociationConfig,
    ) {
        self.tsns = TsnMap::new(peer_initial_tsn);
        self.sack = SackGenerator::new(config);
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
        self.delivery.track_non_renegable(false);
        self.inbound_streams = inbound_streams;
        self.count_streams();
    }

    pub(crate) fn inbound_streams(&self) -> u16 {
        self.inbound_streams
    }

    /// Enables NR-SACK, which the peer accepts, or disables it.
    pub(crate) fn set_nr_sack(&mut self, on: bool) {
        self.delivery.track_non_renegable(on);
    }

    /// Processes a DATA chunk; `datagram` is what `data` was parsed from.
    pub(crate) fn on_data(&mut self, data: &Data<'_>, datagram: &Bytes) -> DataOutcome {
        let index = match self.record_arrival(data.tsn, data.stream, data.flags.immediate) {
            Ok(index) => index,
            Err(outcome) => return outcome,
        };
        let fragment = DataFragment::new(data, self.buffer_payload(data.payload, datagram));
        let result = self.reassemble(index, fragment);
        self.count_streams();
        outcome(result)
    }

    /// Processes an I-DATA chunk; `datagram` is what `data` was parsed from.
    pub(crate) fn on_i_data(&mut self, data: &IData<'_>, datagram: &Bytes) -> DataOutcome {
        let header = &data.header;
        let index = match self.record_arrival(header.tsn, header.stream, header.immediate) {
            Ok(index) => index,
            Err(outcome) => return outcome,
        };
        let payload = self.buffer_payload(data.payload, datagram);
        let delivery = &mut self.delivery;
        let deferred = delivery.is_deferred(index, header.stream);
        // Steps 6 and 7.
        let result = match &mut self.interleaved {
            Some(all) if deferred && !all.continues_message(header) => {
                all.defer(index, *header, payload);
                Ok(())
            }
            Some(all) => all.insert(index, header, payload, delivery),
            None => Err("I-DATA without interleaving"),
        };
        self.account_for_discarded();
        // Step 8.
        self.deliver_partially();
        self.count_streams();
        outcome(result)
    }

    /// Updates the memory of stream state, which counts in the window.
    fn count_streams(&mut self) {
        let interleaved = self.interleaved.as_ref();
        let interleaved = interleaved.map_or(0, |all| all.stream_memory());
        let streams = self.delivery.stream_memory() + interleaved;
        self.buffer.set_streams(streams);
    }

    /// Performs steps 1 to 4 of the reception; returns the index of the TSN if the chunk is to be kept.
    fn record_arrival(
        &mut self,
        tsn: Tsn,
        stream: StreamId,
        immediate: bool,
    ) -> Result<u64, DataOutcome> {
        self.sack.on_chunk(immediate);
        // Step 1.
        let index = match self.tsns.classify(tsn) {
            TsnStatus::New(index) => index,
            TsnStatus::Duplicate => {
                self.sack.on_duplicate(tsn);
                return Err(DataOutcome::Duplicate);
            }
            TsnStatus::BeyondGapAckRange => {
                self.sack.on_dropped();
                return Err(DataOutcome::Dropped);
            }
        };
        // Step 2.
        if stream.0 >= self.inbound_streams {
            let next = self.tsns.cumulative_index() + 1;
            if index != next && self.tsns.gap_count() >= MAX_DISCARDED_GAPS {
                self.sack.on_dropped();
                return Err(DataOutcome::Dropped);
            }
            self.tsns.insert(index);
            self.sack.on_discarded();
            self.discard_unfinished();
            return Err(DataOutcome::InvalidStream(stream));
        }
        // Step 3.
        if !self.has_room_for_state(core::iter::once((stream, false))) || !self.renege_for(index) {
            self.sack.on_dropped();
            return Err(DataOutcome::Dropped);
        }
        // Step 4.
        let had_gaps = self.tsns.has_gaps();
        self.tsns.insert(index);
        self.sack.on_new(index, had_gaps, &self.tsns);
        self.delivery.set_cumulative(self.tsns.cumulative_index());
        Ok(index)
    }

    /// Puts the payload of a chunk into the receive buffer (step 5 of the reception).
    fn buffer_payload(&mut self, payload: &[u8], datagram: &Bytes) -> Bytes {
        let len = payload.len();
        self.buffer.add(len);
        if let Some(autotune) = &mut self.autotune {
            autotune.on_arrived(len);
        }
        let counted = self.buffer.bytes(Cost::one(len));
        self.payloads.retain(payload, counted, datagram)
    }

    /// Performs steps 6 to 8 of the reception of a DATA chunk.
    fn reassemble(&mut self, index: u64, fragment: DataFragment) -> Result<(), &'static str> {
        // Steps 6 and 7.
        if let Some(part) = self.reassembly.continue_partial(index, &fragment)? {
            let rest = self.reassembly.following(index)?;
            self.delivery.deliver_part(part);
            if let Some(part) = rest {
                self.delivery.deliver_part(part);
            }
        } else {
            let cumulative = self.tsns.cumulative_index();
            match self.reassembly.insert(index, fragment, cumulative)? {
                Some(message) if self.delivery.is_passed(&message, cumulative) => {
                    self.delivery.deliver(message);
                }
                Some(message) => self.delivery.on_complete(message)?,
                None => {}
            }
        }
        self.discard_unfinished();
        // Step 8.
        self.deliver_partially();
        Ok(())
    }

    /// Returns whether the buffer has space for the chunk of this index. If the buffer is full, a chunk
    /// that fills a gap gets the space of the highest ones, which may have been acknowledged by Gap Ack
    /// Blocks (RFC 9260, section 6.2).
    fn renege_for(&mut self, index: u64) -> bool {
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

    /// Drops the highest message, or run of fragments, that is above `index` and the cumulative TSN;
    /// returns the buffer space that it took.
    fn drop_highest(&mut self, index: u64) -> Option<Cost> {
        let floor = self.tsns.cumulative_index().max(index);
        if let Some(interleaved) = &mut self.interleaved {
            let (dropped, cost) = interleaved.drop_highest(floor)?;
            self.tsns.renege(dropped, dropped);
            return Some(cost);
        }
        let in_pieces = self.reassembly.highest_first_index();
        let complete = self.delivery.highest_first_index();
        let (first, last, cost) = if in_pieces >= complete {
            self.reassembly.drop_highest(floor)
        } else {
            self.delivery.drop_highest(floor)
        }?;
        self.tsns.renege(first, last);
        Some(cost)
    }

    /// Begins the partial delivery of the message that fills the buffer, if the user has nothing to
    /// read (RFC 9260, section 6.9).
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
            self.delivery.deliver_part(part);
        }
    }

    /// Ends the processing of a packet with DATA or FORWARD-TSN. `rtt` is the round-trip time of the path
    /// for data, if known.
    pub(crate) fn on_packet_end(&mut self, now: Time, rtt: Option<Duration>) {
        self.sack.on_packet_end(now);
        if let Some(autotune) = &mut self.autotune
            && let Some(capacity) = autotune.on_packet_end(now, rtt, self.buffer.window())
        {
            self.buffer.grow(capacity);
        }
        if let Some(autotune) = &self.autotune
            && self.tsns.has_gaps()
            && self.delivery.is_empty()
        {
            self.buffer.grow(autotune.on_waiting(self.buffer.memory()));
        }
    }

    /// Returns the next message, or the next part of one.
    pub(crate) fn receive(&mut self) -> Option<Message> {
        let message = self.delivery.pop().or_else(|| {
            self.deliver_partially();
            self.delivery.pop()
        })?;
        self.on_taken(&message);
        Some(message)
    }

    /// Delivers the messages of this payload protocol identifier to the key management ([`Self::take_key_message`]).
    pub(crate) fn set_key_management(&mut self, ppid: Option<Ppid>) {
        self.delivery.set_key_management(ppid);
    }

    /// Returns the next message for the key management, or the next part of one.
    pub(crate) fn take_key_message(&mut self) -> Option<Message> {
        let message = self.delivery.pop_key_message()?;
        self.on_taken(&message);
        Some(message)
    }

    /// Updates the receive buffer after a message was taken.
    fn on_taken(&mut self, message: &Message) {
        self.buffer.remove(message.cost());
        if let Some(autotune) = &mut self.autotune {
            autotune.on_taken(self.buffer.bytes(message.cost()));
        }
        if self.buffer.wants_update() {
            self.sack.on_window_update();
        }
    }

    /// Frees the memory for further data.
    pub(crate) fn free_unused_memory(&mut self) {
        self.tsns.free_unused_memory();
        self.sack.free_unused_memory();
        self.payloads = PayloadPool::default();
        self.reassembly.free_unused_memory();
        self.delivery.free_unused_memory();
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.free_unused_memory();
        }
        self.aborted.shrink_to_fit();
    }

    /// Returns once whether the user is to be notified that [`Self::receive`] has a message.
    pub(crate) fn take_notification(&mut self) -> bool {
        self.delivery.take_notification()
    }

    pub(crate) fn receivable(&self) -> usize {
        self.delivery.len()
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffer.memory()
    }

    /// Returns the bytes of user data and of stream state.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.buffer.charged()
    }

    /// Returns whether there is memory for the state of these streams; the flag is set for unordered
    /// messages that are skipped. Only a stream in a page that does not exist yet takes memory.
    fn has_room_for_state(&self, mut streams: impl Iterator<Item = (StreamId, bool)>) -> bool {
        !self.buffer.limits_streams()
            || streams.all(|(stream, unordered)| match &self.interleaved {
                Some(interleaved) => interleaved.has_page(stream, unordered),
                None => self.delivery.next.has_page(stream),
            })
    }

    /// Limits user data and stream state to this many bytes, if the receive buffer is larger.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.buffer.set_limit(limit);
    }

    pub(crate) fn a_rwnd(&self) -> usize {
        self.buffer.window()
    }

    pub(crate) fn cumulative_tsn(&self) -> Tsn {
        self.tsns.cumulative()
    }

    pub(crate) fn has_gaps(&self) -> bool {
        self.tsns.has_gaps()
    }

    pub(crate) fn gap_count(&self) -> usize {
        self.tsns.gap_count()
    }
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
