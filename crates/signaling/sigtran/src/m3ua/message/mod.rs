//! Messages (RFC 4666, sections 3.3 to 3.8), each drawn above its type.

mod asptm;
mod mgmt;
mod rkm;
mod ssnm;
mod transfer;

pub use asptm::AspActive;
pub use mgmt::ErrorMessage;
pub use rkm::{
    DeregistrationRequest, DeregistrationResponse, RegistrationRequest, RegistrationResponse,
};
pub use ssnm::{DestinationState, SignallingCongestion, UserPartUnavailable};
pub use transfer::Data;

use super::{RoutingContexts, kinds, tag};
use crate::message::body::messages;
use crate::message::{AspDown, AspInactive, AspUp, Heartbeat, Notify};

messages! {
    /// Message of M3UA.
    classes MGMT | TRANSFER | SSNM | ASPSM | ASPTM | RKM, excluded tag::is_excluded,
    /// Error, ERR (section 3.8.1).
    ERR => Error(ErrorMessage),
    /// Notify, NTFY (section 3.8.2).
    NTFY => Notify(Notify),
    /// Payload Data, DATA (section 3.3.1).
    DATA => Data(Data),
    /// Destination Unavailable, DUNA (section 3.4.1).
    DUNA => DestinationUnavailable(DestinationState),
    /// Destination Available, DAVA (section 3.4.2).
    DAVA => DestinationAvailable(DestinationState),
    /// Destination State Audit, DAUD (section 3.4.3).
    DAUD => DestinationStateAudit(DestinationState),
    /// Signalling Congestion, SCON (section 3.4.4).
    SCON => SignallingCongestion(SignallingCongestion),
    /// Destination User Part Unavailable, DUPU (section 3.4.5).
    DUPU => UserPartUnavailable(UserPartUnavailable),
    /// Destination Restricted, DRST (section 3.4.6).
    DRST => DestinationRestricted(DestinationState),
    /// ASP Up, ASPUP (section 3.5.1).
    ASPUP => AspUp(AspUp),
    /// ASP Up Acknowledgement, ASPUP ACK (section 3.5.2).
    ASPUP_ACK => AspUpAck(AspUp),
    /// ASP Down, ASPDN (section 3.5.3).
    ASPDN => AspDown(AspDown),
    /// ASP Down Acknowledgement, ASPDN ACK (section 3.5.4).
    ASPDN_ACK => AspDownAck(AspDown),
    /// Heartbeat, BEAT (section 3.5.5).
    BEAT => Heartbeat(Heartbeat),
    /// Heartbeat Acknowledgement, BEAT ACK (section 3.5.6).
    BEAT_ACK => HeartbeatAck(Heartbeat),
    /// Registration Request, REG REQ (section 3.6.1).
    REG_REQ => RegistrationRequest(RegistrationRequest),
    /// Registration Response, REG RSP (section 3.6.2).
    REG_RSP => RegistrationResponse(RegistrationResponse),
    /// Deregistration Request, DEREG REQ (section 3.6.3).
    DEREG_REQ => DeregistrationRequest(DeregistrationRequest),
    /// Deregistration Response, DEREG RSP (section 3.6.4).
    DEREG_RSP => DeregistrationResponse(DeregistrationResponse),
    /// ASP Active, ASPAC (section 3.7.1).
    ASPAC => AspActive(AspActive),
    /// ASP Active Acknowledgement, ASPAC ACK (section 3.7.2).
    ASPAC_ACK => AspActiveAck(AspActive),
    /// ASP Inactive, ASPIA (section 3.7.3).
    ASPIA => AspInactive(AspInactive),
    /// ASP Inactive Acknowledgement, ASPIA ACK (section 3.7.4).
    ASPIA_ACK => AspInactiveAck(AspInactive),
}

impl Message {
    /// Returns the routing contexts that the message contains.
    pub fn routing_contexts(&self) -> Option<RoutingContexts> {
        match self {
            Self::Error(body) => body.routing_contexts.clone(),
            Self::Notify(body) => body.routing_contexts.clone(),
            Self::Data(body) => body
                .routing_context
                .map(|context| RoutingContexts(vec![context])),
            Self::DestinationUnavailable(body)
            | Self::DestinationAvailable(body)
            | Self::DestinationStateAudit(body)
            | Self::DestinationRestricted(body) => body.routing_contexts.clone(),
            Self::SignallingCongestion(body) => body.routing_contexts.clone(),
            Self::UserPartUnavailable(body) => body.routing_contexts.clone(),
            Self::AspActive(body) | Self::AspActiveAck(body) => body.routing_contexts.clone(),
            Self::AspInactive(body) | Self::AspInactiveAck(body) => body.routing_contexts.clone(),
            Self::DeregistrationRequest(body) => Some(body.routing_contexts.clone()),
            _ => None,
        }
    }
}
