//! SIMCO messages (RFC 4540, sections 4 and 5).
//!
//! A message is a header of eight octets and attributes, each with type and length:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |  basic type   |   sub-type    |   octets of the attributes    |
//! +---------------+---------------+-------------------------------+
//! |                transaction identifier (TID)                   |
//! +-------------------------------+-------------------------------+
//! |        attribute type         |    octets of the value        |
//! +-------------------------------+-------------------------------+
//! |  value, not padded                                          ...
//! ```
//!
//! The agent sends [`Request`]s; the middlebox answers each with one [`Reply`] and sends
//! [`Notification`]s. Parsing is strict: attributes must have the order of the RFC's figures and their
//! exact length, and nothing may follow. Reserved bits are written as zero and ignored. Variable
//! values are slices of the received buffer.

mod address;
mod attribute;
mod capabilities;
mod header;
mod ids;
mod negative;
mod notification;
mod opaque;
mod parameters;
mod reply;
mod request;
mod stream;

pub use address::{AddressTuple, IpVersion, Location, Scope};
pub use attribute::AttributeType;
pub use capabilities::{Capabilities, ProtocolVersion, VERSION};
pub use header::{BasicType, HEADER_LEN, Header, MAX_MESSAGE};
pub use ids::{GroupId, Lifetime, PolicyRuleId, TransactionId};
pub use negative::NegativeReply;
pub use notification::Notification;
pub use opaque::{Challenge, MAX_AUTHENTICATION, MAX_OWNER, Owner, Token};
pub use parameters::{Direction, NatMode, Parity, PerParameters, PortParity, PrrParameters};
pub use reply::{EnableReply, EnableStatus, MAX_LISTED, Reply, ReserveReply, RuleList};
pub use request::{DisableRequest, EnableRequest, Request, RequestKind, ReserveRequest};
pub use stream::{FramingError, PARTIAL_MESSAGE_TIMEOUT, StreamReader};

/// Reason for which octets are not a message of the expected kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseError {
    /// There are fewer octets than a header has, or the length in the header does not match.
    #[error("the length in the header does not match the message")]
    Header,
    /// The basic type is not expected here.
    #[error("wrong basic message type {0:#04x}")]
    BasicType(u8),
    /// The sub-type is not defined for this basic type.
    #[error("wrong message sub-type {0:#04x}")]
    SubType(u8),
    /// Type, number, order or length of the attributes is wrong, or a field has an undefined value.
    #[error("badly formed attributes")]
    Attributes,
}

/// Message from a middlebox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromMiddlebox {
    /// Reply to the request with the same transaction identifier.
    Reply(Reply),
    /// Unsolicited message.
    Notification(Notification),
}

impl FromMiddlebox {
    /// Parses a whole message from a middlebox.
    ///
    /// # Errors
    /// [`ParseError`] for anything else, including requests.
    pub fn parse(message: &bytes::Bytes) -> Result<(TransactionId, Self), ParseError> {
        let header = Header::parse_whole(message)?;
        let attributes = message.slice(HEADER_LEN..);
        let body = match BasicType::from_u8(header.basic) {
            Some(BasicType::PositiveReply | BasicType::NegativeReply) => {
                Self::Reply(Reply::parse(header, &attributes)?)
            }
            Some(BasicType::Notification) => {
                Self::Notification(Notification::parse(header, &attributes)?)
            }
            _ => return Err(ParseError::BasicType(header.basic)),
        };
        Ok((header.transaction, body))
    }
}

#[cfg(test)]
mod tests;
