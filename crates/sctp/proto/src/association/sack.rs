//! SACKs in packets: bundled, or alone (RFC 9260, sections 6.1 and 6.2). When a SACK is due, what it holds
//! and where it goes: `rx::sack`.

use alloc::vec::Vec;

use carrick_wire::{ChunkType, PacketBuilder};

use super::forward_tsn::FORWARDS;
use super::output::single;
use super::output_control::{REPLIES, SHUTDOWNS};
use super::{Association, Context, Reply};
use crate::auth::ChunkSet;
use crate::observer::ObservedEvent;
use crate::path::PathId;
use crate::transmit::Transmit;

/// Chunk types that [`Association::write_sack`] writes.
const SACKS: ChunkSet = ChunkSet::of(&[ChunkType::SACK, ChunkType::NR_SACK]);

/// Chunk types that [`Association::write_sack_with_ecne`] writes.
pub(super) const SACKS_WITH_ECNE: ChunkSet = ChunkSet::of(&[ChunkType::ECNE]).with(SACKS);

impl Association {
    /// Writes a pending SACK into a packet for this path, if its route is the same (RFC 9260, section
    /// 6.1).
    pub(super) fn bundle_sack(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut Context<'_>,
    ) {
        if self
            .receiver
            .may_bundle_sack(path, &self.paths, &self.config)
        {
            self.write_sack_with_ecne(path, packet, cx);
        }
    }

    /// Returns whether a SACK that reports all gaps fits into the packet, beside an ECNE.
    pub(super) fn has_room_for_sack(&self, packet: &PacketBuilder<'_>) -> bool {
        packet.remaining() >= self.receiver.sack_len() + self.ecn.ecne_len()
    }

    /// Writes a SACK into a packet, with an ECNE in front if there is one to send (RFC 4960 appendix A).
    pub(super) fn write_sack_with_ecne(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut Context<'_>,
    ) {
        let has_ecne = self.ecn.write_ecne(packet);
        if has_ecne {
            self.counters.other().ecnes_sent += 1;
        }
        self.write_sack(path, packet, cx);
    }

    /// Writes a SACK into a packet.
    pub(super) fn write_sack(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut Context<'_>,
    ) {
        let kind = self.receiver.write_sack(packet);
        self.count_sack(path, kind, cx);
    }

    /// Queues the SACK that is due as a separate packet, before the next packet with DATA of a batch
    /// is processed: each packet that arrives above a gap is acknowledged by its own SACK (RFC 9260,
    /// section 6.7), or the peer would count a whole batch as one missing report.
    pub(super) fn queue_missing_report(&mut self, cx: &mut Context<'_>) {
        if !self.receiver.sack_is_missing_report() || !self.replies.takes_missing_report() {
            return;
        }
        let (path, route) = self.receiver.sack_route(&self.paths, &self.config);
        if !self.paths[path].is_confirmed() {
            return;
        }
        // AUTH precedes other chunks of the packet, too.
        let reserved = self.auth.len_for(&REPLIES);
        let limit = self.paths[path].packet_size() - reserved;
        let (kind, value) = self.receiver.encode_sack(limit);
        self.count_sack(path, kind, cx);
        self.replies.push(route, Reply::Sack(kind, value));
    }

    /// Writes a packet with a SACK that is due, and SHUTDOWN or SHUTDOWN ACK behind it.
    pub(super) fn output_sack(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if !self.receiver.sack_is_due() {
            return None;
        }
        // The route of the DATA may be the one on which SHUTDOWN was lost.
        let (path, route) = self
            .repeated_shutdown_route()
            .unwrap_or_else(|| self.receiver.sack_route(&self.paths, &self.config));
        if !self.paths[path].is_confirmed() {
            return None;
        }
        let limit = self.paths[path].packet_size();
        let mut packet = PacketBuilder::new(buf, self.header(), limit);
        let kinds = SACKS_WITH_ECNE.with(SHUTDOWNS).with(FORWARDS);
        let slot = self.auth.open(&mut packet, &kinds);
        self.write_sack_with_ecne(path, &mut packet, cx);
        self.bundle_shutdown(path, &mut packet, false, cx);
        Some(single(route, self.finish(packet, slot)))
    }

    fn count_sack(&mut self, path: PathId, kind: ChunkType, cx: &Context<'_>) {
        if kind == ChunkType::NR_SACK {
            self.counters.nr_sacks_sent += 1;
        }
        self.counters.sacks_sent += 1;
        let gaps = self.receiver.gap_count();
        self.observation
            .record_chunk(cx.now, || ObservedEvent::SackSent { path, gaps });
    }
}
