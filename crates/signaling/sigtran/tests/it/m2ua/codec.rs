//! Properties and layouts of all messages.

use bytes::Bytes;
use carrick_sigtran::m2ua::*;
use carrick_sigtran::message::MessageKind;
use proptest::collection::vec;
use proptest::prelude::*;

use super::samples::{full, text};
use crate::layer::{check_mandatory, check_repeated, check_tags, expect, properties, round_trip};

properties!(Message, 31);

/// Mandatory parameters of the full messages.
const MANDATORY: &[(MessageKind, &[u16])] = &[
    (kinds::REG_REQ, &[tag::LINK_KEY]),
    (kinds::REG_RSP, &[tag::REGISTRATION_RESULT]),
    (kinds::DEREG_REQ, &[tag::INTERFACE_IDENTIFIER]),
    (kinds::DEREG_RSP, &[tag::DEREGISTRATION_RESULT]),
    (
        kinds::DATA,
        &[tag::INTERFACE_IDENTIFIER, tag::PROTOCOL_DATA],
    ),
    (
        kinds::DATA_ACK,
        &[tag::INTERFACE_IDENTIFIER, tag::CORRELATION_ID],
    ),
    (kinds::ESTABLISH_REQUEST, &[tag::INTERFACE_IDENTIFIER]),
    (kinds::ESTABLISH_CONFIRM, &[tag::INTERFACE_IDENTIFIER]),
    (kinds::RELEASE_REQUEST, &[tag::INTERFACE_IDENTIFIER]),
    (kinds::RELEASE_CONFIRM, &[tag::INTERFACE_IDENTIFIER]),
    (kinds::RELEASE_INDICATION, &[tag::INTERFACE_IDENTIFIER]),
    (
        kinds::STATE_REQUEST,
        &[tag::INTERFACE_IDENTIFIER, tag::STATE_REQUEST],
    ),
    (
        kinds::STATE_CONFIRM,
        &[tag::INTERFACE_IDENTIFIER, tag::STATE_REQUEST],
    ),
    (
        kinds::STATE_INDICATION,
        &[tag::INTERFACE_IDENTIFIER, tag::STATE_EVENT],
    ),
    (
        kinds::CONGESTION_INDICATION,
        &[tag::INTERFACE_IDENTIFIER, tag::CONGESTION_STATUS],
    ),
    (
        kinds::RETRIEVAL_REQUEST,
        &[tag::INTERFACE_IDENTIFIER, tag::ACTION],
    ),
    (
        kinds::RETRIEVAL_CONFIRM,
        &[
            tag::INTERFACE_IDENTIFIER,
            tag::ACTION,
            tag::RETRIEVAL_RESULT,
        ],
    ),
    (
        kinds::RETRIEVAL_INDICATION,
        &[tag::INTERFACE_IDENTIFIER, tag::PROTOCOL_DATA],
    ),
    (kinds::RETRIEVAL_COMPLETE, &[tag::INTERFACE_IDENTIFIER]),
];

/// RFC 3331, section 3.3.3.1: Missing Parameter
#[test]
fn mandatory_parameters_are_demanded() {
    check_mandatory::<Message>(MANDATORY);
}

/// RFC 3331, section 3.3.3.1: Unexpected Parameter
#[test]
fn repeated_parameters_are_rejected() {
    check_repeated::<Message>(
        &[
            tag::LINK_KEY,
            tag::REGISTRATION_RESULT,
            tag::DEREGISTRATION_RESULT,
        ],
        &[
            kinds::ERR,
            kinds::NTFY,
            kinds::ASPAC,
            kinds::ASPAC_ACK,
            kinds::ASPIA,
            kinds::ASPIA_ACK,
            kinds::DEREG_REQ,
        ],
    );
}

/// RFC 3331, section 3.1.6: unused parameters
#[test]
fn parameters_of_other_layers_are_rejected() {
    let excluded = [0, 2, 5, 6, 0x0a, 0x0e, 0x0f, 0x10, 0x12];
    check_tags::<Message>(&excluded, &[0x0014, 0x0200, 0x0311, 0xffff]);
}

/// RFC 3331, section 3.3.2.7: integers and ranges in several parameters
#[test]
fn interface_identifiers_are_collected() {
    let octets: [&[u8]; 6] = [
        &[1, 0, 4, 2, 0, 0, 0, 64],
        &[0, 1, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2],
        &[0, 8, 0, 12, 0, 0, 0, 5, 0, 0, 0, 9],
        &[0, 1, 0, 8, 0, 0, 0, 3],
        &[0, 8, 0, 20, 0, 0, 0, 20, 0, 0, 0, 20],
        &[0, 0, 0, 30, 0xff, 0xff, 0xff, 0xff, 0, 4, 0, 4],
    ];
    let message = Message::decode(&Bytes::from(octets.concat()));
    let range = |start, stop| InterfaceRange { start, stop };
    let identifiers = InterfaceIdentifiers::Integers {
        identifiers: vec![1, 2, 3],
        ranges: vec![range(5, 9), range(20, 20), range(30, u32::MAX)],
    };
    let expected = Message::AspInactive(AspInactive {
        identifiers: Some(identifiers),
        info: InfoString::new(""),
    });
    assert_eq!(message, Ok(expected));
}

/// RFC 3331, sections 3.2, 3.3.1.1 and 3.3.2.7
#[test]
fn messages_have_the_drawn_layout() {
    let data = Message::Data(Data {
        identifier: InterfaceIdentifier::Text(text("link")),
        protocol_data: ProtocolData::Ttc(Bytes::from_static(&[9, 0x85, 1])),
        correlation_id: Some(CorrelationId(1)),
    });
    let octets: [&[u8]; 4] = [
        &[1, 0, 6, 1, 0, 0, 0, 32],
        &[0, 3, 0, 8, b'l', b'i', b'n', b'k'],
        &[3, 1, 0, 7, 9, 0x85, 1, 0],
        &[0, 0x13, 0, 8, 0, 0, 0, 1],
    ];
    expect(&data, &octets);
    let active = Message::AspActive(AspActive {
        traffic_mode: Some(TrafficMode::LOADSHARE),
        identifiers: Some(InterfaceIdentifiers::Texts(vec![text("a"), text("link2")])),
        info: None,
    });
    let octets: [&[u8]; 4] = [
        &[1, 0, 4, 1, 0, 0, 0, 36],
        &[0, 11, 0, 8, 0, 0, 0, 2],
        &[0, 3, 0, 5, b'a', 0, 0, 0],
        &[0, 3, 0, 9, b'l', b'i', b'n', b'k', b'2', 0, 0, 0],
    ];
    expect(&active, &octets);
    let confirm = Message::RetrievalConfirm(RetrievalConfirm {
        identifier: InterfaceIdentifier::Integer(7),
        action: Action::RetrieveBsn,
        result: RetrievalResult::Failure,
        sequence_number: None,
    });
    let octets: [&[u8]; 4] = [
        &[1, 0, 6, 11, 0, 0, 0, 32],
        &[0, 1, 0, 8, 0, 0, 0, 7],
        &[3, 6, 0, 8, 0, 0, 0, 1],
        &[3, 8, 0, 8, 0, 0, 0, 1],
    ];
    expect(&confirm, &octets);
}

/// RFC 3331, section 3.3.4.1
#[test]
fn link_keys_have_the_drawn_layout() {
    let octets: [&[u8]; 4] = [
        &[1, 0, 10, 1, 0, 0, 0, 36, 3, 9, 0, 28],
        &[3, 0x0a, 0, 8, 0, 0, 0, 5],
        &[3, 0x0b, 0, 8, 0, 0, 1, 0x23],
        &[3, 0x0c, 0, 8, 0, 0, 4, 0x56],
    ];
    expect(&full()[12], &octets);
}

pub(crate) fn identifiers() -> impl Strategy<Value = InterfaceIdentifiers> {
    let range = (any::<u32>(), any::<u32>()).prop_map(|(a, b)| InterfaceRange {
        start: a.min(b),
        stop: a.max(b),
    });
    let integers = (vec(any::<u32>(), 0..5), vec(range, 1..4));
    prop_oneof![
        integers.prop_map(|(identifiers, ranges)| InterfaceIdentifiers::Integers {
            identifiers,
            ranges
        }),
        vec("[ -~]{1,40}".prop_map(|name| text(&name)), 1..4).prop_map(InterfaceIdentifiers::Texts),
    ]
}

fn data() -> impl Strategy<Value = Message> {
    (any::<u32>(), any::<bool>(), vec(any::<u8>(), 2..300)).prop_map(|(link, ttc, octets)| {
        Message::Data(Data {
            identifier: InterfaceIdentifier::Integer(link),
            protocol_data: if ttc {
                ProtocolData::Ttc(octets.into())
            } else {
                ProtocolData::Mtp2(octets.into())
            },
            correlation_id: ttc.then_some(CorrelationId(link)),
        })
    })
}

fn active() -> impl Strategy<Value = Message> {
    identifiers().prop_map(|identifiers| {
        Message::AspActive(AspActive {
            identifiers: Some(identifiers),
            ..AspActive::default()
        })
    })
}

proptest! {
    #[test]
    fn messages_survive_a_round_trip(message in prop_oneof![data(), active()]) {
        round_trip(&message)?;
    }

}

#[test]
fn invalid_content_is_not_encoded() {
    let active = |identifiers| {
        let message = Message::AspActive(AspActive {
            identifiers: Some(identifiers),
            ..AspActive::default()
        });
        message.encode().expect_err("invalid identifiers")
    };
    let integers = |ranges| InterfaceIdentifiers::Integers {
        identifiers: vec![],
        ranges,
    };
    let empty = EncodeError::Empty(tag::INTERFACE_IDENTIFIER);
    assert_eq!(active(integers(vec![])), empty);
    let empty = EncodeError::Empty(tag::INTERFACE_IDENTIFIER_TEXT);
    assert_eq!(active(InterfaceIdentifiers::Texts(vec![])), empty);
    let reverse = InterfaceRange { start: 2, stop: 1 };
    let error = EncodeError::Value {
        tag: tag::INTERFACE_IDENTIFIER_RANGE,
        value: 2,
    };
    assert_eq!(active(integers(vec![reverse])), error);
    for (data, tag, length) in [
        (ProtocolData::Mtp2(Bytes::new()), tag::PROTOCOL_DATA, 0),
        (
            ProtocolData::Ttc(Bytes::from_static(&[1])),
            tag::TTC_PROTOCOL_DATA,
            1,
        ),
        (
            ProtocolData::Mtp2(vec![0; 4097].into()),
            tag::PROTOCOL_DATA,
            4097,
        ),
        (
            ProtocolData::Ttc(vec![0; 4098].into()),
            tag::TTC_PROTOCOL_DATA,
            4098,
        ),
    ] {
        let message = Message::RetrievalIndication(RetrievalIndication {
            identifier: InterfaceIdentifier::Integer(1),
            protocol_data: data,
        });
        assert_eq!(message.encode(), Err(EncodeError::Length { tag, length }));
    }
    assert_eq!(TextIdentifier::new(""), None);
    assert_eq!(TextIdentifier::new("ü"), None);
    assert_eq!(TextIdentifier::new(&"x".repeat(256)), None);
    assert_eq!(text("link-1").as_str(), "link-1");
    assert_eq!(InterfaceIdentifiers::integers([]), None);
}
