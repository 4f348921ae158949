//! Heartbeat Request (HEARTBEAT) and Heartbeat Acknowledgement (HEARTBEAT ACK), RFC 9260, sections
//! 3.3.5 and 3.3.6.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! | type = 4 or 5 |     flags     |            length             |
//! +---------------+---------------+---------------+---------------+
//! |  heartbeat info: type = 1     |       parameter length        |
//! +---------------+---------------+---------------+---------------+
//! /              information for the sender itself                /
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::packet::CHUNK_HEADER_LEN;
use crate::{ParameterType, Parameters, ParseError, ParseErrorKind, RawChunk};

/// HEARTBEAT or HEARTBEAT ACK chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat<'a> {
    /// Value of the Heartbeat Info parameter; in a HEARTBEAT ACK, that of the HEARTBEAT.
    pub info: &'a [u8],
    /// Chunk value, which the HEARTBEAT ACK returns.
    pub value: &'a [u8],
}

impl<'a> Heartbeat<'a> {
    pub(crate) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let offset = raw.offset + CHUNK_HEADER_LEN;
        for parameter in Parameters::at(raw.value, offset) {
            let parameter = parameter?;
            if parameter.kind == ParameterType::HEARTBEAT_INFO {
                return Ok(Self {
                    info: parameter.value,
                    value: raw.value,
                });
            }
        }
        let kind = ParseErrorKind::MissingParameter(ParameterType::HEARTBEAT_INFO);
        Err(ParseError::new(kind, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::Heartbeat;
    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{Chunk, ParameterType, ParseErrorKind, TlvKind};

    /// An info of six bytes; the length of the chunk leaves the padding out.
    const BYTES: [u8; 16] = [
        0x04, 0x00, 0x00, 0x0e, // type, flags, length 14
        0x00, 0x01, 0x00, 0x0a, // heartbeat info, length 10
        1, 2, 3, 4, 5, 6, 0x00, 0x00,
    ];

    const EXPECTED: Heartbeat<'static> = Heartbeat {
        info: &[1, 2, 3, 4, 5, 6],
        value: &[0, 1, 0, 10, 1, 2, 3, 4, 5, 6],
    };

    #[test]
    fn parses_captured_bytes() {
        assert_eq!(first_chunk(&packet(&BYTES)), Ok(Chunk::Heartbeat(EXPECTED)));
    }

    #[test]
    fn parsed_chunk_builds_the_same_bytes() {
        assert_eq!(build(|packet| packet.heartbeat(EXPECTED.info)), BYTES);
    }

    #[test]
    fn the_answer_is_the_value_unchanged() {
        let mut answer = BYTES;
        answer[0] = 5;
        assert_eq!(build(|packet| packet.heartbeat_ack(EXPECTED.value)), answer);
        assert_eq!(
            first_chunk(&packet(&answer)),
            Ok(Chunk::HeartbeatAck(EXPECTED))
        );
    }

    #[test]
    fn padding_inside_the_chunk_is_part_of_the_value_only() {
        let mut bytes = packet(&BYTES);
        bytes[15] = 16;
        let value = &BYTES[4..16];
        assert_eq!(
            first_chunk(&bytes),
            Ok(Chunk::Heartbeat(Heartbeat { value, ..EXPECTED }))
        );
    }

    #[test]
    fn a_heartbeat_without_info_is_an_error() {
        let kind = ParseErrorKind::MissingParameter(ParameterType::HEARTBEAT_INFO);
        assert_error(&[4, 0, 0, 4], kind, 16);
        assert_error(&[4, 0, 0, 8, 0x80, 5, 0, 4], kind, 16);
    }

    #[test]
    fn an_info_beyond_the_chunk_is_an_error() {
        let mut bytes = BYTES;
        bytes[7] = 11;
        let kind = ParseErrorKind::LengthPastEnd {
            item: TlvKind::Parameter,
            length: 11,
            available: 10,
        };
        assert_error(&bytes, kind, 18);
    }
}
