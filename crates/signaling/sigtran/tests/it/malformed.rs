//! Messages that are rejected, with the error code that answers them.

use bytes::Bytes;
use carrick_sigtran::m3ua::*;
use carrick_sigtran::message::{FormatErrorKind, MessageKind};

use crate::samples::{code, data};

/// Tag and value of a parameter.
type RawParameter<'a> = (u16, &'a [u8]);

/// Message of a kind with these parameters.
fn octets(kind: MessageKind, parameters: &[RawParameter<'_>]) -> Bytes {
    let mut octets = vec![1, 0, kind.class, kind.message_type, 0, 0, 0, 0];
    for (tag, value) in parameters {
        octets.extend_from_slice(&tag.to_be_bytes());
        octets.extend_from_slice(&(value.len() as u16 + 4).to_be_bytes());
        octets.extend_from_slice(value);
        octets.resize(octets.len().next_multiple_of(4), 0);
    }
    let length = octets.len() as u32;
    octets[4..8].copy_from_slice(&length.to_be_bytes());
    octets.into()
}

/// Expects an error, its position, and its error code.
fn rejected(
    kind: MessageKind,
    parameters: &[RawParameter<'_>],
    error: DecodeErrorKind,
    offset: usize,
    code: ErrorCode,
) {
    let octets = octets(kind, parameters);
    let found = Message::decode(&octets).expect_err("an invalid message");
    assert_eq!(
        (found.kind, found.offset, found.code()),
        (error, offset, code)
    );
    let text = found.to_string();
    assert!(text.starts_with(&format!(
        "malformed message from the peer at octet {offset}: "
    )));
}

const ONE: &[u8] = &[0, 0, 0, 1];

/// RFC 4666, section 3.8.1: Invalid Version
#[test]
fn other_versions_are_answered() {
    let mut message = octets(kinds::ASPUP, &[]).to_vec();
    message[0] = 2;
    let error = Message::decode(&Bytes::from(message.clone())).expect_err("version 2");
    assert_eq!(
        error.kind,
        DecodeErrorKind::Format(FormatErrorKind::Version(2))
    );
    let answer = ErrorMessage::answering(&error, &message).expect("an answer");
    assert_eq!(answer.code, ErrorCode::INVALID_VERSION);
}

/// RFC 4666, section 3.8.1: Unsupported Message Class and Type, with the first 40 octets
#[test]
fn unknown_messages_are_answered_with_their_begin() {
    let long: &[u8] = &[7; 90];
    let class = MessageKind::new(5, 1);
    rejected(
        class,
        &[(4, long)],
        DecodeErrorKind::UnsupportedClass(5),
        2,
        ErrorCode::UNSUPPORTED_MESSAGE_CLASS,
    );
    for kind in [
        (0, 2),
        (1, 0),
        (1, 2),
        (2, 7),
        (3, 0),
        (3, 7),
        (4, 5),
        (9, 5),
    ] {
        let kind = MessageKind::new(kind.0, kind.1);
        rejected(
            kind,
            &[(4, long)],
            DecodeErrorKind::UnsupportedType(kind),
            3,
            ErrorCode::UNSUPPORTED_MESSAGE_TYPE,
        );
        let octets = octets(kind, &[(4, long)]);
        let error = Message::decode(&octets).expect_err("unknown");
        let answer = ErrorMessage::answering(&error, &octets);
        let diagnostic = answer.expect("an answer").diagnostic.expect("a diagnostic");
        assert_eq!(diagnostic.0, octets[..40]);
    }
}

/// RFC 4666, section 3.8.1: Error messages are not answered with Error messages
#[test]
fn malformed_errors_are_not_answered() {
    let octets = octets(kinds::ERR, &[(tag::ERROR_CODE, &[1])]);
    let error = Message::decode(&octets).expect_err("a short error code");
    assert_eq!(ErrorMessage::answering(&error, &octets), None);
    let mut other_version = octets.to_vec();
    other_version[0] = 9;
    let error = Message::decode(&Bytes::from(other_version.clone())).expect_err("version 9");
    assert_eq!(ErrorMessage::answering(&error, &other_version), None);
}

/// RFC 4666, section 3.8.1: Missing Parameter
#[test]
fn mandatory_parameters_are_demanded() {
    let affected: (u16, &[u8]) = (tag::AFFECTED_POINT_CODE, ONE);
    let cases: [(MessageKind, &[RawParameter<'_>], u16); 14] = [
        (kinds::ERR, &[], tag::ERROR_CODE),
        (kinds::NTFY, &[], tag::STATUS),
        (kinds::DATA, &[], tag::PROTOCOL_DATA),
        (kinds::DUNA, &[], tag::AFFECTED_POINT_CODE),
        (kinds::DAVA, &[], tag::AFFECTED_POINT_CODE),
        (kinds::DAUD, &[], tag::AFFECTED_POINT_CODE),
        (kinds::DRST, &[], tag::AFFECTED_POINT_CODE),
        (kinds::SCON, &[], tag::AFFECTED_POINT_CODE),
        (kinds::DUPU, &[affected], tag::USER_CAUSE),
        (
            kinds::DUPU,
            &[(tag::USER_CAUSE, ONE)],
            tag::AFFECTED_POINT_CODE,
        ),
        (kinds::REG_REQ, &[], tag::ROUTING_KEY),
        (kinds::REG_RSP, &[], tag::REGISTRATION_RESULT),
        (kinds::DEREG_REQ, &[], tag::ROUTING_CONTEXT),
        (kinds::DEREG_RSP, &[], tag::DEREGISTRATION_RESULT),
    ];
    for (kind, parameters, missing) in cases {
        rejected(
            kind,
            parameters,
            DecodeErrorKind::Missing(missing),
            8 + 8 * parameters.len(),
            ErrorCode::MISSING_PARAMETER,
        );
    }
}

/// RFC 4666, section 3.8.1: Missing Parameter
#[test]
fn nested_parameters_are_demanded() {
    let id: &[u8] = &[2, 10, 0, 8, 0, 0, 0, 1];
    let dpc: &[u8] = &[2, 11, 0, 8, 0, 0, 0, 1];
    let context: &[u8] = &[0, 6, 0, 8, 0, 0, 0, 1];
    let cases = [
        (
            kinds::REG_REQ,
            tag::ROUTING_KEY,
            id,
            tag::DESTINATION_POINT_CODE,
        ),
        (
            kinds::REG_REQ,
            tag::ROUTING_KEY,
            dpc,
            tag::LOCAL_ROUTING_KEY_IDENTIFIER,
        ),
        (
            kinds::REG_RSP,
            tag::REGISTRATION_RESULT,
            id,
            tag::REGISTRATION_STATUS,
        ),
        (
            kinds::DEREG_RSP,
            tag::DEREGISTRATION_RESULT,
            context,
            tag::DEREGISTRATION_STATUS,
        ),
    ];
    for (kind, outer, content, missing) in cases {
        rejected(
            kind,
            &[(outer, content)],
            DecodeErrorKind::Missing(missing),
            8,
            ErrorCode::MISSING_PARAMETER,
        );
    }
}

/// RFC 4666, section 3.8.1: Parameter Field Error
#[test]
fn wrong_lengths_are_rejected() {
    let cases: [(MessageKind, u16, &[u8]); 17] = [
        (kinds::ERR, tag::ERROR_CODE, &[0; 5]),
        (kinds::NTFY, tag::STATUS, &[0; 3]),
        (kinds::ASPUP, tag::ASP_IDENTIFIER, &[0; 8]),
        (kinds::ASPUP, tag::INFO_STRING, &[b'x'; 256]),
        (kinds::ASPAC, tag::TRAFFIC_MODE_TYPE, &[]),
        (kinds::ASPAC, tag::ROUTING_CONTEXT, &[]),
        (kinds::ASPIA, tag::ROUTING_CONTEXT, &[0; 6]),
        (kinds::DATA, tag::NETWORK_APPEARANCE, &[0; 3]),
        (kinds::DATA, tag::ROUTING_CONTEXT, &[0; 8]),
        (kinds::DATA, tag::PROTOCOL_DATA, &[0; 11]),
        (kinds::DATA, tag::CORRELATION_ID, &[0; 2]),
        (kinds::DUNA, tag::AFFECTED_POINT_CODE, &[]),
        (kinds::DUPU, tag::AFFECTED_POINT_CODE, &[0; 8]),
        (kinds::DUPU, tag::USER_CAUSE, &[0; 2]),
        (kinds::SCON, tag::CONGESTION_INDICATIONS, &[0; 1]),
        (kinds::SCON, tag::CONCERNED_DESTINATION, &[0; 3]),
        (kinds::DEREG_REQ, tag::ROUTING_CONTEXT, &[0; 7]),
    ];
    for (kind, tag, value) in cases {
        let length = value.len();
        rejected(
            kind,
            &[(tag, value)],
            DecodeErrorKind::ParameterLength { tag, length },
            10,
            ErrorCode::PARAMETER_FIELD_ERROR,
        );
    }
}

/// RFC 4666, section 3.8.1: Invalid Parameter Value
#[test]
fn undefined_values_are_rejected() {
    let high_bits: &[u8] = &[1, 0, 0, 0];
    let protocol_data = |position: usize, octet| {
        let mut value = [0; 12];
        value[position] = octet;
        value
    };
    let cases: [(MessageKind, u16, &[u8], u32); 10] = [
        (kinds::NTFY, tag::STATUS, &[0, 1, 0, 1], 0x0001_0001),
        (kinds::NTFY, tag::STATUS, &[0, 3, 0, 1], 0x0003_0001),
        (kinds::NTFY, tag::STATUS, &[0, 2, 0, 4], 0x0002_0004),
        (kinds::SCON, tag::CONGESTION_INDICATIONS, &[0, 0, 0, 4], 4),
        (
            kinds::DUPU,
            tag::AFFECTED_POINT_CODE,
            high_bits,
            0x0100_0000,
        ),
        (
            kinds::DATA,
            tag::PROTOCOL_DATA,
            &protocol_data(0, 1),
            0x0100_0000,
        ),
        (
            kinds::DATA,
            tag::PROTOCOL_DATA,
            &protocol_data(4, 1),
            0x0100_0000,
        ),
        (
            kinds::DATA,
            tag::PROTOCOL_DATA,
            &protocol_data(8, 0x10),
            0x10,
        ),
        (kinds::DATA, tag::PROTOCOL_DATA, &protocol_data(9, 4), 4),
        (kinds::DATA, tag::PROTOCOL_DATA, &protocol_data(10, 4), 4),
    ];
    for (kind, tag, content, value) in cases {
        rejected(
            kind,
            &[(tag, content)],
            DecodeErrorKind::Value { tag, value },
            8,
            ErrorCode::INVALID_PARAMETER_VALUE,
        );
    }
    rejected(
        kinds::REG_REQ,
        &[(tag::ROUTING_KEY, &[2, 11, 0, 8, 1, 0, 0, 0])],
        DecodeErrorKind::Value {
            tag: tag::DESTINATION_POINT_CODE,
            value: 0x0100_0000,
        },
        12,
        ErrorCode::INVALID_PARAMETER_VALUE,
    );
}

/// RFC 4666, section 3.8.1: Unsupported Traffic Mode Type
#[test]
fn undefined_traffic_modes_are_rejected() {
    for mode in [0, 4] {
        rejected(
            kinds::ASPAC,
            &[(tag::TRAFFIC_MODE_TYPE, &[0, 0, 0, mode])],
            DecodeErrorKind::TrafficMode(mode.into()),
            8,
            ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE,
        );
    }
}

/// RFC 4666, section 3.2: one parameter of a type
#[test]
fn repeated_parameters_are_rejected() {
    rejected(
        kinds::ASPUP,
        &[(tag::ASP_IDENTIFIER, ONE), (tag::ASP_IDENTIFIER, ONE)],
        DecodeErrorKind::Repeated(tag::ASP_IDENTIFIER),
        16,
        ErrorCode::UNEXPECTED_PARAMETER,
    );
    let dpc_and_lists: &[u8] = &[
        2, 10, 0, 8, 0, 0, 0, 1, 2, 11, 0, 8, 0, 0, 0, 1, 2, 12, 0, 5, 3, 0, 0, 0, 2, 12, 0, 5, 5,
        0, 0, 0,
    ];
    rejected(
        kinds::REG_REQ,
        &[(tag::ROUTING_KEY, dpc_and_lists)],
        DecodeErrorKind::Repeated(tag::SERVICE_INDICATORS),
        36,
        ErrorCode::UNEXPECTED_PARAMETER,
    );
}

/// RFC 4666, section 3: every message may have further parameters
#[test]
fn unknown_parameters_are_skipped() {
    let unknown: [(u16, &[u8]); 4] = [
        (0x0014, b"new"),
        (0x0214, b"new"),
        (0xffff, b"extension"),
        (tag::CORRELATION_ID, ONE),
    ];
    let message = octets(kinds::ASPUP, &unknown);
    assert_eq!(
        Message::decode(&message),
        Ok(Message::AspUp(AspUp::default()))
    );
}

/// RFC 4666, section 3.2: tags that are not used in M3UA
#[test]
fn parameters_of_other_layers_are_rejected() {
    for tag in [
        0, 1, 2, 3, 5, 8, 0x0a, 0x0e, 0x0f, 0x10, 0x201, 0x20d, 0x211,
    ] {
        rejected(
            kinds::ASPUP,
            &[(tag, ONE)],
            DecodeErrorKind::Excluded(tag),
            8,
            ErrorCode::UNEXPECTED_PARAMETER,
        );
    }
}

/// RFC 4666, section 3.3.1: Network Appearance is the first parameter of DATA
#[test]
fn later_network_appearance_of_data_is_rejected() {
    rejected(
        kinds::DATA,
        &[(tag::ROUTING_CONTEXT, ONE), (tag::NETWORK_APPEARANCE, ONE)],
        DecodeErrorKind::NotFirst(tag::NETWORK_APPEARANCE),
        16,
        ErrorCode::PROTOCOL_ERROR,
    );
}

/// RFC 4666, section 3.5.6: all parameters of the BEAT, without any change
#[test]
fn heartbeats_keep_unknown_parameters() {
    let beat = octets(
        kinds::BEAT,
        &[(0x0300, b"unknown"), (tag::HEARTBEAT_DATA, b"data!")],
    );
    let Ok(Message::Heartbeat(body)) = Message::decode(&beat) else {
        panic!("a BEAT");
    };
    assert_eq!(body.data().map(|data| &data[..]), Some(&b"data!"[..]));
    let ack = Message::HeartbeatAck(body).encode().expect("a BEAT ACK");
    assert_eq!(ack[8..], beat[8..]);
}

#[test]
fn invalid_content_is_not_encoded() {
    let empty = |tag| Err(EncodeError::Empty(tag));
    let message = Message::RegistrationRequest(RegistrationRequest {
        routing_keys: vec![],
    });
    assert_eq!(message.encode(), empty(tag::ROUTING_KEY));
    let key = RoutingKey {
        local_id: LocalRoutingKeyIdentifier(1),
        routing_context: None,
        traffic_mode: None,
        network_appearance: None,
        destinations: vec![],
    };
    let message = Message::RegistrationRequest(RegistrationRequest {
        routing_keys: vec![key],
    });
    assert_eq!(message.encode(), empty(tag::DESTINATION_POINT_CODE));
    let message = Message::AspActive(AspActive {
        traffic_mode: Some(TrafficMode(4)),
        ..AspActive::default()
    });
    let error = EncodeError::Value {
        tag: tag::TRAFFIC_MODE_TYPE,
        value: 4,
    };
    assert_eq!(message.encode(), Err(error));
    let mut wrong = data(0, &[]);
    wrong.protocol_data.si = 16;
    assert!(Message::Data(wrong).encode().is_err());
    let long = Message::Data(data(0, &vec![0; 65_520]));
    assert!(matches!(long.encode(), Err(EncodeError::TooLong(_))));
    let longest = data(0, &vec![0; 65_500]);
    assert!(Message::Data(longest).encode().is_ok());
    assert_eq!(InfoString::new(&"x".repeat(256)), None);
    assert_eq!(CongestionLevel::new(4), None);
    assert_eq!(code(5).value(), 5);
}
