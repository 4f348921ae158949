//! Batches in the rule file, each whole or not there.
//!
//! ```text
//! "carrick rules 2\n"
//! salt, 64 bit
//! +---------------+-------------------------------+---------------+--------------
//! | length, 32 bit|   number of the batch, 64 bit | CRC32c, 32 bit| records ...     batch 0: all rules
//! +---------------+-------------------------------+---------------+--------------
//! | length        |   number                      | CRC32c        | records ...     batch 1, 2, ...: changes
//! ```
//!
//! The checksum is over the salt, length, number and records. A batch is written when the one before it is
//! durable. So what a crash spoils is the last one, and nothing after it is whole: a whole batch
//! after a spoilt one tells that the disk, not a crash, did it. Records hold what agents have asked
//! for, so an agent could put a whole batch into one of its own; the salt, a random number that only
//! the file has, keeps it from knowing the checksum.

use carrick_wire::crc32c;

/// What a rule file begins with.
pub(super) const MAGIC: &[u8; 16] = b"carrick rules 2\n";

/// What the checksums of one file begin with.
pub(super) type Salt = [u8; 8];

/// Octets before the first batch.
pub(super) const START_LEN: usize = MAGIC.len() + size_of::<Salt>();

pub(super) const HEADER_LEN: usize = 16;

/// What a file begins with, before its first batch.
pub(super) fn start(salt: Salt) -> Vec<u8> {
    [&MAGIC[..], &salt].concat()
}

/// A batch in octets, to be put at the end of a file.
pub(super) fn frame(salt: Salt, number: u64, records: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + records.len());
    out.extend_from_slice(&(records.len() as u32).to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&checksum(salt, &out, records).to_be_bytes());
    out.extend_from_slice(records);
    out
}

/// The checksum of a batch, from the first twelve octets of its header.
fn checksum(salt: Salt, start: &[u8], records: &[u8]) -> u32 {
    // Of the parts' own checksums: no copy of the records.
    let mut all = [0; 24];
    all[..8].copy_from_slice(&salt);
    all[8..20].copy_from_slice(start);
    all[20..].copy_from_slice(&crc32c(records).to_be_bytes());
    crc32c(&all)
}

/// What was read of a file.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    /// The records of each batch, in order.
    pub(super) batches: Vec<&'a [u8]>,
    /// Octets after the last whole batch.
    pub(super) dropped: u64,
}

/// Why a file can't be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unreadable {
    /// It doesn't begin as a rule file does.
    NotOurs,
    /// It is damaged at this octet.
    Damaged(u64),
}

/// Reads a whole file.
pub(super) fn read(file: &[u8]) -> Result<Frames<'_>, Unreadable> {
    if !file.starts_with(MAGIC) {
        return Err(Unreadable::NotOurs);
    }
    let mut frames = Frames {
        batches: Vec::new(),
        dropped: 0,
    };
    let Some(&salt) = file[MAGIC.len()..].first_chunk() else {
        return Err(Unreadable::Damaged(MAGIC.len() as u64));
    };
    let mut offset = START_LEN;
    while offset < file.len() {
        let number = frames.batches.len() as u64;
        let Some(records) = batch_at(file, salt, offset, |found| found == number) else {
            // The first batch is written under another name: no crash can spoil it.
            let later = |at: &usize| batch_at(file, salt, *at, |found| found > number).is_some();
            if number == 0 || (offset + 1..file.len()).any(|at| later(&at)) {
                return Err(Unreadable::Damaged(offset as u64));
            }
            frames.dropped = (file.len() - offset) as u64;
            break;
        };
        frames.batches.push(records);
        offset += HEADER_LEN + records.len();
    }
    if frames.batches.is_empty() {
        return Err(Unreadable::Damaged(offset as u64));
    }
    Ok(frames)
}

/// The records of a whole batch that begins there and has a number as wanted.
fn batch_at(file: &[u8], salt: Salt, offset: usize, wanted: impl Fn(u64) -> bool) -> Option<&[u8]> {
    let rest = file.get(offset..)?;
    let header = rest.first_chunk::<HEADER_LEN>()?;
    let [
        l0,
        l1,
        l2,
        l3,
        n0,
        n1,
        n2,
        n3,
        n4,
        n5,
        n6,
        n7,
        c0,
        c1,
        c2,
        c3,
    ] = *header;
    let number = u64::from_be_bytes([n0, n1, n2, n3, n4, n5, n6, n7]);
    // No file has as many batches as octets; so the search after damage rarely counts a checksum.
    if !wanted(number) || number > file.len() as u64 {
        return None;
    }
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let records = rest[HEADER_LEN..].get(..length)?;
    let sum = u32::from_be_bytes([c0, c1, c2, c3]);
    (checksum(salt, &header[..12], records) == sum).then_some(records)
}
