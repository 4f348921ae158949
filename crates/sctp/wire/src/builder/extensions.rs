//! The chunks of the extensions.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::PacketBuilder;
use crate::chunk::{A_BIT, NR_SACK_HEADER_LEN, nr_sack_entries};
use crate::packet::CHUNK_HEADER_LEN;
use crate::parameter_writer::{ParameterWriter, address_parameters};
use crate::tlv::{TlvWriter, pad};
use crate::{
    AsconfSerial, ChunkType, GapAckBlock, I_DATA_HEADER_LEN, IDataHeader, SkippedMessage, Ssn,
    StreamId, Tsn,
};

impl PacketBuilder<'_> {
    /// Writes an I-DATA chunk. The payload is copied once, into the buffer.
    #[inline]
    pub fn i_data(&mut self, header: &IDataHeader, payload: &[u8]) {
        let length = I_DATA_HEADER_LEN + payload.len();
        debug_assert!(self.fits(length), "{length} bytes of I-DATA do not fit");
        debug_assert!(u16::try_from(length).is_ok(), "{length} bytes in one chunk");
        self.buf.extend_from_slice(&header.encode(payload.len()));
        self.buf.extend_from_slice(payload);
        pad(self.buf, self.start);
    }

    /// Writes a FORWARD-TSN chunk with all of these streams and their last skipped SSNs. The caller selects
    /// as many as fit ([`ForwardTsn::chunk_len`](crate::ForwardTsn::chunk_len)), and the cumulative TSN
    /// that they cover.
    pub fn forward_tsn(
        &mut self,
        new_cumulative: Tsn,
        skipped: impl Iterator<Item = (StreamId, Ssn)>,
    ) {
        self.chunk(ChunkType::FORWARD_TSN, 0, |buf, _| {
            buf.extend_from_slice(&new_cumulative.value().to_be_bytes());
            for (stream, ssn) in skipped {
                buf.extend_from_slice(&stream.0.to_be_bytes());
                buf.extend_from_slice(&ssn.value().to_be_bytes());
            }
        });
    }

    /// Writes an I-FORWARD-TSN chunk with all of these messages; the caller selects as many as fit, as in
    /// [`PacketBuilder::forward_tsn`].
    pub fn i_forward_tsn(
        &mut self,
        new_cumulative: Tsn,
        skipped: impl Iterator<Item = SkippedMessage>,
    ) {
        self.chunk(ChunkType::I_FORWARD_TSN, 0, |buf, _| {
            buf.extend_from_slice(&new_cumulative.value().to_be_bytes());
            for message in skipped {
                buf.extend_from_slice(&message.encode());
            }
        });
    }

    /// Returns the number of blocks and duplicate TSNs that an NR-SACK chunk can hold; `None` if there is no room
    /// for the chunk.
    pub fn nr_sack_entries(&self) -> Option<usize> {
        let room = self.remaining().min(usize::from(u16::MAX));
        (room >= NR_SACK_HEADER_LEN).then(|| nr_sack_entries(room))
    }

    /// Writes an NR-SACK chunk with as many gap ack blocks as fit into the limit, then as many
    /// non-renegable ones, then as many duplicate TSNs as still fit. The rest of the iterators is omitted.
    /// `all_non_renegable` is the A bit.
    pub fn nr_sack(
        &mut self,
        cumulative: Tsn,
        a_rwnd: u32,
        all_non_renegable: bool,
        gaps: impl Iterator<Item = GapAckBlock>,
        non_renegable: impl Iterator<Item = GapAckBlock>,
        duplicates: impl Iterator<Item = Tsn>,
    ) {
        let room = self.remaining().min(usize::from(u16::MAX));
        let mut entries = nr_sack_entries(room);
        let flags = if all_non_renegable { A_BIT } else { 0 };
        self.chunk(ChunkType::NR_SACK, flags, |buf, _| {
            buf.extend_from_slice(&cumulative.value().to_be_bytes());
            buf.extend_from_slice(&a_rwnd.to_be_bytes());
            let counts = buf.len();
            buf.extend_from_slice(&[0; 8]);
            let gaps = gaps.map(GapAckBlock::encode);
            let gap_count = put_entries(buf, gaps, &mut entries);
            let non_renegable = non_renegable.map(GapAckBlock::encode);
            let non_renegable_count = put_entries(buf, non_renegable, &mut entries);
            let duplicates = duplicates.map(|tsn| tsn.value().to_be_bytes());
            let duplicate_count = put_entries(buf, duplicates, &mut entries);
            buf[counts..counts + 2].copy_from_slice(&gap_count.to_be_bytes());
            buf[counts + 2..counts + 4].copy_from_slice(&non_renegable_count.to_be_bytes());
            buf[counts + 4..counts + 6].copy_from_slice(&duplicate_count.to_be_bytes());
        });
    }

    /// Writes an ASCONF chunk with the requests that the closure writes. `address` is a local address that
    /// the peer knows.
    pub fn asconf(
        &mut self,
        serial: AsconfSerial,
        address: IpAddr,
        requests: impl FnOnce(&mut ParameterWriter<'_>),
    ) {
        let end = self.end;
        self.chunk(ChunkType::ASCONF, 0, |buf, chunk| {
            buf.extend_from_slice(&serial.value().to_be_bytes());
            address_parameters(buf, &[address]);
            requests(&mut ParameterWriter::new(TlvWriter::new(buf, chunk, end)));
        });
    }

    /// Writes an ASCONF-ACK chunk with the responses that the closure writes.
    pub fn asconf_ack(
        &mut self,
        serial: AsconfSerial,
        answers: impl FnOnce(&mut ParameterWriter<'_>),
    ) {
        let end = self.end;
        self.chunk(ChunkType::ASCONF_ACK, 0, |buf, chunk| {
            buf.extend_from_slice(&serial.value().to_be_bytes());
            answers(&mut ParameterWriter::new(TlvWriter::new(buf, chunk, end)));
        });
    }

    /// Writes a RE-CONFIG chunk with the one or two parameters that the closure writes.
    pub fn re_config(&mut self, parameters: impl FnOnce(&mut ParameterWriter<'_>)) {
        let end = self.end;
        self.chunk(ChunkType::RE_CONFIG, 0, |buf, chunk| {
            parameters(&mut ParameterWriter::new(TlvWriter::new(buf, chunk, end)));
        });
    }

    /// Writes a PAD chunk of `chunk_len` bytes, header included: at least 4.
    pub fn pad(&mut self, chunk_len: usize) {
        debug_assert!(chunk_len >= CHUNK_HEADER_LEN, "{chunk_len} bytes of PAD");
        let padding = chunk_len.saturating_sub(CHUNK_HEADER_LEN);
        self.chunk(ChunkType::PAD, 0, |buf, _| {
            buf.resize(buf.len() + padding, 0);
        });
    }

    /// Writes a PAD chunk in front of the chunks written since the packet was `at` bytes long: control
    /// chunks precede DATA (RFC 9260, section 6.10).
    pub fn pad_before(&mut self, at: usize, chunk_len: usize) {
        let before = self.buf.len();
        self.pad(chunk_len);
        let added = self.buf.len() - before;
        self.buf[self.start + at..].rotate_right(added);
    }

    /// Writes an ECNE chunk with the lowest TSN of the marked packet.
    pub fn ecne(&mut self, lowest: Tsn) {
        self.raw(ChunkType::ECNE, 0, &lowest.value().to_be_bytes());
    }

    /// Writes a CWR chunk with the TSN of the ECNE.
    pub fn cwr(&mut self, lowest: Tsn) {
        self.raw(ChunkType::CWR, 0, &lowest.value().to_be_bytes());
    }
}

/// Appends at most `room` entries, subtracts them from `room`, and returns their number.
fn put_entries(buf: &mut Vec<u8>, entries: impl Iterator<Item = [u8; 4]>, room: &mut usize) -> u16 {
    let mut count = 0_u16;
    for entry in entries.take(*room) {
        buf.extend_from_slice(&entry);
        count += 1;
    }
    *room -= usize::from(count);
    count
}
