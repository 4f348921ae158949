//! Cookie Acknowledgement (COOKIE ACK), RFC 9260, section 3.3.12.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 11   |     flags     |          length = 4           |
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::tlv::exact;
use crate::{ParseError, RawChunk, TlvKind};

/// Checks that there is nothing after the header.
pub(crate) fn parse(raw: RawChunk<'_>) -> Result<(), ParseError> {
    exact::<0>(TlvKind::Chunk, raw.value, raw.offset).map(|_| ())
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{Chunk, ParseErrorKind, TlvKind};

    const BYTES: [u8; 4] = [11, 0x00, 0x00, 0x04];

    #[test]
    fn parses_and_builds_captured_bytes() {
        assert_eq!(first_chunk(&packet(&BYTES)), Ok(Chunk::CookieAck));
        assert_eq!(
            build(|packet| {
                packet.cookie_ack();
            }),
            BYTES
        );
    }

    #[test]
    fn a_cookie_ack_with_a_value_is_an_error() {
        let kind = ParseErrorKind::WrongLength {
            item: TlvKind::Chunk,
            expected: 4,
            length: 5,
        };
        assert_error(&[11, 0, 0, 5, 1, 0, 0, 0], kind, 14);
    }
}
