//! Which DATA leaves now, and on which path (RFC 9260 sections 6.1, 6.4, 6.10).

use carrick_wire::{
    COMMON_HEADER_LEN, DataFlags, DataHeader, Fragment, IDataHeader, PacketBuilder, StreamId, Tsn,
    padded,
};

use super::outstanding::{Chunk, ChunkState};
use super::queue::Piece;
use super::sack::window_event;
use super::{MAX_OUTSTANDING, Sender};
use crate::config::AssociationConfig;
use crate::path::{PathId, Paths};
use crate::policy::{LossSignal, MarkedData};
use crate::stats::AssociationCounters;
use crate::time::Time;
use crate::trace::{Trace, TraceEvent};

/// Retransmissions of a chunk that begin T3-rtx anew, where its size may be why it is lost: that is what
/// T3-rtx tells of. As many lost probes are taken for that (RFC 8899 section 5.1.2).
const MAX_RESTARTS: u32 = 3;

/// A packet of DATA that may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DataPermit {
    pub(crate) path: PathId,
    /// Retransmissions that go whatever the congestion window says.
    pub(super) forced: bool,
    /// New data may be in it.
    pub(super) new: bool,
    /// It is a tail loss probe.
    pub(super) probe: bool,
    /// Where several paths carry data: retransmissions in it were lost on this one.
    pub(super) origin: Option<PathId>,
}

/// Everything besides the sender that sending touches.
pub(crate) struct TransmitContext<'a> {
    pub(crate) now: Time,
    pub(crate) paths: &'a mut Paths,
    pub(crate) config: &'a AssociationConfig,
    pub(crate) trace: &'a mut Trace,
    pub(crate) counters: &'a mut AssociationCounters,
    /// The association shuts down: nothing is held back any more, and each SACK is wanted at once.
    pub(crate) hurry: bool,
}

impl Sender {
    /// The next packet of DATA that may leave: marked chunks before new ones.
    pub(crate) fn permit(&mut self, cx: &mut TransmitContext<'_>) -> Option<DataPermit> {
        if let Some(permit) = self.permit_probe(cx) {
            return Some(permit);
        }
        if self.concurrent {
            return self.permit_concurrently(cx);
        }
        let mut blocked = None;
        if let Some(index) = self.outstanding.first_marked() {
            let path = self.retransmission_path(index, cx)?;
            if !cx.paths[path].confirmed {
                // The only path is a new one, which has to be verified first.
                return None;
            }
            // A peer without room gets one packet at a time.
            let refused = self.window.is_probing() && self.outstanding.in_flight() > 0;
            if self.forced || (!refused && cx.paths[path].window_is_open()) {
                return Some(DataPermit {
                    path,
                    forced: self.forced,
                    new: false,
                    probe: false,
                    origin: None,
                });
            }
            cx.paths[path].note_window_limit();
            if cx.config.policies.marked_data == MarkedData::HoldsAll {
                return None;
            }
            blocked = Some(path);
        } else {
            self.forced = false;
        }
        let Some(path) = self.new_data_path(cx.paths) else {
            if blocked.is_none() {
                let current = cx.paths.current();
                cx.paths[current].window_limited = false;
            }
            return None;
        };
        if blocked == Some(path) || !cx.paths[path].confirmed {
            return None;
        }
        cx.paths[path].decay_idle_window(cx.now);
        cx.paths[path].limit_idle_burst(cx.now, cx.config.max_burst);
        if !cx.paths[path].window_is_open() {
            cx.paths[path].note_window_limit();
            return None;
        }
        if !self.may_send_new(path, cx) {
            cx.paths[path].window_limited = false;
            return None;
        }
        Some(DataPermit {
            path,
            forced: false,
            new: true,
            probe: false,
            origin: None,
        })
    }

    /// A tail loss probe: new data if there is some and the peer has room, whatever the congestion
    /// window says, or else the last chunk in flight (RFC 8985 section 7.3).
    fn permit_probe(&mut self, cx: &mut TransmitContext<'_>) -> Option<DataPermit> {
        let path = self.take_probe(cx.paths)?;
        let new = self.may_probe_with_new(path, cx.paths, cx.config);
        let fits = |index: u64| {
            self.outstanding.chunk(index).is_some_and(|c| {
                let room = cx.paths[path].pmdcs().saturating_sub(cx.paths.reserved());
                self.outstanding.header_len() + c.payload.len() <= room
            })
        };
        if !new
            && !self
                .last_in_flight(&cx.paths[path], cx.now)
                .is_some_and(fits)
        {
            cx.paths[path].recovery.probe.due = false;
            return None;
        }
        Some(DataPermit {
            path,
            forced: false,
            new,
            probe: true,
            origin: None,
        })
    }

    /// Returns whether a tail loss probe of this path is new data.
    pub(super) fn may_probe_with_new(
        &self,
        path: PathId,
        paths: &Paths,
        config: &AssociationConfig,
    ) -> bool {
        self.may_carry_new(path, paths)
            && self.outstanding.len() < MAX_OUTSTANDING
            && self.outstanding.first_marked().is_none()
            && self.next_payload(paths, config) <= self.window.rwnd()
    }

    /// Whether a permitted packet will hold only what is sent for the first time, and is no probe of
    /// a closed window: such a packet may be marked (RFC 3168 sections 6.1.5 and 6.1.6).
    pub(crate) fn is_fresh(&self, permit: DataPermit) -> bool {
        permit.new && !self.window.probe_is_due()
    }

    /// Where a marked chunk goes by the association's policy. A path that is not confirmed never
    /// carries data.
    pub(super) fn retransmission_path(
        &self,
        index: u64,
        cx: &TransmitContext<'_>,
    ) -> Option<PathId> {
        let chunk = self.outstanding.chunk(index)?;
        let ChunkState::Marked(signal) = chunk.state else {
            return None;
        };
        Some(Self::route_again(signal, chunk.path, cx))
    }

    /// Where something goes that was lost on a path.
    pub(super) fn route_again(
        signal: LossSignal,
        last: PathId,
        cx: &TransmitContext<'_>,
    ) -> PathId {
        // With no usable path, whatever the policy: the one that promises most.
        if let Some(path) = cx.paths.last_resort(last)
            && (signal == LossSignal::Timeout || !cx.paths.all_inactive())
        {
            return path;
        }
        let policy = cx.config.policies.retransmission_route;
        let chosen = policy.route(signal, last, &mut cx.paths.views());
        let usable = cx.paths.contains(chosen) && cx.paths[chosen].confirmed;
        if usable { chosen } else { cx.paths.current() }
    }

    pub(super) fn new_data_path(&self, paths: &Paths) -> Option<PathId> {
        let wanted = self.queue.front()?.options.path;
        // A potentially failed path is as good as another one if there is no better (RFC 7829
        // section 3.2, rule 3).
        let fit = |id: &PathId| {
            paths.contains(*id) && {
                let path = &paths[*id];
                path.usable() || (path.potentially_failed && !paths[paths.current()].usable())
            }
        };
        Some(wanted.filter(fit).unwrap_or_else(|| paths.current()))
    }

    /// Payload of the next new chunk if it had a packet of its own.
    pub(super) fn next_payload(&self, paths: &Paths, config: &AssociationConfig) -> usize {
        self.queue
            .front()
            .map_or(0, |p| p.rest.len().min(self.max_payload(paths, config)))
    }

    /// Rule A of section 6.1 with silly window avoidance and Nagle's algorithm (section 4.2.3.4 of
    /// RFC 1122).
    pub(super) fn may_send_new(&mut self, path: PathId, cx: &TransmitContext<'_>) -> bool {
        let Some(front) = self.queue.front() else {
            return false;
        };
        if self.outstanding.len() >= MAX_OUTSTANDING {
            return false;
        }
        let header = self.outstanding.header_len();
        let next = front.rest.len().min(self.max_payload(cx.paths, cx.config));
        let (rwnd, queued) = (self.window.rwnd(), self.queue.bytes());
        let full = cx.paths[path].pmdcs() - header;
        if next > rwnd || self.is_silly(rwnd, full, cx.config) {
            if !self.outstanding.is_empty() {
                return false;
            }
            if next > rwnd && rwnd > 0 {
                // Not closed, only too small. Some receivers deliver the beginning of a message that
                // is larger than their buffer, and so get room, no sooner than a chunk does not fit.
                self.window.probe_at_once();
            }
            self.window.arm_probe(cx.now, cx.paths[path].rto.value());
            return self.window.probe_is_due();
        }
        let held_back = cx.config.nagle
            && !cx.hurry
            && !front.options.no_delay
            // The rest of a message that has begun: the peer may delay its SACK for the beginning.
            && !front.begun
            && self.outstanding.in_flight() > 0
            && (queued + self.queue.len() * header < cx.paths[path].pmdcs()
                || self.carried(rwnd, full, cx.config) < full);
        !held_back
    }

    /// What the window leaves room for is too little to be sent: `full` is the payload of a packet.
    pub(super) fn is_silly(&self, rwnd: usize, full: usize, config: &AssociationConfig) -> bool {
        config.sender_sws_avoidance
            && self.carried(rwnd, full, config) < full
            && rwnd < self.window.largest() / 2
    }

    /// What the window lets a packet carry of what waits, headers of further messages included. With
    /// less than `full`, the payload of a packet, it is the window that limits it.
    fn carried(&self, rwnd: usize, full: usize, config: &AssociationConfig) -> usize {
        let (queued, header) = (self.queue.bytes(), self.outstanding.header_len());
        if queued <= rwnd {
            return full;
        }
        // Small messages fill a packet with less payload than large ones do.
        let largest = config.max_payload.map_or(full, |p| p.min(full)).max(1);
        let typical = (queued / self.queue.len().max(1)).clamp(1, largest);
        rwnd + rwnd / typical * header
    }

    /// The size that a packet needs for a chunk which is larger than `normal` allows because the
    /// path MTU shrank after it had been cut (section 6.9).
    pub(crate) fn oversized(
        &self,
        permit: DataPermit,
        normal: usize,
        cx: &TransmitContext<'_>,
    ) -> Option<usize> {
        let index = self
            .outstanding
            .next_marked_of(permit.origin, 0)
            .filter(|_| !permit.new)?;
        if self.retransmission_path(index, cx) != Some(permit.path) {
            return None;
        }
        let payload = self.outstanding.chunk(index)?.payload.len();
        let len = COMMON_HEADER_LEN + padded(self.outstanding.header_len() + payload);
        (len > normal).then_some(len)
    }

    /// Puts the permitted DATA into the packet. Returns whether anything went in.
    pub(crate) fn fill(
        &mut self,
        permit: DataPermit,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) -> bool {
        let before = packet.len();
        self.leading = true;
        // A forced packet ignores the window for what is sent again, not for new data.
        let open = cx.paths[permit.path].window_is_open();
        let retransmitted = if permit.probe {
            self.fill_probe(permit, packet, cx);
            None
        } else {
            self.fill_marked(permit, packet, cx)
        };
        // A SACK in front may leave no room; then the next packet is the forced one.
        if permit.forced && retransmitted.is_some() {
            self.forced = false;
            if let Some(origin) = permit.origin {
                cx.paths[origin].recovery.forced = false;
            }
        }
        let all_again = retransmitted.filter(|_| open && !self.outstanding.has_marked());
        let fresh = permit.new && !permit.probe;
        if fresh || all_again.is_some_and(|stream| self.queue.may_bundle(stream)) {
            self.fill_new(permit, packet, cx);
        }
        if packet.len() == before {
            return false;
        }
        let rto = cx.paths[permit.path].rto.value();
        if permit.new {
            self.last_path = permit.path;
        }
        let path = &mut cx.paths[permit.path];
        // R1: started if it does not run.
        path.t3.get_or_insert(cx.now + rto);
        path.last_data = Some(cx.now);
        if permit.new && !permit.probe {
            Self::arm_probe(path, cx.now, cx.config);
        }
        true
    }

    /// Puts a probe into the packet, which asks for a SACK at once.
    fn fill_probe(
        &mut self,
        permit: DataPermit,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) {
        let hurry = core::mem::replace(&mut self.probing, true);
        let mut chunk = None;
        if permit.new {
            let first = self.outstanding.next_index();
            self.fill_new(permit, packet, cx);
            chunk = Some(self.outstanding.next_index() - 1).filter(|last| *last >= first);
        } else if let Some(index) = self.last_in_flight(&cx.paths[permit.path], cx.now)
            && let Some(c) = self.outstanding.chunk(index)
            && packet.fits(self.outstanding.header_len() + c.payload.len())
        {
            self.outstanding.recall(index, cx.paths);
            self.relaunch(index, permit.path, packet, cx);
            chunk = Some(index);
        }
        self.probing = hurry;
        if let Some(index) = chunk {
            cx.counters.tail_loss_probes += 1;
            Self::probe_sent(index, !permit.new, &mut cx.paths[permit.path], cx.now);
        }
    }

    /// Returns the stream of the last chunk that went in.
    fn fill_marked(
        &mut self,
        permit: DataPermit,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) -> Option<StreamId> {
        let mut from = 0;
        let mut last = None;
        while let Some(index) = self.outstanding.next_marked_of(permit.origin, from) {
            if self.retransmission_path(index, cx) != Some(permit.path) {
                break;
            }
            let Some(chunk) = self.outstanding.chunk(index) else {
                break;
            };
            let len = self.outstanding.header_len() + chunk.payload.len();
            let stream = chunk.stream;
            let alone = !self.queue.bundles_streams() && last.is_some_and(|l| l != stream);
            // A packet that has to leave takes what fits; one that the window lets go, what it has room for.
            let full =
                last.is_some() && !permit.forced && !cx.paths[permit.path].window_takes_more();
            if !packet.fits(len) || alone || full {
                break;
            }
            match chunk.state {
                ChunkState::Marked(LossSignal::Timeout) => cx.counters.timeout_retransmissions += 1,
                _ => cx.counters.fast_retransmissions += 1,
            }
            if self.awaits_reports() && !chunk.fast_retransmitted {
                let copy = chunk.transmissions.saturating_add(1);
                self.recovery
                    .on_resent(index, copy, self.outstanding.next_index());
            }
            self.relaunch(index, permit.path, packet, cx);
            last = Some(stream);
            from = index + 1;
        }
        last
    }

    fn fill_new(
        &mut self,
        permit: DataPermit,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) {
        let max = self.max_payload(cx.paths, cx.config);
        let header = self.outstanding.header_len();
        let bundles_streams = self.queue.bundles_streams();
        let mut first = true;
        let mut stream = None;
        while let Some(front) = self.queue.front() {
            if self.outstanding.len() >= MAX_OUTSTANDING {
                break;
            }
            if !first || !permit.new {
                // The first chunk of new data was judged by `permit`; the others only have to fit.
                let next = front.rest.len().min(max);
                let free = !self.concurrent && front.options.path.is_none();
                let here = if free {
                    cx.paths.current() == permit.path
                } else {
                    self.may_carry_new(permit.path, cx.paths)
                };
                if next > self.window.rwnd() || !here || !cx.paths[permit.path].window_takes_more()
                {
                    break;
                }
            }
            if !bundles_streams && stream.is_some_and(|stream| front.options.stream != stream) {
                break;
            }
            let room = packet.remaining().saturating_sub(header);
            let rest = front.rest.len();
            let take = if rest <= room.min(max) {
                rest
            } else if rest > max || !packet.is_empty() {
                // A fragment: it may be smaller than possible to fill the packet, but no scrap. Where
                // fragmentation is off, the message was taken before the path MTU shrank.
                let piece = room.min(max);
                if piece < max / 4 || rest <= max {
                    break;
                }
                piece
            } else {
                break;
            };
            let probe = self.window.probe_is_due();
            let Some(piece) = self.queue.cut(take) else {
                break;
            };
            stream = Some(piece.stream);
            let (message, ending) = (piece.message, piece.flags.ending);
            let index = self.launch(piece, permit.path, packet, cx);
            if message != 0 {
                self.abandonment.on_sent(message, index, ending);
            }
            first = false;
            if probe {
                self.window.probe_sent();
                cx.counters.window_probes += 1;
                break;
            }
        }
        self.queue.packet_over();
    }

    /// Gives a new piece its TSN, writes it and does the accounts of sending it. Returns its index.
    fn launch(
        &mut self,
        piece: Piece,
        to: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) -> u64 {
        if self.outstanding.is_empty() {
            self.progress = cx.now;
        }
        let leads = core::mem::take(&mut self.leading);
        let index = self.outstanding.push(piece, to, leads, cx.now, cx.paths);
        let bytes = self.write(index, to, packet, cx);
        cx.counters.data_chunks_sent += 1;
        cx.counters.data_bytes_sent += bytes as u64;
        let path = &mut cx.paths[to];
        path.timed.get_or_insert((index, cx.now));
        path.heartbeat.used = true;
        index
    }

    /// Writes a chunk that was sent before, and does the accounts of that.
    fn relaunch(
        &mut self,
        index: u64,
        to: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) {
        let mut restart = cx.paths[to].earliest.is_none_or(|e| index <= e);
        if let Some(chunk) = self.outstanding.chunk(index) {
            let len = COMMON_HEADER_LEN + self.outstanding.header_len() + chunk.payload.len();
            restart &= chunk.transmissions <= MAX_RESTARTS || !cx.paths[to].doubts(len);
            cx.paths[chunk.path].recovery.undo.on_resent(index);
        }
        let leads = core::mem::take(&mut self.leading);
        self.outstanding
            .relaunch(index, to, leads, cx.now, cx.paths);
        self.write(index, to, packet, cx);
        // C5: no sample from a chunk at or above one that was sent again.
        for path in cx.paths.iter_mut() {
            path.timed = path.timed.filter(|t| t.0 < index);
        }
        if restart {
            cx.paths[to].t3 = Some(cx.now + cx.paths[to].rto.value());
        }
    }

    /// Writes a chunk that has been launched; returns its bytes of user data.
    fn write(
        &mut self,
        index: u64,
        to: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) -> usize {
        let tsn = self.outstanding.tsn(index);
        let Some(chunk) = self.outstanding.chunk(index) else {
            return 0;
        };
        let bytes = chunk.payload.len();
        let mut flags = chunk.flags;
        // Section 6.1: a SACK at once helps when shutting down.
        let last = || self.queue.is_empty() || !cx.paths[to].window_is_open();
        flags.immediate |= self.probing || (cx.hurry && flags.ending && last());
        write_chunk(packet, tsn, chunk, flags, self.interleaving);
        self.window.sent(bytes);
        if let Some(reduction) = &mut cx.paths[to].recovery.reduction {
            reduction.on_sent(self.outstanding.weight(bytes));
        }
        if cx.trace.enabled() {
            let sent = TraceEvent::ChunkSent {
                tsn,
                stream: chunk.stream,
                path: to,
                transmission: chunk.transmissions,
                bytes,
                context: chunk.context,
            };
            cx.trace.record(cx.now, sent);
            cx.trace.record(cx.now, window_event(&cx.paths[to]));
        }
        bytes
    }
}

/// Writes a chunk as DATA, or as I-DATA if messages may interleave.
fn write_chunk(
    packet: &mut PacketBuilder<'_>,
    tsn: Tsn,
    chunk: &Chunk,
    flags: DataFlags,
    interleaving: bool,
) {
    if !interleaving {
        let header = DataHeader {
            tsn,
            stream: chunk.stream,
            ssn: chunk.ssn(),
            ppid: chunk.ppid,
            flags,
        };
        return packet.data(&header, &chunk.payload);
    }
    let header = IDataHeader {
        tsn,
        stream: chunk.stream,
        mid: chunk.mid,
        fragment: if flags.beginning {
            Fragment::First(chunk.ppid)
        } else {
            Fragment::Later(chunk.fsn)
        },
        immediate: flags.immediate,
        unordered: flags.unordered,
        ending: flags.ending,
    };
    packet.i_data(&header, &chunk.payload);
}
