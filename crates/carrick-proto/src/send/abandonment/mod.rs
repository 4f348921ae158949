//! Giving up messages (RFC 3758 section 3.5, RFC 7496): which, and what becomes of their chunks.
//!
//! - `tracked`: the messages that may be given up, by number, time and priority
//! - `forward`: the Advanced.Peer.Ack.Point and what FORWARD-TSN says

mod forward;
mod tracked;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use carrick_wire::{PacketBuilder, StreamId};

use super::failure::Failing;
use super::message::SendOptions;
use super::outstanding::Chunk;
use super::{MAX_MESSAGES, SackContext, Sender, TransmitContext};
use crate::config::AssociationConfig;
use crate::event::SendFailure;
use crate::extensions::Extensions;
use crate::path::{PathId, Paths};
use crate::policy::LossSignal;
use crate::reliability::{Abandoned, AbandonmentPolicy, Reliability};
use crate::time::Time;
pub(super) use forward::Forward;
use forward::ForwardKind;
use tracked::Registry;

/// What was given up and what may be. Takes no memory before the first message that may be.
#[derive(Debug, Default)]
pub(super) struct Abandonment {
    /// The peer takes FORWARD-TSN or I-FORWARD-TSN: what was begun may be given up as well.
    forwards: bool,
    /// Which of them.
    kind: ForwardKind,
    state: Option<Box<State>>,
}

#[derive(Debug, Default)]
struct State {
    registry: Registry,
    /// The number of the last message that may be given up.
    last_number: u64,
    forward: Forward,
    /// Given up, and not told to the user.
    failures: Vec<SendFailure>,
    counts: Counts,
}

/// Messages given up in all and by stream; only streams on which any was have an entry.
#[derive(Debug, Default)]
struct Counts {
    total: Abandoned,
    streams: BTreeMap<StreamId, Abandoned>,
}

impl Abandonment {
    pub(super) fn set_extensions(&mut self, extensions: Extensions) {
        self.forwards = extensions.partial_reliability;
        self.kind = if extensions.interleaving {
            ForwardKind::Mids
        } else {
            ForwardKind::Ssns
        };
    }

    fn state(&mut self) -> Option<&mut State> {
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

    /// The association begins anew; what was counted stays.
    pub(super) fn restart(&mut self) -> Self {
        self.clear();
        core::mem::take(self)
    }

    /// A message of so many bytes is about to be queued; returns its number.
    pub(super) fn add(&mut self, options: &SendOptions, bytes: usize, now: Time) -> u64 {
        if !options.may_be_abandoned() {
            return 0;
        }
        let state = self.state.get_or_insert_default();
        state.last_number += 1;
        state.registry.add(state.last_number, options, bytes, now);
        state.last_number
    }

    /// A message was taken off the queue for another reason.
    pub(super) fn forget(&mut self, number: u64) {
        if let Some(state) = self.state() {
            state.registry.remove(number);
        }
    }

    /// The send buffer is emptied.
    pub(super) fn clear(&mut self) {
        if let Some(state) = self.state() {
            state.registry.clear();
            state.forward = Forward::default();
        }
    }

    pub(super) fn on_sent(&mut self, number: u64, index: u64, ending: bool) {
        let forwards = self.forwards;
        if let Some(state) = self.state() {
            state.registry.on_sent(number, index, ending, forwards);
        }
    }

    pub(super) fn on_gone(&mut self, chunk: &Chunk) {
        if let Some(state) = self.state() {
            state.registry.on_gone(chunk);
        }
    }

    /// The peer has so many bytes of a message for good.
    pub(super) fn on_settled(&mut self, number: u64, bytes: usize) {
        if let Some(state) = self.state() {
            state.registry.on_settled(number, bytes);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.registry()?.next_deadline()
    }

    /// The FORWARD-TSN that was sent to this path last is not acknowledged.
    pub(super) fn awaits_forward_on(&self, path: PathId) -> bool {
        self.forward().is_some_and(|f| f.is_awaited_on(path))
    }
}

impl Sender {
    /// Messages given up since this was last asked, in the order in which that happened.
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

    /// Gives up the messages whose time is over. One of which all is on its way is given up only
    /// when a part of it would have to be sent again (RFC 3758 section 4.1, TR3 and TR4).
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
            self.settle(now, paths);
        }
    }

    /// Gives up messages of lower priority if that makes room for one (RFC 7496 section 3.2).
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
        let surplus = messages.saturating_sub(config.send_buffer_messages.min(MAX_MESSAGES));
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
        self.settle(now, paths);
        self.has_room(bytes, paths, config)
    }

    /// Gives up what was marked for retransmission, where its policy says so. The losses have been
    /// accounted for before (RFC 3758 section 3.5 F5).
    pub(super) fn abandon_marked(&mut self, now: Time, paths: &mut Paths) {
        for (number, transmissions) in self.outstanding.take_questioned() {
            let registry = self.abandonment.registry();
            if let Some(policy) = registry.and_then(|r| r.verdict(number, transmissions, now)) {
                self.abandon(number, Some(policy), paths);
            }
        }
    }

    /// Abandons the messages of the last chunks in flight on a path that may not be sent again, down to the
    /// last chunk that may. Returns whether there was any.
    pub(super) fn abandon_newest(&mut self, id: PathId, now: Time, paths: &mut Paths) -> bool {
        let mut any = false;
        while let Some(chunk) = self.outstanding.chunk(paths[id].recovery.order.newest)
            && let Some(registry) = self.abandonment.registry()
            && let Some(policy) = registry.verdict(chunk.message, chunk.transmissions, now)
        {
            let number = chunk.message;
            self.abandon(number, Some(policy), paths);
            any = true;
        }
        if any {
            self.settle(now, paths);
        }
        any
    }

    /// Abandons messages whose lifetime is over and of which a SACK shows that a chunk is missing (RFC
    /// 3758 section 4.1 TR5), as far as a FORWARD-TSN reaches at once: the lowest ones. Only
    /// where missing reports account for the loss of what was abandoned (section 3.5 F5): RACK finds such
    /// a loss soon, and abandons the message then.
    fn expire_missing(&mut self, now: Time, paths: &mut Paths) {
        if self.by_time || self.split {
            return;
        }
        while let Some(&(_, highest)) = self.outstanding.acked.back()
            && let index = self.first_awaited()
            && index < highest
            && let Some(chunk) = self.outstanding.chunk(index)
            && let Some(registry) = self.abandonment.registry()
            && let Some(tracked) = registry.get(chunk.message)
            && let Some(policy) = tracked.timed_out(now)
        {
            let number = chunk.message;
            self.abandon(number, Some(policy), paths);
            self.settle(now, paths);
        }
    }

    /// Gives up a message: the chunks of it that were sent count as acknowledged, the rest is not
    /// sent (RFC 3758 section 3.5, A2 and A3).
    fn abandon(&mut self, number: u64, policy: Option<AbandonmentPolicy>, paths: &mut Paths) {
        let Some(state) = self.abandonment.state.as_deref_mut() else {
            return;
        };
        let Some(tracked) = state.registry.remove(number) else {
            return;
        };
        let before = self.outstanding.in_flight();
        let mut failing = None;
        for (first, last) in tracked.ranges() {
            for index in first.max(self.outstanding.first_index())..=last {
                let Some(chunk) = self.outstanding.chunk(index) else {
                    continue;
                };
                let settled = if chunk.is_settled() { chunk.len() } else { 0 };
                let failing = failing.get_or_insert_with(|| Failing::of_chunk(chunk));
                failing.pass(settled);
                if let Some(payload) = self.outstanding.abandon(index, paths) {
                    failing.give_back(payload);
                }
            }
        }
        // The peer that has no room for it, or does not answer, keeps what it has.
        let landed = before - self.outstanding.in_flight();
        self.window.marked(landed);
        if !tracked.complete
            && let Some(pending) = self
                .queue
                .take(number)
                .or_else(|| self.held.take_numbered(number))
        {
            if pending.begun {
                self.outstanding
                    .push_abandoned_ending(&pending.options, pending.mid, pending.fsn);
            }
            failing
                .get_or_insert_with(|| Failing::of_pending(&pending))
                .give_back(pending.rest);
        }
        let Some(failing) = failing else {
            return;
        };
        let mut failure = failing.told();
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

    /// After messages were given up: moves the Advanced.Peer.Ack.Point (C2) and forgets timers of
    /// paths that wait for nothing any more.
    pub(super) fn settle(&mut self, now: Time, paths: &mut Paths) {
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
            if path.flight_size > 0 {
                path.earliest = self.outstanding.find_earliest(path);
                continue;
            }
            // The search would go through all that is outstanding, in vain.
            path.earliest = None;
            path.recovery.probe.timer = None;
            path.recovery.rack.timer = None;
            if !forward.is_awaited_on(path.id) {
                path.t3 = None;
            }
        }
    }

    /// The last steps of a SACK (RFC 3758 section 3.5, C2 and C3).
    pub(super) fn settle_after_sack(&mut self, cx: &mut SackContext<'_>) {
        self.settle(cx.now, cx.paths);
        self.expire_missing(cx.now, cx.paths);
        if let Some(forward) = self.abandonment.forward_mut()
            && let Some(path) = forward.awaited_on()
        {
            let rto = &cx.paths[path].rto;
            let round_trip = rto.srtt().unwrap_or(rto.value());
            forward.repeat(cx.now, round_trip);
        }
    }

    /// Returns whether the Advanced.Peer.Ack.Point is above what the peer has acknowledged.
    pub(crate) fn awaits_forward(&self) -> bool {
        let first = self.outstanding.first_index();
        self.abandonment
            .forward()
            .is_some_and(|f| f.point() >= first)
    }

    /// Makes a FORWARD-TSN that the peer has not acknowledged due once more, on any path. Returns the
    /// bytes of the chunk, if there is one to be sent.
    pub(crate) fn repeat_forward(&mut self) -> Option<usize> {
        if !self.awaits_forward() {
            return None;
        }
        let kind = self.abandonment.kind;
        let forward = self.abandonment.forward_mut()?;
        forward.demand();
        Some(kind.chunk_len(forward.len()))
    }

    /// A FORWARD-TSN is to leave.
    pub(crate) fn forward_is_due(&self) -> bool {
        self.abandonment.forward().is_some_and(Forward::is_due)
    }

    /// The path for a FORWARD-TSN that is due, if no DATA takes it along.
    pub(crate) fn forward_path(&self, cx: &TransmitContext<'_>) -> Option<PathId> {
        let forward = self.abandonment.forward().filter(|f| f.is_due())?;
        let path = match forward.lost_on() {
            Some(path) => Self::route_again(LossSignal::Timeout, path, cx),
            None => cx.paths.current(),
        };
        cx.paths[path].confirmed.then_some(path)
    }

    /// Puts a FORWARD-TSN that is due into the packet if it fits.
    pub(crate) fn fill_forward(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) {
        let other_way = |forward: &Forward| {
            forward.lost_on() == Some(path) && self.forward_path(cx) != Some(path)
        };
        // One that was lost here goes another way, if there is any.
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
        cx.counters.forward_tsns_sent += 1;
        // C5: it is sent again like DATA.
        let rto = cx.paths[path].rto.value();
        cx.paths[path].t3.get_or_insert(cx.now + rto);
    }

    /// The message of a chunk is not given up when the chunk is sent once more.
    pub(super) fn may_send_again(&self, chunk: &Chunk, now: Time) -> bool {
        let registry = self.abandonment.registry();
        registry.is_none_or(|r| {
            let verdict = r.verdict(chunk.message, chunk.transmissions, now);
            verdict.is_none()
        })
    }

    /// The first chunk that the peer has not acknowledged and that was not given up.
    pub(super) fn first_awaited(&self) -> u64 {
        let first = self.outstanding.first_index();
        let point = self.abandonment.forward().map_or(0, Forward::point);
        first.max(point + 1)
    }

    /// T3-rtx has to go on for a FORWARD-TSN on this path.
    pub(crate) fn awaits_forward_on(&self, path: PathId) -> bool {
        self.abandonment.awaits_forward_on(path)
    }
}
