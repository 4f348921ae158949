//! Arbitrary octets, parsed as every kind of message.

use bytes::Bytes;
use carrick_simco::Time;
use carrick_simco::message::{FromMiddlebox, MAX_MESSAGE, Request, StreamReader};

/// Parses octets as a request, as a message from a middlebox, and as a byte stream. A parsed message is
/// encoded with the same length and parsed as the same again.
pub fn read(octets: &[u8]) {
    let message = Bytes::copy_from_slice(octets);
    if let Ok((transaction, request)) = Request::parse(&message) {
        let again = request.to_bytes(transaction);
        assert_eq!(again.len(), message.len());
        assert_eq!(Request::parse(&again), Ok((transaction, request)));
    }
    if let Ok((transaction, what)) = FromMiddlebox::parse(&message) {
        let again = match &what {
            FromMiddlebox::Reply(reply) => reply.to_bytes(transaction),
            FromMiddlebox::Notification(notification) => notification.to_bytes(transaction),
        };
        assert_eq!(again.len(), message.len());
        assert_eq!(FromMiddlebox::parse(&again), Ok((transaction, what)));
    }
    let mut reader = StreamReader::default();
    let mut rest = octets;
    let mut complete = 0;
    while !rest.is_empty() {
        let taken = reader.push(Time::ZERO, &rest[..rest.len().min(7)]);
        assert!(taken > 0, "an empty reader has room");
        rest = &rest[taken..];
        while let Some(message) = reader.next_message() {
            assert!(message.len() <= MAX_MESSAGE);
            complete += message.len();
        }
    }
    assert_eq!(complete == octets.len(), reader.finish().is_ok());
}
