//! Management messages (RFC 4666, section 3.8).

use super::message;
use crate::m3ua::{
    AffectedPointCodes, AspIdentifier, DiagnosticInformation, ErrorCode, InfoString,
    NetworkAppearance, RoutingContexts, Status,
};

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
}

message! {
    /// Notify, NTFY (section 3.8.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x000d          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |          status type          |      status information       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0011          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                        ASP identifier                         |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0004          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    Notify {
        /// Event.
        status: Status,
        /// ASP that became active or failed, if it has an identifier.
        asp_identifier: Option<AspIdentifier>,
        /// Application servers of the event.
        routing_contexts: Option<RoutingContexts>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}
