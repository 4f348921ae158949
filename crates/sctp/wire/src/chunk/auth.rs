//! Authentication (AUTH) of the chunks that follow, RFC 4895, section 4.1.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 15   |     flags     |            length             |
//! +---------------+---------------+---------------+---------------+
//! |     shared key identifier     |        HMAC identifier        |
//! +---------------+---------------+---------------+---------------+
//! /                             HMAC                              /
//! +---------------+---------------+---------------+---------------+
//! ```
//!
//! The HMAC covers this chunk, with zeros in its own place, and the rest of the packet.

use core::iter;
use core::ops::Range;

use crate::bytes::u16_at;
use crate::packet::CHUNK_HEADER_LEN;
use crate::tlv::split;
use crate::{HmacId, Packet, ParseError, RawChunk, SharedKeyId, TlvKind};

/// Length of an AUTH chunk before the HMAC, the chunk header included.
pub const AUTH_HEADER_LEN: usize = CHUNK_HEADER_LEN + FIXED_LEN;

const FIXED_LEN: usize = 4;

/// Zeros that replace the HMAC, in slices of at most this length.
static ZEROS: [u8; 64] = [0; 64];

/// Authentication (AUTH), RFC 4895, section 4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// Identifier of the shared key.
    pub shared_key: SharedKeyId,
    /// HMAC algorithm.
    pub hmac_id: HmacId,
    /// HMAC of any length, to be compared with the computed one in constant time.
    pub hmac: &'a [u8],
    offset: usize,
}

impl<'a> Auth<'a> {
    pub(crate) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let (fixed, hmac) = split::<FIXED_LEN>(TlvKind::Chunk, raw.value, raw.offset)?;
        Ok(Self {
            shared_key: SharedKeyId(u16_at(fixed, 0)),
            hmac_id: HmacId(u16_at(fixed, 2)),
            hmac,
            offset: raw.offset,
        })
    }

    /// Returns the byte range of the chunk in its packet, without padding.
    pub const fn chunk_range(&self) -> Range<usize> {
        self.offset..self.offset + AUTH_HEADER_LEN + self.hmac.len()
    }

    /// Returns the byte range of the HMAC in its packet.
    pub const fn hmac_range(&self) -> Range<usize> {
        self.offset + AUTH_HEADER_LEN..self.chunk_range().end
    }

    /// Returns whether the HMAC covers the chunk at byte `offset` of the packet ([`RawChunk::offset`]).
    pub const fn covers(&self, offset: usize) -> bool {
        offset >= self.chunk_range().end
    }

    /// Returns the data that the HMAC covers, in slices: the chunk up to the HMAC, zeros for the HMAC, and
    /// the packet from there to its end. `packet` is the one that contains the chunk; for another one the
    /// data is undefined, but there is no panic.
    pub fn covered(&self, packet: &Packet<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let hmac = self.hmac_range();
        let bytes = packet.bytes();
        let before = bytes.get(self.offset..hmac.start).unwrap_or_default();
        let after = bytes.get(hmac.end..).unwrap_or_default();
        let whole = iter::repeat_n(&ZEROS[..], hmac.len() / ZEROS.len());
        let part = &ZEROS[..hmac.len() % ZEROS.len()];
        iter::once(before)
            .chain(whole)
            .chain([part, after])
            .filter(|piece| !piece.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::Auth;
    use crate::testing::{HEADER, assert_error, build, first_chunk, packet};
    use crate::{
        Chunk, HmacId, Packet, PacketBuilder, ParseErrorKind, RawChunk, SharedKeyId, TlvKind, Tsn,
    };

    /// A COOKIE ACK, an AUTH with an HMAC of 20 bytes and key 7, and a SHUTDOWN.
    const BYTES: [u8; 40] = [
        0x0b, 0x00, 0x00, 0x04, // COOKIE ACK
        0x0f, 0x00, 0x00, 0x1c, 0x00, 0x07, 0x00, 0x01, // type, length 28, key, SHA-1
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, // HMAC
        0x07, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x09, // SHUTDOWN
    ];

    fn chunks<'a>(packet: &Packet<'a>) -> Vec<RawChunk<'a>> {
        packet.chunks().map(Result::unwrap).collect()
    }

    fn auth<'a>(packet: &Packet<'a>) -> Auth<'a> {
        let found = packet
            .chunks()
            .find_map(|raw| match Chunk::parse(raw.ok()?) {
                Ok(Chunk::Auth(auth)) => Some(auth),
                _ => None,
            });
        found.expect("an AUTH chunk")
    }

    #[test]
    fn parses_captured_bytes() {
        let bytes = packet(&BYTES);
        let packet = Packet::parse(&bytes).unwrap();
        let auth = auth(&packet);
        assert_eq!(auth.shared_key, SharedKeyId(7));
        assert_eq!(auth.hmac_id, HmacId::SHA_1);
        assert_eq!(auth.hmac_id.hmac_len(), Some(auth.hmac.len()));
        assert_eq!(auth.hmac, &BYTES[12..32]);
        assert_eq!(auth.chunk_range(), 16..44);
        assert_eq!(&bytes[auth.hmac_range()], auth.hmac);
    }

    /// RFC 4895, section 6.2
    #[test]
    fn the_hmac_covers_the_rest_of_the_packet() {
        let bytes = packet(&BYTES);
        let packet = Packet::parse(&bytes).unwrap();
        let auth = auth(&packet);
        let covered: Vec<&[u8]> = auth.covered(&packet).collect();
        let expected = [&BYTES[4..12], &[0; 20], &BYTES[32..]].concat();
        assert_eq!(covered.concat(), expected);
        let covers: Vec<_> = chunks(&packet)
            .iter()
            .map(|raw| auth.covers(raw.offset))
            .collect();
        assert_eq!(covers, [false, false, true]);
    }

    #[test]
    fn an_hmac_of_any_length_is_zeroed_whole() {
        for length in [0, 1, 63, 64, 65, 128, 200] {
            let value = [&[0, 0, 0, 3][..], &std::vec![0xee; length]].concat();
            let chunk = build(|packet| packet.raw(crate::ChunkType::AUTH, 0, &value));
            let bytes = packet(&chunk);
            let packet = Packet::parse(&bytes).unwrap();
            let auth = auth(&packet);
            let mut expected = chunk;
            expected[8..8 + length].fill(0);
            let covered: Vec<&[u8]> = auth.covered(&packet).collect();
            assert_eq!(covered.concat(), expected, "{length}");
        }
    }

    #[test]
    fn auth_of_another_packet_covers_only_zeros() {
        let long = packet(&BYTES);
        let long = Packet::parse(&long).unwrap();
        let short = packet(&BYTES[..4]);
        let short = Packet::parse(&short).unwrap();
        assert_eq!(auth(&long).covered(&short).count(), 1, "only zeros");
    }

    /// Checksum instead of an HMAC, which depends on every byte and its position.
    fn toy_hmac(covered: impl Iterator<Item = u8>) -> [u8; 20] {
        let mut sum = [0_u8; 20];
        for (i, byte) in covered.enumerate() {
            let place = &mut sum[i % 20];
            *place = place.wrapping_mul(31).wrapping_add(byte ^ i as u8);
        }
        sum
    }

    #[test]
    fn builder_and_receiver_cover_the_same_bytes() {
        for zero_checksum in [false, true] {
            let mut bytes = std::vec![0xaa; 5];
            let mut builder = PacketBuilder::new(&mut bytes, HEADER, 1000);
            builder.cookie_ack();
            let slot = builder.auth(SharedKeyId(7), HmacId::SHA_1, 20);
            builder.cookie_echo(b"odd");
            builder.shutdown(Tsn::new(9));
            let builder = builder.authenticate(slot, |covered| {
                assert_eq!(covered[8..28], [0; 20]);
                toy_hmac(covered.iter().copied())
            });
            let length = if zero_checksum {
                builder.finish_with_zero_checksum()
            } else {
                builder.finish()
            };
            assert_eq!(length, 12 + 4 + 28 + 8 + 8);
            let packet = Packet::parse(&bytes[5..]).unwrap();
            assert_eq!(packet.checksum_is_valid(), !zero_checksum);
            let auth = auth(&packet);
            let verified = toy_hmac(auth.covered(&packet).flatten().copied());
            assert_eq!(auth.hmac, verified);
        }
    }

    #[test]
    fn missing_fields_are_an_error() {
        let kind = ParseErrorKind::ValueTooShort {
            item: TlvKind::Chunk,
            needed: 8,
            length: 7,
        };
        assert_error(&[0x0f, 0, 0, 7, 0, 0, 0, 0], kind, 14);
        let bytes = packet(&[0x0f, 0, 0, 8, 0, 1, 0, 3]);
        let Ok(Chunk::Auth(auth)) = first_chunk(&bytes) else {
            panic!("no AUTH")
        };
        assert_eq!((auth.hmac, auth.hmac_id), (&[][..], HmacId::SHA_256));
    }
}
