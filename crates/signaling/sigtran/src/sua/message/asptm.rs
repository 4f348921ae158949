//! ASP traffic maintenance messages (RFC 3868, section 3.6).

use crate::message::body::message;
use crate::sua::{DrnLabel, InfoString, RoutingContexts, TidLabel, TrafficMode};

message! {
    /// ASP Active (section 3.6.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x000b         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                       traffic mode type                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0110         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           TID label                           |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010f         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           DRN label                           |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0004         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    #[derive(Default)]
    AspActive {
        /// Traffic mode of the ASP within the application servers.
        traffic_mode: Option<TrafficMode>,
        /// Application servers, all of the ASP if absent.
        routing_contexts: Option<RoutingContexts>,
        /// Label in transaction identifiers.
        tid_label: Option<TidLabel>,
        /// Label in destination reference numbers.
        drn_label: Option<DrnLabel>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}

message! {
    /// ASP Active Ack (section 3.6.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x000b         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                       traffic mode type                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0004         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    AspActiveAck {
        /// Traffic mode of the ASP within the application servers.
        traffic_mode: Option<TrafficMode>,
        /// Application servers.
        routing_contexts: RoutingContexts,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}
