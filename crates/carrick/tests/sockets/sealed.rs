//! A protection of chunks of the kind of the DTLS chunk, with AES-128-GCM: keys with numbers, record
//! numbers, a window against replays. It knows nothing of the library but the hook.
//!
//! ```text
//! | key (1) | record number (8) | chunks, encrypted | tag (16) |
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{Aes128Gcm, Nonce};
use carrick::ChunkType;
use carrick::protection::{
    ChunkProtection, ChunkProtectionOffer, PacketContext, ParameterType, Seal,
};

/// A type that nothing else has.
pub(crate) const SEALED: u8 = 0x41;
const HEADER: usize = 9;
const TAG: usize = 16;
/// Records that may come late.
const WINDOW: u64 = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// The only version that this side knows.
    pub(crate) version: u8,
    pub(crate) required: bool,
}

impl Offer {
    pub(crate) fn shared(self) -> Arc<dyn ChunkProtectionOffer> {
        Arc::new(self)
    }
}

pub(crate) fn offer() -> Offer {
    Offer {
        version: 1,
        required: false,
    }
}

impl ChunkProtectionOffer for Offer {
    fn chunk_type(&self) -> ChunkType {
        ChunkType(SEALED)
    }

    fn parameter_type(&self) -> ParameterType {
        // Who does not know it skips it (RFC 9260 section 3.2.1).
        ParameterType(0x8f06)
    }

    fn value(&self) -> Vec<u8> {
        vec![self.version]
    }

    fn accepts(&self, theirs: &[u8]) -> bool {
        theirs == [self.version]
    }

    fn is_required(&self) -> bool {
        self.required
    }

    fn begin(&self, _: &[u8], connects: bool) -> Box<dyn ChunkProtection> {
        Box::new(Sealer {
            connects,
            keys: BTreeMap::new(),
            sends_with: None,
            number: 0,
            locked: false,
        })
    }
}

struct Key {
    cipher: Aes128Gcm,
    /// The next record number that has not been seen, and which of those before have.
    next: u64,
    seen: u64,
}

pub(crate) struct Sealer {
    connects: bool,
    keys: BTreeMap<u8, Key>,
    sends_with: Option<u8>,
    number: u64,
    locked: bool,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").finish_non_exhaustive()
    }
}

impl Sealer {
    /// Packets with this key are opened from now on.
    pub(crate) fn install(&mut self, id: u8, secret: [u8; 16]) {
        let key = Key {
            cipher: Aes128Gcm::new(&secret.into()),
            next: 0,
            seen: 0,
        };
        self.keys.insert(id, key);
    }

    /// What leaves is sealed with this key from now on.
    pub(crate) fn send_with(&mut self, id: u8) {
        self.sends_with = Some(id);
    }

    /// Nothing in the clear is taken any more.
    pub(crate) fn lock(&mut self) {
        self.locked = true;
    }

    pub(crate) fn remove(&mut self, id: u8) {
        self.keys.remove(&id);
    }
}

/// The two sides never use the same nonce with a key.
fn nonce(of_connecting_side: bool, number: u64) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut nonce = [0; 12];
    nonce[0] = u8::from(of_connecting_side);
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce.into()
}

/// What is not encrypted, and must not be changed.
fn associated(packet: &PacketContext, flags: u8, header: &[u8]) -> Vec<u8> {
    let mut bytes = vec![flags];
    bytes.extend(packet.header.source_port.to_be_bytes());
    bytes.extend(packet.header.destination_port.to_be_bytes());
    bytes.extend(packet.header.tag.0.to_be_bytes());
    bytes.extend(header);
    bytes
}

impl ChunkProtection for Sealer {
    fn overhead(&self) -> usize {
        HEADER + TAG
    }

    fn protect(&mut self, packet: &PacketContext, chunks: &mut Vec<u8>) -> Seal {
        let Some(id) = self.sends_with else {
            return Seal::Clear;
        };
        let Some(key) = self.keys.get(&id) else {
            return Seal::Drop;
        };
        let mut record = vec![id];
        record.extend(self.number.to_be_bytes());
        let payload = Payload {
            msg: chunks,
            aad: &associated(packet, 0, &record),
        };
        let nonce = nonce(self.connects, self.number);
        let Ok(text) = key.cipher.encrypt(&nonce, payload) else {
            return Seal::Drop;
        };
        self.number += 1;
        record.extend(text);
        *chunks = record;
        Seal::Sealed { flags: 0 }
    }

    fn unprotect(&mut self, packet: &PacketContext, flags: u8, value: &mut Vec<u8>) -> bool {
        let Some((header, text)) = value.split_first_chunk::<HEADER>() else {
            return false;
        };
        let [id, number @ ..] = *header;
        let number = u64::from_be_bytes(number);
        let Some(key) = self.keys.get_mut(&id) else {
            return false;
        };
        let late = key.next.checked_sub(number + 1);
        if late.is_some_and(|by| by >= WINDOW || key.seen >> by & 1 == 1) {
            return false;
        }
        let payload = Payload {
            msg: text,
            aad: &associated(packet, flags, header),
        };
        let Ok(chunks) = key.cipher.decrypt(&nonce(!self.connects, number), payload) else {
            return false;
        };
        if let Some(by) = late {
            key.seen |= 1 << by;
        } else {
            let ahead = u32::try_from(number + 1 - key.next).unwrap_or(u32::MAX);
            key.seen = key.seen.checked_shl(ahead).unwrap_or(0) | 1;
            key.next = number + 1;
        }
        *value = chunks;
        true
    }

    fn admits(&self, _: ChunkType) -> bool {
        !self.locked
    }
}
