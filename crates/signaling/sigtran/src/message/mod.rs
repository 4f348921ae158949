//! Format of the messages that M3UA, M2UA, IUA and SUA share: a common header and parameters (RFC 4666,
//! sections 3.1 and 3.2; RFC 3331, RFC 4233 and RFC 3868 in the same sections).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+---------------+
//! |    version    |   reserved    | message class | message type  |
//! +---------------+---------------+---------------+---------------+
//! |            message length, with header and padding            |
//! +-------------------------------+-------------------------------+
//! |         parameter tag         | parameter length with header  |
//! +-------------------------------+-------------------------------+
//! |  value, padded to a multiple of four octets                 ...
//! ```
//!
//! An SCTP user message holds one message. [`RawMessage`] checks the header, [`Parameters`] splits the rest
//! without copies, [`MessageWriter`] builds a message.
//!
//! Parameters and message contents that several layers have with the same tag and format exist once, here; the
//! layers export them.

pub(crate) mod body;
pub(crate) mod codec_error;
pub(crate) mod common;
mod error;
pub(crate) mod field;
pub mod interface;
pub mod kinds;
mod maintenance;
mod parameters;
pub mod tag;
mod writer;

pub use codec_error::{DecodeError, DecodeErrorKind, EncodeError};
pub use common::{
    AffectedPointCode, AffectedPointCodes, AspIdentifier, CorrelationId, DiagnosticInformation,
    ErrorCode, InfoString, MAX_INFO_STRING, RoutingContext, RoutingContexts, Status, TrafficMode,
    UnavailabilityCause, UnavailableUserPart, UserIdentity,
};
pub use error::{FormatError, FormatErrorKind};
pub use maintenance::{AspDown, AspInactive, AspUp, Heartbeat, Notify};
pub use parameters::{Parameters, RawParameter};
pub use writer::{MessageWriter, WriteError};

/// Size of the common header in octets.
pub const HEADER_LEN: usize = 8;
/// Size of a parameter's header in octets.
pub const PARAMETER_HEADER_LEN: usize = 4;
/// Supported version of the adaptation layers (release 1.0).
pub const VERSION: u8 = 1;
/// Maximum size of a message in octets: the common header and 64 KiB of parameters.
pub const MAX_MESSAGE: usize = HEADER_LEN + 65_536;

/// Message class and message type (RFC 4666, section 3.1.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageKind {
    /// Message class.
    pub class: u8,
    /// Message type; its meaning depends on the class.
    pub message_type: u8,
}

impl MessageKind {
    /// Kind with this class and type.
    pub const fn new(class: u8, message_type: u8) -> Self {
        Self {
            class,
            message_type,
        }
    }
}

/// Message whose common header was checked; the parameters were not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawMessage<'a> {
    /// Class and type.
    pub kind: MessageKind,
    parameters: &'a [u8],
}

impl<'a> RawMessage<'a> {
    /// Checks the common header of an SCTP user message. The reserved octet is ignored.
    ///
    /// The message length must be the number of received octets. The padding of the last parameter may be
    /// received without being counted, or be absent (RFC 4666, section 3.1.4).
    ///
    /// # Errors
    /// [`FormatError`] if the header is cut, has another version, or a length that does not cover the message.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let Some((header, _)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            let length = bytes.len();
            return Err(FormatError::new(
                FormatErrorKind::HeaderTruncated { length },
                0,
            ));
        };
        let [version, _, class, message_type, l0, l1, l2, l3] = *header;
        if version != VERSION {
            return Err(FormatError::new(FormatErrorKind::Version(version), 0));
        }
        if bytes.len() > MAX_MESSAGE {
            let length = bytes.len();
            return Err(FormatError::new(FormatErrorKind::TooLong { length }, 4));
        }
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let counted = length as usize;
        let covers = counted >= HEADER_LEN
            && counted <= bytes.len()
            && (counted == bytes.len() || padded(counted) == bytes.len());
        if !covers {
            let received = bytes.len();
            return Err(FormatError::new(
                FormatErrorKind::MessageLength { length, received },
                4,
            ));
        }
        Ok(Self {
            kind: MessageKind::new(class, message_type),
            parameters: &bytes[HEADER_LEN..counted],
        })
    }

    /// Returns the parameters.
    pub const fn parameters(&self) -> Parameters<'a> {
        Parameters::new(self.parameters, HEADER_LEN)
    }

    /// Returns the octets of the parameters, as received.
    pub const fn parameter_octets(&self) -> &'a [u8] {
        self.parameters
    }
}

/// Next multiple of four octets.
const fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

#[cfg(test)]
mod tests;
