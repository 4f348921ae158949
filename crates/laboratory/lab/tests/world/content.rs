//! Contents of messages: bytes and a PPID derived from the sender and the message's number, so that
//! a wrong byte, offset or message is detected.

use bytes::Bytes;
use carrick_lab::seed::derive;

/// Returns the payload protocol identifier of a message, which is unique within a side.
pub(crate) fn ppid(side: usize, number: usize) -> u32 {
    (number as u32 * 2 + side as u32).wrapping_mul(FACTOR)
}

/// Returns side and number of the message with a PPID.
pub(crate) fn number_of(ppid: u32) -> (usize, usize) {
    let number = ppid.wrapping_mul(inverse(FACTOR));
    ((number % 2) as usize, (number / 2) as usize)
}

/// Factor; multiplication by an odd number permutes the integers of 32 bits.
const FACTOR: u32 = 0x9E37_79B1;

/// Returns the inverse of an odd number modulo 2^32, by Newton's iteration.
const fn inverse(odd: u32) -> u32 {
    let mut x = odd;
    let mut i = 0;
    while i < 5 {
        x = x.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(x)));
        i += 1;
    }
    x
}

/// Returns the bytes of a message of `size` bytes.
pub(crate) fn bytes(seed: u64, side: usize, number: usize, size: usize) -> Bytes {
    let key = key(seed, side, number);
    let mut all = Vec::with_capacity(size + 8);
    for word in 0..size.div_ceil(8) as u64 {
        all.extend_from_slice(&word_at(key, word).to_le_bytes());
    }
    all.truncate(size);
    all.into()
}

/// Returns whether `piece` equals the message from `offset` on.
pub(crate) fn matches(seed: u64, side: usize, number: usize, offset: usize, piece: &[u8]) -> bool {
    let key = key(seed, side, number);
    let mut at = offset;
    let mut rest = piece;
    while !rest.is_empty() {
        let word = word_at(key, (at / 8) as u64).to_le_bytes();
        let wanted = &word[at % 8..];
        let n = wanted.len().min(rest.len());
        if rest[..n] != wanted[..n] {
            return false;
        }
        at += n;
        rest = &rest[n..];
    }
    true
}

fn key(seed: u64, side: usize, number: usize) -> u64 {
    derive(seed, &[side as u64, number as u64])
}

fn word_at(key: u64, word: u64) -> u64 {
    let z = (key ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 29)
}

#[test]
fn content_is_verified_at_any_offset() {
    for number in [0, 1, 77, 100_000] {
        assert_eq!(number_of(ppid(1, number)), (1, number));
        let all = bytes(5, 1, number, 100);
        for cut in 0..100 {
            assert!(matches(5, 1, number, cut, &all[cut..]));
        }
        assert!(!matches(5, 0, number, 0, &all) && !matches(5, 1, number, 1, &all));
    }
}
