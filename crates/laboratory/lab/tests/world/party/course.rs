//! Records the set-up, the restart and the end of the association.

use std::net::IpAddr;

use carrick_proto::{AssociationId, CloseReason, Endpoint, Event, Time};

use super::{Current, Party};
use crate::world::protection;

impl Party {
    pub(super) fn on_established(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        event: &Event,
    ) {
        let Event::Established {
            peer_addresses,
            outbound_streams,
            ..
        } = event
        else {
            return;
        };
        self.ledger.borrow_mut().seen.established += 1;
        self.ledger.borrow_mut().advanced(now);
        // An address that identifies a session is not an address of the peer.
        let real = |address: &IpAddr| match &self.sessions {
            None => Some(*address),
            Some(sessions) => Some(sessions.borrow().remote_behind(*address)?.ip()),
        };
        let known =
            |address| real(address).is_some_and(|a| self.setting.peer_addresses.contains(&a));
        if !peer_addresses.iter().all(known) {
            self.fail(format!(
                "addresses that the peer does not have: {peer_addresses:?}"
            ));
        }
        match self.current {
            Some(current) if current.id == id => {}
            Some(current) if current.closed && self.script_continues() => {
                while self.read_one(now, endpoint, current.id) {}
                self.begin_next_life();
            }
            None => {}
            Some(current) => {
                // A COOKIE ECHO that was late or duplicated: RFC 9260 cannot distinguish it from a
                // new one.
                if !current.closed {
                    self.fail(format!("{id:?} beside {:?}", current.id));
                }
                self.ledger.borrow_mut().seen.late_associations += 1;
                self.late_associations.push(id);
                let instance = self.instance(id);
                self.ledger.borrow_mut().late_associations.insert(instance);
                let result = endpoint.shutdown(now, id);
                self.log(now, || {
                    format!("shutdown of a late association: {result:?}")
                });
                return;
            }
        }
        let start = match self.current {
            Some(current) if current.id == id && self.script.early && self.life == 0 => {
                current.start
            }
            _ => now,
        };
        self.current = Some(Current {
            id,
            established: true,
            closed: false,
            streams: *outbound_streams,
            start,
        });
        let sealed = protection::seal_with(endpoint, id, None);
        self.ledger.borrow_mut().seen.sealed += u64::from(sealed);
        let side = self.setting.side;
        self.ledger.borrow_mut().agreed_streams[side] = Some(*outbound_streams);
        self.ledger.borrow_mut().up[side] = Some(now);
        self.outcome = None;
    }

    /// Returns whether the peer restarts in this world, and this side has not noticed it yet.
    pub(super) fn script_continues(&self) -> bool {
        self.life == 0 && self.script.second_life
    }

    pub(super) fn begin_next_life(&mut self) {
        self.life = 1;
        self.cursor = 0;
        self.waiting = None;
        self.blocked = false;
        self.sent_all = false;
    }

    pub(super) fn on_closed(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        reason: CloseReason,
    ) {
        if self.late_associations.contains(&id) {
            self.late_associations.retain(|late| *late != id);
            while self.read_one(now, endpoint, id) {}
            return;
        }
        let Some(current) = self.current.as_mut().filter(|c| c.id == id && !c.closed) else {
            return self.fail(format!("{id:?} ended twice or was never established"));
        };
        current.closed = true;
        self.ledger.borrow_mut().advanced(now);
        if self.read_at.is_none() {
            self.read(now, endpoint);
        }
        let seen = &mut self.ledger.borrow_mut().seen;
        match &reason {
            CloseReason::AbortedByPeer(_) => seen.aborted_by_peer += 1,
            CloseReason::PeerUnreachable => seen.lost_peer += 1,
            _ => {}
        }
        self.outcome = Some(reason);
    }
}
