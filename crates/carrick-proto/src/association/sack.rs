//! SACKs in packets: the route of a SACK, bundling, and packets with a SACK alone (RFC 9260, sections
//! 6.1, 6.2 and 6.4). When a SACK is due and what it holds: `rx::sack`.

use alloc::vec::Vec;

use carrick_wire::{ChunkType, PacketBuilder};

use super::output::single;
use super::{Association, Context, Reply};
use crate::path::PathId;
use crate::route::{Route, Transmit};
use crate::trace::TraceEvent;

/// Chunks that a packet with a SACK alone may hold.
const SACK_KINDS: [ChunkType; 7] = [
    ChunkType::SACK,
    ChunkType::ECNE,
    ChunkType::SHUTDOWN,
    ChunkType::SHUTDOWN_ACK,
    ChunkType::NR_SACK,
    ChunkType::FORWARD_TSN,
    ChunkType::I_FORWARD_TSN,
];

impl Association {
    /// Passes the path of a packet with DATA to SACK generation, if that depends on it.
    pub(super) fn note_source_path(&mut self, route: &Route) {
        if self.receiver.needs_source_path() {
            let path = self.path_of(route);
            self.receiver.set_source_path(path);
        }
    }

    /// Returns the path and route of the next SACK.
    ///
    /// 1. Before any DATA: the primary path.
    /// 2. The source of the last DATA, or the primary path if that source is not confirmed.
    /// 3. The path that the association's [`crate::research::SackRoute`] selects, if it is confirmed.
    /// 4. To the source of the DATA, the SACK leaves from the address to which the DATA was sent (RFC
    ///    9260, section 6.4).
    fn sack_route(&self) -> (PathId, Route) {
        // Step 1.
        let current = self.paths.current();
        let Some(route) = self.data_route else {
            return (current, self.paths[current].route());
        };
        // Step 2.
        let known = self.path_of(&route).filter(|p| self.paths[*p].confirmed);
        let source = known.unwrap_or(current);
        // Step 3.
        let rule = self.config.research.policies.sack_route;
        let chosen = self
            .receiver
            .sack_path(source, rule, &mut self.paths.views());
        let usable = self.paths.contains(chosen) && self.paths[chosen].confirmed;
        let chosen = if usable { chosen } else { source };
        // Step 4.
        if Some(chosen) == known {
            return (source, route);
        }
        (chosen, self.paths[chosen].route())
    }

    /// Returns whether a SACK is pending and its route is that of the data on this path.
    pub(super) fn may_bundle_sack(&self, path: PathId) -> bool {
        if !self.receiver.sack_is_pending() {
            return false;
        }
        let (to, route) = self.sack_route();
        to == path && route.local == self.paths[path].local
    }

    /// Writes a pending SACK into a packet for this path, if its route is the same (RFC 9260, section
    /// 6.1).
    pub(super) fn bundle_sack(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut Context<'_>,
    ) {
        if self.may_bundle_sack(path) {
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
        self.counters.ecnes_sent += u64::from(has_ecne);
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
        let (path, route) = self.sack_route();
        if !self.paths[path].confirmed {
            return;
        }
        let reserved = self.auth.len_for(&[ChunkType::SACK, ChunkType::NR_SACK]);
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
            .unwrap_or_else(|| self.sack_route());
        if !self.paths[path].confirmed {
            return None;
        }
        let limit = self.paths[path].packet_size();
        let mut packet = PacketBuilder::new(buf, self.header(), limit);
        let slot = self.auth.open(&mut packet, &SACK_KINDS);
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
        self.trace
            .record(cx.now, TraceEvent::SackSent { path, gaps });
    }
}
