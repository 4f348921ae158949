//! ASP traffic maintenance messages (RFC 4666, section 3.7).

use crate::m3ua::{InfoString, RoutingContexts, TrafficMode};
use crate::message::body::message;

message! {
    /// Content of ASP Active and ASP Active Ack (sections 3.7.1 and 3.7.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x000b          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                       traffic mode type                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0004          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    #[derive(Default)]
    AspActive {
        /// Traffic mode of the ASP within the application servers.
        traffic_mode: Option<TrafficMode>,
        /// Application servers, all of the ASP if absent.
        routing_contexts: Option<RoutingContexts>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}
