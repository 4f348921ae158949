//! Messages with all their parameters, and with as few as possible.

use bytes::Bytes;
use carrick_sigtran::m3ua::*;

pub(crate) fn code(value: u32) -> PointCode {
    PointCode::new(value).expect("at most 24 bits")
}

pub(crate) fn contexts(values: &[u32]) -> Option<RoutingContexts> {
    RoutingContexts::new(values.iter().copied().map(RoutingContext))
}

pub(crate) fn info() -> Option<InfoString> {
    InfoString::new("carrick")
}

pub(crate) fn affected() -> AffectedPointCodes {
    AffectedPointCodes(vec![
        AffectedPointCode::single(code(0x13a5)),
        AffectedPointCode {
            mask: 3,
            point_code: code(0x0818),
        },
    ])
}

pub(crate) fn data(sls: u8, user_data: &[u8]) -> Data {
    Data {
        network_appearance: None,
        routing_context: Some(RoutingContext(1)),
        protocol_data: ProtocolData {
            opc: code(0x0818),
            dpc: code(0x13a5),
            si: 3,
            ni: 2,
            mp: 0,
            sls,
            user_data: Bytes::copy_from_slice(user_data),
        },
        correlation_id: None,
    }
}

fn destination_state() -> DestinationState {
    DestinationState {
        network_appearance: Some(NetworkAppearance(7)),
        routing_contexts: contexts(&[1, 2]),
        affected: affected(),
        info: info(),
    }
}

/// Each message with all its parameters.
pub(crate) fn full() -> Vec<Message> {
    [network(), maintenance()].concat()
}

/// Management, transfer and SSNM messages.
fn network() -> Vec<Message> {
    vec![
        Message::Error(ErrorMessage {
            routing_contexts: contexts(&[4]),
            affected: Some(affected()),
            network_appearance: Some(NetworkAppearance(7)),
            diagnostic: Some(DiagnosticInformation(Bytes::from_static(&[
                1, 0, 2, 3, 0, 0, 0, 16, 0, 18, 0, 8, 0, 0, 8, 24,
            ]))),
            ..ErrorMessage::new(ErrorCode::DESTINATION_STATUS_UNKNOWN)
        }),
        Message::Notify(Notify {
            status: Status::AsPending,
            asp_identifier: Some(AspIdentifier(12)),
            routing_contexts: contexts(&[1, 2]),
            info: info(),
        }),
        Message::Data(Data {
            network_appearance: Some(NetworkAppearance(7)),
            correlation_id: Some(CorrelationId(99)),
            // An SCCP UDT to subsystem 8.
            ..data(
                5,
                &[9, 0, 3, 5, 7, 2, 0x42, 8, 2, 0x42, 8, 5, 1, 2, 3, 4, 5],
            )
        }),
        Message::DestinationUnavailable(destination_state()),
        Message::DestinationAvailable(destination_state()),
        Message::DestinationStateAudit(destination_state()),
        Message::SignallingCongestion(SignallingCongestion {
            network_appearance: Some(NetworkAppearance(7)),
            routing_contexts: contexts(&[1]),
            affected: affected(),
            concerned: Some(ConcernedDestination(code(0x0818))),
            level: CongestionLevel::new(2),
            info: info(),
        }),
        Message::UserPartUnavailable(UserPartUnavailable {
            network_appearance: Some(NetworkAppearance(7)),
            routing_contexts: contexts(&[1]),
            affected: UnavailableUserPart(code(0x13a5)),
            user_cause: UserCause {
                cause: UnavailabilityCause::UNEQUIPPED,
                user: UserIdentity::ISUP,
            },
            info: info(),
        }),
        Message::DestinationRestricted(destination_state()),
    ]
}

fn routing_keys() -> Vec<RoutingKey> {
    let key = RoutingKey {
        local_id: LocalRoutingKeyIdentifier(5),
        routing_context: Some(RoutingContext(9)),
        traffic_mode: Some(TrafficMode::OVERRIDE),
        network_appearance: Some(NetworkAppearance(7)),
        destinations: vec![
            RoutingKeyDestination {
                dpc: code(0x13a5),
                service_indicators: vec![3, 5, 13],
                opcs: affected().0,
            },
            RoutingKeyDestination::all(code(0x13a6)),
        ],
    };
    let plain_key = RoutingKey {
        local_id: LocalRoutingKeyIdentifier(6),
        routing_context: None,
        traffic_mode: None,
        network_appearance: None,
        destinations: vec![RoutingKeyDestination::all(code(1))],
    };
    vec![key, plain_key]
}

/// ASPSM, ASPTM and RKM messages.
fn maintenance() -> Vec<Message> {
    let asp = AspUp {
        asp_identifier: Some(AspIdentifier(12)),
        info: info(),
    };
    let down = AspDown { info: info() };
    let active = AspActive {
        traffic_mode: Some(TrafficMode::LOADSHARE),
        routing_contexts: contexts(&[1, 2, 3]),
        info: info(),
    };
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
        Message::RegistrationRequest(RegistrationRequest {
            routing_keys: routing_keys(),
        }),
        Message::RegistrationResponse(RegistrationResponse {
            results: vec![
                RegistrationResult {
                    local_id: LocalRoutingKeyIdentifier(5),
                    status: RegistrationStatus::SUCCESS,
                    routing_context: RoutingContext(9),
                },
                RegistrationResult {
                    local_id: LocalRoutingKeyIdentifier(6),
                    status: RegistrationStatus::NO_UNIQUE_ROUTING,
                    routing_context: RoutingContext(0),
                },
            ],
        }),
        Message::DeregistrationRequest(DeregistrationRequest {
            routing_contexts: contexts(&[1, 2]).expect("two contexts"),
        }),
        Message::DeregistrationResponse(DeregistrationResponse {
            results: vec![
                DeregistrationResult {
                    routing_context: RoutingContext(1),
                    status: DeregistrationStatus::SUCCESS,
                },
                DeregistrationResult {
                    routing_context: RoutingContext(2),
                    status: DeregistrationStatus::ASP_ACTIVE,
                },
            ],
        }),
        Message::AspActive(active.clone()),
        Message::AspActiveAck(active),
        Message::AspInactive(inactive.clone()),
        Message::AspInactiveAck(inactive),
    ]
}

/// Each message with its mandatory parameters only.
pub(crate) fn minimal() -> Vec<Message> {
    full()
        .into_iter()
        .map(|message| match message {
            Message::Error(body) => Message::Error(ErrorMessage::new(body.code)),
            Message::Notify(body) => Message::Notify(Notify {
                status: body.status,
                asp_identifier: None,
                routing_contexts: None,
                info: None,
            }),
            Message::Data(body) => Message::Data(Data {
                network_appearance: None,
                routing_context: None,
                correlation_id: None,
                ..body
            }),
            Message::DestinationUnavailable(body) => Message::DestinationUnavailable(bare(body)),
            Message::DestinationAvailable(body) => Message::DestinationAvailable(bare(body)),
            Message::DestinationStateAudit(body) => Message::DestinationStateAudit(bare(body)),
            Message::DestinationRestricted(body) => Message::DestinationRestricted(bare(body)),
            Message::SignallingCongestion(body) => {
                Message::SignallingCongestion(SignallingCongestion {
                    network_appearance: None,
                    routing_contexts: None,
                    concerned: None,
                    level: None,
                    info: None,
                    ..body
                })
            }
            Message::UserPartUnavailable(body) => {
                Message::UserPartUnavailable(UserPartUnavailable {
                    network_appearance: None,
                    routing_contexts: None,
                    info: None,
                    ..body
                })
            }
            Message::AspUp(_) => Message::AspUp(AspUp::default()),
            Message::AspUpAck(_) => Message::AspUpAck(AspUp::default()),
            Message::AspDown(_) => Message::AspDown(AspDown::default()),
            Message::AspDownAck(_) => Message::AspDownAck(AspDown::default()),
            Message::Heartbeat(_) => Message::Heartbeat(Heartbeat::default()),
            Message::HeartbeatAck(_) => Message::HeartbeatAck(Heartbeat::default()),
            Message::AspActive(_) => Message::AspActive(AspActive::default()),
            Message::AspActiveAck(_) => Message::AspActiveAck(AspActive::default()),
            Message::AspInactive(_) => Message::AspInactive(AspInactive::default()),
            Message::AspInactiveAck(_) => Message::AspInactiveAck(AspInactive::default()),
            other => other,
        })
        .collect()
}

fn bare(body: DestinationState) -> DestinationState {
    DestinationState {
        network_appearance: None,
        routing_contexts: None,
        info: None,
        ..body
    }
}
