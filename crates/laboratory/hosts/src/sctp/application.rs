//! Programs that use an endpoint: sources, sinks, servers.

use carrick_proto::{AssociationId, Endpoint, Event, ObservedEvent, Time};

/// A program that uses an SCTP endpoint. Every method may call the endpoint; packets are sent
/// directly afterwards.
///
/// A program starts with its first timer: to connect at the start, [`next_timer`](Self::next_timer)
/// returns [`Time::ZERO`] first.
pub trait Application: 'static {
    /// Handles an event of an association; never [`Event::MessageReceived`], see
    /// [`on_readable`](Self::on_readable). The default does nothing.
    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        let _ = (now, endpoint, id, event);
    }

    /// Handles received messages. The default reads and drops them. If messages are left unread,
    /// the next call follows only after all of them have been read.
    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        let _ = now;
        while endpoint.receive(id).is_some() {}
    }

    /// Returns the time of the next call of [`on_timer`](Self::on_timer). The default is never.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// Handles the expired timer. Afterwards [`next_timer`](Self::next_timer) must return a later
    /// time, or none.
    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        let _ = (now, endpoint);
    }

    /// Returns whether [`on_observed`](Self::on_observed) is called. The host asks once, at its creation.
    fn observes(&self) -> bool {
        false
    }

    /// Handles an event that an observer of the endpoint is passed, with its time. The default ignores it.
    fn on_observed(&mut self, time: Time, id: AssociationId, event: &ObservedEvent) {
        let _ = (time, id, event);
    }
}
