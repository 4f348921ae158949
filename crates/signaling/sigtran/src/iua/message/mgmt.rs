//! Management messages (RFC 4233, section 3.3.3).

use super::header_is_first;
use crate::iua::{
    DiagnosticInformation, Dlci, ErrorCode, IgnoredDlci, InterfaceIdentifier, TeiStatus,
};
use crate::message::DecodeError;
use crate::message::body::message;
use crate::message::codec_error::{is_error_message, offending};

/// Maximum octets of the offending message in an Error message.
const MAX_OFFENDING_OCTETS: usize = 256;

message! {
    /// Error, ERR (section 3.3.3.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x000c         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           error code                          |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0007         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  diagnostic information                                     ...
    /// ```
    ErrorMessage {
        /// Reason.
        code: ErrorCode,
        /// Begin of the offending message, or anything else about the error.
        diagnostic: Option<DiagnosticInformation>,
    }
}

impl ErrorMessage {
    /// Error message with this code only.
    pub const fn new(code: ErrorCode) -> Self {
        Self {
            code,
            diagnostic: None,
        }
    }

    /// Error message that answers a malformed message, `None` if that is an Error message itself. The codes end with
    /// Invalid ASP Identifier: errors of parameters are Protocol Error. The diagnostic information begins the offending
    /// message: the first 40 octets for an unsupported class or type, at most 256 for other errors.
    pub fn answering(error: &DecodeError, octets: &[u8]) -> Option<Self> {
        let code = Self::defined(error.code());
        (!is_error_message(octets)).then(|| Self::about(code, octets))
    }

    /// Returns the code, or Protocol Error if IUA does not have it.
    pub(in crate::iua) fn defined(code: ErrorCode) -> ErrorCode {
        if code > ErrorCode::INVALID_ASP_IDENTIFIER {
            ErrorCode::PROTOCOL_ERROR
        } else {
            code
        }
    }

    /// Error message with the begin of the offending message as diagnostic information.
    pub(in crate::iua) fn about(code: ErrorCode, octets: &[u8]) -> Self {
        Self {
            diagnostic: Some(offending(code, octets, MAX_OFFENDING_OCTETS)),
            ..Self::new(code)
        }
    }
}

message! {
    /// TEI Status Request (section 3.3.3.3).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0005         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |             DLCI              |             spare             |
    /// ```
    TeiStatusRequest {
        /// Message header: the D channel.
        identifier: InterfaceIdentifier,
        /// Message header: the data link.
        dlci: Dlci,
    }
    check header_is_first
}

message! {
    /// Content of TEI Status Confirm and Indication (section 3.3.3.3).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0005         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |             DLCI              |             spare             |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0010         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             status                            |
    /// +---------------------------------------------------------------+
    /// ```
    TeiStatusMessage {
        /// Message header: the D channel.
        identifier: InterfaceIdentifier,
        /// Message header: the data link.
        dlci: Dlci,
        /// Status of the TEI.
        status: TeiStatus,
    }
    check header_is_first
}

message! {
    /// TEI Query Request (section 3.3.3.4). The DLCI is ignored.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0005         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |             DLCI              |             spare             |
    /// ```
    TeiQuery {
        /// Message header: the D channel.
        identifier: InterfaceIdentifier,
        /// Message header without meaning.
        dlci: IgnoredDlci,
    }
    check header_is_first
}
