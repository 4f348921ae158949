//! Building a packet whose chunks are authenticated (RFC 4895, section 6.2).

use super::PacketBuilder;
use crate::chunk::AUTH_HEADER_LEN;
use crate::{ChunkType, HmacId, SharedKeyId};

/// AUTH chunk whose HMAC is not computed yet.
#[derive(Debug)]
#[must_use = "only `PacketBuilder::authenticate` writes the HMAC"]
pub struct AuthSlot {
    /// Offset of the chunk in the packet.
    offset: usize,
    hmac_len: usize,
}

/// Packet with its HMAC: nothing can be added to it.
#[derive(Debug)]
#[must_use = "only `finish` completes the packet"]
pub struct AuthenticatedPacket<'b>(PacketBuilder<'b>);

impl<'b> PacketBuilder<'b> {
    /// Writes an AUTH chunk with zeros for an HMAC of `hmac_len` bytes. It authenticates the chunks that
    /// follow; [`PacketBuilder::authenticate`] completes it.
    pub fn auth(&mut self, key: SharedKeyId, id: HmacId, hmac_len: usize) -> AuthSlot {
        let offset = self.len();
        self.chunk(ChunkType::AUTH, 0, |buf, _| {
            buf.extend_from_slice(&key.0.to_be_bytes());
            buf.extend_from_slice(&id.0.to_be_bytes());
            buf.resize(buf.len() + hmac_len, 0);
        });
        AuthSlot { offset, hmac_len }
    }

    /// Writes the HMAC, which the closure computes over the bytes that it receives. An HMAC of another
    /// length than the slot's is a bug of the caller: with debug assertions it panics, without them the
    /// HMAC is truncated or stays zero at its end.
    pub fn authenticate<H: AsRef<[u8]>>(
        self,
        AuthSlot { offset, hmac_len }: AuthSlot,
        hmac: impl FnOnce(&[u8]) -> H,
    ) -> AuthenticatedPacket<'b> {
        let start = self.start + offset;
        let covered = &mut self.buf[start..];
        let hmac = hmac(covered);
        let hmac = hmac.as_ref();
        debug_assert_eq!(hmac.len(), hmac_len, "an HMAC of another length");
        let place = &mut covered[AUTH_HEADER_LEN..AUTH_HEADER_LEN + hmac_len];
        let length = place.len().min(hmac.len());
        place[..length].copy_from_slice(&hmac[..length]);
        AuthenticatedPacket(self)
    }
}

impl AuthenticatedPacket<'_> {
    /// As [`PacketBuilder::finish`].
    pub fn finish(self) -> usize {
        self.0.finish()
    }

    /// As [`PacketBuilder::finish_with_zero_checksum`].
    pub fn finish_with_zero_checksum(self) -> usize {
        self.0.finish_with_zero_checksum()
    }
}
