//! Message classes and types (RFC 3331, section 3.1.4).

/// Message classes and types of M2UA (RFC 3331, section 3.1.4).
pub mod kinds {
    use crate::message::MessageKind;
    pub use crate::message::kinds::common::*;

    /// MTP2 User Adaptation (MAUP) messages.
    pub const MAUP: u8 = 6;
    /// Interface Identifier Management (IIM) messages.
    pub const IIM: u8 = 10;

    /// Data.
    pub const DATA: MessageKind = MessageKind::new(MAUP, 1);
    /// Establish Request.
    pub const ESTABLISH_REQUEST: MessageKind = MessageKind::new(MAUP, 2);
    /// Establish Confirm.
    pub const ESTABLISH_CONFIRM: MessageKind = MessageKind::new(MAUP, 3);
    /// Release Request.
    pub const RELEASE_REQUEST: MessageKind = MessageKind::new(MAUP, 4);
    /// Release Confirm.
    pub const RELEASE_CONFIRM: MessageKind = MessageKind::new(MAUP, 5);
    /// Release Indication.
    pub const RELEASE_INDICATION: MessageKind = MessageKind::new(MAUP, 6);
    /// State Request.
    pub const STATE_REQUEST: MessageKind = MessageKind::new(MAUP, 7);
    /// State Confirm.
    pub const STATE_CONFIRM: MessageKind = MessageKind::new(MAUP, 8);
    /// State Indication.
    pub const STATE_INDICATION: MessageKind = MessageKind::new(MAUP, 9);
    /// Data Retrieval Request.
    pub const RETRIEVAL_REQUEST: MessageKind = MessageKind::new(MAUP, 10);
    /// Data Retrieval Confirm.
    pub const RETRIEVAL_CONFIRM: MessageKind = MessageKind::new(MAUP, 11);
    /// Data Retrieval Indication.
    pub const RETRIEVAL_INDICATION: MessageKind = MessageKind::new(MAUP, 12);
    /// Data Retrieval Complete Indication.
    pub const RETRIEVAL_COMPLETE: MessageKind = MessageKind::new(MAUP, 13);
    /// Congestion Indication.
    pub const CONGESTION_INDICATION: MessageKind = MessageKind::new(MAUP, 14);
    /// Data Acknowledge.
    pub const DATA_ACK: MessageKind = MessageKind::new(MAUP, 15);
    /// Registration Request (REG REQ).
    pub const REG_REQ: MessageKind = MessageKind::new(IIM, 1);
    /// Registration Response (REG RSP).
    pub const REG_RSP: MessageKind = MessageKind::new(IIM, 2);
    /// De-Registration Request (DEREG REQ).
    pub const DEREG_REQ: MessageKind = MessageKind::new(IIM, 3);
    /// De-Registration Response (DEREG RSP).
    pub const DEREG_RSP: MessageKind = MessageKind::new(IIM, 4);
}
