//! MTP2 User Peer-to-Peer Adaptation Layer, M2PA (RFC 4165).
//!
//! [`Message`] is a message of the protocol; [`Message::decode`] is strict. What it rejects is discarded without an
//! answer (section 4.2.1). [`link::Link`] is the state machine of a link.

mod error;
pub mod link;
mod message;
mod sequence_number;

pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use message::{Body, LinkStatus, MAX_DATA, MAX_MESSAGE, Message, Msu};
pub use sequence_number::SequenceNumber;

/// SCTP payload protocol identifier of M2PA (RFC 4165, section 7.1).
pub const PAYLOAD_PROTOCOL_ID: u32 = 5;
/// SCTP port of M2PA (RFC 4165, section 7.1).
pub const PORT: u16 = 3565;
/// Stream of Link Status messages (RFC 4165, section 4.1.2).
pub const LINK_STATUS_STREAM: u16 = 0;
/// Stream of User Data messages, and of the Link Status messages that must remain in sequence with them (RFC 4165,
/// section 4.1.2).
pub const USER_DATA_STREAM: u16 = 1;
