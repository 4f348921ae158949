//! Routes back to the source of a packet (RFC 9260 section 6.4), and the peer's UDP ports in them, one a
//! peer address, or none (RFC 6951 sections 5.1, 5.4).
//!
//! A peer that advertises several addresses does not advertise its UDP ports; the first packets use the
//! port of the packet that advertised them. Where the user set another port for an address, a heartbeat
//! uses that at once, and the peer's port does not replace it until the heartbeat is answered or lost.

use core::net::IpAddr;

use super::{Association, Context};
use crate::error::OperationError;
use crate::path::PathId;
use crate::route::Route;

impl Association {
    /// Returns the route back to a packet's source, from its destination address (section 6.4), unless
    /// that is being added or deleted, so that the peer may not know it (RFC 5061, section 5.3, rules
    /// F1 and F4).
    pub(crate) fn reply_route(&self, route: &Route) -> Route {
        self.reply_route_on(self.paths.find(route), route)
    }

    pub(super) fn reply_route_on(&self, path: Option<PathId>, route: &Route) -> Route {
        let back = route.for_reply();
        let Some(path) = path.map(|id| &self.paths[id]) else {
            return back;
        };
        let dynamic = self.dynamic.as_ref();
        if dynamic.is_some_and(|d| d.is_being_changed(back.local)) {
            Route {
                local: path.local(),
                ..back
            }
        } else if path.is_encapsulation_unverified() {
            // The peer learns the port from the reply.
            Route {
                encapsulation: path.encapsulation(),
                ..back
            }
        } else {
            back
        }
    }

    /// Returns the route for a reply: back to the source, unless that is unconfirmed and gets
    /// heartbeats only (section 5.4).
    pub(crate) fn answer_route(&self, route: &Route) -> Route {
        match self.paths.find(route) {
            path @ Some(id) if self.paths[id].is_confirmed() => self.reply_route_on(path, route),
            _ => self.paths[self.paths.current()].route(),
        }
    }

    /// Takes the peer's UDP port from a packet with the right tag, if it differs. Returns whether it does.
    pub(super) fn update_encapsulation(&mut self, route: &Route) -> bool {
        let changed = self
            .paths
            .set_encapsulation(route.remote, route.encapsulation);
        if changed {
            self.counters.other().encapsulation_changes += 1;
            self.after_encapsulation_change(route);
        }
        changed
    }

    /// Retransmits the data in flight to an address whose UDP port has changed, within cwnd: it was sent to the
    /// former port, which leads nowhere after a translator has lost its state. That is no sign of congestion, and no
    /// error of the path.
    pub(super) fn resend_to_new_port(&mut self, remote: IpAddr, cx: &Context<'_>) {
        for id in self.paths.ids() {
            let path = &mut self.paths[id];
            if path.remote() == remote && path.take_resend_to_new_port(cx.now) {
                self.move_data(id, id, cx);
            }
        }
    }

    /// Sets the peer's UDP port, as the socket option of section 6.1. The port of a later packet
    /// replaces it.
    pub(crate) fn set_encapsulation(
        &mut self,
        id: PathId,
        encapsulation: Option<u16>,
    ) -> Result<(), OperationError> {
        if !self.paths.contains(id) {
            return Err(OperationError::UnknownPath);
        }
        let route = Route {
            encapsulation,
            ..self.paths[id].route()
        };
        if self.paths.set_encapsulation(route.remote, encapsulation) {
            self.after_encapsulation_change(&route);
        }
        Ok(())
    }

    /// Corrects the routes that were copied from an earlier packet.
    fn after_encapsulation_change(&mut self, now: &Route) {
        self.peer_entries_changed = true;
        let ending = self.state.ending_mut().and_then(|e| e.answer.as_mut());
        let waiting = self.replies.routes_mut();
        let kept = waiting.chain(self.receiver.data_route_mut()).chain(ending);
        for route in kept.filter(|r| r.remote == now.remote) {
            route.encapsulation = now.encapsulation;
        }
    }
}
