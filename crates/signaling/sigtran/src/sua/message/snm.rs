//! Signalling network management messages (RFC 3868, section 3.4).

use crate::message::body::message;
use crate::message::field::RuleViolation;
use crate::sua::{
    AffectedPointCodes, CongestionLevel, InfoString, RoutingContexts, Smi, SubsystemNumber,
    UnavailableUserPart, UserCause, tag,
};

message! {
    /// Content of DUNA, DAVA and DRST (sections 3.4.1, 3.4.2 and 3.4.6): N-PCSTATE of SCCP, with a subsystem number
    /// N-STATE or, in DRST, N-COORD.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0012         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  affected point codes                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x8003         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        subsystem number                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0112         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                              SMI                              |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0004         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    DestinationState {
        /// Application servers.
        routing_contexts: Option<RoutingContexts>,
        /// Destinations; one if the message has a subsystem number.
        affected: AffectedPointCodes,
        /// Subsystem, without which the message is about the signalling points.
        ssn: Option<SubsystemNumber>,
        /// Multiplicity of the subsystem.
        smi: Option<Smi>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
    rule subsystem_has_one_point_code
}

/// Checks that a subsystem number is beside one point code, without mask.
fn subsystem_has_one_point_code(body: &DestinationState) -> Result<(), RuleViolation> {
    match (body.ssn, &body.affected[..]) {
        (None, _) => Ok(()),
        (Some(_), [point_code]) if point_code.mask == 0 => Ok(()),
        (Some(_), _) => Err(RuleViolation::Conflict(tag::SUBSYSTEM_NUMBER)),
    }
}

message! {
    /// Destination State Audit, DAUD (section 3.4.3).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0012         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  affected point codes                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x8003         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        subsystem number                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010c         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           user/cause                          |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0004         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    DestinationStateAudit {
        /// Application servers.
        routing_contexts: Option<RoutingContexts>,
        /// Destinations.
        affected: AffectedPointCodes,
        /// Subsystem, without which the message is about the signalling points.
        ssn: Option<SubsystemNumber>,
        /// SCCP whose availability is asked for.
        user_cause: Option<UserCause>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}

message! {
    /// Signalling Congestion, SCON (section 3.4.4): N-PCSTATE of SCCP, with a subsystem number N-STATE.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0012         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  affected point codes                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x8003         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        subsystem number                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0118         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        congestion level                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0112         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                              SMI                              |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0004         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    SignallingCongestion {
        /// Application servers.
        routing_contexts: Option<RoutingContexts>,
        /// Destinations.
        affected: AffectedPointCodes,
        /// Subsystem, without which the message is about the signalling points.
        ssn: Option<SubsystemNumber>,
        /// Congestion level of the signalling points, 0 to 3, or of the subsystem, 0 to 7.
        level: CongestionLevel,
        /// Multiplicity of the subsystem.
        smi: Option<Smi>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
    rule level_fits_subject
}

/// Checks that a level above 3 is that of a subsystem (section 3.10.24).
const fn level_fits_subject(body: &SignallingCongestion) -> Result<(), RuleViolation> {
    if body.ssn.is_none() && body.level.value() > 3 {
        return Err(RuleViolation::Value {
            tag: tag::CONGESTION_LEVEL,
            value: body.level.value() as u32,
        });
    }
    Ok(())
}

message! {
    /// Destination User Part Unavailable, DUPU (section 3.4.5): N-PCSTATE of SCCP.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0012         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                 affected point code, mask = 0                 |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010c         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           user/cause                          |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0004         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    UserPartUnavailable {
        /// Application servers.
        routing_contexts: Option<RoutingContexts>,
        /// Destination.
        affected: UnavailableUserPart,
        /// SCCP, and why it is unavailable.
        user_cause: UserCause,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}
