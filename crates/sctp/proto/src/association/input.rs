//! The chunks of a packet, in their order (RFC 9260 section 6.10). The endpoint has checked the
//! verification tag.
//!
//! 1. Count the packet on its path and learn the peer's UDP port (RFC 6951 section 5.4).
//! 2. For each chunk: check AUTH (RFC 4895 section 6.3), check that the extension is negotiated (section
//!    3.2), parse it, process it.
//! 3. Behind the last chunk of a packet from a new UDP port: retransmit the data that was sent to the former one.
//! 4. Behind the last chunk of a packet with DATA: record a congestion mark (RFC 4960 appendix A), update
//!    the SACK state (section 6.2), repeat SHUTDOWN if it was sent (section 9.2), advance a deferred reset
//!    of streams (RFC 6525 section 5.2.2).

use core::ops::ControlFlow;

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{
    Abort, Cause, CauseCode, Chunk, ChunkType, ErrorChunk, Heartbeat, Packet, RawChunk, Tsn,
    UnknownAction,
};

use super::replies::MAX_REPLY_BYTES;
use super::{Association, Context, Reply};
use crate::event::{AbortCause, CloseReason, PeerError};
use crate::observer::{DiscardReason, ObservedEvent};
use crate::path::PathId;
use crate::route::Route;
use crate::time::Time;

/// State of a packet while its chunks are processed.
#[derive(Default)]
pub(super) struct PacketProgress {
    /// Path to the packet's source.
    pub(super) path: Option<PathId>,
    /// The packet contains DATA or FORWARD-TSN.
    pub(super) data: bool,
    /// DATA was accepted or skipped: the peer continues without the reset of all numbers that it requested.
    pub(super) advanced: bool,
    /// A valid AUTH chunk precedes the next chunk.
    authenticated: bool,
    /// The chunk protection has opened the packet.
    pub(super) protected: bool,
    /// Lowest TSN in the packet.
    pub(super) lowest: Option<Tsn>,
    /// Bytes of the replies to the packet.
    pub(super) reply_bytes: usize,
    /// ASCONFs in front of the next chunk.
    asconfs: usize,
}

/// Results of the endpoint's checks of a packet, for its association.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketFront {
    /// Number of chunks that the endpoint has processed.
    pub(crate) processed: usize,
    /// They have authenticated the rest.
    pub(crate) authenticated: bool,
    /// The chunk protection of the association has opened the packet.
    pub(crate) protected: bool,
}

/// Result of the authentication check of a chunk (RFC 4895 section 6.3).
enum AuthCheck {
    Process,
    Skip,
    DiscardPacket,
}

impl Association {
    /// Processes a packet, without the chunks that the endpoint has processed.
    pub(crate) fn handle_packet(
        &mut self,
        route: &Route,
        packet: &Packet<'_>,
        datagram: &Bytes,
        front: PacketFront,
        cx: &mut Context<'_>,
    ) {
        // Step 1.
        let (path, is_from_new_port) = self.count_received(route, datagram.len(), cx.now);
        // INIT and COOKIE ECHO.
        self.counters.control_chunks_received += front.processed as u64;
        self.on_packet_while_shutting_down(packet, cx);
        // Step 2.
        let mut progress = PacketProgress {
            path,
            authenticated: front.authenticated,
            protected: front.protected,
            ..PacketProgress::default()
        };
        for raw in packet.chunks().skip(front.processed) {
            let Ok(raw) = raw else {
                cx.stats.malformed_chunks += 1;
                break;
            };
            let is_data = matches!(raw.kind, ChunkType::DATA | ChunkType::I_DATA);
            self.counters.control_chunks_received += u64::from(!is_data);
            let flow = match self.check_auth(route, raw, packet, &mut progress, cx.now) {
                AuthCheck::Process => self.handle_chunk(route, raw, datagram, &mut progress, cx),
                AuthCheck::Skip => ControlFlow::Continue(()),
                AuthCheck::DiscardPacket => ControlFlow::Break(()),
            };
            if self.state.is_closed() {
                return;
            }
            if flow.is_break() {
                break;
            }
        }
        // Step 3.
        if is_from_new_port {
            self.resend_to_new_port(route.remote, cx);
        }
        // Step 4.
        if progress.data {
            self.after_data_packet(route, &mut progress, cx);
        }
    }

    /// Counts a packet on the path to its source, which it returns, with whether the peer's UDP port has changed. If
    /// the path is not usable, it may have returned.
    fn count_received(&mut self, route: &Route, len: usize, now: Time) -> (Option<PathId>, bool) {
        self.counters.packets_received += 1;
        self.liveness.on_packet();
        let found = self.paths.find(route);
        let mut is_from_new_port = false;
        if let Some(id) = found {
            let path = &mut self.paths[id];
            path.on_packet_received(len);
            if !path.is_usable() {
                path.request_heartbeat_on_return(now, &self.config);
            }
            if !path.accepts_encapsulation(route.encapsulation) {
                is_from_new_port = self.update_encapsulation(route);
            }
        }
        (found, is_from_new_port)
    }

    /// ABORT or SHUTDOWN COMPLETE with the T bit and the peer's tag (section 8.5.1 B and C).
    pub(crate) fn handle_reflected(&mut self, raw: RawChunk<'_>, cx: &mut Context<'_>) {
        self.counters.packets_received += 1;
        if self.auth.rejects_plain(raw.kind) {
            return;
        }
        match Chunk::parse(raw) {
            Ok(Chunk::Abort(abort)) => self.on_abort(&abort, cx),
            Ok(Chunk::ShutdownComplete(_)) => self.on_shutdown_complete(cx),
            _ => cx.stats.malformed_chunks += 1,
        }
    }

    /// Checks the authentication of a chunk, and AUTH chunks themselves.
    fn check_auth(
        &mut self,
        route: &Route,
        raw: RawChunk<'_>,
        packet: &Packet<'_>,
        progress: &mut PacketProgress,
        now: Time,
    ) -> AuthCheck {
        if !progress.authenticated && self.auth.rejects_plain(raw.kind) {
            // RFC 5061, section 5.2, rule D5: the rest of the packet is discarded, too.
            self.observe_discarded(raw.kind, DiscardReason::Unauthenticated, now);
            return match raw.kind {
                ChunkType::ASCONF | ChunkType::ASCONF_ACK => AuthCheck::DiscardPacket,
                _ => AuthCheck::Skip,
            };
        }
        if raw.kind != ChunkType::AUTH || !self.extensions.authentication {
            return AuthCheck::Process;
        }
        let Ok(Chunk::Auth(auth)) = Chunk::parse(raw) else {
            self.auth.count_malformed();
            return AuthCheck::DiscardPacket;
        };
        progress.authenticated = progress.authenticated || self.on_auth(&auth, packet, route);
        if progress.authenticated {
            AuthCheck::Skip
        } else {
            AuthCheck::DiscardPacket
        }
    }

    /// Passes a chunk that is discarded to the observer.
    pub(super) fn observe_discarded(&self, chunk: ChunkType, reason: DiscardReason, now: Time) {
        let event = ObservedEvent::ChunkDiscarded { chunk, reason };
        self.observation.record(now, || event);
    }

    /// Processes a chunk. Breaks if the rest of the packet is to be discarded.
    ///
    /// 1. End the association if the chunk carries data of the kind that was not negotiated (RFC 8260,
    ///    section 2.2.1).
    /// 2. Treat a chunk of an extension that is not in force as unrecognized (section 3.2).
    /// 3. Discard a malformed chunk.
    /// 4. Pass the chunk to the part that its type concerns.
    fn handle_chunk(
        &mut self,
        route: &Route,
        raw: RawChunk<'_>,
        datagram: &Bytes,
        progress: &mut PacketProgress,
        cx: &mut Context<'_>,
    ) -> ControlFlow<()> {
        if let Some(what) = self.data_violation(raw.kind) {
            if self.state.receives_data() {
                self.violation(what, cx);
            }
            return ControlFlow::Continue(());
        }
        // A chunk of an extension that is not negotiated is unknown, well formed or not (section 3.2).
        let in_force = raw.kind.is_base() || self.extensions.have_chunk(raw.kind);
        if !in_force && !self.accepts_unlisted(raw.kind) {
            return self.on_unknown(raw, route, progress, cx.now);
        }
        let Ok(chunk) = Chunk::parse(raw) else {
            cx.stats.malformed_chunks += 1;
            self.observe_discarded(raw.kind, DiscardReason::Malformed, cx.now);
            return ControlFlow::Continue(());
        };
        match chunk {
            Chunk::Data(data) => self.on_data(&data, datagram, route, progress, cx),
            Chunk::IData(data) => self.on_i_data(&data, datagram, route, progress, cx),
            Chunk::Sack(sack) => {
                let gaps = sack.gap_ack_blocks().len();
                self.on_sack(route, gaps, cx, |all, cx| all.on_sack(&sack, cx));
            }
            Chunk::NrSack(sack) => {
                self.counters.nr_sacks_received += 1;
                let gaps = sack.gap_ack_blocks().len() + sack.non_renegable_blocks().len();
                self.on_sack(route, gaps, cx, |all, cx| all.on_nr_sack(&sack, cx));
            }
            Chunk::Heartbeat(heartbeat) => self.on_heartbeat(&heartbeat, datagram, route, progress),
            Chunk::HeartbeatAck(heartbeat) => self.on_heartbeat_ack(heartbeat.info, cx),
            Chunk::Abort(_) if self.is_being_deleted(route.local) => {}
            Chunk::Asconf(asconf) => {
                self.on_asconf(&asconf, route, progress.asconfs == 0, cx);
                progress.asconfs += 1;
                // It may add or delete the address.
                progress.path = self.paths.find(route);
            }
            Chunk::AsconfAck(ack) => self.on_asconf_ack(&ack, cx),
            Chunk::Abort(abort) => self.on_abort(&abort, cx),
            Chunk::Shutdown(shutdown) => self.on_shutdown(shutdown, route, cx),
            Chunk::ShutdownAck => self.on_shutdown_ack(route, cx),
            Chunk::ShutdownComplete(_) => self.on_shutdown_complete(cx),
            Chunk::Ecne(ecne) => self.on_ecne(ecne, route, cx),
            Chunk::Cwr(cwr) => {
                self.counters.other().cwrs_received += 1;
                self.ecn.on_cwr(cwr.lowest_tsn);
            }
            Chunk::Error(error) => self.on_error(&error, cx),
            Chunk::ReConfig(chunk) => self.on_re_config(&chunk, route, progress, cx),
            Chunk::CookieAck => self.on_cookie_ack(cx),
            Chunk::InitAck(init) => self.on_init_ack(&init, route, datagram, cx),
            Chunk::ForwardTsn(forward) => {
                if self.state.receives_data() {
                    self.on_forward_tsn(&forward, progress);
                }
            }
            Chunk::IForwardTsn(forward) => {
                if self.state.receives_data() {
                    self.on_i_forward_tsn(&forward, progress);
                }
            }
            // INIT is alone in its packet and COOKIE ECHO first (sections 6.10 and 5.1); elsewhere they are
            // invalid.
            Chunk::Init(_) | Chunk::CookieEcho(_) => return ControlFlow::Break(()),
            // AUTH that is in force is processed before, and PAD is skipped by the rule for its type (RFC 4820, section 3).
            Chunk::Auth(_) | Chunk::Pad(_) | Chunk::Unknown(_) => {
                return self.on_unknown(raw, route, progress, cx.now);
            }
        }
        ControlFlow::Continue(())
    }

    fn on_heartbeat(
        &mut self,
        heartbeat: &Heartbeat<'_>,
        datagram: &Bytes,
        route: &Route,
        progress: &mut PacketProgress,
    ) {
        if self.state.answers_heartbeats() {
            let value = datagram.slice_ref(heartbeat.value);
            let len = value.len() + 4;
            self.reply(route, Reply::HeartbeatAck(value), len, progress);
        }
    }

    /// ABORT; it is never answered (section 9.1). The peer may set up an association without the
    /// addresses of this side that it reports as new (section 3.3.10.11).
    fn on_abort(&mut self, abort: &Abort<'_>, cx: &mut Context<'_>) {
        let cause = match abort.causes().next() {
            None => AbortCause::NONE,
            Some(Ok(cause)) => {
                if let Ok(Cause::RestartWithNewAddresses(new)) = Cause::parse(cause)
                    && self.on_addresses_refused(new, cx)
                {
                    return;
                }
                AbortCause::new(cause.code.0, cause.value)
            }
            // A format error: silently discarded (section 3.3.7).
            Some(Err(_)) => return,
        };
        self.close(CloseReason::AbortedByPeer(cause), cx);
    }

    fn on_error(&mut self, error: &ErrorChunk<'_>, cx: &mut Context<'_>) {
        for raw in error.causes() {
            let Ok(raw) = raw else {
                cx.stats.malformed_chunks += 1;
                return;
            };
            if raw.code == CauseCode::UNRECOGNIZED_CHUNK
                && raw.value.first() == Some(&ChunkType::ASCONF.0)
            {
                self.on_asconf_unknown();
            }
            if matches!(Cause::parse(raw), Ok(Cause::StaleCookie { .. })) {
                self.on_stale_cookie(cx);
            } else {
                let cause = AbortCause::new(raw.code.0, raw.value);
                self.events.push_peer_error(PeerError { cause });
            }
            if self.state.is_closed() {
                return;
            }
        }
    }

    /// A chunk of an unknown type (section 3.2).
    fn on_unknown(
        &mut self,
        raw: RawChunk<'_>,
        route: &Route,
        progress: &mut PacketProgress,
        now: Time,
    ) -> ControlFlow<()> {
        self.observe_discarded(raw.kind, DiscardReason::Unrecognized, now);
        let action = raw.kind.unknown_action();
        if matches!(
            action,
            UnknownAction::StopAndReport | UnknownAction::SkipAndReport
        ) {
            let reported = &raw.bytes[..raw.bytes.len().min(MAX_REPLY_BYTES - 64)];
            let mut cause = Vec::with_capacity(reported.len() + 8);
            cause.extend_from_slice(&CauseCode::UNRECOGNIZED_CHUNK.0.to_be_bytes());
            cause.extend_from_slice(&((reported.len() + 4) as u16).to_be_bytes());
            cause.extend_from_slice(reported);
            let len = cause.len() + 4;
            self.reply(route, Reply::Error(cause.into()), len, progress);
        }
        match action {
            UnknownAction::Skip | UnknownAction::SkipAndReport => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }
}
