//! Signalling gateway process: the SGP's side of the associations with ASPs (RFC 3868, section 4.3).
//!
//! States are those of [`aspm::sgp`](crate::aspm::sgp); here are routing keys with the routing by addresses, traffic, and the state of
//! SS7 destinations and subsystems.

mod keys;
mod registration;
mod relay;
mod state;

pub(super) use keys::KeyIndex;
pub use relay::{NotRelayed, RelayError, Relayed};
pub(super) use state::report;

use std::collections::BTreeMap;

use carrick_proto::Time;

use super::{
    Address, AddressRange, DestinationStateAudit, ErrorCode, Message, NetworkAppearance, PointCode,
    RoutingContext, SignallingCongestion, Sua, SubsystemNumber, TrafficMode,
};
use crate::aspm::sgp::{self, DeliveryError, GatewayEvent};
use crate::aspm::{AsIds, AspState};
use crate::m3ua;
use crate::m3ua::route::GatewayRoutes;

pub(in crate::sua) use registration::divide_registration;

pub use crate::aspm::sgp::{AsState, AspKey, RegistrationPolicy};
pub use crate::m3ua::route::SgpRequestError;

/// Signalling gateway process with its application servers and ASPs.
pub type SignallingGatewayProcess = sgp::Gateway<Sua>;
/// Configuration of a [`SignallingGatewayProcess`].
pub type SgpConfig = sgp::GatewayConfig<Sua>;
/// Change of the configuration that is not possible. The fault is the caller's.
pub type SgpConfigError = sgp::GatewayConfigError<RoutingContext>;
/// ASP that may connect to an SGP.
pub type SgpAspConfig = sgp::SgpAspConfig<RoutingContext>;

/// Destinations of an application server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Destinations {
    /// Traffic that the user of the gateway assigns by the routing context alone.
    Unrouted,
    /// One address.
    Address(Address),
    /// Ranges of addresses, from the first to the last one.
    Ranges(Vec<[Address; 2]>),
}

/// Application server of an SGP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApplicationServerConfig {
    /// Routing context, unique at the SGP.
    pub routing_context: RoutingContext,
    /// Network appearance; an application server without one gets the traffic of all networks that matches no other.
    pub network_appearance: Option<NetworkAppearance>,
    /// Traffic mode; that of the first ASP Active applies if absent.
    pub traffic_mode: Option<TrafficMode>,
    /// Number n of active ASPs at which the application server becomes active, at least 1. In override mode 1 applies.
    pub minimum_asps: usize,
    /// Routing key: destination addresses of the traffic.
    pub destinations: Destinations,
}

impl ApplicationServerConfig {
    /// Application server with n = 1, in the traffic mode of its first ASP Active.
    pub const fn new(routing_context: RoutingContext, destinations: Destinations) -> Self {
        Self {
            routing_context,
            network_appearance: None,
            traffic_mode: None,
            minimum_asps: 1,
            destinations,
        }
    }

    pub(super) fn network(&self) -> Option<m3ua::NetworkAppearance> {
        self.network_appearance.map(Into::into)
    }
}

impl From<NetworkAppearance> for m3ua::NetworkAppearance {
    fn from(appearance: NetworkAppearance) -> Self {
        Self(appearance.0)
    }
}

/// Primitive of an SGP to layer management or the nodal interworking function.
#[derive(Clone, PartialEq, Debug)]
pub enum SgpIndication {
    /// Primitive to layer management.
    Gateway(GatewayEvent<Sua>),
    /// Connectionless or connection-oriented message of an ASP in an application server.
    Traffic(AspKey, RoutingContext, Box<Message>),
    /// DAUD, if the SGP keeps no route state: to be answered by [`SignallingGatewayProcess::answer_audit`].
    Audit(AspKey, DestinationStateAudit),
    /// SCON: the ASP is congested.
    Congestion(AspKey, SignallingCongestion),
    /// CLDR or COREF that answers a message of the user: it waited in AS-PENDING and was discarded (section 1.5.1). A CLDT
    /// without the return option has none.
    Returned(Box<Message>),
}

impl From<GatewayEvent<Sua>> for SgpIndication {
    fn from(event: GatewayEvent<Sua>) -> Self {
        Self::Gateway(event)
    }
}

/// Reason for which a message can't be transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransferError {
    /// No routing key matches the destination address.
    #[error("no routing key matches the destination address: translate the address, or add a key")]
    NoRoutingKey,
    /// The application server does not take the message.
    #[error(transparent)]
    Delivery(#[from] DeliveryError<RoutingContext>),
}

/// Routing keys and states of an SGP.
#[derive(Debug, Default)]
pub struct SgpUser {
    pub(super) keys: KeyIndex,
    /// Routing context that a registration was assigned last.
    last_context: u32,
    pub(super) routes: GatewayRoutes,
    /// Subsystems that were reported, of each network.
    subsystems: BTreeMap<(Option<m3ua::NetworkAppearance>, PointCode, SubsystemNumber), bool>,
}

impl SignallingGatewayProcess {
    /// Returns the application server of an address: that of the key with its subsystem number and network, or of a key
    /// without them (RFC 3868, section 1.4.2.2). An address on a global title that has no key is to be translated first.
    pub fn route(
        &self,
        network: Option<NetworkAppearance>,
        destination: &Address,
    ) -> Option<RoutingContext> {
        let default = || self.config.default_application_server;
        (self.user.keys.find(network, destination)).or_else(default)
    }

    /// Routes a CLDT, a CLDR or a CORE by its destination address, and sets its routing context. Returns that.
    ///
    /// # Errors
    /// [`TransferError`]; the message is discarded. [`super::connectionless::return_message`] returns it to its sender.
    pub fn transfer(
        &mut self,
        network: Option<NetworkAppearance>,
        message: Message,
    ) -> Result<RoutingContext, TransferError> {
        let destination = match &message {
            Message::ConnectionlessDataTransfer(body) => &body.destination,
            Message::ConnectionlessDataResponse(body) => &body.destination,
            Message::ConnectionRequest(body) => &body.destination,
            _ => return Err(TransferError::NoRoutingKey),
        };
        let context = self.route(network, &destination.0);
        let context = context.ok_or(TransferError::NoRoutingKey)?;
        self.deliver(&context, message)?;
        Ok(context)
    }

    /// Sends a connectionless or connection-oriented message to an application server. In AS-PENDING it is buffered. In load
    /// sharing, messages with a destination reference number or transaction identifier go to the ASP with their label.
    ///
    /// # Errors
    /// [`TransferError`]; the message is discarded.
    pub fn transfer_to(
        &mut self,
        context: RoutingContext,
        message: Message,
    ) -> Result<(), TransferError> {
        Ok(self.deliver(&context, message)?)
    }

    /// Handles a message of an ASP that is not for maintenance.
    pub(super) fn on_user_message(
        &mut self,
        now: Time,
        asp: AspKey,
        stream: u16,
        message: &Message,
    ) {
        let up = self.is_up(asp);
        match message {
            Message::RegistrationRequest(body) if up => {
                self.on_registration(now, asp, &body.routing_keys, message);
            }
            Message::DeregistrationRequest(body) if up => {
                let ids = AsIds::from_contexts(body.routing_contexts.clone());
                self.on_deregistration(now, asp, ids.as_ref(), message);
            }
            Message::DestinationStateAudit(audit) if up => self.on_audit(asp, audit, message),
            Message::SignallingCongestion(body) if up => {
                if self.check_listed(asp, message).is_some() {
                    self.indicate(SgpIndication::Congestion(asp, body.clone()));
                }
            }
            traffic => match traffic.routing_context() {
                Some(context) => {
                    let context = self.addressed(asp, stream, Some(context), message);
                    let active = |context: &RoutingContext| {
                        self.asp_state(asp, *context) == Some(AspState::Active)
                    };
                    if let Some(context) = context.filter(active) {
                        let message = Box::new(message.clone());
                        self.indicate(SgpIndication::Traffic(asp, context, message));
                    }
                }
                None => self.refuse(asp, ErrorCode::UNEXPECTED_MESSAGE, message),
            },
        }
    }
}

impl From<AddressRange> for Option<Destinations> {
    /// Only ranges of destinations select traffic for an application server.
    fn from(range: AddressRange) -> Self {
        match range {
            AddressRange::Source(_) => None,
            AddressRange::Destination(ranges) => Some(Destinations::Ranges(ranges)),
        }
    }
}
