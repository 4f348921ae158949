//! Congestion Window Reduced (CWR), RFC 4960, appendix A.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 13   |     flags     |          length = 8           |
//! +---------------+---------------+---------------+---------------+
//! |                          lowest TSN                           |
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::tlv::exact;
use crate::{ParseError, RawChunk, TlvKind, Tsn};

/// Congestion Window Reduced (CWR), RFC 4960, appendix A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cwr {
    /// TSN of the ECNE.
    pub lowest_tsn: Tsn,
}

impl Cwr {
    pub(crate) fn parse(raw: RawChunk<'_>) -> Result<Self, ParseError> {
        let tsn = *exact(TlvKind::Chunk, raw.value, raw.offset)?;
        Ok(Self {
            lowest_tsn: Tsn::new(u32::from_be_bytes(tsn)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Cwr;
    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{Chunk, ParseErrorKind, TlvKind, Tsn};

    const BYTES: [u8; 8] = [0x0d, 0x00, 0x00, 0x08, 0xff, 0x00, 0x01, 0x02];

    #[test]
    fn parses_and_builds_captured_bytes() {
        let lowest_tsn = Tsn::new(0xff00_0102);
        let expected = Chunk::Cwr(Cwr { lowest_tsn });
        assert_eq!(first_chunk(&packet(&BYTES)), Ok(expected));
        assert_eq!(build(|packet| packet.cwr(lowest_tsn)), BYTES);
    }

    #[test]
    fn any_other_length_is_an_error() {
        for length in [4, 7, 9, 12] {
            let mut bytes = [0; 12];
            bytes[..8].copy_from_slice(&BYTES);
            bytes[3] = length;
            let kind = ParseErrorKind::WrongLength {
                item: TlvKind::Chunk,
                expected: 8,
                length: usize::from(length),
            };
            assert_error(&bytes, kind, 14);
        }
    }
}
