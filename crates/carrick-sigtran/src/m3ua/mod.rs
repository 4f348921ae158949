//! MTP3-User Adaptation, M3UA (RFC 4666).
//!
//! [`Message`] is a message of the protocol, with a type for each message and for each parameter;
//! [`Message::decode`] is strict, and [`DecodeError::answer`] is the Error message that section 3.8.1 demands for
//! what it rejects. [`asp::Asp`] and [`sgp::SignallingGatewayProcess`] are the state machines of both sides of an
//! association, [`ipsp::Ipsp`] is both in one, and [`route`] has the state of the SS7 destinations.

pub mod asp;
mod association;
mod error;
mod heartbeat_timer;
pub mod ipsp;
mod kind;
mod message;
mod parameter;
mod point_code;
pub mod route;
mod routing_key;
pub mod sgp;
pub mod tag;

pub use crate::SctpNotification;
pub use association::Transmit;
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use kind::kinds;
pub use message::{
    AspActive, AspDown, AspInactive, AspUp, Data, DeregistrationRequest, DeregistrationResponse,
    DestinationState, ErrorMessage, Heartbeat, Message, Notify, RegistrationRequest,
    RegistrationResponse, SignallingCongestion, UserPartUnavailable,
};
pub use parameter::{
    AffectedPointCode, AffectedPointCodes, AspIdentifier, ConcernedDestination, CongestionLevel,
    CorrelationId, DeregistrationResult, DeregistrationStatus, DiagnosticInformation, ErrorCode,
    InfoString, LocalRoutingKeyIdentifier, MAX_INFO_STRING, NetworkAppearance, ProtocolData,
    RegistrationResult, RegistrationStatus, RoutingContext, RoutingContexts, Status, TrafficMode,
    UnavailabilityCause, UnavailableUserPart, UserCause, UserIdentity,
};
pub use point_code::{ParsePointCodeError, PointCode, PointCodeFormat};
pub use routing_key::{RoutingKey, RoutingKeyDestination};

/// SCTP payload protocol identifier of M3UA (RFC 4666, section 7.1).
pub const PAYLOAD_PROTOCOL_ID: u32 = 3;
/// SCTP port of M3UA (RFC 4666, section 7.2).
pub const PORT: u16 = 2905;
