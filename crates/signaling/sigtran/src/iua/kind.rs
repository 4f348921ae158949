//! Message classes and types (RFC 4233, section 3.1.2).

/// Message classes and types of IUA (RFC 4233, section 3.1.2).
pub mod kinds {
    use crate::message::MessageKind;
    pub use crate::message::kinds::common::*;

    /// Q.921/Q.931 Boundary Primitives Transport (QPTM) messages.
    pub const QPTM: u8 = 5;

    /// Data Request.
    pub const DATA_REQUEST: MessageKind = MessageKind::new(QPTM, 1);
    /// Data Indication.
    pub const DATA_INDICATION: MessageKind = MessageKind::new(QPTM, 2);
    /// Unit Data Request.
    pub const UNIT_DATA_REQUEST: MessageKind = MessageKind::new(QPTM, 3);
    /// Unit Data Indication.
    pub const UNIT_DATA_INDICATION: MessageKind = MessageKind::new(QPTM, 4);
    /// Establish Request.
    pub const ESTABLISH_REQUEST: MessageKind = MessageKind::new(QPTM, 5);
    /// Establish Confirm.
    pub const ESTABLISH_CONFIRM: MessageKind = MessageKind::new(QPTM, 6);
    /// Establish Indication.
    pub const ESTABLISH_INDICATION: MessageKind = MessageKind::new(QPTM, 7);
    /// Release Request.
    pub const RELEASE_REQUEST: MessageKind = MessageKind::new(QPTM, 8);
    /// Release Confirm.
    pub const RELEASE_CONFIRM: MessageKind = MessageKind::new(QPTM, 9);
    /// Release Indication.
    pub const RELEASE_INDICATION: MessageKind = MessageKind::new(QPTM, 10);
    /// TEI Status Request.
    pub const TEI_STATUS_REQUEST: MessageKind = MessageKind::new(MGMT, 2);
    /// TEI Status Confirm.
    pub const TEI_STATUS_CONFIRM: MessageKind = MessageKind::new(MGMT, 3);
    /// TEI Status Indication.
    pub const TEI_STATUS_INDICATION: MessageKind = MessageKind::new(MGMT, 4);
    /// TEI Query Request.
    pub const TEI_QUERY: MessageKind = MessageKind::new(MGMT, 5);
}
