//! Messages are equal after encoding and decoding.

use bytes::Bytes;
use carrick_sigtran::m3ua::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::samples::{full, minimal};

fn round_trip(message: &Message) -> Result<(), TestCaseError> {
    let octets = message.encode().expect("a message that fits");
    prop_assert_eq!(octets.len() % 4, 0);
    prop_assert_eq!(&octets[4..8], &(octets.len() as u32).to_be_bytes());
    prop_assert_eq!(&Message::decode(&octets).expect("a valid message"), message);
    Ok(())
}

/// RFC 4666, section 3.1.2
#[test]
fn every_message_survives_a_round_trip() {
    let messages = full();
    assert_eq!(messages.len(), 23);
    for message in messages.iter().chain(&minimal()) {
        round_trip(message).expect("equal messages");
    }
}

/// RFC 4666, section 3.2: parameters may be in any order
#[test]
fn parameters_are_accepted_in_any_order() {
    for message in full() {
        if matches!(
            message,
            Message::Data(_) | Message::Heartbeat(_) | Message::HeartbeatAck(_)
        ) {
            continue;
        }
        let repeated = matches!(
            message,
            Message::RegistrationRequest(_)
                | Message::RegistrationResponse(_)
                | Message::DeregistrationResponse(_)
        );
        let octets = message.encode().expect("a message that fits");
        let mut parameters = Vec::new();
        let mut rest = &octets[8..];
        while let [_, _, high, low, ..] = *rest {
            let length = usize::from(u16::from_be_bytes([high, low])).next_multiple_of(4);
            parameters.push(&rest[..length]);
            rest = &rest[length..];
        }
        if repeated {
            continue;
        }
        parameters.reverse();
        let reversed = [&octets[..8], &parameters.concat()].concat();
        assert_eq!(Message::decode(&Bytes::from(reversed)), Ok(message));
    }
}

fn code() -> impl Strategy<Value = PointCode> {
    (0..1_u32 << 24).prop_map(|value| PointCode::new(value).expect("24 bits"))
}

fn affected() -> impl Strategy<Value = Vec<AffectedPointCode>> {
    let one = (any::<u8>(), code());
    vec(
        one.prop_map(|(mask, point_code)| AffectedPointCode { mask, point_code }),
        1..5,
    )
}

fn contexts() -> impl Strategy<Value = Option<RoutingContexts>> {
    let list = vec(any::<u32>().prop_map(RoutingContext), 0..5);
    list.prop_map(RoutingContexts::new)
}

fn appearance() -> impl Strategy<Value = Option<NetworkAppearance>> {
    of(any::<u32>().prop_map(NetworkAppearance))
}

fn info() -> impl Strategy<Value = Option<InfoString>> {
    of("\\PC{0,60}".prop_map(|text| InfoString::new(&text).expect("at most 240 octets")))
}

fn data() -> impl Strategy<Value = Message> {
    let label = (code(), code(), 0..16_u8, 0..4_u8, 0..4_u8, any::<u8>());
    let rest = (
        appearance(),
        of(any::<u32>()),
        of(any::<u32>()),
        vec(any::<u8>(), 0..300),
    );
    (label, rest).prop_map(|((opc, dpc, si, ni, mp, sls), rest)| {
        let (network_appearance, context, correlation, user_data) = rest;
        Message::Data(Data {
            network_appearance,
            routing_context: context.map(RoutingContext),
            protocol_data: ProtocolData {
                opc,
                dpc,
                si,
                ni,
                mp,
                sls,
                user_data: user_data.into(),
            },
            correlation_id: correlation.map(CorrelationId),
        })
    })
}

fn congestion() -> impl Strategy<Value = Message> {
    let rest = (of(code()), of(0..4_u8), info());
    (appearance(), contexts(), affected(), rest).prop_map(|(na, contexts, affected, rest)| {
        let (concerned, level, info) = rest;
        Message::SignallingCongestion(SignallingCongestion {
            network_appearance: na,
            routing_contexts: contexts,
            affected: AffectedPointCodes(affected),
            concerned: concerned.map(ConcernedDestination),
            level: level.and_then(CongestionLevel::new),
            info,
        })
    })
}

fn destination() -> impl Strategy<Value = RoutingKeyDestination> {
    let opcs = prop_oneof![Just(Vec::new()), affected()];
    (code(), vec(0..16_u8, 0..6), opcs).prop_map(|(dpc, service_indicators, opcs)| {
        RoutingKeyDestination {
            dpc,
            service_indicators,
            opcs,
        }
    })
}

fn registration() -> impl Strategy<Value = Message> {
    let key = (
        any::<u32>(),
        of(any::<u32>()),
        of(any::<u32>()),
        appearance(),
        vec(destination(), 1..4),
    );
    let key = key.prop_map(
        |(id, context, mode, network_appearance, destinations)| RoutingKey {
            local_id: LocalRoutingKeyIdentifier(id),
            routing_context: context.map(RoutingContext),
            traffic_mode: mode.map(TrafficMode),
            network_appearance,
            destinations,
        },
    );
    vec(key, 1..4)
        .prop_map(|routing_keys| Message::RegistrationRequest(RegistrationRequest { routing_keys }))
}

fn error() -> impl Strategy<Value = Message> {
    let rest = (of(affected()), appearance(), of(vec(any::<u8>(), 0..50)));
    (any::<u32>(), contexts(), rest).prop_map(|(code, routing_contexts, rest)| {
        let (affected, network_appearance, diagnostic) = rest;
        Message::Error(ErrorMessage {
            code: ErrorCode(code),
            routing_contexts,
            affected: affected.map(AffectedPointCodes),
            network_appearance,
            diagnostic: diagnostic.map(|octets| DiagnosticInformation(octets.into())),
        })
    })
}

fn heartbeat() -> impl Strategy<Value = Message> {
    vec(any::<u8>(), 0..50)
        .prop_map(|data| Message::Heartbeat(Heartbeat::new(&data).expect("a short heartbeat")))
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![data(), congestion(), registration(), error(), heartbeat()]
}

proptest! {
    #[test]
    fn messages_survive_a_round_trip(message in message()) {
        round_trip(&message)?;
    }

    #[test]
    fn any_octets_are_decoded_or_rejected(octets in vec(any::<u8>(), 0..200)) {
        check_octets(octets)?;
    }

    #[test]
    fn any_parameters_are_decoded_or_rejected(
        kind in 0..23_usize,
        parameters in vec((parameter_tag(), vec(any::<u8>(), 0..30)), 0..6),
    ) {
        let kind = full()[kind].kind();
        let mut octets = vec![1, 0, kind.class, kind.message_type, 0, 0, 0, 0];
        for (tag, value) in parameters {
            octets.extend_from_slice(&tag.to_be_bytes());
            octets.extend_from_slice(&(value.len() as u16 + 4).to_be_bytes());
            octets.extend_from_slice(&value);
            octets.resize(octets.len().next_multiple_of(4), 0);
        }
        let length = octets.len() as u32;
        octets[4..8].copy_from_slice(&length.to_be_bytes());
        check_octets(octets)?;
    }

    #[test]
    fn changed_messages_are_decoded_or_rejected(
        index in 0..23_usize,
        position in any::<prop::sample::Index>(),
        octet in any::<u8>(),
    ) {
        let mut octets = full()[index].encode().expect("a message that fits").to_vec();
        let position = position.index(octets.len());
        octets[position] = octet;
        check_octets(octets)?;
    }
}

fn parameter_tag() -> impl Strategy<Value = u16> {
    prop_oneof![0..0x16_u16, 0x200..0x216_u16, any::<u16>()]
}

/// Checks that decoding does not panic, that what it accepts can be encoded, and that what it rejects is answered.
fn check_octets(octets: Vec<u8>) -> Result<(), TestCaseError> {
    let octets = Bytes::from(octets);
    match Message::decode(&octets) {
        Ok(message) => {
            let encoded = message.encode().expect("a message that was received");
            prop_assert_eq!(Message::decode(&encoded), Ok(message));
        }
        Err(error) => {
            prop_assert!(error.offset <= octets.len());
            if let Some(answer) = ErrorMessage::answering(&error, &octets) {
                prop_assert_eq!(answer.code, error.code());
                round_trip(&Message::Error(answer))?;
            } else {
                prop_assert_eq!(&octets[2..4], &[0, 0]);
            }
        }
    }
    Ok(())
}
