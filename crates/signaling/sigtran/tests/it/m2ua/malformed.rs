//! Messages that are rejected, with the error code that answers them.

use carrick_sigtran::m2ua::*;
use carrick_sigtran::message::MessageKind;

use crate::layer::{RawParameter, rejected};

const LINK: RawParameter<'_> = (tag::INTERFACE_IDENTIFIER, &[0, 0, 0, 7]);

/// RFC 3331, section 3.3.3.1: Parameter Field Error
#[test]
fn wrong_lengths_are_rejected() {
    let (ttc, long) = (&[0; 4098][..], &[0; 4097][..]);
    let cases: [(MessageKind, u16, &[u8]); 18] = [
        (kinds::DATA, tag::PROTOCOL_DATA, &[]),
        (kinds::DATA, tag::PROTOCOL_DATA, long),
        (kinds::DATA, tag::TTC_PROTOCOL_DATA, &[1]),
        (kinds::DATA, tag::TTC_PROTOCOL_DATA, ttc),
        (kinds::DATA, tag::CORRELATION_ID, &[0; 3]),
        (kinds::DATA_ACK, tag::CORRELATION_ID, &[0; 5]),
        (kinds::STATE_REQUEST, tag::STATE_REQUEST, &[0; 2]),
        (kinds::STATE_INDICATION, tag::STATE_EVENT, &[0; 8]),
        (kinds::CONGESTION_INDICATION, tag::CONGESTION_STATUS, &[0]),
        (kinds::CONGESTION_INDICATION, tag::DISCARD_STATUS, &[]),
        (kinds::RETRIEVAL_REQUEST, tag::ACTION, &[0; 3]),
        (kinds::RETRIEVAL_REQUEST, tag::SEQUENCE_NUMBER, &[0; 3]),
        (kinds::RETRIEVAL_CONFIRM, tag::RETRIEVAL_RESULT, &[0; 3]),
        (kinds::RETRIEVAL_COMPLETE, tag::PROTOCOL_DATA, &[]),
        (kinds::RETRIEVAL_INDICATION, tag::PROTOCOL_DATA, &[]),
        (kinds::STATE_CONFIRM, tag::STATE_REQUEST, &[]),
        (kinds::RETRIEVAL_CONFIRM, tag::ACTION, &[]),
        (kinds::RETRIEVAL_CONFIRM, tag::SEQUENCE_NUMBER, &[0; 8]),
    ];
    for (kind, tag, value) in cases {
        let length = value.len();
        rejected::<Message>(
            kind,
            &[LINK, (tag, value)],
            DecodeErrorKind::ParameterLength { tag, length },
            18,
            ErrorCode::PARAMETER_FIELD_ERROR,
        );
    }
    let (long, identifier) = (&[b'x'; 256][..], tag::INTERFACE_IDENTIFIER);
    let cases: [(MessageKind, u16, &[u8]); 12] = [
        (kinds::ESTABLISH_REQUEST, identifier, &[0; 8]),
        (kinds::ESTABLISH_REQUEST, identifier, &[]),
        (kinds::RELEASE_REQUEST, tag::INTERFACE_IDENTIFIER_TEXT, &[]),
        (kinds::RELEASE_CONFIRM, tag::INTERFACE_IDENTIFIER_TEXT, long),
        (kinds::DEREG_REQ, identifier, &[0; 8]),
        (kinds::ASPAC, identifier, &[]),
        (kinds::ASPAC, identifier, &[0; 6]),
        (kinds::ASPAC, tag::INTERFACE_IDENTIFIER_RANGE, &[0; 4]),
        (kinds::ASPIA, tag::INTERFACE_IDENTIFIER_RANGE, &[]),
        (kinds::NTFY, tag::INTERFACE_IDENTIFIER_RANGE, &[0; 12]),
        (kinds::ASPAC, tag::INTERFACE_IDENTIFIER_TEXT, &[]),
        (kinds::ASPAC, tag::TRAFFIC_MODE_TYPE, &[0; 3]),
    ];
    for (kind, tag, value) in cases {
        let length = value.len();
        rejected::<Message>(
            kind,
            &[(tag, value)],
            DecodeErrorKind::ParameterLength { tag, length },
            10,
            ErrorCode::PARAMETER_FIELD_ERROR,
        );
    }
}

/// RFC 3331, section 3.3.3.1: Invalid Parameter Value
#[test]
fn undefined_values_are_rejected() {
    let cases = [
        (kinds::STATE_REQUEST, tag::STATE_REQUEST, 0xb),
        (kinds::STATE_CONFIRM, tag::STATE_REQUEST, 0x100),
        (kinds::STATE_INDICATION, tag::STATE_EVENT, 0),
        (kinds::STATE_INDICATION, tag::STATE_EVENT, 5),
        (kinds::CONGESTION_INDICATION, tag::CONGESTION_STATUS, 4),
        (kinds::CONGESTION_INDICATION, tag::DISCARD_STATUS, 4),
        (kinds::RETRIEVAL_REQUEST, tag::ACTION, 0),
        (kinds::RETRIEVAL_REQUEST, tag::ACTION, 3),
        (kinds::RETRIEVAL_CONFIRM, tag::RETRIEVAL_RESULT, 2),
    ];
    for (kind, tag, value) in cases {
        rejected::<Message>(
            kind,
            &[LINK, (tag, &u32::to_be_bytes(value))],
            DecodeErrorKind::Value { tag, value },
            16,
            ErrorCode::INVALID_PARAMETER_VALUE,
        );
    }
    let cases: [(u16, &[u8], u32); 2] = [
        (tag::INTERFACE_IDENTIFIER_TEXT, b"li\xffnk", 0xff),
        (
            tag::INTERFACE_IDENTIFIER_RANGE,
            &[0, 0, 0, 3, 0, 0, 0, 2],
            3,
        ),
    ];
    for (tag, content, value) in cases {
        rejected::<Message>(
            kinds::ASPAC,
            &[(tag, content)],
            DecodeErrorKind::Value { tag, value },
            8,
            ErrorCode::INVALID_PARAMETER_VALUE,
        );
    }
    rejected::<Message>(
        kinds::ASPAC,
        &[(tag::TRAFFIC_MODE_TYPE, &[0, 0, 0, 4])],
        DecodeErrorKind::TrafficMode(4),
        8,
        ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE,
    );
}

/// RFC 3331, section 3.3.2.7: text identifiers are not beside integers
#[test]
fn identifier_formats_are_not_mixed() {
    let text: RawParameter<'_> = (tag::INTERFACE_IDENTIFIER_TEXT, b"link");
    let range: RawParameter<'_> = (tag::INTERFACE_IDENTIFIER_RANGE, &[0, 0, 0, 1, 0, 0, 0, 2]);
    for (first, second) in [(LINK, text), (range, text), (text, LINK), (text, range)] {
        for kind in [
            kinds::ASPAC,
            kinds::ASPAC_ACK,
            kinds::ASPIA,
            kinds::ASPIA_ACK,
        ] {
            rejected::<Message>(
                kind,
                &[first, second],
                DecodeErrorKind::Conflict(second.0),
                12 + first.1.len(),
                ErrorCode::UNEXPECTED_PARAMETER,
            );
        }
    }
}

/// RFC 3331, section 3.2: the M2UA message header follows the common header
#[test]
fn later_interface_identifiers_are_rejected() {
    let state: RawParameter<'_> = (tag::STATE_REQUEST, &[0, 0, 0, 1]);
    for kind in [kinds::STATE_REQUEST, kinds::ESTABLISH_REQUEST, kinds::DATA] {
        rejected::<Message>(
            kind,
            &[state, LINK],
            DecodeErrorKind::NotFirst(tag::INTERFACE_IDENTIFIER),
            16,
            ErrorCode::PROTOCOL_ERROR,
        );
    }
}

/// RFC 3331, section 3.3.3.1: Missing Parameter
#[test]
fn nested_parameters_are_demanded() {
    let id: &[u8] = &[3, 0x0a, 0, 8, 0, 0, 0, 1];
    let sdt: &[u8] = &[3, 0x0a, 0, 8, 0, 0, 0, 1, 3, 0x0b, 0, 8, 0, 0, 0, 1];
    let status: &[u8] = &[3, 0x0a, 0, 8, 0, 0, 0, 1, 3, 0x0e, 0, 8, 0, 0, 0, 1];
    let cases = [
        (
            kinds::REG_REQ,
            tag::LINK_KEY,
            &[][..],
            tag::LOCAL_LINK_KEY_IDENTIFIER,
        ),
        (kinds::REG_REQ, tag::LINK_KEY, id, tag::SDT_IDENTIFIER),
        (kinds::REG_REQ, tag::LINK_KEY, sdt, tag::SDL_IDENTIFIER),
        (
            kinds::REG_RSP,
            tag::REGISTRATION_RESULT,
            id,
            tag::REGISTRATION_STATUS,
        ),
        (
            kinds::REG_RSP,
            tag::REGISTRATION_RESULT,
            status,
            tag::INTERFACE_IDENTIFIER,
        ),
        (
            kinds::DEREG_RSP,
            tag::DEREGISTRATION_RESULT,
            &[],
            tag::INTERFACE_IDENTIFIER,
        ),
    ];
    for (kind, outer, content, missing) in cases {
        rejected::<Message>(
            kind,
            &[(outer, content)],
            DecodeErrorKind::Missing(missing),
            8,
            ErrorCode::MISSING_PARAMETER,
        );
    }
}
