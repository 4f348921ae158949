//! Protection of the chunks behind the common header: what the DTLS chunk
//! (draft-ietf-tsvwg-sctp-dtls-chunk), or anything of its kind, has to be able to do.
//!
//! ```text
//! common header | SACK | DATA | DATA      what the association sends
//! common header | chunk of the protection what is on the wire
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Debug;

use carrick_wire::{ChunkType, CommonHeader, ParameterType};

use crate::route::Route;
use crate::time::Time;

/// Bytes of a negotiation parameter's value at most; a longer one of a peer is not accepted.
pub const MAX_OFFER: usize = 64;

/// Bytes that a protection may take from each packet at most ([`ChunkProtectionOffer::overhead`]).
pub const MAX_OVERHEAD: usize = 200;

/// The packet that is protected or was received.
#[derive(Clone, Copy, Debug)]
pub struct PacketContext {
    /// When.
    pub now: Time,
    /// Ports and verification tag, which are not encrypted.
    pub header: CommonHeader,
    /// The way it takes or came.
    pub route: Route,
}

/// What became of the chunks of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seal {
    /// They are the value of the protection's chunk now, which gets these flags.
    Sealed {
        /// Flags of the chunk.
        flags: u8,
    },
    /// They leave as they are.
    Clear,
    /// The packet must not leave; to the association it is lost.
    Drop,
}

/// What the protection of one association did since it is in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtectionStats {
    /// The type of the chunk that holds the protected ones.
    pub chunk_type: ChunkType,
    /// Packets that left protected.
    pub sealed: u64,
    /// Packets that left in the clear, because the protection let them ([`Seal::Clear`]).
    pub sent_clear: u64,
    /// Packets that must not leave ([`Seal::Drop`]), or became longer than the offer said.
    pub held_back: u64,
    /// Protected packets that were genuine and new.
    pub opened: u64,
    /// Protected packets that were not the peer's, or came before.
    pub forged: u64,
    /// Packets in the clear with a chunk that is only taken protected.
    pub refused_clear: u64,
}

impl ProtectionStats {
    pub(crate) const fn new(chunk_type: ChunkType) -> Self {
        Self {
            chunk_type,
            sealed: 0,
            sent_clear: 0,
            held_back: 0,
            opened: 0,
            forged: 0,
            refused_clear: 0,
        }
    }
}

/// Protects the packets of one association. Its keys are the business of whoever made it: the user
/// reaches it with [`crate::Endpoint::chunk_protection`].
pub trait ChunkProtection: Any + Debug + Send {
    /// Turns the chunks of a packet that leaves into the value of the protection's chunk. One that is
    /// longer than the chunks by more than [`ChunkProtectionOffer::overhead`] is not sent: it would not
    /// fit where the chunks filled the packet.
    fn protect(&mut self, packet: &PacketContext, chunks: &mut Vec<u8>) -> Seal;

    /// Turns the value of a received chunk of the protection into the chunks in it. Returns whether it
    /// is genuine and new; if not, the packet is dropped and counted.
    fn unprotect(&mut self, packet: &PacketContext, flags: u8, value: &mut Vec<u8>) -> bool;

    /// Whether a packet in the clear may hold a chunk of this type. A packet with one that is not
    /// admitted is dropped as a whole and counted.
    fn admits(&self, chunk: ChunkType) -> bool;

    /// The peer has restarted, with a set-up that was admitted or protected.
    fn restarted(&mut self) {}
}

/// What an endpoint offers in its INITs and INIT ACKs. In force where both sides offer the same
/// parameter and like each other's value.
pub trait ChunkProtectionOffer: Debug + Send + Sync {
    /// The type of the chunk that holds the protected ones.
    fn chunk_type(&self) -> ChunkType;

    /// The type of the parameter that tells of it.
    fn parameter_type(&self) -> ParameterType;

    /// The value of the parameter, at most [`MAX_OFFER`] bytes; a longer one is refused where it is
    /// configured.
    fn value(&self) -> Vec<u8>;

    /// Bytes by which the value of the chunk exceeds the chunks in it at most, 0 to [`MAX_OVERHEAD`]; more
    /// is refused where it is configured. They are kept free in every packet from the moment that
    /// both sides have agreed.
    fn overhead(&self) -> usize;

    /// Whether the value of the peer's parameter fits.
    fn accepts(&self, theirs: &[u8]) -> bool;

    /// Whether a set-up with a peer that has no parameter that fits is refused.
    fn is_required(&self) -> bool {
        false
    }

    /// Both sides have agreed. `connects` tells the two sides apart, unless both have connected.
    fn begin(&self, theirs: &[u8], connects: bool) -> Box<dyn ChunkProtection>;
}
