//! Chunk protection with the structure of the DTLS chunk and no cryptography: numbered keys, record
//! numbers, a replay window, and a checksum instead of a tag.
//!
//! ```text
//! | key (1) | record number (4) | chunks, changed | sum (4) |
//! ```

use std::any::Any;
use std::sync::Arc;

use carrick_proto::protection::{
    ChunkProtection, ChunkProtectionOffer, Offers, PacketContext, Seal,
};
use carrick_proto::{AssociationId, CauseCode, ChunkType, Endpoint, ParameterType, Time};

/// Number of keys that both users have.
pub const KEYS: u8 = 3;

const HEADER: usize = 5;
const SUM: usize = 4;
const WINDOW: u32 = 64;

/// Protection that a side offers, from a byte; the lowest bit enables it.
#[derive(Clone, Copy, Debug)]
pub struct TestProtectionOffer {
    required: bool,
    version: u8,
    /// True if only INIT is accepted unprotected once a key to send with exists.
    strict: bool,
}

pub fn draw(bits: u8) -> Option<Arc<dyn ChunkProtectionOffer>> {
    let offer = TestProtectionOffer {
        required: bits & 2 != 0,
        version: u8::from(bits & 0x0c == 0x0c),
        strict: bits & 0x10 != 0,
    };
    (bits & 1 != 0).then(|| Arc::new(offer) as Arc<dyn ChunkProtectionOffer>)
}

impl ChunkProtectionOffer for TestProtectionOffer {
    fn chunk_type(&self) -> ChunkType {
        ChunkType(0x41)
    }

    fn parameter_type(&self) -> ParameterType {
        ParameterType(0x8f06)
    }

    fn value(&self, _: u32) -> Vec<u8> {
        vec![self.version]
    }

    fn overhead(&self) -> usize {
        HEADER + SUM
    }

    fn agree(&self, ours: &[u8], theirs: Option<&[u8]>) -> Result<bool, CauseCode> {
        let agreed = theirs == Some(ours);
        if self.required && !agreed {
            return Err(CauseCode::PROTOCOL_VIOLATION);
        }
        Ok(agreed)
    }

    fn is_required(&self) -> bool {
        self.required
    }

    fn begin(&self, _: &Offers<'_>) -> Box<dyn ChunkProtection> {
        Box::new(Sealer {
            strict: self.strict,
            has: [false; KEYS as usize],
            sends_with: None,
            number: 0,
            next: 0,
            seen: 0,
        })
    }
}

#[derive(Debug)]
struct Sealer {
    strict: bool,
    has: [bool; KEYS as usize],
    sends_with: Option<u8>,
    number: u32,
    /// Replay window: the lowest record number not received yet, and a bit map of the numbers before it.
    next: u32,
    seen: u64,
}

fn sum(packet: &PacketContext, flags: u8, record: &[u8]) -> [u8; SUM] {
    let header = packet.header;
    let mut bytes = vec![flags];
    bytes.extend(header.source_port.to_be_bytes());
    bytes.extend(header.destination_port.to_be_bytes());
    bytes.extend(header.tag.0.to_be_bytes());
    bytes.extend_from_slice(record);
    carrick_wire::crc32c(&bytes).to_be_bytes()
}

fn scramble(key: u8, chunks: &mut [u8]) {
    for (n, byte) in (0_u8..=255).cycle().zip(chunks) {
        *byte ^= n.wrapping_mul(37) ^ 0x5a ^ key;
    }
}

impl ChunkProtection for Sealer {
    fn protect(&mut self, packet: &PacketContext, chunks: &mut Vec<u8>) -> Seal {
        let Some(key) = self.sends_with else {
            return Seal::Clear;
        };
        if !self.has[usize::from(key)] {
            return Seal::Drop;
        }
        let mut record = vec![key];
        record.extend(self.number.to_be_bytes());
        self.number = self.number.wrapping_add(1);
        scramble(key, chunks);
        record.extend_from_slice(chunks);
        record.extend(sum(packet, 0, &record));
        *chunks = record;
        Seal::Sealed { flags: 0 }
    }

    fn unprotect(&mut self, packet: &PacketContext, flags: u8, value: &mut Vec<u8>) -> bool {
        let Some((record, tag)) = value.split_last_chunk::<SUM>() else {
            return false;
        };
        let &[key, a, b, c, d, ref chunks @ ..] = record else {
            return false;
        };
        if self.has.get(usize::from(key)) != Some(&true) || *tag != sum(packet, flags, record) {
            return false;
        }
        let number = u32::from_be_bytes([a, b, c, d]);
        let Some(following) = number.checked_add(1) else {
            return false;
        };
        if let Some(late) = self.next.checked_sub(following) {
            if late >= WINDOW || self.seen >> late & 1 == 1 {
                return false;
            }
            self.seen |= 1 << late;
        } else {
            let ahead = following - self.next;
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
            self.next = following;
        }
        let mut chunks = chunks.to_vec();
        scramble(key, &mut chunks);
        *value = chunks;
        true
    }

    fn admits(&self, chunk: ChunkType) -> bool {
        let locked = self.strict && self.sends_with.is_some();
        !locked || matches!(chunk, ChunkType::INIT | ChunkType::PAD)
    }

    fn restarted(&mut self, _: Time, _: &Offers<'_>) {
        (self.next, self.seen) = (0, 0);
    }
}

fn with(end: &mut Endpoint, id: AssociationId, work: impl FnOnce(&mut Sealer)) {
    let any: Option<&mut dyn Any> = match end.chunk_protection(id) {
        Some(protection) => Some(protection),
        None => None,
    };
    if let Some(sealer) = any.and_then(|any| any.downcast_mut()) {
        work(sealer);
    }
}

/// Adds, uses or removes a key, or ends the protection.
pub fn change(end: &mut Endpoint, id: AssociationId, what: u8) {
    let key = what >> 2 & 3;
    if key >= KEYS {
        return;
    }
    with(end, id, |sealer| match what & 3 {
        0 => sealer.has[usize::from(key)] = true,
        1 => sealer.sends_with = Some(key),
        2 => sealer.has[usize::from(key)] = false,
        _ => sealer.sends_with = None,
    });
}

/// Gives both users all keys and makes them use the same one.
pub fn agree(end: &mut Endpoint, id: AssociationId) {
    with(end, id, |sealer| {
        sealer.has = [true; KEYS as usize];
        sealer.sends_with = Some(0);
    });
}
