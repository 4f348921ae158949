//! Messages with all their parameters.

use std::net::IpAddr;

use bytes::Bytes;
use carrick_sigtran::sua::*;

use crate::layer::layer;
use crate::samples::{affected, code, contexts, info};

layer!(sua, full);

pub(crate) fn global_title() -> GlobalTitle {
    GlobalTitle {
        indicator: 4,
        translation_type: 0,
        numbering_plan: 1,
        nature_of_address: 4,
        digits: AddressSignals::new("49170123456").expect("digits"),
    }
}

fn source() -> SourceAddress {
    SourceAddress(Address::point_code(code(0x0818), SubsystemNumber(8)))
}

fn destination() -> DestinationAddress {
    DestinationAddress(Address::global_title(global_title(), SubsystemNumber(6)))
}

/// Address on a host name.
pub(crate) fn host() -> Address {
    Address {
        indicator: AddressIndicator::default(),
        route: Route::HostName {
            host_name: HostName::new("hlr-1.example.com").expect("a host name"),
            ssn: Some(SubsystemNumber(6)),
        },
    }
}

/// Address on an IP address.
pub(crate) fn ip(address: &str) -> Address {
    let address: IpAddr = address.parse().expect("an IP address");
    Address {
        indicator: AddressIndicator::default(),
        route: Route::IpAddress {
            ssn: SubsystemNumber(6),
            address: Some(address),
        },
    }
}

fn sequence_numbers() -> SequenceNumbers {
    SequenceNumbers {
        received: SequenceNumber::new(5).expect("7 bits"),
        more: true,
        sent: SequenceNumber::new(100).expect("7 bits"),
    }
}

pub(crate) const CONTEXT: RoutingContext = RoutingContext(3);
const DRN: DestinationReferenceNumber = DestinationReferenceNumber(0x0001_0203);
const SRN: SourceReferenceNumber = SourceReferenceNumber(0x0004_0506);
const CLASS_3: ProtocolClass = ProtocolClass::new(ServiceClass::Class3);

fn data() -> UserData {
    UserData(Bytes::from_static(b"12345"))
}

/// Each message with all its parameters.
pub(crate) fn full() -> Vec<Message> {
    [
        network(),
        maintenance(),
        connectionless(),
        connection_oriented(),
    ]
    .concat()
}

/// Management and SNM messages.
fn network() -> Vec<Message> {
    let state = DestinationState {
        routing_contexts: contexts(&[1, 2]),
        affected: AffectedPointCodes(vec![AffectedPointCode::single(code(0x13a5))]),
        ssn: Some(SubsystemNumber(8)),
        smi: Some(Smi::Duplicated),
        info: info(),
    };
    let user_cause = UserCause {
        cause: UnavailabilityCause::INACCESSIBLE,
        user: UserIdentity::SCCP,
    };
    vec![
        Message::Error(ErrorMessage {
            code: ErrorCode::SUBSYSTEM_STATUS_UNKNOWN,
            routing_contexts: contexts(&[4]),
            affected: Some(affected()),
            network_appearance: Some(NetworkAppearance(7)),
            ssn: Some(SubsystemNumber(8)),
            diagnostic: Some(DiagnosticInformation(Bytes::from_static(&[
                1, 0, 2, 3, 0, 0, 0, 16, 0, 18, 0, 8, 0, 0, 8, 24,
            ]))),
        }),
        Message::Notify(Notify {
            status: Status::AsPending,
            asp_identifier: Some(AspIdentifier(12)),
            routing_contexts: contexts(&[1, 2]),
            info: info(),
        }),
        Message::DestinationUnavailable(state.clone()),
        Message::DestinationAvailable(state.clone()),
        Message::DestinationStateAudit(DestinationStateAudit {
            routing_contexts: contexts(&[1]),
            affected: affected(),
            ssn: Some(SubsystemNumber(8)),
            user_cause: Some(user_cause),
            info: info(),
        }),
        Message::SignallingCongestion(SignallingCongestion {
            routing_contexts: contexts(&[1]),
            affected: affected(),
            ssn: Some(SubsystemNumber(8)),
            level: CongestionLevel::new(3).expect("a level"),
            smi: Some(Smi::Solitary),
            info: info(),
        }),
        Message::UserPartUnavailable(UserPartUnavailable {
            routing_contexts: contexts(&[1]),
            affected: UnavailableUserPart(code(0x13a5)),
            user_cause,
            info: info(),
        }),
        Message::DestinationRestricted(state),
    ]
}

fn routing_keys() -> Vec<RoutingKey> {
    let range = |last| [Address::point_code(code(1), SubsystemNumber(8)), last];
    vec![
        RoutingKey {
            local_id: LocalRoutingKeyIdentifier(5),
            traffic_mode: Some(RequestedTrafficMode(TrafficMode::BROADCAST)),
            network_appearance: Some(NetworkAppearance(7)),
            source: Some(source()),
            destination: Some(destination()),
            range: Some(AddressRange::Destination(vec![range(Address::point_code(
                code(5),
                SubsystemNumber(8),
            ))])),
        },
        RoutingKey {
            local_id: LocalRoutingKeyIdentifier(6),
            traffic_mode: None,
            network_appearance: None,
            source: None,
            destination: None,
            range: None,
        },
    ]
}

/// ASPSM, ASPTM and RKM messages.
fn maintenance() -> Vec<Message> {
    let asp = AspUp {
        asp_identifier: Some(AspIdentifier(12)),
        info: info(),
    };
    let down = AspDown { info: info() };
    let inactive = AspInactive {
        routing_contexts: contexts(&[1, 2, 3]),
        info: info(),
    };
    let beat = Heartbeat::new(b"12345").expect("a short heartbeat");
    vec![
        Message::AspUp(asp.clone()),
        Message::AspUpAck(asp),
        Message::AspDown(down.clone()),
        Message::AspDownAck(down),
        Message::Heartbeat(beat.clone()),
        Message::HeartbeatAck(beat),
        Message::AspActive(AspActive {
            traffic_mode: Some(TrafficMode::LOADSHARE),
            routing_contexts: contexts(&[1, 2, 3]),
            tid_label: Some(TidLabel {
                position: LabelPosition { start: 31, end: 28 },
                label: 3,
            }),
            drn_label: Some(DrnLabel {
                position: LabelPosition { start: 23, end: 8 },
                label: 4,
            }),
            info: info(),
        }),
        Message::AspActiveAck(AspActiveAck {
            traffic_mode: Some(TrafficMode::LOADSHARE),
            routing_contexts: contexts(&[1, 2, 3]).expect("contexts"),
            info: info(),
        }),
        Message::AspInactive(inactive.clone()),
        Message::AspInactiveAck(inactive),
        Message::RegistrationRequest(RegistrationRequest {
            routing_keys: routing_keys(),
            capabilities: Some(AspCapabilities {
                classes: [true, false, true, true],
                interworking: Interworking::RelayNode,
            }),
        }),
        Message::RegistrationResponse(RegistrationResponse {
            results: vec![RegistrationResult {
                local_id: LocalRoutingKeyIdentifier(5),
                status: RegistrationStatus::CHANGE_REFUSED,
                routing_context: RoutingContext(0),
            }],
        }),
        Message::DeregistrationRequest(DeregistrationRequest {
            routing_contexts: contexts(&[1, 2]).expect("two contexts"),
        }),
        Message::DeregistrationResponse(DeregistrationResponse {
            results: vec![DeregistrationResult {
                routing_context: RoutingContext(1),
                status: DeregistrationStatus::ASP_ACTIVE,
            }],
        }),
    ]
}

fn connectionless() -> Vec<Message> {
    let segmentation = Segmentation {
        first: true,
        remaining: 2,
        reference: SegmentationReference::new(0x000a_0b0c),
    };
    vec![
        Message::ConnectionlessDataTransfer(ConnectionlessDataTransfer {
            routing_context: CONTEXT,
            protocol_class: ProtocolClass {
                class: ServiceClass::Class1,
                return_on_error: true,
            },
            source: source(),
            destination: destination(),
            sequence_control: SequenceControl(9),
            hop_counter: HopCounter::new(15),
            importance: Importance::new(7),
            priority: MessagePriority::new(0xff),
            correlation_id: Some(CorrelationId(99)),
            segmentation: Some(segmentation),
            data: data(),
        }),
        Message::ConnectionlessDataResponse(ConnectionlessDataResponse {
            routing_context: CONTEXT,
            cause: ReturnCause::HOP_COUNTER_VIOLATION,
            source: SourceAddress(destination().0),
            destination: DestinationAddress(source().0),
            hop_counter: HopCounter::new(1),
            importance: Importance::new(0),
            priority: MessagePriority::new(3),
            correlation_id: Some(CorrelationId(99)),
            segmentation: Some(segmentation),
            data: Some(data()),
        }),
    ]
}

fn connection_oriented() -> Vec<Message> {
    let (importance, priority) = (Importance::new(5), MessagePriority::new(1));
    vec![
        Message::ConnectionOrientedDataTransfer(ConnectionOrientedDataTransfer {
            routing_context: CONTEXT,
            sequence_numbers: Some(sequence_numbers()),
            destination_reference: DRN,
            priority,
            correlation_id: Some(CorrelationId(99)),
            data: data(),
        }),
        Message::ConnectionOrientedDataAcknowledge(ConnectionOrientedDataAcknowledge {
            routing_context: CONTEXT,
            destination_reference: DRN,
            received: Some(ReceiveSequenceNumber(sequence_numbers().sent)),
            credit: Some(Credit(12)),
        }),
        Message::ConnectionRequest(ConnectionRequest {
            routing_context: CONTEXT,
            protocol_class: CLASS_3,
            source_reference: SRN,
            destination: destination(),
            sequence_control: SequenceControl(9),
            sequence_numbers: Some(SequenceNumbers::default()),
            source: Some(source()),
            hop_counter: HopCounter::new(10),
            importance,
            priority,
            credit: Some(Credit(12)),
            data: Some(data()),
        }),
        Message::ConnectionAcknowledge(ConnectionAcknowledge {
            routing_context: CONTEXT,
            protocol_class: CLASS_3,
            destination_reference: DRN,
            source_reference: SRN,
            sequence_control: SequenceControl(9),
            credit: Some(Credit(12)),
            source: Some(SourceAddress(host())),
            importance,
            priority,
            destination: Some(DestinationAddress(ip("2001:db8::1"))),
            data: Some(data()),
        }),
        Message::ConnectionRefused(ConnectionRefused {
            routing_context: CONTEXT,
            destination_reference: DRN,
            cause: RefusalCause::UNEQUIPPED_USER,
            source: Some(SourceAddress(ip("192.0.2.1"))),
            destination: Some(DestinationAddress(source().0)),
            importance,
            data: Some(data()),
        }),
        Message::ReleaseRequest(ReleaseRequest {
            routing_context: CONTEXT,
            destination_reference: DRN,
            source_reference: SRN,
            cause: ReleaseCause::INACTIVITY_TIMER,
            importance,
            data: Some(data()),
        }),
        Message::ReleaseComplete(ReleaseComplete {
            routing_context: CONTEXT,
            destination_reference: DRN,
            source_reference: SRN,
            importance,
        }),
        Message::ResetRequest(ResetRequest {
            routing_context: CONTEXT,
            destination_reference: DRN,
            source_reference: SRN,
            cause: ResetCause::OUT_OF_WINDOW,
        }),
        Message::ResetConfirm(ResetConfirm {
            routing_context: CONTEXT,
            destination_reference: DRN,
            source_reference: SRN,
        }),
        Message::ConnectionOrientedError(ConnectionOrientedError {
            routing_context: CONTEXT,
            destination_reference: DRN,
            cause: ErrorCause::SERVICE_CLASS_MISMATCH,
        }),
        Message::InactivityTest(InactivityTest {
            routing_context: CONTEXT,
            protocol_class: CLASS_3,
            source_reference: SRN,
            destination_reference: DRN,
            sequence_numbers: sequence_numbers(),
            credit: Credit(12),
        }),
    ]
}
