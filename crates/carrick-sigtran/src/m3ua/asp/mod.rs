//! Application server process: the ASP's side of an association with an SGP (RFC 4666, section 4.3).
//!
//! An [`Asp`] is one association. A process that is connected to several SGPs has one for each.
//!
//! The states of section 4.3.1, for each application server, as the ASP knows them by the acknowledgements. T(ack)
//! supervises each request; it is sent again until `attempts` transmissions were made.
//!
//! ```text
//!             ASPUP Ack               ASPAC Ack
//! ASP-DOWN ───────────────> INACTIVE ───────────> ACTIVE
//!     ^  <─── ASPDN Ack ───     ^    <─ ASPIA Ack ─  │
//!     │  <─ association lost ─  └── NTFY Alternate ──┤
//!     └────────── ASPDN Ack, association lost ───────┘
//! ```

mod assume;
mod config;
mod messages;
mod requests;
mod timers;

pub(in crate::m3ua) use assume::Follows;
pub use config::{AspApplicationServer, AspConfig, AspConfigError};
pub(in crate::m3ua) use messages::invalid_appearance;
pub use requests::{AspRequestError, RequestFailure};

use std::collections::VecDeque;

use bytes::Bytes;
use carrick_proto::Time;

use super::association::{Transmit, data_stream};
use super::heartbeat_timer::HeartbeatTimer;
use super::{
    AffectedPointCode, AffectedPointCodes, AspActive, AspDown, AspInactive, AspUp, Data,
    DecodeError, DeregistrationResult, DestinationState, ErrorMessage, LocalRoutingKeyIdentifier,
    Message, NetworkAppearance, Notify, RegistrationStatus, RoutingContext, RoutingContexts,
    SctpNotification, SignallingCongestion, TrafficMode, UserPartUnavailable,
};

/// State of an ASP in an application server (RFC 4666, section 4.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AspState {
    /// ASP-DOWN: the peer is unavailable, or the association is down.
    Down,
    /// ASP-INACTIVE: the peer is available, application traffic is stopped.
    Inactive,
    /// ASP-ACTIVE: application traffic is active.
    Active,
}

/// Primitive of an ASP to layer management or the MTP3-User (RFC 4666, sections 1.6.1 and 1.6.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AspIndication {
    /// M-SCTP_STATUS indication.
    SctpStatus(SctpNotification),
    /// M-ASP_UP confirm.
    AspUp(Result<(), RequestFailure>),
    /// M-ASP_DOWN confirm.
    AspDown(Result<(), RequestFailure>),
    /// M-ASP_ACTIVE confirm of an application server.
    AspActive(Option<RoutingContext>, Result<(), RequestFailure>),
    /// M-ASP_INACTIVE confirm of an application server.
    AspInactive(Option<RoutingContext>, Result<(), RequestFailure>),
    /// M-ASP_STATUS indication: the state in an application server changed, by request or not.
    AspStatus(Option<RoutingContext>, AspState),
    /// M-RK_REG confirm; the error is the status of the response, `None` if there was no response.
    Registered(
        LocalRoutingKeyIdentifier,
        Result<RoutingContext, Option<RegistrationStatus>>,
    ),
    /// M-RK_DEREG confirm.
    Deregistered(DeregistrationResult),
    /// M-NOTIFY indication.
    Notify(Notify),
    /// M-ERROR indication: an Error message of the peer.
    Error(ErrorMessage),
    /// M-ERROR indication: a message of the peer was answered with an Error message.
    PeerError(ErrorMessage),
    /// No message was received within 2 × T(beat): the association is to be aborted.
    PeerUnresponsive,
    /// MTP-TRANSFER indication.
    Transfer(Data),
    /// MTP-PAUSE indication.
    MtpPause(DestinationState),
    /// MTP-RESUME indication.
    MtpResume(DestinationState),
    /// DRST: routes to destinations are restricted. The M3UA user resumes traffic, if it was paused.
    Restricted(DestinationState),
    /// MTP-STATUS indication: congestion.
    Congestion(SignallingCongestion),
    /// MTP-STATUS indication: user part unavailable.
    UserPartUnavailable(UserPartUnavailable),
}

/// Request that waits for its acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Outstanding<R> {
    request: R,
    /// Expiry of T(ack).
    deadline: Time,
    transmissions: u32,
}

/// ASPSM request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StateRequest {
    Up,
    Down,
}

/// ASPTM request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TrafficRequest {
    Activate,
    Deactivate,
}

/// Traffic that layer management wants; restored after a loss or an unexpected acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WantedTraffic {
    Active,
    Inactive,
    /// Active before another ASP took over: not restored, but kept if the SGP makes the ASP active again.
    Overridden,
}

/// Application server with the ASP's state in it.
#[derive(Debug)]
struct ServedApplication {
    server: AspApplicationServer,
    state: AspState,
    wanted: WantedTraffic,
    outstanding: Option<Outstanding<TrafficRequest>>,
    /// Added by registration: lost with ASP-DOWN (section 4.3.4.2).
    registered: bool,
    /// Expiry of the wait for a deregistration response.
    deregistration: Option<Time>,
}

/// Registration that waits for its result.
#[derive(Debug)]
struct PendingRegistration {
    local_id: LocalRoutingKeyIdentifier,
    traffic_mode: Option<TrafficMode>,
    network_appearance: Option<NetworkAppearance>,
    deadline: Time,
}

/// Application server process on its association with an SGP.
///
/// Inputs are [`handle_sctp`](Self::handle_sctp), [`handle_message`](Self::handle_message),
/// [`handle_malformed`](Self::handle_malformed), [`handle_timeout`](Self::handle_timeout) and the requests. After
/// each input drain [`poll_transmit`](Self::poll_transmit) and [`poll_indication`](Self::poll_indication), and call
/// `handle_timeout` at [`poll_timeout`](Self::poll_timeout). An input adds a bounded number of outputs.
#[derive(Debug)]
pub struct Asp {
    config: AspConfig,
    /// Outbound streams of the association, `None` while it is down.
    outbound_streams: Option<u16>,
    /// ASP-INACTIVE or ASP-ACTIVE: the SGP has acknowledged the ASP Up.
    up: bool,
    /// Layer management wants the ASP to be up; restored after a loss.
    wanted: bool,
    outstanding: Option<Outstanding<StateRequest>>,
    /// Requests of the peer that change this side's states, too.
    follows: Follows,
    servers: Vec<ServedApplication>,
    registrations: Vec<PendingRegistration>,
    heartbeat: HeartbeatTimer,
    transmits: VecDeque<Transmit>,
    indications: VecDeque<AspIndication>,
}

impl Asp {
    /// ASP in state ASP-DOWN, without an association.
    ///
    /// # Errors
    /// [`AspConfigError`] if the application servers are contradictory.
    pub fn new(config: AspConfig) -> Result<Self, AspConfigError> {
        config.check()?;
        let servers = config.application_servers.iter();
        Ok(Self {
            outbound_streams: None,
            up: false,
            wanted: false,
            outstanding: None,
            follows: Follows::default(),
            servers: servers
                .map(|server| ServedApplication::new(*server, false))
                .collect(),
            registrations: Vec::new(),
            heartbeat: HeartbeatTimer::new(config.t_beat),
            transmits: VecDeque::new(),
            indications: VecDeque::new(),
            config,
        })
    }

    /// Returns whether the SGP has acknowledged that the ASP is up.
    pub const fn is_up(&self) -> bool {
        self.up
    }

    /// Returns the state in an application server, `None` if the ASP does not serve it. This is the answer to an
    /// M-ASP_STATUS request.
    pub fn state(&self, routing_context: Option<RoutingContext>) -> Option<AspState> {
        let index = self.find(routing_context)?;
        Some(self.servers[index].state)
    }

    /// Returns the routing contexts that the ASP serves, those from registration included.
    pub fn routing_contexts(&self) -> impl Iterator<Item = Option<RoutingContext>> + '_ {
        self.servers
            .iter()
            .map(|served| served.server.routing_context)
    }

    /// Returns the network appearance of an application server, `None` if it has none or the ASP does not serve it.
    pub fn network_appearance(
        &self,
        routing_context: Option<RoutingContext>,
    ) -> Option<NetworkAppearance> {
        let index = self.find(routing_context)?;
        self.servers[index].server.network_appearance
    }

    /// Returns the traffic mode of an application server, `None` if it has none or the ASP does not serve it.
    pub fn traffic_mode(&self, routing_context: Option<RoutingContext>) -> Option<TrafficMode> {
        let index = self.find(routing_context)?;
        self.servers[index].server.traffic_mode
    }

    /// Returns the next message for the association.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// Returns the next primitive for layer management and the MTP3-User.
    pub fn poll_indication(&mut self) -> Option<AspIndication> {
        self.indications.pop_front()
    }

    /// Handles a notification of SCTP (RFC 4666, section 4.3.3). Send failures and the status of paths are only indicated
    /// to layer management (section 4.2).
    pub fn handle_sctp(&mut self, now: Time, notification: SctpNotification) {
        self.indicate(AspIndication::SctpStatus(notification));
        match notification {
            SctpNotification::Down => self.lose_association(),
            SctpNotification::SendFailure | SctpNotification::PathStatus { .. } => {}
            SctpNotification::Up { outbound_streams }
            | SctpNotification::Restarted { outbound_streams } => {
                self.lose_association();
                self.outbound_streams = Some(outbound_streams);
                self.heartbeat.start(now);
                // Recovery begins with the ASP Up procedure.
                if self.wanted {
                    self.request_state(now, StateRequest::Up);
                }
            }
        }
    }

    /// Answers a message that could not be decoded.
    pub fn handle_malformed(&mut self, now: Time, error: &DecodeError, octets: &Bytes) {
        self.heartbeat.received(now);
        if let (Some(answer), Some(_)) = (
            ErrorMessage::answering(error, octets),
            self.outbound_streams,
        ) {
            self.answer_error(answer);
        }
    }

    fn lose_association(&mut self) {
        self.outbound_streams = None;
        self.heartbeat.stop();
        self.enter_down(RequestFailure::AssociationLost);
    }

    /// Enters ASP-DOWN in all application servers; outstanding requests fail.
    fn enter_down(&mut self, failure: RequestFailure) {
        self.up = false;
        if let Some(outstanding) = self.outstanding.take() {
            self.confirm_state(outstanding.request, Err(failure));
        }
        for index in 0..self.servers.len() {
            self.fail_traffic_request(index, failure);
            let served = &self.servers[index];
            if served.state == AspState::Active {
                let pause = served.whole_network();
                self.indicate(AspIndication::MtpPause(pause));
            }
            self.set_state(index, AspState::Down);
        }
        for registration in std::mem::take(&mut self.registrations) {
            self.indicate(AspIndication::Registered(registration.local_id, Err(None)));
        }
        self.servers.retain(|served| !served.registered);
    }

    /// Enters ASP-INACTIVE in all application servers.
    fn enter_inactive(&mut self) {
        self.up = true;
        for index in 0..self.servers.len() {
            self.set_state(index, AspState::Inactive);
        }
    }

    fn set_state(&mut self, index: usize, state: AspState) {
        let served = &mut self.servers[index];
        if served.state != state {
            served.state = state;
            let context = served.server.routing_context;
            self.indicate(AspIndication::AspStatus(context, state));
        }
    }

    fn find(&self, routing_context: Option<RoutingContext>) -> Option<usize> {
        let mut servers = self.servers.iter();
        servers.position(|served| served.server.routing_context == routing_context)
    }

    /// Returns the index of the application server with a routing context. The only application server may have none
    /// here; it is meant by every context then.
    fn find_implied(&self, context: RoutingContext) -> Option<usize> {
        let implied = self.servers.len() == 1;
        self.find(Some(context))
            .or_else(|| self.find(None).filter(|_| implied))
    }

    /// Returns the indexes of the application servers that a message addresses, all without a list, and the
    /// routing contexts that are not known.
    fn addressed(&self, contexts: Option<&RoutingContexts>) -> (Vec<usize>, Vec<RoutingContext>) {
        let Some(contexts) = contexts else {
            return ((0..self.servers.len()).collect(), Vec::new());
        };
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for &context in contexts.iter() {
            match self.find_implied(context) {
                Some(index) if known.contains(&index) => {}
                Some(index) => known.push(index),
                None => unknown.push(context),
            }
        }
        (known, unknown)
    }

    fn indicate(&mut self, indication: AspIndication) {
        self.indications.push_back(indication);
    }

    fn send(&mut self, message: Message) {
        self.transmits.push_back(Transmit::management(message));
    }

    /// Sends an Error message and notifies layer management.
    fn answer_error(&mut self, error: ErrorMessage) {
        self.send(Message::Error(error.clone()));
        self.indicate(AspIndication::PeerError(error));
    }
}

impl ServedApplication {
    const fn new(server: AspApplicationServer, registered: bool) -> Self {
        Self {
            server,
            state: AspState::Down,
            wanted: WantedTraffic::Inactive,
            outstanding: None,
            registered,
            deregistration: None,
        }
    }

    /// All destinations, for an MTP-PAUSE when the SGP is unreachable.
    fn whole_network(&self) -> DestinationState {
        DestinationState {
            network_appearance: self.server.network_appearance,
            routing_contexts: RoutingContexts::new(self.server.routing_context),
            affected: AffectedPointCodes(vec![AffectedPointCode::ALL]),
            info: None,
        }
    }
}
