//! SIMCO messages as bytes and as values (RFC 4540 sections 4 and 5).
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
//! The agent sends [`Request`]s; the middlebox answers each with one [`Reply`], and tells what nobody
//! asked for in a [`Notification`]. Reading is strict: attributes come in the order in which the RFC
//! draws them, each with exactly its length, and nothing is left at the end. Reserved bits are
//! written as zero and not read. Variable values are slices of the buffer that arrived.

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
pub use reply::{EnableStatus, Enabled, MAX_LISTED, Reply, Reserved, RuleList};
pub use request::{DisableRequest, EnableRequest, Request, RequestKind, ReserveRequest};
pub use stream::{FramingError, PARTIAL_MESSAGE_TIMEOUT, StreamReader};

/// Why bytes are no message of the kind that was expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseError {
    /// There are fewer octets than a header has, or the header's length is not that of the message.
    #[error("the length in the header is not that of the message")]
    Header,
    /// The basic type is not one that may come here.
    #[error("wrong basic message type {0:#04x}")]
    BasicType(u8),
    /// The sub-type is not defined for this basic type.
    #[error("wrong message sub-type {0:#04x}")]
    SubType(u8),
    /// Type, number, order or length of the attributes is not as defined, or a field has a value
    /// that is not defined.
    #[error("badly formed attributes")]
    Attributes,
}

/// Anything that a middlebox sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromMiddlebox {
    /// The answer to the request with the same transaction identifier.
    Reply(Reply),
    /// What nobody asked for.
    Notification(Notification),
}

impl FromMiddlebox {
    /// Reads what came from a middlebox, as a whole message.
    ///
    /// # Errors
    /// [`ParseError`] for anything else, requests included.
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
