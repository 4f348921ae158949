//! Path MTU discovery (RFC 8899, for SCTP section 6.2): transmission of probes, and their results.

use alloc::vec::Vec;

use carrick_wire::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN, ChunkType, PacketBuilder};

use super::output::single;
use super::{Association, Context};
use crate::path::{PathId, heartbeat};
use crate::route::Transmit;
use crate::time::Time;

impl Association {
    /// Restarts the search on a path that is new, works again or leads elsewhere; stops it until the
    /// path works.
    pub(super) fn restart_mtu_discovery(&mut self, id: PathId) {
        let path = &mut self.paths[id];
        let works = path.confirmed && path.active;
        match &mut path.discovery {
            Some(discovery) if works => discovery.start(),
            Some(discovery) => discovery.stop(),
            None => return,
        }
        self.use_discovered_mtu(id, None);
    }

    /// Applies the discovered MTU. If packets in flight were too large, marks them for retransmission;
    /// message lifetimes are checked against `resend`.
    fn use_discovered_mtu(&mut self, id: PathId, resend: Option<Time>) {
        let path = &mut self.paths[id];
        let Some(mtu) = path.discovery.as_ref().map(|d| d.mtu()) else {
            return;
        };
        let before = path.mtu();
        path.set_mtu(mtu);
        if let Some(now) = resend.filter(|_| mtu < before) {
            self.sender.resend_path(id, now, &mut self.paths);
            self.report_abandoned();
        }
    }

    /// A probe: HEARTBEAT with a separate nonce, and PAD (RFC 8899 section 6.2.1.2).
    pub(super) fn output_probe(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if !self.state.sends_heartbeats() {
            return None;
        }
        let wanted = |p: &crate::path::Path| Some((p.id, p.discovery.as_ref()?.wanted()?));
        let (id, size) = self.paths.iter().find_map(wanted)?;
        let header = self.header();
        let kinds = [ChunkType::HEARTBEAT, ChunkType::PAD];
        let bare = COMMON_HEADER_LEN + self.auth_len(&kinds) + heartbeat::CHUNK_LEN;
        let path = &mut self.paths[id];
        let nonce = cx.random.u64();
        let rto = path.rto.value();
        let (route, below) = (path.route(), path.below_len());
        if let Some(discovery) = &mut path.discovery {
            discovery.sent(cx.now, nonce, rto);
        }
        path.counters.mtu_probes_sent += u64::from(size > 0);
        let len = size.saturating_sub(below).max(bare);
        let mut packet = PacketBuilder::new(buf, header, len);
        let slot = self.open_auth(&mut packet, &kinds);
        packet.heartbeat(&heartbeat::info(nonce, id.0));
        if len >= bare + CHUNK_HEADER_LEN {
            packet.pad((len - bare) & !3);
        }
        Some(Transmit {
            probe: size > 0,
            ..single(route, self.finish(packet, slot))
        })
    }

    /// Checks the nonce of a HEARTBEAT ACK. Returns whether it answers a probe.
    pub(super) fn on_probe_ack(&mut self, id: PathId, nonce: u64, cx: &Context<'_>) -> bool {
        let path = &mut self.paths[id];
        let Some(discovery) = &mut path.discovery else {
            return false;
        };
        let is_probe = discovery.answered(cx.now, nonce);
        path.counters.mtu_probes_answered += u64::from(is_probe);
        is_probe
    }

    /// Informs the search that a heartbeat or probe of the path was acknowledged.
    pub(super) fn after_heartbeat_ack(&mut self, id: PathId, now: Time) {
        if let Some(discovery) = &mut self.paths[id].discovery {
            let black_hole = discovery.on_alive(now);
            self.use_discovered_mtu(id, black_hole.then_some(now));
        }
    }

    /// A timer of the search is due.
    pub(super) fn on_mtu_timer(&mut self, id: PathId, now: Time) {
        let path = &mut self.paths[id];
        let well = path.error_count == 0;
        let data = path.last_data;
        if let Some(discovery) = &mut path.discovery {
            let black_hole = discovery.handle_timeout(now, well, data);
            self.use_discovered_mtu(id, black_hole.then_some(now));
        }
    }

    /// The host's stack refused a probe of `len` bytes as too large.
    pub(crate) fn on_probe_refused(&mut self, id: PathId, len: usize, now: Time) {
        let path = &mut self.paths[id];
        let size = len + path.below_len();
        if let Some(discovery) = &mut path.discovery {
            discovery.refused(now, size);
            self.use_discovered_mtu(id, None);
        }
    }

    /// ICMP: packets to this path are too big (RFC 8899 section 4.6, RFC 9260 section 10, ICMP7).
    /// Returns whether the reported MTU was plausible.
    pub(crate) fn on_packet_too_big(&mut self, id: PathId, mtu: usize, now: Time) -> bool {
        let path = &mut self.paths[id];
        if let Some(discovery) = &mut path.discovery {
            let plausible = discovery.too_big(now, mtu);
            self.use_discovered_mtu(id, plausible.then_some(now));
            return plausible;
        }
        if mtu < path.mtu() {
            path.set_mtu(mtu);
        }
        true
    }

    /// Limits the MTU of a path to a value that the driver knows.
    pub(crate) fn set_path_mtu(&mut self, id: PathId, mtu: usize, now: Time) {
        let path = &mut self.paths[id];
        if let Some(discovery) = &mut path.discovery {
            discovery.limit(now, mtu);
            self.use_discovered_mtu(id, None);
        } else {
            path.set_mtu(mtu);
        }
    }
}
