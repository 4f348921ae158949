//! Packets without a checksum, where the lower layer protects them (RFC 9653).
//!
//! Each side announces in its INIT or INIT ACK whether it accepts packets with a checksum of zero, and
//! the method that detects errors instead. A packet that helps to set up an association, that may
//! belong to none, or that may be looked up by an address in it is sent with a checksum in any case
//! (section 5.2).

use carrick_wire::{ChunkType, Packet};

use super::Association;
use super::state::AssociationState;
use crate::config::AssociationConfig;

impl AssociationConfig {
    /// Returns whether a packet is accepted without a checksum, as announced to the peer. A packet that
    /// sets up an association must have one (section 5.2).
    pub(crate) fn takes_zero_checksum(&self, packet: &Packet<'_>) -> bool {
        let checked = [ChunkType::INIT, ChunkType::COOKIE_ECHO];
        let mut kinds = packet.chunks().map_while(Result::ok).map(|raw| raw.kind);
        self.offered().zero_checksum && !kinds.any(|kind| checked.contains(&kind))
    }
}

impl Association {
    /// Returns whether packets are sent without a checksum. The packet with the COOKIE ECHO is not.
    pub(super) fn omits_checksum(&self) -> bool {
        self.extensions.zero_checksum && !matches!(self.state, AssociationState::CookieEchoed(_))
    }
}
