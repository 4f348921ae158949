//! Forward Cumulative TSN with interleaving (I-FORWARD-TSN), RFC 8260, section 2.3.1.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |  type = 194   |     flags     |            length             |
//! +---------------+---------------+---------------+---------------+
//! |                      new cumulative TSN                       |
//! +---------------+---------------+---------------+---------------+
//! |       stream identifier       |          reserved           |U|  N times
//! +---------------+---------------+---------------+---------------+  both lines
//! |                      message identifier                       |
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::bytes::{u16_at, u32_at};
use crate::packet::CHUNK_HEADER_LEN;
use crate::tlv::{split, wrong_length};
use crate::{Mid, ParseError, RawChunk, StreamId, TlvKind, Tsn};

const FIXED_LEN: usize = 4;

/// Length of a stream identifier and its MID.
const ENTRY_LEN: usize = 8;

/// Last skipped message of a stream, among the ordered or the unordered ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SkippedMessage {
    /// Stream of the skipped messages.
    pub stream: StreamId,
    /// U: `mid` identifies an unordered message.
    pub unordered: bool,
    /// Message identifier.
    pub mid: Mid,
}

impl SkippedMessage {
    pub(crate) fn encode(self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        bytes[0..2].copy_from_slice(&self.stream.0.to_be_bytes());
        bytes[3] = u8::from(self.unordered);
        bytes[4..8].copy_from_slice(&self.mid.value().to_be_bytes());
        bytes
    }

    fn decode(bytes: [u8; ENTRY_LEN]) -> Self {
        Self {
            stream: StreamId(u16_at(&bytes, 0)),
            unordered: bytes[3] & 1 != 0,
            mid: Mid::new(u32_at(&bytes, 4)),
        }
    }
}

/// I-FORWARD-TSN chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IForwardTsn<'a> {
    /// New Cumulative TSN: the receiver records all TSNs up to this one as received.
    pub new_cumulative_tsn: Tsn,
    skipped: &'a [[u8; ENTRY_LEN]],
}

impl<'a> IForwardTsn<'a> {
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

    /// Streams on which messages were skipped. A peer can list a stream twice, or one that does not exist.
    pub fn skipped(&self) -> impl ExactSizeIterator<Item = SkippedMessage> + Clone + use<'a> {
        self.skipped.iter().copied().map(SkippedMessage::decode)
    }

    /// Length of the chunk with this number of entries in bytes, header included.
    pub const fn chunk_len(entries: usize) -> usize {
        CHUNK_HEADER_LEN + FIXED_LEN + entries * ENTRY_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::{IForwardTsn, SkippedMessage};
    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{Chunk, Mid, ParseErrorKind, StreamId, TlvKind, Tsn};

    const BYTES: [u8; 24] = [
        0xc2, 0x00, 0x00, 0x18, // type, flags, length 24
        0x00, 0x00, 0x00, 0x2a, // new cumulative TSN
        0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, // an ordered message
        0x00, 0x01, 0x00, 0x01, 0xff, 0xff, 0xff, 0xff, // an unordered one
    ];

    const SKIPPED: [SkippedMessage; 2] = [
        SkippedMessage {
            stream: StreamId(1),
            unordered: false,
            mid: Mid::new(0x1_0000),
        },
        SkippedMessage {
            stream: StreamId(1),
            unordered: true,
            mid: Mid::new(u32::MAX),
        },
    ];

    #[test]
    fn parses_captured_bytes_and_ignores_reserved_bits() {
        let mut bytes = packet(&BYTES);
        for _ in 0..2 {
            let Ok(Chunk::IForwardTsn(forward)) = first_chunk(&bytes) else {
                panic!("no I-FORWARD-TSN")
            };
            assert_eq!(forward.new_cumulative_tsn, Tsn::new(42));
            assert!(forward.skipped().eq(SKIPPED));
            assert_eq!(forward.skipped().len(), 2);
            bytes[12 + 1] = 0xff;
            bytes[12 + 10] = 0xff;
            bytes[12 + 11] = 0xfe;
        }
    }

    #[test]
    fn parsed_chunk_builds_the_same_bytes() {
        let built = build(|packet| {
            packet.i_forward_tsn(Tsn::new(42), SKIPPED.into_iter());
        });
        assert_eq!(built, BYTES);
        assert_eq!(IForwardTsn::chunk_len(2), BYTES.len());
    }

    #[test]
    fn truncated_entry_is_an_error() {
        let item = TlvKind::Chunk;
        for (length, expected) in [(12, 8), (20, 16), (23, 16)] {
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
        bytes[3] = 6;
        let kind = ParseErrorKind::ValueTooShort {
            item,
            needed: 8,
            length: 6,
        };
        assert_error(&bytes, kind, 14);
    }
}
