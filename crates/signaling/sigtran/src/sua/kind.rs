//! Message classes and types (RFC 3868, sections 3.1.2 and 3.1.3).

/// Message classes and types of SUA (RFC 3868, sections 3.1.2 and 3.1.3).
pub mod kinds {
    use crate::message::MessageKind;
    pub use crate::message::kinds::{common::*, ss7::*};

    /// Connectionless (CL) messages.
    pub const CONNECTIONLESS: u8 = 7;
    /// Connection-oriented (CO) messages.
    pub const CONNECTION_ORIENTED: u8 = 8;

    /// Connectionless Data Transfer (CLDT).
    pub const CLDT: MessageKind = MessageKind::new(CONNECTIONLESS, 1);
    /// Connectionless Data Response (CLDR).
    pub const CLDR: MessageKind = MessageKind::new(CONNECTIONLESS, 2);
    /// Connection Request (CORE).
    pub const CORE: MessageKind = MessageKind::new(CONNECTION_ORIENTED, 1);
    /// Connection Acknowledge (COAK).
    pub const COAK: MessageKind = MessageKind::new(CONNECTION_ORIENTED, 2);
    /// Connection Refused (COREF).
    pub const COREF: MessageKind = MessageKind::new(CONNECTION_ORIENTED, 3);
    /// Release Request (RELRE).
    pub const RELRE: MessageKind = MessageKind::new(CONNECTION_ORIENTED, 4);
    /// Release Complete (RELCO).
    pub const RELCO: MessageKind = MessageKind::new(CONNECTION_ORIENTED, 5);
    /// Reset Confirm (RESCO).
    pub const RESCO: MessageKind = MessageKind::new(CONNECTION_ORIENTED, 6);
    /// Reset Request (RESRE).
    pub const RESRE: MessageKind = MessageKind::new(CONNECTION_ORIENTED, 7);
    /// Connection Oriented Data Transfer (CODT).
    pub const CODT: MessageKind = MessageKind::new(CONNECTION_ORIENTED, 8);
    /// Connection Oriented Data Acknowledge (CODA).
    pub const CODA: MessageKind = MessageKind::new(CONNECTION_ORIENTED, 9);
    /// Connection Oriented Error (COERR).
    pub const COERR: MessageKind = MessageKind::new(CONNECTION_ORIENTED, 10);
    /// Inactivity Test (COIT).
    pub const COIT: MessageKind = MessageKind::new(CONNECTION_ORIENTED, 11);
}
