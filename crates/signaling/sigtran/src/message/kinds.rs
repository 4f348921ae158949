//! Message classes and types that several layers share (RFC 4666, section 3.1.2).

/// Classes and types of all layers: management, ASP state and traffic maintenance.
pub mod common {
    use crate::message::MessageKind;

    /// Management (MGMT) messages.
    pub const MGMT: u8 = 0;
    /// ASP State Maintenance (ASPSM) messages.
    pub const ASPSM: u8 = 3;
    /// ASP Traffic Maintenance (ASPTM) messages.
    pub const ASPTM: u8 = 4;
    /// Error (ERR).
    pub const ERR: MessageKind = MessageKind::new(MGMT, 0);
    /// Notify (NTFY).
    pub const NTFY: MessageKind = MessageKind::new(MGMT, 1);
    /// ASP Up (ASPUP).
    pub const ASPUP: MessageKind = MessageKind::new(ASPSM, 1);
    /// ASP Down (ASPDN).
    pub const ASPDN: MessageKind = MessageKind::new(ASPSM, 2);
    /// Heartbeat (BEAT).
    pub const BEAT: MessageKind = MessageKind::new(ASPSM, 3);
    /// ASP Up Acknowledgement (ASPUP ACK).
    pub const ASPUP_ACK: MessageKind = MessageKind::new(ASPSM, 4);
    /// ASP Down Acknowledgement (ASPDN ACK).
    pub const ASPDN_ACK: MessageKind = MessageKind::new(ASPSM, 5);
    /// Heartbeat Acknowledgement (BEAT ACK).
    pub const BEAT_ACK: MessageKind = MessageKind::new(ASPSM, 6);
    /// ASP Active (ASPAC).
    pub const ASPAC: MessageKind = MessageKind::new(ASPTM, 1);
    /// ASP Inactive (ASPIA).
    pub const ASPIA: MessageKind = MessageKind::new(ASPTM, 2);
    /// ASP Active Acknowledgement (ASPAC ACK).
    pub const ASPAC_ACK: MessageKind = MessageKind::new(ASPTM, 3);
    /// ASP Inactive Acknowledgement (ASPIA ACK).
    pub const ASPIA_ACK: MessageKind = MessageKind::new(ASPTM, 4);
}

/// Classes and types of the layers that route by SS7 addresses, M3UA and SUA: signalling network management and
/// routing key management.
pub mod ss7 {
    use crate::message::MessageKind;

    /// SS7 Signalling Network Management (SSNM) messages.
    pub const SSNM: u8 = 2;
    /// Routing Key Management (RKM) messages.
    pub const RKM: u8 = 9;
    /// Destination Unavailable (DUNA).
    pub const DUNA: MessageKind = MessageKind::new(SSNM, 1);
    /// Destination Available (DAVA).
    pub const DAVA: MessageKind = MessageKind::new(SSNM, 2);
    /// Destination State Audit (DAUD).
    pub const DAUD: MessageKind = MessageKind::new(SSNM, 3);
    /// Signalling Congestion (SCON).
    pub const SCON: MessageKind = MessageKind::new(SSNM, 4);
    /// Destination User Part Unavailable (DUPU).
    pub const DUPU: MessageKind = MessageKind::new(SSNM, 5);
    /// Destination Restricted (DRST).
    pub const DRST: MessageKind = MessageKind::new(SSNM, 6);
    /// Registration Request (REG REQ).
    pub const REG_REQ: MessageKind = MessageKind::new(RKM, 1);
    /// Registration Response (REG RSP).
    pub const REG_RSP: MessageKind = MessageKind::new(RKM, 2);
    /// Deregistration Request (DEREG REQ).
    pub const DEREG_REQ: MessageKind = MessageKind::new(RKM, 3);
    /// Deregistration Response (DEREG RSP).
    pub const DEREG_RSP: MessageKind = MessageKind::new(RKM, 4);
}
