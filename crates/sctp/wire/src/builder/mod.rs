//! Building packets at the end of a caller's buffer (RFC 9260, sections 3 and 6.8).

mod auth;
mod extensions;

use alloc::vec::Vec;

pub use auth::{AuthSlot, AuthenticatedPacket};

use crate::cause_writer::CauseWriter;
use crate::chunk::{DataHeader, GapAckBlock, InitFields, T_BIT, sack_entries};
use crate::crc::{self, crc32c};
use crate::packet::{COMMON_HEADER_LEN, CommonHeader, padded};
use crate::parameter_writer::ParameterWriter;
use crate::tlv::{TlvWriter, pad, set_length};
use crate::{ChunkType, DATA_HEADER_LEN, ParameterType, Tsn};

/// Builds one packet at the end of a buffer; several packets may follow one another in it. The
/// only allocation is the growth of the buffer.
///
/// The caller respects the limit: it calls [`PacketBuilder::fits`] before it adds a chunk. A chunk that
/// does not fit, or of more than 65535 bytes, is a bug of the caller; with debug assertions it panics,
/// without them the packet is too long or malformed.
///
/// Chunks are written in the order of the calls; it is not checked which chunks may share a packet. A
/// builder that is dropped without [`PacketBuilder::finish`] leaves a packet without a checksum in the
/// buffer.
#[derive(Debug)]
#[must_use = "only `finish` completes the packet"]
pub struct PacketBuilder<'b> {
    buf: &'b mut Vec<u8>,
    /// Offset of the packet in the buffer.
    start: usize,
    /// Maximum offset of the packet's end in the buffer.
    end: usize,
    /// Chunks other than DATA and I-DATA.
    control_chunks: u32,
}

impl<'b> PacketBuilder<'b> {
    /// Starts a packet of at most `limit` bytes, common header and padding included, at the end of `buf`.
    pub fn new(buf: &'b mut Vec<u8>, header: CommonHeader, limit: usize) -> Self {
        let start = buf.len();
        buf.extend_from_slice(&header.source_port.to_be_bytes());
        buf.extend_from_slice(&header.destination_port.to_be_bytes());
        buf.extend_from_slice(&header.tag.0.to_be_bytes());
        buf.extend_from_slice(&[0; crc::FIELD_LEN]);
        Self {
            buf,
            start,
            end: start.saturating_add(limit),
            control_chunks: 0,
        }
    }

    /// Length of the packet so far in bytes, common header and padding included.
    pub fn len(&self) -> usize {
        self.buf.len() - self.start
    }

    /// Number of bytes left for chunks, their headers and padding included.
    pub fn remaining(&self) -> usize {
        self.end.saturating_sub(self.buf.len())
    }

    /// Number of chunks so far other than DATA and I-DATA.
    pub fn control_chunks(&self) -> u32 {
        self.control_chunks
    }

    /// Returns whether the packet has no chunk yet.
    pub fn is_empty(&self) -> bool {
        self.len() == COMMON_HEADER_LEN
    }

    /// Returns whether a chunk of this many bytes, header included and padding not, can be added.
    pub fn fits(&self, unpadded_chunk_len: usize) -> bool {
        padded(unpadded_chunk_len) <= self.remaining()
    }

    /// Writes a DATA chunk. The payload is copied once, into the buffer.
    #[inline]
    pub fn data(&mut self, header: &DataHeader, payload: &[u8]) {
        let length = DATA_HEADER_LEN + payload.len();
        debug_assert!(self.fits(length), "{length} bytes of DATA do not fit");
        debug_assert!(u16::try_from(length).is_ok(), "{length} bytes in one chunk");
        self.buf.extend_from_slice(&header.encode(payload.len()));
        self.buf.extend_from_slice(payload);
        pad(self.buf, self.start);
    }

    /// Writes an INIT or INIT ACK chunk, depending on `kind`, with the parameters that the closure writes.
    pub fn init(
        &mut self,
        kind: ChunkType,
        fields: InitFields,
        parameters: impl FnOnce(&mut ParameterWriter<'_>),
    ) {
        debug_assert!(
            matches!(kind, ChunkType::INIT | ChunkType::INIT_ACK),
            "{kind}"
        );
        let end = self.end;
        self.chunk(kind, 0, |buf, chunk| {
            buf.extend_from_slice(&fields.encode());
            parameters(&mut ParameterWriter::new(TlvWriter::new(buf, chunk, end)));
        });
    }

    /// Writes a SACK chunk with as many gap ack blocks as fit into the limit, then as many duplicate TSNs
    /// as still fit. The rest of the iterators is omitted.
    pub fn sack(
        &mut self,
        cumulative: Tsn,
        a_rwnd: u32,
        gaps: impl Iterator<Item = GapAckBlock>,
        duplicates: impl Iterator<Item = Tsn>,
    ) {
        let room = self.remaining().min(usize::from(u16::MAX));
        let mut entries = sack_entries(room);
        self.chunk(ChunkType::SACK, 0, |buf, _| {
            buf.extend_from_slice(&cumulative.value().to_be_bytes());
            buf.extend_from_slice(&a_rwnd.to_be_bytes());
            let counts = buf.len();
            buf.extend_from_slice(&[0; 4]);
            let mut gap_count = 0_u16;
            for gap in gaps.take(entries) {
                buf.extend_from_slice(&gap.encode());
                gap_count += 1;
            }
            entries -= usize::from(gap_count);
            let mut duplicate_count = 0_u16;
            for tsn in duplicates.take(entries) {
                buf.extend_from_slice(&tsn.value().to_be_bytes());
                duplicate_count += 1;
            }
            buf[counts..counts + 2].copy_from_slice(&gap_count.to_be_bytes());
            buf[counts + 2..counts + 4].copy_from_slice(&duplicate_count.to_be_bytes());
        });
    }

    /// Writes a HEARTBEAT chunk with this Heartbeat Info.
    pub fn heartbeat(&mut self, info: &[u8]) {
        let end = self.end;
        self.chunk(ChunkType::HEARTBEAT, 0, |buf, chunk| {
            let mut out = TlvWriter::new(buf, chunk, end);
            out.item(ParameterType::HEARTBEAT_INFO.0, |buf| {
                buf.extend_from_slice(info);
            });
        });
    }

    /// Writes a HEARTBEAT ACK chunk with the value of the HEARTBEAT that it answers
    /// ([`Heartbeat::value`](crate::Heartbeat::value)).
    pub fn heartbeat_ack(&mut self, chunk_value: &[u8]) {
        self.raw(ChunkType::HEARTBEAT_ACK, 0, chunk_value);
    }

    /// Writes an ABORT chunk with the causes that the closure writes. `reflected` is the T bit: the
    /// verification tag is reflected from the packet that is answered.
    pub fn abort(&mut self, reflected: bool, causes: impl FnOnce(&mut CauseWriter<'_>)) {
        self.causes(ChunkType::ABORT, t_bit(reflected), causes);
    }

    /// Writes an ERROR chunk with the causes that the closure writes, at least one.
    pub fn error(&mut self, causes: impl FnOnce(&mut CauseWriter<'_>)) {
        self.causes(ChunkType::ERROR, 0, causes);
    }

    /// Writes a SHUTDOWN chunk.
    pub fn shutdown(&mut self, cumulative: Tsn) {
        self.raw(ChunkType::SHUTDOWN, 0, &cumulative.value().to_be_bytes());
    }

    /// Writes a SHUTDOWN ACK chunk.
    pub fn shutdown_ack(&mut self) {
        self.raw(ChunkType::SHUTDOWN_ACK, 0, &[]);
    }

    /// Writes a COOKIE ECHO chunk. It must be the first of the packet (RFC 9260, 5.1).
    pub fn cookie_echo(&mut self, cookie: &[u8]) {
        self.raw(ChunkType::COOKIE_ECHO, 0, cookie);
    }

    /// Writes a COOKIE ACK chunk.
    pub fn cookie_ack(&mut self) {
        self.raw(ChunkType::COOKIE_ACK, 0, &[]);
    }

    /// Writes a SHUTDOWN COMPLETE chunk; `reflected` is the T bit.
    pub fn shutdown_complete(&mut self, reflected: bool) {
        self.raw(ChunkType::SHUTDOWN_COMPLETE, t_bit(reflected), &[]);
    }

    /// Writes a chunk of any type.
    pub fn raw(&mut self, kind: ChunkType, flags: u8, value: &[u8]) {
        self.chunk(kind, flags, |buf, _| buf.extend_from_slice(value));
    }

    /// Writes the checksum and returns the packet's length in bytes. Without a chunk there is
    /// no packet: the buffer is as before, and the length is 0.
    pub fn finish(self) -> usize {
        if self.is_empty() {
            self.buf.truncate(self.start);
            return 0;
        }
        let packet = &mut self.buf[self.start..];
        let checksum = crc32c(packet);
        packet[crc::FIELD].copy_from_slice(&checksum.to_le_bytes());
        packet.len()
    }

    /// Finishes the packet as [`PacketBuilder::finish`] does, but with a checksum of zero: for a peer that
    /// has advertised that it accepts this, over a lower layer that protects the packet. Not allowed for a
    /// packet with an INIT, INIT ACK or COOKIE ECHO chunk, nor for one without an association (RFC 9653,
    /// section 5.2).
    pub fn finish_with_zero_checksum(self) -> usize {
        if self.is_empty() {
            self.buf.truncate(self.start);
            return 0;
        }
        self.len()
    }

    /// Removes the packet: the buffer is as before.
    pub fn discard(self) {
        self.buf.truncate(self.start);
    }

    fn causes(&mut self, kind: ChunkType, flags: u8, causes: impl FnOnce(&mut CauseWriter<'_>)) {
        let end = self.end;
        self.chunk(kind, flags, |buf, chunk| {
            causes(&mut CauseWriter::new(TlvWriter::new(buf, chunk, end)));
        });
    }

    /// Writes a chunk whose value the closure appends; its argument is the offset of the chunk.
    fn chunk(&mut self, kind: ChunkType, flags: u8, value: impl FnOnce(&mut Vec<u8>, usize)) {
        self.control_chunks += 1;
        let chunk = self.buf.len();
        self.buf.extend_from_slice(&[kind.0, flags, 0, 0]);
        value(self.buf, chunk);
        set_length(self.buf, chunk);
        pad(self.buf, self.start);
        debug_assert!(
            self.buf.len() <= self.end,
            "{kind} of {} bytes does not fit",
            self.buf.len() - chunk
        );
    }
}

const fn t_bit(reflected: bool) -> u8 {
    if reflected { T_BIT } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::PacketBuilder;
    use crate::testing::HEADER;
    use crate::{ChunkType, DataFlags, DataHeader, Packet, Ppid, Ssn, StreamId, Tsn};

    const DATA: DataHeader = DataHeader {
        tsn: Tsn::new(1),
        stream: StreamId(0),
        ssn: Ssn::new(0),
        ppid: Ppid(0),
        flags: DataFlags::WHOLE,
    };

    #[test]
    fn padding_precedes_the_chunks_behind_it() {
        let mut buf = std::vec![9; 3];
        let mut packet = PacketBuilder::new(&mut buf, HEADER, 100);
        packet.shutdown_ack();
        let at = packet.len();
        packet.data(&DATA, b"payload");
        packet.pad_before(at, 9);
        assert_eq!(packet.finish(), 12 + 4 + 12 + 24);
        let packet = Packet::parse(&buf[3..]).unwrap();
        let chunks: Vec<_> = packet.chunks().map(|c| c.unwrap()).collect();
        let kinds: Vec<_> = chunks.iter().map(|c| c.kind).collect();
        let expected = [ChunkType::SHUTDOWN_ACK, ChunkType::PAD, ChunkType::DATA];
        assert_eq!(kinds, expected);
        assert_eq!(chunks[1].value, [0; 5]);
        assert!(chunks[2].value.ends_with(b"payload"));
    }

    #[test]
    fn an_empty_packet_leaves_the_buffer_unchanged() {
        let mut buf = std::vec![1, 2, 3];
        let builder = PacketBuilder::new(&mut buf, HEADER, 1452);
        assert!(builder.is_empty());
        assert_eq!(builder.finish(), 0);
        assert_eq!(buf, [1, 2, 3]);
    }

    #[test]
    fn the_checksum_can_stay_zero() {
        let mut buf = std::vec![1];
        let mut builder = PacketBuilder::new(&mut buf, HEADER, 100);
        builder.cookie_ack();
        assert_eq!(builder.finish_with_zero_checksum(), 16);
        assert_eq!(buf[9..13], [0; 4]);
        let builder = PacketBuilder::new(&mut buf, HEADER, 100);
        assert_eq!(builder.finish_with_zero_checksum(), 0);
        assert_eq!(buf.len(), 17, "without a chunk there is no packet");
    }

    #[test]
    fn packets_follow_one_another_in_one_buffer() {
        let mut buf = Vec::new();
        let mut ends = std::vec![0];
        for length in 1..=9 {
            let mut builder = PacketBuilder::new(&mut buf, HEADER, 100);
            builder.data(&DATA, &[0xff; 9][..length]);
            builder.cookie_ack();
            assert_eq!(builder.finish(), 12 + 16 + length.next_multiple_of(4) + 4);
            ends.push(buf.len());
        }
        for ends in ends.windows(2) {
            let packet = Packet::parse(&buf[ends[0]..ends[1]]).unwrap();
            assert!(packet.checksum_is_valid());
            assert_eq!(packet.chunks().map(Result::unwrap).count(), 2);
        }
    }

    #[test]
    fn padding_is_relative_to_the_packet() {
        let mut buf = std::vec![0xee; 3];
        let mut builder = PacketBuilder::new(&mut buf, HEADER, 100);
        builder.data(&DATA, &[1]);
        builder.abort(false, |causes| {
            causes.protocol_violation(&[2]);
            causes.out_of_resource();
        });
        assert_eq!(builder.finish(), 12 + 20 + 4 + 8 + 4);
        let packet = Packet::parse(&buf[3..]).unwrap();
        assert!(packet.checksum_is_valid());
        assert_eq!(packet.chunks().map(Result::unwrap).count(), 2);
    }

    #[test]
    fn room_is_counted_with_padding() {
        let mut buf = Vec::new();
        let mut builder = PacketBuilder::new(&mut buf, HEADER, 12 + 20 + 8);
        assert_eq!((builder.len(), builder.remaining()), (12, 28));
        assert!(builder.fits(28) && !builder.fits(29));
        builder.data(&DATA, &[1]);
        assert!(!builder.is_empty());
        assert_eq!((builder.len(), builder.remaining()), (32, 8));
        assert!(builder.fits(5) && builder.fits(8) && !builder.fits(9));
        builder.shutdown(Tsn::new(1));
        assert_eq!(builder.remaining(), 0);
        assert!(!builder.fits(4));
        assert_eq!(builder.finish(), 40);
    }

    #[test]
    fn a_limit_is_rounded_down_to_a_multiple_of_four() {
        let mut buf = Vec::new();
        let mut builder = PacketBuilder::new(&mut buf, HEADER, 12 + 7);
        assert!(builder.fits(4) && !builder.fits(5));
        builder.cookie_ack();
        assert_eq!(builder.remaining(), 3);
        assert!(!builder.fits(1));
        assert_eq!(builder.finish(), 16);
    }

    #[test]
    fn a_limit_below_the_common_header_fits_nothing() {
        let mut buf = Vec::new();
        let builder = PacketBuilder::new(&mut buf, HEADER, 0);
        assert_eq!(builder.remaining(), 0);
        assert!(!builder.fits(4));
        assert_eq!(builder.finish(), 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "does not fit")]
    fn a_chunk_beyond_the_limit_panics() {
        let mut buf = Vec::new();
        let mut builder = PacketBuilder::new(&mut buf, HEADER, 16);
        builder.raw(ChunkType(0xfe), 0, &[1]);
    }
}
