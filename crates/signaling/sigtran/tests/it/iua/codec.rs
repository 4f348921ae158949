//! Properties and layouts of all messages.

use bytes::Bytes;
use carrick_sigtran::iua::*;
use carrick_sigtran::message::MessageKind;
use proptest::collection::vec;
use proptest::prelude::*;

use super::samples::dlci;
use crate::layer::{check_mandatory, check_repeated, check_tags, expect, properties, round_trip};
use crate::m2ua::samples::text;

properties!(Message, 26);

const HEADER: &[u16] = &[tag::INTERFACE_IDENTIFIER, tag::DLCI];
const WITH_DATA: &[u16] = &[tag::INTERFACE_IDENTIFIER, tag::DLCI, tag::PROTOCOL_DATA];
const WITH_REASON: &[u16] = &[tag::INTERFACE_IDENTIFIER, tag::DLCI, tag::RELEASE_REASON];
const WITH_STATUS: &[u16] = &[tag::INTERFACE_IDENTIFIER, tag::DLCI, tag::TEI_STATUS];

/// Mandatory parameters of the full messages.
const MANDATORY: &[(MessageKind, &[u16])] = &[
    (kinds::TEI_STATUS_REQUEST, HEADER),
    (kinds::TEI_STATUS_CONFIRM, WITH_STATUS),
    (kinds::TEI_STATUS_INDICATION, WITH_STATUS),
    (kinds::TEI_QUERY, HEADER),
    (kinds::ASPAC, &[tag::TRAFFIC_MODE_TYPE]),
    (kinds::ASPAC_ACK, &[tag::TRAFFIC_MODE_TYPE]),
    (kinds::DATA_REQUEST, WITH_DATA),
    (kinds::DATA_INDICATION, WITH_DATA),
    (kinds::UNIT_DATA_REQUEST, WITH_DATA),
    (kinds::UNIT_DATA_INDICATION, WITH_DATA),
    (kinds::ESTABLISH_REQUEST, HEADER),
    (kinds::ESTABLISH_CONFIRM, HEADER),
    (kinds::ESTABLISH_INDICATION, HEADER),
    (kinds::RELEASE_REQUEST, WITH_REASON),
    (kinds::RELEASE_CONFIRM, HEADER),
    (kinds::RELEASE_INDICATION, WITH_REASON),
];

/// RFC 4233, section 3.3
#[test]
fn mandatory_parameters_are_demanded() {
    check_mandatory::<Message>(MANDATORY);
}

/// RFC 4233, section 3.3
#[test]
fn repeated_parameters_are_rejected() {
    let several_identifiers = [
        kinds::NTFY,
        kinds::ASPAC,
        kinds::ASPAC_ACK,
        kinds::ASPIA,
        kinds::ASPIA_ACK,
    ];
    check_repeated::<Message>(&[], &several_identifiers);
}

/// RFC 4233, section 3.1.5: parameters that are not used in IUA
#[test]
fn parameters_of_other_layers_are_rejected() {
    let excluded = [0, 2, 6, 0x0a, 0x12, 0x13, 0x3f];
    check_tags::<Message>(&excluded, &[0x0040, 0x0200, 0xffff]);
}

/// RFC 4233, section 3.2: the example of the DLCI
#[test]
fn messages_have_the_drawn_layout() {
    let data = Message::DataRequest(Data {
        identifier: InterfaceIdentifier::Text(text("d-1")),
        dlci: dlci(),
        protocol_data: ProtocolData(Bytes::from_static(&[8, 1, 5, 7, 9])),
    });
    let octets: [&[u8]; 4] = [
        &[1, 0, 5, 1, 0, 0, 0, 36],
        &[0, 3, 0, 7, b'd', b'-', b'1', 0],
        &[0, 5, 0, 8, 0, 0x81, 0, 0],
        &[0, 14, 0, 9, 8, 1, 5, 7, 9, 0, 0, 0],
    ];
    expect(&data, &octets);
    let release = Message::ReleaseIndication(ReleaseIndication {
        identifier: InterfaceIdentifier::Integer(7),
        dlci: Dlci::new(63, 127).expect("a DLCI"),
        reason: ReleaseReason::Physical,
    });
    let octets: [&[u8]; 4] = [
        &[1, 0, 5, 10, 0, 0, 0, 32],
        &[0, 1, 0, 8, 0, 0, 0, 7],
        &[0, 5, 0, 8, 0xfc, 0xff, 0, 0],
        &[0, 15, 0, 8, 0, 0, 0, 1],
    ];
    expect(&release, &octets);
    let query = Message::TeiQuery(TeiQuery {
        identifier: InterfaceIdentifier::Integer(7),
        dlci: IgnoredDlci,
    });
    let octets: [&[u8]; 3] = [
        &[1, 0, 0, 5, 0, 0, 0, 24],
        &[0, 1, 0, 8, 0, 0, 0, 7],
        &[0, 5, 0, 8, 0, 1, 0, 0],
    ];
    expect(&query, &octets);
    assert_eq!(Dlci::new(64, 0), None);
    assert_eq!(Dlci::new(0, 128), None);
    assert_eq!((dlci().sapi(), dlci().tei()), (0, 64));
}

proptest! {
    #[test]
    fn messages_survive_a_round_trip(
        identifier in any::<u32>(),
        sapi in 0..64_u8,
        tei in 0..128_u8,
        octets in vec(any::<u8>(), 0..300),
    ) {
        round_trip(&Message::UnitDataIndication(Data {
            identifier: InterfaceIdentifier::Integer(identifier),
            dlci: Dlci::new(sapi, tei).expect("a DLCI"),
            protocol_data: ProtocolData(octets.into()),
        }))?;
    }

}
