//! Messages (RFC 3868, sections 3.2 to 3.8), each drawn above its type.

mod asptm;
mod connection_oriented;
mod connectionless;
mod mgmt;
mod rkm;
mod snm;

pub use asptm::{AspActive, AspActiveAck};
pub use connection_oriented::{
    ConnectionAcknowledge, ConnectionOrientedDataAcknowledge, ConnectionOrientedDataTransfer,
    ConnectionOrientedError, ConnectionRefused, ConnectionRequest, InactivityTest, ReleaseComplete,
    ReleaseRequest, ResetConfirm, ResetRequest,
};
pub use connectionless::{ConnectionlessDataResponse, ConnectionlessDataTransfer};
pub use mgmt::ErrorMessage;
pub use rkm::{
    DeregistrationRequest, DeregistrationResponse, RegistrationRequest, RegistrationResponse,
};
pub use snm::{DestinationState, DestinationStateAudit, SignallingCongestion, UserPartUnavailable};

use super::{kinds, tag};
use crate::message::body::messages;
use crate::message::{AspDown, AspInactive, AspUp, Heartbeat, Notify};

messages! {
    /// Message of SUA.
    classes MGMT | SSNM | ASPSM | ASPTM | RKM | CONNECTIONLESS | CONNECTION_ORIENTED, excluded tag::is_excluded,
    /// Error, ERR (section 3.7.1).
    ERR => Error(ErrorMessage),
    /// Notify, NTFY (section 3.7.2).
    NTFY => Notify(Notify),
    /// Destination Unavailable, DUNA (section 3.4.1).
    DUNA => DestinationUnavailable(DestinationState),
    /// Destination Available, DAVA (section 3.4.2).
    DAVA => DestinationAvailable(DestinationState),
    /// Destination State Audit, DAUD (section 3.4.3).
    DAUD => DestinationStateAudit(DestinationStateAudit),
    /// Signalling Congestion, SCON (section 3.4.4).
    SCON => SignallingCongestion(SignallingCongestion),
    /// Destination User Part Unavailable, DUPU (section 3.4.5).
    DUPU => UserPartUnavailable(UserPartUnavailable),
    /// Destination Restricted, DRST (section 3.4.6).
    DRST => DestinationRestricted(DestinationState),
    /// ASP Up, UP (section 3.5.1).
    ASPUP => AspUp(AspUp),
    /// ASP Up Ack, UP ACK (section 3.5.2).
    ASPUP_ACK => AspUpAck(AspUp),
    /// ASP Down, DOWN (section 3.5.3).
    ASPDN => AspDown(AspDown),
    /// ASP Down Ack, DOWN ACK (section 3.5.4).
    ASPDN_ACK => AspDownAck(AspDown),
    /// Heartbeat, BEAT (section 3.5.5).
    BEAT => Heartbeat(Heartbeat),
    /// Heartbeat Ack, BEAT ACK (section 3.5.6).
    BEAT_ACK => HeartbeatAck(Heartbeat),
    /// ASP Active, ACTIVE (section 3.6.1).
    ASPAC => AspActive(AspActive),
    /// ASP Active Ack, ACTIVE ACK (section 3.6.2).
    ASPAC_ACK => AspActiveAck(AspActiveAck),
    /// ASP Inactive, INACTIVE (section 3.6.3).
    ASPIA => AspInactive(AspInactive),
    /// ASP Inactive Ack, INACTIVE ACK (section 3.6.4).
    ASPIA_ACK => AspInactiveAck(AspInactive),
    /// Registration Request, REG REQ (section 3.8.1).
    REG_REQ => RegistrationRequest(RegistrationRequest),
    /// Registration Response, REG RSP (section 3.8.2).
    REG_RSP => RegistrationResponse(RegistrationResponse),
    /// Deregistration Request, DEREG REQ (section 3.8.3).
    DEREG_REQ => DeregistrationRequest(DeregistrationRequest),
    /// Deregistration Response, DEREG RSP (section 3.8.4).
    DEREG_RSP => DeregistrationResponse(DeregistrationResponse),
    /// Connectionless Data Transfer, CLDT (section 3.2.1).
    CLDT => ConnectionlessDataTransfer(ConnectionlessDataTransfer),
    /// Connectionless Data Response, CLDR (section 3.2.2).
    CLDR => ConnectionlessDataResponse(ConnectionlessDataResponse),
    /// Connection Oriented Data Transfer, CODT (section 3.3.1).
    CODT => ConnectionOrientedDataTransfer(ConnectionOrientedDataTransfer),
    /// Connection Oriented Data Acknowledge, CODA (section 3.3.2).
    CODA => ConnectionOrientedDataAcknowledge(ConnectionOrientedDataAcknowledge),
    /// Connection Request, CORE (section 3.3.3).
    CORE => ConnectionRequest(ConnectionRequest),
    /// Connection Acknowledge, COAK (section 3.3.4).
    COAK => ConnectionAcknowledge(ConnectionAcknowledge),
    /// Connection Refused, COREF (section 3.3.5).
    COREF => ConnectionRefused(ConnectionRefused),
    /// Release Request, RELRE (section 3.3.6).
    RELRE => ReleaseRequest(ReleaseRequest),
    /// Release Complete, RELCO (section 3.3.7).
    RELCO => ReleaseComplete(ReleaseComplete),
    /// Reset Request, RESRE (section 3.3.8).
    RESRE => ResetRequest(ResetRequest),
    /// Reset Confirm, RESCO (section 3.3.9).
    RESCO => ResetConfirm(ResetConfirm),
    /// Connection Oriented Error, COERR (section 3.3.10).
    COERR => ConnectionOrientedError(ConnectionOrientedError),
    /// Inactivity Test, COIT (section 3.3.11).
    COIT => InactivityTest(InactivityTest),
}
