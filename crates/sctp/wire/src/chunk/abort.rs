//! Abort Association (ABORT), RFC 9260, section 3.3.7.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 6    |  reserved   |T|            length             |
//! +---------------+---------------+---------------+---------------+
//! /                   zero or more error causes                   /
//! +---------------+---------------+---------------+---------------+
//! ```

use super::T_BIT;
use crate::packet::CHUNK_HEADER_LEN;
use crate::{Causes, RawChunk};

/// Abort Association (ABORT), RFC 9260, section 3.3.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort<'a> {
    /// T bit: the verification tag is reflected from the packet that is answered (RFC 9260, section 8.5.1).
    pub reflected: bool,
    causes: &'a [u8],
    causes_offset: usize,
}

impl<'a> Abort<'a> {
    pub(crate) const fn parse(raw: RawChunk<'a>) -> Self {
        Self {
            reflected: raw.flags & T_BIT != 0,
            causes: raw.value,
            causes_offset: raw.offset + CHUNK_HEADER_LEN,
        }
    }

    /// Returns the error causes.
    pub const fn causes(&self) -> Causes<'a> {
        Causes::at(self.causes, self.causes_offset)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{build, first_chunk, packet};
    use crate::{Cause, Chunk, ParseErrorKind};

    /// The user's reason is "bye"; the T bit is set.
    const BYTES: [u8; 12] = [
        0x06, 0x01, 0x00, 0x0b, // type, T, length 11
        0x00, 0x0c, 0x00, 0x07, b'b', b'y', b'e', 0x00,
    ];

    #[test]
    fn parses_captured_bytes() {
        let bytes = packet(&BYTES);
        let Ok(Chunk::Abort(abort)) = first_chunk(&bytes) else {
            panic!("no ABORT")
        };
        assert!(abort.reflected);
        let mut causes = abort.causes();
        let cause = causes.next().unwrap().unwrap();
        assert_eq!(cause.offset, 16);
        assert_eq!(Cause::parse(cause), Ok(Cause::UserInitiatedAbort(b"bye")));
        assert_eq!(causes.next(), None);
    }

    #[test]
    fn parsed_chunk_builds_the_same_bytes() {
        assert_eq!(
            build(|packet| packet.abort(true, |c| c.user_initiated_abort(b"bye"))),
            BYTES
        );
    }

    #[test]
    fn causes_are_optional_and_reserved_bits_ignored() {
        let bytes = packet(&[6, 0xfe, 0, 4]);
        let Ok(Chunk::Abort(abort)) = first_chunk(&bytes) else {
            panic!("no ABORT")
        };
        assert!(!abort.reflected);
        assert_eq!(abort.causes().next(), None);
        assert_eq!(build(|packet| packet.abort(false, |_| ())), [6, 0, 0, 4]);
    }

    #[test]
    fn the_error_names_the_offset_of_a_cause() {
        let mut bytes = packet(&BYTES);
        bytes[19] = 3;
        let Ok(Chunk::Abort(abort)) = first_chunk(&bytes) else {
            panic!("no ABORT")
        };
        let error = abort.causes().next().unwrap().unwrap_err();
        assert_eq!(error.offset, 18);
        assert!(matches!(
            error.kind,
            ParseErrorKind::LengthTooSmall { length: 3, .. }
        ));
    }
}
