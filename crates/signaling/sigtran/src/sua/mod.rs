//! SCCP-User Adaptation, SUA (RFC 3868).
//!
//! [`Message`] is a message of the protocol, with a type for each message and for each parameter;
//! [`Message::decode`] is strict, and [`ErrorMessage::answering`] is the Error message that section 3.9.12 demands for
//! what it rejects. [`connection::Connection`] is the state machine of one end of a connection;
//! [`connectionless`] has the procedures of the connectionless service. [`asp::Asp`], [`sgp::SignallingGatewayProcess`]
//! and [`ipsp::Ipsp`] are the state machines of associations, [`translation`] translates global titles for a relay.

mod address;
pub mod asp;
mod cause;
pub mod connection;
pub mod connectionless;
pub mod ipsp;
mod kind;
mod layer;
mod message;
mod parameter;
mod routing_key;
pub mod sgp;
pub mod tag;
mod traffic;
pub mod translation;

pub use address::{
    Address, AddressIndicator, AddressSignals, DestinationAddress, GlobalTitle, HostName, Route,
    SourceAddress, SubsystemNumber,
};
pub use cause::{ErrorCause, RefusalCause, ReleaseCause, ResetCause, ReturnCause};
pub use kind::kinds;
pub use layer::{Labels, Sua};
pub use message::{
    AspActive, AspActiveAck, ConnectionAcknowledge, ConnectionOrientedDataAcknowledge,
    ConnectionOrientedDataTransfer, ConnectionOrientedError, ConnectionRefused, ConnectionRequest,
    ConnectionlessDataResponse, ConnectionlessDataTransfer, DeregistrationRequest,
    DeregistrationResponse, DestinationState, DestinationStateAudit, ErrorMessage, InactivityTest,
    Message, RegistrationRequest, RegistrationResponse, ReleaseComplete, ReleaseRequest,
    ResetConfirm, ResetRequest, SignallingCongestion, UserPartUnavailable,
};
pub use parameter::{
    AspCapabilities, CongestionLevel, Credit, DestinationReferenceNumber, DrnLabel, HopCounter,
    Importance, Interworking, LabelPosition, LocalRoutingKeyIdentifier, MessagePriority,
    NetworkAppearance, ProtocolClass, ReceiveSequenceNumber, Segmentation, SegmentationReference,
    SequenceControl, SequenceNumber, SequenceNumbers, ServiceClass, Smi, SourceReferenceNumber,
    TidLabel, UserCause, UserData,
};
pub use routing_key::{
    AddressRange, DeregistrationResult, DeregistrationStatus, RegistrationResult,
    RegistrationStatus, RequestedTrafficMode, RoutingKey,
};

pub use crate::message::{
    AffectedPointCode, AffectedPointCodes, AspDown, AspIdentifier, AspInactive, AspUp,
    CorrelationId, DecodeError, DecodeErrorKind, DiagnosticInformation, EncodeError, ErrorCode,
    Heartbeat, InfoString, Notify, RoutingContext, RoutingContexts, Status, TrafficMode,
    UnavailabilityCause, UnavailableUserPart, UserIdentity,
};
pub use crate::{PointCode, PointCodeFormat, SctpNotification};

/// Message to send over an association.
pub type Transmit = crate::aspm::Transmit<Message>;

/// SCTP payload protocol identifier of SUA (RFC 3868, section 7.1).
pub const PAYLOAD_PROTOCOL_ID: u32 = 4;
/// SCTP port of SUA (RFC 3868, section 7.2).
pub const PORT: u16 = 14001;
