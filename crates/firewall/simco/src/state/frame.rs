//! Batches in the rule file, each complete or ignored.
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
//! The checksum covers salt, length, number and records. A batch is written when the one before it is
//! durable, so a crash can only damage the last one. A complete batch after a damaged one therefore
//! indicates damage of the disk. Records contain data from requests, so an agent could embed a
//! complete batch in one; the salt, a random number known only from the file, prevents it from
//! computing the checksum.

use carrick_wire::crc32c;

/// First octets of a rule file.
pub(super) const MAGIC: &[u8; 16] = b"carrick rules 2\n";

/// First octets of the input of each checksum of a file.
pub(super) type Salt = [u8; 8];

/// Octets before the first batch.
pub(super) const START_LEN: usize = MAGIC.len() + size_of::<Salt>();

pub(super) const HEADER_LEN: usize = 16;

/// Returns the octets before the first batch.
pub(super) fn start(salt: Salt) -> Vec<u8> {
    [&MAGIC[..], &salt].concat()
}

/// Encodes a batch.
pub(super) fn frame(salt: Salt, number: u64, records: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + records.len());
    out.extend_from_slice(&(records.len() as u32).to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&checksum(salt, &out, records).to_be_bytes());
    out.extend_from_slice(records);
    out
}

/// Returns the checksum of a batch from the first twelve octets of its header.
fn checksum(salt: Salt, start: &[u8], records: &[u8]) -> u32 {
    // Combines the checksums of the parts, without copying the records.
    let mut all = [0; 24];
    all[..8].copy_from_slice(&salt);
    all[8..20].copy_from_slice(start);
    all[20..].copy_from_slice(&crc32c(records).to_be_bytes());
    crc32c(&all)
}

/// Parsed file.
#[derive(Debug)]
pub(super) struct ParsedFile<'a> {
    /// Records of each batch, in order.
    pub(super) batches: Vec<&'a [u8]>,
    /// Octets after the last complete batch.
    pub(super) dropped: u64,
}

/// Reason for which a file can't be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UnreadableFile {
    /// It does not begin like a rule file.
    OtherFormat,
    /// It is damaged at this octet.
    Damaged(u64),
}

/// Parses a whole file.
pub(super) fn read(file: &[u8]) -> Result<ParsedFile<'_>, UnreadableFile> {
    if !file.starts_with(MAGIC) {
        return Err(UnreadableFile::OtherFormat);
    }
    let mut frames = ParsedFile {
        batches: Vec::new(),
        dropped: 0,
    };
    let Some(&salt) = file[MAGIC.len()..].first_chunk() else {
        return Err(UnreadableFile::Damaged(MAGIC.len() as u64));
    };
    let mut offset = START_LEN;
    while offset < file.len() {
        let number = frames.batches.len() as u64;
        let Some(records) = batch_at(file, salt, offset, |found| found == number) else {
            // The first batch is written under a temporary name, so no crash can damage it.
            let later = |at: &usize| batch_at(file, salt, *at, |found| found > number).is_some();
            if number == 0 || (offset + 1..file.len()).any(|at| later(&at)) {
                return Err(UnreadableFile::Damaged(offset as u64));
            }
            frames.dropped = (file.len() - offset) as u64;
            break;
        };
        frames.batches.push(records);
        offset += HEADER_LEN + records.len();
    }
    if frames.batches.is_empty() {
        return Err(UnreadableFile::Damaged(offset as u64));
    }
    Ok(frames)
}

/// Returns the records of a complete batch at this offset with a matching number.
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
    // A file has fewer batches than octets, so the search after damage rarely computes a checksum.
    if !wanted(number) || number > file.len() as u64 {
        return None;
    }
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let records = rest[HEADER_LEN..].get(..length)?;
    let sum = u32::from_be_bytes([c0, c1, c2, c3]);
    (checksum(salt, &header[..12], records) == sum).then_some(records)
}
