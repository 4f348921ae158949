//! MTP3-User Adaptation, M3UA (RFC 4666).
//!
//! [`Message`] is a message of the protocol, with a type for each message and for each parameter;
//! [`Message::decode`] is strict, and [`ErrorMessage::answering`] is the Error message that section 3.8.1 demands for
//! what it rejects. [`asp::Asp`] and [`sgp::SignallingGatewayProcess`] are the state machines of both sides of an
//! association, [`ipsp::Ipsp`] is both in one, and [`route`] has the state of the SS7 destinations.

pub mod asp;
pub mod ipsp;
mod kind;
mod layer;
mod message;
mod parameter;
pub mod route;
mod routing_key;
pub mod sgp;
pub mod tag;

pub use kind::kinds;
pub use layer::M3ua;
pub use message::{
    AspActive, Data, DeregistrationRequest, DeregistrationResponse, DestinationState, ErrorMessage,
    Message, RegistrationRequest, RegistrationResponse, SignallingCongestion, UserPartUnavailable,
};
pub use parameter::{
    ConcernedDestination, CongestionLevel, DeregistrationResult, DeregistrationStatus,
    LocalRoutingKeyIdentifier, NetworkAppearance, ProtocolData, RegistrationResult,
    RegistrationStatus, UserCause,
};
pub use routing_key::{RoutingKey, RoutingKeyDestination};

pub use crate::message::{
    AffectedPointCode, AffectedPointCodes, AspDown, AspIdentifier, AspInactive, AspUp,
    CorrelationId, DecodeError, DecodeErrorKind, DiagnosticInformation, EncodeError, ErrorCode,
    Heartbeat, InfoString, MAX_INFO_STRING, Notify, RoutingContext, RoutingContexts, Status,
    TrafficMode, UnavailabilityCause, UnavailableUserPart, UserIdentity,
};
pub use crate::{ParsePointCodeError, PointCode, PointCodeFormat, SctpNotification};

/// Message to send over an association.
pub type Transmit = crate::aspm::Transmit<Message>;

/// SCTP payload protocol identifier of M3UA (RFC 4666, section 7.1).
pub const PAYLOAD_PROTOCOL_ID: u32 = 3;
/// SCTP port of M3UA (RFC 4666, section 7.2).
pub const PORT: u16 = 2905;
