//! Selective Acknowledgement (SACK), RFC 9260, section 3.3.4.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 3    |     flags     |            length             |
//! +---------------+---------------+---------------+---------------+
//! |                      cumulative TSN ack                       |
//! +---------------+---------------+---------------+---------------+
//! |          advertised receiver window credit (a_rwnd)           |
//! +---------------+---------------+---------------+---------------+
//! | number of gap ack blocks = N  |  number of duplicate TSNs = M |
//! +---------------+---------------+---------------+---------------+
//! |      gap ack block start      |       gap ack block end       |  N times, as offsets
//! +---------------+---------------+---------------+---------------+  from the cumulative TSN
//! |                         duplicate TSN                         |  M times
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::bytes::{u16_at, u32_at};
use crate::packet::CHUNK_HEADER_LEN;
use crate::tlv::{split, wrong_length};
use crate::{ParseError, RawChunk, TlvKind, Tsn};

/// Length before the gap ack blocks, without the chunk header.
const FIXED_LEN: usize = 12;

/// Length of a gap ack block, and of a duplicate TSN.
const ENTRY_LEN: usize = 4;

/// TSNs received after a gap: from cumulative TSN ack + `start` to cumulative TSN ack + `end`, both
/// included. A block of the peer is not validated: `start` can be 0 or larger than `end`, and blocks can
/// overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GapAckBlock {
    /// Distance of the first TSN from the cumulative TSN ack.
    pub start: u16,
    /// Distance of the last TSN from the cumulative TSN ack.
    pub end: u16,
}

impl GapAckBlock {
    #[inline]
    pub(crate) const fn encode(self) -> [u8; ENTRY_LEN] {
        let ([a, b], [c, d]) = (self.start.to_be_bytes(), self.end.to_be_bytes());
        [a, b, c, d]
    }
}

/// Number of gap ack blocks and duplicate TSNs that fit into a SACK chunk of `room` bytes.
pub(crate) const fn sack_entries(room: usize) -> usize {
    room.saturating_sub(CHUNK_HEADER_LEN + FIXED_LEN) / ENTRY_LEN
}

/// SACK chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sack<'a> {
    /// Cumulative TSN Ack.
    pub cumulative_tsn_ack: Tsn,
    /// Advertised receiver window credit in bytes.
    pub a_rwnd: u32,
    gap_ack_blocks: &'a [[u8; ENTRY_LEN]],
    duplicate_tsns: &'a [[u8; ENTRY_LEN]],
}

impl<'a> Sack<'a> {
    pub(crate) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let (fixed, lists) = split::<FIXED_LEN>(TlvKind::Chunk, raw.value, raw.offset)?;
        let gaps = usize::from(u16_at(fixed, 8));
        let duplicates = usize::from(u16_at(fixed, 10));
        let (entries, excess) = lists.as_chunks();
        if entries.len() != gaps + duplicates || !excess.is_empty() {
            let expected = FIXED_LEN + (gaps + duplicates) * ENTRY_LEN;
            return Err(wrong_length(
                TlvKind::Chunk,
                expected,
                raw.value,
                raw.offset,
            ));
        }
        let (gap_ack_blocks, duplicate_tsns) = entries.split_at(gaps);
        Ok(Self {
            cumulative_tsn_ack: Tsn::new(u32_at(fixed, 0)),
            a_rwnd: u32_at(fixed, 4),
            gap_ack_blocks,
            duplicate_tsns,
        })
    }

    /// Gap ack blocks in the order of the chunk.
    pub fn gap_ack_blocks(
        &self,
    ) -> impl ExactSizeIterator<Item = GapAckBlock> + DoubleEndedIterator + Clone + use<'a> {
        self.gap_ack_blocks.iter().map(|entry| GapAckBlock {
            start: u16_at(entry, 0),
            end: u16_at(entry, 2),
        })
    }

    /// Number of gap ack blocks.
    pub const fn gap_ack_block_count(&self) -> usize {
        self.gap_ack_blocks.len()
    }

    /// Duplicate TSNs received since the last SACK, once for each time.
    pub fn duplicate_tsns(&self) -> impl ExactSizeIterator<Item = Tsn> + Clone + use<'a> {
        self.duplicate_tsns
            .iter()
            .map(|entry| Tsn::new(u32::from_be_bytes(*entry)))
    }
}

#[cfg(test)]
mod tests {
    use core::iter;
    use std::vec::Vec;

    use super::{GapAckBlock, sack_entries};
    use crate::testing::{HEADER, assert_error, build, first_chunk, packet};
    use crate::{Chunk, PacketBuilder, ParseErrorKind, Sack, TlvKind, Tsn};

    /// The example of RFC 9260, 3.3.4: 10 to 12, 14, 15 and 17 have arrived.
    const EXAMPLE: [u8; 24] = [
        0x03, 0x00, 0x00, 0x18, // type, flags, length 24
        0x00, 0x00, 0x00, 0x0c, // cumulative TSN ack 12
        0x00, 0x00, 0x12, 0x34, // a_rwnd 4660
        0x00, 0x02, 0x00, 0x00, // two blocks, no duplicate
        0x00, 0x02, 0x00, 0x03, // 14 and 15
        0x00, 0x05, 0x00, 0x05, // 17
    ];

    const EXAMPLE_GAPS: [GapAckBlock; 2] = [
        GapAckBlock { start: 2, end: 3 },
        GapAckBlock { start: 5, end: 5 },
    ];

    /// No gap; TSN 19 arrived three times.
    const DUPLICATES: [u8; 24] = [
        0x03, 0x00, 0x00, 0x18, // type, flags, length 24
        0x00, 0x00, 0x00, 0x13, // cumulative TSN ack 19
        0x00, 0x00, 0x00, 0x00, // a_rwnd
        0x00, 0x00, 0x00, 0x02, // no block, two duplicates
        0x00, 0x00, 0x00, 0x13, 0x00, 0x00, 0x00, 0x13,
    ];

    fn sack(bytes: &[u8]) -> Sack<'_> {
        let Ok(Chunk::Sack(sack)) = first_chunk(bytes) else {
            panic!("no SACK")
        };
        sack
    }

    #[test]
    fn parses_the_example_of_the_standard() {
        let bytes = packet(&EXAMPLE);
        let sack = sack(&bytes);
        assert_eq!(sack.cumulative_tsn_ack, Tsn::new(12));
        assert_eq!(sack.a_rwnd, 4660);
        assert_eq!(sack.gap_ack_block_count(), 2);
        assert!(sack.gap_ack_blocks().eq(EXAMPLE_GAPS));
        assert_eq!(sack.duplicate_tsns().count(), 0);
    }

    #[test]
    fn parses_duplicates() {
        let bytes = packet(&DUPLICATES);
        let sack = sack(&bytes);
        assert_eq!(sack.gap_ack_block_count(), 0);
        assert!(sack.duplicate_tsns().eq([Tsn::new(19), Tsn::new(19)]));
    }

    #[test]
    fn parsed_chunk_builds_the_same_bytes() {
        let example = build(|packet| {
            packet.sack(Tsn::new(12), 4660, EXAMPLE_GAPS.into_iter(), iter::empty());
        });
        assert_eq!(example, EXAMPLE);
        let duplicates = build(|packet| {
            packet.sack(
                Tsn::new(19),
                0,
                iter::empty(),
                [Tsn::new(19); 2].into_iter(),
            );
        });
        assert_eq!(duplicates, DUPLICATES);
    }

    #[test]
    fn counts_that_disagree_with_the_length_are_an_error() {
        for (place, count, expected) in [(13, 1, 20), (13, 3, 28), (15, 1, 28), (12, 2, 2072)] {
            let mut bytes = EXAMPLE;
            bytes[place] = count;
            let kind = ParseErrorKind::WrongLength {
                item: TlvKind::Chunk,
                expected,
                length: 24,
            };
            assert_error(&bytes, kind, 14);
        }
    }

    #[test]
    fn truncated_entry_is_an_error() {
        let mut bytes = EXAMPLE;
        bytes[3] = 22;
        bytes[13] = 1;
        let kind = ParseErrorKind::WrongLength {
            item: TlvKind::Chunk,
            expected: 20,
            length: 22,
        };
        assert_error(&bytes, kind, 14);
    }

    #[test]
    fn missing_fields_are_an_error() {
        let mut bytes = EXAMPLE;
        bytes[3] = 15;
        let kind = ParseErrorKind::ValueTooShort {
            item: TlvKind::Chunk,
            needed: 16,
            length: 15,
        };
        assert_error(&bytes, kind, 14);
    }

    #[test]
    fn gap_blocks_take_precedence_over_duplicates() {
        let gaps = (1..=10).map(|i| GapAckBlock {
            start: 2 * i,
            end: 2 * i,
        });
        let duplicates = (1..=10).map(Tsn::new);
        for (entries, gap_count, duplicate_count) in
            [(0, 0, 0), (9, 9, 0), (10, 10, 0), (13, 10, 3)]
        {
            let limit = 12 + 16 + entries * 4;
            let mut bytes = Vec::new();
            // Three more bytes are not enough for another entry.
            let mut builder = PacketBuilder::new(&mut bytes, HEADER, limit + 3);
            builder.sack(Tsn::new(0), 1, gaps.clone(), duplicates.clone());
            assert_eq!(builder.finish(), limit);
            let sack = sack(&bytes);
            assert!(sack.gap_ack_blocks().eq(gaps.clone().take(gap_count)));
            assert!(
                sack.duplicate_tsns()
                    .eq(duplicates.clone().take(duplicate_count))
            );
        }
    }

    #[test]
    fn a_sack_never_outgrows_its_length_field() {
        let mut bytes = Vec::new();
        let mut builder = PacketBuilder::new(&mut bytes, HEADER, 1 << 20);
        let gap = GapAckBlock { start: 1, end: 1 };
        builder.sack(Tsn::new(0), 1, iter::repeat(gap), iter::repeat(Tsn::new(0)));
        builder.finish();
        let sack = sack(&bytes);
        assert_eq!(sack.gap_ack_block_count(), sack_entries(65_535));
        assert_eq!(sack.duplicate_tsns().len(), 0);
    }
}
