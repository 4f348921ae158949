//! Messages in a byte stream, received in arbitrary pieces.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use proptest::prelude::*;

use super::super::*;
use crate::Time;

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

proptest! {
    #[test]
    fn messages_are_split_at_their_boundaries(cuts in proptest::collection::vec(1..40usize, 1..60)) {
        let messages: Vec<_> = (0..30)
            .map(|n| match n % 3 {
                0 => Request::List.to_bytes(TransactionId(n)),
                1 => Request::Status(PolicyRuleId(n)).to_bytes(TransactionId(n)),
                _ => Request::Authenticate(Token::new(vec![7; n as usize])).to_bytes(TransactionId(n)),
            })
            .collect();
        let stream = messages.concat();
        let mut reader = StreamReader::default();
        let (mut read, mut rest) = (Vec::new(), &stream[..]);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            prop_assert_eq!(reader.push(at(0), piece), piece.len());
            rest = after;
            while let Some(message) = reader.next_message() {
                read.push(message);
            }
        }
        prop_assert_eq!(read, messages);
        prop_assert_eq!(reader.finish(), Ok(()));
        prop_assert_eq!(reader.deadline(), None);
    }
}

/// RFC 4540, section 6
#[test]
fn rest_of_a_message_times_out_after_60_s() {
    let message = Request::Status(PolicyRuleId(1)).to_bytes(TransactionId(1));
    let mut reader = StreamReader::default();
    reader.push(at(0), &message[..5]);
    assert!(reader.next_message().is_none());
    reader.push(at(50), &message[5..9]);
    assert!(reader.next_message().is_none());
    assert_eq!(reader.check(at(109)), Ok(()));
    assert_eq!(reader.deadline(), Some(at(110)));
    assert_eq!(reader.check(at(110)), Err(FramingError::Timeout));
    assert_eq!(reader.finish(), Err(FramingError::Truncated));
    reader.push(at(109), &message[9..]);
    assert_eq!(reader.next_message(), Some(message));
    assert_eq!(reader.check(at(1000)), Ok(()), "no message has begun");
}

#[test]
fn no_more_than_one_message_is_held() {
    let mut longest = BytesMut::from(&[1, 0x22, 0xff, 0xff, 0, 0, 0, 1][..]);
    longest.put_bytes(0, 70_000);
    let mut reader = StreamReader::default();
    assert_eq!(reader.push(at(0), &longest), MAX_MESSAGE);
    assert_eq!(reader.room(), 0);
    assert_eq!(reader.next_message().map(|m| m.len()), Some(MAX_MESSAGE));
    assert_eq!(reader.room(), MAX_MESSAGE);
}
