//! A protection for tests, of the kind of the DTLS chunk: encryption, integrity over the common
//! header, record numbers, a window against replays, several keys at a time, one of them for
//! restarts. Of the library it uses nothing but the hook; of cryptography HMAC-SHA256 alone, so
//! that it is short. The tests of the crate above take this file too, with the names that the
//! hook has there.
//!
//! ```text
//! | key id (1) | record number (8) | chunks, encrypted | tag (16) |
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::hook::{
    CauseCode, ChunkProtection, ChunkProtectionOffer, ChunkType, Offers, PacketContext,
    ParameterType, Seal, Time,
};

/// Types that nothing else has; who does not know the parameter skips it.
pub(crate) const SEALED: ChunkType = ChunkType(0x41);
pub(crate) const PARAMETER: ParameterType = ParameterType(0x8f06);

const HEADER: usize = 9;
const TAG: usize = 16;

/// The key for restarts.
pub(crate) const RESTART: u8 = 255;

#[derive(Debug, Clone, Default)]
pub(crate) struct Offer {
    pub(crate) required: bool,
    /// This side has lost its associations: it seals from the beginning, with the key for restarts.
    pub(crate) restarts: bool,
    pub(crate) restart_key: [u8; 32],
    pub(crate) value: Vec<u8>,
    pub(crate) overhead: usize,
}

impl Offer {
    pub(crate) fn new() -> Self {
        Self {
            restart_key: [77; 32],
            value: vec![0, 1],
            overhead: HEADER + TAG,
            ..Self::default()
        }
    }

    pub(crate) fn shared(self) -> Arc<dyn ChunkProtectionOffer> {
        Arc::new(self)
    }
}

impl ChunkProtectionOffer for Offer {
    fn chunk_type(&self) -> ChunkType {
        SEALED
    }

    fn parameter_type(&self) -> ParameterType {
        PARAMETER
    }

    fn value(&self, _: u32) -> Vec<u8> {
        self.value.clone()
    }

    fn overhead(&self) -> usize {
        self.overhead
    }

    fn agree(&self, _: &[u8], theirs: Option<&[u8]>) -> Result<bool, CauseCode> {
        let agreed = theirs == Some(&self.value);
        if self.required && !agreed {
            return Err(CauseCode::PROTOCOL_VIOLATION);
        }
        Ok(agreed)
    }

    fn is_required(&self) -> bool {
        self.required
    }

    fn begin(&self, offers: &Offers<'_>) -> Box<dyn ChunkProtection> {
        assert_eq!(offers.theirs, self.value);
        assert_eq!(offers.ours, self.value);
        Box::new(self.toy(offers.initiated))
    }
}

impl Offer {
    /// Returns the protection of an association.
    pub(crate) fn toy(&self, connects: bool) -> Toy {
        let mut toy = Toy {
            keys: BTreeMap::new(),
            sends_with: self.restarts.then_some(RESTART),
            locked: self.restarts,
            shut: false,
            number: 0,
            restarts: 0,
            connects,
        };
        toy.install(RESTART, self.restart_key);
        toy
    }
}

#[derive(Debug)]
struct Key {
    secret: [u8; 32],
    highest: u64,
    seen: u64,
}

#[derive(Debug)]
pub(crate) struct Toy {
    keys: BTreeMap<u8, Key>,
    sends_with: Option<u8>,
    /// Nothing in the clear is taken any more, but the INIT of a restart, and padding.
    locked: bool,
    /// Nor that INIT.
    shut: bool,
    number: u64,
    pub(crate) restarts: u32,
    pub(crate) connects: bool,
}

impl Toy {
    pub(crate) fn install(&mut self, id: u8, secret: [u8; 32]) {
        let key = Key {
            secret,
            highest: 0,
            seen: 0,
        };
        self.keys.insert(id, key);
    }

    pub(crate) fn send_with(&mut self, id: u8) {
        self.sends_with = Some(id);
    }

    pub(crate) fn lock(&mut self) {
        self.locked = true;
    }

    pub(crate) fn shut(&mut self) {
        self.shut = true;
    }

    pub(crate) fn remove(&mut self, id: u8) {
        self.keys.remove(&id);
    }
}

fn mac(secret: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Ports and tag, as they are on the wire, and the record's header.
fn context(packet: &PacketContext, flags: u8, header: &[u8]) -> Vec<u8> {
    let mut bytes = vec![flags];
    bytes.extend(packet.header.source_port.to_be_bytes());
    bytes.extend(packet.header.destination_port.to_be_bytes());
    bytes.extend(packet.header.tag.0.to_be_bytes());
    bytes.extend(header);
    bytes
}

fn encrypt(secret: &[u8; 32], context: &[u8], text: &mut [u8]) {
    for (n, block) in text.chunks_mut(32).enumerate() {
        let stream = mac(secret, &[b"stream", context, &n.to_be_bytes()]);
        block.iter_mut().zip(stream).for_each(|(a, b)| *a ^= b);
    }
}

impl ChunkProtection for Toy {
    fn protect(&mut self, packet: &PacketContext, chunks: &mut Vec<u8>) -> Seal {
        let Some(id) = self.sends_with else {
            return Seal::Clear;
        };
        let Some(key) = self.keys.get(&id) else {
            return Seal::Drop;
        };
        self.number += 1;
        let mut sealed = vec![id];
        sealed.extend(self.number.to_be_bytes());
        let context = context(packet, 0, &sealed);
        encrypt(&key.secret, &context, chunks);
        sealed.extend_from_slice(chunks);
        let tag = mac(&key.secret, &[b"tag", &context, chunks]);
        sealed.extend(&tag[..TAG]);
        *chunks = sealed;
        Seal::Sealed { flags: 0 }
    }

    fn unprotect(&mut self, packet: &PacketContext, flags: u8, value: &mut Vec<u8>) -> bool {
        if value.len() < HEADER + TAG {
            return false;
        }
        let tag = value.split_off(value.len() - TAG);
        let text = value.split_off(HEADER);
        let Some(key) = self.keys.get_mut(&value[0]) else {
            return false;
        };
        let context = context(packet, flags, value);
        if mac(&key.secret, &[b"tag", &context, &text])[..TAG] != tag {
            return false;
        }
        let number = u64::from_be_bytes(value[1..].try_into().expect("eight bytes"));
        if number > key.highest {
            let by = number - key.highest;
            key.seen = if by < 64 { key.seen << by } else { 0 };
            key.highest = number;
        }
        let age = key.highest - number;
        if age >= 64 || key.seen >> age & 1 == 1 {
            return false;
        }
        key.seen |= 1 << age;
        *value = text;
        encrypt(&key.secret, &context, value);
        true
    }

    fn admits(&self, chunk: ChunkType) -> bool {
        !self.locked || chunk == ChunkType::PAD || chunk == ChunkType::INIT && !self.shut
    }

    fn restarted(&mut self, _: Time, _: &Offers<'_>) {
        self.restarts += 1;
        self.sends_with = Some(RESTART);
    }
}
