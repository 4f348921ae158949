//! What is authenticated, with which algorithms and keys.

use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use carrick_wire::{ChunkType, HmacId, SharedKeyId};

/// An endpoint-pair shared key: both sides have it under the same identifier.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey {
    /// The name of the key in AUTH chunks.
    pub id: SharedKeyId,
    /// The key, of any length; empty is the null key.
    pub secret: Bytes,
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A secret has no place in a log.
        write!(f, "SharedKey({})", self.id)
    }
}

/// Parameters of authentication (RFC 4895); they count where
/// [`crate::Extensions::authentication`] is offered.
#[derive(Clone, Debug)]
pub struct AuthenticationConfig {
    /// The algorithms that the peer is asked to use, most wanted first. SHA-1 must be among them
    /// (section 3.3); no other than SHA-1 and SHA-256 is known.
    pub algorithms: Vec<HmacId>,
    /// Chunk types that are taken from the peer only when they are authenticated. INIT, INIT ACK,
    /// SHUTDOWN COMPLETE and AUTH can't be among them (section 3.2). ASCONF and ASCONF-ACK are by
    /// themselves, where dynamic addresses are offered.
    ///
    /// With COOKIE ECHO, a peer that lost its keys can't restart (section 6.3).
    pub required: Vec<ChunkType>,
    /// Endpoint-pair shared keys that associations begin with.
    pub keys: Vec<SharedKey>,
    /// The key that is used for sending at first: one of `keys`, or 0 for the null key.
    pub active: SharedKeyId,
    /// Whether key 0 is there with an empty secret, unless `keys` has another one of that number.
    /// An endpoint that relies on its keys turns it off: who saw the set-up knows the null key
    /// (section 9).
    pub null_key: bool,
}

impl Default for AuthenticationConfig {
    fn default() -> Self {
        Self {
            algorithms: alloc::vec![HmacId::SHA_256, HmacId::SHA_1],
            required: Vec::new(),
            keys: Vec::new(),
            active: SharedKeyId(0),
            null_key: true,
        }
    }
}

impl AuthenticationConfig {
    /// Names the first parameter that is out of its range.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let never = [
            ChunkType::INIT,
            ChunkType::INIT_ACK,
            ChunkType::SHUTDOWN_COMPLETE,
            ChunkType::AUTH,
        ];
        let known = |id: &HmacId| id.hmac_len().is_some();
        if !self.algorithms.contains(&HmacId::SHA_1) || !self.algorithms.iter().all(known) {
            return Some("authentication.algorithms: must be SHA-1, or SHA-256 and SHA-1");
        }
        if self.algorithms.len() > 2 {
            return Some("authentication.algorithms: must name each algorithm once");
        }
        if self.required.iter().any(|kind| never.contains(kind)) {
            return Some(
                "authentication.required: must not have INIT, INIT ACK, SHUTDOWN COMPLETE, AUTH",
            );
        }
        if self.keys.len() >= super::keys::MAX_KEYS {
            return Some("authentication.keys: must be fewer than 64");
        }
        let null = self.null_key && self.active == SharedKeyId(0);
        if !null && !self.keys.iter().any(|key| key.id == self.active) {
            return Some("authentication.active: must be one of the keys");
        }
        None
    }
}
