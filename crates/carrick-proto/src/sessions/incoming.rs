//! Received datagrams: demultiplexing to sessions, and admission of new ones.

use alloc::vec::Vec;

use super::{MAX_LOOKED_AT, PacketSession, SessionFactory, SessionId, SessionLayer, route_key};
use crate::association::AssociationId;
use crate::endpoint::Endpoint;
use crate::route::Route;
use crate::time::Time;

impl<F: SessionFactory> SessionLayer<F> {
    /// Processes a received datagram; [`Route::encapsulation`] is the UDP port of the peer.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        route: &Route,
        datagram: &[u8],
    ) {
        let known = self.find(route);
        let Some(id) = known.or_else(|| self.accept(now, endpoint, route, datagram)) else {
            return;
        };
        let opens = self.factory.opens(datagram);
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let mut opened = core::mem::take(&mut self.opened);
        if opens && !slot.ended && !slot.session.is_begun_by(datagram) {
            let next = slot.successor.as_ref();
            if !next.is_some_and(|next| next.is_begun_by(datagram)) {
                slot.successor = Some(self.factory.accept(now));
                slot.successor_deadline = Some(now + self.config.handshake_timeout);
            }
        } else if !slot.ended {
            slot.session.handle_datagram(now, datagram, &mut opened);
        }
        if let Some(successor) = &mut slot.successor {
            // Packets before the replacement may come from another peer.
            let mut early = Vec::new();
            successor.handle_datagram(now, datagram, &mut early);
        } else if opened.is_empty() && slot.is_open() {
            self.stats.discarded += 1;
        }
        self.ready.insert(id);
        // A datagram may finish the handshake and carry the first packet.
        self.update_session(now, endpoint, id);
        let inner = Route {
            local: None,
            remote: id.address(route.remote),
            encapsulation: None,
            ecn: route.ecn,
        };
        for packet in opened.drain(..) {
            endpoint.handle_datagram(now, &inner, packet);
        }
        self.opened = opened;
    }

    /// Returns the session of datagrams on this route.
    fn find(&mut self, route: &Route) -> Option<SessionId> {
        let exact = route_key(route);
        if let Some(id) = self.by_route.get(&exact) {
            return Some(*id);
        }
        // The operating system chose the local address of a session that this side started.
        let open = (exact.0, exact.1, None);
        let id = *self.by_route.get(&open)?;
        self.by_route.remove(&open);
        self.by_route.insert(exact, id);
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.route.local = route.local;
        }
        Some(id)
    }

    /// Creates a session for an unknown peer that starts a handshake.
    fn accept(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        route: &Route,
        datagram: &[u8],
    ) -> Option<SessionId> {
        if route.encapsulation.is_none() || !self.factory.opens(datagram) {
            self.stats.unknown_senders += 1;
            return None;
        }
        if self.half_open.len() >= self.config.max_handshakes {
            let unproven = |id: &&SessionId| {
                let slot = self.slots.get(id);
                slot.is_some_and(|slot| !slot.session.has_validated_address())
            };
            let oldest = self.half_open.iter().take(MAX_LOOKED_AT).find(unproven);
            let Some(&oldest) = oldest else {
                self.stats.refused += 1;
                return None;
            };
            self.stats.evicted += 1;
            self.evict(now, endpoint, oldest);
        }
        let session = self.factory.accept(now);
        let Some(id) = self.insert(now, session, *route) else {
            self.stats.refused += 1;
            return None;
        };
        self.half_open.insert(id);
        Some(id)
    }

    /// Removes a session at once; its associations end.
    fn evict(&mut self, now: Time, endpoint: &mut Endpoint, id: SessionId) {
        let slot = self.slots.get(&id);
        let of: Vec<AssociationId> =
            slot.map_or_else(Vec::new, |slot| slot.associations.iter().copied().collect());
        self.remove(id);
        for association in of {
            // Never an error: the association was linked until now.
            let _ = endpoint.lower_layer_lost(now, association);
        }
    }
}
