//! Messages of M2PA: octets as the RFC draws them, round trips, and messages that are rejected.

use bytes::Bytes;
use carrick_sigtran::m2pa::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn number(value: u32) -> SequenceNumber {
    SequenceNumber::new(value).expect("24 bits")
}

fn message(body: Body) -> Message {
    Message {
        bsn: number(66_051),
        fsn: number(0xff_fffe),
        body,
    }
}

/// Every Link Status.
fn states() -> Vec<LinkStatus> {
    let filler = Bytes::from_static(&[0xa5; 9]);
    vec![
        LinkStatus::Alignment,
        LinkStatus::ProvingNormal(filler.clone()),
        LinkStatus::ProvingEmergency(filler),
        LinkStatus::Ready,
        LinkStatus::ProcessorOutage,
        LinkStatus::ProcessorRecovered,
        LinkStatus::Busy,
        LinkStatus::BusyEnded,
        LinkStatus::OutOfService,
    ]
}

/// Every message, with and without its optional parts.
pub(crate) fn all() -> Vec<Message> {
    let empty = [
        LinkStatus::ProvingNormal(Bytes::new()),
        LinkStatus::ProvingEmergency(Bytes::new()),
    ];
    let states = states().into_iter().chain(empty).map(Body::LinkStatus);
    // Service indicator 15 is spare, so that tshark does not look into the message.
    let msu = Msu::new(0x8f, Bytes::from_static(&[1, 2, 3, 4, 5, 6]));
    let data = [None, Some(msu)].map(Body::UserData);
    states.chain(data).map(message).collect()
}

/// Octets of a message with this type and data.
fn octets(message_type: u8, data: &[u8]) -> Vec<u8> {
    let length = 16 + data.len() as u32;
    let mut octets = vec![1, 0, 11, message_type];
    octets.extend_from_slice(&length.to_be_bytes());
    octets.extend_from_slice(&[0, 1, 2, 3, 0, 0xff, 0xff, 0xfe]);
    octets.extend_from_slice(data);
    octets
}

fn expect(body: Body, message_type: u8, data: &[u8]) {
    let message = message(body);
    let octets = Bytes::from(octets(message_type, data));
    assert_eq!(message.encode().as_ref(), Ok(&octets));
    assert_eq!(Message::decode(&octets), Ok(message));
}

/// Expects an error and its position.
fn rejected(octets: Vec<u8>, kind: DecodeErrorKind, offset: usize) {
    let error = Message::decode(&Bytes::from(octets)).expect_err("an invalid message");
    assert_eq!((error.kind, error.offset), (kind, offset));
    let start = format!("malformed message from the peer at octet {offset}: ");
    assert!(error.to_string().starts_with(&start));
}

/// RFC 4165, section 2.3.1
#[test]
fn user_data_has_the_drawn_layout() {
    let msu = Msu {
        priority: 2,
        ..Msu::new(0x85, Bytes::from_static(&[7, 8, 9]))
    };
    expect(Body::UserData(Some(msu)), 1, &[0x80, 0x85, 7, 8, 9]);
    // No padding, and no data in an acknowledgement.
    expect(Body::UserData(None), 1, &[]);
}

/// RFC 4165, section 2.3.2
#[test]
fn link_status_has_the_drawn_layout() {
    for (state, status) in (1..).zip(states()) {
        let mut data = vec![0, 0, 0, state];
        if state == 2 || state == 3 {
            data.extend_from_slice(&[0xa5; 9]);
        }
        expect(Body::LinkStatus(status), 2, &data);
    }
}

/// RFC 4165, section 2.1.2
#[test]
fn spare_and_unused_octets_are_ignored() {
    let mut received = octets(1, &[0x7f, 0x85, 7]);
    (received[1], received[8], received[12]) = (0xff, 0xff, 0xff);
    let msu = Msu {
        priority: 1,
        ..Msu::new(0x85, Bytes::from_static(&[7]))
    };
    let expected = message(Body::UserData(Some(msu)));
    assert_eq!(Message::decode(&Bytes::from(received)), Ok(expected));
}

/// RFC 4165, sections 2.1 and 2.2
#[test]
fn invalid_headers_are_rejected() {
    for length in 0..16 {
        let cut = octets(1, &[])[..length].to_vec();
        rejected(cut, DecodeErrorKind::HeaderTruncated { length }, 0);
    }
    let changed = |offset: usize, value| {
        let mut octets = octets(2, &[0, 0, 0, 1]);
        octets[offset] = value;
        octets
    };
    rejected(changed(0, 2), DecodeErrorKind::Version(2), 0);
    rejected(changed(2, 1), DecodeErrorKind::Class(1), 2);
    rejected(changed(3, 0), DecodeErrorKind::Type(0), 3);
    rejected(changed(3, 3), DecodeErrorKind::Type(3), 3);
    for length in [15, 19, 21] {
        let kind = DecodeErrorKind::MessageLength {
            length,
            received: 20,
        };
        rejected(changed(7, length as u8), kind, 4);
    }
    let length = MAX_MESSAGE + 1;
    let long = octets(1, &vec![0; MAX_DATA + 1]);
    rejected(long, DecodeErrorKind::TooLong { length }, 4);
}

/// RFC 4165, section 2.3
#[test]
fn invalid_data_is_rejected() {
    let missing = DecodeErrorKind::ServiceInformationMissing;
    rejected(octets(1, &[0]), missing, 17);
    for length in 0..4 {
        let kind = DecodeErrorKind::StateTruncated { length };
        rejected(octets(2, &[0, 0, 0, 1][..length]), kind, 16);
    }
    for state in [0, 10, 1 << 24, u32::MAX] {
        let kind = DecodeErrorKind::State(state);
        rejected(octets(2, &state.to_be_bytes()), kind, 16);
    }
    for state in [1, 4, 5, 6, 7, 8, 9] {
        let kind = DecodeErrorKind::UnexpectedFiller { length: 1 };
        rejected(octets(2, &[0, 0, 0, state, 0]), kind, 20);
    }
}

/// RFC 4165, section 2.3.1
#[test]
fn messages_that_do_not_fit_are_not_encoded() {
    let msu = |priority, length| {
        let sif = Bytes::from(vec![0; length]);
        let msu = Msu {
            priority,
            ..Msu::new(0x85, sif)
        };
        message(Body::UserData(Some(msu))).encode()
    };
    assert_eq!(msu(4, 1), Err(EncodeError::Priority(4)));
    let octets = msu(3, MAX_DATA - 2).expect("a message that fits");
    assert_eq!(octets.len(), MAX_MESSAGE);
    let length = MAX_DATA + 1;
    assert_eq!(msu(3, MAX_DATA - 1), Err(EncodeError::TooLong { length }));
    let filler = LinkStatus::ProvingNormal(Bytes::from(vec![0; MAX_DATA - 3]));
    let proving = message(Body::LinkStatus(filler)).encode();
    assert_eq!(proving, Err(EncodeError::TooLong { length }));
}

/// RFC 4165, section 4.2.1: FSN and BSN wrap around to 0
#[test]
fn sequence_numbers_wrap_around() {
    assert_eq!(SequenceNumber::new(1 << 24), None);
    assert_eq!(SequenceNumber::MAX.value(), 16_777_215);
    assert_eq!(SequenceNumber::MAX.next(), number(0));
    assert_eq!(number(2).since(number(0xff_ffff)), 3);
    assert_eq!(number(0xff_fffe).add(4), number(2));
}

fn body() -> impl Strategy<Value = Body> {
    let bytes = || vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    let msu =
        (0..4_u8, any::<u8>(), bytes()).prop_map(|(priority, sio, sif)| Msu { priority, sio, sif });
    let states = (0..states().len()).prop_map(|index| states()[index].clone());
    prop_oneof![
        proptest::option::of(msu).prop_map(Body::UserData),
        states.prop_map(Body::LinkStatus),
        bytes().prop_map(|filler| Body::LinkStatus(LinkStatus::ProvingNormal(filler))),
        bytes().prop_map(|filler| Body::LinkStatus(LinkStatus::ProvingEmergency(filler))),
    ]
}

proptest! {
    /// RFC 4165, section 2
    #[test]
    fn any_m2pa_message_survives_a_round_trip(
        bsn in 0..1_u32 << 24,
        fsn in 0..1_u32 << 24,
        body in body(),
    ) {
        let message = Message { bsn: number(bsn), fsn: number(fsn), body };
        let octets = message.encode().expect("a message that fits");
        prop_assert_eq!(Message::decode(&octets), Ok(message));
    }

    /// RFC 4165, section 2: octets that decode are a message, others are an error
    #[test]
    fn any_octets_decode_to_a_message_or_an_error(
        message_type in 0..4_u8,
        data in vec(any::<u8>(), 0..24),
        change in proptest::option::of((0..16_usize, any::<u8>())),
    ) {
        let mut received = octets(message_type, &data);
        if let Some((offset, value)) = change {
            received[offset] = value;
        }
        let received = Bytes::from(received);
        match Message::decode(&received) {
            Ok(message) => {
                let encoded = message.encode().expect("a message that was received");
                prop_assert_eq!(Message::decode(&encoded), Ok(message));
            }
            Err(error) => prop_assert!(error.offset <= received.len()),
        }
    }
}
