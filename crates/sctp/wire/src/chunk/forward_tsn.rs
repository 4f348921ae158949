//! Forward Cumulative TSN (FORWARD TSN), RFC 3758, section 3.2.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |  type = 192   |     flags     |            length             |
//! +---------------+---------------+---------------+---------------+
//! |                      new cumulative TSN                       |
//! +---------------+---------------+---------------+---------------+
//! |       stream identifier       |    stream sequence number     |  N times
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::bytes::u16_at;
use crate::packet::CHUNK_HEADER_LEN;
use crate::tlv::{split, wrong_length};
use crate::{ParseError, RawChunk, Ssn, StreamId, TlvKind, Tsn};

const FIXED_LEN: usize = 4;

/// Length of a stream identifier and its SSN.
const ENTRY_LEN: usize = 4;

/// Forward Cumulative TSN (FORWARD TSN), RFC 3758, section 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardTsn<'a> {
    /// New Cumulative TSN: the receiver records all TSNs up to this one as received.
    pub new_cumulative_tsn: Tsn,
    skipped: &'a [[u8; ENTRY_LEN]],
}

impl<'a> ForwardTsn<'a> {
    pub(crate) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let (tsn, list) = split::<FIXED_LEN>(TlvKind::Chunk, raw.value, raw.offset)?;
        let (skipped, excess) = list.as_chunks();
        if !excess.is_empty() {
            let expected = raw.value.len() - excess.len();
            return Err(wrong_length(
                TlvKind::Chunk,
                expected,
                raw.value,
                raw.offset,
            ));
        }
        Ok(Self {
            new_cumulative_tsn: Tsn::new(u32::from_be_bytes(*tsn)),
            skipped,
        })
    }

    /// Streams on which ordered messages were skipped, each with the last skipped SSN. A peer can list a
    /// stream twice, or one that does not exist.
    pub fn skipped(&self) -> impl ExactSizeIterator<Item = (StreamId, Ssn)> + Clone + use<'a> {
        self.skipped
            .iter()
            .map(|entry| (StreamId(u16_at(entry, 0)), Ssn::new(u16_at(entry, 2))))
    }

    /// Length of the chunk with this number of streams in bytes, header included.
    pub const fn chunk_len(streams: usize) -> usize {
        CHUNK_HEADER_LEN + FIXED_LEN + streams * ENTRY_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::ForwardTsn;
    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{Chunk, ParseErrorKind, Ssn, StreamId, TlvKind, Tsn};

    const BYTES: [u8; 16] = [
        0xc0, 0x00, 0x00, 0x10, // type, flags, length 16
        0xff, 0xff, 0xff, 0xff, // new cumulative TSN
        0x00, 0x01, 0x00, 0x02, 0x00, 0x03, 0xff, 0xff, // two streams
    ];

    const SKIPPED: [(StreamId, Ssn); 2] = [
        (StreamId(1), Ssn::new(2)),
        (StreamId(3), Ssn::new(u16::MAX)),
    ];

    #[test]
    fn parses_captured_bytes() {
        let bytes = packet(&BYTES);
        let Ok(Chunk::ForwardTsn(forward)) = first_chunk(&bytes) else {
            panic!("no FORWARD-TSN")
        };
        assert_eq!(forward.new_cumulative_tsn, Tsn::new(u32::MAX));
        assert!(forward.skipped().eq(SKIPPED));
        assert_eq!(forward.skipped().len(), 2);
    }

    #[test]
    fn parsed_chunk_builds_the_same_bytes() {
        let built = build(|packet| {
            packet.forward_tsn(Tsn::new(u32::MAX), SKIPPED.into_iter());
        });
        assert_eq!(built, BYTES);
        assert_eq!(ForwardTsn::chunk_len(2), BYTES.len());
    }

    #[test]
    fn only_unordered_messages_need_no_stream() {
        let bytes = packet(&[0xc0, 0xff, 0, 8, 0, 0, 0, 9]);
        let Ok(Chunk::ForwardTsn(forward)) = first_chunk(&bytes) else {
            panic!("no FORWARD-TSN")
        };
        assert_eq!(forward.skipped().len(), 0);
    }

    #[test]
    fn truncated_entry_is_an_error() {
        let item = TlvKind::Chunk;
        for (length, expected) in [(9, 8), (14, 12), (15, 12)] {
            let mut bytes = BYTES;
            bytes[3] = length;
            let kind = ParseErrorKind::WrongLength {
                item,
                expected,
                length: usize::from(length),
            };
            assert_error(&bytes, kind, 14);
        }
        let mut bytes = BYTES;
        bytes[3] = 7;
        let kind = ParseErrorKind::ValueTooShort {
            item,
            needed: 8,
            length: 7,
        };
        assert_error(&bytes, kind, 14);
    }
}
