//! Packets without a checksum, where the lower layer protects them (RFC 9653).
//!
//! Each side tells in its INIT or INIT ACK whether it takes packets with a checksum of zero, and by
//! which method their errors are found instead. A packet that helps to set up an association, that
//! may belong to none, or that may be looked up by an address in it leaves with a checksum in any
//! case (section 5.2).

use carrick_wire::{ChunkType, ErrorDetectionMethod, Packet};

use super::Association;
use super::state::State;
use crate::config::AssociationConfig;

/// What carries SCTP packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LowerLayer {
    /// IP or UDP: errors are found by the checksum of SCTP alone.
    #[default]
    Plain,
    /// DTLS (RFC 8261), which lets no changed packet through. Whoever sets this must give the
    /// endpoint no packet for the association that came another way.
    Dtls,
}

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
    /// Whether a packet may come without a checksum: the peer is told so. The one that sets up an
    /// association has to have it (section 5.2).
    pub(crate) fn takes_zero_checksum(&self, packet: &Packet<'_>) -> bool {
        let checked = [ChunkType::INIT, ChunkType::COOKIE_ECHO];
        let mut kinds = packet.chunks().map_while(Result::ok).map(|raw| raw.kind);
        self.offered().zero_checksum && !kinds.any(|kind| checked.contains(&kind))
    }
}

impl Association {
    /// Whether packets go without a checksum now. The one with the COOKIE ECHO does not.
    pub(super) fn omits_checksum(&self) -> bool {
        self.extensions.zero_checksum && !matches!(self.state, State::CookieEchoed(_))
    }
}
