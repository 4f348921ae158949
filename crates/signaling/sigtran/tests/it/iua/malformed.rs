//! Messages that are rejected, with the error code that answers them.

use carrick_sigtran::iua::*;
use carrick_sigtran::message::MessageKind;

use crate::layer::{RawParameter, message, parameter, rejected};

const INTERFACE: RawParameter<'_> = (tag::INTERFACE_IDENTIFIER, &[0, 0, 0, 7]);
const DLCI: RawParameter<'_> = (tag::DLCI, &[0, 0x81, 0, 0]);

/// RFC 4233, section 3.3.3.1: Protocol Error
#[test]
fn wrong_lengths_and_values_are_rejected() {
    let length = |tag, length| DecodeErrorKind::ParameterLength { tag, length };
    let value = |tag, value| DecodeErrorKind::Value { tag, value };
    let cases: [(MessageKind, u16, &[u8], DecodeErrorKind); 7] = [
        (
            kinds::RELEASE_REQUEST,
            tag::RELEASE_REASON,
            &[0; 2],
            length(tag::RELEASE_REASON, 2),
        ),
        (
            kinds::RELEASE_INDICATION,
            tag::RELEASE_REASON,
            &[0; 8],
            length(tag::RELEASE_REASON, 8),
        ),
        (
            kinds::TEI_STATUS_CONFIRM,
            tag::TEI_STATUS,
            &[],
            length(tag::TEI_STATUS, 0),
        ),
        (
            kinds::RELEASE_INDICATION,
            tag::RELEASE_REASON,
            &[0, 0, 0, 4],
            value(tag::RELEASE_REASON, 4),
        ),
        // A physical layer alarm is no reason of a request.
        (
            kinds::RELEASE_REQUEST,
            tag::RELEASE_REASON,
            &[0, 0, 0, 1],
            value(tag::RELEASE_REASON, 1),
        ),
        (
            kinds::TEI_STATUS_CONFIRM,
            tag::TEI_STATUS,
            &[0, 0, 0, 2],
            value(tag::TEI_STATUS, 2),
        ),
        (
            kinds::TEI_STATUS_INDICATION,
            tag::TEI_STATUS,
            &[0, 1, 0, 0],
            value(tag::TEI_STATUS, 0x0001_0000),
        ),
    ];
    for (kind, tag, content, error) in cases {
        let offset = match error {
            DecodeErrorKind::ParameterLength { .. } => 26,
            _ => 24,
        };
        let parameters = [INTERFACE, DLCI, (tag, content)];
        rejected::<Message>(kind, &parameters, error, offset, ErrorCode::PROTOCOL_ERROR);
    }
}

/// RFC 4233, section 3.2: extension bits of the DLCI
#[test]
fn malformed_dlcis_are_rejected() {
    let value = |value| DecodeErrorKind::Value {
        tag: tag::DLCI,
        value,
    };
    let length = |length| DecodeErrorKind::ParameterLength {
        tag: tag::DLCI,
        length,
    };
    let cases: [(&[u8], DecodeErrorKind, usize); 4] = [
        (&[1, 1, 0, 0], value(0x0101), 16),
        (&[0, 0x80, 0, 0], value(0x80), 16),
        (&[0, 0x81], length(2), 18),
        (&[0; 8], length(8), 18),
    ];
    for (content, error, offset) in cases {
        let parameters = [INTERFACE, (tag::DLCI, content)];
        let code = ErrorCode::PROTOCOL_ERROR;
        rejected::<Message>(kinds::ESTABLISH_REQUEST, &parameters, error, offset, code);
    }
    // Spare bits are ignored.
    let parameters = [INTERFACE, (tag::DLCI, &[2, 0x81, 0xff, 0xff])];
    let parameters = parameters.map(|(tag, value)| parameter(tag, value));
    let decoded = Message::decode(&message(kinds::ESTABLISH_REQUEST, &parameters));
    let expected = Message::EstablishRequest(DataLink {
        identifier: InterfaceIdentifier::Integer(7),
        dlci: Dlci::new(0, 64).expect("a DLCI"),
    });
    assert_eq!(decoded, Ok(expected));
}

/// RFC 4233, section 3.3.3.4
#[test]
fn dlci_of_a_tei_query_is_ignored() {
    let parameters = [INTERFACE, (tag::DLCI, &[0xff, 0, 1, 2])];
    let parameters = parameters.map(|(tag, value)| parameter(tag, value));
    Message::decode(&message(kinds::TEI_QUERY, &parameters)).expect("a TEI Query");
}

/// RFC 4233, section 3.3.2.5: there is no broadcast
#[test]
fn undefined_traffic_modes_are_rejected() {
    for mode in [0, 3] {
        rejected::<Message>(
            kinds::ASPAC,
            &[(tag::TRAFFIC_MODE_TYPE, &[0, 0, 0, mode])],
            DecodeErrorKind::TrafficMode(mode.into()),
            8,
            ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE,
        );
    }
}

/// RFC 4233, section 3.2: the IUA message header follows the common header
#[test]
fn later_message_headers_are_rejected() {
    let data: RawParameter<'_> = (tag::PROTOCOL_DATA, &[8, 1, 5, 7]);
    let cases: [(&[RawParameter<'_>], u16, usize); 4] = [
        (&[DLCI, INTERFACE, data], tag::INTERFACE_IDENTIFIER, 16),
        (&[data, INTERFACE, DLCI], tag::INTERFACE_IDENTIFIER, 16),
        (&[INTERFACE, data, DLCI], tag::DLCI, 24),
        (&[data, DLCI], tag::DLCI, 16),
    ];
    for (parameters, tag, offset) in cases {
        let error = DecodeErrorKind::NotFirst(tag);
        let code = ErrorCode::PROTOCOL_ERROR;
        rejected::<Message>(kinds::DATA_REQUEST, parameters, error, offset, code);
    }
}

/// RFC 4233, section 3.3.3.1: the codes end with Invalid ASP Identifier
#[test]
fn errors_of_parameters_are_protocol_errors() {
    rejected::<Message>(
        kinds::DATA_REQUEST,
        &[INTERFACE, DLCI],
        DecodeErrorKind::Missing(tag::PROTOCOL_DATA),
        24,
        ErrorCode::PROTOCOL_ERROR,
    );
    rejected::<Message>(
        kinds::ASPUP,
        &[
            (tag::ASP_IDENTIFIER, &[0; 4]),
            (tag::ASP_IDENTIFIER, &[0; 4]),
        ],
        DecodeErrorKind::Repeated(tag::ASP_IDENTIFIER),
        16,
        ErrorCode::PROTOCOL_ERROR,
    );
    let octets = message(kinds::ERR, &[parameter(tag::ERROR_CODE, &[1])]);
    let error = Message::decode(&octets).expect_err("a short error code");
    assert_eq!(ErrorMessage::answering(&error, &octets), None);
}
