//! Records of DTLS 1.3 in the one form that the DTLS chunk has (draft-ietf-tsvwg-sctp-dtls-chunk, section 4.2):
//! no connection ID, a sequence number of 16 bits, no length.
//!
//! ```text
//! 0 (pre-padding) | 0 0 1 0 1 0 E E | sequence number (16), encrypted | chunks, content type 23: encrypted | tag (16)
//! ```

use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};
use ring::aead::Aad;

use crate::cipher::{INTEGRITY_LIMIT, KeyMaterial, Schedule};

/// Bytes in front of the ciphertext: pre-padding and unified header.
const FRONT: usize = 4;

/// Bytes of the authentication tag.
const TAG: usize = 16;

/// First byte of the unified header without the bits of the epoch.
const FIXED_BITS: u8 = 0b0010_1000;

/// Content type `application_data` (RFC 8446, section 5.1).
const APPLICATION_DATA: u8 = 23;

/// Bytes that a record adds to its chunks: pre-padding, header, content type, tag.
pub const RECORD_OVERHEAD: usize = FRONT + 1 + TAG;

/// Default of [`ReceiveContext::set_window`]: records, over all paths together.
pub(crate) const DEFAULT_WINDOW: u32 = 4096;

/// Reason for which a record was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpenError {
    /// No key context has the epoch, or the form is wrong.
    NoContext,
    /// It is not authentic.
    Forged,
    /// It was received before, or is older than the replay window.
    Replayed,
}

/// Key context for sending.
#[derive(Debug)]
pub(crate) struct SendContext {
    material: KeyMaterial,
    schedule: Schedule,
    epoch: u64,
    /// Sequence number of the next record.
    next: u64,
    bytes: u64,
}

impl SendContext {
    pub(crate) fn new(epoch: u64, material: KeyMaterial) -> Option<Self> {
        Some(Self {
            schedule: material.schedule()?,
            material,
            epoch,
            next: 0,
            bytes: 0,
        })
    }

    pub(crate) fn material(&self) -> &KeyMaterial {
        &self.material
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the bytes of chunks that it has protected.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of records that it has protected (abstract API, section 7.10).
    pub(crate) fn records(&self) -> u64 {
        self.next
    }

    /// Returns whether half of the records that the cipher suite allows are used.
    pub(crate) fn is_half_used(&self) -> bool {
        self.next >= self.material.suite().confidentiality_limit() / 2
    }

    /// Replaces chunks by the value of a DTLS chunk. Returns `false`, and leaves them, if the key has protected as
    /// many records as the cipher suite allows.
    pub(crate) fn seal(&mut self, chunks: &mut Vec<u8>) -> bool {
        if self.next >= self.material.suite().confidentiality_limit() {
            return false;
        }
        let sequence = self.next;
        let [.., high, low] = sequence.to_be_bytes();
        let front = [0, FIXED_BITS | (self.epoch & 3) as u8, high, low];
        let plain = chunks.len();
        chunks.reserve(RECORD_OVERHEAD);
        chunks.push(APPLICATION_DATA);
        chunks.splice(0..0, front);
        let nonce = self.schedule.nonce(sequence);
        let header = [front[1], high, low];
        let tag = self.schedule.payload.seal_in_place_separate_tag(
            nonce,
            Aad::from(header),
            &mut chunks[FRONT..],
        );
        let Ok(tag) = tag else {
            // Only a plaintext beyond the limits of the algorithm, which no packet reaches.
            chunks.drain(..FRONT);
            chunks.truncate(plain);
            return false;
        };
        chunks.extend_from_slice(tag.as_ref());
        self.next += 1;
        self.bytes += plain as u64;
        number_mask(&self.schedule, chunks).is_some_and(|mask| {
            chunks[FRONT - 2] ^= mask[0];
            chunks[FRONT - 1] ^= mask[1];
            true
        })
    }
}

impl Portable for SendContext {
    fn write(&self, out: &mut ExportWriter) {
        self.material.write(out);
        (self.epoch, self.next, self.bytes).write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let material = Portable::read(input)?;
        let (epoch, next, bytes) = Portable::read(input)?;
        let context = Self::new(epoch, material).ok_or(ImportError::Malformed("SendContext"))?;
        Ok(Self {
            next,
            bytes,
            ..context
        })
    }
}

/// Returns the mask of the encrypted sequence number: it depends on the first 16 bytes of the ciphertext
/// (RFC 9147, section 4.2.3).
fn number_mask(schedule: &Schedule, value: &[u8]) -> Option<[u8; 5]> {
    let sample = value.get(FRONT..FRONT + 16)?;
    schedule.number.new_mask(sample).ok()
}

/// Key context for receiving.
#[derive(Debug)]
pub(crate) struct ReceiveContext {
    material: KeyMaterial,
    schedule: Schedule,
    epoch: u64,
    window: ReplayWindow,
    records: u64,
    bytes: u64,
    failed: u64,
}

impl ReceiveContext {
    pub(crate) fn new(epoch: u64, material: KeyMaterial, window: u32) -> Option<Self> {
        Some(Self {
            schedule: material.schedule()?,
            material,
            epoch,
            window: ReplayWindow::new(window),
            records: 0,
            bytes: 0,
            failed: 0,
        })
    }

    pub(crate) fn material(&self) -> &KeyMaterial {
        &self.material
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the bytes of chunks that it has opened.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of records that it has opened (abstract API, section 7.11).
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Returns the number of records that were not authentic (abstract API, section 7.12).
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Returns whether as many records were not authentic as the cipher suite allows: the key must not be used any
    /// more (RFC 9147, section 4.5.3).
    pub(crate) fn is_exhausted(&self) -> bool {
        self.failed >= INTEGRITY_LIMIT
    }

    /// Returns whether half of the records that may fail to authenticate have done so.
    pub(crate) fn is_half_exhausted(&self) -> bool {
        self.failed >= INTEGRITY_LIMIT / 2
    }

    /// Sets the size of the replay window in records.
    pub(crate) fn set_window(&mut self, records: u32) {
        self.window.resize(records);
    }

    /// Returns whether a record may be of this context: its epoch has the same last two bits.
    pub(crate) fn fits(&self, value: &[u8]) -> bool {
        value.get(1) == Some(&(FIXED_BITS | (self.epoch & 3) as u8))
    }

    /// Replaces the value of a DTLS chunk by the chunks in it; leaves it on an error.
    ///
    /// 1. Decrypt the sequence number (RFC 9147, section 4.2.3), and complete it to 48 bits (section 4.2.2).
    /// 2. Refuse a record that was received before, or that is older than the window (section 4.5.1).
    /// 3. Decrypt and authenticate (section 4).
    /// 4. Remove the zeros and the content type behind the chunks (RFC 8446, section 5.4).
    /// 5. Record the sequence number: never before the record is authentic.
    pub(crate) fn open(&mut self, value: &mut Vec<u8>) -> Result<(), OpenError> {
        if value.len() < RECORD_OVERHEAD || !self.fits(value) || self.is_exhausted() {
            return Err(OpenError::NoContext);
        }
        // 1.
        let mask = number_mask(&self.schedule, value).ok_or(OpenError::NoContext)?;
        let header = [value[1], value[2] ^ mask[0], value[3] ^ mask[1]];
        let sequence = self
            .window
            .complete(u16::from_be_bytes([header[1], header[2]]));
        // 2.
        if !self.window.is_new(sequence) {
            return Err(OpenError::Replayed);
        }
        // 3. A copy is opened: the bytes of a record that is not authentic are undefined, and another context may have it.
        let mut opened = value[FRONT..].to_vec();
        let nonce = self.schedule.nonce(sequence);
        let result = self
            .schedule
            .payload
            .open_in_place(nonce, Aad::from(header), &mut opened);
        let Ok(plain) = result else {
            self.failed += 1;
            return Err(OpenError::Forged);
        };
        // 4.
        let end = plain.iter().rposition(|byte| *byte != 0);
        let Some(end) = end.filter(|end| plain[*end] == APPLICATION_DATA) else {
            self.failed += 1;
            return Err(OpenError::Forged);
        };
        opened.truncate(end);
        // 5.
        self.window.record(sequence);
        self.records += 1;
        self.bytes += end as u64;
        *value = opened;
        Ok(())
    }
}

impl Portable for ReceiveContext {
    fn write(&self, out: &mut ExportWriter) {
        self.material.write(out);
        [self.epoch, self.records, self.bytes, self.failed].write(out);
        self.window.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let material = Portable::read(input)?;
        let [epoch, records, bytes, failed] = Portable::read(input)?;
        let context = Self::new(epoch, material, DEFAULT_WINDOW);
        Ok(Self {
            window: Portable::read(input)?,
            records,
            bytes,
            failed,
            ..context.ok_or(ImportError::Malformed("ReceiveContext"))?
        })
    }
}

/// Sequence numbers that were received: a ring of bits below the highest one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ReplayWindow {
    /// The sequence number behind the highest that was received.
    next: u64,
    /// Bit `n % 64` of word `n / 64`, in a ring, is set if number `n` was received.
    words: Vec<u64>,
}

impl ReplayWindow {
    /// Sizes of the window in records.
    const SIZES: std::ops::RangeInclusive<u32> = 64..=1 << 16;

    fn new(records: u32) -> Self {
        let records = records.clamp(*Self::SIZES.start(), *Self::SIZES.end());
        // One word more: the words of the highest and of the lowest number are in use in part.
        let words = vec![0; records.div_ceil(64) as usize + 1];
        Self { next: 0, words }
    }

    /// Number of records below the highest one that the window distinguishes.
    fn size(&self) -> u64 {
        (self.words.len() as u64 - 1) * 64
    }

    fn resize(&mut self, records: u32) {
        let mut resized = Self::new(records);
        for number in self.next.saturating_sub(self.size().min(resized.size()))..self.next {
            if !self.is_new(number) {
                resized.record(number);
            }
        }
        // Numbers that the former window did not cover count as received.
        for number in
            self.next.saturating_sub(resized.size())..self.next.saturating_sub(self.size())
        {
            resized.set(number);
        }
        resized.next = self.next;
        *self = resized;
    }

    /// Returns the sequence number with these last 16 bits that is closest to the one expected next (RFC 9147,
    /// section 4.2.2).
    fn complete(&self, low: u16) -> u64 {
        let base = self.next & !0xffff;
        let candidate = base | u64::from(low);
        if candidate > self.next + 0x8000 && candidate >= 0x1_0000 {
            candidate - 0x1_0000
        } else if candidate + 0x8000 < self.next {
            candidate + 0x1_0000
        } else {
            candidate
        }
    }

    fn place(&self, number: u64) -> (usize, u64) {
        let word = (number / 64 % self.words.len() as u64) as usize;
        (word, 1 << (number % 64))
    }

    fn is_new(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        let (word, bit) = self.place(number);
        self.next - number <= self.size() && self.words[word] & bit == 0
    }

    fn set(&mut self, number: u64) {
        let (word, bit) = self.place(number);
        self.words[word] |= bit;
    }

    fn record(&mut self, number: u64) {
        if number >= self.next {
            // Words that the ring takes for numbers above the highest one so far.
            let first = self.next.div_ceil(64);
            let last = number / 64;
            let count = (last + 1)
                .saturating_sub(first)
                .min(self.words.len() as u64);
            for word in last + 1 - count..=last {
                let (place, _) = self.place(word * 64);
                self.words[place] = 0;
            }
            self.next = number + 1;
        }
        self.set(number);
    }
}

impl Portable for ReplayWindow {
    fn write(&self, out: &mut ExportWriter) {
        self.next.write(out);
        self.words.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let (next, words): (u64, Vec<u64>) = Portable::read(input)?;
        let sizes = Self::SIZES.start() / 64 + 1..=Self::SIZES.end() / 64 + 1;
        if !sizes.contains(&(words.len() as u32)) || next > 1 << 48 {
            return Err(ImportError::Malformed("ReplayWindow"));
        }
        Ok(Self { next, words })
    }
}

#[cfg(test)]
mod tests;
