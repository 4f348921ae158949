//! The peer's UDP ports, one a peer address, or none (RFC 6951 sections 5.1, 5.4).
//!
//! A peer that tells several addresses does not tell its ports; the other side begins with that of
//! the packet it has, and its heartbeats may arrive so. Where the user gave another way to an address,
//! a heartbeat goes that way at once, and such a guess does not count until it was answered or lost.

use super::Association;
use super::state::State;
use crate::error::OperationError;
use crate::path::PathId;
use crate::route::Route;

impl Association {
    /// A packet with the right tag came from another UDP port than before, or without UDP.
    pub(super) fn learn_encapsulation(&mut self, route: &Route) {
        if self
            .paths
            .set_encapsulation(route.remote, route.encapsulation)
        {
            self.counters.encapsulation_changes += 1;
            self.after_encapsulation_change(route);
        }
    }

    /// The user knows better: the socket option of section 6.1. The next packet of the peer says
    /// otherwise if need be.
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

    /// What has its own idea of the way back has it from a packet before.
    fn after_encapsulation_change(&mut self, now: &Route) {
        self.listing_changed = true;
        let ending = match &mut self.state {
            State::ShutdownSent(ending) | State::ShutdownAckSent(ending) => ending.answer.as_mut(),
            _ => None,
        };
        let waiting = self.replies.iter_mut().map(|(route, _)| route);
        let kept = waiting.chain(self.data_route.as_mut()).chain(ending);
        for route in kept.filter(|r| r.remote == now.remote) {
            route.encapsulation = now.encapsulation;
        }
    }
}
