//! ASP Active (RFC 4233, sections 3.3.2.5 and 3.3.2.6).

use crate::iua::{InfoString, InterfaceIdentifiers, TrafficMode};
use crate::message::body::message;

message! {
    /// Content of ASP Active and ASP Active Ack (sections 3.3.2.5 and 3.3.2.6).
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
    AspActive {
        /// Traffic mode of the ASP within the application servers.
        traffic_mode: TrafficMode,
        /// Interfaces, all of the ASP if absent.
        identifiers: Option<InterfaceIdentifiers>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}
