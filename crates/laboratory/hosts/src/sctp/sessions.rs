//! Sessions of any type between an endpoint and the simulated network (RFC 8261).

use std::cell::RefCell;
use std::fmt::Debug;

use carrick_proto::sessions::{SessionFactory, SessionLayer};
use carrick_proto::{AssociationId, Endpoint, Event, Route, Time, Transmit};

/// Type-erased session layer; see [`SessionLayer`] for each method.
pub(super) trait Below: Debug {
    fn handle_datagram(&self, now: Time, endpoint: &mut Endpoint, route: &Route, datagram: &[u8]);

    fn poll_transmit(
        &self,
        now: Time,
        endpoint: &mut Endpoint,
        out: &mut Vec<u8>,
    ) -> Option<Transmit>;

    fn poll_event(&self, now: Time, endpoint: &mut Endpoint) -> Option<(AssociationId, Event)>;

    fn poll_timeout(&self, endpoint: &Endpoint) -> Option<Time>;

    fn handle_timeout(&self, now: Time, endpoint: &mut Endpoint);
}

impl<F: SessionFactory> Below for RefCell<SessionLayer<F>> {
    fn handle_datagram(&self, now: Time, endpoint: &mut Endpoint, route: &Route, datagram: &[u8]) {
        self.borrow_mut()
            .handle_datagram(now, endpoint, route, datagram);
    }

    fn poll_transmit(
        &self,
        now: Time,
        endpoint: &mut Endpoint,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.borrow_mut().poll_transmit(now, endpoint, out)
    }

    fn poll_event(&self, now: Time, endpoint: &mut Endpoint) -> Option<(AssociationId, Event)> {
        self.borrow_mut().poll_event(now, endpoint)
    }

    fn poll_timeout(&self, endpoint: &Endpoint) -> Option<Time> {
        self.borrow().poll_timeout(endpoint)
    }

    fn handle_timeout(&self, now: Time, endpoint: &mut Endpoint) {
        self.borrow_mut().handle_timeout(now, endpoint);
    }
}
