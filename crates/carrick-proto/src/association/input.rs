//! The chunks of a packet, in their order (RFC 9260 section 6.10). The verification tag has been
//! checked before.

use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{
    Abort, Cause, CauseCode, Chunk, ChunkType, Data, ErrorChunk, Heartbeat, IData, Packet,
    RawChunk, Tsn, UnknownAction,
};

use super::{Association, Context, MAX_PEER_EVENTS, MAX_REPLIES, Reply};
use crate::error::AbortCause;
use crate::event::{CloseReason, Event, PeerError};
use crate::extensions::Extensions;
use crate::path::PathId;
use crate::policy::{ProtocolUnreachable, UnlistedIForwardTsn};
use crate::recv::DataOutcome;
use crate::route::Route;
use crate::send::{SackContext, SackOutcome, Sender};
use crate::trace::TraceEvent;

/// Bytes of answers to one packet at most: they have to fit into one packet (section 12.4).
const MAX_REPLY_BYTES: usize = 1200;

/// What has to be known until the end of a packet.
#[derive(Default)]
pub(super) struct PacketNotes {
    data: bool,
    /// What follows is behind a genuine AUTH chunk.
    authenticated: bool,
    /// The lowest TSN in it.
    lowest: Option<Tsn>,
    reply_bytes: usize,
    /// ASCONFs before this chunk.
    asconfs: usize,
}

impl Association {
    /// Takes all chunks of a packet but the first `skip`.
    pub(crate) fn handle_packet(
        &mut self,
        route: &Route,
        packet: &Packet<'_>,
        datagram: &Bytes,
        skip: usize,
        cx: &mut Context<'_>,
    ) {
        self.handle_rest(route, packet, datagram, (skip, false), cx);
    }

    /// As [`Self::handle_packet`]; what was skipped may have authenticated the rest.
    pub(crate) fn handle_rest(
        &mut self,
        route: &Route,
        packet: &Packet<'_>,
        datagram: &Bytes,
        (skip, authenticated): (usize, bool),
        cx: &mut Context<'_>,
    ) {
        self.counters.packets_received += 1;
        self.unreachable_since = None;
        if let Some(id) = self.path_of(route) {
            let path = &mut self.paths[id];
            path.counters.packets_received += 1;
            path.counters.bytes_received += datagram.len() as u64;
            if path.encapsulation == route.encapsulation {
                path.way_untried = false;
            } else if !path.way_untried {
                self.learn_encapsulation(route);
            }
        }
        self.on_packet_while_shutting_down(packet, cx);
        let mut notes = PacketNotes {
            authenticated,
            ..PacketNotes::default()
        };
        for raw in packet.chunks().skip(skip) {
            let Ok(raw) = raw else {
                cx.stats.malformed_chunks += 1;
                break;
            };
            let go_on = match self.take_auth(route, raw, packet, &mut notes) {
                Some(go_on) => go_on,
                None => self.handle_chunk(route, raw, datagram, &mut notes, cx),
            };
            if self.state.is_closed() || !go_on {
                break;
            }
        }
        if self.state.is_closed() {
            return;
        }
        if notes.data {
            if let Some(lowest) = notes.lowest {
                self.note_congestion_mark(route, lowest);
            }
            let rtt = self.data_round_trip();
            self.receiver.on_packet_end(cx.now, rtt);
            self.data_route = Some(self.way_back(route));
            self.answer_data_with_shutdown();
            self.advance_deferred_reset(route, &mut notes, cx);
        }
    }

    /// ABORT or SHUTDOWN COMPLETE with the T bit and the peer's tag (section 8.5.1 B and C).
    pub(crate) fn handle_reflected(&mut self, raw: RawChunk<'_>, cx: &mut Context<'_>) {
        self.counters.packets_received += 1;
        if self.lacks_authentication(raw.kind) {
            return;
        }
        match Chunk::parse(raw) {
            Ok(Chunk::Abort(abort)) => self.on_abort(&abort, cx),
            Ok(Chunk::ShutdownComplete(_)) => self.on_shutdown_complete(cx),
            _ => cx.stats.malformed_chunks += 1,
        }
    }

    /// AUTH, or a chunk that lacks it; returns whether the rest of the packet is to be processed.
    /// `None` for any other chunk.
    fn take_auth(
        &mut self,
        route: &Route,
        raw: RawChunk<'_>,
        packet: &Packet<'_>,
        notes: &mut PacketNotes,
    ) -> Option<bool> {
        if !notes.authenticated && self.lacks_authentication(raw.kind) {
            // Dynamic addresses are stricter (RFC 5061 section 5.2, D5).
            return Some(!matches!(
                raw.kind,
                ChunkType::ASCONF | ChunkType::ASCONF_ACK
            ));
        }
        if raw.kind != ChunkType::AUTH || !self.extensions.authentication {
            return None;
        }
        let Ok(Chunk::Auth(auth)) = Chunk::parse(raw) else {
            self.on_malformed_auth();
            return Some(false);
        };
        notes.authenticated = notes.authenticated || self.on_auth(&auth, packet, route);
        Some(notes.authenticated)
    }

    /// Returns whether the rest of the packet is to be processed.
    fn handle_chunk(
        &mut self,
        route: &Route,
        raw: RawChunk<'_>,
        datagram: &Bytes,
        notes: &mut PacketNotes,
        cx: &mut Context<'_>,
    ) -> bool {
        if let Some(what) = self.wrong_data(raw.kind) {
            if self.state.receives_data() {
                self.violation(what, cx);
            }
            return true;
        }
        // Those of an extension that is not in force are unknown, well formed or not (section 3.2).
        let in_force = raw.kind.is_base() || self.extensions.have_chunk(raw.kind);
        if !in_force && !self.takes_unlisted(raw.kind) {
            return self.on_unknown(raw, route, notes);
        }
        let Ok(chunk) = Chunk::parse(raw) else {
            cx.stats.malformed_chunks += 1;
            return true;
        };
        match chunk {
            Chunk::Data(data) => self.on_data(&data, datagram, route, notes, cx),
            Chunk::IData(data) => self.on_i_data(&data, datagram, route, notes, cx),
            Chunk::Sack(sack) => self.on_sack(route, cx, |all, cx| all.on_sack(&sack, cx)),
            Chunk::NrSack(sack) => {
                self.counters.nr_sacks_received += 1;
                self.on_sack(route, cx, |all, cx| all.on_nr_sack(&sack, cx));
            }
            Chunk::Heartbeat(heartbeat) => self.on_heartbeat(&heartbeat, datagram, route, notes),
            Chunk::HeartbeatAck(heartbeat) => self.on_heartbeat_ack(heartbeat.info, cx),
            Chunk::Abort(_) if self.is_being_deleted(route.local) => {}
            Chunk::Asconf(asconf) => {
                self.on_asconf(&asconf, route, notes.asconfs == 0, cx);
                notes.asconfs += 1;
            }
            Chunk::AsconfAck(ack) => self.on_asconf_ack(&ack, cx),
            Chunk::Abort(abort) => self.on_abort(&abort, cx),
            Chunk::Shutdown(shutdown) => self.on_shutdown(shutdown, route, cx),
            Chunk::ShutdownAck => self.on_shutdown_ack(route, cx),
            Chunk::ShutdownComplete(_) => self.on_shutdown_complete(cx),
            Chunk::Ecne(ecne) => self.on_ecne(ecne, route, cx),
            Chunk::Cwr(cwr) => self.on_cwr(cwr),
            Chunk::Error(error) => self.on_error(&error, cx),
            Chunk::ReConfig(chunk) => self.on_re_config(&chunk, route, notes, cx),
            Chunk::CookieAck => self.on_cookie_ack(cx),
            Chunk::InitAck(init) => self.on_init_ack(&init, route, datagram, cx),
            Chunk::ForwardTsn(forward) => {
                if self.state.receives_data() {
                    notes.data = true;
                    self.on_forward_tsn(&forward);
                }
            }
            Chunk::IForwardTsn(forward) => {
                if self.state.receives_data() {
                    notes.data = true;
                    self.on_i_forward_tsn(&forward);
                }
            }
            // INIT is alone in its packet and COOKIE ECHO first; elsewhere they mean nothing.
            Chunk::Init(_) | Chunk::CookieEcho(_) => return false,
            _ => return self.on_unknown(raw, route, notes),
        }
        true
    }

    fn on_data(
        &mut self,
        data: &Data<'_>,
        datagram: &Bytes,
        route: &Route,
        notes: &mut PacketNotes,
        cx: &mut Context<'_>,
    ) {
        if self.takes_data(data.tsn, data.payload, notes, cx) {
            self.note_source(route);
            let outcome = self.receiver.on_data(data, datagram);
            self.after_data(outcome, data.tsn, data.payload, route, notes, cx);
        }
    }

    fn on_i_data(
        &mut self,
        data: &IData<'_>,
        datagram: &Bytes,
        route: &Route,
        notes: &mut PacketNotes,
        cx: &mut Context<'_>,
    ) {
        let tsn = data.header.tsn;
        if self.takes_data(tsn, data.payload, notes, cx) {
            self.note_source(route);
            let outcome = self.receiver.on_i_data(data, datagram);
            self.after_data(outcome, tsn, data.payload, route, notes, cx);
        }
    }

    /// The round trip of the path for data; the longest where several carry some, presumably of the
    /// peer as well.
    fn data_round_trip(&self) -> Option<core::time::Duration> {
        if self.config.policies.multipath.data_route.concurrent() {
            let usable = self.paths.iter().filter(|p| p.usable());
            return usable.filter_map(|p| p.rto.srtt()).max();
        }
        self.paths[self.paths.current()].rto.srtt()
    }

    /// The receiver may want to know on which path data comes.
    fn note_source(&mut self, route: &Route) {
        if self.receiver.wants_sources() {
            let path = self.path_of(route);
            self.receiver.arrives_on(path);
        }
    }

    /// User data, or news of what was given up, in the chunk that was not agreed on (RFC 8260 sections
    /// 2.2.3 and 2.3.1).
    fn wrong_data(&self, kind: ChunkType) -> Option<&'static str> {
        let Extensions {
            interleaving,
            interleaved_partial_reliability,
            ..
        } = self.extensions;
        let known = self.config.extensions;
        let known = known.interleaving || known.interleaved_partial_reliability;
        match kind {
            ChunkType::DATA if interleaving => Some("DATA although I-DATA was negotiated"),
            ChunkType::I_DATA if !interleaving => Some("I-DATA was not negotiated"),
            ChunkType::FORWARD_TSN if interleaving => {
                Some("FORWARD-TSN although I-DATA was negotiated")
            }
            // To a side that does not interleave at all it is an unknown chunk.
            ChunkType::I_FORWARD_TSN
                if known && !interleaved_partial_reliability && !self.takes_unlisted(kind) =>
            {
                Some("I-FORWARD-TSN was not negotiated")
            }
            _ => None,
        }
    }

    /// Whether a chunk is taken that this side has listed and the peer has not.
    fn takes_unlisted(&self, kind: ChunkType) -> bool {
        kind == ChunkType::I_FORWARD_TSN
            && self.extensions.interleaving
            && self.config.extensions.interleaved_partial_reliability
            && self.config.policies.unlisted_i_forward_tsn == UnlistedIForwardTsn::Take
    }

    fn takes_data(
        &mut self,
        tsn: Tsn,
        payload: &[u8],
        notes: &mut PacketNotes,
        cx: &mut Context<'_>,
    ) -> bool {
        if !self.state.receives_data() {
            return false;
        }
        if payload.is_empty() {
            let cause = AbortCause::new(CauseCode::NO_USER_DATA.0, &tsn.value().to_be_bytes());
            self.abort(CloseReason::AbortedByProtocol(cause.clone()), &cause, cx);
            return false;
        }
        if !notes.data {
            self.keep_missing_report(cx);
        }
        notes.data = true;
        if notes.lowest.is_none_or(|lowest| lowest.is_after(tsn)) {
            notes.lowest = Some(tsn);
        }
        true
    }

    fn after_data(
        &mut self,
        outcome: DataOutcome,
        tsn: Tsn,
        payload: &[u8],
        route: &Route,
        notes: &mut PacketNotes,
        cx: &mut Context<'_>,
    ) {
        match outcome {
            DataOutcome::Accepted => {
                // The peer goes on without the reset it had asked for.
                self.thaw();
                self.counters.data_chunks_received += 1;
                self.counters.data_bytes_received += payload.len() as u64;
                self.trace.record(cx.now, TraceEvent::ChunkReceived { tsn });
            }
            DataOutcome::Duplicate => self.counters.duplicates_received += 1,
            DataOutcome::Dropped => self.counters.dropped_for_buffer += 1,
            DataOutcome::InvalidStream(stream) => {
                let mut causes = Vec::with_capacity(8);
                causes.extend_from_slice(&CauseCode::INVALID_STREAM.0.to_be_bytes());
                causes.extend_from_slice(&[0, 8]);
                causes.extend_from_slice(&stream.0.to_be_bytes());
                causes.extend_from_slice(&[0, 0]);
                self.reply(route, Reply::Error(causes.into()), 12, notes);
            }
            DataOutcome::Violation(what) => self.violation(what, cx),
        }
    }

    /// SACK or NR-SACK, which `take` gives to the sender.
    fn on_sack(
        &mut self,
        route: &Route,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut Sender, &mut SackContext<'_>) -> SackOutcome,
    ) {
        if !self.state.receives_sacks() {
            return;
        }
        self.counters.sacks_received += 1;
        let config = Arc::clone(&self.config);
        let arrived_on = self.path_of(route);
        let mut sack_cx = SackContext {
            now: cx.now,
            arrived_on,
            paths: &mut self.paths,
            config: &config,
            trace: &mut self.trace,
        };
        let outcome = take(&mut self.sender, &mut sack_cx);
        if outcome.unsent_tsn {
            return self.violation("SACK acknowledges a TSN that was not sent", cx);
        }
        if outcome.broken_promise {
            return self.violation("data acknowledged as non-renegable was taken back", cx);
        }
        self.report_abandoned();
        self.after_acknowledgement(&outcome, cx);
        self.advance_shutdown(cx);
    }

    /// Errors are forgotten where something was acknowledged (sections 8.1 and 8.2), but not for a
    /// chunk that other paths carried too. Otherwise, with an RTO below the peer's SACK delay, a dead
    /// path gets the credit for what a live one carried, again and again, and never fails.
    pub(crate) fn after_acknowledgement(&mut self, outcome: &SackOutcome, cx: &mut Context<'_>) {
        self.counters.reneged += outcome.reneged;
        self.counters.undone_reductions += outcome.undone;
        if !outcome.acknowledged {
            return;
        }
        self.error_count = 0;
        self.told_stall = None;
        let mut changed = false;
        for id in self.paths.ids() {
            let path = &mut self.paths[id];
            if let Some(discovery) = &mut path.discovery
                && path.flight_size == 0
                && path.news.bytes > 0
            {
                discovery.all_acknowledged(cx.now);
            }
            if path.news.alive && (path.error_count > 0 || !path.active) {
                self.on_path_alive(id, cx);
                changed = true;
            }
        }
        if changed {
            self.choose_path();
        }
    }

    fn on_heartbeat(
        &mut self,
        heartbeat: &Heartbeat<'_>,
        datagram: &Bytes,
        route: &Route,
        notes: &mut PacketNotes,
    ) {
        if self.state.answers_heartbeats() {
            let value = datagram.slice_ref(heartbeat.value);
            let len = value.len() + 4;
            self.reply(route, Reply::HeartbeatAck(value), len, notes);
        }
    }

    /// ABORT, its tag already checked; there is never an answer (section 9.1).
    fn on_abort(&mut self, abort: &Abort<'_>, cx: &mut Context<'_>) {
        let cause = match abort.causes().next() {
            None => AbortCause::NONE,
            Some(Ok(cause)) => AbortCause::new(cause.code.0, cause.value),
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
            } else if self.peer_errors < MAX_PEER_EVENTS {
                self.peer_errors += 1;
                let cause = AbortCause::new(raw.code.0, raw.value);
                self.events.push_back(Event::PeerError(PeerError { cause }));
            }
            if self.state.is_closed() {
                return;
            }
        }
    }

    fn on_unknown(&mut self, raw: RawChunk<'_>, route: &Route, notes: &mut PacketNotes) -> bool {
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
            self.reply(route, Reply::Error(cause.into()), len, notes);
        }
        matches!(action, UnknownAction::Skip | UnknownAction::SkipAndReport)
    }

    /// Queues an answer to the packet that is being processed, unless it would need a second one.
    pub(super) fn reply(
        &mut self,
        route: &Route,
        reply: Reply,
        len: usize,
        notes: &mut PacketNotes,
    ) {
        let total = notes.reply_bytes + carrick_wire::padded(len);
        // The first answer may be as large as what it echoes, the others share a packet with it.
        if self.replies.len() >= MAX_REPLIES || (notes.reply_bytes > 0 && total > MAX_REPLY_BYTES) {
            self.counters.replies_dropped += 1;
            return;
        }
        notes.reply_bytes = total;
        let route = match reply {
            Reply::HeartbeatAck(_) | Reply::AsconfAck(_) => self.way_back(route),
            Reply::CookieAck
            | Reply::Error(_)
            | Reply::ReConfig(_)
            | Reply::Sack(..)
            | Reply::Cwr(_) => self.answer_route(route),
        };
        self.push_reply(route, reply);
    }

    /// Nothing but what verifies it goes to an address that is not verified.
    pub(super) fn push_reply(&mut self, route: Route, reply: Reply) {
        let verified = self
            .path_of(&route)
            .is_some_and(|id| self.paths[id].confirmed);
        if verified || matches!(reply, Reply::HeartbeatAck(_)) {
            self.replies.push_back((route, reply));
        }
    }

    /// COOKIE ACK goes first in its packet; not to an address that the peer never told.
    pub(crate) fn reply_cookie_ack(&mut self, route: &Route) {
        let route = match self.path_of(route) {
            Some(_) => route.for_reply(),
            None => self.answer_route(route),
        };
        // A repeated COOKIE ECHO in the same batch needs no other one.
        self.replies.retain(|r| !matches!(r.1, Reply::CookieAck));
        self.replies.push_front((route, Reply::CookieAck));
    }

    /// An ERROR chunk with one cause, already encoded.
    pub(crate) fn reply_error(&mut self, route: &Route, cause: Vec<u8>) {
        if self.replies.len() < MAX_REPLIES {
            let route = self.answer_route(route);
            self.push_reply(route, Reply::Error(cause.into()));
        }
    }

    /// ICMP says that nobody there speaks SCTP (section 10, ICMP8).
    pub(crate) fn on_protocol_unreachable(&mut self, cx: &mut Context<'_>) {
        let waits = self.config.policies.protocol_unreachable
            == ProtocolUnreachable::AbortAfterSilence
            && !self.state.is_setup();
        let since = *self.unreachable_since.get_or_insert(cx.now);
        let rto = self.paths[self.paths.current()].rto.value();
        if !waits || cx.now >= since + rto {
            self.close(CloseReason::ProtocolUnreachable, cx);
        }
    }

    /// ICMP says that packets to this path don't get through (section 10, ICMP9).
    pub(crate) fn on_unreachable(&mut self, id: PathId, cx: &mut Context<'_>) {
        self.on_path_error(id, false, cx);
    }
}
