//! COOKIE ECHO: establishes an association (RFC 9260, section 5.1.5), or is handled by an existing one
//! (section 5.2.4).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::{Chunk, ChunkType, CommonHeader, CookieEcho, Packet, PacketBuilder};

use super::Endpoint;
use super::shard::{NewAssociation, Refusal};
use super::source_table::SourceKey;
use crate::association::state::AssociationState;
use crate::association::{Association, PacketFront, cookie_while_shutting_down};
use crate::auth::Auth;
use crate::cookie::{Cookie, TieTags};
use crate::ids::AssociationId;
use crate::route::{PeerAddress, Route};
use crate::time::Time;

/// Match of a valid cookie with an existing association: the actions of RFC 9260, section 5.2.4,
/// table 12.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CookieMatch {
    /// Action A: the peer restarted.
    Restart,
    /// Action B: both sides initiated at the same time.
    Collision,
    /// Action C: the cookie is late.
    Late,
    /// Action D: both tags match, as in a retransmitted COOKIE ECHO.
    Duplicate,
    /// No row of the table: the cookie is discarded.
    None,
}

impl CookieMatch {
    /// Compares the tags and tie-tags of a cookie with those of an association.
    pub(super) fn of(cookie: &Cookie, association: &Association) -> Self {
        let local = cookie.local_tag == association.local_tag();
        let peer_known = !association.peer_tag().is_zero();
        let peer = peer_known && cookie.peer_tag == association.peer_tag();
        let ties = association.has_tie_tags(cookie.tie_tags);
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
    /// Processes a packet that starts with COOKIE ECHO (RFC 9260, sections 5.1.5 and 5.2.4).
    ///
    /// 1. Authenticate the cookie by its MAC (section 5.1.5, steps 1 and 2).
    /// 2. Compare its ports and local tag with the packet's header (section 5.1.5, step 3).
    /// 3. Find the existing association to which it refers, and check the chunk protection.
    /// 4. Verify an AUTH chunk in front, and require one where COOKIE ECHO has to be authenticated
    ///    (RFC 4895, section 6.3).
    /// 5. Establish an association ([`Self::establish_from_cookie`]), or apply the cookie to the existing
    ///    one ([`Self::apply_cookie`]).
    pub(super) fn handle_cookie_echo(
        &mut self,
        now: Time,
        route: &Route,
        packet: &Packet<'_>,
        echo: &CookieEcho<'_>,
        datagram: &Bytes,
        opened_by: Option<AssociationId>,
    ) {
        let header = packet.header();
        // Step 1.
        let valid = self
            .secrets
            .as_ref()
            .and_then(|secrets| secrets.open(echo.cookie));
        let Some(cookie) = valid else {
            self.stats.forged_cookies += 1;
            return;
        };
        // Step 2.
        let ports = (cookie.local_port, cookie.peer_port) == (self.config.port, header.source_port);
        if !ports || cookie.local_tag != header.tag {
            self.stats.wrong_tag += 1;
            return;
        }
        // A cookie must return on the lower-layer connection on which it was sent.
        if self.accepted.paths.ignore_peer_addresses && cookie.remote != route.remote {
            self.stats.forged_cookies += 1;
            return;
        }
        // Step 3.
        let existing = self.find_by_cookie(route, header.source_port, &cookie);
        if existing.is_some_and(|id| !self.check_protection(id, packet, opened_by)) {
            return;
        }
        // Step 4.
        let Some(mut front) = self.check_auth(existing, &cookie, packet) else {
            self.stats.unauthenticated_cookies += 1;
            return;
        };
        front.protected = existing.is_some() && existing == opened_by;
        // Step 5.
        match existing {
            Some(id) => self.apply_cookie(now, id, &cookie, route, (packet, front), datagram),
            None => self.establish_from_cookie(now, &cookie, route, (packet, front), datagram),
        }
    }

    /// Verifies an AUTH chunk in front of COOKIE ECHO with the keys of the existing association, or with
    /// the key vectors in the cookie for a new one (RFC 4895, section 6.3). Returns the number of chunks
    /// that are processed and whether the remaining ones are authenticated, or `None` if the packet is
    /// discarded.
    fn check_auth(
        &self,
        existing: Option<AssociationId>,
        cookie: &Cookie,
        packet: &Packet<'_>,
    ) -> Option<PacketFront> {
        let association = existing.and_then(|id| self.registry.get(id));
        let of_association = association.map(Association::auth);
        let of_association = of_association.filter(|auth| auth.is_negotiated());
        let mut of_cookie = None;
        if of_association.is_none() && !cookie.theirs.is_empty() {
            let config = association.map_or(&*self.accepted, |a| &**a.config());
            let config = &config.security.authentication;
            of_cookie = Some(Auth::of_cookie(config, &cookie.ours, &cookie.theirs));
        }
        let auth = of_association.or(of_cookie.as_ref());
        match packet.chunks().next()?.ok()? {
            raw if raw.kind == ChunkType::AUTH => {
                let Ok(Chunk::Auth(chunk)) = Chunk::parse(raw) else {
                    return None;
                };
                let genuine = auth?.is_genuine(&chunk, packet);
                genuine.then_some(PacketFront {
                    processed: 2,
                    authenticated: true,
                    protected: false,
                })
            }
            _ if auth.is_some_and(|a| a.requires(ChunkType::COOKIE_ECHO)) => None,
            _ => Some(PacketFront {
                processed: 1,
                ..PacketFront::default()
            }),
        }
    }

    /// Establishes an association from a cookie (RFC 9260, section 5.1.5).
    ///
    /// 1. Report a stale cookie (step 4 there; section 3.3.10.3).
    /// 2. Answer with ABORT if the endpoint does not accept associations, or with the cause "Out of
    ///    Resource" if a limit is reached (section 5.1). Discard the cookie if another shard has an
    ///    association with the peer: no row of table 12 has its tags, which name this shard (section 5.2.4).
    /// 3. Create the association in state ESTABLISHED (step 5).
    /// 4. Queue COOKIE ACK and process the chunks bundled behind COOKIE ECHO (step 6).
    fn establish_from_cookie(
        &mut self,
        now: Time,
        cookie: &Cookie,
        route: &Route,
        (packet, front): (&Packet<'_>, PacketFront),
        datagram: &Bytes,
    ) {
        // Step 1.
        if let Some(staleness) = cookie.staleness(now) {
            return self.send_stale_cookie(cookie, staleness, route);
        }
        // Step 2.
        let dscp = self.accepted.paths.dscp(route.remote);
        if !self.config.accept {
            // The cookie was sent during a set-up by this side that has failed since.
            self.stats.inits_refused += 1;
            return self.replies.abort(
                route.for_reply(),
                dscp,
                reply_header(cookie),
                false,
                |_| {},
            );
        }
        let encapsulation = cookie.encapsulation;
        let new = NewAssociation {
            addresses: &[cookie.remote, route.remote].map(|address| PeerAddress {
                address,
                encapsulation,
            }),
            confirmed: 1,
            advertised: &cookie.addresses,
            port: cookie.peer_port,
            source: SourceKey::of(cookie.remote),
            accepted: true,
            is_exclusive: !cookie.is_additional,
        };
        let id = match self.admit(&new) {
            Ok(id) => id,
            Err(Refusal::Connected) => return,
            Err(Refusal::Limit) => {
                let header = reply_header(cookie);
                self.stats.inits_refused += 1;
                return self
                    .replies
                    .abort(route.for_reply(), dscp, header, false, |causes| {
                        causes.out_of_resource()
                    });
            }
        };
        // Step 3.
        let config = Arc::clone(&self.accepted);
        let ports = (cookie.local_port, cookie.peer_port);
        let mut association = Association::new(
            id,
            config,
            ports,
            cookie.local_tag,
            cookie.local_initial_tsn,
            cookie.address_version,
            AssociationState::Established,
        );
        let (_, mut cx) = self.registry_and_context(now);
        association.establish_from(cookie, route, &mut cx);
        association.observe(self.observer.clone(), now);
        self.registry.insert(association, &new);
        // Step 4.
        self.update_association(now, id, |association, cx| {
            association.reply_cookie_ack(route);
            association.handle_packet(route, packet, datagram, front, cx);
        });
    }

    /// Applies a cookie to the existing association (RFC 9260, section 5.2.4).
    ///
    /// 1. Match the tags by table 12.
    /// 2. Report a stale cookie unless both tags match (step 3 there).
    /// 3. Restart (action A), take over the peer's new tag (B), discard (C) or establish (D). In
    ///    SHUTDOWN-ACK-SENT a restart is answered with SHUTDOWN ACK and the error "Cookie Received While
    ///    Shutting Down".
    /// 4. Queue COOKIE ACK and process the chunks bundled behind COOKIE ECHO.
    /// 5. Update the index by the peer's addresses.
    fn apply_cookie(
        &mut self,
        now: Time,
        id: AssociationId,
        cookie: &Cookie,
        route: &Route,
        (packet, front): (&Packet<'_>, PacketFront),
        datagram: &Bytes,
    ) {
        let Some(association) = self.registry.get(id) else {
            return;
        };
        // Step 1.
        let action = CookieMatch::of(cookie, association);
        // Step 2.
        if action != CookieMatch::Duplicate
            && let Some(staleness) = cookie.staleness(now)
        {
            return self.send_stale_cookie(cookie, staleness, route);
        }
        // The peer restarted during the set-up, after this side had exchanged data with its previous
        // instance. TSNs can't start again under the tag in this cookie. The error makes the peer
        // request another cookie, which leads to a restart.
        if action == CookieMatch::Collision && association.has_exchanged_data() {
            return self.send_stale_cookie(cookie, core::time::Duration::ZERO, route);
        }
        // Both sides initiated several set-ups, and each has ended another one: these two do not belong to each other.
        // The error makes both sides send INIT again, and the new INITs collide (section 5.2.1).
        let is_echoed = matches!(association.state(), AssociationState::CookieEchoed(_));
        if action == CookieMatch::None && is_echoed {
            return self.send_stale_cookie(cookie, core::time::Duration::ZERO, route);
        }
        if action == CookieMatch::Collision && self.is_replaced(association, cookie) {
            return;
        }
        let before: Vec<IpAddr> = association.path_set().remotes().collect();
        // Step 3.
        self.update_association(now, id, |association, cx| {
            match action {
                CookieMatch::Restart if association.repeat_shutdown_ack() => {
                    association.reply_error(route, cookie_while_shutting_down());
                    return;
                }
                CookieMatch::Restart => association.restart(cookie, route, cx),
                CookieMatch::Collision => association.collide(cookie, route, cx),
                CookieMatch::Duplicate => {
                    if association.state().is_setup() {
                        // The COOKIE ECHO of this side is in flight; the peer's cookie shows that
                        // both sides have the same tags.
                        association.resend_all();
                        association.establish(false, cx);
                    }
                }
                CookieMatch::Late | CookieMatch::None => return,
            }
            // Step 4.
            association.reply_cookie_ack(route);
            association.handle_packet(route, packet, datagram, front, cx);
        });
        // Step 5.
        self.registry.reindex(&before, id);
    }

    /// Sends ERROR with the cause Stale Cookie and its Measure of Staleness: microseconds since the cookie
    /// expired, rounded up (RFC 9260, section 3.3.10.3).
    fn send_stale_cookie(
        &mut self,
        cookie: &Cookie,
        staleness: core::time::Duration,
        route: &Route,
    ) {
        self.stats.stale_cookies += 1;
        let header = reply_header(cookie);
        let micros = u32::try_from(staleness.as_nanos().div_ceil(1000)).unwrap_or(u32::MAX);
        let dscp = self.accepted.paths.dscp(route.remote);
        self.replies.push(route.for_reply(), dscp, |buf| {
            let mut packet = PacketBuilder::new(buf, header, 1200);
            packet.error(|causes| causes.stale_cookie(micros));
            packet.finish();
        });
    }
}

/// Returns the common header of a reply to the sender of the cookie.
fn reply_header(cookie: &Cookie) -> CommonHeader {
    CommonHeader {
        source_port: cookie.local_port,
        destination_port: cookie.peer_port,
        tag: cookie.peer_tag,
    }
}
