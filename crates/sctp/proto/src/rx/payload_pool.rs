//! Payloads in the receive buffer: slices of their datagrams, or copies where a slice would keep much
//! more memory than the receive buffer counts.

use bytes::{Bytes, BytesMut};

use crate::export::{ExportReader, ExportWriter, ImportError, Portable};

/// Datagrams that a driver may cut from one allocation for [`Endpoint::handle_datagrams`](crate::Endpoint::handle_datagrams).
///
/// A message that is a slice of its datagram holds the whole allocation. The core assumes that the
/// allocation is at most this many times as long as each datagram in it.
pub const DATAGRAMS_PER_ALLOCATION: usize = 4;

/// Limit of the memory kept for a payload, as a multiple of the bytes counted for it.
///
/// A chunk that fills its datagram is not copied, although the other datagrams of the same allocation
/// stay with it: the factor is larger than [`DATAGRAMS_PER_ALLOCATION`] for its headers.
const MAX_KEPT: usize = DATAGRAMS_PER_ALLOCATION + 1;

/// Largest block for several copies, in bytes. The unused part of a block is not counted.
const MAX_BLOCK: usize = 1024;

/// Allocator of copies: small payloads share a block, since an allocation for each would cost more than
/// all other processing of the chunk.
#[derive(Debug, Default)]
pub(super) struct PayloadPool {
    /// Unused part of the block.
    rest: BytesMut,
    /// Size of the block.
    block: usize,
}

/// Nothing: the rest of a block is only memory.
impl Portable for PayloadPool {
    fn write(&self, _: &mut ExportWriter) {}

    fn read(_: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        Ok(Self::default())
    }
}

impl PayloadPool {
    /// Returns the payload of a chunk for the receive buffer, which counts this many bytes for it; it is
    /// a part of `datagram`.
    pub(super) fn retain(&mut self, payload: &[u8], counted: usize, datagram: &Bytes) -> Bytes {
        let most = MAX_KEPT * counted;
        if DATAGRAMS_PER_ALLOCATION * datagram.len() <= most {
            return datagram.slice_ref(payload);
        }
        let block = most.min(MAX_BLOCK);
        if 2 * payload.len() > block {
            return Bytes::copy_from_slice(payload);
        }
        if self.rest.capacity() < payload.len() || self.block > most {
            self.rest = BytesMut::with_capacity(block);
            self.block = block;
        }
        self.rest.extend_from_slice(payload);
        self.rest.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    const OVERHEAD: usize = 128;

    fn is_copied(payload: usize, datagram: usize) -> bool {
        let datagram = Bytes::from(vec![1; datagram]);
        let range = datagram.len() - payload..;
        let kept =
            PayloadPool::default().retain(&datagram[range.clone()], payload + OVERHEAD, &datagram);
        assert_eq!(kept, datagram[range.clone()]);
        kept.as_ptr() != datagram[range].as_ptr()
    }

    #[test]
    fn a_chunk_that_fills_its_packet_is_not_copied() {
        // The IPv6 minimum, Ethernet and jumbo frames, in UDP: common header and DATA header.
        for datagram in [548, 1232, 1452, 8952] {
            assert!(!is_copied(datagram - 28, datagram), "{datagram} bytes");
        }
    }

    #[test]
    fn a_small_part_of_a_packet_is_copied() {
        for payload in [1, 100, 182, 500, 1000] {
            assert!(is_copied(payload, 1452), "{payload} bytes");
        }
        // The allocation behind it is less than what the receive buffer counts.
        assert!(!is_copied(4, 32));
    }

    #[test]
    fn copies_share_blocks_of_bounded_size() {
        let datagram: Vec<u8> = (0..=255).cycle().take(1452).collect();
        let datagram = Bytes::from(datagram);
        for overhead in [0, OVERHEAD] {
            let mut pool = PayloadPool::default();
            let mut kept = Vec::new();
            for (at, size) in [20, 20, 20, 100, 100, 3, 3, 3, 20, 400, 900]
                .into_iter()
                .enumerate()
            {
                let payload = &datagram[at * 50..at * 50 + size];
                kept.push((pool.retain(payload, size + overhead, &datagram), payload));
                assert!(pool.block <= MAX_KEPT * (size + overhead), "{size} bytes");
                assert!(pool.block <= MAX_BLOCK);
            }
            for (copy, payload) in kept {
                assert_eq!(copy, payload);
                assert!(!datagram.as_ptr_range().contains(&copy.as_ptr()));
            }
        }
    }
}
