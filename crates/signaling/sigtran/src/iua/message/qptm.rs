//! Q.921/Q.931 Boundary Primitives Transport (QPTM) messages (RFC 4233, section 3.3.1).

use super::header_is_first;
use crate::iua::{Dlci, InterfaceIdentifier, ProtocolData, ReleaseReason, tag};
use crate::message::body::message;
use crate::message::field::RuleViolation;

message! {
    /// Content of Data Request and Indication, Unit Data Request and Indication (sections 3.3.1.3 and 3.3.1.4).
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
    /// |          tag = 0x000e         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  protocol data                                              ...
    /// ```
    Data {
        /// Message header: the D channel.
        identifier: InterfaceIdentifier,
        /// Message header: the data link.
        dlci: Dlci,
        /// Message of the user of Q.921.
        protocol_data: ProtocolData,
    }
    check header_is_first
}

message! {
    /// Content of Establish Request, Confirm and Indication, and of Release Confirm (sections 3.3.1.1 and 3.3.1.2).
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
    DataLink {
        /// Message header: the D channel.
        identifier: InterfaceIdentifier,
        /// Message header: the data link.
        dlci: Dlci,
    }
    check header_is_first
}

message! {
    /// Release Request (section 3.3.1.2).
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
    /// |          tag = 0x000f         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             reason                            |
    /// +---------------------------------------------------------------+
    /// ```
    ReleaseRequest {
        /// Message header: the D channel.
        identifier: InterfaceIdentifier,
        /// Message header: the data link.
        dlci: Dlci,
        /// Reason, not a physical layer alarm.
        reason: ReleaseReason,
    }
    check header_is_first
    rule reason_is_of_a_request
}

const fn reason_is_of_a_request(body: &ReleaseRequest) -> Result<(), RuleViolation> {
    match body.reason {
        ReleaseReason::Physical => Err(RuleViolation::Value {
            tag: tag::RELEASE_REASON,
            value: ReleaseReason::Physical as u32,
        }),
        _ => Ok(()),
    }
}

message! {
    /// Release Indication (section 3.3.1.2).
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
    /// |          tag = 0x000f         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             reason                            |
    /// +---------------------------------------------------------------+
    /// ```
    ReleaseIndication {
        /// Message header: the D channel.
        identifier: InterfaceIdentifier,
        /// Message header: the data link.
        dlci: Dlci,
        /// Reason.
        reason: ReleaseReason,
    }
    check header_is_first
}
