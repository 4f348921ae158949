//! Parameters of authentication (RFC 4895).

use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use carrick_wire::{ChunkType, HmacId, SharedKeyId};

/// Endpoint-pair shared key, which both sides have under the same identifier (RFC 4895, section 3.1).
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey {
    /// Shared key identifier in AUTH chunks.
    pub id: SharedKeyId,
    /// Secret of any length; the empty one is the null key.
    pub secret: Bytes,
}

portable_struct! { SharedKey { id, secret } }

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Secrets are not logged.
        write!(f, "SharedKey({})", self.id)
    }
}

/// Parameters of authentication (RFC 4895), used if [`Extensions::authentication`](crate::Extensions::authentication) is offered.
#[derive(Clone, Debug)]
pub struct AuthenticationConfig {
    /// HMAC algorithms that the peer may use, in order of preference. SHA-1 is mandatory (RFC 4895,
    /// section 3.3); SHA-256 is the only other one that is supported. Default: SHA-256, SHA-1.
    pub algorithms: Vec<HmacId>,
    /// Chunk types that are accepted from the peer only if they are authenticated. INIT, INIT ACK,
    /// SHUTDOWN COMPLETE and AUTH are not allowed (RFC 4895, section 3.2). ASCONF and ASCONF-ACK are
    /// added if dynamic addresses are offered. Default: none.
    ///
    /// With COOKIE ECHO, a peer that lost its keys can't restart (section 6.3).
    pub required: Vec<ChunkType>,
    /// Initial endpoint-pair shared keys, fewer than 64. Default: none.
    pub keys: Vec<SharedKey>,
    /// Identifier of the key that is used for sending at first: one of `keys`, or 0, the default, for the
    /// null key.
    pub active: SharedKeyId,
    /// Adds the null key with identifier 0, unless `keys` has a key 0. Disable it if authentication has to
    /// rely on secret keys: an attacker who saw the set-up can compute the association key of the null key
    /// (RFC 4895, section 9). Default: `true`.
    pub null_key: bool,
}

portable_struct! { AuthenticationConfig { algorithms, required, keys, active, null_key } }

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
    /// Returns the first parameter that is out of its range.
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
