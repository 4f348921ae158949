//! Requests that bring an ASP to ASP-ACTIVE and keep it there.

use std::collections::BTreeMap;

use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::{Asp, AspIndication, AspState};
use carrick_sigtran::m3ua::{LocalRoutingKeyIdentifier, RoutingContext, RoutingContexts};

use crate::connection::PeerConnection;

/// Requests of an ASP, which it repeats after failures, towards one peer.
pub(crate) struct AspRequester {
    /// ASP Up is requested.
    requests_up: bool,
    /// ASP Active is requested.
    requests_active: bool,
    /// ASP Active is to be requested when the ASP is up. Afterwards the state machine returns to ASP-ACTIVE itself, but
    /// not where another ASP has taken over.
    activates: bool,
    /// Application servers by registration: routing context of each key.
    registered: BTreeMap<LocalRoutingKeyIdentifier, RoutingContext>,
    /// The ASP is being ended.
    stopping: bool,
}

impl AspRequester {
    /// Requests of an ASP; an IPSP with single exchange may leave them to its peer.
    pub(crate) const fn new(requests_up: bool, requests_active: bool) -> Self {
        Self {
            requests_up,
            requests_active,
            activates: requests_active,
            registered: BTreeMap::new(),
            stopping: false,
        }
    }

    pub(crate) const fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Requests ASP Active again, after a peer's ASP Down has ended what was requested before.
    pub(crate) const fn reactivate(&mut self) {
        self.activates = self.requests_active;
    }

    /// The association is up: requests ASP Up.
    pub(crate) fn on_connected(&mut self, now: Time, asp: &mut Asp) {
        self.registered.clear();
        if self.requests_up {
            // The association is up; the request is not repeated if it is outstanding already.
            let _ = asp.asp_up(now);
        }
    }

    /// Reacts to a primitive of the state machine: registers routing keys and activates the ASP when it is up, and
    /// schedules another attempt after a failure.
    pub(crate) fn on_indication(
        &mut self,
        now: Time,
        asp: &mut Asp,
        connection: &mut PeerConnection,
        indication: &AspIndication,
    ) {
        if let AspIndication::Deregistered(result) = indication {
            // Without success the ASP Down that follows ends the registration.
            self.registered
                .retain(|_, context| *context != result.routing_context);
        }
        if self.stopping {
            return;
        }
        match indication {
            AspIndication::AspUp(Ok(())) if !connection.peer.routing_keys.is_empty() => {
                // Registrations end with ASP-DOWN.
                self.registered.clear();
                self.activate(now, asp, connection);
            }
            AspIndication::Registered(key, Ok(context)) => {
                self.registered.insert(*key, *context);
                // The ASP serves the application server since.
                let _ = asp.asp_active(now, &[*context]);
            }
            AspIndication::Registered(_, Err(_)) => {
                connection.schedule(now);
            }
            // ASP-INACTIVE may follow the peer's ASP Up.
            AspIndication::AspUp(Ok(())) | AspIndication::AspStatus(_, AspState::Inactive)
                if self.activates && asp.is_up() =>
            {
                self.activate(now, asp, connection);
            }
            AspIndication::AspStatus(_, AspState::Active) => connection.reset_backoff(),
            AspIndication::AspUp(Err(_)) | AspIndication::AspActive(_, Err(_))
                if connection.association().is_some() =>
            {
                self.reactivate();
                connection.schedule(now);
            }
            _ => {}
        }
    }

    /// Handles a scheduled attempt. Returns whether an association is to be set up.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Time,
        asp: &mut Asp,
        connection: &mut PeerConnection,
    ) -> bool {
        if self.stopping || !connection.is_due(now) {
            return false;
        }
        if connection.is_idle() {
            return true;
        }
        if !asp.is_up() {
            self.on_connected(now, asp);
        } else if self.requests_active {
            self.activate(now, asp, connection);
        }
        false
    }

    /// Registers the routing keys that are not registered, and requests ASP Active in all application servers.
    fn activate(&mut self, now: Time, asp: &mut Asp, connection: &PeerConnection) {
        self.activates = false;
        let keys = connection.peer.routing_keys.iter();
        let keys = keys.filter(|key| !self.registered.contains_key(&key.local_id));
        let keys: Vec<_> = keys.cloned().collect();
        // The ASP is up; requests that are outstanding are not repeated.
        if !keys.is_empty() {
            let _ = asp.register(now, keys);
        }
        if asp.routing_contexts().next().is_some() {
            let _ = asp.asp_active(now, &[]);
        }
    }

    /// Begins the end: ASP Inactive, then ASP Down. Returns whether there is nothing to wait for.
    pub(crate) fn stop(
        &mut self,
        now: Time,
        asp: &mut Asp,
        connection: &mut PeerConnection,
    ) -> bool {
        self.stopping = true;
        connection.cancel();
        self.continue_stop(now, asp)
    }

    /// Requests what is due next during the end: ASP Inactive, deregistration, ASP Down. Returns whether the association
    /// is to be shut down.
    pub(crate) fn continue_stop(&self, now: Time, asp: &mut Asp) -> bool {
        if !asp.is_up() {
            return true;
        }
        let mut contexts = asp.routing_contexts();
        let is_active = contexts.any(|context| asp.state(context) == Some(AspState::Active));
        drop(contexts);
        let registered = RoutingContexts::new(self.registered.values().copied());
        // Repeats no request that is outstanding.
        if is_active {
            let _ = asp.asp_inactive(now, &[]);
        } else if let Some(registered) = registered {
            let _ = asp.deregister(now, registered);
        } else {
            let _ = asp.asp_down(now);
        }
        false
    }
}
