//! Abandonment of messages (RFC 3758, section 3.5; RFC 7496).
//!
//! - `registry`: messages that may be abandoned, by number, time and priority
//! - `forward`: Advanced.Peer.Ack.Point and FORWARD-TSN

mod forward;
mod registry;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use carrick_wire::{PacketBuilder, StreamId};

use super::message::SendOptions;
use super::outstanding::Chunk;
use super::send_failure::FailureBuilder;
use super::{MAX_MESSAGES, SackContext, Sender, TransmitContext};
use crate::config::AssociationConfig;
use crate::event::SendFailure;
use crate::extensions::Extensions;
use crate::path::{PathId, Paths};
use crate::reliability::{Abandoned, AbandonmentPolicy, Reliability};
use crate::time::Time;
use crate::tx::LossSignal;
pub(super) use forward::Forward;
use forward::ForwardKind;
use registry::Registry;

/// Messages that are abandoned or may be; allocated with the first of them.
#[derive(Debug, Default)]
pub(super) struct Abandonment {
    /// The peer supports FORWARD-TSN or I-FORWARD-TSN: messages that were begun may be abandoned.
    supports_forward_tsn: bool,
    /// Chunk that is sent.
    kind: ForwardKind,
    state: Option<Box<AbandonmentState>>,
}

portable_struct! { Abandonment { supports_forward_tsn, kind, state } }

#[derive(Debug, Default)]
struct AbandonmentState {
    registry: Registry,
    /// Number of the last message that may be abandoned.
    last_number: u64,
    forward: Forward,
    /// Abandoned messages of which the user has not been notified.
    failures: Vec<SendFailure>,
    counts: AbandonedCounts,
}

portable_struct! { AbandonmentState { registry, last_number, forward, failures, counts } }

/// Number of abandoned messages, in all and by stream; streams without any have no entry.
#[derive(Debug, Default)]
struct AbandonedCounts {
    total: Abandoned,
    streams: BTreeMap<StreamId, Abandoned>,
}

portable_struct! { AbandonedCounts { total, streams } }

impl Abandonment {
    pub(super) fn set_extensions(&mut self, extensions: Extensions) {
        self.supports_forward_tsn = extensions.partial_reliability;
        self.kind = if extensions.interleaving {
            ForwardKind::Mids
        } else {
            ForwardKind::Ssns
        };
    }

    fn state(&mut self) -> Option<&mut AbandonmentState> {
        self.state.as_deref_mut()
    }

    fn registry(&self) -> Option<&Registry> {
        Some(&self.state.as_deref()?.registry)
    }

    fn forward(&self) -> Option<&Forward> {
        Some(&self.state.as_deref()?.forward)
    }

    pub(super) fn forward_mut(&mut self) -> Option<&mut Forward> {
        Some(&mut self.state()?.forward)
    }

    /// State for a restarted association; the counts remain.
    pub(super) fn restart(&mut self) -> Self {
        self.clear();
        core::mem::take(self)
    }

    /// Registers a message before it is queued; returns its number, or 0 if it may not be abandoned.
    pub(super) fn add(&mut self, options: &SendOptions, bytes: usize, now: Time) -> u64 {
        if !options.may_be_abandoned() {
            return 0;
        }
        let state = self.state.get_or_insert_default();
        state.last_number += 1;
        state.registry.add(state.last_number, options, bytes, now);
        state.last_number
    }

    /// Removes a message that left the queue for another reason.
    pub(super) fn forget(&mut self, number: u64) {
        if let Some(state) = self.state() {
            state.registry.remove(number);
        }
    }

    /// Removes all messages: the send buffer is emptied.
    pub(super) fn clear(&mut self) {
        if let Some(state) = self.state() {
            state.registry.clear();
            state.forward = Forward::default();
        }
    }

    pub(super) fn on_sent(&mut self, number: u64, index: u64, ending: bool) {
        let may_abandon = self.supports_forward_tsn;
        if let Some(state) = self.state() {
            state.registry.on_sent(number, index, ending, may_abandon);
        }
    }

    /// Records a chunk that is acknowledged cumulatively.
    pub(super) fn on_cumulatively_acknowledged(&mut self, chunk: &Chunk) {
        if let Some(state) = self.state() {
            state.registry.on_cumulatively_acknowledged(chunk);
        }
    }

    /// Records bytes of a message that are acknowledged as non-renegable.
    pub(super) fn on_non_renegable(&mut self, number: u64, bytes: usize) {
        if let Some(state) = self.state() {
            state.registry.on_non_renegable(number, bytes);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.registry()?.next_deadline()
    }

    /// Returns whether the last FORWARD-TSN was sent on this path and is not acknowledged.
    pub(super) fn awaits_forward_on(&self, path: PathId) -> bool {
        self.forward().is_some_and(|f| f.is_awaited_on(path))
    }
}

impl Sender {
    /// Removes the abandoned messages of which the user has not been notified, oldest first.
    pub(crate) fn take_abandoned(&mut self) -> Vec<SendFailure> {
        let state = self.abandonment.state();
        state.map_or_else(Vec::new, |state| core::mem::take(&mut state.failures))
    }

    pub(crate) fn abandoned(&self) -> Abandoned {
        let state = self.abandonment.state.as_deref();
        state.map(|state| state.counts.total).unwrap_or_default()
    }

    pub(crate) fn abandoned_on(&self, stream: StreamId) -> Abandoned {
        let state = self.abandonment.state.as_deref();
        let of_stream = state.and_then(|state| state.counts.streams.get(&stream));
        of_stream.copied().unwrap_or_default()
    }

    /// Abandons the messages whose lifetime is over. A message that was sent completely is abandoned only
    /// when a part of it is to be retransmitted (RFC 3758, section 4.1, TR3 and TR4).
    pub(crate) fn expire(&mut self, now: Time, paths: &mut Paths) {
        let mut any = false;
        while let Some(state) = self.abandonment.state.as_deref_mut()
            && let Some(number) = state.registry.pop_deadline(now)
        {
            let Some(tracked) = state.registry.get(number) else {
                continue;
            };
            let policy = tracked.timed_out(now);
            let mut ranges = tracked.ranges();
            let marked = |(first, last)| {
                let next = self.outstanding.next_marked(first);
                next.is_some_and(|index| index <= last)
            };
            if !tracked.complete || ranges.any(marked) {
                drop(ranges);
                self.abandon(number, policy, paths);
                any = true;
            }
        }
        if any {
            self.process_abandonment(now, paths);
        }
    }

    /// Abandons messages of lower priority if that makes room for a message (RFC 7496, section 3.2).
    pub(super) fn make_room(
        &mut self,
        bytes: usize,
        reliability: Reliability,
        now: Time,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) -> bool {
        let held = self.buffered_bytes();
        let buffer = self.send_buffer(paths, config);
        let excess = if bytes > buffer {
            held
        } else {
            (held + bytes).saturating_sub(buffer)
        };
        let messages = self.queued_messages() + self.outstanding.messages() + 1;
        let surplus =
            messages.saturating_sub(config.buffers.send_buffer_messages.min(MAX_MESSAGES));
        let enough = |registry: &Registry| registry.can_free(reliability, excess, surplus);
        if !self.abandonment.registry().is_some_and(enough) {
            return false;
        }
        while !self.has_room(bytes, paths, config) {
            let registry = self.abandonment.registry();
            let Some(number) = registry.and_then(|r| r.lowest_below(reliability)) else {
                break;
            };
            self.abandon(number, Some(AbandonmentPolicy::Priority), paths);
        }
        self.process_abandonment(now, paths);
        self.has_room(bytes, paths, config)
    }

    /// Abandons the messages of marked chunks that may not be sent again. The losses have been accounted for
    /// before (RFC 3758, section 3.5, F5).
    fn abandon_marked(&mut self, now: Time, paths: &mut Paths) {
        for (number, transmissions) in self.outstanding.take_abandonment_candidates() {
            let registry = self.abandonment.registry();
            if let Some(policy) =
                registry.and_then(|r| r.abandonment_policy(number, transmissions, now))
            {
                self.abandon(number, Some(policy), paths);
            }
        }
    }

    /// Abandons the messages of the last chunks in flight on a path that may not be sent again, down to the
    /// last chunk that may. Returns whether there was any.
    pub(super) fn abandon_newest(&mut self, id: PathId, now: Time, paths: &mut Paths) -> bool {
        let mut any = false;
        while let Some(chunk) = self.outstanding.chunk(paths[id].recovery().newest())
            && let Some(registry) = self.abandonment.registry()
            && let Some(policy) =
                registry.abandonment_policy(chunk.message, chunk.transmissions, now)
        {
            let number = chunk.message;
            self.abandon(number, Some(policy), paths);
            any = true;
        }
        if any {
            self.process_abandonment(now, paths);
        }
        any
    }

    /// Abandons messages whose lifetime is over and of which a SACK reports a chunk missing (RFC 3758, section
    /// 4.1, TR5), as far as a FORWARD-TSN reaches at once: the lowest ones. Only with a detector that
    /// finds the loss of abandoned chunks (section 3.5, F5): RACK detects the loss soon, and the message
    /// is abandoned then.
    fn expire_missing(&mut self, now: Time, paths: &mut Paths) {
        if !self.detector.finds_abandoned_losses() {
            return;
        }
        while let Some(&(_, highest)) = self.outstanding.reported().back()
            && let index = self.first_awaited()
            && index < highest
            && let Some(chunk) = self.outstanding.chunk(index)
            && let Some(registry) = self.abandonment.registry()
            && let Some(tracked) = registry.get(chunk.message)
            && let Some(policy) = tracked.timed_out(now)
        {
            let number = chunk.message;
            self.abandon(number, Some(policy), paths);
            self.process_abandonment(now, paths);
        }
    }

    /// Abandons a message (RFC 3758, section 3.5):
    ///
    /// 1. Mark its chunks that were sent as abandoned, which count as acknowledged (A2); their bytes count as
    ///    room in the peer's window.
    /// 2. Remove the part that was not sent. If a part was sent, the message gets an end that is never sent
    ///    (A3).
    /// 3. Count the message by its policy (RFC 7496, sections 4.3 and 4.4), and report it to the user.
    fn abandon(&mut self, number: u64, policy: Option<AbandonmentPolicy>, paths: &mut Paths) {
        let Some(state) = self.abandonment.state.as_deref_mut() else {
            return;
        };
        let Some(tracked) = state.registry.remove(number) else {
            return;
        };
        // 1.
        let before = self.outstanding.in_flight();
        let mut failure_builder = None;
        for (first, last) in tracked.ranges() {
            for index in first.max(self.outstanding.first_index())..=last {
                let Some(chunk) = self.outstanding.chunk(index) else {
                    continue;
                };
                let delivered = if chunk.is_non_renegable() {
                    chunk.len()
                } else {
                    0
                };
                let failure_builder =
                    failure_builder.get_or_insert_with(|| FailureBuilder::for_chunk(chunk));
                failure_builder.append_delivered(delivered);
                if let Some(payload) = self.outstanding.abandon(index, paths) {
                    failure_builder.append_unsent(payload);
                }
            }
        }
        self.window.marked(before - self.outstanding.in_flight());
        // 2.
        if !tracked.complete
            && let Some(pending) = self.queue.remove(number)
        {
            if pending.begun {
                self.outstanding
                    .push_abandoned_ending(&pending.options, pending.mid, pending.fsn);
            }
            failure_builder
                .get_or_insert_with(|| FailureBuilder::for_pending(&pending))
                .append_unsent(pending.rest);
        }
        // 3.
        let Some(failure_builder) = failure_builder else {
            return;
        };
        let mut failure = failure_builder.build();
        if let Some(policy) = policy {
            state.counts.total.count(policy, tracked.begun);
            let of_stream = state.counts.streams.entry(failure.stream).or_default();
            of_stream.count(policy, tracked.begun);
        }
        failure.sent = tracked.begun;
        failure.expired = matches!(policy, None | Some(AbandonmentPolicy::Timed));
        failure.abandoned = policy;
        state.failures.push(failure);
    }

    /// Abandons the messages of marked chunks that may not be sent again, moves the Advanced.Peer.Ack.Point
    /// (RFC 3758, section 3.5, C2), and stops the timers of paths without data in flight.
    pub(super) fn process_abandonment(&mut self, now: Time, paths: &mut Paths) {
        self.abandon_marked(now, paths);
        if !self.outstanding.has_abandoned() {
            return;
        }
        let kind = self.abandonment.kind;
        let Some(forward) = self.abandonment.forward_mut() else {
            return;
        };
        forward.advance(&self.outstanding, kind, kind.max_entries(paths.amdcs()));
        self.forced &= self.outstanding.has_marked();
        for path in paths.iter_mut() {
            self.outstanding.update_earliest(path);
            if path.flight().size() > 0 {
                continue;
            }
            if let Some(recovery) = path.used_recovery() {
                recovery.stop_timers();
            }
            if !forward.is_awaited_on(path.id()) {
                path.stop_t3();
            }
        }
    }

    /// Takes the last steps of a SACK (RFC 3758, section 3.5, C2 and C3).
    pub(super) fn abandon_after_sack(&mut self, cx: &mut SackContext<'_>) {
        self.process_abandonment(cx.now, cx.paths);
        self.expire_missing(cx.now, cx.paths);
        if let Some(forward) = self.abandonment.forward_mut()
            && let Some(path) = forward.awaited_on()
        {
            let path = &cx.paths[path];
            let round_trip = path.srtt().unwrap_or(path.rto());
            forward.repeat(cx.now, round_trip);
        }
    }

    /// Returns whether the Advanced.Peer.Ack.Point is above the Cumulative TSN Ack Point.
    pub(crate) fn awaits_forward(&self) -> bool {
        let first = self.outstanding.first_index();
        self.abandonment
            .forward()
            .is_some_and(|f| f.point() >= first)
    }

    /// Makes a FORWARD-TSN that the peer has not acknowledged due again, on any path. Returns the
    /// bytes of the chunk, if there is one to be sent.
    pub(crate) fn repeat_forward(&mut self) -> Option<usize> {
        if !self.awaits_forward() {
            return None;
        }
        let kind = self.abandonment.kind;
        let forward = self.abandonment.forward_mut()?;
        forward.make_due();
        Some(kind.chunk_len(forward.len()))
    }

    /// Returns whether a FORWARD-TSN is due.
    pub(crate) fn forward_is_due(&self) -> bool {
        self.abandonment.forward().is_some_and(Forward::is_due)
    }

    /// Path for a FORWARD-TSN that is due and is not bundled with DATA.
    pub(crate) fn forward_path(&self, cx: &TransmitContext<'_>) -> Option<PathId> {
        let forward = self.abandonment.forward().filter(|f| f.is_due())?;
        let path = match forward.lost_on() {
            Some(path) => Self::retransmission_route(LossSignal::Timeout, path, cx),
            None => cx.paths.current(),
        };
        cx.paths[path].is_confirmed().then_some(path)
    }

    /// Adds a FORWARD-TSN that is due to a packet if it fits.
    pub(crate) fn fill_forward(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) {
        let other_way = |forward: &Forward| {
            forward.lost_on() == Some(path) && self.forward_path(cx) != Some(path)
        };
        // A FORWARD-TSN lost on this path is sent on another one, if there is any.
        if self.abandonment.forward().is_none_or(other_way) {
            return;
        }
        let kind = self.abandonment.kind;
        let Some(forward) = self.abandonment.forward_mut().filter(|f| f.is_due()) else {
            return;
        };
        let fits = |forward: &Forward, packet: &PacketBuilder<'_>| {
            packet.fits(kind.chunk_len(forward.len()))
        };
        if !fits(forward, packet) && packet.is_empty() {
            // The path MTU has shrunk since.
            forward.restart(self.outstanding.first_index() - 1);
            let max_entries = kind.max_entries(cx.paths.amdcs());
            forward.advance(&self.outstanding, kind, max_entries);
        }
        if !fits(forward, packet) {
            return;
        }
        forward.write(kind, self.outstanding.tsn(forward.point()), packet);
        forward.sent(path, cx.now);
        cx.counters.other().forward_tsns_sent += 1;
        // RFC 3758, section 3.5, C5.
        cx.paths[path].arm_t3(cx.now);
    }

    /// Returns whether a chunk may be sent again without its message being abandoned.
    pub(super) fn may_send_again(&self, chunk: &Chunk, now: Time) -> bool {
        let registry = self.abandonment.registry();
        registry.is_none_or(|r| {
            let policy = r.abandonment_policy(chunk.message, chunk.transmissions, now);
            policy.is_none()
        })
    }

    /// First chunk that is neither acknowledged cumulatively nor below the Advanced.Peer.Ack.Point.
    pub(super) fn first_awaited(&self) -> u64 {
        let first = self.outstanding.first_index();
        let point = self.abandonment.forward().map_or(0, Forward::point);
        first.max(point + 1)
    }

    /// Returns whether T3-rtx of this path covers a FORWARD-TSN.
    pub(crate) fn awaits_forward_on(&self, path: PathId) -> bool {
        self.abandonment.awaits_forward_on(path)
    }
}
