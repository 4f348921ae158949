//! Checks of a layer's messages that do not depend on the layer.

use std::fmt::Debug;

use bytes::Bytes;
use carrick_sigtran::message::kinds::common as kinds;
use carrick_sigtran::message::{DecodeError, DecodeErrorKind, EncodeError, ErrorCode, MessageKind};
use proptest::prelude::*;

/// Messages of a layer.
pub(crate) trait Layer: Clone + PartialEq + Debug {
    fn decode(octets: &Bytes) -> Result<Self, DecodeError>;
    fn encode(&self) -> Result<Bytes, EncodeError>;
    fn kind(&self) -> MessageKind;
    /// Returns the Error message that answers a malformed message, with its code.
    fn answering(error: &DecodeError, octets: &[u8]) -> Option<(ErrorCode, Self)>;
    /// Returns each message with all its parameters.
    fn full() -> Vec<Self>;
}

macro_rules! layer {
    ($layer:ident, $samples:path) => {
        impl crate::layer::Layer for carrick_sigtran::$layer::Message {
            fn decode(
                octets: &bytes::Bytes,
            ) -> Result<Self, carrick_sigtran::message::DecodeError> {
                Self::decode(octets)
            }

            fn encode(&self) -> Result<bytes::Bytes, carrick_sigtran::message::EncodeError> {
                self.encode()
            }

            fn kind(&self) -> carrick_sigtran::message::MessageKind {
                self.kind()
            }

            fn answering(
                error: &carrick_sigtran::message::DecodeError,
                octets: &[u8],
            ) -> Option<(carrick_sigtran::message::ErrorCode, Self)> {
                let answer = carrick_sigtran::$layer::ErrorMessage::answering(error, octets)?;
                Some((answer.code, Self::Error(answer)))
            }

            fn full() -> Vec<Self> {
                $samples()
            }
        }
    };
}
pub(crate) use layer;

/// Declares the tests of a layer's messages that every layer has.
macro_rules! properties {
    ($message:ty, $count:literal) => {
        #[test]
        fn every_message_survives_a_round_trip() {
            let messages = <$message as crate::layer::Layer>::full();
            assert_eq!(messages.len(), $count);
            for message in &messages {
                crate::layer::round_trip(message).expect("equal messages");
            }
        }

        #[test]
        fn unknown_messages_are_answered_with_their_begin() {
            crate::layer::check_kinds::<$message>();
        }

        proptest::proptest! {
            #[test]
            fn any_octets_are_decoded_or_rejected(
                octets in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            ) {
                crate::layer::check_octets::<$message>(octets)?;
            }

            #[test]
            fn any_parameters_are_decoded_or_rejected(
                octets in crate::layer::any_parameters::<$message>(),
            ) {
                crate::layer::check_octets::<$message>(octets)?;
            }

            #[test]
            fn changed_messages_are_decoded_or_rejected(
                octets in crate::layer::changed::<$message>(),
            ) {
                crate::layer::check_octets::<$message>(octets)?;
            }
        }
    };
}
pub(crate) use properties;

/// Mandatory parameters of the maintenance messages, in layers in which they have no others.
const MAINTENANCE: &[(MessageKind, &[u16])] = &[
    (kinds::ERR, &[0x000c]),
    (kinds::NTFY, &[0x000d]),
    (kinds::ASPUP, &[]),
    (kinds::ASPUP_ACK, &[]),
    (kinds::ASPDN, &[]),
    (kinds::ASPDN_ACK, &[]),
    (kinds::BEAT, &[]),
    (kinds::BEAT_ACK, &[]),
    (kinds::ASPAC, &[]),
    (kinds::ASPAC_ACK, &[]),
    (kinds::ASPIA, &[]),
    (kinds::ASPIA_ACK, &[]),
];

/// Tag and value of a parameter.
pub(crate) type RawParameter<'a> = (u16, &'a [u8]);

/// Encoded parameter.
pub(crate) fn parameter(tag: u16, value: &[u8]) -> Vec<u8> {
    let mut octets = tag.to_be_bytes().to_vec();
    octets.extend_from_slice(&(value.len() as u16 + 4).to_be_bytes());
    octets.extend_from_slice(value);
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

/// Message of a kind with encoded parameters.
pub(crate) fn message<P: AsRef<[u8]>>(kind: MessageKind, parameters: &[P]) -> Bytes {
    let mut octets = vec![1, 0, kind.class, kind.message_type, 0, 0, 0, 0];
    for parameter in parameters {
        octets.extend_from_slice(parameter.as_ref());
    }
    let length = octets.len() as u32;
    octets[4..8].copy_from_slice(&length.to_be_bytes());
    octets.into()
}

/// Splits a valid message into its encoded parameters.
pub(crate) fn split(octets: &Bytes) -> Vec<Bytes> {
    let mut rest = octets.slice(8..);
    let mut parameters = Vec::new();
    while let [_, _, high, low, ..] = rest[..] {
        let length = usize::from(u16::from_be_bytes([high, low])).next_multiple_of(4);
        parameters.push(rest.split_to(length));
    }
    parameters
}

pub(crate) fn tag_of(parameter: &Bytes) -> u16 {
    u16::from_be_bytes([parameter[0], parameter[1]])
}

/// Checks that a message is equal after encoding and decoding.
pub(crate) fn round_trip<M: Layer>(message: &M) -> Result<(), TestCaseError> {
    let octets = message.encode().expect("a message that fits");
    prop_assert_eq!(octets.len() % 4, 0);
    prop_assert_eq!(&octets[4..8], &(octets.len() as u32).to_be_bytes());
    prop_assert_eq!(&M::decode(&octets).expect("a valid message"), message);
    Ok(())
}

/// Checks that a message has these octets, and that they are decoded to it.
pub(crate) fn expect<M: Layer>(message: &M, octets: &[&[u8]]) {
    let octets = Bytes::from(octets.concat());
    assert_eq!(message.encode(), Ok(octets.clone()));
    assert_eq!(M::decode(&octets).as_ref(), Ok(message));
}

/// Expects an error, its position, and the error code of the answer.
pub(crate) fn rejected<M: Layer>(
    kind: MessageKind,
    parameters: &[RawParameter<'_>],
    error: DecodeErrorKind,
    offset: usize,
    code: ErrorCode,
) {
    let parameters: Vec<_> = parameters
        .iter()
        .map(|&(tag, value)| parameter(tag, value))
        .collect();
    let octets = message(kind, &parameters);
    let found = M::decode(&octets).expect_err("an invalid message");
    assert_eq!((found.kind, found.offset), (error, offset), "{octets:02x?}");
    let (answer, _) = M::answering(&found, &octets).expect("an answer");
    assert_eq!(answer, code);
}

/// Checks that decoding does not panic, that what it accepts can be encoded, and that what it rejects is answered.
pub(crate) fn check_octets<M: Layer>(octets: Vec<u8>) -> Result<(), TestCaseError> {
    let octets = Bytes::from(octets);
    match M::decode(&octets) {
        Ok(message) => {
            let encoded = message.encode().expect("a message that was received");
            prop_assert_eq!(M::decode(&encoded), Ok(message));
        }
        Err(error) => {
            prop_assert!(error.offset <= octets.len());
            if let Some((_, answer)) = M::answering(&error, &octets) {
                round_trip(&answer)?;
            } else {
                prop_assert_eq!(&octets[2..4], &[0, 0]);
            }
        }
    }
    Ok(())
}

/// Checks that each full message without one of its parameters is valid, or lacks a mandatory one: those of `mandatory`, or of
/// maintenance messages that are not in it.
pub(crate) fn check_mandatory<M: Layer>(mandatory: &[(MessageKind, &[u16])]) {
    for full in M::full() {
        let (_, mandatory) = mandatory
            .iter()
            .chain(MAINTENANCE)
            .find(|(kind, _)| *kind == full.kind())
            .unwrap_or_else(|| panic!("mandatory parameters of {full:?}"));
        let parameters = split(&full.encode().expect("a message that fits"));
        for parameter in &parameters {
            let tag = tag_of(parameter);
            let mut others = parameters.clone();
            others.retain(|other| tag_of(other) != tag);
            let octets = message(full.kind(), &others);
            match M::decode(&octets) {
                Ok(_) => assert!(!mandatory.contains(&tag), "{tag:#06x} of {full:?}"),
                Err(error) => {
                    assert!(mandatory.contains(&tag), "{tag:#06x} of {full:?}: {error}");
                    assert_eq!(error.kind, DecodeErrorKind::Missing(tag));
                    assert_eq!(error.offset, octets.len());
                    assert_eq!(error.code(), ErrorCode::MISSING_PARAMETER);
                }
            }
        }
    }
}

/// Checks that a second parameter of a type is rejected in each full message, except for the tags `repeated` and for
/// interface identifiers in messages of the kinds `several_identifiers`.
pub(crate) fn check_repeated<M: Layer>(repeated: &[u16], several_identifiers: &[MessageKind]) {
    for full in M::full() {
        let parameters = split(&full.encode().expect("a message that fits"));
        for parameter in &parameters {
            let tag = tag_of(parameter);
            let twice = [&parameters[..], std::slice::from_ref(parameter)].concat();
            let octets = message(full.kind(), &twice);
            let identifier = matches!(tag, 0x0001 | 0x0003 | 0x0008);
            let several = identifier && several_identifiers.contains(&full.kind());
            if several || repeated.contains(&tag) {
                assert!(M::decode(&octets).is_ok(), "{tag:#06x} of {full:?}");
            } else {
                let error = M::decode(&octets).expect_err("a repeated parameter");
                assert_eq!(error.kind, DecodeErrorKind::Repeated(tag), "{full:?}");
                assert_eq!(error.offset, octets.len() - parameter.len());
                assert_eq!(error.code(), ErrorCode::UNEXPECTED_PARAMETER);
            }
        }
    }
}

/// Checks that every full message accepts unknown parameters, and none with the tags that the layer excludes.
pub(crate) fn check_tags<M: Layer>(excluded: &[u16], unknown: &[u16]) {
    for full in M::full() {
        let parameters = split(&full.encode().expect("a message that fits"));
        let with = |tag| {
            let mut parameters = parameters.clone();
            parameters.push(parameter(tag, &[0; 5]).into());
            message(full.kind(), &parameters)
        };
        for &tag in excluded {
            let octets = with(tag);
            let error = M::decode(&octets).expect_err("a parameter of another layer");
            assert_eq!(error.kind, DecodeErrorKind::Excluded(tag));
            assert_eq!(error.offset, octets.len() - 12);
            assert_eq!(error.code(), ErrorCode::UNEXPECTED_PARAMETER);
        }
        for &tag in unknown {
            let decoded = M::decode(&with(tag)).expect("an unknown parameter is skipped");
            assert_eq!(decoded.kind(), full.kind());
        }
    }
}

/// Checks that full messages are equal with their parameters in reverse order, except those of the kinds `ordered`.
pub(crate) fn check_order<M: Layer>(ordered: &[MessageKind]) {
    for full in M::full() {
        if ordered.contains(&full.kind()) {
            continue;
        }
        let mut parameters = split(&full.encode().expect("a message that fits"));
        parameters.reverse();
        let octets = message(full.kind(), &parameters);
        assert_eq!(M::decode(&octets), Ok(full));
    }
}

/// Checks that types beyond those of the full messages are unsupported in their classes, and other classes are
/// unsupported, with the first 40 octets in the answer.
pub(crate) fn check_kinds<M: Layer>() {
    let full: Vec<_> = M::full().iter().map(Layer::kind).collect();
    for class in 0..=u8::MAX {
        for message_type in (0..20).chain([127, 255]) {
            let kind = MessageKind::new(class, message_type);
            if full.contains(&kind) {
                continue;
            }
            let octets = message(kind, &[parameter(4, &[7; 90])]);
            let error = M::decode(&octets).expect_err("an unsupported message");
            let has_class = full.iter().any(|kind| kind.class == class);
            let (expected, offset, code) = if has_class {
                let code = ErrorCode::UNSUPPORTED_MESSAGE_TYPE;
                (DecodeErrorKind::UnsupportedType(kind), 3, code)
            } else {
                let code = ErrorCode::UNSUPPORTED_MESSAGE_CLASS;
                (DecodeErrorKind::UnsupportedClass(class), 2, code)
            };
            assert_eq!((error.kind, error.offset), (expected, offset));
            let (answer, message) = M::answering(&error, &octets).expect("an answer");
            assert_eq!(answer, code);
            let begin = split(&message.encode().expect("a message that fits"));
            assert_eq!(begin[1][4..], octets[..40]);
        }
    }
}

/// Strategy for the octets of a message of one of the layer's kinds with any parameters, the tags of which are often
/// those of the layer.
pub(crate) fn any_parameters<M: Layer>() -> impl Strategy<Value = Vec<u8>> {
    let full = M::full();
    let tags: Vec<u16> = full
        .iter()
        .flat_map(|full| split(&full.encode().expect("a message that fits")))
        .map(|parameter| tag_of(&parameter))
        .collect();
    let tag = prop_oneof![3 => prop::sample::select(tags), 1 => any::<u16>()];
    let value = prop::collection::vec(any::<u8>(), 0..30);
    let kind = prop::sample::select(full.iter().map(Layer::kind).collect::<Vec<_>>());
    (kind, prop::collection::vec((tag, value), 0..6)).prop_map(|(kind, parameters)| {
        let parameters: Vec<_> = parameters
            .iter()
            .map(|(tag, value)| parameter(*tag, value))
            .collect();
        message(kind, &parameters).to_vec()
    })
}

/// Strategy for the octets of a full message with one octet changed.
pub(crate) fn changed<M: Layer>() -> impl Strategy<Value = Vec<u8>> {
    let full: Vec<Vec<u8>> = M::full()
        .iter()
        .map(|full| full.encode().expect("a message that fits").to_vec())
        .collect();
    (
        prop::sample::select(full),
        any::<prop::sample::Index>(),
        any::<u8>(),
    )
        .prop_map(|(mut octets, position, octet)| {
            let position = position.index(octets.len());
            octets[position] = octet;
            octets
        })
}
