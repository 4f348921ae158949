//! The sending half of an association (RFC 9260 sections 6.1, 6.2.1, 6.3.2, 6.3.3, 6.9, 7).

mod abandonment;
mod acknowledge;
mod backlog;
mod concurrent;
mod coupling;
mod failure;
mod held;
mod lines;
mod marked;
pub(crate) mod message;
mod outstanding;
mod queue;
mod ranges;
pub(crate) mod recovery;
mod reneging;
mod sack;
pub(crate) mod scheduler;
mod settled;
mod timeout;
mod transmit;
mod window;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{DATA_HEADER_LEN, I_DATA_HEADER_LEN, StreamId, Tsn};

use crate::config::AssociationConfig;
use crate::congestion::Member;
use crate::error::SendError;
use crate::event::SendFailure;
use crate::extensions::Extensions;
use crate::path::{PathId, Paths};
use crate::policy::{LossDetection, ReportScope, WindowGrowth};
use crate::time::Time;
use crate::trace::Trace;
use abandonment::Abandonment;
use failure::Failing;
use held::Held;
use message::{Pending, SendOptions};
use outstanding::{Outstanding, Tracking};
use queue::Queue;
use recovery::{EveryReport, MissingReports};
use reneging::RenegingLimiter;
use scheduler::StreamScheduler;
use window::PeerWindow;

pub(crate) use recovery::PathRecovery;
pub(crate) use sack::{SackContext, SackOutcome};
pub(crate) use transmit::TransmitContext;

/// Chunks outstanding at most: Gap Ack Blocks reach 65,535 TSNs above the cumulative one.
const MAX_OUTSTANDING: usize = 65_000;

/// A SACK with this many Gap Ack Blocks may have no room for more, and says nothing about what is
/// above them; some peers never send more.
const MANY_BLOCKS: usize = 16;

/// Ordered messages in the send window at most (section 6.1).
const MAX_MESSAGES: usize = 65_535;

/// Everything about data that goes out.
#[derive(Debug)]
pub(crate) struct Sender {
    queue: Queue,
    /// Messages for streams that are being reset.
    held: Held,
    outstanding: Outstanding,
    window: PeerWindow,
    recovery: MissingReports,
    /// RFC 2960's counters, and `recovery` is idle.
    every_report: Option<EveryReport>,
    /// Losses are found by RACK, and `recovery` is idle.
    by_time: bool,
    /// Missing reports are counted for each path, and `recovery` is idle.
    split: bool,
    /// Several paths carry new data at once.
    concurrent: bool,
    /// The path that new data went to last.
    last_path: PathId,
    /// Where the last SACK came from.
    sack_from: Option<PathId>,
    /// Where the windows of the paths depend on each other: all of them, as they are now.
    coupled: bool,
    members: Vec<Member>,
    /// The next chunk is the first of its packet.
    leading: bool,
    /// Up to here the last SACK told of everything that had arrived.
    reach: u64,
    /// The probe of some path is to leave.
    probe_due: bool,
    /// What is being written is a probe.
    probing: bool,
    abandonment: Abandonment,
    reneging: RenegingLimiter,
    outbound_streams: u16,
    /// User data goes in I-DATA chunks, not in DATA chunks (RFC 8260 section 2.2).
    interleaving: bool,
    /// One packet of chunks marked for retransmission may leave whatever the window says (sections
    /// 6.3.3 E3, 7.2.4 step 3).
    forced: bool,
    /// The user was refused and wants to know when there is room.
    refused: bool,
    /// When acknowledgements last advanced, or when data was sent after there was none.
    progress: Time,
    /// Users don't hear of an empty send buffer again until something was sent.
    drained: bool,
}

impl Sender {
    pub(crate) fn new(initial_tsn: Tsn, config: &AssociationConfig) -> Self {
        let policies = &config.policies;
        let by_time = policies.loss_detection == LossDetection::Rack;
        let counted = policies.loss_detection == LossDetection::MissingReports;
        let split = counted && policies.multipath.report_scope == ReportScope::Path;
        let every_report = policies.loss_detection == LossDetection::EveryReport;
        let concurrent = policies.multipath.data_route.concurrent();
        let pseudo_cumulative = policies.multipath.window_growth == WindowGrowth::PseudoCumulative;
        Self {
            queue: Queue::new(config.scheduler),
            held: Held::default(),
            outstanding: Outstanding::new(
                initial_tsn,
                policies.count_data_header,
                Tracking {
                    ordered: by_time || split || concurrent || pseudo_cumulative,
                    repeated: !split || policies.repeated_fast_retransmit,
                    marked_by_path: split || concurrent,
                },
            ),
            window: PeerWindow::new(0),
            recovery: MissingReports::new(
                config.policies.missing_reports,
                config.policies.repeated_fast_retransmit,
            ),
            every_report: every_report.then(|| EveryReport::new(policies.missing_reports)),
            by_time,
            split,
            concurrent,
            last_path: PathId(0),
            sack_from: None,
            coupled: policies.congestion.couples(),
            members: Vec::new(),
            leading: false,
            reach: u64::MAX,
            probe_due: false,
            probing: false,
            abandonment: Abandonment::default(),
            reneging: RenegingLimiter::default(),
            outbound_streams: config.outbound_streams,
            interleaving: false,
            forced: false,
            refused: false,
            progress: Time::ZERO,
            drained: true,
        }
    }

    /// What the peer's INIT or INIT ACK said. Returns the messages that wait for streams which the
    /// peer does not want (section 5.1.1).
    pub(crate) fn negotiated(
        &mut self,
        a_rwnd: u32,
        outbound_streams: u16,
        extensions: Extensions,
    ) -> Vec<SendFailure> {
        self.window = PeerWindow::new(a_rwnd);
        self.outbound_streams = outbound_streams;
        self.set_extensions(extensions);
        self.queue
            .take_above(outbound_streams)
            .into_iter()
            .map(|pending| {
                self.abandonment.forget(pending.number);
                let mut failure = Failing::of_pending(&pending);
                failure.give_back(pending.rest);
                failure.told()
            })
            .collect()
    }

    /// The extensions in force say whether user data goes in I-DATA chunks (RFC 8260 section 2.2.1)
    /// and whether messages that were begun may be given up (RFC 3758 section 3.3).
    pub(crate) fn set_extensions(&mut self, extensions: Extensions) {
        let interleaving = extensions.interleaving;
        self.abandonment.set_extensions(extensions);
        self.interleaving = interleaving;
        self.queue.set_interleaving(interleaving);
        self.outstanding.set_header_len(header_len(interleaving));
    }

    /// The peer restarted: numbering begins anew. Returns what was not delivered for certain.
    pub(crate) fn restart(
        &mut self,
        initial_tsn: Tsn,
        config: &AssociationConfig,
        paths: &mut Paths,
    ) -> Vec<SendFailure> {
        let failures = self.take_failures();
        for path in paths.iter_mut() {
            path.flight_size = 0;
            path.earliest = None;
            path.buffered = 0;
            path.chunks = 0;
            path.recovery = PathRecovery::default();
        }
        let new = Self::new(initial_tsn, config);
        let mut old = core::mem::replace(self, new);
        self.refused = old.refused;
        self.abandonment = old.abandonment.restart();
        // Empty, with what the user set at run time.
        self.queue = old.queue;
        failures
    }

    pub(crate) fn outbound_streams(&self) -> u16 {
        self.outbound_streams
    }

    /// Takes a message.
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
        if options.stream.0 >= self.outbound_streams {
            return Err(SendError::InvalidStream {
                streams: self.outbound_streams,
            });
        }
        if options.path.is_some_and(|p| !paths.contains(p)) {
            return Err(SendError::UnknownPath);
        }
        let limit = self.max_payload(paths, config);
        if !config.fragment && data.len() > limit {
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
        let pending = Pending::new(number, options, data);
        if self.held.covers(options.stream) {
            self.held.push(pending);
        } else {
            self.queue.put(pending);
        }
        self.drained = false;
        Ok(())
    }

    fn has_room(&self, bytes: usize, paths: &Paths, config: &AssociationConfig) -> bool {
        let held = self.buffered_bytes();
        let messages = self.queued_messages() + self.outstanding.messages();
        messages < config.send_buffer_messages.min(MAX_MESSAGES)
            && (held == 0 || held + bytes <= self.send_buffer(paths, config))
    }

    /// The send buffer in bytes. Where it may grow and several paths carry data, what the fast ones
    /// have delivered stays in it until the slow ones have, and takes no room from what is to come.
    pub(super) fn send_buffer(&self, paths: &Paths, config: &AssociationConfig) -> usize {
        let size = send_buffer(paths, config);
        match config.max_send_buffer {
            Some(max) if self.concurrent => {
                let (held, flight) = (self.outstanding.held(), self.outstanding.in_flight());
                let delivered = held.saturating_sub(flight);
                size.saturating_add(2 * delivered).min(max).max(size)
            }
            _ => size,
        }
    }

    /// Whether the user, who was refused, can send again: half of the buffer is free.
    pub(crate) fn take_room(&mut self, paths: &Paths, config: &AssociationConfig) -> bool {
        if !self.refused {
            return false;
        }
        let roomy = self.buffered_bytes() <= self.send_buffer(paths, config) / 2
            && self.queued_messages() + self.outstanding.messages()
                <= config.send_buffer_messages.min(MAX_MESSAGES) / 2;
        roomy && core::mem::take(&mut self.refused)
    }

    /// Whether everything sent has been acknowledged since this was last asked.
    pub(crate) fn take_drained(&mut self) -> bool {
        self.is_drained() && !core::mem::replace(&mut self.drained, true)
    }

    /// Nothing waits and nothing is unacknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_flushed() && self.held.len() == 0
    }

    /// Returns whether nothing waits and all that was sent is acknowledged cumulatively, is abandoned
    /// (RFC 3758 section 3.5, A2) or is acknowledged as non-renegable.
    pub(crate) fn is_finished(&self) -> bool {
        let waits = !self.queue.is_empty() || self.held.len() > 0;
        !waits && self.outstanding.is_finished()
    }

    /// Whether the peer has acknowledged anything.
    pub(crate) fn was_acknowledged(&self) -> bool {
        self.outstanding.first_index() > 1
            || !self.outstanding.acked.is_empty()
            || !self.outstanding.settled.is_empty()
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.queue.bytes() + self.held.bytes() + self.outstanding.held()
    }

    pub(crate) fn queued_messages(&self) -> usize {
        self.queue.len() + self.held.len()
    }

    pub(crate) fn outstanding_chunks(&self) -> usize {
        self.outstanding.len()
    }

    pub(crate) fn outstanding_bytes(&self) -> usize {
        self.outstanding.in_flight()
    }

    /// The highest TSN that was sent, if any.
    pub(crate) fn last_sent(&self) -> Option<Tsn> {
        let next = self.outstanding.next_index();
        (next > 1).then(|| self.outstanding.tsn(next - 1))
    }

    /// Reduces the window of the path that this TSN was sent to (`otherwise` that one) as after a
    /// loss, because its packet was marked. Returns whether it did: not during Fast Recovery, which has
    /// reduced it, and not a window below what a reduction leaves (section 7.2.3).
    pub(crate) fn reduce_for_mark(
        &mut self,
        tsn: Tsn,
        otherwise: PathId,
        now: Time,
        paths: &mut Paths,
        trace: &mut Trace,
    ) -> bool {
        let index = self.outstanding.index_of(tsn);
        let chunk = index.and_then(|index| self.outstanding.chunk(index));
        let id = chunk.map_or(otherwise, |c| c.path);
        let path = &mut paths[id];
        let reduced = self.recovery.is_active() || path.recovery.is_fast();
        if reduced || path.congestion.cwnd() <= 4 * path.pmdcs() {
            return false;
        }
        self.couple(id, paths);
        let path = &mut paths[id];
        path.congestion.on_loss();
        trace.record(now, sack::window_event(path));
        true
    }

    pub(crate) fn rwnd(&self) -> usize {
        self.window.rwnd()
    }

    /// Data waits or is unacknowledged while this long nothing was acknowledged; a closed window
    /// is the peer's right and does not count.
    pub(crate) fn stalled_since(&self) -> Option<Time> {
        let open = self.window.rwnd() > 0 && !self.window.is_probing();
        (!self.outstanding.is_empty() && open).then_some(self.progress)
    }

    /// All messages that are not acknowledged, for SEND FAILURE. Empties the send buffer.
    pub(crate) fn take_failures(&mut self) -> Vec<SendFailure> {
        let mut failures = self.take_abandoned();
        self.abandonment.clear();
        // With interleaving, several messages may have been begun.
        let mut open: BTreeMap<(StreamId, bool, u32), Failing> = BTreeMap::new();
        while let Some(chunk) = self.outstanding.pop_front() {
            if chunk.is_abandoned() {
                continue;
            }
            let message = (chunk.stream, chunk.flags.unordered, chunk.mid.value());
            if chunk.is_settled() {
                // It was delivered; perhaps not all of its message.
                if let Some(failing) = open.get_mut(&message) {
                    failing.pass(chunk.len());
                }
            } else {
                let failing = open.entry(message);
                failing
                    .or_insert_with(|| Failing::of_chunk(&chunk))
                    .give_back(chunk.payload);
            }
            if chunk.flags.ending {
                failures.extend(open.remove(&message).map(Failing::told));
            }
        }
        let held = self.held.take();
        for pending in self.queue.restart().into_iter().chain(held) {
            let options = pending.options;
            let message = (options.stream, options.unordered, pending.mid.value());
            let begun = pending.begun.then(|| open.remove(&message)).flatten();
            let mut failing = begun.unwrap_or_else(|| Failing::of_pending(&pending));
            failing.give_back(pending.rest);
            failures.push(failing.told());
        }
        failures.extend(open.into_values().map(Failing::told));
        failures
    }

    /// The largest payload of one chunk.
    fn max_payload(&self, paths: &Paths, config: &AssociationConfig) -> usize {
        let fits = paths.amdcs().saturating_sub(self.outstanding.header_len());
        config.max_payload.map_or(fits, |p| p.min(fits)).max(1)
    }

    pub(crate) fn scheduler(&self) -> StreamScheduler {
        self.queue.scheduler()
    }

    pub(crate) fn set_scheduler(&mut self, scheduler: StreamScheduler) {
        self.queue.set_scheduler(scheduler);
    }

    /// What the user set for a stream; `None` if there is no such stream.
    pub(crate) fn stream_value(&self, stream: StreamId) -> Option<u16> {
        (stream.0 < self.outbound_streams).then(|| self.queue.value(stream))
    }

    /// Returns whether there is such a stream.
    pub(crate) fn set_stream_value(&mut self, stream: StreamId, value: u16) -> bool {
        let exists = stream.0 < self.outbound_streams;
        if exists {
            self.queue.set_value(stream, value);
        }
        exists
    }
}

/// The header of a chunk with user data.
fn header_len(interleaving: bool) -> usize {
    if interleaving {
        I_DATA_HEADER_LEN
    } else {
        DATA_HEADER_LEN
    }
}

/// The send buffer in bytes. Where it may grow, half of it, at which the user hears of room, is more
/// than what may be in flight, so that something waits.
fn send_buffer(paths: &Paths, config: &AssociationConfig) -> usize {
    let Some(max) = config.max_send_buffer else {
        return config.send_buffer;
    };
    let windows = paths.iter().filter(|p| p.usable());
    let cwnd: usize = windows.map(|p| p.congestion.cwnd()).sum();
    let wanted = cwnd.saturating_mul(2).saturating_add(config.send_buffer);
    wanted.min(max).max(config.send_buffer)
}

#[cfg(test)]
mod work_tests;
