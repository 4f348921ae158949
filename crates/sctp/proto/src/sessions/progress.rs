//! State changes of sessions and their effect on associations.

use alloc::vec::Vec;

use super::{PacketSession, SessionEvent, SessionFactory, SessionId, SessionLayer, SessionState};
use crate::endpoint::{Endpoint, IcmpInput, IcmpKind};
use crate::ids::AssociationId;
use crate::time::Time;

/// Limit of queued events, since peers can cause any number of them.
const MAX_EVENTS: usize = 256;

/// Number of bytes of a datagram of a handshake that an ICMP message has to quote, unless it is shorter: in DTLS they
/// reach into the random of `ClientHello` (RFC 6347, section 4.2.2), which only its receivers know.
pub(super) const QUOTED: usize = 40;

impl<F: SessionFactory> SessionLayer<F> {
    /// Processes an ICMP message: "Port Unreachable" or "Protocol Unreachable" ends a handshake that this side began, if
    /// the message quotes its last datagram and the peer has not replied to any. Every other message is ignored: what
    /// it would quote is sealed (RFC 8261, section 6.1).
    pub fn handle_icmp(&mut self, now: Time, endpoint: &mut Endpoint, icmp: &IcmpInput<'_>) {
        let is_final = matches!(
            icmp.kind,
            IcmpKind::PortUnreachable | IcmpKind::ProtocolUnreachable
        );
        let Some(port) = icmp.encapsulation.filter(|_| is_final) else {
            return;
        };
        let to_peer = self.by_route.range((icmp.remote, port, None)..);
        let found = to_peer
            .take_while(|(key, _)| (key.0, key.1) == (icmp.remote, port))
            .map(|(_, id)| *id)
            .find(|id| {
                let sent = self.slots.get(id).and_then(|slot| slot.unanswered.as_ref());
                sent.is_some_and(|sent| !sent.is_empty() && icmp.quoted.starts_with(sent))
            });
        let Some(id) = found else {
            return;
        };
        if let Some(slot) = self.slots.get(&id).filter(|slot| !slot.ended) {
            self.stats.failed += 1;
            let of = slot.associations.iter().copied().collect();
            self.end(now, endpoint, id, SessionEvent::Unreachable(id, of));
        }
    }

    /// Processes a state change of a session after an operation, and updates its timer.
    pub(super) fn update_session(&mut self, now: Time, endpoint: &mut Endpoint, id: SessionId) {
        self.promote_successor(now, endpoint, id);
        let Some(slot) = self.slots.get_mut(&id).filter(|slot| !slot.ended) else {
            return;
        };
        match slot.session.state() {
            SessionState::Handshake => {}
            SessionState::Established if slot.established => {}
            SessionState::Established => {
                slot.established = true;
                slot.deadline = None;
                if slot.associations.is_empty() {
                    slot.idle_deadline = Some(now + self.config.idle_timeout);
                }
                let waiting: Vec<AssociationId> = slot.associations.iter().copied().collect();
                self.half_open.remove(slot.route.remote, id);
                self.stats.established += 1;
                self.queue_event(SessionEvent::Established(id));
                for association in waiting {
                    if let Some(mut association) = endpoint.association_mut(now, association) {
                        association.lower_layer_changed();
                    }
                }
            }
            SessionState::Closed | SessionState::Failed(_) if slot.retry_handshake() => {}
            SessionState::Closed => self.end(now, endpoint, id, SessionEvent::Closed(id)),
            SessionState::Failed(error) => {
                self.stats.failed += 1;
                let of = slot.associations.iter().copied().collect();
                self.end(now, endpoint, id, SessionEvent::Failed(id, error, of));
            }
        }
        self.schedule(id);
    }

    /// Replaces a session by its established successor. If the peer has the same identity, SCTP restarts its
    /// associations; otherwise they are closed.
    fn promote_successor(&mut self, now: Time, endpoint: &mut Endpoint, id: SessionId) {
        let Some(slot) = self.slots.get_mut(&id).filter(|slot| !slot.ended) else {
            return;
        };
        let before: Option<Vec<u8>> = slot
            .successor
            .is_some()
            .then(|| slot.session.identity().map(<[u8]>::to_vec))
            .flatten();
        let was_established = slot.established;
        if !slot.promote_successor() || !was_established {
            // A first session is processed by `update_session`.
            return;
        }
        let same = before.is_some() && before.as_deref() == slot.session.identity();
        let associations: Vec<AssociationId> = slot.associations.iter().copied().collect();
        self.stats.established += 1;
        self.queue_event(SessionEvent::Replaced(id));
        for association in associations {
            match endpoint.association_mut(now, association) {
                Some(mut association) if same => association.lower_layer_changed(),
                Some(association) => association.lower_layer_lost(),
                None => {}
            }
        }
    }

    /// Ends a session and its associations. The entry is removed once its last datagrams have been sent.
    fn end(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: SessionId,
        event: SessionEvent<<F::Session as PacketSession>::Error>,
    ) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        slot.ended = true;
        slot.drop_successor();
        let associations: Vec<AssociationId> = slot.associations.iter().copied().collect();
        self.half_open.remove(slot.route.remote, id);
        self.ready.insert(id);
        self.queue_event(event);
        for association in associations {
            if let Some(association) = endpoint.association_mut(now, association) {
                association.lower_layer_lost();
            }
        }
    }

    fn queue_event(&mut self, event: SessionEvent<<F::Session as PacketSession>::Error>) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
    }

    /// Processes the expired timers of a session.
    pub(super) fn expire(&mut self, now: Time, endpoint: &mut Endpoint, id: SessionId) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        slot.scheduled = None;
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if due(slot.successor_deadline) {
            slot.drop_successor();
        }
        if due(slot.session.poll_timeout()) {
            slot.session.handle_timeout(now);
        }
        if let Some(successor) = slot.successor.as_mut().filter(|s| due(s.poll_timeout())) {
            successor.handle_timeout(now);
        }
        if due(slot.idle_deadline) {
            slot.idle_deadline = None;
            slot.session.close(now);
        }
        let of = slot.associations.iter().copied().collect();
        let mut overdue = due(slot.deadline);
        if overdue {
            slot.deadline = None;
            overdue = !slot.retry_handshake();
        }
        self.ready.insert(id);
        if overdue {
            self.stats.timed_out += 1;
            self.end(now, endpoint, id, SessionEvent::TimedOut(id, of));
        }
    }

    pub(super) fn schedule(&mut self, id: SessionId) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let next = slot.next_timeout().filter(|_| !slot.ended);
        if next == slot.scheduled {
            return;
        }
        if let Some(at) = slot.scheduled {
            self.timers.remove(&(at, id));
        }
        slot.scheduled = next;
        if let Some(at) = next {
            self.timers.insert((at, id));
        }
    }
}
