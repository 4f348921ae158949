//! Shutdown Complete (SHUTDOWN COMPLETE), RFC 9260, section 3.3.13.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 14   |  reserved   |T|          length = 4           |
//! +---------------+---------------+---------------+---------------+
//! ```

use super::T_BIT;
use crate::tlv::exact;
use crate::{ParseError, RawChunk, TlvKind};

/// SHUTDOWN COMPLETE chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownComplete {
    /// T bit: the verification tag is reflected from the packet that is answered (RFC 9260, section 8.5.1).
    pub reflected: bool,
}

impl ShutdownComplete {
    pub(crate) fn parse(raw: RawChunk<'_>) -> Result<Self, ParseError> {
        exact::<0>(TlvKind::Chunk, raw.value, raw.offset)?;
        Ok(Self {
            reflected: raw.flags & T_BIT != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ShutdownComplete;
    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{Chunk, ParseErrorKind, TlvKind};

    #[test]
    fn parses_and_builds_captured_bytes() {
        for (bytes, reflected) in [([14, 0, 0, 4], false), ([14, 1, 0, 4], true)] {
            let expected = Chunk::ShutdownComplete(ShutdownComplete { reflected });
            assert_eq!(first_chunk(&packet(&bytes)), Ok(expected));
            assert_eq!(build(|packet| packet.shutdown_complete(reflected)), bytes);
        }
    }

    #[test]
    fn a_shutdown_complete_with_a_value_is_an_error() {
        let kind = ParseErrorKind::WrongLength {
            item: TlvKind::Chunk,
            expected: 4,
            length: 8,
        };
        assert_error(&[14, 0, 0, 8, 1, 2, 3, 4], kind, 14);
    }
}
