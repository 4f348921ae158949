//! Requests that bring an ASP to ASP-ACTIVE, and its link to a gateway.

use std::collections::BTreeMap;

use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::{Asp, AspConfig, AspConfigError, AspIndication, AspState};
use carrick_sigtran::m3ua::route::{Availability, DestinationEvent, DestinationTable};
use carrick_sigtran::m3ua::{
    AffectedPointCode, DestinationState, LocalRoutingKeyIdentifier, RoutingContext,
    RoutingContexts, SctpNotification,
};

use crate::association::AssociationId;
use crate::connection::{PeerConnection, RemoteGateway};

/// Maximum number of destinations and ranges that a gateway reports; further ones count as available.
const MAX_DESTINATIONS: usize = 16_384;

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

/// Link to a gateway: connection, state machine and the destinations that the gateway reports.
pub(crate) struct AspLink {
    pub(crate) connection: PeerConnection,
    pub(crate) asp: Asp,
    requester: AspRequester,
    destinations: DestinationTable,
}

impl AspLink {
    pub(crate) fn new(gateway: RemoteGateway, config: AspConfig) -> Result<Self, AspConfigError> {
        let mut destinations = DestinationTable::new(MAX_DESTINATIONS);
        destinations.set_default(Some(Availability::Available));
        Ok(Self {
            connection: PeerConnection::new(gateway, true),
            asp: Asp::new(config)?,
            requester: AspRequester::new(true, true),
            destinations,
        })
    }

    /// Returns the routing context of a message's application server; without one, that of the only application server.
    pub(crate) fn resolve(&self, context: Option<RoutingContext>) -> Option<RoutingContext> {
        let mut contexts = self.asp.routing_contexts();
        match (context, contexts.next(), contexts.next()) {
            (None, Some(only), None) => only,
            _ => context,
        }
    }

    /// Returns whether the ASP is active in an application server.
    pub(crate) fn is_active(&self, context: Option<RoutingContext>) -> bool {
        self.asp.state(self.resolve(context)) == Some(AspState::Active)
    }

    /// Returns the availability of a destination, or of a range as a whole, for messages of an application server.
    pub(crate) fn availability(
        &self,
        context: Option<RoutingContext>,
        destination: AffectedPointCode,
    ) -> Availability {
        let status = self.destinations.status_of(destination);
        status
            .filter(|_| self.is_active(context))
            .map_or(Availability::Unavailable, |status| status.availability)
    }

    pub(crate) const fn is_stopping(&self) -> bool {
        self.requester.is_stopping()
    }

    /// The association is established: requests ASP Up.
    pub(crate) fn on_connected(&mut self, now: Time, id: AssociationId, outbound_streams: u16) {
        self.connection.on_opened(id);
        self.destinations.clear();
        let up = SctpNotification::Up { outbound_streams };
        self.asp.handle_sctp(now, up);
        self.requester.on_connected(now, &mut self.asp);
    }

    /// No association, or it has ended.
    pub(crate) fn on_disconnected(&mut self, now: Time) {
        self.destinations.clear();
        self.asp.handle_sctp(now, SctpNotification::Down);
    }

    /// Reacts to a primitive of the state machine: records destinations, and requests what is due.
    pub(crate) fn on_indication(&mut self, now: Time, indication: &AspIndication) {
        let affected = |state: &DestinationState| state.affected.clone();
        let event = match indication {
            AspIndication::MtpPause(state) => Some(DestinationEvent::Unavailable(affected(state))),
            AspIndication::MtpResume(state) => Some(DestinationEvent::Available(affected(state))),
            AspIndication::Restricted(state) => Some(DestinationEvent::Restricted(affected(state))),
            AspIndication::Congestion(state) => Some(DestinationEvent::Congested(
                state.affected.clone(),
                state.level,
            )),
            // The gateway reports what is not available before its ASP Active Ack (section 4.5.1), so that this clears nothing.
            AspIndication::AspStatus(_, AspState::Inactive | AspState::Down) => {
                self.destinations.clear();
                None
            }
            _ => None,
        };
        if let Some(event) = event {
            // What has no room counts as available.
            let _ = self.destinations.record(&event);
        }
        let (asp, connection) = (&mut self.asp, &mut self.connection);
        self.requester
            .on_indication(now, asp, connection, indication);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let retry = self.connection.poll_timeout();
        let retry = retry.filter(|_| !self.is_stopping());
        retry.into_iter().chain(self.asp.poll_timeout()).min()
    }

    /// Handles the timers. Returns whether an association is to be set up.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        self.asp.handle_timeout(now);
        let (asp, connection) = (&mut self.asp, &mut self.connection);
        self.requester.handle_timeout(now, asp, connection)
    }

    /// Begins the end of the link: ASP Inactive, then ASP Down. Returns whether there is nothing to wait for.
    pub(crate) fn stop(&mut self, now: Time) -> bool {
        let (asp, connection) = (&mut self.asp, &mut self.connection);
        self.requester.stop(now, asp, connection)
    }

    /// Requests what is due next while the link ends. Returns whether the association is to be shut down.
    pub(crate) fn continue_stop(&mut self, now: Time) -> bool {
        self.requester.continue_stop(now, &mut self.asp)
    }
}

#[cfg(test)]
mod tests {
    use carrick_sigtran::m3ua::asp::AspApplicationServer;
    use carrick_sigtran::m3ua::{
        AffectedPointCodes, AspActive, AspInactive, AspUp, Message, PointCode,
    };

    use super::*;
    use crate::RemoteGateway;

    const CONTEXT: Option<RoutingContext> = Some(RoutingContext(1));

    fn receive(link: &mut AspLink, message: &Message) {
        link.asp.handle_message(Time::ZERO, 0, message);
        while let Some(indication) = link.asp.poll_indication() {
            link.on_indication(Time::ZERO, &indication);
        }
    }

    fn destination(code: u32) -> AffectedPointCode {
        AffectedPointCode::single(PointCode::new(code).unwrap())
    }

    fn unavailable(code: u32) -> Message {
        Message::DestinationUnavailable(DestinationState {
            network_appearance: None,
            routing_contexts: None,
            affected: AffectedPointCodes(vec![destination(code)]),
            info: None,
        })
    }

    /// RFC 4666, section 4.5.1: a gateway reports what is unavailable before its ASP Active Ack.
    #[test]
    fn reports_before_the_active_ack_count() {
        let config = AspConfig {
            application_servers: vec![AspApplicationServer::new(RoutingContext(1))],
            ..AspConfig::default()
        };
        let gateway = RemoteGateway::new("g", vec![[127, 0, 0, 1].into()]);
        let mut link = AspLink::new(gateway, config).unwrap();
        link.on_connected(Time::ZERO, AssociationId(1), 2);
        let [up, active] = [
            Message::AspUpAck(AspUp::default()),
            Message::AspActiveAck(AspActive::default()),
        ];
        receive(&mut link, &up);
        receive(&mut link, &unavailable(7));
        let reaches = |link: &AspLink, code| {
            link.availability(CONTEXT, destination(code)) != Availability::Unavailable
        };
        assert!(!reaches(&link, 8), "not active");
        receive(&mut link, &active);
        assert!(reaches(&link, 8));
        assert!(!reaches(&link, 7));
        receive(&mut link, &Message::AspInactiveAck(AspInactive::default()));
        receive(&mut link, &active);
        assert!(reaches(&link, 7));
    }
}
