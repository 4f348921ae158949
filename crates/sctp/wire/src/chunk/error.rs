//! Operation Error (ERROR), RFC 9260, section 3.3.10.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 9    |     flags     |            length             |
//! +---------------+---------------+---------------+---------------+
//! /                   one or more error causes                    /
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::packet::CHUNK_HEADER_LEN;
use crate::{Causes, RawChunk};

/// Operation Error (ERROR), RFC 9260, section 3.3.10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorChunk<'a> {
    causes: &'a [u8],
    causes_offset: usize,
}

impl<'a> ErrorChunk<'a> {
    pub(crate) const fn parse(raw: RawChunk<'a>) -> Self {
        Self {
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
    use std::vec::Vec;

    use crate::testing::{build, first_chunk, packet};
    use crate::{Cause, Chunk, StreamId};

    /// An unrecognized chunk of five bytes, padded, then an invalid stream.
    const BYTES: [u8; 24] = [
        0x09, 0x00, 0x00, 0x18, // type, flags, length 24
        0x00, 0x06, 0x00, 0x09, 0xfe, 0x00, 0x00, 0x05, 0xaa, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00,
        0x08, 0x01, 0x02, 0x00, 0x00,
    ];

    #[test]
    fn parses_captured_bytes() {
        let bytes = packet(&BYTES);
        let Ok(Chunk::Error(error)) = first_chunk(&bytes) else {
            panic!("no ERROR")
        };
        let causes: Vec<_> = error
            .causes()
            .map(|cause| Cause::parse(cause.unwrap()).unwrap())
            .collect();
        let unrecognized = Cause::UnrecognizedChunk(&[0xfe, 0, 0, 5, 0xaa]);
        assert_eq!(
            causes,
            [unrecognized, Cause::InvalidStream(StreamId(0x102))]
        );
        assert_eq!(error.causes().bytes(), &BYTES[4..]);
    }

    #[test]
    fn parsed_chunk_builds_the_same_bytes() {
        let built = build(|packet| {
            packet.error(|causes| {
                causes.unrecognized_chunk(&[0xfe, 0, 0, 5, 0xaa]);
                causes.invalid_stream(StreamId(0x102));
            });
        });
        assert_eq!(built, BYTES);
    }
}
