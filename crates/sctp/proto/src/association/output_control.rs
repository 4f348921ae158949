//! Packets of control chunks: set-up, replies, SHUTDOWN, heartbeats, MTU probes.

use alloc::vec::Vec;

use carrick_wire::{
    CHUNK_HEADER_LEN, COMMON_HEADER_LEN, CauseCode, ChunkType, CommonHeader, InitFields,
    PacketBuilder, ParameterType, VerificationTag,
};

use super::assemble::DATA;
use super::output::single;
use super::sack::SACKS_WITH_ECNE;
use super::state::AssociationState;
use super::{Association, Context, Reply};
use crate::addresses::write_addresses;
use crate::auth::ChunkSet;
use crate::path::{Path, PathId, heartbeat};
use crate::research::WindowAnnouncement;
use crate::route::Route;
use crate::transmit::Transmit;

/// Bytes of a SHUTDOWN.
const SHUTDOWN_LEN: usize = 8;

/// Chunk types that [`Association::bundle_shutdown`] writes besides FORWARD-TSN.
pub(super) const SHUTDOWNS: ChunkSet =
    ChunkSet::of(&[ChunkType::SHUTDOWN, ChunkType::SHUTDOWN_ACK]);

/// Chunk types of a probe of the path MTU.
const PROBES: ChunkSet = ChunkSet::of(&[ChunkType::HEARTBEAT, ChunkType::PAD]);

/// Chunk types behind a COOKIE ECHO.
const BEHIND_COOKIE: ChunkSet = ChunkSet::of(&[ChunkType::ERROR]).with(DATA);

/// Chunk types behind replies.
const BEHIND_REPLIES: ChunkSet = ChunkSet::of(&[ChunkType::HEARTBEAT]).with(SACKS_WITH_ECNE);

/// Types of replies of which one that the peer requires authenticated puts AUTH in front of all packets with replies. Other
/// types put it in front of the packets that contain them, such as ASCONF-ACK, which always requires it.
const COMMON_REPLIES: ChunkSet = ChunkSet::of(&[
    ChunkType::COOKIE_ACK,
    ChunkType::HEARTBEAT_ACK,
    ChunkType::ERROR,
    ChunkType::CWR,
    ChunkType::RE_CONFIG,
]);

/// Chunk types in packets with replies.
pub(super) const REPLIES: ChunkSet =
    ChunkSet::of(&[ChunkType::ASCONF_ACK]).with(BEHIND_REPLIES.with(COMMON_REPLIES));

/// Bytes of a packet to an unknown address.
const SMALL_PACKET: usize = 1200;

impl Association {
    /// Writes an INIT, for the first time or again (section 5.1 A):
    ///
    /// 1. Start T1-init.
    /// 2. Write the fixed parameters: tag, window, streams, TSN (section 3.3.2).
    /// 3. Write the optional parameters: Cookie Preservative (section 5.2.6), extensions, the parameters of
    ///    RFC 4895, the offer of a chunk protection, and as many local addresses as fit (section 5.1.2).
    /// 4. Record which addresses are advertised.
    pub(super) fn output_init(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let path = self.paths.current();
        let rto = self.paths[path].rto();
        let AssociationState::CookieWait(wait) = &mut self.state else {
            return None;
        };
        // 1.
        if !core::mem::take(&mut wait.init.due) {
            return None;
        }
        wait.init.timer = Some(cx.now + rto);
        if wait.init.retransmissions == 0 {
            wait.sent = Some(cx.now);
        }
        // 2.
        let preserve = wait.preserve;
        let route = self.paths[path].route();
        let header = CommonHeader {
            tag: VerificationTag::ZERO,
            ..self.header()
        };
        let fields = InitFields {
            tag: self.local_tag,
            a_rwnd: WindowAnnouncement::initially(&self.config),
            outbound_streams: self.config.streams.outbound_streams,
            inbound_streams: self.config.streams.max_inbound_streams,
            initial_tsn: self.local_initial_tsn,
        };
        self.advertised.leave_out_removed(cx.local_addresses);
        let locals = self.advertised.present(cx.local_addresses);
        let mut fitted = None;
        let mut packet = PacketBuilder::new(buf, header, self.paths[path].packet_size());
        // 3.
        packet.init(ChunkType::INIT, fields, |parameters| {
            if let Some(increment) = preserve {
                parameters.cookie_preservative(increment);
            }
            self.config.offered().write(parameters);
            if let Some(code) = self.config.adaptation_layer {
                parameters.adaptation_layer_indication(code);
            }
            if let Some(vector) = self.auth.key_vector() {
                vector.write(parameters);
            }
            self.config
                .write_protection(self.local_initial_tsn, parameters);
            let of_use = locals.iter().filter(|a| route.has_in_scope(**a));
            if let Some(types) = supported_types(of_use) {
                parameters.supported_address_types(&[types.0]);
            }
            // Last, because there may be more of them than fit.
            if !self.config.paths.wildcard_addresses {
                fitted = write_addresses(parameters, &locals, &route);
            }
        });
        // 4.
        if let Some(advertised) = fitted {
            self.advertised.record_init(advertised, route.local);
        }
        self.counters.control_chunks_sent += 1;
        Some(single(route, packet.finish()))
    }

    /// Writes a COOKIE ECHO with DATA behind it (section 5.1 C):
    ///
    /// 1. Start T1-cookie.
    /// 2. Write the COOKIE ECHO, which is the first chunk, but for an AUTH chunk if the peer requires one for
    ///    it (RFC 4895, section 6.2).
    /// 3. Begin another AUTH chunk, if only the chunks behind require one.
    /// 4. Report the unrecognized parameters of the INIT ACK (section 3.2.2).
    /// 5. Add DATA.
    pub(super) fn output_cookie_echo(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if matches!(&self.state, AssociationState::CookieEchoed(echoed) if echoed.echo.due) {
            self.expire_messages(cx);
        }
        let path = self.paths.current();
        let rto = self.paths[path].rto();
        let header = self.header();
        let limit = self.paths[path].packet_size();
        let AssociationState::CookieEchoed(echoed) = &mut self.state else {
            return None;
        };
        // 1.
        if !core::mem::take(&mut echoed.echo.due) {
            return None;
        }
        echoed.echo.timer = Some(cx.now + rto);
        let repeated = echoed.echo.retransmissions > 0;
        if !repeated {
            echoed.sent = Some(cx.now);
        }
        let cookie = echoed.cookie.clone();
        let unrecognized = core::mem::take(&mut echoed.unrecognized);
        // 2. A cookie larger than a packet has to be fragmented by IP.
        let cookie_echo = ChunkSet::of(&[ChunkType::COOKIE_ECHO]);
        let needed = 12 + self.auth.len_for(&cookie_echo) + carrick_wire::padded(4 + cookie.len());
        let mut packet = PacketBuilder::new(buf, header, limit.max(needed));
        let mut slot = self.auth.open(&mut packet, &cookie_echo);
        packet.cookie_echo(&cookie);
        // 3.
        if slot.is_none() && packet.fits(self.auth.len_for(&BEHIND_COOKIE)) {
            slot = self.auth.open(&mut packet, &BEHIND_COOKIE);
        }
        // 4.
        if !unrecognized.is_empty() && packet.fits(8 + unrecognized.len()) {
            packet.error(|causes| causes.unrecognized_parameters(&unrecognized));
        }
        if let AssociationState::CookieEchoed(echoed) = &mut self.state {
            echoed.unrecognized = unrecognized;
        }
        // 5. The path may not take packets of full size; that is not known yet.
        let sized = !repeated || !self.paths[path].discovers_mtu();
        if sized && (slot.is_some() || self.auth.len_for(&BEHIND_COOKIE) == 0) {
            let (sender, mut tx) = self.transmit_context(cx.now, false, cx.stats);
            if let Some(permit) = sender.plan_beside_cookie(path, &mut tx) {
                sender.add_data(permit, &mut packet, &mut tx);
            }
        }
        let len = self.finish(packet, slot);
        Some(Transmit {
            may_fragment: len > limit,
            ..single(self.paths[path].route(), len)
        })
    }

    /// Writes the replies that have the same route into one packet:
    ///
    /// 1. Determine the size of the packet: that of the path, or what the first reply needs (section 6.4).
    /// 2. Begin with an AUTH chunk, if the peer requires one for any of the types (RFC 4895, section 6.2).
    /// 3. Add the replies in their order, as many as fit (section 6.10). A SACK that reports a gap is the
    ///    only reply in its packet.
    /// 4. Behind a COOKIE ACK, add a HEARTBEAT or a SACK (section 5.4, and section 5.1.5, step 7); behind a
    ///    response to a RE-CONFIG, a SACK (RFC 6525, section 5.2.1).
    pub(super) fn output_replies(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        // 1.
        let route = self.replies.next_route()?;
        let path = self.paths.find(&route);
        let limit = path.map_or(SMALL_PACKET, |p| self.paths[p].packet_size());
        let first_len = match self.replies.next_on(route)? {
            Reply::HeartbeatAck(value)
            | Reply::Error(value)
            | Reply::ReConfig(value)
            | Reply::Sack(_, value)
            | Reply::AsconfAck(value) => 16 + carrick_wire::padded(value.len()),
            Reply::CookieAck | Reply::Cwr(_) => 20,
        };
        // 2. The packet contains some of these types; chunks that don't require AUTH may follow it.
        let mut kinds = BEHIND_REPLIES.with(COMMON_REPLIES);
        self.replies
            .kinds(route)
            .for_each(|kind| kinds.insert(kind));
        let first_len = first_len + self.auth.len_for(&kinds);
        let mut packet = PacketBuilder::new(buf, self.header(), limit.max(first_len));
        let slot = self.auth.open(&mut packet, &kinds);
        // 3.
        let start = packet.len();
        let mut acknowledged_cookie = false;
        let mut reconfigured = false;
        while let Some(reply) = self.replies.next_on(route) {
            match reply {
                Reply::CookieAck => {
                    packet.cookie_ack();
                    acknowledged_cookie = true;
                }
                Reply::HeartbeatAck(value)
                    if packet.len() == start || packet.fits(4 + value.len()) =>
                {
                    packet.heartbeat_ack(value)
                }
                Reply::Error(causes) if packet.len() == start || packet.fits(4 + causes.len()) => {
                    packet.raw(ChunkType::ERROR, 0, causes)
                }
                Reply::ReConfig(value) if packet.len() == start || packet.fits(4 + value.len()) => {
                    packet.raw(ChunkType::RE_CONFIG, 0, value);
                    reconfigured = true;
                }
                Reply::AsconfAck(value)
                    if packet.len() == start || packet.fits(4 + value.len()) =>
                {
                    packet.raw(ChunkType::ASCONF_ACK, 0, value)
                }
                Reply::Sack(kind, value) if packet.len() == start => {
                    packet.raw(*kind, 0, value);
                    self.replies.pop();
                    break;
                }
                Reply::Cwr(tsn) if packet.fits(8) => {
                    packet.cwr(*tsn);
                    self.counters.other().cwrs_sent += 1;
                }
                Reply::HeartbeatAck(_)
                | Reply::Error(_)
                | Reply::ReConfig(_)
                | Reply::Sack(..)
                | Reply::AsconfAck(_)
                | Reply::Cwr(_) => break,
            }
            self.replies.pop();
        }
        // 4.
        if acknowledged_cookie {
            self.complete_cookie_ack(path, &route, &mut packet, cx);
        } else if let Some(id) = path.filter(|_| reconfigured && self.has_room_for_sack(&packet)) {
            // The SACK reports what is missing before a reset (RFC 6525 section 5.2.1).
            self.bundle_sack(id, &mut packet, cx);
        }
        let len = self.finish(packet, slot);
        Some(Transmit {
            may_fragment: len > limit,
            ..single(route, len)
        })
    }

    /// COOKIE ACK to an unverified address needs a heartbeat beside it (section 5.4); a SACK for
    /// DATA that came with COOKIE ECHO goes along (section 5.1.5, step 7).
    fn complete_cookie_ack(
        &mut self,
        path: Option<PathId>,
        route: &Route,
        packet: &mut PacketBuilder<'_>,
        cx: &mut Context<'_>,
    ) {
        let Some(id) = path else { return };
        if !self.paths[id].is_confirmed() {
            if packet.fits(heartbeat::CHUNK_LEN) {
                let info = self.paths[id].heartbeat_sent(cx.now, false, &self.config, cx.random);
                packet.heartbeat(&info);
            }
        } else if self.receiver.sack_is_due()
            && self.paths[id].route() == *route
            && self.has_room_for_sack(packet)
        {
            self.write_sack(id, packet, cx);
        }
    }

    /// Returns whether SHUTDOWN or SHUTDOWN ACK has to wait until an address that the peer added is
    /// verified (section 5.4).
    pub(super) fn verifies_to_end(&self) -> bool {
        self.state.ending().is_some()
            && (!self.paths[self.paths.current()].is_confirmed() || self.paths.all_inactive())
    }

    /// Returns the route of a retransmitted SHUTDOWN or SHUTDOWN ACK, which takes another path after
    /// T2-shutdown expired (section 9.2). A bundled SACK is sent there, too.
    pub(super) fn repeated_shutdown_route(&self) -> Option<(PathId, Route)> {
        let ending = self.state.ending()?;
        let chunk = &ending.chunk;
        let repeated = chunk.due && chunk.retransmissions > 0 && ending.answer.is_none();
        let path = self.paths.current();
        let usable = repeated && self.paths[path].is_confirmed();
        usable.then(|| (path, self.paths[path].route()))
    }

    /// SHUTDOWN or SHUTDOWN ACK.
    pub(super) fn output_shutdown(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let ending = self.state.ending()?;
        let current = self.paths.current();
        let route = ending.answer.unwrap_or(self.paths[current].route());
        let path = self.paths.find(&route).unwrap_or(current);
        if !self.paths[path].is_confirmed() {
            return None;
        }
        let mut packet = PacketBuilder::new(buf, self.header(), self.paths[path].packet_size());
        let mut kinds = SHUTDOWNS;
        if self.sender.awaits_forward() {
            kinds.insert(self.forward_chunk());
        }
        let slot = self.auth.open(&mut packet, &kinds);
        self.bundle_shutdown(path, &mut packet, true, cx);
        let len = self.finish(packet, slot);
        (len > 0).then(|| single(route, len))
    }

    /// Adds SHUTDOWN or SHUTDOWN ACK if one is due. With `first` it may be the first chunk besides
    /// AUTH.
    pub(super) fn bundle_shutdown(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        first: bool,
        cx: &mut Context<'_>,
    ) {
        let Some(ending) = self.state.ending() else {
            return;
        };
        if !ending.chunk.due || !packet.fits(SHUTDOWN_LEN) {
            // It goes in the next packet.
            return;
        }
        // A FORWARD-TSN that fills a packet is left out: the peer does not need it, since no data that
        // it would have to deliver waits.
        if !self.bundle_last_forward(path, packet, SHUTDOWN_LEN, cx) && !first {
            return;
        }
        let expires = cx.now + self.paths[path].rto();
        let route = self.paths[path].route();
        let is_ack = matches!(self.state, AssociationState::ShutdownAckSent(_));
        let Some(ending) = self.state.ending_mut() else {
            return;
        };
        ending.chunk.due = false;
        // An INIT can be forged: it causes a SHUTDOWN ACK, but does not restart T2-shutdown.
        ending.chunk.timer.get_or_insert(expires);
        ending.answer = None;
        ending.sent_to = Some(route);
        if is_ack {
            packet.shutdown_ack();
        } else {
            packet.shutdown(self.receiver.cumulative_tsn());
        }
    }

    /// One heartbeat that is due.
    pub(super) fn output_heartbeat(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let monitors = self.state.sends_heartbeats();
        if !monitors && !self.verifies_to_end() {
            return None;
        }
        let wanted =
            |p: &&Path| (p.wants_heartbeat() || p.wants_trial()) && (monitors || !p.is_confirmed());
        let id = self.paths.iter().find(wanted).map(|p| p.id())?;
        let mut route = self.paths[id].route();
        let info = if self.paths[id].wants_heartbeat() {
            let data_waits = self.data_waits_for_a_path();
            let info = self.paths[id].heartbeat_sent(cx.now, data_waits, &self.config, cx.random);
            self.try_sources(id, cx);
            info
        } else {
            let (source, info) = self.paths[id].trial_sent(cx.now, cx.random)?;
            route.local = Some(source);
            info
        };
        let mut packet = PacketBuilder::new(buf, self.header(), self.paths[id].packet_size());
        let heartbeat = ChunkSet::of(&[ChunkType::HEARTBEAT]);
        let slot = self.auth.open(&mut packet, &heartbeat);
        packet.heartbeat(&info);
        Some(single(route, self.finish(packet, slot)))
    }

    /// A probe of MTU discovery: HEARTBEAT with a separate nonce, and PAD (RFC 8899 section 6.2.1.2).
    pub(super) fn output_probe(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if !self.state.sends_heartbeats() {
            return None;
        }
        let (id, size) = self.paths.next_probe()?;
        let header = self.header();
        let bare = COMMON_HEADER_LEN + self.auth.len_for(&PROBES) + heartbeat::CHUNK_LEN;
        let path = &mut self.paths[id];
        let info = path.probe_sent(size, cx.now, cx.random);
        let route = path.route();
        let len = size.saturating_sub(path.below_len()).max(bare);
        let mut packet = PacketBuilder::new(buf, header, len);
        let slot = self.auth.open(&mut packet, &PROBES);
        packet.heartbeat(&info);
        if len >= bare + CHUNK_HEADER_LEN {
            packet.pad((len - bare) & !3);
        }
        Some(Transmit {
            probe: size > 0,
            ..single(route, self.finish(packet, slot))
        })
    }
}

/// Returns the only address family that this side has, if it lacks one.
fn supported_types<'a>(
    local: impl Iterator<Item = &'a core::net::IpAddr>,
) -> Option<ParameterType> {
    let (mut v4, mut v6) = (false, false);
    for address in local {
        v4 |= address.is_ipv4();
        v6 |= address.is_ipv6();
    }
    match (v4, v6) {
        (true, false) => Some(ParameterType::IPV4_ADDRESS),
        (false, true) => Some(ParameterType::IPV6_ADDRESS),
        _ => None,
    }
}

/// The encoded "Cookie Received While Shutting Down" cause.
pub(crate) fn cookie_while_shutting_down() -> Vec<u8> {
    let mut cause = Vec::with_capacity(4);
    cause.extend_from_slice(&CauseCode::COOKIE_WHILE_SHUTTING_DOWN.0.to_be_bytes());
    cause.extend_from_slice(&[0, 4]);
    cause
}
