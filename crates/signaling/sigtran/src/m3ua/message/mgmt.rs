//! Management messages (RFC 4666, section 3.8).

use crate::m3ua::{
    AffectedPointCodes, DiagnosticInformation, ErrorCode, NetworkAppearance, RoutingContexts,
};
use crate::message::DecodeError;
use crate::message::body::message;
use crate::message::codec_error::{is_error_message, offending};

/// Maximum octets of the offending message in an Error message.
const MAX_OFFENDING_OCTETS: usize = 256;

message! {
    /// Error, ERR (section 3.8.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x000c          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                          error code                           |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0012          |            length             |
    /// +---------------+---------------+-------------------------------+
    /// |     mask      |             affected point code             ...
    /// +---------------+---------------+-------------------------------+
    /// |         tag = 0x0200          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                      network appearance                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0007          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  diagnostic information                                     ...
    /// ```
    ErrorMessage {
        /// Reason.
        code: ErrorCode,
        /// Routing contexts; mandatory for some codes.
        routing_contexts: Option<RoutingContexts>,
        /// Affected point codes; mandatory for some codes.
        affected: Option<AffectedPointCodes>,
        /// Network appearance; mandatory for some codes.
        network_appearance: Option<NetworkAppearance>,
        /// Begin of the offending message, or anything else about the error.
        diagnostic: Option<DiagnosticInformation>,
    }
}

impl ErrorMessage {
    /// Error message with this code only.
    pub const fn new(code: ErrorCode) -> Self {
        Self {
            code,
            routing_contexts: None,
            affected: None,
            network_appearance: None,
            diagnostic: None,
        }
    }

    /// Error message that answers a malformed message, `None` if that is an Error message itself: those are not
    /// answered (section 3.8.1).
    pub fn answering(error: &DecodeError, octets: &[u8]) -> Option<Self> {
        (!is_error_message(octets)).then(|| Self::about(error.code(), octets))
    }

    /// Error message with the begin of the offending message as diagnostic information: the first 40 octets for an
    /// unsupported class or type, at most 256 for other errors.
    pub(in crate::m3ua) fn about(code: ErrorCode, octets: &[u8]) -> Self {
        Self {
            diagnostic: Some(offending(code, octets, MAX_OFFENDING_OCTETS)),
            ..Self::new(code)
        }
    }
}
