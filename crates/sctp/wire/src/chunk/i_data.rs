//! Payload Data with interleaving (I-DATA), RFC 8260, section 2.1.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 64   |  res  |I|U|B|E|            length             |
//! +---------------+---------------+---------------+---------------+
//! |                              TSN                              |
//! +---------------+---------------+---------------+---------------+
//! |       stream identifier       |           reserved            |
//! +---------------+---------------+---------------+---------------+
//! |                   message identifier (MID)                    |
//! +---------------+---------------+---------------+---------------+
//! |  with B: payload protocol identifier; without: FSN            |
//! +---------------+---------------+---------------+---------------+
//! /                           user data                           /
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::bytes::{u16_at, u32_at};
use crate::packet::CHUNK_HEADER_LEN;
use crate::tlv::split;
use crate::{ChunkType, DataFlags, Fsn, Mid, ParseError, Ppid, RawChunk, StreamId, TlvKind, Tsn};

/// Length of an I-DATA chunk before the user data, the chunk header included.
pub const I_DATA_HEADER_LEN: usize = CHUNK_HEADER_LEN + FIXED_LEN;

const FIXED_LEN: usize = 16;

/// Fragment of a message in an I-DATA chunk. The first one (B) has the payload protocol identifier and
/// implies the FSN 0; later ones have an FSN in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// First fragment; B is set.
    First(Ppid),
    /// Later fragment; B is not set. A peer can send any FSN here, also 0.
    Later(Fsn),
}

impl Fragment {
    /// Number of the fragment, 0 for the first one.
    #[inline]
    pub const fn fsn(self) -> Fsn {
        match self {
            Self::First(_) => Fsn::new(0),
            Self::Later(fsn) => fsn,
        }
    }

    /// Payload protocol identifier of the message, which only the first fragment has.
    #[inline]
    pub const fn ppid(self) -> Option<Ppid> {
        match self {
            Self::First(ppid) => Some(ppid),
            Self::Later(_) => None,
        }
    }

    /// Returns true for the first fragment.
    #[inline]
    pub const fn is_first(self) -> bool {
        matches!(self, Self::First(_))
    }
}

/// Fields of an I-DATA chunk without its user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IDataHeader {
    /// Transmission sequence number.
    pub tsn: Tsn,
    /// Stream of the message.
    pub stream: StreamId,
    /// Identifier of the message: ordered and unordered messages of a stream are numbered separately.
    pub mid: Mid,
    /// Fragment; it determines B.
    pub fragment: Fragment,
    /// I: the sender requests a SACK without delay.
    pub immediate: bool,
    /// U: unordered.
    pub unordered: bool,
    /// E: last fragment of a message.
    pub ending: bool,
}

impl IDataHeader {
    /// Flags, B included; they are those of DATA.
    #[inline]
    pub const fn flags(&self) -> DataFlags {
        DataFlags {
            immediate: self.immediate,
            unordered: self.unordered,
            beginning: self.fragment.is_first(),
            ending: self.ending,
        }
    }

    /// Encodes the bytes before `payload_len` bytes of user data.
    pub(crate) fn encode(&self, payload_len: usize) -> [u8; I_DATA_HEADER_LEN] {
        let length = I_DATA_HEADER_LEN + payload_len;
        let ppid_or_fsn = match self.fragment {
            Fragment::First(ppid) => ppid.0,
            Fragment::Later(fsn) => fsn.value(),
        };
        let mut bytes = [0; I_DATA_HEADER_LEN];
        bytes[0] = ChunkType::I_DATA.0;
        bytes[1] = self.flags().bits();
        bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        bytes[4..8].copy_from_slice(&self.tsn.value().to_be_bytes());
        bytes[8..10].copy_from_slice(&self.stream.0.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.mid.value().to_be_bytes());
        bytes[16..20].copy_from_slice(&ppid_or_fsn.to_be_bytes());
        bytes
    }
}

/// I-DATA chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IData<'a> {
    /// All fields but the user data.
    pub header: IDataHeader,
    /// User data. An empty one is not an error here, as in [`Data`](crate::Data).
    pub payload: &'a [u8],
}

impl<'a> IData<'a> {
    #[inline]
    pub(crate) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let (fixed, payload) = split::<FIXED_LEN>(TlvKind::Chunk, raw.value, raw.offset)?;
        let flags = DataFlags::from_bits(raw.flags);
        let ppid_or_fsn = u32_at(fixed, 12);
        let header = IDataHeader {
            tsn: Tsn::new(u32_at(fixed, 0)),
            stream: StreamId(u16_at(fixed, 4)),
            mid: Mid::new(u32_at(fixed, 8)),
            fragment: if flags.beginning {
                Fragment::First(Ppid(ppid_or_fsn))
            } else {
                Fragment::Later(Fsn::new(ppid_or_fsn))
            },
            immediate: flags.immediate,
            unordered: flags.unordered,
            ending: flags.ending,
        };
        Ok(Self { header, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::{Fragment, IData, IDataHeader};
    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{Chunk, DataFlags, Fsn, Mid, ParseErrorKind, Ppid, StreamId, TlvKind, Tsn};

    /// "hey" as the first fragment of an unordered message.
    const FIRST: [u8; 24] = [
        0x40, 0x06, 0x00, 0x17, // type, U and B, length 23
        0xff, 0xff, 0xff, 0xfe, // TSN
        0x00, 0x03, 0x00, 0x00, // stream
        0x00, 0x01, 0x00, 0x00, // MID
        0x00, 0x00, 0x00, 0x05, // PPID
        b'h', b'e', b'y', 0x00,
    ];

    /// "you" as the last fragment with I; the reserved bits are set at random.
    const LAST: [u8; 24] = [
        0x40, 0xfd, 0x00, 0x17, // type, I, U and E, length 23
        0xff, 0xff, 0xff, 0xff, // TSN
        0x00, 0x03, 0xab, 0xcd, // stream, reserved
        0x00, 0x01, 0x00, 0x00, // MID
        0x00, 0x00, 0x00, 0x05, // FSN
        b'y', b'o', b'u', 0x00,
    ];

    const HEADER: IDataHeader = IDataHeader {
        tsn: Tsn::new(0xffff_fffe),
        stream: StreamId(3),
        mid: Mid::new(0x1_0000),
        fragment: Fragment::First(Ppid(5)),
        immediate: false,
        unordered: true,
        ending: false,
    };

    const LAST_HEADER: IDataHeader = IDataHeader {
        tsn: Tsn::new(0xffff_ffff),
        fragment: Fragment::Later(Fsn::new(5)),
        immediate: true,
        ending: true,
        ..HEADER
    };

    #[test]
    fn parses_captured_bytes() {
        for (bytes, header, payload) in [(FIRST, HEADER, b"hey"), (LAST, LAST_HEADER, b"you")] {
            let payload = &payload[..];
            assert_eq!(
                first_chunk(&packet(&bytes)),
                Ok(Chunk::IData(IData { header, payload }))
            );
        }
    }

    #[test]
    fn parsed_chunk_builds_the_same_bytes() {
        assert_eq!(build(|packet| packet.i_data(&HEADER, b"hey")), FIRST);
        let mut last = LAST;
        last[1] = 0x0d;
        last[10..12].fill(0);
        assert_eq!(build(|packet| packet.i_data(&LAST_HEADER, b"you")), last);
    }

    #[test]
    fn only_the_first_fragment_has_a_ppid() {
        let (first, later) = (HEADER.fragment, LAST_HEADER.fragment);
        assert_eq!((first.fsn(), first.ppid()), (Fsn::new(0), Some(Ppid(5))));
        assert_eq!((later.fsn(), later.ppid()), (Fsn::new(5), None));
        assert!(first.is_first() && !later.is_first());
        assert_eq!(HEADER.flags(), DataFlags::from_bits(0x06));
        assert_eq!(LAST_HEADER.flags(), DataFlags::from_bits(0x0d));
    }

    #[test]
    fn without_user_data_it_still_parses() {
        let mut bytes = packet(&FIRST[..20]);
        bytes[15] = 20;
        let payload = &b""[..];
        assert_eq!(
            first_chunk(&bytes),
            Ok(Chunk::IData(IData {
                header: HEADER,
                payload
            }))
        );
    }

    #[test]
    fn a_header_cut_short_is_an_error() {
        let mut bytes = FIRST;
        bytes[3] = 19;
        let kind = ParseErrorKind::ValueTooShort {
            item: TlvKind::Chunk,
            needed: 20,
            length: 19,
        };
        assert_error(&bytes, kind, 14);
    }
}
