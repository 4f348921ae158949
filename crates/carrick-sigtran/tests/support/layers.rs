//! Arbitrary octets as a message of SUA, M2UA or IUA, for tests and the fuzz target.

use bytes::Bytes;
use carrick_sigtran::message::DecodeError;
use carrick_sigtran::{iua, m2ua, sua};

/// Decodes octets behind an octet that selects the layer. A message that decodes is equal after a round trip; what is
/// rejected is answered with a message that can be encoded, if it is no Error message.
pub(crate) fn run(octets: &[u8]) {
    let Some((layer, octets)) = octets.split_first() else {
        return;
    };
    let octets = Bytes::copy_from_slice(octets);
    macro_rules! check {
        ($layer:ident) => {
            match $layer::Message::decode(&octets) {
                Ok(message) => {
                    let encoded = message.encode().expect("a message that was received");
                    assert_eq!($layer::Message::decode(&encoded), Ok(message));
                }
                Err(error) => {
                    let answer = $layer::ErrorMessage::answering(&error, &octets);
                    check_error(&error, &octets, answer.is_some());
                    if let Some(answer) = answer {
                        let answer = $layer::Message::Error(answer);
                        answer.encode().expect("an answer that fits");
                    }
                }
            }
        };
    }
    match layer % 3 {
        0 => check!(sua),
        1 => check!(m2ua),
        _ => check!(iua),
    }
}

fn check_error(error: &DecodeError, octets: &[u8], has_answer: bool) {
    assert!(error.offset <= octets.len());
    let is_error_message = octets.get(2..4) == Some(&[0, 0]);
    assert_eq!(has_answer, !is_error_message);
}
