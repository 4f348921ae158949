//! Error message (RFC 3868, section 3.7.1).

use crate::message::DecodeError;
use crate::message::body::message;
use crate::message::codec_error::{is_error_message, offending};
use crate::sua::{
    AffectedPointCodes, DiagnosticInformation, ErrorCode, NetworkAppearance, RoutingContexts,
    SubsystemNumber,
};

/// Maximum octets of the offending message in an Error message (section 3.9.7).
const MAX_OFFENDING_OCTETS: usize = 40;

message! {
    /// Error, ERR (section 3.7.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x000c         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           error code                          |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0012         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  affected point codes                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010d         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                       network appearance                      |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x8003         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        subsystem number                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0007         |             length            |
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
        /// Subsystem number; mandatory for Subsystem Status Unknown (section 3.9.12).
        ssn: Option<SubsystemNumber>,
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
            ssn: None,
            diagnostic: None,
        }
    }

    /// Error message that answers a malformed message with its first 40 octets, `None` if that is an Error message
    /// itself.
    pub fn answering(error: &DecodeError, octets: &[u8]) -> Option<Self> {
        (!is_error_message(octets)).then(|| Self::about(error.code(), octets))
    }

    /// Error message with the first 40 octets of the offending message as diagnostic information.
    pub(in crate::sua) fn about(code: ErrorCode, octets: &[u8]) -> Self {
        Self {
            diagnostic: Some(offending(code, octets, MAX_OFFENDING_OCTETS)),
            ..Self::new(code)
        }
    }
}
