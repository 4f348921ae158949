//! DATA: a user message or a fragment of one (RFC 9260, section 3.3.1).
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 0    |  res  |I|U|B|E|            length             |
//! +---------------+---------------+---------------+---------------+
//! |                              TSN                              |
//! +---------------+---------------+---------------+---------------+
//! |       stream identifier       |    stream sequence number     |
//! +---------------+---------------+---------------+---------------+
//! |                  payload protocol identifier                  |
//! +---------------+---------------+---------------+---------------+
//! /                           user data                           /
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::bytes::{u16_at, u32_at};
use crate::packet::CHUNK_HEADER_LEN;
use crate::tlv::split;
use crate::{ChunkType, ParseError, Ppid, RawChunk, Ssn, StreamId, TlvKind, Tsn};

/// Length of a DATA chunk before the user data, the chunk header included.
pub const DATA_HEADER_LEN: usize = CHUNK_HEADER_LEN + FIXED_LEN;

const FIXED_LEN: usize = 12;

/// Flags of a DATA chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataFlags {
    /// I: the sender requests a SACK without delay (RFC 7053).
    pub immediate: bool,
    /// U: unordered; the SSN has no meaning.
    pub unordered: bool,
    /// B: first fragment of a message.
    pub beginning: bool,
    /// E: last fragment of a message.
    pub ending: bool,
}

impl DataFlags {
    const I: u8 = 0x08;
    const U: u8 = 0x04;
    const B: u8 = 0x02;
    const E: u8 = 0x01;

    /// Flags of an ordered message in one chunk: B and E.
    pub const WHOLE: Self = Self {
        immediate: false,
        unordered: false,
        beginning: true,
        ending: true,
    };

    /// Converts from the chunk flags field; the reserved bits are ignored.
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        Self {
            immediate: bits & Self::I != 0,
            unordered: bits & Self::U != 0,
            beginning: bits & Self::B != 0,
            ending: bits & Self::E != 0,
        }
    }

    /// Chunk flags field; the reserved bits are 0.
    #[inline]
    pub const fn bits(self) -> u8 {
        (self.immediate as u8) << 3
            | (self.unordered as u8) << 2
            | (self.beginning as u8) << 1
            | self.ending as u8
    }
}

/// Fields of a DATA chunk without its user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// Transmission sequence number.
    pub tsn: Tsn,
    /// Stream of the message.
    pub stream: StreamId,
    /// Position of the message in its stream, if it is ordered.
    pub ssn: Ssn,
    /// Payload protocol identifier.
    pub ppid: Ppid,
    /// Flags: fragment, order and acknowledgement.
    pub flags: DataFlags,
}

impl DataHeader {
    /// Encodes the bytes before `payload_len` bytes of user data.
    pub(crate) fn encode(&self, payload_len: usize) -> [u8; DATA_HEADER_LEN] {
        let length = DATA_HEADER_LEN + payload_len;
        let mut bytes = [0; DATA_HEADER_LEN];
        bytes[0] = ChunkType::DATA.0;
        bytes[1] = self.flags.bits();
        bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        bytes[4..8].copy_from_slice(&self.tsn.value().to_be_bytes());
        bytes[8..10].copy_from_slice(&self.stream.0.to_be_bytes());
        bytes[10..12].copy_from_slice(&self.ssn.value().to_be_bytes());
        bytes[12..16].copy_from_slice(&self.ppid.0.to_be_bytes());
        bytes
    }
}

/// Payload Data (DATA), RFC 9260, section 3.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Transmission sequence number.
    pub tsn: Tsn,
    /// Stream of the message.
    pub stream: StreamId,
    /// Position of the message in its stream, if it is ordered.
    pub ssn: Ssn,
    /// Payload protocol identifier.
    pub ppid: Ppid,
    /// Flags: fragment, order and acknowledgement.
    pub flags: DataFlags,
    /// User data. An empty one is not an error here: the protocol answers it with an ABORT that has a "No
    /// User Data" cause (RFC 9260, section 6.2).
    pub payload: &'a [u8],
}

impl<'a> Data<'a> {
    #[inline]
    pub(crate) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let (fixed, payload) = split::<FIXED_LEN>(TlvKind::Chunk, raw.value, raw.offset)?;
        Ok(Self {
            tsn: Tsn::new(u32_at(fixed, 0)),
            stream: StreamId(u16_at(fixed, 4)),
            ssn: Ssn::new(u16_at(fixed, 6)),
            ppid: Ppid(u32_at(fixed, 8)),
            flags: DataFlags::from_bits(raw.flags),
            payload,
        })
    }

    /// All fields but the user data.
    pub const fn header(&self) -> DataHeader {
        DataHeader {
            tsn: self.tsn,
            stream: self.stream,
            ssn: self.ssn,
            ppid: self.ppid,
            flags: self.flags,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Data, DataFlags};
    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{Chunk, ParseErrorKind, Ppid, Ssn, StreamId, TlvKind, Tsn};

    /// "hello" as the first fragment of an ordered message of M2PA (PPID 5).
    const BYTES: [u8; 24] = [
        0x00, 0x02, 0x00, 0x15, // type, B, length 21
        0xff, 0xff, 0xff, 0xfe, // TSN
        0x00, 0x03, 0x12, 0x34, // stream, SSN
        0x00, 0x00, 0x00, 0x05, // PPID
        b'h', b'e', b'l', b'l', b'o', 0x00, 0x00, 0x00,
    ];

    fn expected() -> Data<'static> {
        Data {
            tsn: Tsn::new(0xffff_fffe),
            stream: StreamId(3),
            ssn: Ssn::new(0x1234),
            ppid: Ppid(5),
            flags: DataFlags {
                beginning: true,
                ..DataFlags::default()
            },
            payload: b"hello",
        }
    }

    #[test]
    fn parses_captured_bytes() {
        assert_eq!(first_chunk(&packet(&BYTES)), Ok(Chunk::Data(expected())));
    }

    #[test]
    fn parsed_chunk_builds_the_same_bytes() {
        let data = expected();
        assert_eq!(
            build(|packet| packet.data(&data.header(), data.payload)),
            BYTES
        );
    }

    #[test]
    fn every_flag_has_its_bit() {
        let none = DataFlags::default();
        let flags = [
            (
                DataFlags {
                    immediate: true,
                    ..none
                },
                0x08,
            ),
            (
                DataFlags {
                    unordered: true,
                    ..none
                },
                0x04,
            ),
            (
                DataFlags {
                    beginning: true,
                    ..none
                },
                0x02,
            ),
            (
                DataFlags {
                    ending: true,
                    ..none
                },
                0x01,
            ),
            (DataFlags::WHOLE, 0x03),
            (none, 0),
        ];
        for (flags, bits) in flags {
            assert_eq!(flags.bits(), bits);
            assert_eq!(DataFlags::from_bits(bits), flags);
            assert_eq!(
                DataFlags::from_bits(bits | 0xf0),
                flags,
                "reserved bits are ignored"
            );
        }
    }

    #[test]
    fn without_user_data_it_still_parses() {
        let mut bytes = packet(&BYTES[..16]);
        bytes[15] = 16;
        assert_eq!(
            first_chunk(&bytes),
            Ok(Chunk::Data(Data {
                payload: b"",
                ..expected()
            }))
        );
    }

    #[test]
    fn a_header_cut_short_is_an_error() {
        let mut bytes = BYTES;
        bytes[3] = 15;
        let kind = ParseErrorKind::ValueTooShort {
            item: TlvKind::Chunk,
            needed: 16,
            length: 15,
        };
        assert_error(&bytes, kind, 14);
    }
}
