//! Non-Renegable Selective Acknowledgement (NR-SACK), draft-natarajan-tsvwg-sctp-nrsack, section 3.2.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 16   |  reserved   |A|            length             |
//! +---------------+---------------+---------------+---------------+
//! |                      cumulative TSN ack                       |
//! +---------------+---------------+---------------+---------------+
//! |          advertised receiver window credit (a_rwnd)           |
//! +---------------+---------------+---------------+---------------+
//! | number of gap ack blocks = N  |   number of non-renegable = M |
//! +---------------+---------------+---------------+---------------+
//! |  number of duplicate TSNs = X |           reserved            |
//! +---------------+---------------+---------------+---------------+
//! |      gap ack block start      |       gap ack block end       |  N times
//! +---------------+---------------+---------------+---------------+
//! |   non-renegable block start   |    non-renegable block end    |  M times
//! +---------------+---------------+---------------+---------------+
//! |                         duplicate TSN                         |  X times
//! +---------------+---------------+---------------+---------------+
//! ```
//!
//! The draft has expired. FreeBSD's `sctp_header.h` and Wireshark's dissector have the same fields in
//! the same order, and the gap ack blocks in front of the non-renegable ones; a chunk that is reported
//! in one kind of block is not in the other. They know no A bit: in older senders the lowest flag was
//! the nonce sum of ECN, so that nothing should rely on it.

use crate::bytes::{u16_at, u32_at};
use crate::packet::CHUNK_HEADER_LEN;
use crate::tlv::{split, wrong_length};
use crate::{GapAckBlock, ParseError, RawChunk, TlvKind, Tsn};

/// Length before the blocks, without the chunk header.
const FIXED_LEN: usize = 16;

/// Length of a chunk without blocks.
pub(crate) const NR_SACK_HEADER_LEN: usize = CHUNK_HEADER_LEN + FIXED_LEN;

/// Length of a block, and of a duplicate TSN.
const ENTRY_LEN: usize = 4;

/// The A bit: all reported TSNs are non-renegable.
pub(crate) const A_BIT: u8 = 0x01;

/// Number of blocks and duplicate TSNs that fit into an NR-SACK chunk of `room` bytes.
pub(crate) const fn nr_sack_entries(room: usize) -> usize {
    room.saturating_sub(NR_SACK_HEADER_LEN) / ENTRY_LEN
}

/// NR-SACK chunk. The blocks are not validated, as in [`Sack`](crate::Sack).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NrSack<'a> {
    /// Cumulative TSN Ack.
    pub cumulative_tsn_ack: Tsn,
    /// Advertised receiver window credit in bytes.
    pub a_rwnd: u32,
    /// A: all TSNs that the chunk reports are non-renegable.
    pub all_non_renegable: bool,
    gap_count: u16,
    non_renegable_count: u16,
    /// Both kinds of blocks, then the duplicates.
    entries: &'a [[u8; ENTRY_LEN]],
}

impl<'a> NrSack<'a> {
    pub(crate) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let (fixed, lists) = split::<FIXED_LEN>(TlvKind::Chunk, raw.value, raw.offset)?;
        let (gap_count, non_renegable_count) = (u16_at(fixed, 8), u16_at(fixed, 10));
        let duplicates = usize::from(u16_at(fixed, 12));
        let count = usize::from(gap_count) + usize::from(non_renegable_count) + duplicates;
        let (entries, excess) = lists.as_chunks();
        if entries.len() != count || !excess.is_empty() {
            let expected = FIXED_LEN + count * ENTRY_LEN;
            return Err(wrong_length(
                TlvKind::Chunk,
                expected,
                raw.value,
                raw.offset,
            ));
        }
        Ok(Self {
            cumulative_tsn_ack: Tsn::new(u32_at(fixed, 0)),
            a_rwnd: u32_at(fixed, 4),
            all_non_renegable: raw.flags & A_BIT != 0,
            gap_count,
            non_renegable_count,
            entries,
        })
    }

    /// Gap ack blocks in the order of the chunk: received, but renegable.
    pub fn gap_ack_blocks(
        &self,
    ) -> impl ExactSizeIterator<Item = GapAckBlock> + DoubleEndedIterator + Clone + use<'a> {
        blocks(&self.entries[..usize::from(self.gap_count)])
    }

    /// Non-renegable gap ack blocks in the order of the chunk.
    pub fn non_renegable_blocks(
        &self,
    ) -> impl ExactSizeIterator<Item = GapAckBlock> + DoubleEndedIterator + Clone + use<'a> {
        let start = usize::from(self.gap_count);
        blocks(&self.entries[start..start + usize::from(self.non_renegable_count)])
    }

    /// Duplicate TSNs received since the last acknowledgement, once for each time.
    pub fn duplicate_tsns(&self) -> impl ExactSizeIterator<Item = Tsn> + Clone + use<'a> {
        let start = usize::from(self.gap_count) + usize::from(self.non_renegable_count);
        self.entries[start..]
            .iter()
            .map(|entry| Tsn::new(u32::from_be_bytes(*entry)))
    }
}

fn blocks(
    entries: &[[u8; ENTRY_LEN]],
) -> impl ExactSizeIterator<Item = GapAckBlock> + DoubleEndedIterator + Clone {
    entries.iter().map(|entry| GapAckBlock {
        start: u16_at(entry, 0),
        end: u16_at(entry, 2),
    })
}

#[cfg(test)]
mod tests {
    use core::iter;
    use std::vec::Vec;

    use crate::testing::{HEADER, assert_error, build, first_chunk, packet};
    use crate::{Chunk, GapAckBlock, NrSack, PacketBuilder, ParseErrorKind, TlvKind, Tsn};

    /// 14 and 15 have arrived, 17 as non-renegable, and 10 twice.
    const BYTES: [u8; 32] = [
        0x10, 0x00, 0x00, 0x20, // type, flags, length 32
        0x00, 0x00, 0x00, 0x0c, // cumulative TSN ack 12
        0x00, 0x00, 0x12, 0x34, // a_rwnd 4660
        0x00, 0x01, 0x00, 0x01, // one block of each kind
        0x00, 0x01, 0x00, 0x00, // one duplicate
        0x00, 0x02, 0x00, 0x03, // 14 and 15
        0x00, 0x05, 0x00, 0x05, // 17
        0x00, 0x00, 0x00, 0x0a, // duplicate
    ];

    const GAP: GapAckBlock = GapAckBlock { start: 2, end: 3 };
    const SAFE: GapAckBlock = GapAckBlock { start: 5, end: 5 };

    fn nr_sack(bytes: &[u8]) -> NrSack<'_> {
        let Ok(Chunk::NrSack(sack)) = first_chunk(bytes) else {
            panic!("no NR-SACK")
        };
        sack
    }

    #[test]
    fn parses_captured_bytes() {
        let mut bytes = packet(&BYTES);
        let sack = nr_sack(&bytes);
        assert_eq!(sack.cumulative_tsn_ack, Tsn::new(12));
        assert_eq!(sack.a_rwnd, 4660);
        assert!(!sack.all_non_renegable);
        assert!(sack.gap_ack_blocks().eq([GAP]));
        assert!(sack.non_renegable_blocks().eq([SAFE]));
        assert!(sack.duplicate_tsns().eq([Tsn::new(10)]));
        bytes[13] = 0xff;
        assert!(nr_sack(&bytes).all_non_renegable);
        bytes[13] = 0xfe;
        assert!(!nr_sack(&bytes).all_non_renegable);
    }

    #[test]
    fn parsed_chunk_builds_the_same_bytes() {
        for all in [false, true] {
            let built = build(|packet| {
                packet.nr_sack(
                    Tsn::new(12),
                    4660,
                    all,
                    iter::once(GAP),
                    iter::once(SAFE),
                    iter::once(Tsn::new(10)),
                );
            });
            let mut expected = BYTES;
            expected[1] = u8::from(all);
            assert_eq!(built, expected);
        }
    }

    #[test]
    fn counts_that_disagree_with_the_length_are_an_error() {
        let places = [(13, 0, 28), (15, 2, 36), (17, 0, 28), (12, 1, 1056)];
        for (place, count, expected) in places {
            let mut bytes = BYTES;
            bytes[place] = count;
            let kind = ParseErrorKind::WrongLength {
                item: TlvKind::Chunk,
                expected,
                length: 32,
            };
            assert_error(&bytes, kind, 14);
        }
        let mut bytes = BYTES;
        bytes[3] = 19;
        let kind = ParseErrorKind::ValueTooShort {
            item: TlvKind::Chunk,
            needed: 20,
            length: 19,
        };
        assert_error(&bytes, kind, 14);
    }

    #[test]
    fn blocks_go_first_when_not_everything_fits() {
        for (entries, expected) in [
            (0, [0, 0, 0]),
            (3, [3, 0, 0]),
            (5, [4, 1, 0]),
            (9, [4, 4, 1]),
        ] {
            let mut bytes = Vec::new();
            let mut packet = PacketBuilder::new(&mut bytes, HEADER, 12 + 20 + entries * 4 + 3);
            packet.nr_sack(
                Tsn::new(0),
                1,
                false,
                iter::repeat_n(GAP, 4),
                iter::repeat_n(SAFE, 4),
                iter::repeat_n(Tsn::new(0), 4),
            );
            packet.finish();
            let sack = nr_sack(&bytes);
            let counts = [
                sack.gap_ack_blocks().len(),
                sack.non_renegable_blocks().len(),
                sack.duplicate_tsns().len(),
            ];
            assert_eq!(counts, expected);
        }
    }

    #[test]
    fn an_nr_sack_fits_its_length_field() {
        let mut bytes = Vec::new();
        let mut packet = PacketBuilder::new(&mut bytes, HEADER, 1 << 20);
        let (gaps, tsns) = (iter::repeat(GAP), iter::repeat(Tsn::new(0)));
        packet.nr_sack(Tsn::new(0), 1, true, gaps.clone(), gaps, tsns);
        packet.finish();
        assert_eq!(nr_sack(&bytes).gap_ack_blocks().len(), (65_535 - 20) / 4);
    }
}
