//! Packet: the common header and the chunks after it (RFC 9260, sections 3, 3.1 and 3.2).
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |          source port          |       destination port        |
//! +---------------+---------------+---------------+---------------+
//! |                       verification tag                        |
//! +---------------+---------------+---------------+---------------+
//! |           checksum (CRC32c, least significant first)          |
//! +---------------+---------------+---------------+---------------+
//! |  chunk type   |  chunk flags  |         chunk length          |  length: header and value,
//! +---------------+---------------+---------------+---------------+  not the padding
//! /                          chunk value                          /
//! +---------------+---------------+---------------+---------------+
//! /           padding to a multiple of 4, further chunks          /
//! ```

use crate::bytes::{u16_at, u32_at};
use crate::crc;
use crate::error::{ParseError, ParseErrorKind, TlvKind};
use crate::tlv::Tlvs;
use crate::{ChunkType, VerificationTag};

/// Length of the common header.
pub const COMMON_HEADER_LEN: usize = 12;

/// Length of a chunk's header: type, flags and length.
pub const CHUNK_HEADER_LEN: usize = 4;

/// Returns `len` rounded up to a multiple of 4, the space that a chunk of `len` bytes takes in a packet.
#[inline]
pub const fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// Common header without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommonHeader {
    /// Source port; never 0 in a parsed packet.
    pub source_port: u16,
    /// Destination port; never 0 in a parsed packet.
    pub destination_port: u16,
    /// Verification tag.
    pub tag: VerificationTag,
}

/// Received packet: a view of a datagram whose common header was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    header_bytes: &'a [u8; COMMON_HEADER_LEN],
    chunk_bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses the common header. The checksum is not verified (see [`Packet::checksum_is_valid`]), and the
    /// chunks are not parsed.
    ///
    /// # Errors
    /// The packet is shorter than a common header and a chunk header, or a port is 0.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let too_short = || {
            let kind = ParseErrorKind::PacketTooShort {
                length: bytes.len(),
            };
            ParseError::new(kind, bytes.len())
        };
        let (header_bytes, chunk_bytes) = bytes.split_first_chunk().ok_or_else(too_short)?;
        if chunk_bytes.len() < CHUNK_HEADER_LEN {
            return Err(too_short());
        }
        let packet = Self {
            bytes,
            header_bytes,
            chunk_bytes,
        };
        let header = packet.header();
        if header.source_port == 0 {
            return Err(ParseError::new(ParseErrorKind::ZeroPort, 0));
        }
        if header.destination_port == 0 {
            return Err(ParseError::new(ParseErrorKind::ZeroPort, 2));
        }
        Ok(packet)
    }

    /// Returns whether the checksum field is the packet's CRC32c (RFC 9260, 6.8).
    pub fn checksum_is_valid(&self) -> bool {
        let [.., a, b, c, d] = *self.header_bytes;
        u32::from_le_bytes([a, b, c, d]) == crc::of_packet(self.header_bytes, self.chunk_bytes)
    }

    /// Returns whether the checksum field is valid or zero; the CRC32c is not computed if it is zero. For a
    /// receiver that has advertised this to the sender, over a lower layer that protects the packet by the
    /// advertised method (RFC 9653, section 5.3).
    pub fn checksum_is_valid_or_zero(&self) -> bool {
        self.checksum_is_zero() || self.checksum_is_valid()
    }

    /// Returns whether the checksum field is zero, which is also a possible CRC32c.
    pub fn checksum_is_zero(&self) -> bool {
        self.header_bytes[crc::FIELD] == [0; crc::FIELD_LEN]
    }

    /// Ports and verification tag.
    pub fn header(&self) -> CommonHeader {
        CommonHeader {
            source_port: u16_at(self.header_bytes, 0),
            destination_port: u16_at(self.header_bytes, 2),
            tag: VerificationTag(u32_at(self.header_bytes, 4)),
        }
    }

    /// Bytes of the whole packet.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Chunks in their order.
    pub const fn chunks(&self) -> Chunks<'a> {
        Chunks(Tlvs::new(
            TlvKind::Chunk,
            self.chunk_bytes,
            COMMON_HEADER_LEN,
        ))
    }
}

/// Iterator over unparsed chunks of a packet. It ends after the last chunk or after the first error: a
/// partial chunk, one whose length is less than its header or exceeds the packet. The padding of the last
/// chunk may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks<'a>(Tlvs<'a>);

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<RawChunk<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let tlv = match self.0.next()? {
            Ok(tlv) => tlv,
            Err(error) => return Some(Err(error)),
        };
        let [kind, flags] = tlv.kind;
        Some(Ok(RawChunk {
            kind: ChunkType(kind),
            flags,
            value: tlv.value,
            bytes: tlv.bytes,
            offset: tlv.offset,
        }))
    }
}

impl core::iter::FusedIterator for Chunks<'_> {}

/// Unparsed chunk of any type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawChunk<'a> {
    /// Chunk type.
    pub kind: ChunkType,
    /// Chunk flags; their meaning depends on the type.
    pub flags: u8,
    /// Chunk value, without padding.
    pub value: &'a [u8],
    /// Header and value, without padding: the information of an "Unrecognized Chunk Type" cause.
    pub bytes: &'a [u8],
    /// Offset of the chunk in the packet.
    pub offset: usize,
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::{Packet, padded};
    use crate::testing::{HEADER, packet};
    use crate::{ChunkType, ParseError, ParseErrorKind, TlvKind};

    /// A COOKIE ACK on the wire. The CRC32c was computed bit by bit from the polynomial of
    /// RFC 9260, appendix A.
    const COOKIE_ACK: [u8; 16] = [
        0x0b, 0x59, 0x0e, 0x73, 0x80, 0x00, 0x00, 0x01, 0xfa, 0xec, 0x53, 0x1e, 11, 0, 0, 4,
    ];

    fn chunk_error(chunks: &[u8]) -> Option<ParseError> {
        let bytes = packet(chunks);
        let mut chunks = Packet::parse(&bytes).unwrap().chunks();
        let error = chunks.by_ref().find_map(Result::err);
        assert_eq!(chunks.next(), None, "nothing after an error");
        error
    }

    #[test]
    fn reads_the_common_header_and_the_checksum() {
        let mut bytes = COOKIE_ACK;
        assert_eq!(Packet::parse(&bytes).unwrap().header(), HEADER);
        assert_eq!(Packet::parse(&bytes).unwrap().bytes(), &COOKIE_ACK);
        assert!(Packet::parse(&bytes).unwrap().checksum_is_valid());
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                !Packet::parse(&bytes).unwrap().checksum_is_valid(),
                "bit {bit}"
            );
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_checksum_of_zero_is_accepted_only_on_request() {
        let mut bytes = COOKIE_ACK;
        assert!(Packet::parse(&bytes).unwrap().checksum_is_valid_or_zero());
        bytes[8] ^= 1;
        assert!(!Packet::parse(&bytes).unwrap().checksum_is_valid_or_zero());
        bytes[8..12].fill(0);
        let packet = Packet::parse(&bytes).unwrap();
        assert!(packet.checksum_is_valid_or_zero() && !packet.checksum_is_valid());
        for byte in 8..12 {
            bytes[byte] = 1;
            let packet = Packet::parse(&bytes).unwrap();
            assert!(!packet.checksum_is_valid_or_zero(), "byte {byte}");
            bytes[byte] = 0;
        }
    }

    #[test]
    fn a_packet_without_a_chunk_header_is_an_error() {
        for length in 0..16 {
            let kind = ParseErrorKind::PacketTooShort { length };
            let error = ParseError {
                kind,
                offset: length,
            };
            assert_eq!(Packet::parse(&COOKIE_ACK[..length]), Err(error));
        }
    }

    #[test]
    fn port_zero_is_an_error() {
        for offset in [0, 2] {
            let mut bytes = COOKIE_ACK;
            bytes[offset..offset + 2].fill(0);
            let error = ParseError {
                kind: ParseErrorKind::ZeroPort,
                offset,
            };
            assert_eq!(Packet::parse(&bytes), Err(error));
        }
    }

    #[test]
    fn chunks_follow_one_another_padded() {
        let bytes = packet(&[10, 1, 0, 5, 0xaa, 0, 0, 0, 0xc1, 2, 0, 4, 11, 0, 0, 4]);
        let chunks: Vec<_> = Packet::parse(&bytes)
            .unwrap()
            .chunks()
            .map(Result::unwrap)
            .collect();
        let kinds: Vec<_> = chunks
            .iter()
            .map(|chunk| (chunk.kind.0, chunk.flags))
            .collect();
        assert_eq!(kinds, [(10, 1), (0xc1, 2), (11, 0)]);
        let offsets: Vec<_> = chunks.iter().map(|chunk| chunk.offset).collect();
        assert_eq!(offsets, [12, 20, 24]);
        assert_eq!(
            (chunks[0].value, chunks[0].bytes),
            (&[0xaa][..], &[10, 1, 0, 5, 0xaa][..])
        );
    }

    #[test]
    fn the_last_padding_may_be_missing_or_cut() {
        for length in 17..=20 {
            let bytes = packet(&[10, 0, 0, 5, 0xaa, 0, 0, 0]);
            let mut chunks = Packet::parse(&bytes[..length]).unwrap().chunks();
            let chunk = chunks.next().unwrap().unwrap();
            assert_eq!(
                (chunk.kind, chunk.value),
                (ChunkType::COOKIE_ECHO, &[0xaa][..])
            );
            assert_eq!(chunks.next(), None);
        }
    }

    #[test]
    fn invalid_chunk_lengths_end_the_packet() {
        let item = TlvKind::Chunk;
        for length in 0..4 {
            let kind = ParseErrorKind::LengthTooSmall {
                item,
                length: usize::from(length),
            };
            let error = chunk_error(&[11, 0, 0, 4, 10, 0, 0, length]);
            assert_eq!(error, Some(ParseError { kind, offset: 18 }));
        }
        let kind = ParseErrorKind::LengthPastEnd {
            item,
            length: 0xffff,
            available: 4,
        };
        let error = chunk_error(&[11, 0, 0, 4, 10, 0, 0xff, 0xff]);
        assert_eq!(error, Some(ParseError { kind, offset: 18 }));
        let kind = ParseErrorKind::LengthPastEnd {
            item,
            length: 9,
            available: 8,
        };
        let error = chunk_error(&[10, 0, 0, 9, 1, 2, 3, 4]);
        assert_eq!(error, Some(ParseError { kind, offset: 14 }));
    }

    #[test]
    fn a_partial_chunk_header_is_an_error() {
        for tail in 1..4 {
            let mut chunks = std::vec![11, 0, 0, 4];
            chunks.resize(4 + tail, 0);
            let kind = ParseErrorKind::Truncated(TlvKind::Chunk);
            assert_eq!(chunk_error(&chunks), Some(ParseError { kind, offset: 16 }));
        }
    }

    #[test]
    fn padding_rounds_up_to_four() {
        let lengths = [0, 1, 4, 5, 65_535].map(padded);
        assert_eq!(lengths, [0, 4, 4, 8, 65_536]);
    }
}
