//! ISDN Q.921-User Adaptation, IUA (RFC 4233).
//!
//! [`Message`] is a message of the protocol, with a type for each message and for each parameter;
//! [`Message::decode`] is strict, and [`ErrorMessage::answering`] is the Error message that section 3.3.3.1 demands for
//! what it rejects. [`link::AspDataLink`] and [`link::SgDataLink`] are the state machines of both ends of a data link.

pub mod asp;
mod kind;
mod layer;
pub mod link;
mod message;
mod parameter;
pub mod sg;
pub mod tag;

pub use kind::kinds;
pub use layer::Iua;
pub use message::{
    AspActive, Data, DataLink, ErrorMessage, Message, ReleaseIndication, ReleaseRequest, TeiQuery,
    TeiStatusMessage, TeiStatusRequest,
};
pub use parameter::{Dlci, IgnoredDlci, ProtocolData, ReleaseReason, TeiStatus, TrafficMode};

pub use crate::message::interface::{
    AspInactive, InterfaceIdentifier, InterfaceIdentifiers, InterfaceRange, Notify, TextIdentifier,
};
pub use crate::message::{
    AspDown, AspIdentifier, AspUp, DecodeError, DecodeErrorKind, DiagnosticInformation,
    EncodeError, ErrorCode, Heartbeat, InfoString, Status,
};

/// Message to send over an association.
pub type Transmit = crate::aspm::Transmit<Message>;

/// SCTP payload protocol identifier of IUA (RFC 4233, section 7.1).
pub const PAYLOAD_PROTOCOL_ID: u32 = 1;
/// SCTP port of IUA (RFC 4233, section 1.3.4).
pub const PORT: u16 = 9900;
