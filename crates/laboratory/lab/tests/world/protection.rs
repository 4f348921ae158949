//! Chunk protection for worlds: it changes every byte, detects foreign packets and replays, and has
//! several keys. It has no cryptographic strength; its purpose is to test the core.
//!
//! ```text
//! | key (1) | record number (8) | chunks, masked | tag (8) |
//! ```
//!
//! Both sides start without protection and enable it once they are established, like a protocol
//! whose keys come from a handshake over the association. After the first record of the peer,
//! unprotected chunks of the peer are rejected.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carrick_proto::protection::{
    ChunkProtection, ChunkProtectionOffer, Offers, PacketContext, Seal,
};
use carrick_proto::{AssociationId, ChunkType, Endpoint, Time};
use carrick_wire::{CauseCode, ParameterType};

const SEALED: ChunkType = ChunkType(0x41);
const PARAMETER: ParameterType = ParameterType(0x8f06);

/// Number of keys of both sides; the last one is for restarts.
pub(crate) const KEYS: u8 = 8;
const RESTART: u8 = KEYS - 1;

const HEADER: usize = 9;
const TAG: usize = 8;

/// Length added to a packet, including the chunk's header and padding.
pub(crate) const SEALED_OVERHEAD: usize = HEADER + TAG + 4 + 3;

/// State common to the protections of both sides of a world.
#[derive(Clone, Debug)]
pub(crate) struct Sealing {
    secret: u64,
    /// A side restarts and connects again.
    restarts: bool,
    /// The side has restarted: only its INIT is accepted without protection.
    restarted: Arc<AtomicBool>,
}

impl Sealing {
    pub(crate) fn new(secret: u64, restarts: bool) -> Self {
        Self {
            secret,
            restarts,
            restarted: Arc::default(),
        }
    }

    /// Returns the offer of a side; `after_restart` after its restart.
    pub(crate) fn offer(&self, after_restart: bool) -> Arc<dyn ChunkProtectionOffer> {
        Arc::new(Offer {
            sealing: self.clone(),
            after_restart,
        })
    }

    /// Records the restart of a side.
    pub(crate) fn note_restart(&self) {
        self.restarted.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Offer {
    sealing: Sealing,
    after_restart: bool,
}

impl ChunkProtectionOffer for Offer {
    fn chunk_type(&self) -> ChunkType {
        SEALED
    }

    fn parameter_type(&self) -> ParameterType {
        PARAMETER
    }

    fn value(&self, _: u32) -> Vec<u8> {
        vec![1, 2, 3]
    }

    fn overhead(&self) -> usize {
        HEADER + TAG
    }

    fn agree(&self, _: &[u8], theirs: Option<&[u8]>) -> Result<bool, CauseCode> {
        Ok(theirs == Some(&[1, 2, 3]))
    }

    fn import(&self, _: Time, state: &[u8]) -> Option<Box<dyn ChunkProtection>> {
        let (words, rest) = state.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_be_bytes(*word));
        let mut keys = [Window::default(); KEYS as usize];
        for key in &mut keys {
            *key = Window {
                highest: words.next()?,
                seen: words.next()?,
            };
        }
        let number = words.next()?;
        let &[sends_with, locked, after_restart] = rest else {
            return None;
        };
        Some(Box::new(Protection {
            sealing: self.sealing.clone(),
            keys,
            sends_with: (sends_with != u8::MAX).then_some(sends_with),
            locked: locked == 1,
            after_restart: after_restart == 1,
            number,
        }))
    }

    fn begin(&self, _: &Offers<'_>) -> Box<dyn ChunkProtection> {
        Box::new(Protection {
            sealing: self.sealing.clone(),
            keys: [Window::default(); KEYS as usize],
            sends_with: self.after_restart.then_some(RESTART),
            locked: self.after_restart,
            after_restart: self.after_restart,
            number: 0,
        })
    }
}

/// Received records of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    highest: u64,
    seen: u64,
}

impl Window {
    /// Returns whether a record is new, and marks it as received.
    fn take(&mut self, number: u64) -> bool {
        if number > self.highest {
            let by = number - self.highest;
            self.seen = if by < 64 { self.seen << by } else { 0 };
            self.highest = number;
        }
        let age = self.highest - number;
        let new = age < 64 && self.seen >> age & 1 == 0;
        if new {
            self.seen |= 1 << age;
        }
        new
    }
}

#[derive(Debug)]
struct Protection {
    sealing: Sealing,
    keys: [Window; KEYS as usize],
    sends_with: Option<u8>,
    locked: bool,
    /// The association began with a restart of the peer.
    after_restart: bool,
    number: u64,
}

/// Protects sent packets from now on with this key; with the first key if none is given and none is
/// in use. Returns false if there is no protection.
pub(crate) fn seal_with(endpoint: &mut Endpoint, id: AssociationId, key: Option<u8>) -> bool {
    let Some(hook) = endpoint.chunk_protection(id) else {
        return false;
    };
    let any: &mut dyn Any = hook;
    let protection: &mut Protection = any.downcast_mut().expect("the protection of this world");
    protection.sends_with = key.or(protection.sends_with).or(Some(0));
    true
}

fn mix(state: u64, value: u64) -> u64 {
    let mut z = (state ^ value).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

impl Protection {
    /// Returns the input of mask and tag of a record: the secret, the key, its number, and the
    /// header that is not protected.
    fn state(&self, packet: &PacketContext, header: &[u8]) -> u64 {
        let ports = u64::from(packet.header.source_port) << 16;
        let ports = ports | u64::from(packet.header.destination_port);
        let clear = ports << 32 | u64::from(packet.header.tag.0);
        let begun = mix(self.sealing.secret, clear);
        header
            .iter()
            .fold(begun, |state, b| mix(state, u64::from(*b)))
    }
}

fn mask(state: u64, text: &mut [u8]) {
    for (n, block) in text.chunks_mut(8).enumerate() {
        let stream = mix(state, n as u64).to_be_bytes();
        block.iter_mut().zip(stream).for_each(|(a, b)| *a ^= b);
    }
}

fn tag(state: u64, text: &[u8]) -> [u8; TAG] {
    let all = text.iter().fold(!state, |sum, b| mix(sum, u64::from(*b)));
    all.to_be_bytes()
}

impl ChunkProtection for Protection {
    fn protect(&mut self, packet: &PacketContext, chunks: &mut Vec<u8>) -> Seal {
        let Some(key) = self.sends_with else {
            return Seal::Clear;
        };
        self.number += 1;
        let mut sealed = vec![key];
        sealed.extend(self.number.to_be_bytes());
        let state = self.state(packet, &sealed);
        mask(state, chunks);
        sealed.extend_from_slice(chunks);
        sealed.extend(tag(state, chunks));
        *chunks = sealed;
        Seal::Sealed { flags: 0 }
    }

    fn unprotect(&mut self, packet: &PacketContext, _: u8, value: &mut Vec<u8>) -> bool {
        if value.len() < HEADER + TAG || value[0] >= KEYS {
            return false;
        }
        let received_tag = value.split_off(value.len() - TAG);
        let mut text = value.split_off(HEADER);
        let state = self.state(packet, value);
        let number = u64::from_be_bytes(value[1..].try_into().expect("eight bytes"));
        if tag(state, &text)[..] != received_tag || !self.keys[usize::from(value[0])].take(number) {
            return false;
        }
        self.locked = true;
        mask(state, &mut text);
        *value = text;
        true
    }

    /// An end may be reported by a peer without the association, but not to a side whose peer is
    /// about to restart and needs it for that.
    fn admits(&self, chunk: ChunkType) -> bool {
        let locked = self.locked || self.sealing.restarted.load(Ordering::Relaxed);
        // ERROR for a stale cookie, and the INIT ACK of the INIT that follows.
        let ends = matches!(
            chunk,
            ChunkType::ABORT
                | ChunkType::SHUTDOWN_COMPLETE
                | ChunkType::ERROR
                | ChunkType::INIT_ACK
        );
        let accepted = self.after_restart || !self.sealing.restarts;
        !locked || matches!(chunk, ChunkType::PAD | ChunkType::INIT) || ends && accepted
    }

    fn export(&self, _: Time) -> Option<Vec<u8>> {
        let windows = self.keys.iter().flat_map(|key| [key.highest, key.seen]);
        let words = windows.chain([self.number]);
        let mut state: Vec<u8> = words.flat_map(u64::to_be_bytes).collect();
        let sends_with = self.sends_with.unwrap_or(u8::MAX);
        state.extend([sends_with, self.locked.into(), self.after_restart.into()]);
        Some(state)
    }

    fn restarted(&mut self, _: Time, _: &Offers<'_>) {
        self.after_restart = true;
        self.sends_with = Some(RESTART);
        // The peer restarts its numbering; records from before have another tag.
        self.keys = Default::default();
    }
}
