//! Packets without a checksum, where the lower layer protects them (RFC 9653).
//!
//! Each side announces in its INIT or INIT ACK whether it accepts packets with a checksum of zero, and
//! the method that detects errors instead. A packet that helps to set up an association, that may
//! belong to none, or that may be looked up by an address in it is sent with a checksum in any case
//! (section 5.2).

use carrick_wire::{ChunkType, ErrorDetectionMethod, Packet};

use super::Association;
use super::state::AssociationState;
use crate::config::AssociationConfig;

/// Lower layer that carries SCTP packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LowerLayer {
    /// IP or UDP: errors are found by the checksum of SCTP alone.
    #[default]
    Plain,
    /// DTLS (RFC 8261), which discards modified packets. With this setting, the endpoint must be given
    /// only packets of the association that came through DTLS.
    Dtls,
}

portable_enum! { LowerLayer { 0: Plain, 1: Dtls } }

impl LowerLayer {
    /// The method that finds errors in place of the checksum, if there is one (RFC 9653 section 8).
    pub(crate) fn error_detection(self) -> Option<ErrorDetectionMethod> {
        match self {
            Self::Plain => None,
            Self::Dtls => Some(ErrorDetectionMethod::DTLS),
        }
    }
}

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
