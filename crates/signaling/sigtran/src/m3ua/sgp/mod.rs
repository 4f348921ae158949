//! Signalling gateway process: the SGP's side of the associations with ASPs (RFC 4666, section 4.3).
//!
//! States are those of [`aspm::sgp`](crate::aspm::sgp); here are routing keys, traffic and the SS7 destinations.

mod keys;
mod registration;
mod ssnm;
mod transfer;

pub use super::route::DestinationEvent;
pub use super::route::SgpRequestError;
pub(in crate::m3ua) use keys::KeyIndex;
pub use transfer::TransferError;

use carrick_proto::Time;

use super::route::GatewayRoutes;
use super::{
    Data, DestinationState, ErrorCode, ErrorMessage, M3ua, Message, NetworkAppearance, Notify,
    RoutingContext, RoutingKeyDestination, SctpNotification, SignallingCongestion, TrafficMode,
};
use crate::aspm::AsIds;
use crate::aspm::sgp::{self, GatewayEvent};

pub(in crate::m3ua) use registration::divide_registration;

pub use crate::aspm::sgp::{AsState, AspKey, RegistrationPolicy};

/// Signalling gateway process with its application servers and ASPs.
pub type SignallingGatewayProcess = sgp::Gateway<M3ua>;
/// Configuration of a [`SignallingGatewayProcess`].
pub type SgpConfig = sgp::GatewayConfig<M3ua>;
/// Change of the configuration that is not possible. The fault is the caller's.
pub type SgpConfigError = sgp::GatewayConfigError<RoutingContext>;
/// ASP that may connect to an SGP.
pub type SgpAspConfig = sgp::SgpAspConfig<RoutingContext>;

/// Application server of an SGP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApplicationServerConfig {
    /// Routing context, unique at the SGP.
    pub routing_context: RoutingContext,
    /// Network appearance.
    pub network_appearance: Option<NetworkAppearance>,
    /// Traffic mode; that of the first ASP Active applies if absent.
    pub traffic_mode: Option<TrafficMode>,
    /// Number n of active ASPs at which the application server becomes active, at least 1. In override mode 1
    /// applies (RFC 4666, section 4.3.2).
    pub minimum_asps: usize,
    /// Routing key: traffic of the application server.
    pub destinations: Vec<RoutingKeyDestination>,
}

impl ApplicationServerConfig {
    /// Application server with n = 1, in the traffic mode of its first ASP Active.
    pub const fn new(
        routing_context: RoutingContext,
        destinations: Vec<RoutingKeyDestination>,
    ) -> Self {
        Self {
            routing_context,
            network_appearance: None,
            traffic_mode: None,
            minimum_asps: 1,
            destinations,
        }
    }
}

/// Primitive of an SGP to layer management or the nodal interworking function (RFC 4666, sections 1.6.1 and 1.6.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SgpIndication {
    /// M-SCTP_STATUS indication.
    SctpStatus(AspKey, SctpNotification),
    /// M-ASP_UP indication.
    AspUp(AspKey),
    /// M-ASP_DOWN indication.
    AspDown(AspKey),
    /// M-ASP_ACTIVE indication of an application server.
    AspActive(AspKey, RoutingContext),
    /// M-ASP_INACTIVE indication of an application server.
    AspInactive(AspKey, RoutingContext),
    /// M-AS_ACTIVE, M-AS_INACTIVE or M-AS_DOWN indication, or that the application server is pending.
    AsStatus(RoutingContext, AsState),
    /// M-RK_REG indication.
    Registered(AspKey, RoutingContext),
    /// M-RK_DEREG indication.
    Deregistered(AspKey, RoutingContext),
    /// M-NOTIFY indication.
    Notify(AspKey, Notify),
    /// M-ERROR indication: an Error message of the peer.
    Error(AspKey, ErrorMessage),
    /// M-ERROR indication: a message of the peer was answered with an Error message.
    PeerError(AspKey, ErrorMessage),
    /// No message was received within 2 × T(beat): the association is to be aborted.
    PeerUnresponsive(AspKey),
    /// Messages that an application server buffered were discarded: T(r) expired.
    Discarded(RoutingContext, usize),
    /// MTP-TRANSFER indication: DATA of an application server.
    Transfer(AspKey, RoutingContext, Data),
    /// DAUD, if the SGP keeps no route state: to be answered by [`SignallingGatewayProcess::answer_audit`].
    Audit(AspKey, DestinationState),
    /// SCON: the ASP is congested.
    Congestion(AspKey, SignallingCongestion),
}

impl SgpIndication {
    /// Returns the ASP that the primitive concerns, `None` if it concerns an application server.
    pub const fn asp(&self) -> Option<AspKey> {
        match self {
            Self::SctpStatus(asp, _)
            | Self::AspUp(asp)
            | Self::AspDown(asp)
            | Self::AspActive(asp, _)
            | Self::AspInactive(asp, _)
            | Self::Registered(asp, _)
            | Self::Deregistered(asp, _)
            | Self::Notify(asp, _)
            | Self::Error(asp, _)
            | Self::PeerError(asp, _)
            | Self::PeerUnresponsive(asp)
            | Self::Transfer(asp, ..)
            | Self::Audit(asp, _)
            | Self::Congestion(asp, _) => Some(*asp),
            Self::AsStatus(..) | Self::Discarded(..) => None,
        }
    }
}

impl From<GatewayEvent<M3ua>> for SgpIndication {
    fn from(event: GatewayEvent<M3ua>) -> Self {
        match event {
            GatewayEvent::SctpStatus(asp, notification) => Self::SctpStatus(asp, notification),
            GatewayEvent::AspUp(asp) => Self::AspUp(asp),
            GatewayEvent::AspDown(asp) => Self::AspDown(asp),
            GatewayEvent::AspActive(asp, context) => Self::AspActive(asp, context),
            GatewayEvent::AspInactive(asp, context) => Self::AspInactive(asp, context),
            GatewayEvent::AsStatus(context, state) => Self::AsStatus(context, state),
            GatewayEvent::Registered(asp, context) => Self::Registered(asp, context),
            GatewayEvent::Deregistered(asp, context) => Self::Deregistered(asp, context),
            GatewayEvent::Notify(asp, notify) => Self::Notify(asp, notify),
            GatewayEvent::Error(asp, error) => Self::Error(asp, error),
            GatewayEvent::PeerError(asp, error) => Self::PeerError(asp, error),
            GatewayEvent::PeerUnresponsive(asp) => Self::PeerUnresponsive(asp),
            GatewayEvent::Discarded(context, count) => Self::Discarded(context, count),
        }
    }
}

/// Routing keys and routes of an SGP.
#[derive(Debug, Default)]
pub struct SgpUser {
    pub(in crate::m3ua) keys: KeyIndex,
    /// Routing context that a registration was assigned last.
    last_context: u32,
    pub(in crate::m3ua) routes: GatewayRoutes,
}

impl SignallingGatewayProcess {
    /// Handles a message of an ASP that is not for maintenance.
    pub(in crate::m3ua) fn on_user_message(
        &mut self,
        now: Time,
        asp: AspKey,
        stream: u16,
        message: &Message,
    ) {
        let up = self.is_up(asp);
        match message {
            Message::Data(data) => self.on_data(asp, stream, data, message),
            Message::RegistrationRequest(body) if up => {
                self.on_registration(now, asp, &body.routing_keys, message);
            }
            Message::DeregistrationRequest(body) if up => {
                let contexts = Some(body.routing_contexts.clone());
                let ids = contexts.and_then(AsIds::from_contexts);
                self.on_deregistration(now, asp, ids.as_ref(), message);
            }
            Message::DestinationStateAudit(audit) if up => self.on_audit(asp, audit, message),
            Message::SignallingCongestion(body) if up => self.on_congestion(asp, body, message),
            _ => self.refuse(asp, ErrorCode::UNEXPECTED_MESSAGE, message),
        }
    }
}
