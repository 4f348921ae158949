//! Shutdown Association (SHUTDOWN), RFC 9260, section 3.3.8.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 7    |     flags     |          length = 8           |
//! +---------------+---------------+---------------+---------------+
//! |                      cumulative TSN ack                       |
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::tlv::exact;
use crate::{ParseError, RawChunk, TlvKind, Tsn};

/// SHUTDOWN chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// Cumulative TSN Ack. The absence of gap ack blocks does not mean that no TSN beyond it was received.
    pub cumulative_tsn_ack: Tsn,
}

impl Shutdown {
    pub(crate) fn parse(raw: RawChunk<'_>) -> Result<Self, ParseError> {
        let tsn = *exact(TlvKind::Chunk, raw.value, raw.offset)?;
        Ok(Self {
            cumulative_tsn_ack: Tsn::new(u32::from_be_bytes(tsn)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Shutdown;
    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{Chunk, ParseErrorKind, TlvKind, Tsn};

    const BYTES: [u8; 8] = [0x07, 0x00, 0x00, 0x08, 0x00, 0x00, 0x01, 0x02];

    #[test]
    fn parses_and_builds_captured_bytes() {
        let cumulative_tsn_ack = Tsn::new(0x102);
        let expected = Chunk::Shutdown(Shutdown { cumulative_tsn_ack });
        assert_eq!(first_chunk(&packet(&BYTES)), Ok(expected));
        assert_eq!(build(|packet| packet.shutdown(cumulative_tsn_ack)), BYTES);
    }

    #[test]
    fn any_other_length_is_an_error() {
        for length in [4, 7, 9, 12] {
            let mut bytes = [0; 12];
            bytes[..8].copy_from_slice(&BYTES);
            bytes[3] = length;
            let length = usize::from(length);
            let kind = ParseErrorKind::WrongLength {
                item: TlvKind::Chunk,
                expected: 8,
                length,
            };
            assert_error(&bytes, kind, 14);
        }
    }
}
