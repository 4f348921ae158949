//! Messages (RFC 4233, section 3.3), each drawn above its type.

mod asptm;
mod mgmt;
mod qptm;

pub use asptm::AspActive;
pub use mgmt::{ErrorMessage, TeiQuery, TeiStatusMessage, TeiStatusRequest};
pub use qptm::{Data, DataLink, ReleaseIndication, ReleaseRequest};

use super::{kinds, tag};
use crate::message::body::messages;
use crate::message::interface::{AspInactive, Notify, identifier_is_first, is_at};
use crate::message::{AspDown, AspUp, DecodeError, Heartbeat, RawMessage};

messages! {
    /// Message of IUA.
    classes MGMT | ASPSM | ASPTM | QPTM, excluded tag::is_excluded,
    /// Error, ERR (section 3.3.3.1).
    ERR => Error(ErrorMessage),
    /// Notify, NTFY (section 3.3.3.2).
    NTFY => Notify(Notify),
    /// TEI Status Request (section 3.3.3.3).
    TEI_STATUS_REQUEST => TeiStatusRequest(TeiStatusRequest),
    /// TEI Status Confirm (section 3.3.3.3).
    TEI_STATUS_CONFIRM => TeiStatusConfirm(TeiStatusMessage),
    /// TEI Status Indication (section 3.3.3.3).
    TEI_STATUS_INDICATION => TeiStatusIndication(TeiStatusMessage),
    /// TEI Query Request (section 3.3.3.4).
    TEI_QUERY => TeiQuery(TeiQuery),
    /// ASP Up, ASPUP (section 3.3.2.1).
    ASPUP => AspUp(AspUp),
    /// ASP Up Ack (section 3.3.2.2).
    ASPUP_ACK => AspUpAck(AspUp),
    /// ASP Down, ASPDN (section 3.3.2.3).
    ASPDN => AspDown(AspDown),
    /// ASP Down Ack (section 3.3.2.4).
    ASPDN_ACK => AspDownAck(AspDown),
    /// Heartbeat, BEAT (section 3.3.2.9).
    BEAT => Heartbeat(Heartbeat),
    /// Heartbeat Ack (section 3.3.2.10).
    BEAT_ACK => HeartbeatAck(Heartbeat),
    /// ASP Active, ASPAC (section 3.3.2.5).
    ASPAC => AspActive(AspActive),
    /// ASP Active Ack (section 3.3.2.6).
    ASPAC_ACK => AspActiveAck(AspActive),
    /// ASP Inactive, ASPIA (section 3.3.2.7).
    ASPIA => AspInactive(AspInactive),
    /// ASP Inactive Ack (section 3.3.2.8).
    ASPIA_ACK => AspInactiveAck(AspInactive),
    /// Data Request (section 3.3.1.3).
    DATA_REQUEST => DataRequest(Data),
    /// Data Indication (section 3.3.1.3).
    DATA_INDICATION => DataIndication(Data),
    /// Unit Data Request (section 3.3.1.4).
    UNIT_DATA_REQUEST => UnitDataRequest(Data),
    /// Unit Data Indication (section 3.3.1.4).
    UNIT_DATA_INDICATION => UnitDataIndication(Data),
    /// Establish Request (section 3.3.1.1).
    ESTABLISH_REQUEST => EstablishRequest(DataLink),
    /// Establish Confirm (section 3.3.1.1).
    ESTABLISH_CONFIRM => EstablishConfirm(DataLink),
    /// Establish Indication (section 3.3.1.1).
    ESTABLISH_INDICATION => EstablishIndication(DataLink),
    /// Release Request (section 3.3.1.2).
    RELEASE_REQUEST => ReleaseRequest(ReleaseRequest),
    /// Release Confirm (section 3.3.1.2).
    RELEASE_CONFIRM => ReleaseConfirm(DataLink),
    /// Release Indication (section 3.3.1.2).
    RELEASE_INDICATION => ReleaseIndication(ReleaseIndication),
}

/// Checks that the message header precedes the other parameters: the interface identifier and the DLCI (section 3.2).
fn header_is_first(raw: RawMessage<'_>) -> Result<(), DecodeError> {
    identifier_is_first(raw)?;
    let has_identifier = raw.parameters().flatten().any(|parameter| {
        matches!(
            parameter.tag,
            tag::INTERFACE_IDENTIFIER | tag::INTERFACE_IDENTIFIER_TEXT
        )
    });
    is_at(raw, usize::from(has_identifier), |tag| tag == tag::DLCI)
}
