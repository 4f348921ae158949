//! Application server process: the ASP's side of an association with an SGP (RFC 3868, section 4.3).
//!
//! States and requests are those of [`aspm::asp`](crate::aspm::asp); here is the service for the SCCP user: traffic, registration of
//! routing keys, and the state of SS7 destinations. [`RouteTable`](crate::m3ua::route::RouteTable) derives the state over
//! several gateways from the indications, and has their audits.

use carrick_proto::Time;

use super::{
    AffectedPointCodes, AspCapabilities, DestinationStateAudit, ErrorCode, Labels, Message,
    NetworkAppearance, RegistrationRequest, RoutingContext, RoutingContexts, RoutingKey, Sua,
    SubsystemNumber, TrafficMode, traffic,
};
use crate::aspm::asp::{self, AspEvent};
use crate::m3ua;
use crate::m3ua::route::{DestinationEvent, RouteInput};

pub use crate::aspm::asp::{AspState, RequestFailure};

/// Application server process on its association with an SGP.
pub type Asp = asp::Asp<Sua>;
/// Configuration of an [`Asp`].
pub type AspConfig = asp::AspConfig<Sua>;
/// Configuration that is contradictory. The fault is the caller's.
pub type AspConfigError = asp::AspConfigError<RoutingContext>;
/// Request that is not possible in the current state. The fault is the caller's.
pub type AspRequestError = asp::AspRequestError<RoutingContext>;

/// Application server that an ASP serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AspApplicationServer {
    /// Routing context.
    pub routing_context: RoutingContext,
    /// Traffic mode of ASP Active messages; the SGP's configuration applies if absent.
    pub traffic_mode: Option<TrafficMode>,
    /// Network, for the state of destinations.
    pub network_appearance: Option<NetworkAppearance>,
    /// Labels of the ASP, if the application server shares the load by them.
    pub labels: Labels,
}

impl AspApplicationServer {
    /// Application server with a routing context.
    pub const fn new(routing_context: RoutingContext) -> Self {
        Self {
            routing_context,
            traffic_mode: None,
            network_appearance: None,
            labels: Labels {
                tid: None,
                drn: None,
            },
        }
    }
}

/// Primitive of an ASP to layer management or the SCCP user (RFC 3868, sections 1.6 and 4.5.2).
#[derive(Clone, PartialEq, Debug)]
pub enum AspIndication {
    /// Primitive to layer management.
    Asp(AspEvent<Sua>),
    /// N-STATE or N-PCSTATE indication: DUNA, DAVA, DRST, SCON or DUPU.
    State(Box<Message>),
    /// Connectionless or connection-oriented message in an application server.
    Traffic(RoutingContext, Box<Message>),
}

impl From<AspEvent<Sua>> for AspIndication {
    fn from(event: AspEvent<Sua>) -> Self {
        Self::Asp(event)
    }
}

impl AspEvent<Sua> {
    /// Returns what the event means to the routes through the gateway.
    pub(super) fn route_input(&self) -> Option<RouteInput> {
        match self {
            Self::AspStatus(context, state) => Some(RouteInput::State(*context, *state)),
            _ => None,
        }
    }
}

/// Returns what a report of a gateway means to the routes. The state of a subsystem is not that of its signalling point.
pub(super) fn route_input(message: &Message) -> Option<RouteInput> {
    let (contexts, event) = match message {
        Message::DestinationUnavailable(body) if body.ssn.is_none() => {
            let event = DestinationEvent::Unavailable(body.affected.clone());
            (&body.routing_contexts, event)
        }
        Message::DestinationAvailable(body) if body.ssn.is_none() => {
            let event = DestinationEvent::Available(body.affected.clone());
            (&body.routing_contexts, event)
        }
        Message::DestinationRestricted(body) if body.ssn.is_none() => {
            let event = DestinationEvent::Restricted(body.affected.clone());
            (&body.routing_contexts, event)
        }
        Message::SignallingCongestion(body) if body.ssn.is_none() => {
            let level = m3ua::CongestionLevel::new(body.level.value());
            let event = DestinationEvent::Congested(body.affected.clone(), level);
            (&body.routing_contexts, event)
        }
        Message::UserPartUnavailable(body) => {
            let user_cause = m3ua::UserCause {
                cause: body.user_cause.cause,
                user: body.user_cause.user,
            };
            let event = DestinationEvent::UserPartUnavailable(body.affected.0, user_cause);
            (&body.routing_contexts, event)
        }
        _ => return None,
    };
    Some(RouteInput::Report(None, contexts.clone(), event))
}

impl Asp {
    /// Requests registrations of routing keys. A confirm follows for each key; after a success the ASP serves the
    /// application server in ASP-INACTIVE, with these labels. Without a response each fails after all transmissions of
    /// T(ack); it is not sent again.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN, an identifier is in use or the limit is reached; nothing is
    /// requested then.
    pub fn register(
        &mut self,
        now: Time,
        routing_keys: Vec<RoutingKey>,
        capabilities: Option<AspCapabilities>,
        labels: Labels,
    ) -> Result<(), AspRequestError> {
        let keys = routing_keys.iter().map(|key| {
            let served = AspApplicationServer {
                traffic_mode: key.traffic_mode.map(|mode| mode.0),
                network_appearance: key.network_appearance,
                labels,
                // Replaced by that of the response.
                ..AspApplicationServer::new(RoutingContext(0))
            };
            (key.local_id.0, served)
        });
        let keys = keys.collect();
        let request = RegistrationRequest {
            routing_keys,
            capabilities,
        };
        self.request_registration(now, keys, Message::RegistrationRequest(request))
    }

    /// Sends a connectionless or connection-oriented message in the application server of its routing context.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is not active there, the message is no such message, or there is no stream for it.
    pub fn transfer(&mut self, message: Message) -> Result<(), AspRequestError> {
        self.active(message.routing_context())?;
        self.send_traffic(traffic::flow(&message), message)
    }

    /// Sends a DAUD: audits signalling points, or a subsystem at them (RFC 3868, section 4.5.3).
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is not active in the application server.
    pub fn audit(
        &mut self,
        context: RoutingContext,
        affected: AffectedPointCodes,
        ssn: Option<SubsystemNumber>,
    ) -> Result<(), AspRequestError> {
        self.active(Some(context))?;
        self.send(Message::DestinationStateAudit(DestinationStateAudit {
            routing_contexts: RoutingContexts::new([context]),
            affected,
            ssn,
            user_cause: None,
            info: None,
        }));
        Ok(())
    }

    /// Handles a message of the SGP that is not for maintenance.
    pub(super) fn on_user_message(&mut self, stream: u16, message: &Message) {
        match message {
            Message::RegistrationResponse(body) if self.is_up() => {
                for result in &body.results {
                    let (local_id, context) = (result.local_id.0, result.routing_context);
                    self.on_registration(local_id, result.status.0, context, false);
                }
            }
            Message::DeregistrationResponse(body) if self.is_up() => {
                for result in &body.results {
                    self.on_deregistration(result.routing_context, result.status.0);
                }
            }
            Message::DestinationUnavailable(_)
            | Message::DestinationAvailable(_)
            | Message::DestinationRestricted(_)
            | Message::SignallingCongestion(_)
            | Message::UserPartUnavailable(_)
                if self.expects_traffic() =>
            {
                if !self.lists_unknown(message) {
                    self.indicate(AspIndication::State(Box::new(message.clone())));
                }
            }
            traffic => match traffic.routing_context() {
                Some(context) => {
                    if self.admit(stream, Some(context), message).is_some() {
                        let message = Box::new(message.clone());
                        self.indicate(AspIndication::Traffic(context, message));
                    }
                }
                None => self.refuse(ErrorCode::UNEXPECTED_MESSAGE, message),
            },
        }
    }
}
