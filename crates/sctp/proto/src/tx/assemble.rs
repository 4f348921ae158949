//! DATA chunks of a packet: retransmissions, new data, tail loss probes (RFC 9260, sections 6.1, 6.9 and
//! 6.10).

use carrick_wire::{
    COMMON_HEADER_LEN, DataFlags, DataHeader, Fragment, IDataHeader, PacketBuilder, StreamId, Tsn,
};

use super::outstanding::{Chunk, ChunkState};
use super::packet_plan::{DataPacketPlan, TransmitContext};
use super::queue::NewChunk;
use super::sack_processing::window_event;
use super::{MAX_OUTSTANDING, Sender};
use crate::observer::ObservedEvent;
use crate::path::{PacketNumbers, PathId, ProbeTransmission};
use crate::tx::LossSignal;

/// Limit of the retransmissions of a chunk that restart T3-rtx if the chunk may be lost because of its
/// size, which only the expiry of T3-rtx shows. As many lost probes show it, too (RFC 8899, section
/// 5.1.2).
const MAX_RESTARTS: u32 = 3;

impl Sender {
    /// Adds the chunks of a plan to a packet; returns whether there was room for any.
    ///
    /// 1. Add the tail loss probe, or the retransmissions (RFC 9260, section 6.1, C).
    /// 2. Add new data, if the plan is for new data, or if all retransmissions are in the packet and cwnd
    ///    has room (section 6.1, A and B).
    /// 3. Start T3-rtx if it does not run (section 6.3.2, R1), the probe timer, and the check of a path on which
    ///    nothing is acknowledged. Record the packet for congestion control.
    pub(crate) fn add_data(
        &mut self,
        plan: DataPacketPlan,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) -> bool {
        let before = packet.len();
        self.next_is_first = true;
        // 1. A forced packet ignores cwnd for retransmissions only.
        let open = cx.paths[plan.path].window_is_open();
        let first = self.outstanding.transmissions() + 1;
        let flight_before = if self.rate_based {
            cx.paths[plan.path].flight().size()
        } else {
            0
        };
        let retransmitted = if plan.probe {
            self.add_probe(plan, packet, cx);
            None
        } else {
            self.add_retransmissions(plan, packet, cx)
        };
        // A bundled SACK may leave no room; then the next packet is the forced one.
        if plan.forced && retransmitted.is_some() {
            self.forced = false;
            if let Some(origin) = plan.origin {
                cx.paths[origin].recovery_mut().set_forced(false);
            }
        }
        // 2.
        let all_retransmitted = retransmitted.filter(|_| open && !self.outstanding.has_marked());
        let new = plan.new && !plan.probe;
        if new || all_retransmitted.is_some_and(|stream| self.queue.may_bundle(stream)) {
            self.add_new_data(plan, packet, cx);
        }
        if packet.len() == before {
            return false;
        }
        // 3.
        if plan.new {
            self.multipath.new_data_sent(plan.path);
        }
        let path = &mut cx.paths[plan.path];
        path.on_data_departure(cx.now);
        if self.rate_based {
            let numbers = PacketNumbers {
                first,
                last: self.outstanding.transmissions(),
                highest: self.outstanding.next_index() - 1,
            };
            let bytes = packet.len() - before;
            path.on_data_sent(bytes, flight_before, numbers, cx.now);
        }
        if plan.new && !plan.probe {
            self.detector.arm_probe(path, cx.now, cx.config);
        }
        if self.watches_silence(cx.paths) {
            cx.paths[plan.path].watch_silence(cx.now, cx.config);
        }
        true
    }

    /// Adds a tail loss probe, which requests a SACK without delay (I bit).
    fn add_probe(
        &mut self,
        plan: DataPacketPlan,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) {
        let before = core::mem::replace(&mut self.probing, true);
        let mut chunk = None;
        if plan.new {
            let first = self.outstanding.next_index();
            self.add_new_data(plan, packet, cx);
            chunk = Some(self.outstanding.next_index() - 1).filter(|last| *last >= first);
        } else if let Some(index) = self.last_in_flight(&cx.paths[plan.path], cx.now)
            && let Some(c) = self.outstanding.chunk(index)
            && packet.fits(self.outstanding.header_len() + c.payload.len())
        {
            self.outstanding.reclaim(index, cx.paths);
            self.retransmit(index, plan.path, packet, cx);
            chunk = Some(index);
        }
        self.probing = before;
        if let Some(index) = chunk {
            cx.counters.other().tail_loss_probes += 1;
            cx.paths[plan.path].on_probe_sent(ProbeTransmission {
                index,
                at: cx.now,
                retransmission: !plan.new,
            });
            let event = ObservedEvent::TailLossProbe { path: plan.path };
            cx.observation.record(cx.now, || event);
        }
    }

    /// Adds marked chunks; returns the stream of the last one.
    fn add_retransmissions(
        &mut self,
        plan: DataPacketPlan,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) -> Option<StreamId> {
        let mut from = 0;
        let mut last = None;
        while let Some(index) = self.outstanding.next_marked_of(plan.origin, from) {
            if self.retransmission_path(index, cx) != Some(plan.path) {
                break;
            }
            let Some(chunk) = self.outstanding.chunk(index) else {
                break;
            };
            let len = self.outstanding.header_len() + chunk.payload.len();
            let stream = chunk.stream;
            let unbundled = !self.queue.bundles_streams() && last.is_some_and(|l| l != stream);
            // A forced packet takes what fits; another one what cwnd has room for.
            let full = last.is_some() && !plan.forced && !cx.paths[plan.path].window_takes_more();
            if !packet.fits(len) || unbundled || full {
                break;
            }
            match chunk.state {
                ChunkState::Marked(LossSignal::Timeout) => {
                    cx.counters.other().timeout_retransmissions += 1
                }
                _ => cx.counters.other().fast_retransmissions += 1,
            }
            let next = self.outstanding.next_index();
            self.detector.on_retransmission(index, chunk, next);
            self.retransmit(index, plan.path, packet, cx);
            last = Some(stream);
            from = index + 1;
        }
        last
    }

    /// Adds new data. For each chunk:
    ///
    /// 1. Stop where another path or another packet is to carry it, or where the peer's window or cwnd has no
    ///    room (RFC 9260, section 6.1, A and B).
    /// 2. Take the rest of the message, or a fragment of it (section 6.9).
    /// 3. Assign a TSN and write the chunk. A window probe is the only chunk (section 6.1, A).
    fn add_new_data(
        &mut self,
        plan: DataPacketPlan,
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
            // 1.
            if !first || !plan.new {
                // The first chunk of new data is part of the plan; further chunks have to fit.
                let next = front.rest.len().min(max);
                let undirected = !self.multipath.is_concurrent() && front.options.path.is_none();
                let here = if undirected {
                    cx.paths.current() == plan.path
                } else {
                    self.may_carry_new(plan.path, cx.paths)
                };
                if next > self.window.rwnd() || !here || !cx.paths[plan.path].window_takes_more() {
                    break;
                }
            }
            if !bundles_streams && stream.is_some_and(|stream| front.options.stream != stream) {
                break;
            }
            // 2.
            let room = packet.remaining().saturating_sub(header);
            let rest = front.rest.len();
            let take = if rest <= room.min(max) {
                rest
            } else if rest > max || !packet.is_empty() {
                // A fragment may be smaller than the largest one to fill the packet, but not by far. With
                // fragmentation off, the path MTU has shrunk since the message was queued.
                let fragment = room.min(max);
                if fragment == 0 || fragment < max / 4 || rest <= max {
                    break;
                }
                fragment
            } else {
                break;
            };
            let probe = self.window.probe_is_due();
            let Some(chunk) = self.queue.cut(take) else {
                break;
            };
            // 3.
            stream = Some(chunk.stream);
            let (message, ending) = (chunk.message, chunk.flags.ending);
            let index = self.transmit_new(chunk, plan.path, packet, cx);
            if message != 0 {
                self.abandonment.on_sent(message, index, ending);
            }
            first = false;
            if probe {
                self.window.probe_sent();
                cx.counters.other().window_probes += 1;
                break;
            }
        }
        self.queue.packet_over();
    }

    /// Assigns a TSN to a new chunk and writes it. Returns its index.
    fn transmit_new(
        &mut self,
        chunk: NewChunk,
        to: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) -> u64 {
        if self.outstanding.is_empty() {
            self.progress = cx.now;
        }
        let first_in_packet = core::mem::take(&mut self.next_is_first);
        let flags = chunk.flags;
        let outstanding = &mut self.outstanding;
        let index = outstanding.push(chunk, to, first_in_packet, cx.now, cx.paths);
        let bytes = self.write(index, to, packet, cx);
        cx.counters.data_chunks_sent += 1;
        if flags.unordered {
            cx.counters.other().unordered_chunks_sent += 1;
        }
        cx.stats.messages_fragmented += u64::from(flags.beginning && !flags.ending);
        cx.counters.data_bytes_sent += bytes as u64;
        let path = &mut cx.paths[to];
        path.time_chunk(index, cx.now);
        path.note_use();
        index
    }

    /// Writes a chunk that was sent before.
    fn retransmit(
        &mut self,
        index: u64,
        to: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut TransmitContext<'_>,
    ) {
        let mut restart = cx.paths[to].flight().earliest().is_none_or(|e| index <= e);
        if let Some(chunk) = self.outstanding.chunk(index) {
            let len = COMMON_HEADER_LEN + self.outstanding.header_len() + chunk.payload.len();
            restart &= chunk.transmissions <= MAX_RESTARTS || !cx.paths[to].may_exceed_pmtu(len);
            let recovery = cx.paths[chunk.path].recovery_mut();
            recovery.on_retransmission(index);
        }
        cx.counters.other().retransmissions += 1;
        let first_in_packet = core::mem::take(&mut self.next_is_first);
        self.outstanding
            .retransmit(index, to, first_in_packet, cx.now, cx.paths);
        self.write(index, to, packet, cx);
        // No RTT sample from a retransmitted chunk or a later one (section 6.3.1, C5).
        for path in cx.paths.iter_mut() {
            path.stop_timing_from(index);
        }
        if restart {
            cx.paths[to].restart_t3(cx.now);
        }
    }

    /// Writes an outstanding chunk; returns its bytes of user data.
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
        // While shutting down, a SACK without delay for the last chunks (RFC 9260, section 6.1).
        let last = || self.queue.is_empty() || !cx.paths[to].window_is_open();
        flags.immediate |= self.probing || (cx.shutting_down && flags.ending && last());
        write_chunk(packet, tsn, chunk, flags, self.interleaving);
        self.window
            .sent(bytes + cx.config.research.peer_chunk_overhead);
        if cx.observation.takes_chunks() {
            cx.observation.record(cx.now, || ObservedEvent::ChunkSent {
                tsn,
                stream: chunk.stream,
                path: to,
                transmission: chunk.transmissions,
                bytes,
                context: chunk.context,
            });
            cx.observation
                .record(cx.now, || window_event(&cx.paths[to]));
        }
        bytes
    }
}

/// Writes a chunk as DATA, or with interleaving as I-DATA.
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
