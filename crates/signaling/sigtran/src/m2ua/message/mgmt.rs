//! Error message (RFC 3331, section 3.3.3.1).

use crate::m2ua::{DiagnosticInformation, ErrorCode, InterfaceIdentifiers};
use crate::message::DecodeError;
use crate::message::body::message;
use crate::message::codec_error::{is_error_message, offending};

/// Octets of the offending message in an Error message.
const MAX_OFFENDING_OCTETS: usize = 40;

message! {
    /// Error, ERR (section 3.3.3.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x000c         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           error code                          |
    /// +-------------------------------+-------------------------------+
    /// |  tag = 0x0001, 0x0003, 0x0008 |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifiers, in several parameters               ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0007         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  diagnostic information                                     ...
    /// ```
    ErrorMessage {
        /// Reason.
        code: ErrorCode,
        /// Interfaces of the error; mandatory for Invalid Interface Identifier.
        identifiers: Option<InterfaceIdentifiers>,
        /// Begin of the offending message, or anything else about the error.
        diagnostic: Option<DiagnosticInformation>,
    }
}

impl ErrorMessage {
    /// Error message with this code only.
    pub const fn new(code: ErrorCode) -> Self {
        Self {
            code,
            identifiers: None,
            diagnostic: None,
        }
    }

    /// Error message that answers a malformed message with its first 40 octets, `None` if that is an Error message
    /// itself.
    pub fn answering(error: &DecodeError, octets: &[u8]) -> Option<Self> {
        (!is_error_message(octets)).then(|| Self::about(error.code(), octets))
    }

    /// Error message with the first 40 octets of the offending message as diagnostic information.
    pub(in crate::m2ua) fn about(code: ErrorCode, octets: &[u8]) -> Self {
        Self {
            diagnostic: Some(offending(code, octets, MAX_OFFENDING_OCTETS)),
            ..Self::new(code)
        }
    }
}
