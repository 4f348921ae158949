//! A protection of chunks for worlds: it changes every byte, notices others' packets and replays, and
//! has several keys. It is of no strength against anybody; what counts here is how the core treats it.
//!
//! ```text
//! | key (1) | record number (8) | chunks, masked | tag (8) |
//! ```
//!
//! Both sides begin in the clear and seal once they are up, as one does whose keys come from a handshake
//! over the association. The first record of the peer ends the clear for it.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carrick_proto::protection::{ChunkProtection, ChunkProtectionOffer, PacketContext, Seal};
use carrick_proto::{AssociationId, ChunkType, Endpoint};
use carrick_wire::ParameterType;

const SEALED: ChunkType = ChunkType(0x41);
const PARAMETER: ParameterType = ParameterType(0x8f06);

/// Keys that both sides have, by number; the last one is for restarts.
pub(crate) const KEYS: u8 = 8;
const RESTART: u8 = KEYS - 1;

const HEADER: usize = 9;
const TAG: usize = 8;

/// What a packet becomes longer by, with the chunk's header and padding.
pub(crate) const SEALED_OVERHEAD: usize = HEADER + TAG + 4 + 3;

/// What the protections of both sides of a world share.
#[derive(Clone, Debug)]
pub(crate) struct Sealing {
    secret: u64,
    /// A side restarts and begins anew.
    restarts: bool,
    /// It has restarted: nothing in the clear is taken any more, but its INIT.
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

    /// What a side offers; `reborn` after it has restarted.
    pub(crate) fn offer(&self, reborn: bool) -> Arc<dyn ChunkProtectionOffer> {
        Arc::new(Offer {
            sealing: self.clone(),
            reborn,
        })
    }

    /// A side forgets everything now.
    pub(crate) fn note_restart(&self) {
        self.restarted.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Offer {
    sealing: Sealing,
    reborn: bool,
}

impl ChunkProtectionOffer for Offer {
    fn chunk_type(&self) -> ChunkType {
        SEALED
    }

    fn parameter_type(&self) -> ParameterType {
        PARAMETER
    }

    fn value(&self) -> Vec<u8> {
        vec![1, 2, 3]
    }

    fn overhead(&self) -> usize {
        HEADER + TAG
    }

    fn accepts(&self, theirs: &[u8]) -> bool {
        theirs == [1, 2, 3]
    }

    fn begin(&self, _: &[u8], _: bool) -> Box<dyn ChunkProtection> {
        Box::new(Protection {
            sealing: self.sealing.clone(),
            keys: [Window::default(); KEYS as usize],
            sends_with: self.reborn.then_some(RESTART),
            locked: self.reborn,
            anew: self.reborn,
            number: 0,
        })
    }
}

/// The records of a key that came.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    highest: u64,
    seen: u64,
}

impl Window {
    /// Whether a record is new; then it is not any more.
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
    /// After the restart.
    anew: bool,
    number: u64,
}

/// Seals what leaves from now on, with this key; with the first one if none is named and none is in
/// use. Whether there is a protection.
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
    /// What the mask and the tag of a record depend on: the secret, the key, its number, and the
    /// header that is not sealed.
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
        let told = value.split_off(value.len() - TAG);
        let mut text = value.split_off(HEADER);
        let state = self.state(packet, value);
        let number = u64::from_be_bytes(value[1..].try_into().expect("eight bytes"));
        if tag(state, &text)[..] != told || !self.keys[usize::from(value[0])].take(number) {
            return false;
        }
        self.locked = true;
        mask(state, &mut text);
        *value = text;
        true
    }

    /// An end may be told by somebody who knows nothing of the association any more, except to a side
    /// whose peer is about to restart and could not do so without it.
    fn admits(&self, chunk: ChunkType) -> bool {
        let locked = self.locked || self.sealing.restarted.load(Ordering::Relaxed);
        // ERROR for a cookie that has gone stale, and the answer to the INIT that follows.
        let ends = matches!(
            chunk,
            ChunkType::ABORT
                | ChunkType::SHUTDOWN_COMPLETE
                | ChunkType::ERROR
                | ChunkType::INIT_ACK
        );
        let believed = self.anew || !self.sealing.restarts;
        !locked || matches!(chunk, ChunkType::PAD | ChunkType::INIT) || ends && believed
    }

    fn restarted(&mut self) {
        self.anew = true;
        self.sends_with = Some(RESTART);
        // The peer counts anew; what it sealed before has another tag.
        self.keys = Default::default();
    }
}
