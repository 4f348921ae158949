//! The peer's UDP ports, one a peer address, or none (RFC 6951 sections 5.1, 5.4).
//!
//! A peer that advertises several addresses does not advertise its UDP ports; the first packets use the
//! port of the packet that advertised them. Where the user set another port for an address, a heartbeat
//! uses that at once, and the peer's port does not replace it until the heartbeat is answered or lost.

use super::Association;
use super::state::State;
use crate::error::OperationError;
use crate::path::PathId;
use crate::route::Route;

impl Association {
    /// Learns the peer's UDP port from a packet with the right tag, if it differs.
    pub(super) fn learn_encapsulation(&mut self, route: &Route) {
        if self
            .paths
            .set_encapsulation(route.remote, route.encapsulation)
        {
            self.counters.encapsulation_changes += 1;
            self.after_encapsulation_change(route);
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
        let ending = match &mut self.state {
            State::ShutdownSent(ending) | State::ShutdownAckSent(ending) => ending.answer.as_mut(),
            _ => None,
        };
        let waiting = self.replies.routes_mut();
        let kept = waiting.chain(self.receiver.data_route_mut()).chain(ending);
        for route in kept.filter(|r| r.remote == now.remote) {
            route.encapsulation = now.encapsulation;
        }
    }
}
