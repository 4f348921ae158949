//! COOKIE ECHO: the association comes into being, or an existing one learns what its peer did
//! (RFC 9260 sections 5.1.5 and 5.2.4).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::{Chunk, ChunkType, CommonHeader, CookieEcho, Packet, PacketBuilder};

use super::sources::Source;
use super::{Cookie, Endpoint};
use crate::association::state::State;
use crate::association::{Association, AssociationId, TieTags, cookie_while_shutting_down};
use crate::auth::{Auth, Verdict};
use crate::route::Route;
use crate::time::Time;

/// What a valid cookie means for an association that exists: the rows of table 12.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CookieMatch {
    /// A: the peer restarted.
    Restart,
    /// B: both sides set up at the same time.
    Collision,
    /// C: the cookie is late.
    Late,
    /// D: a repeated COOKIE ECHO.
    Duplicate,
    /// Anything else.
    None,
}

impl CookieMatch {
    pub(super) fn of(cookie: &Cookie, association: &Association) -> Self {
        let local = cookie.local_tag == association.local_tag;
        let peer_known = !association.peer_tag.is_zero();
        let peer = peer_known && cookie.peer_tag == association.peer_tag;
        let ties =
            cookie.tie_tags != TieTags::default() && association.tie_tags == Some(cookie.tie_tags);
        match (local, peer) {
            (true, true) => Self::Duplicate,
            (true, false) => Self::Collision,
            (false, false) if ties => Self::Restart,
            (false, true) if cookie.tie_tags == TieTags::default() => Self::Late,
            _ => Self::None,
        }
    }
}

impl Endpoint {
    /// A packet that begins with COOKIE ECHO.
    pub(super) fn handle_cookie_echo(
        &mut self,
        now: Time,
        route: &Route,
        packet: &Packet<'_>,
        echo: &CookieEcho<'_>,
        datagram: &Bytes,
        opened: Option<AssociationId>,
    ) {
        let header = packet.header();
        let valid = self
            .secrets
            .as_ref()
            .and_then(|secrets| secrets.open(echo.cookie).ok());
        let Some(cookie) = valid else {
            self.stats.forged_cookies += 1;
            return;
        };
        let ports = (cookie.local_port, cookie.peer_port) == (self.config.port, header.source_port);
        if !ports || cookie.local_tag != header.tag {
            self.stats.wrong_tag += 1;
            return;
        }
        // Of one connection of the lower layer, and brought on another one.
        if self.accepted.ignore_peer_addresses && cookie.remote != route.remote {
            self.stats.forged_cookies += 1;
            return;
        }
        let known = self.find_by_cookie(route, header.source_port, &cookie);
        if known.is_some_and(|id| !self.may_take(id, packet, opened)) {
            return;
        }
        let Some(rest) = self.authenticate(known, &cookie, packet) else {
            self.stats.unauthenticated_cookies += 1;
            return;
        };
        match known {
            Some(id) => self.cookie_for_known(now, id, &cookie, route, (packet, rest), datagram),
            None => self.cookie_for_new(now, &cookie, route, (packet, rest), datagram),
        }
    }

    /// COOKIE ECHO behind AUTH is judged by the keys of the association that exists, or by what
    /// the cookie says about the one that comes into being (RFC 4895 section 6.3). Returns how many
    /// chunks are done with, and whether the others are authenticated; `None` if the packet is to
    /// be dropped.
    fn authenticate(
        &self,
        known: Option<AssociationId>,
        cookie: &Cookie,
        packet: &Packet<'_>,
    ) -> Option<(usize, bool)> {
        let association = known.and_then(|id| self.registry.get(id));
        let of_association = association.and_then(|a| a.auth.as_deref());
        let of_association = of_association.filter(|auth| auth.is_negotiated());
        let mut of_cookie = None;
        if of_association.is_none() && !cookie.theirs.is_empty() {
            let config = association.map_or(&*self.accepted, |a| &*a.config);
            let mut auth = Auth::new(&config.authentication, cookie.ours.clone());
            auth.negotiated(cookie.ours.clone(), cookie.theirs.clone());
            of_cookie = Some(auth);
        }
        let auth = of_association.or(of_cookie.as_ref());
        match packet.chunks().next()?.ok()? {
            raw if raw.kind == ChunkType::AUTH => {
                let Ok(Chunk::Auth(chunk)) = Chunk::parse(raw) else {
                    return None;
                };
                let genuine = auth?.judge(&chunk, packet) == Verdict::Genuine;
                genuine.then_some((2, true))
            }
            _ if auth.is_some_and(|a| a.requires(ChunkType::COOKIE_ECHO)) => None,
            _ => Some((1, false)),
        }
    }

    fn cookie_for_new(
        &mut self,
        now: Time,
        cookie: &Cookie,
        route: &Route,
        (packet, rest): (&Packet<'_>, (usize, bool)),
        datagram: &Bytes,
    ) {
        if let Some(staleness) = cookie.staleness(now) {
            return self.stale(cookie, staleness, route);
        }
        if !self.config.accept {
            // Given out for a set-up of ours, which has failed since.
            self.stats.inits_refused += 1;
            return self
                .replies
                .abort(route.for_reply(), header_to(cookie), false, |_| {});
        }
        let source = Source::of(cookie.remote);
        let crowded = self.registry.is_full(cookie.remote, cookie.peer_port)
            || self.registry.accepted_from(source) >= self.config.per_source();
        if self.registry.len() >= self.config.max_associations || crowded {
            let header = header_to(cookie);
            self.stats.inits_refused += 1;
            return self
                .replies
                .abort(route.for_reply(), header, false, |causes| {
                    causes.out_of_resource()
                });
        }
        let id = self.registry.next_id();
        let config = Arc::clone(&self.accepted);
        let ports = (cookie.local_port, cookie.peer_port);
        let mut association = Association::new(
            id,
            config,
            ports,
            cookie.local_tag,
            cookie.local_initial_tsn,
            cookie.told,
            State::Established,
        );
        let (_, mut cx) = self.split(now);
        association.adopt(cookie, route, &mut cx);
        self.registry.insert(association, source, true);
        self.with(now, id, |association, cx| {
            association.reply_cookie_ack(route);
            association.handle_rest(route, packet, datagram, rest, cx);
        });
    }

    fn cookie_for_known(
        &mut self,
        now: Time,
        id: AssociationId,
        cookie: &Cookie,
        route: &Route,
        (packet, rest): (&Packet<'_>, (usize, bool)),
        datagram: &Bytes,
    ) {
        let Some(association) = self.registry.get(id) else {
            return;
        };
        let action = CookieMatch::of(cookie, association);
        // An old cookie is good as long as it names the association as it is.
        if action != CookieMatch::Duplicate
            && let Some(staleness) = cookie.staleness(now)
        {
            return self.stale(cookie, staleness, route);
        }
        // The peer that this side has exchanged data with is another one: it restarted while the
        // association was set up. Numbers can't begin anew under the tag in this cookie, so the
        // peer is sent for another cookie, which makes a restart of it.
        if action == CookieMatch::Collision && association.has_exchanged_data() {
            return self.stale(cookie, core::time::Duration::ZERO, route);
        }
        let before: Vec<IpAddr> = association.paths.remotes().collect();
        self.with(now, id, |association, cx| {
            match action {
                CookieMatch::Restart if association.repeat_shutdown_ack() => {
                    association.reply_error(route, cookie_while_shutting_down());
                    return;
                }
                CookieMatch::Restart => association.restart(cookie, route, cx),
                CookieMatch::Collision => association.collide(cookie, route, cx),
                CookieMatch::Duplicate => {
                    if association.state.is_setup() {
                        // Our own COOKIE ECHO is still on its way, but the peer's shows that the
                        // tags are agreed.
                        association.resend_all();
                        association.establish(false, cx);
                    }
                }
                CookieMatch::Late | CookieMatch::None => return,
            }
            association.reply_cookie_ack(route);
            association.handle_rest(route, packet, datagram, rest, cx);
        });
        self.registry.reindex(&before, id);
    }

    /// ERROR with Stale Cookie and how long ago it went stale, in microseconds, rounded up.
    fn stale(&mut self, cookie: &Cookie, staleness: core::time::Duration, route: &Route) {
        self.stats.stale_cookies += 1;
        let header = header_to(cookie);
        let micros = u32::try_from(staleness.as_nanos().div_ceil(1000)).unwrap_or(u32::MAX);
        self.replies.push(route.for_reply(), |buf| {
            let mut packet = PacketBuilder::new(buf, header, 1200);
            packet.error(|causes| causes.stale_cookie(micros));
            packet.finish();
        });
    }
}

fn header_to(cookie: &Cookie) -> CommonHeader {
    CommonHeader {
        source_port: cookie.local_port,
        destination_port: cookie.peer_port,
        tag: cookie.peer_tag,
    }
}
