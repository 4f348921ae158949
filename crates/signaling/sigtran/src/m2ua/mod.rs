//! MTP2-User Adaptation, M2UA (RFC 3331).
//!
//! [`Message`] is a message of the protocol, with a type for each message and for each parameter;
//! [`Message::decode`] is strict, and [`ErrorMessage::answering`] is the Error message that section 3.3.3.1 demands for
//! what it rejects. [`link::AspLink`] and [`link::SgpLink`] are the state machines of both ends of a link.

pub mod asp;
mod kind;
mod layer;
pub mod link;
mod message;
mod parameter;
pub mod sgp;
pub mod tag;

pub use kind::kinds;
pub use layer::M2ua;
pub use message::{
    AspActive, CongestionIndication, Data, DataAcknowledge, DeregistrationRequest,
    DeregistrationResponse, ErrorMessage, LinkMessage, Message, RegistrationRequest,
    RegistrationResponse, RetrievalComplete, RetrievalConfirm, RetrievalIndication,
    RetrievalRequest, StateIndication, StateMessage,
};
pub use parameter::{
    Action, CongestionStatus, DeregistrationResult, DeregistrationStatus, DiscardStatus, Event,
    LinkKey, LocalLinkKeyIdentifier, ProtocolData, RegistrationResult, RegistrationStatus,
    RetrievalResult, SdlIdentifier, SdtIdentifier, SequenceNumber, State,
};

pub use crate::message::interface::{
    AspInactive, InterfaceIdentifier, InterfaceIdentifiers, InterfaceRange, Notify, TextIdentifier,
};
pub use crate::message::{
    AspDown, AspIdentifier, AspUp, CorrelationId, DecodeError, DecodeErrorKind,
    DiagnosticInformation, EncodeError, ErrorCode, Heartbeat, InfoString, Status, TrafficMode,
};

/// Message to send over an association.
pub type Transmit = crate::aspm::Transmit<Message>;

/// SCTP payload protocol identifier of M2UA (RFC 3331, section 8.1).
pub const PAYLOAD_PROTOCOL_ID: u32 = 2;
/// SCTP port of M2UA (RFC 3331, section 1.3.3).
pub const PORT: u16 = 2904;
