//! SS7 signalling network management messages (RFC 4666, section 3.4).

use crate::m3ua::{
    AffectedPointCodes, ConcernedDestination, CongestionLevel, InfoString, NetworkAppearance,
    RoutingContexts, UnavailableUserPart, UserCause,
};
use crate::message::body::message;

message! {
    /// Content of DUNA, DAVA, DAUD and DRST (sections 3.4.1 to 3.4.3 and 3.4.6).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0200          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                      network appearance                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0012          |            length             |
    /// +---------------+---------------+-------------------------------+
    /// |     mask      |             affected point code             ...
    /// +---------------+---------------+-------------------------------+
    /// |         tag = 0x0004          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    DestinationState {
        /// Network appearance of the point codes.
        network_appearance: Option<NetworkAppearance>,
        /// Routing contexts; mandatory if several application servers share the association.
        routing_contexts: Option<RoutingContexts>,
        /// Destinations.
        affected: AffectedPointCodes,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}

message! {
    /// Signalling Congestion, SCON (section 3.4.4).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0200          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                      network appearance                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0012          |            length             |
    /// +---------------+---------------+-------------------------------+
    /// |     mask      |             affected point code             ...
    /// +---------------+---------------+-------------------------------+
    /// |         tag = 0x0206          |          length = 8           |
    /// +---------------+---------------+-------------------------------+
    /// |   reserved    |             concerned DPC                     |
    /// +---------------+---------------+-------------------------------+
    /// |         tag = 0x0205          |          length = 8           |
    /// +-------------------------------+---------------+---------------+
    /// |                   reserved                    |     level     |
    /// +-------------------------------+---------------+---------------+
    /// |         tag = 0x0004          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    SignallingCongestion {
        /// Network appearance of the point codes.
        network_appearance: Option<NetworkAppearance>,
        /// Routing contexts; mandatory if several application servers share the association.
        routing_contexts: Option<RoutingContexts>,
        /// Congested destinations.
        affected: AffectedPointCodes,
        /// Originator of the message that caused the SCON; sent by ASPs only.
        concerned: Option<ConcernedDestination>,
        /// Congestion level, in national networks that have levels.
        level: Option<CongestionLevel>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}

message! {
    /// Destination User Part Unavailable, DUPU (section 3.4.5).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0200          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                      network appearance                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0012          |          length = 8           |
    /// +---------------+---------------+-------------------------------+
    /// |   mask = 0    |             affected point code               |
    /// +---------------+---------------+-------------------------------+
    /// |         tag = 0x0204          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |             cause             |             user              |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0004          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    UserPartUnavailable {
        /// Network appearance of the point code.
        network_appearance: Option<NetworkAppearance>,
        /// Routing contexts; mandatory if several application servers share the association.
        routing_contexts: Option<RoutingContexts>,
        /// Destination.
        affected: UnavailableUserPart,
        /// User part, and why it is unavailable.
        user_cause: UserCause,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}
