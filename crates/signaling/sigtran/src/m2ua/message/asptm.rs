//! ASP Active (RFC 3331, sections 3.3.2.7 and 3.3.2.8).

use crate::m2ua::{InfoString, InterfaceIdentifiers, TrafficMode};
use crate::message::body::message;

message! {
    /// Content of ASP Active and ASP Active Ack (sections 3.3.2.7 and 3.3.2.8).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x000b         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                       traffic mode type                       |
    /// +-------------------------------+-------------------------------+
    /// |  tag = 0x0001, 0x0003, 0x0008 |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifiers, in several parameters               ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0004         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    #[derive(Default)]
    AspActive {
        /// Traffic mode of the ASP within the application servers.
        traffic_mode: Option<TrafficMode>,
        /// Interfaces, all of the ASP if absent.
        identifiers: Option<InterfaceIdentifiers>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}
