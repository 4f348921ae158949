//! Received datagrams: demultiplexing to sessions.

use alloc::vec::Vec;

use super::{PacketSession, SessionFactory, SessionId, SessionLayer, route_key};
use crate::endpoint::Endpoint;
use crate::ids::AssociationId;
use crate::route::Route;
use crate::time::Time;

impl<F: SessionFactory> SessionLayer<F> {
    /// Processes a received datagram; [`Route::encapsulation`] is the UDP port of the peer. Handshakes that
    /// it opens are processed by [`Self::poll_transmit`], after everything else.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        route: &Route,
        datagram: &[u8],
    ) {
        let queued = self.queue_hello(route, datagram);
        if queued && self.factory.opens(datagram) {
            return;
        }
        if !self.handle_session_datagram(now, endpoint, route, datagram) && !queued {
            self.stats.unknown_senders += 1;
        }
    }

    /// Processes a datagram of the session on this route; returns `false` if there is none.
    pub(super) fn handle_session_datagram(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        route: &Route,
        datagram: &[u8],
    ) -> bool {
        let Some(id) = self.find(route) else {
            return false;
        };
        let Some(slot) = self.slots.get_mut(&id) else {
            return false;
        };
        let opens = self.factory.opens(datagram);
        let takes = |session: &F::Session| !opens || session.is_begun_by(datagram);
        let mut opened = core::mem::take(&mut self.opened);
        slot.unanswered = None;
        if !slot.ended && takes(&slot.session) {
            slot.session.handle_datagram(now, datagram, &mut opened);
        }
        if let Some(successor) = &mut slot.successor {
            if takes(successor) {
                // Packets before the replacement may come from another peer.
                let mut early = Vec::new();
                successor.handle_datagram(now, datagram, &mut early);
            }
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
        true
    }

    /// Returns the session of datagrams on this route.
    pub(super) fn find(&mut self, route: &Route) -> Option<SessionId> {
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

    /// Removes a session at once; its associations end.
    pub(super) fn evict(&mut self, now: Time, endpoint: &mut Endpoint, id: SessionId) {
        let slot = self.slots.get(&id);
        let of: Vec<AssociationId> =
            slot.map_or_else(Vec::new, |slot| slot.associations.iter().copied().collect());
        self.remove(id);
        for association in of {
            if let Some(association) = endpoint.association_mut(now, association) {
                association.lower_layer_lost();
            }
        }
    }
}
