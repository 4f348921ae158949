//! Checksum of the common header: CRC32c (RFC 9260, section 6.8 and appendix A).
//!
//! The field is the CRC in little-endian order, unlike all other fields of the packet: the polynomial's
//! bits are transmitted in the order in which they are computed.
//!
//! With the feature `std` the computation is crc-fast's, which uses the processor's
//! instructions; without it, a table's. `docs/decisions/crc32c.md` has the reasons.

#[cfg(any(test, not(feature = "std")))]
mod table;

use crate::COMMON_HEADER_LEN;

/// Byte range of the checksum field in the packet.
pub(crate) const FIELD: core::ops::Range<usize> = 8..COMMON_HEADER_LEN;

/// Length of the checksum field.
pub(crate) const FIELD_LEN: usize = 4;

/// Computes the CRC32c (Castagnoli) of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(feature = "std")]
    return crc_fast::crc32_iscsi(bytes);
    #[cfg(not(feature = "std"))]
    return table::crc32c(&[bytes]);
}

/// Computes the CRC32c of a packet with a checksum field of zero.
pub(crate) fn of_packet(header: &[u8; COMMON_HEADER_LEN], chunks: &[u8]) -> u32 {
    let mut zeroed = *header;
    zeroed[FIELD].fill(0);
    #[cfg(feature = "std")]
    {
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(&zeroed);
        digest.update(chunks);
        digest.finalize() as u32
    }
    #[cfg(not(feature = "std"))]
    table::crc32c(&[&zeroed, chunks])
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::{crc32c, of_packet, table};

    /// Vectors of RFC 3720, appendix B.4, and the check value of the polynomial.
    #[test]
    fn known_answers() {
        let up: Vec<u8> = (0..32).collect();
        let down: Vec<u8> = (0..32).rev().collect();
        let answers: [(&[u8], u32); 6] = [
            (b"", 0),
            (b"123456789", 0xe306_9283),
            (&[0x00; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&up, 0x46dd_794e),
            (&down, 0x113f_db5c),
        ];
        for (bytes, answer) in answers {
            assert_eq!(crc32c(bytes), answer, "{bytes:?}");
            assert_eq!(table::crc32c(&[bytes]), answer, "{bytes:?}");
        }
    }

    /// Every length around the step sizes of both implementations, split at every position.
    #[test]
    fn table_and_instructions_agree() {
        let bytes: Vec<u8> = (0..600_u32).map(|i| (i * i / 7 + i) as u8).collect();
        for length in (0..80).chain([255, 256, 257, 511, 512, 600]) {
            let expected = crc32c(&bytes[..length]);
            for cut in 0..=length {
                let parts = [&bytes[..cut], &bytes[cut..length]];
                assert_eq!(
                    table::crc32c(&parts),
                    expected,
                    "{length} bytes cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn the_checksum_field_counts_as_zero() {
        let mut packet: Vec<u8> = (1..=40).collect();
        let (header, chunks) = packet.split_first_chunk().unwrap();
        let skipped = of_packet(header, chunks);
        packet[8..12].fill(0);
        assert_eq!(skipped, crc32c(&packet));
    }
}
