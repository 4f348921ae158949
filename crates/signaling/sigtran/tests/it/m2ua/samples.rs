//! Messages with all their parameters.

use bytes::Bytes;
use carrick_sigtran::m2ua::*;

use crate::layer::layer;
use crate::samples::info;

layer!(m2ua, full);

pub(crate) fn text(text: &str) -> TextIdentifier {
    TextIdentifier::new(text).expect("a text identifier")
}

pub(crate) fn integers() -> InterfaceIdentifiers {
    InterfaceIdentifiers::Integers {
        identifiers: vec![1, 2],
        ranges: vec![InterfaceRange { start: 5, stop: 9 }],
    }
}

pub(crate) const LINK: InterfaceIdentifier = InterfaceIdentifier::Integer(7);

fn msu() -> ProtocolData {
    // A signalling link test message from 5029 to 2072.
    ProtocolData::Mtp2(Bytes::from_static(&[
        0xc1, 0x18, 0x48, 0xe9, 0x04, 0x11, 0x20, 0xaa, 0xbb,
    ]))
}

/// Each message with all its parameters.
pub(crate) fn full() -> Vec<Message> {
    [maintenance(), link()].concat()
}

fn maintenance() -> Vec<Message> {
    let asp = AspUp {
        asp_identifier: Some(AspIdentifier(12)),
        info: info(),
    };
    let down = AspDown { info: info() };
    let active = AspActive {
        traffic_mode: Some(TrafficMode::BROADCAST),
        identifiers: Some(integers()),
        info: info(),
    };
    let inactive = AspInactive {
        identifiers: Some(InterfaceIdentifiers::Texts(vec![text("link-1")])),
        info: info(),
    };
    let beat = Heartbeat::new(b"12345").expect("a short heartbeat");
    vec![
        Message::Error(ErrorMessage {
            code: ErrorCode::INVALID_INTERFACE_IDENTIFIER,
            identifiers: Some(integers()),
            diagnostic: Some(DiagnosticInformation(Bytes::from_static(&[
                1, 0, 4, 1, 0, 0, 0, 8,
            ]))),
        }),
        Message::Notify(Notify {
            status: Status::AlternateAspActive,
            asp_identifier: Some(AspIdentifier(12)),
            identifiers: Some(integers()),
            info: info(),
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
        Message::RegistrationRequest(RegistrationRequest {
            link_keys: vec![LinkKey {
                local_id: LocalLinkKeyIdentifier(5),
                sdt: SdtIdentifier(0x0123),
                sdl: SdlIdentifier(0x0456),
            }],
        }),
        Message::RegistrationResponse(RegistrationResponse {
            results: vec![RegistrationResult {
                local_id: LocalLinkKeyIdentifier(5),
                status: RegistrationStatus::SUCCESS,
                identifier: LINK,
            }],
        }),
        Message::DeregistrationRequest(DeregistrationRequest {
            identifiers: vec![LINK],
        }),
        Message::DeregistrationResponse(DeregistrationResponse {
            results: vec![DeregistrationResult {
                identifier: LINK,
                status: DeregistrationStatus::NOT_REGISTERED,
            }],
        }),
    ]
}

/// MAUP messages.
fn link() -> Vec<Message> {
    let link = LinkMessage { identifier: LINK };
    let state = StateMessage {
        identifier: LINK,
        state: State::LocalProcessorOutageSet,
    };
    vec![
        Message::Data(Data {
            identifier: LINK,
            protocol_data: msu(),
            correlation_id: Some(CorrelationId(99)),
        }),
        Message::DataAcknowledge(DataAcknowledge {
            identifier: LINK,
            correlation_id: CorrelationId(99),
        }),
        Message::EstablishRequest(link.clone()),
        Message::EstablishConfirm(link.clone()),
        Message::ReleaseRequest(link.clone()),
        Message::ReleaseConfirm(link.clone()),
        Message::ReleaseIndication(link),
        Message::StateRequest(state.clone()),
        Message::StateConfirm(state),
        Message::StateIndication(StateIndication {
            identifier: LINK,
            event: Event::RemoteProcessorOutageExit,
        }),
        Message::CongestionIndication(CongestionIndication {
            identifier: LINK,
            congestion: CongestionStatus::Level2,
            discard: Some(DiscardStatus::Level1),
        }),
        Message::RetrievalRequest(RetrievalRequest {
            identifier: LINK,
            action: Action::RetrieveMessages,
            sequence_number: Some(SequenceNumber(42)),
        }),
        Message::RetrievalConfirm(RetrievalConfirm {
            identifier: LINK,
            action: Action::RetrieveBsn,
            result: RetrievalResult::Success,
            sequence_number: Some(SequenceNumber(41)),
        }),
        Message::RetrievalIndication(RetrievalIndication {
            identifier: LINK,
            protocol_data: msu(),
        }),
        Message::RetrievalComplete(RetrievalComplete {
            identifier: LINK,
            protocol_data: Some(msu()),
        }),
    ]
}
