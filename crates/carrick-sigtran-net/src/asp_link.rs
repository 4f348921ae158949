//! Association of an ASP with one gateway: set-up with back-off, and the requests that bring the ASP to ASP-ACTIVE.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick::{Association, ConnectOptions, Endpoint};
use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::{Asp, AspConfig, AspConfigError, AspIndication, AspState};
use carrick_sigtran::m3ua::route::{Availability, DestinationEvent, DestinationTable};
use carrick_sigtran::m3ua::{
    AffectedPointCode, DestinationState, PORT, RoutingContext, SctpNotification,
};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::association::{AssociationId, Input};

/// Maximum number of destinations and ranges that a gateway reports; further ones count as available.
const MAX_DESTINATIONS: usize = 16_384;

/// Gateway to which an ASP connects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteGateway {
    /// Name in events.
    pub name: String,
    /// Addresses, the first one is tried first.
    pub addresses: Vec<IpAddr>,
    /// SCTP port.
    pub port: u16,
    /// UDP port of the encapsulation; that of the endpoint if absent.
    pub udp_port: Option<u16>,
    /// Time until the second attempt of a set-up, 500 ms by default. It doubles with each further one.
    pub min_backoff: Duration,
    /// Longest time between attempts, 30 s by default.
    pub max_backoff: Duration,
}

impl RemoteGateway {
    /// Gateway with these addresses, on port 2905.
    pub fn new(name: impl Into<String>, addresses: Vec<IpAddr>) -> Self {
        Self {
            name: name.into(),
            addresses,
            port: PORT,
            udp_port: None,
            min_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(30),
        }
    }
}

/// Key of a link, unique in a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LinkKey(pub(crate) u32);

/// Result of a set-up.
pub(crate) type Connected = Result<Association, String>;

enum Connection {
    Idle,
    Connecting(AbortHandle),
    Open(AssociationId),
}

/// Link to a gateway: association and state machine.
pub(crate) struct AspLink {
    pub(crate) gateway: RemoteGateway,
    pub(crate) name: Arc<str>,
    pub(crate) asp: Asp,
    /// Status of destinations, as the gateway reports it.
    destinations: DestinationTable,
    connection: Connection,
    /// Time before the next attempt.
    backoff: Duration,
    /// Time of the next set-up, ASP Up or ASP Active.
    retry: Option<Time>,
    /// ASP Active is to be requested when the ASP is up. Afterwards the state machine returns to ASP-ACTIVE itself, but
    /// not where another ASP has taken over.
    activates: bool,
    /// The link is being ended.
    stopping: bool,
}

impl Drop for AspLink {
    fn drop(&mut self) {
        if let Connection::Connecting(task) = &self.connection {
            task.abort();
        }
    }
}

impl AspLink {
    pub(crate) fn new(gateway: RemoteGateway, config: AspConfig) -> Result<Self, AspConfigError> {
        let mut destinations = DestinationTable::new(MAX_DESTINATIONS);
        destinations.set_default(Some(Availability::Available));
        Ok(Self {
            name: gateway.name.as_str().into(),
            asp: Asp::new(config)?,
            destinations,
            connection: Connection::Idle,
            backoff: gateway.min_backoff,
            retry: None,
            activates: true,
            stopping: false,
            gateway,
        })
    }

    pub(crate) fn association(&self) -> Option<AssociationId> {
        match self.connection {
            Connection::Open(id) => Some(id),
            Connection::Idle | Connection::Connecting(_) => None,
        }
    }

    /// Returns whether the ASP is active in an application server.
    pub(crate) fn is_active(&self, context: Option<RoutingContext>) -> bool {
        self.asp.state(context) == Some(AspState::Active)
    }

    /// Returns whether messages of an application server may be sent to a destination, or to a range as a whole.
    pub(crate) fn reaches(
        &self,
        context: Option<RoutingContext>,
        destination: AffectedPointCode,
    ) -> bool {
        let status = self.destinations.status_of(destination);
        self.is_active(context)
            && status.is_some_and(|status| status.availability != Availability::Unavailable)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Begins to set up the association.
    pub(crate) fn connect(
        &mut self,
        key: LinkKey,
        endpoint: &Endpoint,
        inputs: &mpsc::Sender<Input>,
    ) {
        let (endpoint, inputs) = (endpoint.clone(), inputs.clone());
        let peer = (self.gateway.addresses.clone(), self.gateway.port);
        let mut options = ConnectOptions::new();
        if let Some(port) = self.gateway.udp_port {
            options = options.encapsulation_port(port);
        }
        let connecting = tokio::spawn(async move {
            let connected = endpoint.connect_with(peer, options).await;
            let connected = connected.map_err(|error| error.to_string());
            // If the receiver is dropped, the program ends.
            let _ = inputs.send(Input::Connected(key, connected)).await;
        });
        self.connection = Connection::Connecting(connecting.abort_handle());
    }

    /// The association is established: requests ASP Up.
    pub(crate) fn on_connected(&mut self, now: Time, id: AssociationId, outbound_streams: u16) {
        self.connection = Connection::Open(id);
        self.retry = None;
        self.destinations.clear();
        let up = SctpNotification::Up { outbound_streams };
        self.asp.handle_sctp(now, up);
        // The association is up; the request is not repeated if it is outstanding already.
        let _ = self.asp.asp_up(now);
    }

    /// No association, or it has ended: schedules the next attempt. Returns the time until then.
    pub(crate) fn on_disconnected(&mut self, now: Time) -> Duration {
        self.connection = Connection::Idle;
        self.destinations.clear();
        self.asp.handle_sctp(now, SctpNotification::Down);
        self.schedule(now)
    }

    /// Reacts to a primitive of the state machine: activates the ASP when it is up, and schedules another attempt after
    /// a failure.
    pub(crate) fn on_indication(&mut self, now: Time, indication: &AspIndication) {
        let affected = |state: &DestinationState| state.affected.clone();
        let event = match indication {
            AspIndication::MtpPause(state) => Some(DestinationEvent::Unavailable(affected(state))),
            AspIndication::MtpResume(state) => Some(DestinationEvent::Available(affected(state))),
            AspIndication::Restricted(state) => Some(DestinationEvent::Restricted(affected(state))),
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
        if self.stopping {
            return;
        }
        match indication {
            AspIndication::AspUp(Ok(())) if self.activates => self.activate(now),
            AspIndication::AspStatus(_, AspState::Active) => {
                self.backoff = self.gateway.min_backoff;
            }
            AspIndication::AspUp(Err(_)) | AspIndication::AspActive(_, Err(_))
                if self.association().is_some() =>
            {
                self.activates = true;
                self.schedule(now);
            }
            _ => {}
        }
    }

    fn schedule(&mut self, now: Time) -> Duration {
        let wait = self.backoff;
        self.retry = Some(now + wait);
        self.backoff = (wait * 2).min(self.gateway.max_backoff);
        wait
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let retry = self.retry.filter(|_| !self.stopping);
        retry.into_iter().chain(self.asp.poll_timeout()).min()
    }

    /// Handles the timers. Returns whether an association is to be set up.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        self.asp.handle_timeout(now);
        if self.stopping || self.retry.is_none_or(|retry| retry > now) {
            return false;
        }
        self.retry = None;
        if matches!(self.connection, Connection::Idle) {
            return true;
        }
        if self.asp.is_up() {
            self.activate(now);
        } else {
            // The association is up.
            let _ = self.asp.asp_up(now);
        }
        false
    }

    /// Requests ASP Active in all application servers.
    fn activate(&mut self, now: Time) {
        self.activates = false;
        // The ASP is up; a request that is outstanding is not repeated.
        let _ = self.asp.asp_active(now, &[]);
    }

    /// Begins the end of the link: ASP Inactive, then ASP Down. Returns whether there is nothing to wait for.
    pub(crate) fn stop(&mut self, now: Time) -> bool {
        self.stopping = true;
        if let Connection::Connecting(task) = &self.connection {
            task.abort();
            self.connection = Connection::Idle;
        }
        self.continue_stop(now)
    }

    /// Requests what is due next while the link ends. Returns whether the association is to be shut down.
    pub(crate) fn continue_stop(&mut self, now: Time) -> bool {
        let contexts: Vec<_> = self.asp.routing_contexts().collect();
        if !self.asp.is_up() {
            return true;
        }
        // Repeats no request that is outstanding.
        if contexts.iter().any(|context| self.is_active(*context)) {
            let _ = self.asp.asp_inactive(now, &[]);
        } else {
            let _ = self.asp.asp_down(now);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use carrick_sigtran::m3ua::asp::AspApplicationServer;
    use carrick_sigtran::m3ua::{
        AffectedPointCodes, AspActive, AspInactive, AspUp, Message, PointCode,
    };

    use super::*;

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
        assert!(!link.reaches(CONTEXT, destination(8)), "not active");
        receive(&mut link, &active);
        assert!(link.reaches(CONTEXT, destination(8)));
        assert!(!link.reaches(CONTEXT, destination(7)));
        receive(&mut link, &Message::AspInactiveAck(AspInactive::default()));
        receive(&mut link, &active);
        assert!(link.reaches(CONTEXT, destination(7)));
    }
}
