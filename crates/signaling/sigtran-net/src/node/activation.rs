//! Requests that bring an ASP to ASP-ACTIVE and keep it there.

use std::collections::BTreeMap;

use carrick_proto::Time;
use carrick_sigtran::aspm::asp::{Asp, AspEvent, AspState};

use crate::connection::PeerConnection;
use crate::layer::SocketLayer;

/// Requests of an ASP, which it repeats after failures, towards one peer.
pub(crate) struct AspRequester<L: SocketLayer> {
    /// ASP Up is requested.
    requests_up: bool,
    /// ASP Active is requested.
    requests_active: bool,
    /// ASP Active is to be requested when the ASP is up. Afterwards the state machine returns to ASP-ACTIVE itself, but
    /// not where another ASP has taken over.
    activates: bool,
    /// Application servers by registration: identifier of each key.
    registered: BTreeMap<u32, L::AsId>,
    /// The ASP is being ended.
    stopping: bool,
}

impl<L: SocketLayer> AspRequester<L> {
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
    pub(crate) fn on_connected(&mut self, now: Time, asp: &mut Asp<L>) {
        self.registered.clear();
        if self.requests_up {
            // The association is up; the request is not repeated if it is outstanding already.
            let _ = asp.asp_up(now);
        }
    }

    /// Reacts to a primitive of the state machine: registers routing keys and activates the ASP when it is up, and
    /// schedules another attempt after a failure.
    pub(crate) fn on_event(
        &mut self,
        now: Time,
        asp: &mut Asp<L>,
        connection: &mut PeerConnection,
        event: &AspEvent<L>,
    ) {
        if let AspEvent::Deregistered(id, _) = event {
            // Without success the ASP Down that follows ends the registration.
            self.registered.retain(|_, registered| registered != id);
        }
        if self.stopping {
            return;
        }
        match event {
            AspEvent::AspUp(Ok(())) if !connection.peer.routing_keys.is_empty() => {
                // Registrations end with ASP-DOWN.
                self.registered.clear();
                self.activate(now, asp, connection);
            }
            AspEvent::Registered(key, Ok(id)) => {
                self.registered.insert(*key, id.clone());
                // The ASP serves the application server since.
                let _ = asp.asp_active(now, std::slice::from_ref(id));
            }
            AspEvent::Registered(_, Err(_)) => {
                connection.schedule(now);
            }
            // ASP-INACTIVE may follow the peer's ASP Up.
            AspEvent::AspUp(Ok(())) | AspEvent::AspStatus(_, AspState::Inactive)
                if self.activates && asp.is_up() =>
            {
                self.activate(now, asp, connection);
            }
            AspEvent::AspStatus(_, AspState::Active) => connection.reset_backoff(),
            AspEvent::AspUp(Err(_)) | AspEvent::AspActive(_, Err(_))
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
        asp: &mut Asp<L>,
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
    fn activate(&mut self, now: Time, asp: &mut Asp<L>, connection: &PeerConnection) {
        self.activates = false;
        let keys = connection.peer.routing_keys.iter();
        let keys = keys.filter(|key| !self.registered.contains_key(&key.local_id.0));
        let keys: Vec<_> = keys.cloned().collect();
        if !keys.is_empty() {
            L::register(asp, now, keys);
        }
        if asp.application_servers().next().is_some() {
            // The ASP is up; a request that is outstanding is not repeated.
            let _ = asp.asp_active(now, &[]);
        }
    }

    /// Begins the end: ASP Inactive, then ASP Down. Returns whether there is nothing to wait for.
    pub(crate) fn stop(
        &mut self,
        now: Time,
        asp: &mut Asp<L>,
        connection: &mut PeerConnection,
    ) -> bool {
        self.stopping = true;
        connection.cancel();
        self.continue_stop(now, asp)
    }

    /// Requests what is due next during the end: ASP Inactive, deregistration, ASP Down. Returns whether the association
    /// is to be shut down.
    pub(crate) fn continue_stop(&self, now: Time, asp: &mut Asp<L>) -> bool {
        if !asp.is_up() {
            return true;
        }
        let mut servers = asp.application_servers();
        let is_active = servers.any(|id| asp.state(id) == Some(AspState::Active));
        drop(servers);
        // Repeats no request that is outstanding.
        if is_active {
            let _ = asp.asp_inactive(now, &[]);
        } else if !self.registered.is_empty() {
            L::deregister(asp, now, self.registered.values().cloned().collect());
        } else {
            let _ = asp.asp_down(now);
        }
        false
    }
}
