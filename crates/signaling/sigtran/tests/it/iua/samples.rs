//! Messages with all their parameters.

use bytes::Bytes;
use carrick_sigtran::iua::*;

use crate::layer::layer;
use crate::m2ua::samples::{integers, text};
use crate::samples::info;

layer!(iua, full);

const INTERFACE: InterfaceIdentifier = InterfaceIdentifier::Integer(7);

pub(crate) fn dlci() -> Dlci {
    Dlci::new(0, 64).expect("a DLCI")
}

/// Each message with all its parameters.
pub(crate) fn full() -> Vec<Message> {
    [maintenance(), data_link()].concat()
}

fn maintenance() -> Vec<Message> {
    let asp = AspUp {
        asp_identifier: Some(AspIdentifier(12)),
        info: info(),
    };
    let down = AspDown { info: info() };
    let active = AspActive {
        traffic_mode: TrafficMode::Override,
        identifiers: Some(integers()),
        info: info(),
    };
    let inactive = AspInactive {
        identifiers: Some(InterfaceIdentifiers::Texts(vec![text("d-1")])),
        info: info(),
    };
    let beat = Heartbeat::new(b"12345").expect("a short heartbeat");
    let status = TeiStatusMessage {
        identifier: INTERFACE,
        dlci: dlci(),
        status: TeiStatus::Unassigned,
    };
    vec![
        Message::Error(ErrorMessage {
            code: ErrorCode::UNASSIGNED_TEI,
            diagnostic: Some(DiagnosticInformation(Bytes::from_static(&[
                1, 0, 5, 5, 0, 0, 0, 8,
            ]))),
        }),
        Message::Notify(Notify {
            status: Status::AspFailure,
            asp_identifier: Some(AspIdentifier(12)),
            identifiers: Some(integers()),
            info: info(),
        }),
        Message::TeiStatusRequest(TeiStatusRequest {
            identifier: INTERFACE,
            dlci: dlci(),
        }),
        Message::TeiStatusConfirm(status.clone()),
        Message::TeiStatusIndication(status),
        Message::TeiQuery(TeiQuery {
            identifier: INTERFACE,
            dlci: IgnoredDlci,
        }),
        Message::AspUp(asp.clone()),
        Message::AspUpAck(asp),
        Message::AspDown(down.clone()),
        Message::AspDownAck(down),
        Message::Heartbeat(beat.clone()),
        Message::HeartbeatAck(beat),
        Message::AspActive(active.clone()),
        Message::AspActiveAck(active),
        Message::AspInactive(inactive.clone()),
        Message::AspInactiveAck(inactive),
    ]
}

/// QPTM messages.
fn data_link() -> Vec<Message> {
    let data = Data {
        identifier: INTERFACE,
        dlci: dlci(),
        // A Q.931 SETUP ACKNOWLEDGE.
        protocol_data: ProtocolData(Bytes::from_static(&[8, 1, 5, 0x0d, 0x18, 1, 0x8a])),
    };
    let link = DataLink {
        identifier: INTERFACE,
        dlci: dlci(),
    };
    vec![
        Message::DataRequest(data.clone()),
        Message::DataIndication(data.clone()),
        Message::UnitDataRequest(data.clone()),
        Message::UnitDataIndication(data),
        Message::EstablishRequest(link.clone()),
        Message::EstablishConfirm(link.clone()),
        Message::EstablishIndication(link.clone()),
        Message::ReleaseRequest(ReleaseRequest {
            identifier: INTERFACE,
            dlci: dlci(),
            reason: ReleaseReason::Dm,
        }),
        Message::ReleaseConfirm(link),
        Message::ReleaseIndication(ReleaseIndication {
            identifier: INTERFACE,
            dlci: dlci(),
            reason: ReleaseReason::Physical,
        }),
    ]
}
