//! Payloads that stay: slices of their datagrams, or copies where a slice would keep much more in
//! memory than the account of the buffer knows.

use bytes::{Bytes, BytesMut};

/// What is kept for a payload is at most this many times as large.
const MAX_KEPT: usize = 8;

/// Where small payloads are copied to, several in one block: an allocation for each of them would
/// cost more than all else that is done with it.
#[derive(Debug, Default)]
pub(super) struct Scraps {
    /// What is left of the block.
    rest: BytesMut,
    /// The size of the block.
    block: usize,
}

impl Scraps {
    /// A part of a datagram that stays.
    pub(super) fn keep(&mut self, payload: &[u8], datagram: &Bytes) -> Bytes {
        if payload.len() >= datagram.len() / MAX_KEPT {
            return datagram.slice_ref(payload);
        }
        let most = MAX_KEPT * payload.len();
        if self.rest.capacity() < payload.len() || self.block > most {
            self.rest = BytesMut::with_capacity(most);
            self.block = most;
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

    #[test]
    fn a_large_part_of_a_datagram_is_not_copied() {
        let datagram = Bytes::from(vec![1; 800]);
        let kept = Scraps::default().keep(&datagram[100..200], &datagram);
        assert_eq!(kept.as_ptr(), datagram[100..].as_ptr());
    }

    #[test]
    fn small_parts_share_blocks_of_at_most_eight_times_their_size() {
        let datagram: Vec<u8> = (0..=255).cycle().take(1452).collect();
        let datagram = Bytes::from(datagram);
        let mut scraps = Scraps::default();
        let mut kept = Vec::new();
        for (at, size) in [20, 20, 20, 100, 100, 3, 3, 3, 20].into_iter().enumerate() {
            let payload = &datagram[at * 100..at * 100 + size];
            kept.push((scraps.keep(payload, &datagram), payload));
            assert!(scraps.block <= MAX_KEPT * size, "{size} bytes");
        }
        for (copy, payload) in kept {
            assert_eq!(copy, payload);
            assert!(!datagram.as_ptr_range().contains(&copy.as_ptr()));
        }
    }
}
