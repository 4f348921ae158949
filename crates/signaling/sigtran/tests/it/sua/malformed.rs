//! Messages that are rejected, with the error code that answers them.

use carrick_sigtran::message::MessageKind;
use carrick_sigtran::sua::*;

use super::samples::full;
use crate::layer::{RawParameter, message, parameter, rejected, split, tag_of};

/// Changes one parameter of a full message, and expects an error at it.
fn rejected_value(
    kind: MessageKind,
    tag: u16,
    value: &[u8],
    error: DecodeErrorKind,
    code: ErrorCode,
) {
    let full = full().into_iter().find(|message| message.kind() == kind);
    let full = full.expect("a message of the kind");
    let parameters = split(&full.encode().expect("a message that fits"));
    let (mut offset, mut changed) = (8, Vec::new());
    for original in &parameters {
        if tag_of(original) == tag {
            let before: usize = changed.iter().map(Vec::len).sum();
            offset += before;
            changed.push(parameter(tag, value));
        } else {
            changed.push(original.to_vec());
        }
    }
    let octets = message(kind, &changed);
    let found = Message::decode(&octets).expect_err("an invalid parameter");
    let position = match error {
        DecodeErrorKind::ParameterLength { .. } => offset + 2,
        _ => offset,
    };
    assert_eq!(
        (found.kind, found.offset),
        (error, position),
        "{octets:02x?}"
    );
    let answer = ErrorMessage::answering(&found, &octets).map(|answer| answer.code);
    assert_eq!(answer, (kind != kinds::ERR).then_some(code));
}

/// RFC 3868, section 3.9.12: Parameter Field Error
#[test]
fn wrong_lengths_are_rejected() {
    let cases: [(MessageKind, u16, &[u8]); 34] = [
        (kinds::ERR, tag::NETWORK_APPEARANCE, &[0; 3]),
        (kinds::DUNA, tag::SUBSYSTEM_NUMBER, &[0; 1]),
        (kinds::DUNA, tag::SMI, &[0; 5]),
        (kinds::DUNA, tag::AFFECTED_POINT_CODE, &[]),
        (kinds::DUNA, tag::INFO_STRING, &[b'x'; 256]),
        (kinds::DAUD, tag::USER_CAUSE, &[0; 2]),
        (kinds::SCON, tag::CONGESTION_LEVEL, &[0; 1]),
        (kinds::DUPU, tag::AFFECTED_POINT_CODE, &[0; 8]),
        (kinds::DUPU, tag::USER_CAUSE, &[0; 8]),
        (kinds::ASPAC, tag::TID_LABEL, &[0; 3]),
        (kinds::ASPAC, tag::DRN_LABEL, &[0; 8]),
        (kinds::ASPAC, tag::TRAFFIC_MODE_TYPE, &[0; 2]),
        (kinds::ASPAC_ACK, tag::ROUTING_CONTEXT, &[0; 6]),
        (kinds::REG_REQ, tag::ASP_CAPABILITIES, &[0; 2]),
        (kinds::CLDT, tag::ROUTING_CONTEXT, &[0; 8]),
        (kinds::CLDT, tag::PROTOCOL_CLASS, &[0; 1]),
        (kinds::CLDT, tag::SOURCE_ADDRESS, &[0; 3]),
        (kinds::CLDT, tag::DESTINATION_ADDRESS, &[]),
        (kinds::CLDT, tag::SEQUENCE_CONTROL, &[0; 5]),
        (kinds::CLDT, tag::HOP_COUNTER, &[1]),
        (kinds::CLDT, tag::IMPORTANCE, &[1, 1]),
        (kinds::CLDT, tag::MESSAGE_PRIORITY, &[]),
        (kinds::CLDT, tag::CORRELATION_ID, &[0; 3]),
        (kinds::CLDT, tag::SEGMENTATION, &[0; 32]),
        (kinds::CLDR, tag::SCCP_CAUSE, &[1, 0]),
        (kinds::CODT, tag::SEQUENCE_NUMBER, &[0; 2]),
        (kinds::CODT, tag::DESTINATION_REFERENCE_NUMBER, &[0; 3]),
        (kinds::CODA, tag::RECEIVE_SEQUENCE_NUMBER, &[0; 1]),
        (kinds::CODA, tag::CREDIT, &[0; 1]),
        (kinds::CORE, tag::SOURCE_REFERENCE_NUMBER, &[0; 3]),
        (kinds::COERR, tag::SCCP_CAUSE, &[0; 8]),
        (kinds::RESRE, tag::SCCP_CAUSE, &[0; 1]),
        (kinds::COIT, tag::PROTOCOL_CLASS, &[0; 8]),
        (kinds::DEREG_REQ, tag::ROUTING_CONTEXT, &[0; 7]),
    ];
    for (kind, tag, value) in cases {
        let length = value.len();
        let error = DecodeErrorKind::ParameterLength { tag, length };
        rejected_value(kind, tag, value, error, ErrorCode::PARAMETER_FIELD_ERROR);
    }
}

/// RFC 3868, section 3.9.12: Invalid Parameter Value
#[test]
fn undefined_values_are_rejected() {
    let cases: [(MessageKind, u16, [u8; 4], u32); 22] = [
        (kinds::NTFY, tag::STATUS, [0, 1, 0, 1], 0x0001_0001),
        (kinds::DUNA, tag::SMI, [0, 0, 0, 5], 5),
        (
            kinds::DUPU,
            tag::AFFECTED_POINT_CODE,
            [1, 0, 0, 1],
            0x0100_0001,
        ),
        (kinds::SCON, tag::CONGESTION_LEVEL, [0, 0, 0, 8], 8),
        (kinds::SCON, tag::CONGESTION_LEVEL, [0, 0, 1, 0], 256),
        (kinds::REG_REQ, tag::ASP_CAPABILITIES, [0, 0, 1, 4], 4),
        (kinds::CLDT, tag::PROTOCOL_CLASS, [0, 0, 0, 2], 2),
        (kinds::CLDT, tag::PROTOCOL_CLASS, [0, 0, 0, 0x83], 3),
        (kinds::CLDT, tag::HOP_COUNTER, [0, 0, 0, 0], 0),
        (kinds::CLDT, tag::HOP_COUNTER, [0, 0, 0, 16], 16),
        (kinds::CLDT, tag::IMPORTANCE, [0, 0, 0, 8], 8),
        (kinds::CLDT, tag::MESSAGE_PRIORITY, [0, 0, 0, 4], 4),
        (kinds::CLDT, tag::SEGMENTATION, [0x90, 0, 0, 1], 0x90),
        (kinds::CORE, tag::PROTOCOL_CLASS, [0, 0, 0, 1], 1),
        (kinds::COAK, tag::PROTOCOL_CLASS, [0, 0, 0, 0], 0),
        (kinds::COIT, tag::PROTOCOL_CLASS, [0, 0, 0, 1], 1),
        // The cause types of other messages.
        (kinds::CLDR, tag::SCCP_CAUSE, [0, 0, 2, 0], 2),
        (kinds::COREF, tag::SCCP_CAUSE, [0, 0, 1, 0], 1),
        (kinds::RELRE, tag::SCCP_CAUSE, [0, 0, 0, 0], 0),
        (kinds::RESRE, tag::SCCP_CAUSE, [0, 0, 3, 0], 3),
        (kinds::COERR, tag::SCCP_CAUSE, [0, 0, 6, 0], 6),
        // A routing indicator.
        (kinds::CLDT, tag::SOURCE_ADDRESS, [0, 0, 0, 0], 0),
    ];
    for (kind, tag, value, field) in cases {
        let error = DecodeErrorKind::Value { tag, value: field };
        rejected_value(kind, tag, &value, error, ErrorCode::INVALID_PARAMETER_VALUE);
    }
}

/// RFC 3868, section 3.10.24: the levels 4 to 7 are those of subsystems
#[test]
fn high_congestion_levels_are_of_subsystems() {
    let point_code: RawParameter<'_> = (tag::AFFECTED_POINT_CODE, &[0, 0, 0, 1]);
    let level: RawParameter<'_> = (tag::CONGESTION_LEVEL, &[0, 0, 0, 4]);
    rejected::<Message>(
        kinds::SCON,
        &[point_code, level],
        DecodeErrorKind::Value {
            tag: tag::CONGESTION_LEVEL,
            value: 4,
        },
        16,
        ErrorCode::INVALID_PARAMETER_VALUE,
    );
    let parameters = [point_code, level, (tag::SUBSYSTEM_NUMBER, &[0, 0, 0, 8])];
    let parameters = parameters.map(|(tag, value)| parameter(tag, value));
    Message::decode(&message(kinds::SCON, &parameters)).expect("the level of a subsystem");
}

/// RFC 3868, section 3.4.1: one point code beside a subsystem number
#[test]
fn subsystems_have_one_point_code() {
    for kind in [kinds::DUNA, kinds::DAVA, kinds::DRST] {
        let ranges: [&[u8]; 2] = [&[0, 0, 0, 1, 0, 0, 0, 2], &[3, 0, 0, 8]];
        for codes in ranges {
            rejected::<Message>(
                kind,
                &[
                    (tag::AFFECTED_POINT_CODE, codes),
                    (tag::SUBSYSTEM_NUMBER, &[0, 0, 0, 8]),
                ],
                DecodeErrorKind::Conflict(tag::SUBSYSTEM_NUMBER),
                12 + codes.len(),
                ErrorCode::UNEXPECTED_PARAMETER,
            );
            let octets = message(kind, &[parameter(tag::AFFECTED_POINT_CODE, codes)]);
            Message::decode(&octets).expect("several signalling points");
        }
    }
}

/// RFC 3868, section 3.9.12: Invalid loadsharing label; section 4.7.2.1
#[test]
fn invalid_labels_are_rejected() {
    let cases: [(u16, [u8; 4]); 5] = [
        (tag::TID_LABEL, [32, 20, 0, 1]),
        (tag::TID_LABEL, [16, 0, 0, 1]),
        (tag::TID_LABEL, [4, 5, 0, 1]),
        (tag::DRN_LABEL, [24, 20, 0, 1]),
        (tag::DRN_LABEL, [22, 23, 0, 1]),
    ];
    for (tag, value) in cases {
        let error = DecodeErrorKind::LoadsharingLabel(tag);
        rejected_value(
            kinds::ASPAC,
            tag,
            &value,
            error,
            ErrorCode::INVALID_LOADSHARING_LABEL,
        );
    }
}

/// RFC 3868, section 3.9.12: Unsupported Traffic Handling Mode
#[test]
fn undefined_traffic_modes_are_rejected() {
    for (kind, mode) in [(kinds::ASPAC, 0), (kinds::ASPAC_ACK, 4)] {
        let error = DecodeErrorKind::TrafficMode(mode.into());
        let code = ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE;
        rejected_value(kind, tag::TRAFFIC_MODE_TYPE, &[0, 0, 0, mode], error, code);
    }
}

/// RFC 3868, section 3.10.2: valid combinations of address parameters
#[test]
fn address_parameters_fit_the_routing_indicator() {
    let title = parameter(tag::GLOBAL_TITLE, &[0, 0, 0, 4, 1, 0, 1, 4, 9]);
    let point_code = parameter(tag::POINT_CODE, &[0, 0, 0, 1]);
    let ssn = parameter(tag::SUBSYSTEM_NUMBER, &[0, 0, 0, 8]);
    let v4 = parameter(tag::IPV4_ADDRESS, &[192, 0, 2, 1]);
    let v6 = parameter(tag::IPV6_ADDRESS, &[0; 16]);
    let host = parameter(tag::HOST_NAME, b"a\0");
    let valid: [(u8, &[&Vec<u8>]); 12] = [
        (1, &[&title]),
        (1, &[&ssn, &point_code, &title]),
        (2, &[&ssn]),
        (2, &[&ssn, &point_code]),
        (2, &[&title, &ssn, &point_code]),
        (2, &[&title, &ssn]),
        (3, &[&host]),
        (3, &[&host, &ssn]),
        (4, &[&ssn]),
        (4, &[&ssn, &v4]),
        (4, &[&v6, &ssn]),
        (1, &[&title, &point_code]),
    ];
    let address = |indicator: u8, parameters: &[&Vec<u8>]| {
        let mut value = vec![0, indicator, 0, 0];
        for parameter in parameters {
            value.extend_from_slice(parameter);
        }
        value
    };
    let refused = |value: &[u8]| {
        let parameters = [
            parameter(tag::ROUTING_CONTEXT, &[0; 4]),
            parameter(tag::DESTINATION_REFERENCE_NUMBER, &[0; 4]),
            parameter(tag::SCCP_CAUSE, &[0, 0, 2, 0]),
            parameter(tag::SOURCE_ADDRESS, value),
        ];
        message(kinds::COREF, &parameters)
    };
    for (indicator, parameters) in valid {
        let octets = refused(&address(indicator, parameters));
        Message::decode(&octets).expect("a valid combination");
    }
    let conflict = DecodeErrorKind::Conflict(tag::SOURCE_ADDRESS);
    let zero = DecodeErrorKind::Value {
        tag: tag::SOURCE_ADDRESS,
        value: 0,
    };
    let ssn_0 = parameter(tag::SUBSYSTEM_NUMBER, &[0; 4]);
    let missing = DecodeErrorKind::Missing;
    let invalid: [(u8, &[&Vec<u8>], DecodeErrorKind); 14] = [
        (1, &[&ssn], missing(tag::GLOBAL_TITLE)),
        (1, &[&title, &v4], conflict),
        (1, &[&title, &host], conflict),
        (2, &[&point_code], missing(tag::SUBSYSTEM_NUMBER)),
        (2, &[&ssn_0, &point_code], zero),
        (2, &[&ssn, &v6], conflict),
        (2, &[&ssn, &host], conflict),
        (3, &[&ssn], missing(tag::HOST_NAME)),
        (3, &[&host, &point_code], conflict),
        (3, &[&host, &v4], conflict),
        (3, &[&host, &title], conflict),
        (4, &[&v4], missing(tag::SUBSYSTEM_NUMBER)),
        (4, &[&ssn_0, &v4], zero),
        (4, &[&ssn, &v4, &host], conflict),
    ];
    for (indicator, parameters, kind) in invalid {
        let octets = refused(&address(indicator, parameters));
        let error = Message::decode(&octets).expect_err("an invalid combination");
        assert_eq!((error.kind, error.offset), (kind, 32), "{octets:02x?}");
    }
    let octets = refused(&address(4, &[&ssn, &v4, &v6]));
    let error = Message::decode(&octets).expect_err("two IP addresses");
    assert_eq!(error.kind, DecodeErrorKind::Repeated(tag::IPV6_ADDRESS));
    assert_eq!(error.offset, 32 + 8 + 8 + 8);
}

/// RFC 3868, sections 3.10.2.3 to 3.10.2.7
#[test]
fn malformed_address_parameters_are_rejected() {
    let value = |tag, value| DecodeErrorKind::Value { tag, value };
    let length = |tag, length| DecodeErrorKind::ParameterLength { tag, length };
    let cases: [(u8, u16, &[u8], DecodeErrorKind); 16] = [
        (1, tag::GLOBAL_TITLE, &[0; 7], length(tag::GLOBAL_TITLE, 7)),
        // Three digits in one octet, and one in two.
        (
            1,
            tag::GLOBAL_TITLE,
            &[0, 0, 0, 4, 3, 0, 1, 4, 9],
            length(tag::GLOBAL_TITLE, 9),
        ),
        (
            1,
            tag::GLOBAL_TITLE,
            &[0, 0, 0, 4, 1, 0, 1, 4, 9, 9],
            length(tag::GLOBAL_TITLE, 10),
        ),
        (1, tag::GLOBAL_TITLE, &[0; 8], value(tag::GLOBAL_TITLE, 0)),
        (
            1,
            tag::GLOBAL_TITLE,
            &[0, 0, 0, 5, 0, 0, 0, 0],
            value(tag::GLOBAL_TITLE, 5),
        ),
        (
            2,
            tag::POINT_CODE,
            &[1, 0, 0, 0],
            value(tag::POINT_CODE, 0x0100_0000),
        ),
        (2, tag::POINT_CODE, &[0; 3], length(tag::POINT_CODE, 3)),
        (
            2,
            tag::SUBSYSTEM_NUMBER,
            &[8],
            length(tag::SUBSYSTEM_NUMBER, 1),
        ),
        (
            4,
            tag::IPV4_ADDRESS,
            &[0; 16],
            length(tag::IPV4_ADDRESS, 16),
        ),
        (4, tag::IPV6_ADDRESS, &[0; 4], length(tag::IPV6_ADDRESS, 4)),
        (3, tag::HOST_NAME, b"name", length(tag::HOST_NAME, 4)),
        (3, tag::HOST_NAME, b"\0", length(tag::HOST_NAME, 1)),
        (3, tag::HOST_NAME, b"", length(tag::HOST_NAME, 0)),
        (
            3,
            tag::HOST_NAME,
            b"a\0b\0",
            value(tag::HOST_NAME, b'b'.into()),
        ),
        (
            3,
            tag::HOST_NAME,
            b"-a\0",
            value(tag::HOST_NAME, b'-'.into()),
        ),
        (
            3,
            tag::HOST_NAME,
            b"a..b\0",
            value(tag::HOST_NAME, b'a'.into()),
        ),
    ];
    for (indicator, tag, content, kind) in cases {
        let mut address = vec![0, indicator, 0, 0];
        address.extend(parameter(tag, content));
        let octets = message(kinds::CLDT, &[parameter(tag::SOURCE_ADDRESS, &address)]);
        let error = Message::decode(&octets).expect_err("a malformed address");
        let offset = match kind {
            DecodeErrorKind::ParameterLength { .. } => 18,
            _ => 16,
        };
        assert_eq!((error.kind, error.offset), (kind, offset), "{content:02x?}");
    }
}

/// RFC 3868, section 3.10.17: pairs of one type of address
#[test]
fn address_ranges_are_pairs_of_one_type() {
    let address = [0, 2, 0, 0, 0x80, 3, 0, 8, 0, 0, 0, 8];
    let source = parameter(tag::SOURCE_ADDRESS, &address);
    let destination = parameter(tag::DESTINATION_ADDRESS, &address);
    let missing = DecodeErrorKind::Missing;
    let cases: [(&[&[u8]], DecodeErrorKind, usize); 5] = [
        (&[], missing(tag::SOURCE_ADDRESS), 20),
        (&[&source], missing(tag::SOURCE_ADDRESS), 20),
        (
            &[&destination, &destination, &destination],
            missing(tag::DESTINATION_ADDRESS),
            20,
        ),
        (
            &[&source, &destination],
            DecodeErrorKind::Conflict(tag::DESTINATION_ADDRESS),
            24 + 16,
        ),
        (
            &[&source, &source, &destination, &destination],
            DecodeErrorKind::Conflict(tag::DESTINATION_ADDRESS),
            24 + 32,
        ),
    ];
    for (addresses, kind, offset) in cases {
        let key = [
            parameter(tag::LOCAL_ROUTING_KEY_IDENTIFIER, &[0; 4]),
            parameter(tag::ADDRESS_RANGE, &addresses.concat()),
        ];
        let octets = message(
            kinds::REG_REQ,
            &[parameter(tag::ROUTING_KEY, &key.concat())],
        );
        let error = Message::decode(&octets).expect_err("an invalid range");
        assert_eq!((error.kind, error.offset), (kind, offset));
    }
}

/// RFC 3868, section 3.9.12: Missing Parameter
#[test]
fn nested_parameters_are_demanded() {
    let cases = [
        (
            kinds::REG_REQ,
            tag::ROUTING_KEY,
            parameter(tag::NETWORK_APPEARANCE, &[0; 4]),
            tag::LOCAL_ROUTING_KEY_IDENTIFIER,
        ),
        (
            kinds::REG_RSP,
            tag::REGISTRATION_RESULT,
            parameter(tag::LOCAL_ROUTING_KEY_IDENTIFIER, &[0; 4]),
            tag::REGISTRATION_STATUS,
        ),
        (
            kinds::DEREG_RSP,
            tag::DEREGISTRATION_RESULT,
            parameter(tag::ROUTING_CONTEXT, &[0; 4]),
            tag::DEREGISTRATION_STATUS,
        ),
    ];
    for (kind, outer, content, missing) in cases {
        rejected::<Message>(
            kind,
            &[(outer, &content)],
            DecodeErrorKind::Missing(missing),
            8,
            ErrorCode::MISSING_PARAMETER,
        );
    }
}

/// RFC 3868, section 3.10.14: an undefined mode is the matter of the registration's result
#[test]
fn routing_keys_keep_undefined_traffic_modes() {
    let key = [
        parameter(tag::LOCAL_ROUTING_KEY_IDENTIFIER, &[0; 4]),
        parameter(tag::TRAFFIC_MODE_TYPE, &[0, 0, 0, 9]),
    ];
    let octets = message(
        kinds::REG_REQ,
        &[parameter(tag::ROUTING_KEY, &key.concat())],
    );
    let Ok(Message::RegistrationRequest(request)) = Message::decode(&octets) else {
        panic!("a REG REQ");
    };
    let mode = request.routing_keys[0].traffic_mode;
    assert_eq!(mode, Some(RequestedTrafficMode(TrafficMode(9))));
}

/// RFC 3868, section 3.1: reserved and spare bits are ignored
#[test]
fn reserved_bits_are_ignored() {
    let cases: [(MessageKind, u16, [u8; 4]); 7] = [
        (kinds::CLDT, tag::PROTOCOL_CLASS, [0xff, 0xff, 0xff, 0xfd]),
        (kinds::CLDT, tag::HOP_COUNTER, [0xff, 0xff, 0xff, 15]),
        (
            kinds::CODT,
            tag::SEQUENCE_NUMBER,
            [0xff, 0xff, 5 << 1 | 1, 100 << 1 | 1],
        ),
        (
            kinds::CODA,
            tag::RECEIVE_SEQUENCE_NUMBER,
            [0xff, 0xff, 0xff, 100 << 1 | 1],
        ),
        (kinds::CODA, tag::CREDIT, [0xff, 0xff, 0xff, 12]),
        (kinds::REG_REQ, tag::ASP_CAPABILITIES, [0xff, 0xff, 0xfd, 3]),
        (kinds::DUNA, tag::SMI, [0xff, 0xff, 0xff, 2]),
    ];
    for (kind, tag, value) in cases {
        let full = full().into_iter().find(|message| message.kind() == kind);
        let full = full.expect("a message of the kind");
        let parameters = split(&full.encode().expect("a message that fits"));
        let changed: Vec<_> = parameters
            .iter()
            .map(|original| match tag_of(original) {
                found if found == tag => parameter(tag, &value),
                _ => original.to_vec(),
            })
            .collect();
        assert_eq!(Message::decode(&message(kind, &changed)), Ok(full));
    }
}

/// RFC 3868, section 3.9.12: Invalid Version; an Error message is not answered
#[test]
fn errors_of_the_header_are_answered() {
    let mut octets = message::<[u8; 0]>(kinds::CLDT, &[]).to_vec();
    octets[0] = 2;
    let error = Message::decode(&octets.clone().into()).expect_err("version 2");
    let answer = ErrorMessage::answering(&error, &octets).expect("an answer");
    assert_eq!(answer.code, ErrorCode::INVALID_VERSION);
    let octets = message(kinds::ERR, &[parameter(tag::ERROR_CODE, &[1])]);
    let error = Message::decode(&octets).expect_err("a short error code");
    assert_eq!(ErrorMessage::answering(&error, &octets), None);
}

/// RFC 3868, section 3.9.7: the first 40 octets
#[test]
fn answers_contain_the_begin_of_the_message() {
    let octets = message(kinds::CLDT, &[parameter(tag::DATA, &[9; 60])]);
    let error = Message::decode(&octets).expect_err("missing parameters");
    let answer = ErrorMessage::answering(&error, &octets).expect("an answer");
    let diagnostic = answer.diagnostic.expect("a diagnostic");
    assert_eq!(diagnostic.0, octets[..40]);
}
