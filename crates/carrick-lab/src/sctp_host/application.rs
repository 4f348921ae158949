//! The programs on top of an endpoint: sources, sinks, servers.

use carrick_proto::{AssociationId, Endpoint, Event, Time, TraceRecord};

/// A program that uses an SCTP endpoint. Every method may call the endpoint; what it wants to send
/// leaves right after.
///
/// A program begins with its first timer: one that connects at the start has
/// [`next_timer`](Self::next_timer) say [`Time::ZERO`] first.
pub trait Application: 'static {
    /// Something happened to an association; never [`Event::MessageReceived`], see
    /// [`on_readable`](Self::on_readable). The default does nothing.
    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        let _ = (now, endpoint, id, event);
    }

    /// Messages have arrived. The default takes them and forgets them. A program that leaves some
    /// there is told again only after it took all of them.
    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        let _ = now;
        while endpoint.receive(id).is_some() {}
    }

    /// When [`on_timer`](Self::on_timer) is to be called. The default is never.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// The time that [`next_timer`](Self::next_timer) named has come; it must name a later one, or
    /// none, from now on.
    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        let _ = (now, endpoint);
    }

    /// Whether [`on_trace`](Self::on_trace) is to be called. The association must be configured to
    /// keep a trace, too.
    fn wants_trace(&self) -> bool {
        false
    }

    /// A record of an association's trace. The default ignores it.
    fn on_trace(&mut self, id: AssociationId, record: &TraceRecord) {
        let _ = (id, record);
    }
}
