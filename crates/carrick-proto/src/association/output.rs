//! What leaves next: answers, then DATA with the SACK bundled, then SACK, SHUTDOWN and heartbeats.

use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN, ChunkType, PacketBuilder};

use super::oversized::fill_up;
use super::state::State;
use super::{Association, Context, MAX_MISSING_REPORTS, MAX_REPLIES, Reply};
use crate::path::PathId;
use crate::policy::SackSituation;
use crate::route::{Route, Transmit};
use crate::send::TransmitContext;
use crate::trace::TraceEvent;

/// Packets and bytes in one transmit at most, which is what segmentation offload takes.
const MAX_SEGMENTS: usize = 64;
const MAX_SEGMENTED_BYTES: usize = 65_000;

/// What packets with data hold: data alone, or with what fills it up, or with what may go in front of it.
const DATA_KINDS: [ChunkType; 2] = [ChunkType::DATA, ChunkType::I_DATA];
const OVERSIZED: [ChunkType; 3] = [ChunkType::DATA, ChunkType::I_DATA, ChunkType::PAD];
const BUNDLED: [ChunkType; 7] = [
    ChunkType::DATA,
    ChunkType::I_DATA,
    ChunkType::SACK,
    ChunkType::ECNE,
    ChunkType::FORWARD_TSN,
    ChunkType::I_FORWARD_TSN,
    ChunkType::NR_SACK,
];

/// What a packet for a SACK may hold.
const CLOSING: [ChunkType; 7] = [
    ChunkType::SACK,
    ChunkType::ECNE,
    ChunkType::SHUTDOWN,
    ChunkType::SHUTDOWN_ACK,
    ChunkType::NR_SACK,
    ChunkType::FORWARD_TSN,
    ChunkType::I_FORWARD_TSN,
];

impl Association {
    /// Writes the next packets to the end of `buf`.
    pub(crate) fn poll_transmit(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        self.follow_local_addresses(cx);
        loop {
            let transmit = self.next_transmit(buf, cx)?;
            if let Some(transmit) = self.protect(buf, transmit, cx.now) {
                self.count(&transmit, cx);
                return Some(transmit);
            }
        }
    }

    fn next_transmit(&mut self, buf: &mut Vec<u8>, cx: &mut Context<'_>) -> Option<Transmit> {
        match self.state {
            State::Closed => None,
            State::CookieWait(_) => self.output_init(buf, cx),
            // Nothing else may be sent before COOKIE ACK came (section 5.1 C).
            State::CookieEchoed(_) => self.output_cookie_echo(buf, cx),
            _ if self.is_stranded() => self.output_asconf(buf, cx),
            _ => self
                .output_replies(buf, cx)
                .or_else(|| self.output_asconf(buf, cx))
                .or_else(|| self.output_reconfig(buf, cx))
                .or_else(|| self.output_data(buf, cx))
                .or_else(|| self.output_forward(buf, cx))
                .or_else(|| self.output_sack(buf, cx))
                .or_else(|| self.output_shutdown(buf, cx))
                .or_else(|| self.output_heartbeat(buf, cx))
                .or_else(|| self.output_probe(buf, cx)),
        }
    }

    fn count(&mut self, transmit: &Transmit, cx: &mut Context<'_>) {
        let packets = transmit.packets() as u64;
        self.counters.packets_sent += packets;
        cx.stats.packets_sent += packets;
        if let Some(id) = self.path_of(&transmit.route) {
            self.paths[id].counters.packets_sent += packets;
            self.paths[id].counters.bytes_sent += transmit.len as u64;
        }
    }

    fn output_data(&mut self, buf: &mut Vec<u8>, cx: &mut Context<'_>) -> Option<Transmit> {
        if !self.state.sends_data() {
            return None;
        }
        self.expire_messages(cx);
        if !self.state.sends_data() {
            return None;
        }
        let header = self.header();
        let config = Arc::clone(&self.config);
        let hurry = !matches!(self.state, State::Established);
        let start = buf.len();
        let mut segment_size = None;
        let mut segments = 0;
        let mut may_fragment = false;
        let mut path = None;
        let reserved = self.auth_len(&DATA_KINDS);
        // A protection may make packets of different sizes of equal ones.
        let max_segments = self.protection.as_ref().map_or(MAX_SEGMENTS, |_| 1);
        let mut fresh = None;
        let mut alone = false;
        loop {
            let mut tx = self.transmit_context(&config, cx, hurry);
            let Some(permit) = tx.0.permit(&mut tx.1) else {
                break;
            };
            let is_fresh = tx.0.is_fresh(permit);
            if path.is_some_and(|p| p != permit.path) || fresh.is_some_and(|f| f != is_fresh) {
                break;
            }
            let normal = tx.1.paths[permit.path].packet_size();
            let oversized = tx.0.oversized(permit, normal - reserved, &tx.1);
            let oversized = oversized.map(|size| {
                let needed = size + self.auth_len(&OVERSIZED);
                self.limit_for(needed, normal, permit.path, cx)
            });
            if segments > 0 && (oversized.is_some() || segment_size.is_some_and(|s| s > normal)) {
                break;
            }
            may_fragment |= oversized.is_some();
            let limit = oversized.or(segment_size).unwrap_or(normal);
            let before = buf.len();
            let mut packet = PacketBuilder::new(buf, header, limit);
            let bundles = segments == 0 && oversized.is_none();
            let sack = bundles && self.sack_goes_on(permit.path);
            let forward = bundles && self.sender.forward_is_due();
            // The room for AUTH is DATA's own where nothing else needs it.
            let kinds = if sack || forward && !alone {
                &BUNDLED[..]
            } else if oversized.is_some() {
                &OVERSIZED[..]
            } else {
                &DATA_KINDS
            };
            let slot = self.open_auth(&mut packet, kinds);
            if sack {
                self.write_ecne(&mut packet);
                self.write_sack(permit.path, &mut packet, cx);
            }
            if forward && !alone {
                self.bundle_forward(permit.path, &mut packet, cx);
            }
            let (sender, mut tx) = self.transmit_context(&config, cx, hurry);
            let ahead = packet.len();
            let filled = sender.fill(permit, &mut packet, &mut tx);
            fill_up(&mut packet, normal, ahead);
            let len = self.finish(packet, slot);
            if len == 0 {
                if forward && !alone {
                    // FORWARD-TSN goes elsewhere.
                    alone = true;
                    continue;
                }
                break;
            }
            path = Some(permit.path);
            fresh = Some(is_fresh);
            segments += 1;
            self.paths[permit.path].data_packet_sent(len);
            let full = *segment_size.get_or_insert(len);
            let room = segments < max_segments && buf.len() - start + full <= MAX_SEGMENTED_BYTES;
            if !filled || len < full || !room || may_fragment {
                break;
            }
            debug_assert!(buf.len() > before);
        }
        let path = path?;
        Some(Transmit {
            route: Route {
                ecn: self.ecn_field(path, fresh == Some(true)),
                ..self.paths[path].route()
            },
            len: buf.len() - start,
            segment_size: segment_size.filter(|_| segments > 1),
            may_fragment,
            probe: false,
        })
    }

    pub(super) fn transmit_context<'a>(
        &'a mut self,
        config: &'a crate::config::AssociationConfig,
        cx: &Context<'_>,
        hurry: bool,
    ) -> (&'a mut crate::send::Sender, TransmitContext<'a>) {
        let context = TransmitContext {
            now: cx.now,
            paths: &mut self.paths,
            config,
            trace: &mut self.trace,
            counters: &mut self.counters,
            hurry,
        };
        (&mut self.sender, context)
    }

    /// Where a SACK goes by the association's policy, and the way there.
    fn sack_route(&self) -> (PathId, Route) {
        let current = self.paths.current();
        let Some(route) = self.data_route else {
            return (current, self.paths[current].route());
        };
        let known = self.path_of(&route).filter(|p| self.paths[*p].confirmed);
        let source = known.unwrap_or(current);
        let situation = SackSituation {
            source,
            gaps: self.receiver.has_gaps(),
            duplicates: self.receiver.has_duplicates(),
        };
        let chosen = self
            .config
            .policies
            .sack_route
            .route(&situation, &mut self.paths.views());
        let usable = self.paths.contains(chosen) && self.paths[chosen].confirmed;
        let chosen = if usable { chosen } else { source };
        if Some(chosen) == known {
            // The answer leaves from the address that was addressed.
            return (source, route);
        }
        (chosen, self.paths[chosen].route())
    }

    /// Puts a SACK in front of DATA if one is pending and belongs there (section 6.1).
    pub(super) fn bundle_sack(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut Context<'_>,
    ) {
        if self.sack_goes_on(path) {
            self.write_ecne(packet);
            self.write_sack(path, packet, cx);
        }
    }

    /// A SACK is pending and goes the way of what is sent on this path.
    fn sack_goes_on(&self, path: PathId) -> bool {
        if !self.receiver.sack_is_pending() {
            return false;
        }
        let (to, route) = self.sack_route();
        to == path && route.local == self.paths[path].local
    }

    /// Whether what is left of a packet holds a SACK with all that there is to say of gaps, beside an
    /// ECNE. What a SACK leaves out that one before it had said, the peer takes for taken back (section
    /// 6.2.1, D iii).
    pub(super) fn has_room_for_sack(&self, packet: &PacketBuilder<'_>) -> bool {
        const SACK_LEN: usize = 16;
        let needed = SACK_LEN + self.ecne_len() + 4 * self.receiver.gap_count();
        packet.remaining() >= needed
    }

    pub(super) fn write_sack(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut Context<'_>,
    ) {
        let nr_sack = self.receiver.fits_nr_sack(packet.nr_sack_entries());
        let receiver = &self.receiver;
        let cumulative = receiver.cumulative_tsn();
        let a_rwnd = u32::try_from(receiver.a_rwnd()).unwrap_or(u32::MAX);
        if nr_sack {
            let (gaps, kept) = (receiver.renegable_blocks(), receiver.non_renegable_blocks());
            packet.nr_sack(cumulative, a_rwnd, false, gaps, kept, receiver.duplicates());
            self.counters.nr_sacks_sent += 1;
        } else {
            let gaps = receiver.gap_ack_blocks();
            packet.sack(cumulative, a_rwnd, gaps, receiver.duplicates());
        }
        self.trace.record(
            cx.now,
            TraceEvent::SackSent {
                path,
                gaps: receiver.gap_count(),
            },
        );
        self.receiver.sack_sent();
        self.counters.sacks_sent += 1;
    }

    /// Before the next packet with DATA of a batch is taken: each packet that arrives while there
    /// are gaps has its own SACK (section 6.7), or the peer would count a whole batch as one
    /// missing report.
    pub(super) fn keep_missing_report(&mut self, cx: &mut Context<'_>) {
        let kept = |r: &&(Route, Reply)| matches!(r.1, Reply::Sack(..));
        if !self.receiver.sack_is_missing_report()
            || self.replies.len() >= MAX_REPLIES
            || self.replies.iter().filter(kept).count() >= MAX_MISSING_REPORTS
        {
            return;
        }
        let (path, route) = self.sack_route();
        if !self.paths[path].confirmed {
            return;
        }
        let mut buf = Vec::new();
        let reserved = self.auth_len(&[ChunkType::SACK, ChunkType::NR_SACK]);
        let limit = self.paths[path].packet_size() - reserved;
        let mut packet = PacketBuilder::new(&mut buf, self.header(), limit);
        self.write_sack(path, &mut packet, cx);
        packet.finish();
        let kind = ChunkType(buf[COMMON_HEADER_LEN]);
        let value = Bytes::from(buf).slice(COMMON_HEADER_LEN + CHUNK_HEADER_LEN..);
        self.replies.push_back((route, Reply::Sack(kind, value)));
    }

    fn output_sack(&mut self, buf: &mut Vec<u8>, cx: &mut Context<'_>) -> Option<Transmit> {
        if !self.receiver.sack_is_due() {
            return None;
        }
        // The way of the data may be the one on which SHUTDOWN was lost.
        let (path, route) = self
            .repeated_shutdown_route()
            .unwrap_or_else(|| self.sack_route());
        if !self.paths[path].confirmed {
            return None;
        }
        let limit = self.paths[path].packet_size();
        let mut packet = PacketBuilder::new(buf, self.header(), limit);
        let slot = self.open_auth(&mut packet, &CLOSING);
        self.write_ecne(&mut packet);
        self.write_sack(path, &mut packet, cx);
        self.bundle_shutdown(path, &mut packet, false, cx);
        Some(single(route, self.finish(packet, slot)))
    }
}

/// One packet.
pub(super) fn single(route: Route, len: usize) -> Transmit {
    Transmit {
        route,
        len,
        segment_size: None,
        may_fragment: false,
        probe: false,
    }
}
