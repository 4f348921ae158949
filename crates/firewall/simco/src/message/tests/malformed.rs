//! Malformed messages.

use bytes::{BufMut, Bytes, BytesMut};

use super::super::*;

const TID: TransactionId = TransactionId(1);

fn bytes(parts: &[&[u8]]) -> Bytes {
    parts.concat().into()
}

fn refused(message: &Bytes) -> ParseError {
    Request::parse(message).expect_err("not a request")
}

/// RFC 4540, section 6
#[test]
fn wrong_message_length_is_rejected() {
    let status = Request::Status(PolicyRuleId(5)).to_bytes(TID);
    for length in [0, 7, 9, u16::MAX] {
        let mut lie = BytesMut::from(&status[..]);
        lie[2..4].copy_from_slice(&length.to_be_bytes());
        assert_eq!(refused(&lie.freeze()), ParseError::Header, "{length}");
    }
    for len in 0..status.len() {
        assert_eq!(refused(&status.slice(..len)), ParseError::Header, "{len}");
    }
}

/// RFC 4540, section 6
#[test]
fn checks_run_in_order() {
    let header = |basic, sub_type| bytes(&[&[basic, sub_type, 0, 1, 0, 0, 0, 1], b"?"]);
    for basic in [0, 2, 3, 4, 5, 255] {
        assert_eq!(refused(&header(basic, 0x99)), ParseError::BasicType(basic));
    }
    for sub_type in [0, 4, 0x10, 0x16, 0x20, 0x23, 0x24, 255] {
        assert_eq!(refused(&header(1, sub_type)), ParseError::SubType(sub_type));
    }
    assert_eq!(refused(&header(1, 0x22)), ParseError::Attributes);
}

fn status_with(attributes: &[u8]) -> Bytes {
    let length = (attributes.len() as u16).to_be_bytes();
    bytes(&[&[1, 0x21], &length, &[0, 0, 0, 1], attributes])
}

/// RFC 4540, section 4.3
#[test]
fn wrong_attribute_length_is_rejected() {
    let invalid: [&[u8]; 9] = [
        b"",
        &[0],
        &[0, 5, 0],
        &[0, 5, 0, 4],
        &[0, 5, 0, 3, 0, 0, 5],
        &[0, 5, 0, 5, 0, 0, 0, 5, 0],
        &[0, 5, 0xff, 0xff, 0, 0, 0, 5],
        &[0, 6, 0, 4, 0, 0, 0, 5],
        &[0, 5, 0, 4, 0, 0, 0, 5, 0],
    ];
    for lie in invalid {
        assert_eq!(
            refused(&status_with(lie)),
            ParseError::Attributes,
            "{lie:?}"
        );
    }
    let twice = [0, 5, 0, 4, 0, 0, 0, 5].repeat(2);
    assert_eq!(refused(&status_with(&twice)), ParseError::Attributes);
}

#[test]
fn attributes_out_of_order_are_rejected() {
    let change = bytes(&[
        &[1, 0x15, 0, 16, 0, 0, 0, 1],
        &[0, 7, 0, 4, 0, 0, 0, 9],
        &[0, 5, 0, 4, 0, 0, 0, 5],
    ]);
    assert_eq!(refused(&change), ParseError::Attributes);
}

/// RFC 4540, sections 4.3.2 and 4.3.7
#[test]
fn oversized_values_are_rejected() {
    assert!(Challenge::new(vec![0; MAX_AUTHENTICATION]).is_some());
    assert!(Challenge::new(vec![0; MAX_AUTHENTICATION + 1]).is_none());
    assert!(Token::new(vec![0; MAX_AUTHENTICATION + 1]).is_none());
    assert!(Owner::new(vec![0; MAX_OWNER]).is_some());
    assert!(Owner::new(vec![0; MAX_OWNER + 1]).is_none());
    let length = MAX_AUTHENTICATION as u16 + 1;
    let mut message = BytesMut::new();
    message.put_slice(&[1, 2]);
    message.put_u16(length + 4);
    message.put_u32(1);
    message.put_u16(AttributeType::Token as u16);
    message.put_u16(length);
    message.put_bytes(0, usize::from(length));
    assert_eq!(refused(&message.freeze()), ParseError::Attributes);
}

/// RFC 4540, sections 4.3.8 to 4.3.10
#[test]
fn undefined_values_are_rejected() {
    let enable = |at: usize, value: u8| {
        let per = EnableRequest {
            parameters: PerParameters {
                parity: PortParity::Any,
                direction: Direction::Inbound,
            },
            internal: AddressTuple::single(Location::Internal, 17, [10, 0, 0, 1].into(), 9),
            external: AddressTuple::single(Location::External, 17, [10, 0, 0, 2].into(), 9),
            lifetime: Lifetime(1),
            group: None,
        };
        let mut message = BytesMut::from(&Request::Enable(per).to_bytes(TID)[..]);
        message[at] = value;
        Request::parse(&message.freeze())
    };
    // Parity, direction, kind and version, location.
    for (at, wrong) in [
        (12, vec![1, 2, 4]),
        (13, vec![0, 4]),
        (20, vec![0x00, 0x02, 0x11, 0x21]),
        (23, vec![4, 255]),
    ] {
        for value in wrong {
            assert_eq!(
                enable(at, value),
                Err(ParseError::Attributes),
                "{at}: {value}"
            );
        }
    }
    // Values for which a middlebox has specific replies can be encoded.
    for (at, value) in [(21, 200), (23, 3), (27, 0)] {
        assert!(enable(at, value).is_ok(), "{at}: {value}");
    }
}

/// RFC 4540, section 8.7
#[test]
fn list_length_is_bounded_by_the_message() {
    let rules: Vec<PolicyRuleId> = (0..MAX_LISTED as u32).map(PolicyRuleId).collect();
    let list = RuleList::new(rules.clone()).unwrap();
    let message = Reply::List(list.clone()).to_bytes(TID);
    assert!(message.len() <= MAX_MESSAGE && message.len() + 8 > MAX_MESSAGE);
    let read = FromMiddlebox::parse(&message).unwrap().1;
    assert_eq!(read, FromMiddlebox::Reply(Reply::List(list)));
    assert!(RuleList::new([rules, vec![PolicyRuleId(1)]].concat()).is_none());
}

/// RFC 4540, section 5.2.3
#[test]
fn sa_reply_without_attributes_is_rejected() {
    let reply = bytes(&[&[2, 2, 0, 0, 0, 0, 0, 1]]);
    assert_eq!(FromMiddlebox::parse(&reply), Err(ParseError::Attributes));
    let request = Request::List.to_bytes(TID);
    assert_eq!(
        FromMiddlebox::parse(&request),
        Err(ParseError::BasicType(1))
    );
}
