//! Data sender of an association (RFC 9260, sections 6.1, 6.2.1, 6.3, 6.9 and 7).
//!
//! - `queue`, `scheduler`: messages that wait, and the stream that is served next
//! - `packet_plan`, `assemble`: the next packet of DATA, and its chunks
//! - `outstanding`: chunks that were sent
//! - `sack_processing`, `acknowledge`: received SACKs
//! - `loss`, `recovery`: detection of losses, and the response
//! - `t3_expiry`, `path_changes`: retransmission of all chunks of a path
//! - `abandonment`: partial reliability
//! - `multipath`: concurrent multipath transfer

mod abandonment;
mod acknowledge;
mod assemble;
mod data_route;
mod loss;
pub(crate) mod message;
mod multipath;
mod outstanding;
mod packet_plan;
mod path_changes;
mod peer_window;
mod queue;
mod recovery;
mod reneging_limiter;
mod retransmission_route;
mod sack_processing;
pub(crate) mod scheduler;
mod send_failure;
mod t3_expiry;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{DATA_HEADER_LEN, I_DATA_HEADER_LEN, Ppid, StreamId, Tsn};

use crate::config::AssociationConfig;
use crate::error::SendError;
use crate::event::SendFailure;
use crate::extensions::Extensions;
use crate::observer::Observation;
use crate::path::{PathId, Paths};
use crate::research::WindowGrowth;
use crate::stream_set::StreamSet;
use crate::time::{Time, earliest};
use abandonment::Abandonment;
use loss::LossDetector;
use message::{PendingMessage, SendOptions};
use multipath::Multipath;
use outstanding::Outstanding;
use peer_window::PeerWindow;
use queue::SendQueue;
use reneging_limiter::RenegingLimiter;
use send_failure::FailureBuilder;

pub(crate) use loss::LossSignal;
pub(crate) use packet_plan::DataPacketPlan;
pub(crate) use packet_plan::TransmitContext;
pub(crate) use sack_processing::{Acked, SackContext, SackError};

/// Limit of the chunks outstanding: Gap Ack Blocks reach 65,535 TSNs above the cumulative one.
const MAX_OUTSTANDING: usize = 65_000;

/// Limit of the ordered messages in the send window (RFC 9260, section 6.1).
const MAX_MESSAGES: usize = 65_535;

/// Data sender of an association.
#[derive(Debug)]
pub(crate) struct Sender {
    queue: SendQueue,
    outstanding: Outstanding,
    window: PeerWindow,
    detector: LossDetector,
    multipath: Multipath,
    /// The next chunk is the first of its packet.
    next_is_first: bool,
    /// Index up to which the last SACK had room to report all that had arrived.
    complete_up_to: u64,
    /// Congestion control is rate-based: packets are recorded, and may be paced.
    rate_based: bool,
    /// Earliest departure of data that waits for pacing.
    departure: Option<Time>,
    /// The tail loss probe of some path is due.
    probe_due: bool,
    /// The packet being assembled is a tail loss probe.
    probing: bool,
    abandonment: Abandonment,
    reneging: RenegingLimiter,
    /// User data is carried in I-DATA chunks instead of DATA chunks (RFC 8260, section 2.2).
    interleaving: bool,
    /// One packet of retransmissions may leave whatever cwnd is (RFC 9260, section 6.3.3, E3, and
    /// section 7.2.4, step 3).
    forced: bool,
    /// A message was refused, and the user is notified when there is room.
    refused: bool,
    /// Time of the last progress of acknowledgements, or of the first data after an idle time.
    progress: Time,
    /// The user has been notified of the empty send buffer.
    drained: bool,
}

portable_struct! {
    Sender {
        queue, outstanding, window, detector, multipath, next_is_first, complete_up_to, rate_based,
        departure, probe_due, probing, abandonment, reneging, interleaving, forced, refused,
        progress, drained,
    }
}

impl Sender {
    /// Returns whether the parts of an import agree: all send DATA or all I-DATA, and the records about
    /// outstanding chunks in the paths are possible.
    pub(crate) fn is_consistent_with(&self, paths: &Paths) -> bool {
        let kinds_agree = self.outstanding.header_len() == header_len(self.interleaving)
            && self.queue.has_interleaving(self.interleaving);
        kinds_agree
            && paths.iter().all(|path| {
                path.flight().chunks() as usize <= self.outstanding.len()
                    && self.outstanding.order_ends(path.recovery().oldest())
            })
    }

    #[expect(
        clippy::inline_always,
        reason = "built in the association, not copied into it"
    )]
    #[inline(always)]
    pub(crate) fn new(initial_tsn: Tsn, config: &AssociationConfig) -> Self {
        let policies = &config.research.policies;
        let detector = LossDetector::new(policies);
        let multipath = Multipath::new(policies);
        let pseudo_cumulative = policies.multipath.window_growth == WindowGrowth::PseudoCumulative;
        let repeated = policies.repeated_fast_retransmit;
        let tracking = detector.tracking(multipath.is_concurrent(), pseudo_cumulative, repeated);
        Self {
            queue: SendQueue::new(config.streams.outbound_streams, config.streams.scheduler),
            outstanding: Outstanding::new(initial_tsn, policies.count_data_header, tracking),
            window: PeerWindow::new(0),
            detector,
            multipath,
            next_is_first: false,
            complete_up_to: u64::MAX,
            rate_based: policies.congestion.is_rate_based(),
            departure: None,
            probe_due: false,
            probing: false,
            abandonment: Abandonment::default(),
            reneging: RenegingLimiter::default(),
            interleaving: false,
            forced: false,
            refused: false,
            progress: Time::ZERO,
            drained: true,
        }
    }

    /// Applies the values of the peer's INIT or INIT ACK. Returns the queued messages of streams that the
    /// peer does not accept (RFC 9260, section 5.1.1).
    pub(crate) fn negotiated(
        &mut self,
        a_rwnd: u32,
        outbound_streams: u16,
        extensions: Extensions,
    ) -> Vec<SendFailure> {
        self.window = PeerWindow::new(a_rwnd);
        self.set_extensions(extensions);
        self.queue
            .limit_streams(outbound_streams)
            .into_iter()
            .map(|pending| {
                self.abandonment.forget(pending.number);
                let mut failure = FailureBuilder::for_pending(&pending);
                failure.append_unsent(pending.rest);
                failure.build()
            })
            .collect()
    }

    /// Sets the negotiated extensions: whether user data is carried in I-DATA chunks (RFC 8260, section
    /// 2.2.1), and whether messages that were begun may be abandoned (RFC 3758, section 3.3).
    pub(crate) fn set_extensions(&mut self, extensions: Extensions) {
        let interleaving = extensions.interleaving;
        self.abandonment.set_extensions(extensions);
        self.interleaving = interleaving;
        self.queue.set_interleaving(interleaving);
        self.outstanding.set_header_len(header_len(interleaving));
    }

    /// Starts again after a restart of the peer. Returns the messages that are not acknowledged.
    pub(crate) fn restart(
        &mut self,
        initial_tsn: Tsn,
        config: &AssociationConfig,
        paths: &mut Paths,
    ) -> Vec<SendFailure> {
        let failures = self.take_failures();
        for path in paths.iter_mut() {
            path.forget_chunks();
        }
        let new = Self::new(initial_tsn, config);
        let mut old = core::mem::replace(self, new);
        self.refused = old.refused;
        self.abandonment = old.abandonment.restart();
        self.queue = old.queue;
        self.queue.restart(config.streams.outbound_streams);
        failures
    }

    /// Returns the messages that wait, and their streams.
    pub(crate) fn queue(&self) -> &SendQueue {
        &self.queue
    }

    pub(crate) fn queue_mut(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    /// Queues a message.
    pub(crate) fn send(
        &mut self,
        options: SendOptions,
        data: Bytes,
        now: Time,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) -> Result<(), SendError> {
        if data.is_empty() {
            return Err(SendError::Empty);
        }
        let streams = self.queue.outbound_streams();
        if options.stream.0 >= streams {
            return Err(SendError::InvalidStream { streams });
        }
        if options.path.is_some_and(|p| !paths.contains(p)) {
            return Err(SendError::UnknownPath);
        }
        let limit = self.max_payload(paths, config);
        if !config.mtu.fragment && data.len() > limit {
            return Err(SendError::TooLarge { limit });
        }
        let needed = data.len();
        if !self.has_room(needed, paths, config)
            && !self.make_room(needed, options.reliability, now, paths, config)
        {
            self.refused = true;
            return Err(SendError::BufferFull);
        }
        let number = self.abandonment.add(&options, needed, now);
        self.queue.push(PendingMessage::new(number, options, data));
        self.drained = false;
        Ok(())
    }

    /// Queues a message of the key management of the chunk protection, also while messages of the user are
    /// deferred, and beyond the send buffer: they are few, and bounded.
    pub(crate) fn send_key_message(&mut self, ppid: Ppid, data: Bytes) {
        let options = SendOptions {
            ppid,
            immediate: true,
            no_delay: true,
            ..SendOptions::default()
        };
        self.queue
            .push_undeferred(PendingMessage::new(0, options, data));
    }

    /// Returns whether there is room for a message of one byte. If not, [`Self::take_room`] reports room
    /// once, as after a refused message.
    pub(crate) fn check_room(&mut self, paths: &Paths, config: &AssociationConfig) -> bool {
        let has_room = self.has_room(1, paths, config);
        self.refused |= !has_room;
        has_room
    }

    fn has_room(&self, bytes: usize, paths: &Paths, config: &AssociationConfig) -> bool {
        let held = self.buffered_bytes();
        let messages = self.queued_messages() + self.outstanding.messages();
        messages < config.buffers.send_buffer_messages.min(MAX_MESSAGES)
            && (held == 0 || held + bytes <= self.send_buffer(paths, config))
    }

    /// Size of the send buffer in bytes. If it may grow, bytes that the peer has, and that wait for a
    /// retransmission or for data of a slower path, take no room from further data.
    pub(super) fn send_buffer(&self, paths: &Paths, config: &AssociationConfig) -> usize {
        let size = send_buffer(paths, config);
        match config.buffers.max_send_buffer {
            Some(max) => {
                let (held, flight) = (self.outstanding.held(), self.outstanding.in_flight());
                let delivered = held.saturating_sub(flight);
                size.saturating_add(2 * delivered).min(max).max(size)
            }
            None => size,
        }
    }

    /// Returns once whether a user whose message was refused can send again: half of the buffer is free.
    pub(crate) fn take_room(&mut self, paths: &Paths, config: &AssociationConfig) -> bool {
        if !self.refused {
            return false;
        }
        let has_room = self.buffered_bytes() <= self.send_buffer(paths, config) / 2
            && self.queued_messages() + self.outstanding.messages()
                <= config.buffers.send_buffer_messages.min(MAX_MESSAGES) / 2;
        has_room && core::mem::take(&mut self.refused)
    }

    /// Returns once whether everything sent is acknowledged.
    pub(crate) fn take_drained(&mut self) -> bool {
        self.is_drained() && !core::mem::replace(&mut self.drained, true)
    }

    /// Returns whether no message waits and none is unacknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.total_len() == 0 && self.outstanding.is_empty()
    }

    /// Frees the memory for further messages and chunks, and for what is known of delivered ones, if there are none.
    pub(crate) fn free_unused_memory(&mut self, now: Time, paths: &mut Paths) {
        if self.is_drained() {
            self.queue.free_unused_memory();
            self.outstanding.free_unused_memory();
            self.detector.free_unused_memory();
            for path in paths.iter_mut() {
                path.free_unused_memory(now);
            }
        }
    }

    /// Returns whether no message waits, and each chunk is acknowledged cumulatively, is abandoned (RFC 3758,
    /// section 3.5, A2) or is acknowledged as non-renegable.
    pub(crate) fn is_finished(&self) -> bool {
        self.queue.total_len() == 0 && self.outstanding.is_finished()
    }

    /// Returns whether the peer has acknowledged any data.
    pub(crate) fn was_acknowledged(&self) -> bool {
        self.outstanding.was_acknowledged()
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.queue.total_bytes() + self.outstanding.held()
    }

    pub(crate) fn queued_messages(&self) -> usize {
        self.queue.total_len()
    }

    pub(crate) fn has_outstanding_data(&self) -> bool {
        self.outstanding_chunks() > 0
    }

    pub(crate) fn outstanding_chunks(&self) -> usize {
        self.outstanding.len()
    }

    pub(crate) fn outstanding_bytes(&self) -> usize {
        self.outstanding.in_flight()
    }

    /// Highest TSN that was sent, if any.
    pub(crate) fn last_sent(&self) -> Option<Tsn> {
        let next = self.outstanding.next_index();
        (next > 1).then(|| self.outstanding.tsn(next - 1))
    }

    /// Reduces the window of the path that this TSN was sent to, or of path `otherwise`, as after a loss,
    /// because its packet was marked (ECN). Returns whether it did: not during Fast Recovery, and not a
    /// window below the minimum of a reduction (RFC 9260, section 7.2.3).
    pub(crate) fn reduce_for_mark(
        &mut self,
        tsn: Tsn,
        otherwise: PathId,
        now: Time,
        paths: &mut Paths,
        observation: &Observation,
    ) -> bool {
        let index = self.outstanding.index_of(tsn);
        let chunk = index.and_then(|index| self.outstanding.chunk(index));
        let id = chunk.map_or(otherwise, |c| c.path);
        let path = &mut paths[id];
        let reduced = self.detector.is_in_fast_recovery() || path.recovery().is_fast();
        if reduced || path.congestion().window() <= 4 * path.pmdcs() {
            return false;
        }
        self.update_coupled_windows(id, paths);
        let path = &mut paths[id];
        path.reduce_for_mark();
        observation.record_chunk(now, || sack_processing::window_event(path));
        true
    }

    /// Expiry of the window probe timer, lifetime of a message, or departure of data that waits for pacing.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let next = earliest(self.window.next_timeout(), self.abandonment.next_deadline());
        if self.rate_based {
            return earliest(next, self.departure);
        }
        next
    }

    /// Handles the expiry of the window probe timer, and departures: data may leave again.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.window.handle_timeout(now);
        self.departure = self.departure.filter(|at| *at > now);
    }

    pub(crate) fn rwnd(&self) -> usize {
        self.window.rwnd()
    }

    /// Time since which data is outstanding and nothing was acknowledged; `None` while the peer's window
    /// is closed.
    pub(crate) fn stalled_since(&self) -> Option<Time> {
        let open = self.window.rwnd() > 0 && !self.window.is_probing();
        (!self.outstanding.is_empty() && open).then_some(self.progress)
    }

    /// Empties the send buffer; returns the messages that are not acknowledged, for SEND FAILURE.
    pub(crate) fn take_failures(&mut self) -> Vec<SendFailure> {
        let mut failures = self.take_abandoned();
        self.abandonment.clear();
        // With interleaving, several messages may have been begun.
        let mut open: BTreeMap<(StreamId, bool, u32), FailureBuilder> = BTreeMap::new();
        while let Some(chunk) = self.outstanding.pop_front() {
            if chunk.is_abandoned() {
                continue;
            }
            let message = (chunk.stream, chunk.flags.unordered, chunk.mid.value());
            if chunk.is_non_renegable() {
                // Delivered, but the rest of its message may not be.
                if let Some(failure_builder) = open.get_mut(&message) {
                    failure_builder.append_delivered(chunk.len());
                }
            } else {
                let failure_builder = open.entry(message);
                failure_builder
                    .or_insert_with(|| FailureBuilder::for_chunk(&chunk))
                    .append_unsent(chunk.payload);
            }
            if chunk.flags.ending {
                failures.extend(open.remove(&message).map(FailureBuilder::build));
            }
        }
        for pending in self.queue.take_all() {
            let options = pending.options;
            let message = (options.stream, options.unordered, pending.mid.value());
            let begun = pending.begun.then(|| open.remove(&message)).flatten();
            let mut failure_builder =
                begun.unwrap_or_else(|| FailureBuilder::for_pending(&pending));
            failure_builder.append_unsent(pending.rest);
            failures.push(failure_builder.build());
        }
        failures.extend(open.into_values().map(FailureBuilder::build));
        failures
    }

    /// Largest payload of one chunk.
    fn max_payload(&self, paths: &Paths, config: &AssociationConfig) -> usize {
        let fits = paths.amdcs().saturating_sub(self.outstanding.header_len());
        config.mtu.max_payload.map_or(fits, |p| p.min(fits)).max(1)
    }

    /// Index of the next new chunk, below which are all chunks of these streams; `None` while messages
    /// for the streams are queued and not deferred.
    pub(crate) fn sent_below(&self, streams: &StreamSet) -> Option<u64> {
        (!self.queue.has_any(streams)).then(|| self.outstanding.next_index())
    }

    /// Returns whether all chunks below this index are acknowledged cumulatively.
    pub(crate) fn is_acknowledged_below(&self, index: u64) -> bool {
        self.outstanding.first_index() >= index
    }

    /// Returns whether all messages that are not deferred are acknowledged.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty() && self.outstanding.is_empty()
    }

    /// Index of [`Self::last_tsn`], which never wraps.
    pub(crate) fn last_index(&self) -> u64 {
        self.outstanding.next_index() - 1
    }

    /// Last TSN that was assigned.
    pub(crate) fn last_tsn(&self) -> Tsn {
        self.outstanding.tsn(self.outstanding.next_index() - 1)
    }

    /// Continues with this TSN. No chunk is outstanding.
    pub(crate) fn renumber(&mut self, next: Tsn) {
        self.queue.renumbered(self.last_tsn());
        self.outstanding.renumber(next);
    }
}

/// Length of the header of a chunk with user data.
fn header_len(interleaving: bool) -> usize {
    if interleaving {
        I_DATA_HEADER_LEN
    } else {
        DATA_HEADER_LEN
    }
}

/// Size of the send buffer in bytes. If it may grow, half of it, at which the user is notified of room, is
/// more than what may be in flight, so that data is always queued.
fn send_buffer(paths: &Paths, config: &AssociationConfig) -> usize {
    let Some(max) = config.buffers.max_send_buffer else {
        return config.buffers.send_buffer;
    };
    let windows = paths.iter().filter(|p| p.is_usable());
    let cwnd: usize = windows.map(|p| p.congestion().window()).sum();
    let wanted = cwnd
        .saturating_mul(2)
        .saturating_add(config.buffers.send_buffer);
    wanted.min(max).max(config.buffers.send_buffer)
}

#[cfg(test)]
mod work_tests;
