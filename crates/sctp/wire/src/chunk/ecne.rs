//! Explicit Congestion Notification Echo (ECNE), RFC 4960, appendix A.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 12   |     flags     |          length = 8           |
//! +---------------+---------------+---------------+---------------+
//! |                          lowest TSN                           |
//! +---------------+---------------+---------------+---------------+
//! ```
//!
//! Some peers (usrsctp) append four bytes with the number of marked packets since the last CWR; bytes after
//! the TSN are ignored.

use crate::tlv::exact;
use crate::{ParseError, RawChunk, TlvKind, Tsn};

/// Explicit Congestion Notification Echo (ECNE), RFC 4960, appendix A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ecne {
    /// Lowest TSN in the marked packet.
    pub lowest_tsn: Tsn,
}

impl Ecne {
    pub(crate) fn parse(raw: RawChunk<'_>) -> Result<Self, ParseError> {
        let tsn = match raw.value.first_chunk() {
            Some(tsn) => *tsn,
            None => *exact(TlvKind::Chunk, raw.value, raw.offset)?,
        };
        Ok(Self {
            lowest_tsn: Tsn::new(u32::from_be_bytes(tsn)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Ecne;
    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{Chunk, ParseErrorKind, TlvKind, Tsn};

    const BYTES: [u8; 8] = [0x0c, 0x00, 0x00, 0x08, 0xff, 0x00, 0x01, 0x02];

    #[test]
    fn parses_and_builds_captured_bytes() {
        let lowest_tsn = Tsn::new(0xff00_0102);
        let expected = Chunk::Ecne(Ecne { lowest_tsn });
        assert_eq!(first_chunk(&packet(&BYTES)), Ok(expected));
        assert_eq!(build(|packet| packet.ecne(lowest_tsn)), BYTES);
    }

    #[test]
    fn trailing_bytes_are_ignored() {
        let bytes = [0x0c, 0x00, 0x00, 0x0c, 0xff, 0x00, 0x01, 0x02, 0, 0, 0, 3];
        let lowest_tsn = Tsn::new(0xff00_0102);
        let expected = Chunk::Ecne(Ecne { lowest_tsn });
        assert_eq!(first_chunk(&packet(&bytes)), Ok(expected));
    }

    #[test]
    fn a_shorter_one_is_an_error() {
        for length in [4, 7] {
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
