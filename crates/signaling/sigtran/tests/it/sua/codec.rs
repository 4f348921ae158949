//! Properties of all messages.

use carrick_sigtran::message::MessageKind;
use carrick_sigtran::sua::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::samples::{full, host, ip};
use crate::layer::{
    check_mandatory, check_order, check_repeated, check_tags, properties, round_trip,
};
use crate::samples::code;

properties!(Message, 35);

/// Mandatory parameters of the full messages.
const MANDATORY: &[(MessageKind, &[u16])] = &[
    (kinds::DUNA, &[tag::AFFECTED_POINT_CODE]),
    (kinds::DAVA, &[tag::AFFECTED_POINT_CODE]),
    (kinds::DAUD, &[tag::AFFECTED_POINT_CODE]),
    (
        kinds::SCON,
        &[tag::AFFECTED_POINT_CODE, tag::CONGESTION_LEVEL],
    ),
    (kinds::DUPU, &[tag::AFFECTED_POINT_CODE, tag::USER_CAUSE]),
    (kinds::DRST, &[tag::AFFECTED_POINT_CODE]),
    (kinds::ASPAC_ACK, &[tag::ROUTING_CONTEXT]),
    (kinds::REG_REQ, &[tag::ROUTING_KEY]),
    (kinds::REG_RSP, &[tag::REGISTRATION_RESULT]),
    (kinds::DEREG_REQ, &[tag::ROUTING_CONTEXT]),
    (kinds::DEREG_RSP, &[tag::DEREGISTRATION_RESULT]),
    (
        kinds::CLDT,
        &[
            tag::ROUTING_CONTEXT,
            tag::PROTOCOL_CLASS,
            tag::SOURCE_ADDRESS,
            tag::DESTINATION_ADDRESS,
            tag::SEQUENCE_CONTROL,
            tag::DATA,
        ],
    ),
    (
        kinds::CLDR,
        &[
            tag::ROUTING_CONTEXT,
            tag::SCCP_CAUSE,
            tag::SOURCE_ADDRESS,
            tag::DESTINATION_ADDRESS,
        ],
    ),
    (
        kinds::CODT,
        &[
            tag::ROUTING_CONTEXT,
            tag::DESTINATION_REFERENCE_NUMBER,
            tag::DATA,
        ],
    ),
    // The credit, because the message has a receive sequence number.
    (
        kinds::CODA,
        &[
            tag::ROUTING_CONTEXT,
            tag::DESTINATION_REFERENCE_NUMBER,
            tag::CREDIT,
        ],
    ),
    // The sequence numbers and the credit, because the protocol class is 3.
    (
        kinds::CORE,
        &[
            tag::ROUTING_CONTEXT,
            tag::PROTOCOL_CLASS,
            tag::SOURCE_REFERENCE_NUMBER,
            tag::DESTINATION_ADDRESS,
            tag::SEQUENCE_CONTROL,
            tag::SEQUENCE_NUMBER,
            tag::CREDIT,
        ],
    ),
    (
        kinds::COAK,
        &[
            tag::ROUTING_CONTEXT,
            tag::PROTOCOL_CLASS,
            tag::DESTINATION_REFERENCE_NUMBER,
            tag::SOURCE_REFERENCE_NUMBER,
            tag::SEQUENCE_CONTROL,
            tag::CREDIT,
        ],
    ),
    (
        kinds::COREF,
        &[
            tag::ROUTING_CONTEXT,
            tag::DESTINATION_REFERENCE_NUMBER,
            tag::SCCP_CAUSE,
        ],
    ),
    (
        kinds::RELRE,
        &[
            tag::ROUTING_CONTEXT,
            tag::DESTINATION_REFERENCE_NUMBER,
            tag::SOURCE_REFERENCE_NUMBER,
            tag::SCCP_CAUSE,
        ],
    ),
    (
        kinds::RELCO,
        &[
            tag::ROUTING_CONTEXT,
            tag::DESTINATION_REFERENCE_NUMBER,
            tag::SOURCE_REFERENCE_NUMBER,
        ],
    ),
    (
        kinds::RESRE,
        &[
            tag::ROUTING_CONTEXT,
            tag::DESTINATION_REFERENCE_NUMBER,
            tag::SOURCE_REFERENCE_NUMBER,
            tag::SCCP_CAUSE,
        ],
    ),
    (
        kinds::RESCO,
        &[
            tag::ROUTING_CONTEXT,
            tag::DESTINATION_REFERENCE_NUMBER,
            tag::SOURCE_REFERENCE_NUMBER,
        ],
    ),
    (
        kinds::COERR,
        &[
            tag::ROUTING_CONTEXT,
            tag::DESTINATION_REFERENCE_NUMBER,
            tag::SCCP_CAUSE,
        ],
    ),
    (
        kinds::COIT,
        &[
            tag::ROUTING_CONTEXT,
            tag::PROTOCOL_CLASS,
            tag::SOURCE_REFERENCE_NUMBER,
            tag::DESTINATION_REFERENCE_NUMBER,
            tag::SEQUENCE_NUMBER,
            tag::CREDIT,
        ],
    ),
];

/// RFC 3868, section 3.9.12: Missing Parameter
#[test]
fn mandatory_parameters_are_demanded() {
    check_mandatory::<Message>(MANDATORY);
}

/// RFC 3868, section 3.1: optional parameters occur at most once
#[test]
fn repeated_parameters_are_rejected() {
    check_repeated::<Message>(
        &[
            tag::ROUTING_KEY,
            tag::REGISTRATION_RESULT,
            tag::DEREGISTRATION_RESULT,
        ],
        &[],
    );
}

/// RFC 3868, section 3.9: parameters that are not used in SUA
#[test]
fn parameters_of_other_layers_are_rejected() {
    let excluded = [0, 1, 2, 3, 5, 8, 0x0a, 0x0e, 0x0f, 0x10];
    check_tags::<Message>(&excluded, &[0x0019, 0x0119, 0x0200, 0x8007, 0xffff]);
}

/// RFC 3868, section 3.1.5: parameters may be in any order
#[test]
fn parameters_are_accepted_in_any_order() {
    check_order::<Message>(&[kinds::REG_REQ]);
}

fn digits() -> impl Strategy<Value = AddressSignals> {
    "[0-9a-f]{0,20}".prop_map(|text| AddressSignals::new(&text).expect("digits"))
}

fn global_title() -> impl Strategy<Value = GlobalTitle> {
    let fields = (1..=4_u8, any::<[u8; 3]>(), digits());
    fields.prop_map(|(indicator, [tt, np, nature], digits)| GlobalTitle {
        indicator,
        translation_type: tt,
        numbering_plan: np,
        nature_of_address: nature,
        digits,
    })
}

fn route() -> impl Strategy<Value = Route> {
    let code = || of((0..1_u32 << 24).prop_map(code));
    let ssn = |from: u8| (from..=255).prop_map(SubsystemNumber);
    prop_oneof![
        (global_title(), code(), of(ssn(0))).prop_map(|(global_title, point_code, ssn)| {
            Route::GlobalTitle {
                global_title,
                point_code,
                ssn,
            }
        }),
        (ssn(1), code(), of(global_title())).prop_map(|(ssn, point_code, global_title)| {
            Route::PointCode {
                ssn,
                point_code,
                global_title,
            }
        }),
        (
            "[a-z0-9]{1,63}(\\.[A-Z0-9]([A-Z0-9-]{0,20}[A-Z0-9])?){0,4}",
            of(ssn(0))
        )
            .prop_map(|(name, ssn)| Route::HostName {
                host_name: HostName::new(&name).expect("a host name"),
                ssn,
            }),
        (ssn(1), of(any::<std::net::IpAddr>()))
            .prop_map(|(ssn, address)| Route::IpAddress { ssn, address }),
    ]
}

fn address() -> impl Strategy<Value = Address> {
    (any::<[bool; 3]>(), route()).prop_map(|([ssn, point_code, global_title], route)| Address {
        indicator: AddressIndicator {
            ssn,
            point_code,
            global_title,
        },
        route,
    })
}

fn transfer() -> impl Strategy<Value = Message> {
    let optional = (
        of(1..=15_u8),
        of(0..=7_u8),
        of(prop_oneof![0..=3_u8, Just(0xff)]),
        of((any::<bool>(), 0..=15_u8, any::<u32>())),
    );
    let data = vec(any::<u8>(), 0..300);
    (address(), address(), any::<(u32, bool)>(), optional, data).prop_map(
        |(source, destination, (number, return_on_error), optional, data)| {
            let (hops, importance, priority, segmentation) = optional;
            Message::ConnectionlessDataTransfer(ConnectionlessDataTransfer {
                routing_context: RoutingContext(number),
                protocol_class: ProtocolClass {
                    class: ServiceClass::Class0,
                    return_on_error,
                },
                source: SourceAddress(source),
                destination: DestinationAddress(destination),
                sequence_control: SequenceControl(number),
                hop_counter: hops.and_then(HopCounter::new),
                importance: importance.and_then(Importance::new),
                priority: priority.and_then(MessagePriority::new),
                correlation_id: None,
                segmentation: segmentation.map(|(first, remaining, reference)| Segmentation {
                    first,
                    remaining,
                    reference: SegmentationReference::new(reference),
                }),
                data: UserData(data.into()),
            })
        },
    )
}

fn registration() -> impl Strategy<Value = Message> {
    let ranges = || vec([address(), address()], 1..3);
    let range = prop_oneof![
        ranges().prop_map(AddressRange::Source),
        ranges().prop_map(AddressRange::Destination),
    ];
    let key = (any::<u32>(), of(any::<u32>()), of(address()), of(range));
    let key = key.prop_map(|(id, mode, source, range)| RoutingKey {
        local_id: LocalRoutingKeyIdentifier(id),
        traffic_mode: mode.map(|mode| RequestedTrafficMode(TrafficMode(mode))),
        network_appearance: None,
        destination: source.clone().map(DestinationAddress),
        source: source.map(SourceAddress),
        range,
    });
    vec(key, 1..4).prop_map(|routing_keys| {
        Message::RegistrationRequest(RegistrationRequest {
            routing_keys,
            capabilities: None,
        })
    })
}

fn data() -> impl Strategy<Value = Message> {
    let numbers = (0..128_u8, any::<bool>(), 0..128_u8).prop_map(|(received, more, sent)| {
        let number = |value| SequenceNumber::new(value).expect("7 bits");
        SequenceNumbers {
            received: number(received),
            more,
            sent: number(sent),
        }
    });
    (any::<u32>(), of(numbers), vec(any::<u8>(), 0..50)).prop_map(|(id, sequence_numbers, data)| {
        Message::ConnectionOrientedDataTransfer(ConnectionOrientedDataTransfer {
            routing_context: RoutingContext(1),
            sequence_numbers,
            destination_reference: DestinationReferenceNumber(id),
            priority: None,
            correlation_id: None,
            data: UserData(data.into()),
        })
    })
}

proptest! {
    #[test]
    fn messages_survive_a_round_trip(message in prop_oneof![transfer(), registration(), data()]) {
        round_trip(&message)?;
    }

}

/// RFC 3868, section 3.10.7
#[test]
fn sequence_numbers_wrap_around() {
    let number = |value| SequenceNumber::new(value).expect("7 bits");
    assert_eq!(SequenceNumber::new(128), None);
    assert_eq!(number(127).add(1), number(0));
    assert_eq!(number(100).add(127), number(99));
    assert_eq!(number(3).since(number(120)), 11);
    assert_eq!(number(3).since(number(3)), 0);
}

#[test]
fn invalid_content_is_not_encoded() {
    let full = full();
    let with = |kind, change: fn(&mut Message)| {
        let found = full.iter().find(|message| message.kind() == kind);
        let mut message = found.expect("a message of the kind").clone();
        change(&mut message);
        message.encode().expect_err("invalid content")
    };
    let error = with(kinds::CLDT, |message| {
        let Message::ConnectionlessDataTransfer(body) = message else {
            panic!("a CLDT");
        };
        body.protocol_class.class = ServiceClass::Class2;
    });
    let value = |tag, value| EncodeError::Value { tag, value };
    assert_eq!(error, value(tag::PROTOCOL_CLASS, 2));
    let error = with(kinds::CORE, |message| {
        let Message::ConnectionRequest(body) = message else {
            panic!("a CORE");
        };
        body.credit = None;
    });
    assert_eq!(error, EncodeError::Missing(tag::CREDIT));
    let error = with(kinds::DUNA, |message| {
        let Message::DestinationUnavailable(body) = message else {
            panic!("a DUNA");
        };
        body.affected.0.push(AffectedPointCode::ALL);
    });
    assert_eq!(error, EncodeError::Conflict(tag::SUBSYSTEM_NUMBER));
    let error = with(kinds::COAK, |message| {
        let Message::ConnectionAcknowledge(body) = message else {
            panic!("a COAK");
        };
        let unrouted = Route::IpAddress {
            ssn: SubsystemNumber(0),
            address: None,
        };
        body.source = Some(SourceAddress(Address {
            indicator: AddressIndicator::default(),
            route: unrouted,
        }));
    });
    assert_eq!(error, value(tag::SUBSYSTEM_NUMBER, 0));
    let error = with(kinds::ASPAC, |message| {
        let Message::AspActive(body) = message else {
            panic!("an ASP Active");
        };
        body.drn_label = Some(DrnLabel {
            position: LabelPosition { start: 24, end: 20 },
            label: 1,
        });
    });
    assert_eq!(error, value(tag::DRN_LABEL, 0x1814));
    for text in [
        "",
        "a..b",
        "-a",
        "a-",
        "a_b",
        &"a".repeat(64),
        &"a.".repeat(128),
    ] {
        assert_eq!(HostName::new(text), None, "{text}");
    }
    let Route::HostName { host_name, .. } = host().route else {
        panic!("a host name");
    };
    assert_eq!(host_name.as_str(), "hlr-1.example.com");
    assert_eq!(ip("192.0.2.1").ssn(), Some(SubsystemNumber(6)));
    assert_eq!(AddressSignals::new("12x"), None);
    assert_eq!(AddressSignals::new(&"1".repeat(256)), None);
    let digits = AddressSignals::new("4917b").expect("digits");
    assert_eq!(digits.to_string(), "4917b");
    assert_eq!(HopCounter::new(0), None);
    assert_eq!(HopCounter::new(16), None);
    assert_eq!(MessagePriority::new(4), None);
}
