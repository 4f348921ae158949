//! Messages (RFC 3331, section 3.3), each drawn above its type.

mod asptm;
mod iim;
mod maup;
mod mgmt;

pub use asptm::AspActive;
pub use iim::{
    DeregistrationRequest, DeregistrationResponse, RegistrationRequest, RegistrationResponse,
};
pub use maup::{
    CongestionIndication, Data, DataAcknowledge, LinkMessage, RetrievalComplete, RetrievalConfirm,
    RetrievalIndication, RetrievalRequest, StateIndication, StateMessage,
};
pub use mgmt::ErrorMessage;

use super::{kinds, tag};
use crate::message::body::messages;
use crate::message::interface::{AspInactive, Notify};
use crate::message::{AspDown, AspUp, Heartbeat};

messages! {
    /// Message of M2UA.
    classes MGMT | ASPSM | ASPTM | MAUP | IIM, excluded tag::is_excluded,
    /// Error, ERR (section 3.3.3.1).
    ERR => Error(ErrorMessage),
    /// Notify, NTFY (section 3.3.3.2).
    NTFY => Notify(Notify),
    /// ASP Up, ASPUP (section 3.3.2.1).
    ASPUP => AspUp(AspUp),
    /// ASP Up Ack (section 3.3.2.2).
    ASPUP_ACK => AspUpAck(AspUp),
    /// ASP Down, ASPDN (section 3.3.2.3).
    ASPDN => AspDown(AspDown),
    /// ASP Down Ack (section 3.3.2.4).
    ASPDN_ACK => AspDownAck(AspDown),
    /// Heartbeat, BEAT (section 3.3.2.5).
    BEAT => Heartbeat(Heartbeat),
    /// Heartbeat Ack, BEAT ACK (section 3.3.2.6).
    BEAT_ACK => HeartbeatAck(Heartbeat),
    /// ASP Active, ASPAC (section 3.3.2.7).
    ASPAC => AspActive(AspActive),
    /// ASP Active Ack (section 3.3.2.8).
    ASPAC_ACK => AspActiveAck(AspActive),
    /// ASP Inactive, ASPIA (section 3.3.2.9).
    ASPIA => AspInactive(AspInactive),
    /// ASP Inactive Ack (section 3.3.2.10).
    ASPIA_ACK => AspInactiveAck(AspInactive),
    /// Registration Request, REG REQ (section 3.3.4.1).
    REG_REQ => RegistrationRequest(RegistrationRequest),
    /// Registration Response, REG RSP (section 3.3.4.2).
    REG_RSP => RegistrationResponse(RegistrationResponse),
    /// De-Registration Request, DEREG REQ (section 3.3.4.3).
    DEREG_REQ => DeregistrationRequest(DeregistrationRequest),
    /// De-Registration Response, DEREG RSP (section 3.3.4.4).
    DEREG_RSP => DeregistrationResponse(DeregistrationResponse),
    /// Data (section 3.3.1.1).
    DATA => Data(Data),
    /// Data Acknowledge (section 3.3.1.2).
    DATA_ACK => DataAcknowledge(DataAcknowledge),
    /// Establish Request (section 3.3.1.3).
    ESTABLISH_REQUEST => EstablishRequest(LinkMessage),
    /// Establish Confirm (section 3.3.1.3).
    ESTABLISH_CONFIRM => EstablishConfirm(LinkMessage),
    /// Release Request (section 3.3.1.4).
    RELEASE_REQUEST => ReleaseRequest(LinkMessage),
    /// Release Confirm (section 3.3.1.4).
    RELEASE_CONFIRM => ReleaseConfirm(LinkMessage),
    /// Release Indication (section 3.3.1.4).
    RELEASE_INDICATION => ReleaseIndication(LinkMessage),
    /// State Request (section 3.3.1.5).
    STATE_REQUEST => StateRequest(StateMessage),
    /// State Confirm (section 3.3.1.6).
    STATE_CONFIRM => StateConfirm(StateMessage),
    /// State Indication (section 3.3.1.7).
    STATE_INDICATION => StateIndication(StateIndication),
    /// Congestion Indication (section 3.3.1.8).
    CONGESTION_INDICATION => CongestionIndication(CongestionIndication),
    /// Data Retrieval Request (section 3.3.1.9).
    RETRIEVAL_REQUEST => RetrievalRequest(RetrievalRequest),
    /// Data Retrieval Confirm (section 3.3.1.10).
    RETRIEVAL_CONFIRM => RetrievalConfirm(RetrievalConfirm),
    /// Data Retrieval Indication (section 3.3.1.11).
    RETRIEVAL_INDICATION => RetrievalIndication(RetrievalIndication),
    /// Data Retrieval Complete Indication (section 3.3.1.12).
    RETRIEVAL_COMPLETE => RetrievalComplete(RetrievalComplete),
}
