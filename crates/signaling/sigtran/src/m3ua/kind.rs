//! Message classes and types (RFC 4666, section 3.1.2).

/// Message classes and types of M3UA (RFC 4666, section 3.1.2).
pub mod kinds {
    use crate::message::MessageKind;
    pub use crate::message::kinds::{common::*, ss7::*};

    /// Transfer messages.
    pub const TRANSFER: u8 = 1;
    /// Payload Data (DATA).
    pub const DATA: MessageKind = MessageKind::new(TRANSFER, 1);
}
